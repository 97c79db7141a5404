//! TEST.FAILOVER: the last writes are lost, as when a primary fails before its replica has received them.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use keylatch::internals::resp::Frame;

use crate::differential::random::Random;
use crate::harness::{Client, TestServer, wait_until};
use crate::log;
use crate::snapshots::{fill, start, start_with, state, transact};

/// Loses the last writes; the connection closes after the reply.
fn fail_over(server: &TestServer, lost: usize) {
    let mut client = server.client();
    client.send(format!("TEST.FAILOVER LOSE {lost}\r\nSET behind it\r\n").as_bytes());
    assert_eq!(String::from_utf8_lossy(&client.read_to_end()), "+OK\r\n");
}

/// Returns the number of remembered writes.
fn remembered(client: &mut Client) -> usize {
    let reply = client.call("TEST.FAILOVER LOSE 1000000000");
    let count = reply.strip_prefix("-ERR only ").and_then(|rest| rest.strip_suffix(" writes are remembered"));
    count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{reply}"))
}

#[test]
fn a_lock_is_lost_and_a_fence_refuses_the_late_write_of_its_holder() {
    let server = start();
    let mut first = server.client();
    first.expect(&[("SETIFGREATER guarded before 1", "*2 :1 $-1")]);
    let fence = first.int("LOCK.ACQUIRE lock first PX 30000");
    fail_over(&server, 1);
    assert_eq!(first.read_to_end(), b"");
    // The first holder still believes that it holds the lock when the second one gets it.
    let mut second = server.client();
    let larger = second.int("LOCK.ACQUIRE lock second PX 30000");
    assert!(larger > fence);
    assert_eq!(second.call(&format!("SETIFGREATER guarded second {larger}")), format!("*2 :{larger} $-1"));
    let mut first = server.client();
    let late = first.call(&format!("SETIFGREATER guarded first {fence}"));
    assert_eq!(late, format!("*2 :{larger} $6 second"));
    first.expect(&[("GET guarded", "$6 second")]);
}

#[test]
fn a_lock_without_a_fence_is_held_twice() {
    let server = start();
    let (mut first, token) = (server.client(), "SET lock first NX PX 30000");
    first.expect(&[(token, "+OK")]);
    fail_over(&server, 1);
    let mut second = server.client();
    second.expect(&[("SET lock second NX PX 30000", "+OK")]);
    // The first holder's write cannot be told from the second holder's.
    server.client().expect(&[("SET guarded first", "+OK")]);
    second.expect(&[("SET guarded second", "+OK")]);
}

#[test]
fn every_connection_closes_and_the_instance_stays() {
    let server = start();
    let (mut idle, mut blocked, mut subscriber) = (server.client(), server.client(), server.client());
    idle.expect(&[("SET k v", "+OK"), ("SET k w", "+OK")]);
    subscriber.call("SUBSCRIBE c");
    blocked.send(b"BLPOP q 0\r\n");
    wait_until(|| server.client().info("blocked_clients") == "1");
    fail_over(&server, 0);
    for client in [&mut idle, &mut blocked, &mut subscriber] {
        assert_eq!(client.read_to_end(), b"");
    }
    let mut client = server.client();
    client.expect(&[("GET k", "$1 w"), ("RPUSH q v", ":1"), ("LLEN q", ":1")]);
    fail_over(&server, 2);
    server.client().expect(&[("GET k", "$1 v"), ("EXISTS q behind", ":0")]);
    wait_until(|| server.client().info("blocked_clients") == "0");
}

