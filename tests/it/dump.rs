//! DUMP and RESTORE: values with their TTL and LFU or LRU data.

use crate::harness::{Client, TestServer};
use keylatch::internals::resp::Frame;

fn dump(client: &mut Client, key: &str) -> Vec<u8> {
    match client.frame(&["DUMP", key]) {
        Frame::Bulk(payload) => payload.to_vec(),
        other => panic!("a dump, not {other:?}"),
    }
}

fn restore(client: &mut Client, key: &str, ttl: &str, payload: &[u8], options: &str) -> String {
    let mut words: Vec<&[u8]> = vec![b"RESTORE", key.as_bytes(), ttl.as_bytes(), payload];
    words.extend(options.split_whitespace().map(str::as_bytes));
    client.call_args(&words)
}

#[test]
fn every_length_of_string_is_restored_as_it_was() {
    let server = TestServer::start();
    let mut client = server.client();
    for len in [0, 1, 11, 20, 21, 63, 64, 300, 16_383, 16_384, 70_000, 1_000_000] {
        for filler in [|_: usize| b'x', |at: usize| b'a' + (at * at % 23) as u8, |at: usize| (at * 7 % 251) as u8] {
            let value: Vec<u8> = (0..len).map(filler).collect();
            assert_eq!(client.call_args(&[&b"SET"[..], b"k", &value]), "+OK");
            let payload = dump(&mut client, "k");
            assert_eq!(restore(&mut client, "copy", "0", &payload, "REPLACE"), "+OK");
            assert_eq!(client.frame(&["GET", "copy"]), Frame::Bulk(value.into()));
        }
    }
    client.expect(&[("DUMP missing", "$-1"), ("OBJECT ENCODING copy", "$3 raw")]);
}

#[test]
fn a_restored_key_expires_at_its_deadline() {
    let server = TestServer::start();
    let mut client = server.client();
    client.call("SET k v");
    let payload = dump(&mut client, "k");
    assert_eq!(restore(&mut client, "relative", "1000", &payload, ""), "+OK");
    let wall_ms = server.server().namespace().clock.now().wall_ms();
    assert_eq!(restore(&mut client, "absolute", &(wall_ms + 1000).to_string(), &payload, "ABSTTL"), "+OK");
    client.expect(&[("PTTL relative", ":1000"), ("PTTL absolute", ":1000")]);
    // The date is set forward: only absolute deadlines come closer.
    server.server().set_wall_ms(wall_ms + 600);
    client.expect(&[("PTTL relative", ":1000"), ("PTTL absolute", ":400")]);
    server.advance_ms(999);
    client.expect(&[("EXISTS relative absolute", ":1")]);
    server.advance_ms(1);
    client.expect(&[("EXISTS relative absolute", ":0")]);
}

#[test]
fn what_is_known_of_a_keys_use_travels_with_it() {
    let server = TestServer::start();
    let mut client = server.client();
    client.call("SET k v");
    let payload = dump(&mut client, "k");
    for idle in ["0", "1000", "1000000"] {
        assert_eq!(restore(&mut client, "idle", "0", &payload, &format!("REPLACE IDLETIME {idle}")), "+OK");
        client.expect(&[("OBJECT IDLETIME idle", &format!(":{idle}"))]);
    }
    assert_eq!(restore(&mut client, "idle", "0", &payload, "REPLACE FREQ 100"), "+OK");
    client.expect(&[("OBJECT IDLETIME idle", ":0"), ("CONFIG SET maxmemory-policy allkeys-lfu", "+OK")]);
    assert_eq!(restore(&mut client, "often", "0", &payload, "FREQ 100"), "+OK");
    client.expect(&[("OBJECT FREQ often", ":100")]);
    server.advance_ms(600_000);
    client.expect(&[
        ("OBJECT FREQ often", ":90"),
        ("CONFIG SET lfu-decay-time 0", "+OK"),
        ("OBJECT FREQ often", ":100"),
    ]);
}

