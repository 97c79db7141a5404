//! Transactions with time, many clients and many keys; `differential/transactions.rs` has their rules.

use crate::harness::{Client, TestServer, wait_until};

const OK: &str = "+OK";
const QUEUED: &str = "+QUEUED";

#[test]
fn a_client_may_watch_very_many_keys_and_each_counts_once() {
    const KEYS: usize = 200_000;
    let server = TestServer::start();
    let (mut client, mut other) = (server.client(), server.client());
    let keys: Vec<String> = (0..KEYS).map(|n| format!("key:{n}")).collect();
    let watch: Vec<&str> = ["WATCH"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    let watching = |client: &mut Client| {
        let line = client.call("CLIENT INFO");
        let (_, watching) = line.split_once(" watch=").expect("the field");
        watching.split(' ').next().expect("a number").to_owned()
    };
    for _ in 0..2 {
        assert_eq!(client.call_args(&watch), OK);
        assert_eq!(watching(&mut client), KEYS.to_string());
    }
    client.expect(&[("UNWATCH", OK)]);
    assert_eq!((watching(&mut client), client.info("watching_clients")), ("0".into(), "0".into()));
    assert_eq!(client.call_args(&watch), OK);
    other.expect(&[("SET key:199999 v", OK)]);
    client.expect(&[("MULTI", OK), ("EXEC", "*-1")]);
}

#[test]
fn a_watched_key_that_expires_aborts_exec() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SET k v PX 100", OK), ("WATCH k", OK), ("MULTI", OK), ("PING", QUEUED)]);
    server.advance_ms(99);
    client.expect(&[("EXEC", "*1 +PONG"), ("WATCH k", OK), ("MULTI", OK), ("PING", QUEUED)]);
    server.advance_ms(1);
    client.expect(&[("EXEC", "*-1")]);
}

#[test]
fn a_watched_key_that_expires_unswept_aborts_exec_as_well() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SET k v PX 100", OK), ("WATCH k", OK), ("MULTI", OK), ("PING", QUEUED)]);
    server.server().namespace().clock.advance(std::time::Duration::from_millis(100));
    client.expect(&[("EXEC", "*-1"), ("DBSIZE", ":0")]);
}

#[test]
fn a_key_that_had_expired_when_it_was_watched_counts_as_missing() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SET k v PX 100", OK)]);
    server.advance_ms(100);
    client.expect(&[("WATCH k", OK), ("MULTI", OK), ("PING", QUEUED)]);
    server.advance_ms(100);
    client.expect(&[("EXEC", "*1 +PONG")]);
}

#[test]
fn a_flush_from_the_library_touches_watched_keys() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SET k 1", OK), ("WATCH k", OK), ("MULTI", OK), ("PING", QUEUED)]);
    server.server().flush();
    client.expect(&[("EXEC", "*-1"), ("DBSIZE", ":0")]);
}

#[test]
fn hello_inside_a_transaction_switches_the_protocol_in_the_middle_of_the_reply() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("MULTI", OK), ("GET none", QUEUED), ("HELLO 3", QUEUED), ("GET none", QUEUED)]);
    let reply = client.call("EXEC");
    assert!(reply.starts_with("*3 $-1 %7 $6 server $5 redis"), "{reply}");
    assert!(reply.ends_with(" _"), "{reply}");
    client.expect(&[("GET none", "_"), ("MULTI", OK), ("HELLO 2", QUEUED), ("GET none", QUEUED)]);
    let reply = client.call("EXEC");
    assert!(reply.starts_with("*2 *14 $6 server") && reply.ends_with(" $-1"), "{reply}");
}

#[test]
fn info_in_a_transaction_counts_what_was_set_before_it() {
    let server = TestServer::start();
    let shown = "*3 +OK :1 $58 # Keyspace db0:keys=2,expires=1,avg_ttl=100,subexpiry=0 ";
    let queued = ["MSET a 1 b 2", "PEXPIRE b 100", "INFO keyspace"].map(|words| (words, QUEUED));
    server.client().expect(&[&[("MULTI", OK)][..], &queued, &[("EXEC", shown)]].concat());
}

