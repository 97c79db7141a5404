//! Deadlines at a replica follow its primary's clock, so that none ends early on a replica whose clock is ahead.

use std::io::Write;
use std::net::TcpListener;

use keylatch::Clock;

use super::nodes::{Kind, Node};
use super::parties::{Primary, RawReplica, answer_replica_at, hear_replica, no_time};
use crate::harness::{Client, encode, wait_until};

const HOUR_MS: i64 = 3_600_000;

/// TTL of the keys, and the tolerance for it and for times of different servers in a slow test.
const TTL_MS: i64 = 900_000;
const SLOW_MS: i64 = 800_000;

fn own_ms() -> i64 {
    Clock::system().now().wall_ms()
}

/// Returns a reply to TIME.
fn time_at(ms: i64) -> Vec<u8> {
    encode(&[(ms / 1000).to_string(), (ms % 1000 * 1000).to_string()])
}

/// Returns the milliseconds by which a server's clock is ahead of the system's.
fn ahead_ms(client: &mut Client) -> i64 {
    let reply = client.call("TIME");
    let words: Vec<&str> = reply.split(' ').collect();
    let [seconds, us] = [words[2], words[4]].map(|word| word.parse::<i64>().expect("a number"));
    seconds * 1000 + us / 1000 - own_ms()
}

#[track_caller]
fn assert_ahead(client: &mut Client, expected_ms: i64) {
    let ahead_ms = ahead_ms(client);
    assert!((ahead_ms - expected_ms).abs() < SLOW_MS, "{ahead_ms} and not {expected_ms}");
}

/// Asserts that a key's remaining TTL is about [`TTL_MS`], and that the times reported by the server agree.
#[track_caller]
fn assert_lives(client: &mut Client, key: &str) {
    assert_eq!(client.call(&format!("EXISTS {key}")), ":1");
    let (left_ms, end_ms) = (client.int(&format!("PTTL {key}")), client.int(&format!("PEXPIRETIME {key}")));
    assert!((TTL_MS - SLOW_MS..TTL_MS + SLOW_MS).contains(&left_ms), "{left_ms}");
    let difference_ms = end_ms - own_ms() - ahead_ms(client);
    assert!((TTL_MS - SLOW_MS..TTL_MS + SLOW_MS).contains(&difference_ms), "{difference_ms}");
}

/// Returns the first bytes that a primary without keys sends.
fn empty_data() -> Vec<u8> {
    let dump = [b"REDIS0010\xff".as_slice(), &[0; 8]].concat(); // no checksum
    [format!("+FULLRESYNC {} 1000\r\n${}\r\n", "f".repeat(40), dump.len()).as_bytes(), &dump].concat()
}

/// Starts keylatch as a primary whose clock is stopped, some milliseconds ahead of the system's.
fn primary_ahead(by_ms: i64) -> Primary {
    let clock = Clock::manual();
    clock.set_wall_ms(own_ms() + by_ms);
    Primary::start_on(clock, &[])
}

/// Returns the setting with which a server replicates a primary.
fn replicaof(primary: &Primary) -> String {
    format!("127.0.0.1 {}", primary.addr().port())
}

fn wait_for_key(client: &mut Client, key: &str) {
    wait_until(|| client.call(&format!("EXISTS {key}")) == ":1");
}

#[test]
fn a_key_lives_on_a_replica_for_as_long_as_on_a_primary_whose_clock_is_behind_or_ahead() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    for by_ms in [-HOUR_MS, HOUR_MS] {
        let replica = Node::keylatch(&[]);
        let mut client = replica.client();
        client.expect(&[(&format!("REPLICAOF 127.0.0.1 {port}"), "+OK")]);
        let mut link = answer_replica_at(&listener, || time_at(own_ms() + by_ms), &empty_data());
        let now_ms = own_ms() + by_ms;
        for (key, end_ms) in [("k", now_ms + TTL_MS), ("gone", now_ms - SLOW_MS), ("last", now_ms + TTL_MS)] {
            link.write_all(&encode(&["SET", key, "v", "PXAT", &end_ms.to_string()])).expect("it reads");
        }
        wait_for_key(&mut client, "last");
        client.expect(&[("GET k", "$1 v"), ("EXISTS gone", ":0"), ("DBSIZE", ":3")]);
        assert_lives(&mut client, "k");
        assert_ahead(&mut client, by_ms);
        // Nothing changes when it takes the primary's place.
        client.expect(&[("REPLICAOF NO ONE", "+OK")]);
        assert_lives(&mut client, "k");
        assert_ahead(&mut client, by_ms);
        wait_until(|| client.call("DBSIZE") == ":2");
        let ttl = format!("SET own v PX {TTL_MS}");
        client.expect(&[(&ttl, "+OK"), ("SET k other NX", "$-1")]);
        assert_lives(&mut client, "own");
    }
}

