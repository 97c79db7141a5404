//! Payloads of sets, exchanged with Redis by DUMP and RESTORE, and damaged ones.

use super::dumps::checksum;
use super::oracle::Arena;
use super::script::{Differences, words};
use crate::harness::TestServer;

/// Exchanges sets of all encodings with Redis by DUMP and RESTORE.
#[test]
fn dumps_of_sets_are_restored_by_the_other_server() {
    let Some(arena) = Arena::open() else { return };
    let mut pair = arena.pair();
    let members = |count: usize| (0..count).map(|number| format!("member:{number}:{}", "x".repeat(number % 70)));
    let sets: Vec<Vec<String>> = vec![
        vec!["one".into()],
        (0..100).map(|number| (number * number * number).to_string()).collect(),
        (0..1000).map(|number: i64| (number << 40).to_string()).collect(),
        members(20).chain(["7".into()]).collect(),
        members(1000).collect(),
    ];
    for (at, members) in sets.iter().enumerate() {
        let command: Vec<Vec<u8>> =
            ["SADD", "s"].into_iter().chain(members.iter().map(String::as_str)).map(|word| word.into()).collect();
        assert!(pair.call(&command).agree());
        let [digest, dumps] = ["DEBUG DIGEST-VALUE s", "DUMP s"].map(|line| pair.call(&words(line)));
        assert!(digest.agree(), "set {at}");
        let ours = payload(&dumps.keylatch.expect("a dump"));
        let theirs = payload(&dumps.redis.expect("a dump"));
        for (key, dump) in [("ours", ours), ("theirs", theirs)] {
            let restored = pair.call(&[&b"RESTORE"[..], key.as_bytes(), b"0", &dump, b"REPLACE"]);
            assert!(restored.agree(), "set {at}: {}", restored.shown());
            let digests = pair.call(&["DEBUG", "DIGEST-VALUE", key]);
            assert!(digests.agree() && digests.keylatch == digest.keylatch, "set {at}: {}", digests.shown());
            assert!(pair.call(&["SCARD", key]).agree());
        }
        pair.call(&["DEL", "s"]);
    }
}

/// Compares rejections of payloads that violate the format; payloads that Redis accepts must be accepted.
#[test]
fn damaged_dumps_of_sets_are_refused_as_by_redis() {
    let Some(arena) = Arena::open() else { return };
    let (mut pair, mut found) = (arena.pair(), Differences::default());
    let intset = |width: u8, count: u8, body: &[u8]| {
        [&[11, 8 + body.len() as u8, width, 0, 0, 0, count, 0, 0, 0], body].concat()
    };
    let mut bodies: Vec<Vec<u8>> = vec![
        vec![2],
        vec![2, 0],
        vec![2, 1],
        vec![2, 1, 1],
        b"\x02\x01\x01a".to_vec(),
        b"\x02\x02\x01a\x01a".to_vec(),
        b"\x02\x02\x011\xc0\x01".to_vec(),
        b"\x02\x03\x011\x01a\x011".to_vec(),
        b"\x02\x02\x011\xc0\x02".to_vec(),
        b"\x02\x03\x01a\x01b".to_vec(),
        b"\x02\x80\x00\x10\x00\x00\x01a".to_vec(),
        b"\x02\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01a".to_vec(),
        vec![11],
        vec![11, 0],
        intset(2, 0, &[]),
        intset(2, 1, &[5, 0]),
        intset(2, 2, &[5, 0]),
        intset(2, 2, &[5, 0, 6, 0]),
        intset(4, 1, &[5, 0, 0, 0]),
        intset(3, 1, &[5, 0, 0]),
        intset(0, 1, &[]),
        intset(2, 1, &[5, 0, 0]),
    ];
    let many = (0..200_u8).flat_map(|number| [0xc1, number, 7]);
    bodies.push([2, 0x40, 200].into_iter().chain(many).collect());
    for body in bodies {
        let mut payload = [&body[..], &[10, 0]].concat();
        payload.extend(checksum(&payload).to_le_bytes());
        for call in [&[&b"RESTORE"[..], b"k", b"0", &payload, b"REPLACE"][..], &[b"DEBUG", b"DIGEST-VALUE", b"k"]] {
            let replies = pair.call(call);
            if !replies.agree() {
                found.add(&body.escape_ascii().to_string(), &replies);
            }
        }
        pair.call(&["DEL", "k"]);
    }
    found.report();
}