#[test]
fn a_write_is_what_one_call_has_changed() {
    let server = start();
    let mut client = server.client();
    client.expect(&[("MULTI", "+OK"), ("SET a 1", "+QUEUED"), ("SET b 1", "+QUEUED"), ("EXEC", "*2 +OK +OK")]);
    assert_eq!(remembered(&mut client), 1);
    for (request, count) in [
        ("GET a", 1),
        ("DEL none", 1),
        ("SET a 2 NX", 1),
        ("SET a 1", 2),
        ("INCRBY a x", 2),
        ("MSET c 1 d 1", 3),
        ("SELECT 1", 3),
        ("SET e 1 PX 10", 4),
        ("LOCK.ACQUIRE l one PX 100", 5),
        ("LOCK.ACQUIRE l other PX 100", 5),
        ("LOCK.RELEASE l one", 6),
    ] {
        client.call(request);
        assert_eq!(remembered(&mut client), count, "{request}");
    }
    server.advance_ms(10);
    client.expect(&[("EXISTS e", ":0")]);
    assert_eq!(remembered(&mut client), 6);
    let mut blocked = server.client();
    blocked.send(b"BLPOP q 0\r\n");
    wait_until(|| client.info("blocked_clients") == "1");
    client.expect(&[("SELECT 0", "+OK"), ("RPUSH q v", ":1")]);
    assert_eq!(blocked.reply(), "*2 $1 q $1 v");
    assert_eq!(remembered(&mut client), 8);
    server.server().flush();
    assert_eq!(remembered(&mut client), 9);
    fail_over(&server, 2);
    let mut client = server.client();
    client.expect(&[("LRANGE q 0 -1", "*1 $1 v"), ("DBSIZE", ":5")]);
    assert_eq!(remembered(&mut client), 7);
    fail_over(&server, 2);
    let mut client = server.client();
    client.expect(&[("EXISTS q", ":0"), ("GET d", "$1 1"), ("SELECT 1", "+OK"), ("GET l", "$3 one")]);
    assert_eq!(remembered(&mut client), 5);
    fail_over(&server, 5);
    server.client().expect(&[("DBSIZE", ":0"), ("SELECT 1", "+OK"), ("DBSIZE", ":0")]);
}

#[test]
fn ttls_of_what_is_kept_stay_relative_or_absolute_as_they_were_set() {
    let server = start();
    let mut client = server.client();
    let now = client.int("TEST.TIME FREEZE");
    client.expect(&[("SET source v PX 1000", "+OK")]);
    let payload = client.frame(&["DUMP", "source"]);
    let Frame::Bulk(payload) = payload else { panic!("{payload:?}") };
    client.expect(&[
        ("TEST.SNAPSHOT cut", "+OK"),
        ("SET set v PX 1000", "+OK"),
        ("SET expire v", "+OK"),
        ("PEXPIRE expire 1000", ":1"),
        ("SETIFGREATER fenced v 1 PX 1000", "*2 :1 $-1"),
        (&format!("SET at v PXAT {}", now + 1000), "+OK"),
    ]);
    client.int("LOCK.ACQUIRE lock token PX 1000");
    client.call_args(&[&b"RESTORE"[..], b"restored", b"1000", &payload]);
    let keys = ["source", "set", "expire", "fenced", "lock", "restored"];
    assert_eq!(client.int(&format!("TEST.TIME SET {}", now - 10_000)), now - 10_000);
    client.expect(&[("TEST.TIME ADVANCE 100", &format!(":{}", now - 9_900)), ("SET lost 1", "+OK")]);
    for round in 0..2 {
        fail_over(&server, 1);
        client = server.client();
        keys.iter().for_each(|key| assert_eq!(client.call(&format!("PTTL {key}")), ":900", "{key}, {round}"));
        client.expect(&[("PTTL at", ":10900"), ("EXISTS lost", ":0"), ("SET lost 1", "+OK")]);
    }
    client.int(&format!("TEST.TIME SET {}", now - 20_000));
    keys.iter().for_each(|key| assert_eq!(client.call(&format!("PTTL {key}")), ":900", "{key}"));
}

#[test]
fn what_was_idle_stays_idle() {
    let server = start();
    let mut client = server.client();
    client.int("TEST.TIME FREEZE");
    client.expect(&[("XADD x 1-1 a b", "$3 1-1"), ("XGROUP CREATE x g 0", "+OK")]);
    client.call("XREADGROUP GROUP g c STREAMS x >");
    client.int("TEST.TIME ADVANCE 5000");
    let shown = client.call("XINFO CONSUMERS x g");
    assert!(shown.contains("idle :5000"), "{shown}");
    client.expect(&[("SET lost 1", "+OK")]);
    fail_over(&server, 1);
    assert_eq!(server.client().call("XINFO CONSUMERS x g"), shown);
}