#[test]
fn a_primary_that_says_no_time_is_followed_by_the_own_clock() {
    for time in ["-NOPERM no\r\n", "-ERR unknown command 'TIME'\r\n", "*0\r\n", "$-1\r\n", "*2\r\n:5\r\n:1000000\r\n"] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port"); // no former replica uses it
        let port = listener.local_addr().expect("an address").port();
        let replica = Node::keylatch(&[]);
        let mut client = replica.client();
        client.expect(&[(&format!("REPLICAOF 127.0.0.1 {port}"), "+OK")]);
        let mut link = answer_replica_at(&listener, || time.as_bytes().to_vec(), &empty_data());
        let end_ms = (own_ms() + TTL_MS).to_string();
        link.write_all(&encode(&["SET", "k", "v", "PXAT", &end_ms])).expect("it reads");
        wait_for_key(&mut client, "k");
        assert_lives(&mut client, "k");
        assert_ahead(&mut client, 0);
    }
}

#[test]
fn a_time_that_cannot_be_read_ends_the_link_and_changes_no_clock() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let replica = Node::keylatch(&[]);
    let mut client = replica.client();
    client.expect(&[(&format!("REPLICAOF 127.0.0.1 {port}"), "+OK")]);
    for time in ["*9223372036854775807\r\n", "*2\r\n$9223372036854775807\r\n", "%\r\n", "*2\r\n*1\r\n"] {
        // The link of the former data has ended, and the next one asks for data.
        let is_first = std::cell::Cell::new(true);
        let serve = || if is_first.replace(false) { time.as_bytes().to_vec() } else { time_at(own_ms() - HOUR_MS) };
        let link = answer_replica_at(&listener, serve, &empty_data());
        assert!(!is_first.get());
        wait_until(|| client.info("master_link_status") == "up");
        assert_ahead(&mut client, -HOUR_MS);
        drop(link);
        assert_eq!(client.info("caught_panics"), "0");
    }
}

#[test]
fn a_chain_of_replicas_has_the_time_of_its_first_primary() {
    for by_ms in [-HOUR_MS, HOUR_MS] {
        let primary = primary_ahead(by_ms);
        primary.client().expect(&[(&format!("SET k v PX {TTL_MS}"), "+OK")]);
        let first = Node::keylatch(&[("replicaof", &replicaof(&primary))]);
        let second = Node::replica_of(&first, &[]);
        let mut clients = [first.client(), second.client()];
        for client in &mut clients {
            wait_for_key(client, "k");
            assert_lives(client, "k");
            assert_ahead(client, by_ms);
        }
        let [first, second] = &mut clients;
        assert_eq!(first.call("PEXPIRETIME k"), second.call("PEXPIRETIME k"));
    }
}

#[test]
fn a_replica_that_was_told_the_time_before_its_primary_knew_that_of_its_own_has_to_ask_again() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let middle = Node::keylatch(&[("replicaof", &format!("127.0.0.1 {port}"))]);
    let mut last = RawReplica::connect(middle.addr(), &["eof", "psync2"]);
    let mut client = middle.client();
    assert_ahead(&mut client, 0); // as the replica is told
    let _link = answer_replica_at(&listener, || time_at(own_ms() + HOUR_MS), &empty_data());
    wait_until(|| middle.info("master_link_status") == "up");
    assert_ahead(&mut client, HOUR_MS);
    last.send("PSYNC ? -1");
    assert_eq!(last.line(), "-NOMASTERLINK Can't SYNC while not connected with my master");
    // It asks again by the same connection, or by another one.
    assert_eq!(last.call("REPLCONF listening-port 1"), "+OK");
    last.synchronize();
    RawReplica::connect(middle.addr(), &["eof", "psync2"]).synchronize();
}