/// Covers a size for which redis-server makes as many buckets, and frees them by looking for the only member in all of
/// them, for up to a minute.
#[test]
fn a_set_that_claims_four_billion_members_and_has_one_is_refused() {
    let server = TestServer::start();
    let mut payload = b"\x02\x80\xff\xff\xff\xff\x01a\x0a\0".to_vec();
    payload.extend(checksum(&payload).to_le_bytes());
    let reply = server.client().call_args(&[&b"RESTORE"[..], b"k", b"0", &payload]);
    assert_eq!(reply, "-ERR Bad data format");
}

/// Covers a listpack, which Redis writes since 7.2.
#[test]
fn listpacks_of_sets_are_restored_and_checked() {
    let server = TestServer::start();
    let mut client = server.client();
    let members = "*3 $1 a $1 5 $1 b";
    let mut restore = |elements: &[&[u8]], count: u8| {
        let elements = elements.concat();
        let listpack = [&[elements.len() as u8 + 7, 0, 0, 0, count, 0], &elements[..], &[0xff]].concat();
        let mut payload = [&[20, listpack.len() as u8], &listpack[..], &[11, 0]].concat();
        payload.extend(checksum(&payload).to_le_bytes());
        client.call_args(&[&b"RESTORE"[..], b"k", b"0", &payload, b"REPLACE"])
    };
    let (a, b, five, text_five) = (&b"\x81a\x02"[..], &b"\x81b\x02"[..], &b"\x05\x01"[..], &b"\x815\x02"[..]);
    for (elements, count) in [
        (&[][..], 0),
        (&[a, a], 2),
        (&[a, five, five], 3),
        (&[text_five, five], 2),
        (&[a, b], 3),
        (&[a, b], 1),
        (&[a, b"\x81"], 2),
        (&[a, b"\x81b\x03"], 2),
    ] {
        assert_eq!(restore(elements, count), "-ERR Bad data format", "{elements:?} {count}");
    }
    // As Redis does with sanitize-dump-payload.
    for body in [b"\x0b\x0c\x02\0\0\0\x02\0\0\0\x05\0\x05\0", b"\x0b\x0c\x02\0\0\0\x02\0\0\0\x06\0\x05\0"] {
        let mut payload = [&body[..], &[10, 0]].concat();
        payload.extend(checksum(&payload).to_le_bytes());
        let reply = server.client().call_args(&[&b"RESTORE"[..], b"k", b"0", &payload]);
        assert_eq!(reply, "-ERR Bad data format", "integers ascend");
    }
    for integer in [five, text_five] {
        assert_eq!(restore(&[a, integer, b], 3), "+OK");
        assert_eq!(server.client().call("SMEMBERS k"), members);
        assert_eq!(server.client().call("SISMEMBER k 5"), ":1");
    }
    let mut client = server.client();
    assert_eq!(client.call("OBJECT ENCODING k"), "$8 listpack");
    client.call("CONFIG SET set-max-listpack-entries 2");
    assert_eq!(client.call("COPY k l"), ":1");
    assert_eq!(client.call("OBJECT ENCODING l"), "$8 listpack");
    let dump = client.frame(&["DUMP", "k"]);
    client.call_args(&[&b"RESTORE"[..], b"m", b"0", dump.as_bytes().expect("a dump")]);
    assert_eq!(client.call("OBJECT ENCODING m"), "$9 hashtable");
}

/// Returns the content of a bulk string.
fn payload(reply: &[u8]) -> Vec<u8> {
    let start = reply.iter().position(|byte| *byte == b'\n').expect("the end of a line") + 1;
    reply[start..reply.len() - 2].to_vec()
}