#[cfg(feature = "lua")]
#[test]
fn scripts_are_one_write_and_functions_are_part_of_the_state() {
    let server = start();
    let mut client = server.client();
    let library = |value: u32| format!("#!lua name=l\nredis.register_function('f', function() return {value} end)");
    client.call_args(&["FUNCTION", "LOAD", &library(1)]);
    client.expect(&[("TEST.SNAPSHOT cut", "+OK")]);
    client.call_args(&["EVAL", "redis.call('SET', 'a', 1) redis.call('SET', 'b', 1)", "0"]);
    client.call_args(&["FUNCTION", "LOAD", "REPLACE", &library(2)]);
    client.expect(&[("FUNCTION FLUSH", "+OK"), ("SET c 1", "+OK")]);
    assert_eq!(remembered(&mut client), 5);
    fail_over(&server, 2);
    server.client().expect(&[("FCALL f 0", ":2"), ("EXISTS a b c", ":2"), ("FUNCTION DELETE l", "+OK")]);
    fail_over(&server, 1);
    let mut client = server.client();
    client.expect(&[("FCALL f 0", ":2"), ("SET a 2", "+OK")]);
    client.call_args(&["FUNCTION", "LOAD", "REPLACE", &library(3)]);
    fail_over(&server, 2);
    server.client().expect(&[("FCALL f 0", ":2"), ("GET a", "$1 1")]);
}

#[test]
fn no_more_is_forgotten_than_is_remembered() {
    let server = start_with(&[("test-journal-max", "20")]);
    let mut client = server.client();
    for at in 0..105 {
        client.expect(&[(&format!("SET n {at}"), "+OK")]);
    }
    client.expect(&[
        ("TEST.FAILOVER LOSE 21", "-ERR only 20 writes are remembered"),
        ("TEST.FAILOVER LOSE -1", "-ERR value is out of range, must be positive"),
        ("TEST.FAILOVER LOSE x", "-ERR value is not an integer or out of range"),
        ("TEST.FAILOVER DROP 1", "-ERR syntax error"),
        ("GET n", "$3 104"),
    ]);
    fail_over(&server, 20);
    let mut client = server.client();
    client.expect(&[("GET n", "$2 84"), ("TEST.FAILOVER LOSE 1", "-ERR only 0 writes are remembered")]);
    client.expect(&[("SET n 1", "+OK"), ("CONFIG SET test-journal-max 0", "+OK"), ("SET n 2", "+OK")]);
    client.expect(&[("TEST.FAILOVER LOSE 1", "-ERR only 0 writes are remembered")]);
    client.expect(&[("SET m 1", "+OK"), ("CONFIG SET test-journal-max 20", "+OK"), ("SET n 3", "+OK")]);
    fail_over(&server, 1);
    server.client().expect(&[("GET n", "$1 2"), ("GET m", "$1 1")]);
}

#[test]
fn large_writes_are_forgotten_earlier() {
    let server = start();
    let (mut client, big) = (server.client(), "x".repeat(1_000_000));
    for at in 0..200 {
        client.call(&format!("SET k:{} {big}{at}", at % 3));
    }
    let count = remembered(&mut client);
    assert!((30..=100).contains(&count), "{count}");
    let refused = format!("-ERR only {count} writes are remembered");
    client.expect(&[(&format!("TEST.FAILOVER LOSE {}", count + 1), &refused)]);
    fail_over(&server, count);
    for at in 197 - count..200 - count {
        let number = at.to_string();
        let last = format!("${} {number}", number.len());
        server.client().expect(&[(&format!("GETRANGE k:{} 1000000 -1", at % 3), &last)]);
    }
}