#[test]
fn time_does_not_advance_inside_a_transaction_except_for_ttls_set_there() {
    let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
    let mut client = server.client();
    client.expect(&[("SET old v PX 100", OK), ("MULTI", OK)]);
    let queued = ["DEBUG SLEEP 0.2", "GET old", "PTTL old", "SET new v PX 100", "PTTL new", "SET short v PX 1"];
    queued
        .iter()
        .chain(&["DEBUG SLEEP 0.05", "GET short", "PTTL new"])
        .for_each(|words| client.expect(&[(words, QUEUED)]));
    assert_eq!(client.call("EXEC"), "*9 +OK $1 v :0 +OK :100 +OK +OK $1 v :50");
    client.expect(&[("GET old", "$-1"), ("GET short", "$-1"), ("PTTL new", ":50")]);
}

#[test]
fn no_client_sees_a_state_between_the_commands_of_a_transaction() {
    let server = TestServer::start();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut writer = server.client();
                let pair: Vec<String> = ["MULTI", "INCR left", "INCR right", "EXEC"].map(String::from).into();
                for _ in 0..500 {
                    let replies = writer.pipeline(&pair);
                    let numbers: Vec<&str> = replies[3].split(' ').collect();
                    assert_eq!(numbers[1], numbers[2], "the two counters went apart");
                }
            });
        }
        let mut reader = server.client();
        loop {
            let reply = reader.call("MGET left right");
            let values: Vec<&str> = reply.split(' ').skip(1).collect();
            let (left, right) = values.split_at(values.len() / 2);
            assert_eq!(left, right);
            if reply == "*2 $4 1000 $4 1000" {
                break;
            }
        }
    });
}

#[test]
fn transactions_of_a_few_keys_are_atomic_beside_those_that_need_the_whole_store() {
    const KEYS: usize = 24;
    const EACH: usize = 200;
    let server = TestServer::start();
    let keys: Vec<String> = (0..KEYS).map(|number| format!("k{number}")).collect();
    let set: Vec<String> = keys.iter().map(|key| format!("{key} 1000")).collect();
    server.client().expect(&[(&format!("MSET {}", set.join(" ")), OK)]);
    // Moves 1 from a key to another, by as many pairs of commands as there are distances.
    let moves = |from: usize, distances: &[usize]| -> Vec<String> {
        let to = |distance: usize| &keys[(from + distance) % KEYS];
        distances.iter().flat_map(|at| [format!("DECR {}", keys[from % KEYS]), format!("INCR {}", to(*at))]).collect()
    };
    let run = |shape: usize| {
        let mut client = server.client();
        for round in 0..EACH {
            let from = round * 7 + shape;
            let mut requests: Vec<String> = match shape {
                0 => moves(from, &[5]),
                1 => moves(from, &[1, 2, 3, 4]),
                2 => moves(from, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
                _ => [vec!["SELECT 1".into(), "INCR n".into(), "SELECT 0".into()], moves(from, &[9])].concat(),
            };
            requests.insert(0, "MULTI".into());
            if shape == 0 {
                requests.insert(0, format!("WATCH {} {}", keys[from % KEYS], keys[(from + 11) % KEYS]));
            }
            requests.push("EXEC".into());
            let replies = client.pipeline(&requests);
            assert!(!replies.iter().any(|reply| reply.starts_with('-')), "{replies:?}");
        }
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4).map(|shape| scope.spawn(move || run(shape))).collect();
        let (mut reader, read) = (server.client(), format!("MGET {}", keys.join(" ")));
        while !writers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            let reply = reader.call(&read);
            let values = reply.split(' ').skip(2).step_by(2).map(|value| value.parse::<i64>().expect("a number"));
            assert_eq!(values.sum::<i64>(), 24_000, "{reply}");
        }
    });
    server.client().expect(&[("SELECT 1", OK), ("GET n", "$3 200")]);
}

