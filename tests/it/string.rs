//! String commands: TTLs to the millisecond, sizes, several clients. `differential/strings.rs` has all options and
//! errors.

use crate::harness::TestServer;

const NOT_INTEGER: &str = "-ERR value is not an integer or out of range";
const TOO_LONG: &str = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)";

#[test]
fn keys_and_values_are_binary_safe() {
    let server = TestServer::start();
    let mut client = server.client();
    let key: Vec<u8> = (0..=255).collect();
    let value: Vec<u8> = (0..=255).rev().collect();
    assert_eq!(client.call_args(&[&b"SET"[..], &key, &value]), "+OK");
    let reply = client.frame(&[&b"GET"[..], &key]);
    assert_eq!(reply.as_bytes(), Some(&value[..]));
    assert_eq!(client.call_args(&[&b"GET"[..], b""]), "$-1");
    assert_eq!(client.call_args(&[&b"SET"[..], b"", b"empty key"]), "+OK");
    assert_eq!(client.call_args(&[&b"GET"[..], b""]), "$9 empty key");
    assert_eq!(client.call_args(&[&b"GET"[..], b"\0"]), "$-1");
}

#[test]
fn values_of_every_size_class_come_back_whole_after_growing_and_shrinking() {
    let server = TestServer::start();
    let mut client = server.client();
    for len in [0, 1, 15, 16, 63, 64, 255, 256, 4095, 16_383, 16_384, 16_385, 65_536, 1 << 20, 16_384, 100, 0] {
        let value: Vec<u8> = (0..len).map(|at| (at * 31 % 251) as u8).collect();
        assert_eq!(client.call_args(&[b"SET", &b"k"[..], &value]), "+OK");
        assert_eq!(client.frame(&["GET", "k"]).as_bytes(), Some(&value[..]), "{len} bytes");
        assert_eq!(client.int("STRLEN k"), len);
        assert_eq!(client.frame(&["GETRANGE", "k", "-3", "-1"]).as_bytes(), value.get(value.len().max(3) - 3..));
    }
}

#[test]
fn set_clears_keeps_or_replaces_the_ttl_by_its_options() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SET k v EX 10", "+OK"),
        ("PTTL k", ":10000"),
        ("SET k v KEEPTTL", "+OK"),
        ("PTTL k", ":10000"),
        ("SET k v PX 77", "+OK"),
        ("PTTL k", ":77"),
        ("SET k v", "+OK"),
        ("PTTL k", ":-1"),
        ("SET k v KEEPTTL", "+OK"),
        ("PTTL k", ":-1"),
        ("SET fresh v KEEPTTL", "+OK"),
        ("PTTL fresh", ":-1"),
        ("SET k v ex 3 nx", "$-1"),
        ("SET k v xx ex 3", "+OK"),
        ("TTL k", ":3"),
    ]);
}

#[test]
fn setex_and_psetex_set_value_and_ttl_in_one_step() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SETEX k 10 v", "+OK"),
        ("PTTL k", ":10000"),
        ("PSETEX k 1500 w", "+OK"),
        ("PTTL k", ":1500"),
        ("GET k", "$1 w"),
        ("SETEX k 0 v", "-ERR invalid expire time in 'setex' command"),
        ("SETEX k -10 v", "-ERR invalid expire time in 'setex' command"),
        ("PSETEX k 0 v", "-ERR invalid expire time in 'psetex' command"),
        ("PSETEX k -5 v", "-ERR invalid expire time in 'psetex' command"),
        ("SETEX k 9223372036854775807 v", "-ERR invalid expire time in 'setex' command"),
        ("PSETEX k 9223372036854775807 v", "-ERR invalid expire time in 'psetex' command"),
        ("SETEX k x v", NOT_INTEGER),
        ("PSETEX k 1.0 v", NOT_INTEGER),
        ("SETEX k 10", "-ERR wrong number of arguments for 'setex' command"),
        ("GET k", "$1 w"),
        ("PTTL k", ":1500"),
    ]);
}