#[test]
fn keys_that_have_expired_since_stay_so_and_ttls_are_kept() {
    let server = start();
    let mut client = server.client();
    client.expect(&[
        ("SET gone 1 PX 100", "+OK"),
        ("SET kept 1 PX 100", "+OK"),
        ("SET later 1 PX 1000", "+OK"),
        ("TEST.SNAPSHOT cut", "+OK"),
        ("PERSIST kept", ":1"),
        ("SET soon 1 PX 100", "+OK"),
        ("DEL later", ":1"),
    ]);
    server.advance_ms(200);
    client.expect(&[("SET gone 2", "+OK"), ("DEL kept", ":1")]);
    fail_over(&server, 3);
    server.client().expect(&[("EXISTS gone soon", ":0"), ("GET kept", "$1 1"), ("PTTL later", ":800")]);
}

#[test]
fn all_keys_come_back_when_a_flush_is_lost() {
    let server = start();
    let mut client = server.client();
    fill(&mut client);
    let before = state(&server);
    for request in ["FLUSHALL", "SWAPDB 0 2", "FLUSHDB", "RENAME set:big list:big"] {
        client.call(request);
        assert_ne!(state(&server), before);
        fail_over(&server, 1);
        assert_eq!(state(&server), before, "{request}");
        client = server.client();
    }
}

#[test]
fn writes_before_a_snapshot_are_remembered_and_those_before_a_restore_are_not() {
    let server = start();
    let mut client = server.client();
    client.expect(&[("SET n 1", "+OK"), ("SET n 2", "+OK"), ("TEST.SNAPSHOT s", "+OK"), ("SET n 3", "+OK")]);
    client.expect(&[("TEST.SNAPSHOT t", "+OK"), ("TEST.SNAPSHOT t", "+OK")]);
    assert_eq!(remembered(&mut client), 3);
    fail_over(&server, 2);
    let mut client = server.client();
    client.expect(&[("GET n", "$1 1"), ("TEST.RESTORE t", "+OK"), ("GET n", "$1 3"), ("TEST.RESTORE s", "+OK")]);
    client.expect(&[("GET n", "$1 2")]);
    assert_eq!(remembered(&mut client), 0);
    client.expect(&[("SET n 5", "+OK")]);
    fail_over(&server, 1);
    server.client().expect(&[("GET n", "$1 2")]);
}

const ON_A_LOCK: [&str; 8] = [
    "LOCK.ACQUIRE k one PX 1000 META why",
    "LOCK.RENEW k one PX 5000",
    "LOCK.RELEASE k one",
    "LOCK.ACQUIRE k two PX 1000 NOTIFY",
    "DEL k",
    "SET k three",
    "LOCK.ACQUIRE k three PX 7000",
    "RENAME k l",
];

#[test]
fn locks_are_what_they_were_after_any_number_of_lost_writes() {
    for lost in 1..=ON_A_LOCK.len() {
        let server = start();
        let shown = || server.client().call("LOCK.INFO k");
        let mut client = server.client();
        let mut states = vec![shown()];
        for (at, request) in ON_A_LOCK.iter().enumerate() {
            client.call(request);
            states.push(shown());
            if [1, 4].contains(&at) {
                client.expect(&[("TEST.SNAPSHOT cut", "+OK")]);
            }
        }
        fail_over(&server, lost);
        assert_eq!(shown(), states[ON_A_LOCK.len() - lost], "{lost}");
    }
}

#[test]
fn fences_never_go_back_and_sessions_are_over() {
    let server = start();
    let mut client = server.client();
    let largest = client.int("LOCK.ACQUIRE lock me PX 1000");
    fail_over(&server, 1);
    let mut client = server.client();
    assert!(client.int("LOCK.ACQUIRE lock me PX 1000") > largest);
    client.int("LOCK.ACQUIRE bound me SESSION");
    client.expect(&[("SET x 1", "+OK")]);
    fail_over(&server, 1);
    let mut client = server.client();
    client.expect(&[("GET lock", "$2 me"), ("EXISTS bound x", ":0")]);
    assert!(client.int("LOCK.ACQUIRE bound me PX 1000") > largest);
}

