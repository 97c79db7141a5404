//! Bitmaps, through the socket: cases that the differential tests do not cover.

use crate::harness::{Client, TestServer, encode};

/// Length beyond which strings are not copied into replies.
const LONG: usize = 100_000;

#[test]
fn a_bit_set_behind_a_get_in_the_same_pipeline_does_not_reach_back_into_its_reply() {
    let server = TestServer::start();
    let mut client = server.client();
    assert_eq!(client.call_args(&[&b"SET"[..], b"k", &vec![0; LONG]]), "+OK");
    let calls: [&[&str]; 6] = [
        &["GET", "k"],
        &["SETBIT", "k", "7", "1"],
        &["GET", "k"],
        &["BITFIELD", "k", "SET", "u8", "0", "255"],
        &["BITOP", "NOT", "k", "k"],
        &["GET", "k"],
    ];
    client.send(&calls.iter().flat_map(|call| encode(call)).collect::<Vec<u8>>());
    let first_bytes: Vec<Option<u8>> = calls
        .iter()
        .map(|_| client.read_frame().expect("a reply").as_bytes().and_then(|bytes| bytes.first().copied()))
        .collect();
    assert_eq!(first_bytes, [Some(0), None, Some(1), None, None, Some(0)]);
}

#[test]
fn bits_of_an_expired_key_start_empty_and_without_its_ttl() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("SET k abc PX 10", "+OK"),
        ("SET l abc PX 10", "+OK"),
        ("SET m abc PX 10", "+OK"),
        ("SET n abc", "+OK"),
    ]);
    server.advance_ms(10);
    client.expect(&[
        ("SETBIT k 15 1", ":0"),
        ("STRLEN k", ":2"),
        ("PTTL k", ":-1"),
        ("BITFIELD l GET u8 0 SET u8 8 1", "*2 :0 :0"),
        ("STRLEN l", ":2"),
        ("BITOP AND n m n", ":3"),
        ("BITCOUNT n", ":0"),
        ("DBSIZE", ":3"),
    ]);
}

#[test]
fn a_long_result_takes_the_place_of_a_key_with_its_ttl_and_all_its_memory() {
    let server = TestServer::start();
    let mut client = server.client();
    assert_eq!(client.call_args(&[&b"SET"[..], b"source", &vec![0; LONG]]), "+OK");
    client.expect(&[("SET k v PX 10", "+OK"), ("BITOP NOT k source", ":100000"), ("PTTL k", ":-1")]);
    server.advance_ms(20);
    client.expect(&[("BITCOUNT k", ":800000"), ("DBSIZE", ":2"), ("EXPIRE k 1", ":1")]);
    client.expect(&[("BITOP OR k missing", ":0"), ("DBSIZE", ":1"), ("DEL source", ":1"), ("DBSIZE", ":0")]);
}

#[test]
fn bits_set_one_after_the_other_over_the_border_between_short_and_long_strings_all_stay() {
    let server = TestServer::start();
    let mut client = server.client();
    let step = 997;
    for at in 0..400 {
        assert_eq!(client.int(&format!("SETBIT k {} 1", at * step)), 0);
    }
    assert_eq!(client.int("BITCOUNT k"), 400);
    assert_eq!(client.int("STRLEN k"), 399 * step / 8 + 1);
    for at in 0..400 {
        assert_eq!(client.int(&format!("BITPOS k 1 {} -1 BIT", at * step)), at * step);
    }
}