#[test]
fn a_reload_gives_values_the_encodings_of_their_present_sizes() {
    let server = TestServer::start_with(&[("list-max-listpack-size", "3"), ("enable-debug-command", "yes")]);
    let mut client = server.client();
    client.expect(&[
        ("RPUSH l a b c d", ":4"),
        ("SADD s 1 2 x", ":3"),
        ("ZADD z 1.5 a 2 b", ":2"),
        ("HSET h a 1 b 2", ":2"),
        ("HPEXPIRE h 100000 FIELDS 1 a", "*1 :1"),
        ("XADD x 1-1 f v", "$3 1-1"),
        ("XGROUP CREATE x g 0", "+OK"),
        ("XREADGROUP GROUP g c STREAMS x >", "*1 *2 $1 x *1 *2 $3 1-1 *2 $1 f $1 v"),
        ("SET t v PX 100000", "+OK"),
        ("SELECT 3", "+OK"),
        ("SET other v", "+OK"),
        ("SELECT 0", "+OK"),
        ("RPOP l", "$1 d"),
        ("OBJECT ENCODING l", "$9 quicklist"),
    ]);
    let digest = client.call("DEBUG DIGEST");
    assert_eq!(client.call("DEBUG RELOAD"), "+OK");
    assert_eq!(client.call("DEBUG DIGEST"), digest);
    client.expect(&[
        ("OBJECT ENCODING l", "$8 listpack"),
        ("PTTL t", ":100000"),
        ("HPTTL h FIELDS 2 a b", "*2 :100000 :-1"),
        ("XPENDING x g", "*4 :1 $3 1-1 $3 1-1 *1 *2 $1 c $1 1"),
        ("DEBUG RELOAD NOSAVE", "-ERR Error trying to load the RDB dump"),
    ]);
    server.advance_ms(100_000);
    client.expect(&[("EXISTS t", ":0"), ("HEXISTS h a", ":0")]);
}

#[test]
fn a_restored_value_of_any_form_expires_at_its_deadline() {
    let server = TestServer::start();
    let mut client = server.client();
    let large = "x".repeat(100);
    for request in [
        "RPUSH list a".to_owned(),
        "SADD ints 1".to_owned(),
        "SADD set a".to_owned(),
        "ZADD zset 1 a".to_owned(),
        format!("ZADD zset:big 1 {large}"),
        "HSET hash f v".to_owned(),
        "HSET hash:timed f v g w".to_owned(),
        format!("HSET hash:big f {large}"),
        format!("HSET hash:big:timed f {large} g v"),
        "XADD stream 1-1 f v".to_owned(),
    ] {
        let key = request.split(' ').nth(1).expect("a key");
        client.call(&request);
        if key.ends_with("timed") {
            client.expect(&[(&format!("HPEXPIRE {key} 5000 FIELDS 1 f"), "*1 :1")]);
        }
        let payload = dump(&mut client, key);
        assert_eq!(restore(&mut client, "copy", "1000", &payload, "REPLACE"), "+OK");
        assert_eq!(client.call("PTTL copy"), ":1000", "{key}");
    }
    server.advance_ms(1000);
    client.expect(&[("EXISTS copy", ":0")]);
}

#[test]
fn the_times_of_consumers_are_restored() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("XADD s 1-1 f v", "$3 1-1"), ("XGROUP CREATE s g 0", "+OK")]);
    assert!(client.call("XREADGROUP GROUP g c STREAMS s >").starts_with("*1 "));
    server.advance_ms(300);
    client.expect(&[("XREADGROUP GROUP g c STREAMS s >", "*-1")]);
    server.advance_ms(100);
    let shown = "*1 *8 $4 name $1 c $7 pending :1 $4 idle :100 $8 inactive :400";
    client.expect(&[("XINFO CONSUMERS s g", shown)]);
    let payload = dump(&mut client, "s");
    assert_eq!(restore(&mut client, "copy", "0", &payload, ""), "+OK");
    client.expect(&[("XINFO CONSUMERS copy g", shown)]);
}

#[test]
fn a_field_with_a_deadline_out_of_range_is_bad_data() {
    const END_MS: i64 = 1 << 48;
    let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
    let mut client = server.client();
    client.expect(&[("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1", "+OK")]);
    client.call(&format!("HSET h f {}", "x".repeat(100)));
    client.expect(&[("HPEXPIRE h 5000 FIELDS 1 f", "*1 :1")]);
    let mut payload = dump(&mut client, "h");
    for (at_ms, reply) in [
        (END_MS, "-ERR Bad data format"),
        (0, "-ERR Bad data format"),
        (-1, "-ERR Bad data format"),
        (i64::MAX, "-ERR Bad data format"),
        (END_MS - 1, "+OK"),
    ] {
        // The earliest deadline follows the type, and the only deadline is relative to it.
        payload[1..9].copy_from_slice(&at_ms.to_le_bytes());
        assert_eq!(restore(&mut client, "copy", "0", &payload, ""), reply, "{at_ms}");
    }
    client.expect(&[("HPEXPIRETIME copy FIELDS 1 f", &format!("*1 :{}", END_MS - 1))]);
}