#[test]
fn after_any_number_of_lost_writes_the_keys_are_those_of_so_many_writes_ago() {
    for seed in log::first_seed()..log::first_seed() + 12 {
        let server = start_with(&[("test-journal-max", "100000")]);
        let mut random = Random::new(seed);
        server.client().expect(&[("TEST.SNAPSHOT begin", "+OK"), ("TEST.RESTORE begin", "+OK")]);
        let mut states = vec![state(&server)];
        for _ in 0..4 {
            play(&server, &mut random, 60, &mut states);
            // Twice, now and then: the second failover can lose the writes that the first one has left.
            for _ in 0..=random.below(2) {
                let lost = random.below(states.len());
                fail_over(&server, lost);
                states.truncate(states.len() - lost);
                assert_eq!(Some(&state(&server)), states.last(), "seed {seed}");
            }
        }
    }
}

/// Executes random transactions; records the state after each remembered write.
fn play(server: &TestServer, random: &mut Random, count: usize, states: &mut Vec<(String, Vec<[String; 3]>)>) {
    let (mut client, mut other) = (server.client(), server.client());
    for _ in 0..count {
        let size = 1 + random.below(3);
        transact(&mut client, random, size);
        let writes = remembered(&mut other);
        if writes == states.len() {
            states.push(state(server));
        }
        assert_eq!(writes + 1, states.len());
        if random.below(20) == 0 {
            other.expect(&[("TEST.SNAPSHOT cut", "+OK")]);
        }
    }
}

#[test]
fn clients_that_write_all_the_time_lose_whole_writes() {
    let server = start_with(&[("test-journal-max", "50")]);
    let is_over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..3 {
            let addr = server.addr();
            scope.spawn(move || {
                while !is_over.load(SeqCst) {
                    move_money(&mut Client::connect(addr), number, is_over);
                }
            });
        }
        for round in 0..60 {
            let mut control = server.client();
            control.expect(&[("TEST.SNAPSHOT s", "+OK")]);
            let lost = remembered(&mut control).min(round % 7);
            control.send(format!("TEST.FAILOVER LOSE {lost}\r\n").as_bytes());
            control.read_to_end();
            let mut control = server.client();
            if round % 3 == 0 {
                control.expect(&[("TEST.RESTORE s", "+OK")]);
            }
            let sum = control.frame(&["MGET", "{a}1", "{a}2", "{a}3"]);
            let Frame::Array(accounts) = sum else { panic!("{sum:?}") };
            let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
            let amounts = accounts.iter().filter_map(Frame::as_bytes).filter_map(number);
            assert_eq!(amounts.sum::<i64>(), 0);
        }
        is_over.store(true, SeqCst);
    });
}

#[test]
fn a_private_instance_goes_back_alone() {
    let server = start();
    let mut shared = server.client();
    let private = || {
        let mut client = server.client();
        client.expect(&[("AUTH ns-one any", "+OK"), ("SELECT 1000", "+OK")]);
        client
    };
    let (mut control, mut idle) = (private(), private());
    shared.expect(&[("SET k shared", "+OK"), ("TEST.SNAPSHOT s", "+OK"), ("SET k changed", "+OK")]);
    control.expect(&[("TEST.RESTORE s", "-ERR there is no snapshot with this name"), ("SET k 1", "+OK")]);
    control.expect(&[("TEST.SNAPSHOT s", "+OK"), ("SET k 2", "+OK"), ("TEST.RESTORE s", "+OK"), ("GET k", "$1 1")]);
    control.expect(&[("SET k 3", "+OK"), ("TEST.FAILOVER LOSE 1", "+OK")]);
    assert_eq!((control.read_to_end(), idle.read_to_end()), (vec![], vec![]));
    private().expect(&[("GET k", "$1 1"), ("TEST.FAILOVER LOSE 1", "-ERR only 0 writes are remembered")]);
    shared.expect(&[("GET k", "$7 changed"), ("TEST.RESTORE s", "+OK"), ("GET k", "$6 shared")]);
}

