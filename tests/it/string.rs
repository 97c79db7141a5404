//! String commands: sizes, many keys and several clients. `differential/strings.rs` has all options and errors.

use crate::harness::TestServer;

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