/// Covers the operators of Redis 8.2, which no server here has: the expectations follow from their definitions.
#[test]
fn bitop_combines_the_first_string_with_the_others() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SETBIT x 0 1", ":0"), ("SETBIT x 1 1", ":0"), ("SETBIT x 2 1", ":0")]);
    client.expect(&[("SETBIT y 1 1", ":0"), ("SETBIT y 3 1", ":0"), ("SETBIT z 2 1", ":0"), ("SETBIT z 12 1", ":0")]);
    // Bit by bit: x 1110 0000 0000 0, y 0101 0000 0000 0, z 0010 0000 0000 1.
    let cases = [
        ("DIFF", "x y z", ":2", "\\x80\\x00"),
        ("diff", "y x z", ":2", "\\x10\\x00"),
        ("DIFF1", "x y z", ":2", "\\x10\\x08"),
        ("ANDOR", "x y z", ":2", "`\\x00"),
        ("One", "x y z", ":2", "\\x90\\x08"),
        ("ONE", "x x", ":1", "\\x00"),
        ("ONE", "x y x y z", ":2", "\\x00\\x08"),
        ("ONE", "x", ":1", "\\xe0"),
        ("DIFF", "x x", ":1", "\\x00"),
        ("DIFF", "missing x", ":1", "\\x00"),
        ("DIFF1", "missing x", ":1", "\\xe0"),
        ("ANDOR", "x missing", ":1", "\\x00"),
    ];
    for (operator, sources, len, bytes) in cases {
        assert_eq!(client.call(&format!("BITOP {operator} result {sources}")), len, "{operator} {sources}");
        assert_eq!(client.call("GET result"), format!("${} {bytes}", &len[1..]), "{operator} {sources}");
    }
    // The result may overwrite a source.
    client.expect(&[("BITOP DIFF x x y", ":1"), ("GET x", "$1 \\xa0"), ("BITOP ONE gone missing", ":0")]);
    client.expect(&[("SET result v", "+OK"), ("BITOP ANDOR result missing gone", ":0"), ("EXISTS result", ":0")]);
    for operator in ["DIFF", "DIFF1", "ANDOR"] {
        let refusal = format!("-ERR BITOP {operator} must be called with at least two source keys.");
        assert_eq!(client.call(&format!("BITOP {} result x", operator.to_lowercase())), refusal);
    }
    client.expect(&[
        ("BITOP NOT result x y", "-ERR BITOP NOT must be called with a single source key."),
        ("BITOP DIFF2 result x y", "-ERR syntax error"),
        ("BITOP DIFF result", "-ERR wrong number of arguments for 'bitop' command"),
    ]);
}

#[test]
fn a_change_of_bits_counts_once_and_the_same_bits_again_count_for_nothing() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut changes = |commands: &[&str]| {
        let dirty = |client: &mut Client| client.info("rdb_changes_since_last_save").parse::<i64>().expect("a number");
        let before = dirty(&mut client);
        commands.iter().for_each(|command| assert!(!client.call(command).starts_with('-'), "{command}"));
        dirty(&mut client) - before
    };
    for (commands, count) in [
        (&["SETBIT k 0 0", "BITFIELD l SET i5 0 0"][..], 2),
        (&["SETBIT k 0 0", "BITFIELD l SET i5 0 0"], 0),
        (&["SETBIT k 0 1", "SETBIT k 0 1", "SETBIT k 0 0", "SETBIT k 0 0"], 2),
        (&["BITFIELD l SET i5 0 1", "BITFIELD l SET i5 0 1", "BITFIELD l SET i5 0 0"], 2),
        (&["BITFIELD m INCRBY i5 0 1", "BITFIELD m INCRBY i5 0 1"], 2),
        (&["SETBIT k 90 0", "BITFIELD l SET i5 90 0"], 2),
        // While the string grows, each successful write counts as a change.
        (&["BITFIELD n SET u8 0 0 SET u8 8 0 GET u8 0"], 2),
        (&["BITFIELD n SET u8 16 1 OVERFLOW FAIL SET u8 0 256"], 1),
    ] {
        assert_eq!(changes(commands), count, "{commands:?}");
    }
    client.expect(&[("STRLEN l", ":12"), ("STRLEN n", ":3")]);
}

/// Follows Redis 7.2 and later; 7.0 looks up the key first.
#[test]
fn arguments_are_checked_although_there_is_no_key_or_nothing_to_count() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("BITCOUNT k 0", "-ERR syntax error"),
        ("BITCOUNT k x", "-ERR syntax error"),
        ("BITCOUNT k 0 1 hello", "-ERR syntax error"),
        ("BITCOUNT k 0 1 BIT BIT", "-ERR syntax error"),
        ("BITCOUNT k -1 -2 hello", "-ERR syntax error"),
        ("BITCOUNT k a b", "-ERR value is not an integer or out of range"),
        ("BITCOUNT k a b hello", "-ERR value is not an integer or out of range"),
        ("BITCOUNT k -6 -7", ":0"),
        ("BITCOUNT k -6 -15 BIT", ":0"),
        ("BITPOS k 0 a", "-ERR value is not an integer or out of range"),
        ("BITPOS k 0 a b", "-ERR value is not an integer or out of range"),
        ("BITPOS k 1 0 1 hello", "-ERR syntax error"),
        ("BITPOS k 0 0 b hello", "-ERR syntax error"),
        ("BITPOS k 0 0 1 BIT BIT", "-ERR syntax error"),
        ("BITPOS k 2 a", "-ERR The bit argument must be 1 or 0."),
        ("BITCOUNT k 0 1000 BIT", ":0"),
        ("BITPOS k 0 5 9", ":0"),
        ("BITPOS k 1 5 9", ":-1"),
        ("SET k 1", "+OK"),
        ("BITCOUNT k -1 -2 hello", "-ERR syntax error"),
    ]);
}
