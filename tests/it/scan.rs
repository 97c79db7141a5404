//! Iteration over all keys: SCAN, KEYS and FLUSHALL, on small tables and on large ones.

use std::collections::HashSet;

use crate::harness::{Client, Dice, TestServer, encode, served_until_reply};
use keylatch::internals::resp::Frame;

/// Calls SCAN until the cursor comes back to 0, with `between` after every call; returns the keys in the order of
/// arrival.
fn scan_all(client: &mut Client, options: &str, mut between: impl FnMut(usize)) -> Vec<String> {
    let (mut cursor, mut seen, mut calls) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let words = format!("SCAN {cursor}{options}");
        let (next, keys) = scan_reply(client.frame(&words.split(' ').collect::<Vec<_>>()));
        seen.extend(keys);
        between(calls);
        calls += 1;
        assert!(calls < 100_000, "the walk does not end");
        if next == "0" {
            return seen;
        }
        cursor = next;
    }
}

/// Splits a reply of SCAN into cursor and keys.
fn scan_reply(reply: Frame) -> (String, Vec<String>) {
    let Frame::Array(parts) = reply else { panic!("{reply:?}") };
    let [cursor, Frame::Array(keys)] = &parts[..] else { panic!("{parts:?}") };
    (text(cursor), keys.iter().map(text).collect())
}

fn text(frame: &Frame) -> String {
    String::from_utf8(frame.as_bytes().expect("a string").to_vec()).expect("the tests use ASCII")
}

fn fill(client: &mut Client, prefix: &str, count: usize) {
    let keys: Vec<usize> = (0..count).collect();
    for portion in keys.chunks(1000) {
        let pairs: String = portion.iter().map(|n| format!(" {prefix}{n} v")).collect();
        assert_eq!(client.call(&format!("MSET{pairs}")), "+OK");
    }
}

#[test]
fn scan_visits_every_key_once_while_nothing_changes() {
    let server = TestServer::start();
    let mut client = server.client();
    for count in [1, 2, 10, 100, 5000] {
        client.call("FLUSHDB");
        fill(&mut client, "key:", count);
        let seen = scan_all(&mut client, "", |_| {});
        let distinct: HashSet<_> = seen.iter().collect();
        assert_eq!((seen.len(), distinct.len()), (count, count));
    }
}

#[test]
fn count_says_how_much_of_the_work_one_call_does() {
    let server = TestServer::start();
    let mut client = server.client();
    fill(&mut client, "key:", 1000);
    for count in [1, 10, 100, 1000, 100_000] {
        let mut calls = 0;
        let seen = scan_all(&mut client, &format!(" COUNT {count}"), |_| calls += 1);
        assert_eq!(seen.len(), 1000);
        assert!(calls <= 1000 / count + 1 + 1000 / 2, "COUNT {count} took {calls} calls");
        assert!(calls >= 1000 / (count + 64), "COUNT {count} took {calls} calls");
    }
}

#[test]
fn match_and_type_filter_what_is_returned_but_not_the_walk() {
    let server = TestServer::start();
    let mut client = server.client();
    fill(&mut client, "key:", 300);
    fill(&mut client, "other:", 300);
    let sorted = |mut keys: Vec<String>| {
        keys.sort();
        keys
    };
    assert_eq!(sorted(scan_all(&mut client, " MATCH *:7", |_| {})), ["key:7", "other:7"]);
    assert_eq!(scan_all(&mut client, " MATCH key:*", |_| {}).len(), 300);
    assert_eq!(scan_all(&mut client, " MATCH key:29[0-9] COUNT 7", |_| {}).len(), 10);
    assert_eq!(scan_all(&mut client, " MATCH nothing*", |_| {}).len(), 0);
    assert_eq!(scan_all(&mut client, " TYPE string", |_| {}).len(), 600);
    assert_eq!(scan_all(&mut client, " type STRING match other:*", |_| {}).len(), 300);
    assert_eq!(scan_all(&mut client, " TYPE hash", |_| {}).len(), 0);
    assert_eq!(scan_all(&mut client, " MATCH a* MATCH key:1", |_| {}), ["key:1"]);
}

