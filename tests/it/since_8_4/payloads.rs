//! Payloads and files of Redis 8.6 to 8.10.

use std::process::Command;

use keylatch::internals::rdb;
use keylatch::internals::resp::Frame;

use crate::files::{dir, start_in};
use crate::harness::{Client, TestServer};
use crate::process::binary;

fn dump(client: &mut Client, key: &str) -> Vec<u8> {
    let Frame::Bulk(dump) = client.frame(&["DUMP", key]) else { panic!("{key} has no dump") };
    dump.to_vec()
}

fn restore(client: &mut Client, key: &str, body: &[u8], version: u16) -> String {
    client.call_args(&[&b"RESTORE"[..], key.as_bytes(), b"0", &rdb::seal(body.to_vec(), version), b"REPLACE"])
}

/// Returns a stream with the entries 1-1 and 1-2, and an empty group, as Redis 7.0 dumps it, up to the pending entries.
fn stream_body(client: &mut Client) -> Vec<u8> {
    client.expect(&[
        ("DEL s", ":0"),
        ("XADD s 1-1 f v", "$3 1-1"),
        ("XADD s 1-2 f v", "$3 1-2"),
        ("XGROUP CREATE s g 1-2", "+OK"),
    ]);
    let body = dump(client, "s");
    assert_eq!(body[0], 19);
    assert!(body[..body.len() - 10].ends_with(b"\0\0"), "no pending entries, no consumers");
    body[..body.len() - 12].to_vec()
}

const ID_1: &[u8] = b"\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01";
const ID_2: &[u8] = b"\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02";
/// The producers of a new stream of Redis: 100 seconds, 100 names, none, no totals.
const NONE: &[u8] = b"\x40\x64\x40\x64\0\0\0";
/// 5 seconds, 7 names, two producers with one and two names, totals.
const SOME: &[u8] = b"\x05\x07\x02\x01p\x01\x01n\x01\x01\x01q\x02\x01n\x01\x01\xc0\x05\x01\x02\x09\x08";

#[test]
fn streams_of_redis_8_6_and_8_8_are_restored_with_all_that_they_have() {
    let server = TestServer::start();
    let mut client = server.client();
    let start = stream_body(&mut client);
    let body = |kind: u8, parts: &[&[u8]]| [&[kind], &start[1..], &parts.concat()].concat();
    // Redis 8.6 writes every stream so.
    assert_eq!(restore(&mut client, "plain", &body(26, &[b"\0\0", NONE]), 13), "+OK");
    assert_eq!(dump(&mut client, "plain"), dump(&mut client, "s"), "the lowest version that expresses it");
    let eight = body(26, &[b"\x01", ID_1, &[7; 8], b"\x03\x01\x05alice", &[1; 8], &[2; 8], b"\x01", ID_1, SOME]);
    assert_eq!(restore(&mut client, "s", &eight, 13), "+OK");
    assert_eq!(dump(&mut client, "s"), rdb::seal(eight.clone(), 13));
    let info = client.call("XINFO STREAM s");
    let expected = "idmp-duration :5 $12 idmp-maxsize :7 $12 pids-tracked :2 $12 iids-tracked :3 $10 iids-added :9 $15 \
                    iids-duplicates :8";
    assert!(info.contains(expected), "{info}");
    // Pending entries without a consumer, the later one released first; and a consumer with an empty name.
    let pending = [&b"\x02"[..], ID_1, &[0; 8], b"\x03", ID_2, &[0; 8], b"\x09"].concat();
    let nacked = body(27, &[&pending, b"\x01\0", &[1; 8], &[2; 8], b"\0\x02", ID_2, ID_1, NONE]);
    assert_eq!(restore(&mut client, "s", &nacked, 14), "+OK");
    assert_eq!(dump(&mut client, "s"), rdb::seal(nacked, 14));
    client.expect(&[
        ("XPENDING s g - + 9", "*2 *4 $3 1-1 $0  :-1 :3 *4 $3 1-2 $0  :-1 :9"),
        ("XAUTOCLAIM s g bob 0 0 COUNT 9 JUSTID", "*3 $3 0-0 *2 $3 1-1 $3 1-2 *0"),
    ]);
    assert!(client.call("XINFO CONSUMERS s g").starts_with("*2 "));
    let owned = [&b"\x01"[..], ID_1, &[0; 8], b"\x03\x01\x01c", &[1; 8], &[2; 8], b"\x01", ID_1].concat();
    for (damage, parts) in [
        ("0 seconds", [&b"\0\0"[..], b"\0\x07\0\0\0", b""]),
        ("too many seconds", [b"\0\0", b"\x80\0\x01\x51\x81\x07\0\0\0", b""]),
        ("too many names", [b"\0\0", b"\x05\x67\x11\0\0\0", b""]),
        ("a name twice", [b"\0\0", b"\x05\x07\x01\x01p\x02\x01n\x01\x01\x01n\x01\x02\0\0", b""]),
        ("an excessive total", [b"\0\0", b"\x05\x07\0\0\x81\xff\xff\xff\xff\xff\xff\xff\xff", b""]),
        ("nobody's entry", [b"\x01", ID_1, b"\0\0\0\0\0\0\0\0\x01\0\x05\x07\0\0\0"]),
    ] {
        assert_eq!(restore(&mut client, "bad", &body(26, &parts), 13), "-ERR Bad data format", "{damage}");
    }
    for (damage, parts) in
        [("an owned entry", [&owned[..], b"\x01", ID_1, NONE]), ("an unknown entry", [b"\0\0", b"\x01", ID_1, NONE])]
    {
        assert_eq!(restore(&mut client, "bad", &body(27, &parts), 14), "-ERR Bad data format", "{damage}");
    }
    client.expect(&[("EXISTS bad", ":0")]);
}