#[test]
fn a_restored_collection_is_packed_only_within_the_limits() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SADD ints 1 2 3", ":3"), ("ZADD zset 1 a 2 b 3 c", ":3"), ("HSET hash a 1 b 2 c 3", ":3")]);
    let payloads = ["ints", "zset", "hash"].map(|key| dump(&mut client, key));
    for (most, encodings) in [("3", ["intset", "listpack", "listpack"]), ("2", ["hashtable", "skiplist", "hashtable"])]
    {
        for name in ["set-max-intset-entries", "set-max-listpack-entries", "zset-max-listpack-entries"] {
            client.expect(&[(&format!("CONFIG SET {name} {most}"), "+OK")]);
        }
        client.expect(&[(&format!("CONFIG SET hash-max-listpack-entries {most}"), "+OK")]);
        for (payload, encoding) in payloads.iter().zip(encodings) {
            assert_eq!(restore(&mut client, "copy", "0", payload, "REPLACE"), "+OK");
            assert_eq!(client.call("OBJECT ENCODING copy"), format!("${} {encoding}", encoding.len()), "{most}");
        }
    }
}

#[test]
fn a_stream_whose_last_id_is_before_one_of_its_entries_is_bad_data() {
    let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
    let mut client = server.client();
    client.expect(&[("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1", "+OK"), ("XADD s 5-1 f v", "$3 5-1")]);
    let mut payload = dump(&mut client, "s");
    // The last ID, the first, the largest deleted one, the number of entries added, groups; version and checksum.
    let last_ms = payload.len() - (2 + 2 + 2 + 1 + 1 + 10);
    for (ms, reply) in [(6, "+OK"), (5, "+OK"), (4, "-ERR Bad data format")] {
        payload[last_ms] = ms;
        assert_eq!(restore(&mut client, "copy", "0", &payload, "REPLACE"), reply, "{ms}");
    }
}

/// Returns the format version in a payload.
fn version(payload: &[u8]) -> u8 {
    payload[payload.len() - 10]
}

#[test]
fn a_payload_names_the_first_version_that_has_its_form() {
    let server = TestServer::start();
    let mut client = server.client();
    let large = "x".repeat(100);
    for key in ["packed", "large"] {
        let value = if key == "packed" { "v" } else { &large };
        client.call(&format!("HSET {key} f {value}"));
        let before = version(&dump(&mut client, key));
        client.expect(&[(&format!("HPEXPIRE {key} 5000 FIELDS 1 f"), "*1 :1")]);
        assert_eq!((before, version(&dump(&mut client, key))), (10, 12), "{key}");
    }
    client.expect(&[("XADD s 1-1 f v", "$3 1-1"), ("XGROUP CREATE s g 0", "+OK")]);
    client.expect(&[("XREADGROUP GROUP g c STREAMS s >", "*1 *2 $1 s *1 *2 $3 1-1 *2 $1 f $1 v")]);
    assert_eq!(version(&dump(&mut client, "s")), 10);
    server.advance_ms(1);
    client.expect(&[("XREADGROUP GROUP g c STREAMS s >", "*-1")]);
    assert_eq!(version(&dump(&mut client, "s")), 11);
}

#[test]
fn a_set_that_has_a_member_twice_is_bad_data() {
    let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
    let mut client = server.client();
    client.expect(&[("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1", "+OK"), ("SADD s aa ab", ":2")]);
    let mut payload = dump(&mut client, "s");
    assert_eq!(restore(&mut client, "copy", "0", &payload, ""), "+OK");
    let second = payload.windows(2).position(|text| text == b"ab").expect("the member");
    payload[second + 1] = b'a';
    assert_eq!(restore(&mut client, "other", "0", &payload, ""), "-ERR Bad data format");
}

#[test]
fn a_stream_whose_nodes_are_not_in_order_is_bad_data() {
    let server = TestServer::start_with(&[("enable-debug-command", "yes"), ("rdbcompression", "no")]);
    let mut client = server.client();
    client.expect(&[("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1", "+OK"), ("CONFIG SET stream-node-max-entries 1", "+OK")]);
    client.expect(&[("XADD s 1-1 f v", "$3 1-1"), ("XADD s 2-1 f v", "$3 2-1")]);
    let mut payload = dump(&mut client, "s");
    assert_eq!(restore(&mut client, "copy", "0", &payload, ""), "+OK");
    // After the type and the number of nodes, each node begins with its ID as a string of 16 bytes.
    let second_id = [&[16][..], &2_u64.to_be_bytes(), &1_u64.to_be_bytes()].concat();
    let second = payload.windows(17).position(|bytes| *bytes == second_id).expect("the second node");
    let len = second - 2;
    payload[2..2 + 2 * len].rotate_left(len);
    assert_eq!(restore(&mut client, "other", "0", &payload, ""), "-ERR Bad data format");
}