/// Moves amounts between accounts until the connection closes.
fn move_money(client: &mut Client, number: usize, is_over: &AtomicBool) {
    let (from, to) = (1 + number, 1 + (number + 1) % 3);
    let move_one = format!("MULTI\r\nINCRBY {{a}}{from} -1\r\nINCRBY {{a}}{to} 1\r\nEXEC\r\n");
    while !is_over.load(SeqCst) && client.writer().write_all(move_one.as_bytes()).is_ok() {
        for _ in 0..4 {
            if client.read_frame().is_none() {
                return;
            }
        }
    }
}

#[test]
fn the_writes_that_are_kept_are_repeated_in_their_own_databases() {
    let server = start();
    let mut client = server.client();
    client.expect(&[("SELECT 3", "+OK"), ("SET k 1", "+OK")]);
    // A checkpoint, after which the log repeats the database of the next write.
    client.expect(&[("TEST.SNAPSHOT s", "+OK"), ("INCR k", ":2"), ("INCR k", ":3"), ("SET lost v", "+OK")]);
    fail_over(&server, 1);
    let mut client = server.client();
    client.expect(&[("DBSIZE", ":0"), ("SELECT 3", "+OK"), ("GET k", "$1 3"), ("DBSIZE", ":1")]);
    client.expect(&[("INCR k", ":4"), ("SELECT 5", "+OK"), ("SET j v", "+OK"), ("SET i v", "+OK")]);
    fail_over(&server, 1);
    let mut client = server.client();
    client.expect(&[("SELECT 3", "+OK"), ("GET k", "$1 4"), ("SELECT 5", "+OK"), ("GET j", "$1 v"), ("DBSIZE", ":1")]);
}

#[test]
fn kept_writes_that_are_repeated_lead_to_the_same_keys() {
    for seed in log::first_seed()..log::first_seed() + 12 {
        let server = start_with(&[("test-journal-max", "100000")]);
        let mut random = Random::new(seed);
        server.client().expect(&[("TEST.SNAPSHOT begin", "+OK"), ("TEST.RESTORE begin", "+OK")]);
        let mut states = vec![state(&server)];
        for _ in 0..3 {
            let mut client = server.client();
            for _ in 0..30 {
                if write_once(&mut client, &mut random) {
                    states.push(state(&server));
                }
            }
            let lost = 1 + random.below(20).min(states.len() - 2);
            fail_over(&server, lost);
            states.truncate(states.len() - lost);
            assert_eq!(Some(&state(&server)), states.last(), "seed {seed}");
        }
    }
}

/// Executes a random transaction that changes at least a counter; returns false if it was refused. It is one write,
/// without a query to the server, which would make a checkpoint: no write is repeated up to a checkpoint.
fn write_once(client: &mut Client, random: &mut Random) -> bool {
    client.call("MULTI");
    for command in (0..2).map(|_| log::command(random)) {
        let name = command[0].to_ascii_lowercase();
        if ![&b"multi"[..], b"exec", b"discard"].contains(&&name[..]) {
            client.frame(&command);
        }
    }
    client.call("INCR written");
    matches!(client.frame(&["EXEC"]), Frame::Array(_))
}

#[test]
fn a_value_too_large_to_be_copied_makes_the_writes_before_it_changes_be_forgotten() {
    let server = start();
    let mut client = server.client();
    client.expect(&[("SETRANGE large 20000000 x", ":20000001"), ("SET k before", "+OK")]);
    assert_eq!(remembered(&mut client), 2);
    // The loss does not change it.
    client.expect(&[("SET k after", "+OK")]);
    fail_over(&server, 1);
    let mut client = server.client();
    client.expect(&[("GET k", "$6 before"), ("STRLEN large", ":20000001")]);
    // Its value before the change is unknown: there is no copy of it.
    client.expect(&[("SET k v", "+OK"), ("APPEND large y", ":20000002")]);
    assert_eq!(remembered(&mut client), 0);
    client.expect(&[("SET k w", "+OK")]);
    assert_eq!(remembered(&mut client), 1);
    fail_over(&server, 1);
    let mut client = server.client();
    client.expect(&[("GET k", "$1 v"), ("STRLEN large", ":20000002"), ("SET large small", "+OK")]);
    assert_eq!(remembered(&mut client), 0);
    client.expect(&[("APPEND large er", ":7")]);
    fail_over(&server, 1);
    server.client().expect(&[("GET large", "$5 small")]);
}