#[test]
fn hashes_that_share_the_names_of_their_fields_are_restored_as_plain_ones() {
    let server = TestServer::start();
    let mut client = server.client();
    let names: &[u8] = b"\0\x10\x10\0\0\0\x03\0\x05\x01\x81a\x02\x82bb\x03\xff";
    let values: &[u8] = b"\x12\x12\0\0\0\x04\0\x07\x01\x82v1\x03\x09\x01\x81z\x02\xff";
    let strings: &[u8] = b"\x01\x03\xc0\x05\x01a\x02bb";
    let array: &[u8] = b"\x02v1\xc0\x09\x01z";
    for (body, what) in [
        ([&[29], names, values].concat(), "names and values in listpacks"),
        ([&[29], strings, values].concat(), "names as strings, values in a listpack"),
        ([&[31], names, array].concat(), "names in a listpack, values as strings"),
        ([&[31], strings, array].concat(), "names and values as strings"),
    ] {
        assert_eq!(restore(&mut client, "h", &body, 15), "+OK", "{what}");
        client.expect(&[
            ("HMGET h 5 a bb", "*3 $2 v1 $1 9 $1 z"),
            ("HLEN h", ":3"),
            ("OBJECT ENCODING h", "$8 listpack"),
        ]);
        // What Redis 8.10 sends to replicas has no checksum.
        let unsummed = [&body[..], &[15, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(client.call_args(&[&b"RESTORE"[..], b"h", b"0", &unsummed, b"REPLACE"]), "+OK");
    }
    let unsummed = b"\0\x01v\x0e\0\0\0\0\0\0\0\0\0";
    let refusal = "-ERR DUMP payload version or checksum are wrong";
    assert_eq!(client.call_args(&[&b"RESTORE"[..], b"k", b"0", unsummed]), refusal, "version 14");
    for body in [&b"\x1f\x02\x01\x01a\x01v"[..], b"\x1f\x01\0", b"\x1f\x01\x02\x01a\x01a\x01v\x01v"] {
        assert_eq!(restore(&mut client, "bad", body, 15), "-ERR Bad data format");
    }
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let server = TestServer::start();
    let mut client = server.client();
    for (kind, name) in [
        (28, "an array of Redis 8.8"),
        (30, "a hash as in files of Redis 8.10"),
        (32, "a hash as in files of Redis 8.10"),
        (33, "a rate limit of Redis 8.8"),
    ] {
        let reply = restore(&mut client, "k", &[kind, 1, 0, 1, 1, b'v'], 15);
        assert_eq!(reply, format!("-ERR Bad data format: a value of type {kind} ({name}), which is not supported"));
    }
    assert_eq!(restore(&mut client, "k", b"\x22\x01", 15), "-ERR Bad data format");
    assert_eq!(restore(&mut client, "k", b"\0\x01v", 15), "+OK");
    assert_eq!(restore(&mut client, "k", b"\0\x01w", 16), "-ERR DUMP payload version or checksum are wrong");
    // Metadata of modules: of a class "KMT1" that may be ignored, and of one that may not.
    assert_eq!(restore(&mut client, "k", b"\xf3\x01\x01\xf5\xc4\x28\x05\x04text\0\0\x01w", 13), "+OK");
    client.expect(&[("GET k", "$1 w")]);
    let reply = restore(&mut client, "k", b"\xf3\x01\0\xf5\xc4\x28\x05\x04text\0\0\x01x", 13);
    let refusal = "-ERR Bad data format: key metadata of modules, of the class \"KMT1\", which is not supported";
    assert_eq!(reply, refusal);
    client.expect(&[("GET k", "$1 w")]);
}

#[test]
fn a_file_has_what_newer_versions_of_redis_keep_in_streams_if_that_is_set() {
    let dir = dir();
    let path = dir.path().join("dump.rdb");
    let server = start_in(dir.path(), &[]);
    let mut client = server.client();
    client.call("XADD s IDMP p n * f v");
    client.expect(&[("XADD t 1-1 f v", "$3 1-1"), ("XGROUP CREATE t g $", "+OK")]);
    client.expect(&[("XNACK t g FAIL IDS 1 1-1 FORCE", ":1")]);
    let info = client.call("XINFO STREAM s");
    client.expect(&[("SAVE", "+OK")]);
    server.end();
    for (version, header, has_both) in
        [("0", "REDIS0010", false), ("12", "REDIS0012", false), ("13", "REDIS0013", false), ("14", "REDIS0014", true)]
    {
        let server = start_in(dir.path(), &[]);
        let mut client = server.client();
        client.expect(&[
            ("CONFIG SET rdb-version 14", "+OK"),
            (&format!("CONFIG SET rdb-version {version}"), "+OK"),
            ("SAVE", "+OK"),
        ]);
        let file = std::fs::read(&path).expect("a file");
        assert!(file.starts_with(header.as_bytes()), "{version}");
        let has = |bytes: &[u8]| file.windows(bytes.len()).any(|window| window == bytes);
        assert_eq!((has(b"\x1a\x01s"), has(b"\x1b\x01t")), (version >= "13", has_both), "{version}");
        assert_eq!(has(b"keylatch-producers"), version < "13", "{version}");
        server.end();
        let server = start_in(dir.path(), &[]);
        let mut client = server.client();
        assert_eq!(client.call("XINFO STREAM s"), info, "{version}");
        client.expect(&[("XPENDING t g - + 9", "*1 *4 $3 1-1 $0  :-1 :0"), ("DBSIZE", ":2")]);
        server.end();
    }
}

#[test]
fn a_file_with_a_type_that_is_not_supported_is_refused_and_left_alone() {
    let dir = dir();
    let (path, name) = (dir.path().join("dump.rdb"), dir.path().to_str().expect("text"));
    let file = [&b"REDIS0015\0\x01k\x01v\x1c\x01a\x01\0\x01\x01\x01v\xff"[..], &[0; 8]].concat();
    std::fs::write(&path, &file).expect("a file");
    let output = Command::new(binary()).args(["--port", "0", "--dir", name]).output().expect("the binary starts");
    let log = String::from_utf8_lossy(&output.stderr);
    let refusal = "A value of type 28 (an array of Redis 8.8), which is not supported, at byte 14 of the RDB file";
    assert!(log.contains(refusal), "{log}");
    assert_eq!((output.status.code(), std::fs::read(&path).expect("a file")), (Some(1), file));
}