#[test]
fn a_replica_introduces_itself_before_it_asks_for_the_time() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let _replica = Node::keylatch(&[("replicaof", &format!("127.0.0.1 {port}"))]);
    let (_link, asked) = hear_replica(&listener, no_time);
    let at = |word: &str| asked.find(word).unwrap_or_else(|| panic!("no {word} in {asked}"));
    assert!(at("listening-port") < at("TIME\r\n"), "{asked}");
}

#[test]
fn the_right_to_ask_for_the_time_may_be_given_later() {
    let primary = primary_ahead(-HOUR_MS);
    let mut client = primary.client();
    client.expect(&[("ACL SETUSER copier on >word +psync +replconf +ping", "+OK")]);
    client.expect(&[(&format!("SET k v PX {TTL_MS}"), "+OK")]);
    let settings = [("masteruser", "copier"), ("masterauth", "word")];
    let replica = Node::keylatch(&[&settings[..], &[("replicaof", &replicaof(&primary))]].concat());
    let mut there = replica.client();
    wait_until(|| there.info("master_link_status") == "up");
    assert_ahead(&mut there, 0);
    client.expect(&[("ACL SETUSER copier +time", "+OK"), ("CLIENT KILL TYPE replica", ":1")]);
    wait_until(|| ahead_ms(&mut there) < -HOUR_MS + SLOW_MS);
    assert_lives(&mut there, "k");
    assert_eq!(primary.info("sync_full"), "1");
}

#[test]
fn a_primary_whose_clock_is_set_back_takes_its_replicas_along_and_one_that_is_set_forward_ends_no_lock_there() {
    let primary = primary_ahead(0);
    let replica = Node::keylatch(&[("replicaof", &replicaof(&primary)), ("appendonly", "yes")]);
    let last = Node::replica_of(&replica, &[]);
    let (mut client, mut there, mut behind) = (primary.client(), replica.client(), last.client());
    client.expect(&[(&format!("SET k v PX {TTL_MS}"), "+OK")]);
    wait_for_key(&mut behind, "k");
    let mut set = |by_ms: i64| {
        primary.server.server().set_wall_ms(own_ms() + by_ms);
        let partial: u64 = client.info("sync_partial_ok").parse().expect("a number");
        client.expect(&[("CLIENT KILL TYPE replica", ":1")]);
        wait_until(|| client.info("sync_partial_ok").parse::<u64>().expect("a number") > partial);
        client.expect(&[(&format!("SET after{by_ms} v PX {TTL_MS}"), "+OK")]);
    };
    set(HOUR_MS);
    for client in [&mut there, &mut behind] {
        wait_for_key(client, &format!("after{HOUR_MS}"));
        assert_ahead(client, 0);
        assert_lives(client, "k");
    }
    set(-HOUR_MS);
    for client in [&mut there, &mut behind] {
        wait_for_key(client, &format!("after{}", -HOUR_MS));
        wait_until(|| ahead_ms(client) < -HOUR_MS + SLOW_MS);
        assert_lives(client, &format!("after{}", -HOUR_MS));
    }
    assert_eq!((primary.info("sync_full"), replica.info("sync_full")), ("1".into(), "1".into()));
    // Its append-only file has no deadline by another clock.
    wait_until(|| there.info("aof_rewrite_in_progress") == "0" && there.info("aof_rewrite_scheduled") == "0");
    let (end_ms, after_ms) = (there.call("PEXPIRETIME k"), there.call(&format!("PEXPIRETIME after{}", -HOUR_MS)));
    let replicaof = replicaof(&primary);
    let settings = [("replicaof", &*replicaof), ("appendonly", "yes")];
    let again = Node::start_in(replica.stop(), Kind::Keylatch, &settings).expect("keylatch");
    let mut there = again.client();
    assert_eq!(there.call("PEXPIRETIME k"), end_ms);
    assert_eq!(there.call(&format!("PEXPIRETIME after{}", -HOUR_MS)), after_ms);
}