#[test]
fn a_collection_of_too_many_elements_is_too_large_to_be_copied() {
    let server = start();
    let mut client = server.client();
    for first in (0..200_000).step_by(10_000) {
        let members: Vec<String> = (first..first + 10_000).map(|n| format!("{n} member:{n}")).collect();
        client.call(&format!("ZADD many {}", members.join(" ")));
    }
    assert!(remembered(&mut client) > 0, "there was none before");
    client.expect(&[("ZADD many 1 one", ":1"), ("SET k v", "+OK")]);
    assert_eq!(remembered(&mut client), 0);
    client.expect(&[("TEST.SNAPSHOT s", "+OK"), ("ZREM many one", ":1"), ("FLUSHALL", "+OK")]);
    client.expect(&[("TEST.RESTORE s", "+OK"), ("ZCARD many", ":200001"), ("ZSCORE many one", "$1 1")]);
}

#[test]
fn events_of_keys_are_published_again_after_writes_were_lost() {
    let server = start_with(&[("notify-keyspace-events", "KEA")]);
    server.client().expect(&[("SET k v", "+OK")]);
    fail_over(&server, 1);
    let (mut listener, mut client) = (server.client(), server.client());
    listener.call("SUBSCRIBE __keyspace@0__:k");
    client.expect(&[("SET k w", "+OK")]);
    assert_eq!(listener.reply(), "*3 $7 message $16 __keyspace@0__:k $3 set");
}

#[test]
fn what_was_written_before_writes_are_remembered_is_kept() {
    let server = start_with(&[("test-journal-max", "0")]);
    let mut client = server.client();
    client.expect(&[("TEST.SNAPSHOT s", "+OK"), ("SET a 1", "+OK"), ("CONFIG SET test-journal-max 10", "+OK")]);
    client.expect(&[("SET b 1", "+OK"), ("SET c 1", "+OK")]);
    assert_eq!(remembered(&mut client), 2);
    fail_over(&server, 1);
    server.client().expect(&[("MGET a b c", "*3 $1 1 $1 1 $-1")]);
}

#[test]
fn a_key_that_had_expired_before_a_restore_brought_it_back_stays() {
    let server = start();
    let mut client = server.client();
    client.expect(&[(&format!("SET k v PXAT {}", log::BEGIN_MS + 1000), "+OK"), ("TEST.SNAPSHOT s", "+OK")]);
    server.server().set_wall_ms(log::BEGIN_MS + 2000);
    wait_until(|| client.info("expired_keys") == "1");
    server.server().set_wall_ms(log::BEGIN_MS);
    client.expect(&[("TEST.RESTORE s", "+OK"), ("EXISTS k", ":1"), ("SET a 1", "+OK"), ("SET b 1", "+OK")]);
    fail_over(&server, 1);
    server.client().expect(&[("MGET k a b", "*3 $1 v $1 1 $-1")]);
}

#[test]
fn a_key_that_a_lost_flush_gives_back_goes_with_the_write_that_made_it() {
    let server = start();
    let mut client = server.client();
    client.expect(&[("SET old v", "+OK")]);
    assert_eq!(remembered(&mut client), 1);
    client.expect(&[("SET new v", "+OK"), ("FLUSHALL", "+OK")]);
    fail_over(&server, 1);
    server.client().expect(&[("EXISTS old new", ":2")]);
    fail_over(&server, 1);
    server.client().expect(&[("EXISTS old", ":1"), ("EXISTS new", ":0")]);
}