#[test]
fn any_number_is_a_cursor_and_leads_to_an_end() {
    let server = TestServer::start();
    let mut client = server.client();
    fill(&mut client, "key:", 500);
    let mut dice = Dice::new(5);
    for bits in 0..64 {
        let mut cursor = (dice.roll(1 << 40) << 24 >> bits).to_string();
        for _ in 0..2000 {
            let (next, keys) = scan_reply(client.frame(&["SCAN", &cursor, "COUNT", "50"]));
            assert!(keys.iter().all(|key| key.starts_with("key:")));
            cursor = next;
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(cursor, "0");
    }
}

#[test]
fn scan_misses_no_key_that_stays_while_thousands_come_and_go() {
    let server = TestServer::start();
    let (mut scanner, mut writer) = (server.client(), server.client());
    for seed in 1..=6 {
        scanner.call("FLUSHDB");
        fill(&mut scanner, "stays:", 3000);
        let (mut dice, mut grown) = (Dice::new(seed), 0u64);
        let seen = scan_all(&mut scanner, " COUNT 40", |call| {
            // First the table grows to several times its size, then it shrinks again, then both alternate.
            let grow = match call {
                0..20 => true,
                20..50 => false,
                _ => dice.roll(2) == 0,
            };
            let names = |range: std::ops::Range<u64>| range.map(|n| format!("comes:{n}"));
            if grow {
                writer.pipeline(&names(grown..grown + 500).map(|name| format!("SET {name} v")).collect::<Vec<_>>());
                grown += 500;
            } else {
                let gone = grown.saturating_sub(700);
                writer.pipeline(&names(gone..grown).map(|name| format!("DEL {name}")).collect::<Vec<_>>());
                grown = gone;
            }
        });
        let distinct: HashSet<&str> = seen.iter().map(String::as_str).collect();
        for n in 0..3000 {
            assert!(distinct.contains(&*format!("stays:{n}")), "stays:{n} was missed, seed {seed}");
        }
    }
}

#[test]
fn scan_never_shows_a_key_that_was_removed_before_or_never_existed() {
    let server = TestServer::start();
    let mut client = server.client();
    fill(&mut client, "gone:", 2000);
    fill(&mut client, "stays:", 200);
    client.pipeline(&(0..2000).map(|n| format!("DEL gone:{n}")).collect::<Vec<_>>());
    let seen = scan_all(&mut client, " COUNT 13", |_| {});
    assert_eq!(seen.len(), 200);
    assert!(seen.iter().all(|key| key.starts_with("stays:")));
}

#[test]
fn walks_do_not_show_keys_that_have_ended() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SET timed v PX 10", "+OK"), ("SET stays v", "+OK")]);
    server.advance_ms(10);
    assert_eq!(scan_all(&mut client, "", |_| {}), ["stays"]);
    client.expect(&[("KEYS *", "*1 $5 stays")]);
    // A key whose absolute deadline has passed without a sweep is invisible too.
    let wall_ms = server.server().namespace().clock.now().wall_ms();
    client.call(&format!("SET dated v PXAT {}", wall_ms + 1000));
    server.server().namespace().clock.set_wall_ms(wall_ms + 2000);
    assert_eq!(scan_all(&mut client, "", |_| {}), ["stays"]);
    client.expect(&[("KEYS *", "*1 $5 stays"), ("EXISTS dated", ":0")]);
}

#[test]
fn keys_of_a_large_database_come_complete() {
    let server = TestServer::start();
    let mut client = server.client();
    fill(&mut client, "key:", 100_000);
    let Frame::Array(keys) = client.frame(&["KEYS", "*"]) else { panic!("no array") };
    let distinct: HashSet<String> = keys.iter().map(text).collect();
    assert_eq!((keys.len(), distinct.len()), (100_000, 100_000));
    let Frame::Array(keys) = client.frame(&["KEYS", "key:9999?"]) else { panic!("no array") };
    assert_eq!(keys.len(), 10);
}

#[test]
fn other_clients_are_served_between_the_slices_of_keys() {
    let server = TestServer::start_embedded();
    let (mut walker, mut other) = (server.client(), server.client());
    fill(&mut walker, "key:", 300_000);
    let served = served_until_reply(&mut walker, &mut other, &encode(&["KEYS", "*"]));
    assert!(served >= 20, "only {served} clients were served while 300,000 keys were listed");
    assert_eq!(walker.take_bytes(8), b"300000\r\n");
}

/// Returns a pattern that nearly matches a name of `a` at every position.
fn costly_pattern(len: usize) -> String {
    format!("*{}b*", "a?".repeat(len / 2))
}

#[test]
fn other_clients_are_served_while_one_name_is_compared_with_a_pattern() {
    let server = TestServer::start_embedded();
    let (mut walker, mut other) = (server.client(), server.client());
    let name = "a".repeat(100_000);
    walker.call_args(&["MSET", &name, "v", &format!("{name}b{name}"), "v"]);
    let pattern = costly_pattern(50_000);
    for (request, reply) in
        [(&["KEYS", &pattern][..], "1\r\n$"), (&["SCAN", "0", "MATCH", &pattern], "2\r\n$1\r\n0\r\n")]
    {
        let served = served_until_reply(&mut walker, &mut other, &encode(request));
        assert!(served >= 20, "only {served} clients were served during {}", request[0]);
        assert_eq!(walker.take_bytes(reply.len()), reply.as_bytes());
        walker = server.client();
    }
}