#[test]
fn a_restarted_replica_continues_by_the_time_of_its_primary_and_where_it_was() {
    for by_ms in [-HOUR_MS, HOUR_MS] {
        for kept in
            [[("appendonly", "yes"), ("dbfilename", "dump.rdb")], [("appendonly", "no"), ("dbfilename", "own.rdb")]]
        {
            let primary = primary_ahead(by_ms);
            let replicaof = replicaof(&primary);
            let settings = [&kept[..], &[("replicaof", &*replicaof)]].concat();
            let replica = Node::keylatch(&settings);
            let (mut client, mut there) = (primary.client(), replica.client());
            wait_until(|| there.info("master_link_status") == "up");
            client.expect(&[(&format!("SET k v PX {TTL_MS}"), "+OK")]);
            wait_for_key(&mut there, "k");
            let end_ms = there.call("PEXPIRETIME k");
            wait_until(|| there.info("aof_rewrite_in_progress") == "0");
            there.expect(&[("SAVE", "+OK")]);
            let replica = Node::start_in(replica.stop(), Kind::Keylatch, &settings).expect("keylatch");
            let mut there = replica.client();
            wait_until(|| there.info("master_link_status") == "up");
            assert_lives(&mut there, "k");
            assert_ahead(&mut there, by_ms);
            assert_eq!(there.call("PEXPIRETIME k"), end_ms);
            assert_eq!((client.info("sync_full"), client.info("sync_partial_ok")), ("1".into(), "1".into()));
            // Also without a connection to the primary, and for good.
            let alone = [&kept[..], &[("replicaof", "127.0.0.1 1")]].concat();
            let replica = Node::start_in(replica.stop(), Kind::Keylatch, &alone).expect("keylatch");
            let mut there = replica.client();
            for _ in 0..2 {
                assert_lives(&mut there, "k");
                assert_ahead(&mut there, by_ms);
                assert_eq!(there.call("PEXPIRETIME k"), end_ms);
                assert!(there.call("REPLICAOF NO ONE").starts_with("+OK"));
            }
        }
    }
}

#[test]
fn a_replica_that_starts_as_a_primary_moves_deadlines_to_its_own_clock_and_gives_its_replicas_everything_again() {
    for by_ms in [-HOUR_MS, HOUR_MS] {
        let primary = primary_ahead(by_ms);
        let replicaof = replicaof(&primary);
        let kept = ("appendonly", "yes");
        let replica = Node::keylatch(&[kept, ("replicaof", &replicaof)]);
        let last = Node::replica_of(&replica, &[]);
        let (mut client, mut there, mut behind) = (primary.client(), replica.client(), last.client());
        client.expect(&[(&format!("SET k v PX {TTL_MS}"), "+OK")]);
        wait_for_key(&mut there, "k");
        wait_for_key(&mut behind, "k");
        wait_until(|| there.info("aof_rewrite_in_progress") == "0");
        let former_ms = there.int("PEXPIRETIME k");
        let (position, id) = (there.info("master_repl_offset"), there.info("master_replid"));
        let alone = Node::start_in(replica.stop(), Kind::Keylatch, &[kept]).expect("keylatch");
        let mut there = alone.client();
        assert_ahead(&mut there, 0);
        assert_lives(&mut there, "k");
        let moved_ms = there.int("PEXPIRETIME k");
        assert!((moved_ms - former_ms + by_ms).abs() < SLOW_MS, "{moved_ms} {former_ms}");
        // No replica can continue from where the former deadlines were.
        assert!(there.info("master_replid") != id && there.info("master_replid2") != id, "{id} {position}");
        last.follow(&alone);
        last.assert_same(&alone);
        assert_eq!((alone.info("sync_full"), alone.info("sync_partial_ok")), ("1".into(), "0".into()));
        assert_eq!(behind.int("PEXPIRETIME k"), moved_ms);
        assert_lives(&mut behind, "k");
        assert_ahead(&mut behind, 0);
        // The next start moves nothing, and they continue.
        there.expect(&[("SET marker v", "+OK")]);
        wait_for_key(&mut behind, "marker");
        wait_until(|| there.info("aof_rewrite_in_progress") == "0" && there.info("aof_rewrite_scheduled") == "0");
        let again = Node::start_in(alone.stop(), Kind::Keylatch, &[kept]).expect("keylatch");
        assert_eq!(again.client().int("PEXPIRETIME k"), moved_ms);
        last.follow(&again);
        last.assert_same(&again);
        assert_eq!((again.info("sync_full"), again.info("sync_partial_ok")), ("0".into(), "1".into()));
    }
}