#[test]
fn optimistic_increments_by_watch_lose_no_update() {
    let server = TestServer::start();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = server.client();
                let mut done = 0;
                while done < 100 {
                    client.call("WATCH n");
                    let old: i64 = match client.call("GET n").split_once(' ') {
                        Some((_, digits)) => digits.parse().expect("a number"),
                        None => 0,
                    };
                    client.expect(&[("MULTI", OK), (&format!("SET n {}", old + 1), QUEUED)]);
                    done += i32::from(client.call("EXEC") == "*1 +OK");
                }
            });
        }
    });
    assert_eq!(server.client().call("GET n"), "$3 400");
}

#[test]
fn a_client_that_disconnects_loses_its_watches_and_its_queue() {
    let server = TestServer::start();
    let mut observer = server.client();
    for _ in 0..50 {
        let mut client = server.client();
        client.expect(&[("WATCH k", OK), ("MULTI", OK), ("SET k gone", QUEUED)]);
    }
    wait_until(|| observer.call("CLIENT LIST").matches("id=").count() <= 1);
    observer.expect(&[("EXISTS k", ":0"), ("WATCH k", OK), ("MULTI", OK), ("SET k v", QUEUED), ("EXEC", "*1 +OK")]);
}

#[test]
fn a_transaction_of_ten_thousand_commands_is_carried_out_whole() {
    let server = TestServer::start();
    let mut client = server.client();
    client.call("MULTI");
    let queued = client.pipeline(&vec!["INCR n".to_owned(); 10_000]);
    assert!(queued.iter().all(|reply| reply == QUEUED));
    assert!(client.call("CLIENT INFO").starts_with('+'));
    let reply = client.call("EXEC");
    assert!(reply.starts_with("*10001 :1 :2 :3 ") && reply.contains(" :10000 "), "{}", &reply[..40]);
}

#[test]
fn an_exec_that_is_refused_leaves_neither_a_queue_nor_watches() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.client(), server.client());
    client.expect(&[("WATCH k", OK), ("MULTI", OK), ("SET a 1", QUEUED)]);
    other.expect(&[("CONFIG SET min-replicas-to-write 1", OK)]);
    client.expect(&[(
        "EXEC",
        "-EXECABORT Transaction discarded because of: NOREPLICAS Not enough good replicas to write.",
    )]);
    let line = client.call("CLIENT INFO");
    assert!(line.contains(" flags=N ") && line.contains(" multi=-1 watch=0 "), "{line}");
    other.expect(&[("CONFIG SET min-replicas-to-write 0", OK), ("SET k v", OK)]);
    client.expect(&[("MULTI", OK), ("PING", QUEUED), ("EXEC", "*1 +PONG")]);
}

#[test]
fn an_expired_key_that_swapdb_brings_is_no_change_for_those_who_watch_its_name() {
    for swap in ["SWAPDB 0 1", "SWAPDB 1 0"] {
        let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
        let (mut client, mut other) = (server.client(), server.client());
        other.expect(&[("DEBUG SET-ACTIVE-EXPIRE 0", OK), ("SET k v PX 10", OK)]);
        client.expect(&[("SELECT 1", OK), ("WATCH k", OK)]);
        server.advance_ms(10);
        other.expect(&[(swap, OK), ("SELECT 1", OK), ("GET k", "$-1")]);
        client.expect(&[("MULTI", OK), ("PING", QUEUED), ("EXEC", "*1 +PONG")]);
    }
}

#[test]
fn subscriptions_that_are_queued_with_replies_off_are_not_told() {
    let server = TestServer::start();
    let mut client = server.client3();
    client.send(b"CLIENT REPLY OFF\r\nMULTI\r\nSSUBSCRIBE s\r\nSUBSCRIBE c\r\nCLIENT REPLY ON\r\nDISCARD\r\n");
    client.send(b"CLIENT REPLY ON\r\nPING\r\n");
    assert_eq!([client.reply(), client.reply()], [OK, "+PONG"]);
}