#[test]
fn getex_reads_and_changes_only_the_ttl() {
    let server = TestServer::start();
    server.client().expect(&[
        ("GETEX none EX 10", "$-1"),
        ("GETEX none EX 0", "$-1"),
        ("SET k v", "+OK"),
        ("GETEX k", "$1 v"),
        ("TTL k", ":-1"),
        ("GETEX k EX 10", "$1 v"),
        ("PTTL k", ":10000"),
        ("GETEX k", "$1 v"),
        ("PTTL k", ":10000"),
        ("GETEX k px 1500", "$1 v"),
        ("PTTL k", ":1500"),
        ("GETEX k PERSIST", "$1 v"),
        ("TTL k", ":-1"),
        ("GETEX k EXAT 99999999999", "$1 v"),
        ("EXPIRETIME k", ":99999999999"),
        ("GETEX k PXAT 99999999999999", "$1 v"),
        ("PEXPIRETIME k", ":99999999999999"),
    ]);
}

#[test]
fn mset_and_mget_of_a_thousand_keys_touch_every_shard_once() {
    let server = TestServer::start();
    let mut client = server.client();
    let pairs: String = (0..1000).map(|n| format!(" key:{n} {n}")).collect();
    let names: String = (0..1000).rev().map(|n| format!(" key:{n}")).collect();
    assert_eq!(client.call(&format!("MSET{pairs}")), "+OK");
    let expected: String = (0..1000).rev().map(|n| format!(" ${} {n}", n.to_string().len())).collect();
    assert_eq!(client.call(&format!("MGET{names}")), format!("*1000{expected}"));
    assert_eq!(client.int("DBSIZE"), 1000);
    assert_eq!(client.call(&format!("MSETNX fresh 1{pairs}")), ":0");
    assert_eq!(client.int(&format!("DEL{names}")), 1000);
    assert_eq!(client.call(&format!("MSETNX fresh 1{pairs}")), ":1");
}

#[test]
fn a_string_grows_by_what_is_appended() {
    let server = TestServer::start();
    let mut client = server.client();
    let piece = "x".repeat(1000);
    (1..=100).for_each(|times| assert_eq!(client.int(&format!("APPEND long {piece}")), times * 1000));
    assert_eq!(client.frame(&["GET", "long"]).as_bytes(), Some(piece.repeat(100).as_bytes()));
}

/// Covers a range for which Redis 7.0 returns the first byte.
#[test]
fn a_range_that_ends_before_the_first_byte_is_empty() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SET k Hello,World", "+OK"),
        ("GETRANGE k 0 -100", "$0 "),
        ("SUBSTR k -100 -12", "$0 "),
        ("GETRANGE k -100 -50", "$0 "),
    ]);
}

#[test]
fn no_string_grows_beyond_the_longest_bulk() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SETRANGE k 536870911 xx", TOO_LONG),
        ("SETRANGE k 9223372036854775807 x", TOO_LONG),
        ("EXISTS k", ":0"),
        ("CONFIG SET proto-max-bulk-len 1mb", "+OK"),
        ("SETRANGE k 1048575 x", ":1048576"),
        ("APPEND k x", TOO_LONG),
        ("SETRANGE k 1048576 x", TOO_LONG),
        ("SETRANGE k 0 y", ":1048576"),
        ("STRLEN k", ":1048576"),
        ("GETRANGE k 0 0", "$1 y"),
        ("GETRANGE k -1 -1", "$1 x"),
    ]);
}

#[test]
fn databases_hold_their_own_strings() {
    let server = TestServer::start();
    let (mut first, mut second) = (server.client(), server.client());
    first.expect(&[("SELECT 4", "+OK"), ("SET k four", "+OK")]);
    second.expect(&[("SELECT 5", "+OK"), ("GET k", "$-1"), ("SET k five", "+OK"), ("SELECT 4", "+OK")]);
    second.expect(&[("GET k", "$4 four")]);
    first.expect(&[("SELECT 5", "+OK"), ("GET k", "$4 five"), ("DEL k", ":1"), ("SELECT 4", "+OK"), ("DBSIZE", ":1")]);
}

#[test]
fn clients_see_each_others_writes_at_once() {
    let server = TestServer::start();
    let mut clients: Vec<_> = (0..8).map(|_| server.client()).collect();
    for round in 0..50 {
        for turn in 0..clients.len() {
            let expected = (round * clients.len() + turn + 1) as i64;
            assert_eq!(clients[turn].int("INCR n"), expected);
        }
    }
}

#[test]
fn increments_of_many_clients_at_once_all_count() {
    let server = TestServer::start();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let increments = vec!["INCR n".to_owned(); 2000];
                let replies = server.client().pipeline(&increments);
                let numbers: Vec<i64> = replies.iter().map(|reply| reply[1..].parse().expect("a number")).collect();
                assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
            });
        }
    });
    assert_eq!(server.client().call("GET n"), "$5 16000");
}