#[test]
fn a_scan_of_a_collection_stops_early_where_comparisons_take_long() {
    let server = TestServer::start();
    let mut client = server.client();
    let members: Vec<String> = (0..10).map(|number| format!("{}b{number}", "a".repeat(20_000))).collect();
    let pattern = costly_pattern(10_000);
    for member in &members {
        client.call_args(&["HSET", "hash", member, "v"]);
        client.call_args(&["SADD", "set", member]);
        client.call_args(&["ZADD", "scores", "1", member]);
        client.call_args(&["SADD", "hay", &member.replace('b', "c")]);
    }
    for (command, key, each) in [("HSCAN", "hash", 2), ("SSCAN", "set", 1), ("ZSCAN", "scores", 2), ("SSCAN", "hay", 0)]
    {
        let (mut cursor, mut seen, mut calls) = ("0".to_owned(), 0, 0);
        loop {
            let reply = client.frame(&[command, key, &cursor, "MATCH", &pattern, "COUNT", "1000"]);
            let (next, found) = scan_reply(reply);
            (cursor, seen, calls) = (next, seen + found.len(), calls + 1);
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(seen, members.len() * each, "{command}");
        assert!(calls > 1, "{command} took one call");
    }
}

#[test]
fn a_request_behind_a_long_one_waits_for_it() {
    let server = TestServer::start();
    let mut client = server.client();
    fill(&mut client, "key:", 20_000);
    let requests = [encode(&["KEYS", "*"]), encode(&["DEL", "key:1"]), encode(&["DBSIZE"]), encode(&["PING"])].concat();
    client.send(&requests);
    assert!(matches!(client.read_frame(), Some(Frame::Array(keys)) if keys.len() == 20_000));
    assert_eq!((client.reply(), client.reply(), client.reply()), (":1".into(), ":19999".into(), "+PONG".into()));
}

#[test]
fn inside_a_transaction_keys_and_scan_work_at_once() {
    let server = TestServer::start();
    let mut client = server.client();
    fill(&mut client, "key:", 30_000);
    client.expect(&[
        ("MULTI", "+OK"),
        ("SET before v", "+QUEUED"),
        ("KEYS *", "+QUEUED"),
        ("DEL before", "+QUEUED"),
        ("SCAN 0 COUNT 100000", "+QUEUED"),
        ("DBSIZE", "+QUEUED"),
    ]);
    let Frame::Array(replies) = client.frame(&["EXEC"]) else { panic!("no array") };
    let Frame::Array(keys) = &replies[1] else { panic!("{:?}", replies[1]) };
    assert_eq!(keys.len(), 30_001);
    let (cursor, scanned) = scan_reply(replies[3].clone());
    assert_eq!((&*cursor, scanned.len()), ("0", 30_000));
    assert_eq!(replies[4], Frame::Integer(30_000));
}

#[test]
fn a_walk_whose_client_has_gone_does_no_harm() {
    let server = TestServer::start_embedded();
    let mut client = server.client();
    fill(&mut client, "key:", 50_000);
    for _ in 0..5 {
        let mut leaver = server.client();
        leaver.send(&encode(&["KEYS", "*"]));
        drop(leaver);
    }
    client.expect(&[("PING", "+PONG"), ("DBSIZE", ":50000"), ("FLUSHDB", "+OK"), ("KEYS *", "*0")]);
}

#[test]
fn flushing_a_million_keys_returns_and_leaves_nothing() {
    let server = TestServer::start();
    let mut client = server.client();
    for portion in 0..100 {
        let pairs: String = (0..10_000).map(|n| format!(" key:{} v", portion * 10_000 + n)).collect();
        assert_eq!(client.call(&format!("MSET{pairs}")), "+OK");
    }
    client.expect(&[("DBSIZE", ":1000000"), ("FLUSHALL", "+OK"), ("DBSIZE", ":0"), ("SCAN 0", "*2 $1 0 *0")]);
    client.expect(&[("SET k v", "+OK"), ("KEYS *", "*1 $1 k"), ("GET key:5", "$-1")]);
}

#[test]
fn scan_deletes_the_expired_keys_that_it_meets_of_the_type_it_looks_for() {
    let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
    let mut client = server.client();
    client.call("DEBUG SET-ACTIVE-EXPIRE 0");
    client.expect(&[("SET k v PX 50", "+OK"), ("HSET h f v", ":1"), ("PEXPIRE h 50", ":1"), ("SET other v", "+OK")]);
    server.advance_ms(50);
    assert_eq!(client.call("SCAN 0 COUNT 1000 TYPE nonsense"), "-ERR unknown type name 'nonsense'");
    assert_eq!(client.call("KEYS *"), "*1 $5 other");
    assert_eq!(client.call("DBSIZE"), ":3");
    assert_eq!(client.call("SCAN 0 COUNT 100000 TYPE string"), "*2 $1 0 *1 $5 other");
    assert_eq!(client.call("DBSIZE"), ":2");
    assert_eq!(client.call("SCAN 0 COUNT 100000"), "*2 $1 0 *1 $5 other");
    assert_eq!(client.call("DBSIZE"), ":1");
}
