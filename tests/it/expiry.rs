//! Expiry: exact to the millisecond, on the right clock, for any number of keys.

use keylatch::Clock;

use crate::harness::{Client, Dice, TestServer, wait_until};

const WALL_MS: i64 = 1_700_000_000_000;
const HOUR_MS: i64 = 3_600_000;
/// Deadlines of thousands of years and more, in Unix milliseconds.
const FAR_DATES: [i64; 5] =
    [1 << 50, 6_148_539_391_267_569_663, 6_148_539_391_267_570_664, 6_149_665_291_174_412_288, i64::MAX];

/// Starts a server whose wall clock shows [`WALL_MS`].
fn start_at_known_date() -> TestServer {
    let server = TestServer::start();
    server.server().set_wall_ms(WALL_MS);
    server
}

fn expired(client: &mut Client) -> i64 {
    client.info("expired_keys").parse().expect("a number")
}

#[test]
fn a_key_with_a_ttl_is_gone_at_its_deadline() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SET k v PX 100", "+OK"), ("PTTL k", ":100")]);
    server.advance_ms(99);
    client.expect(&[("GET k", "$1 v"), ("PTTL k", ":1"), ("EXISTS k", ":1"), ("TYPE k", "+string")]);
    server.advance_ms(1);
    client.expect(&[("GET k", "$-1"), ("PTTL k", ":-2"), ("EXISTS k", ":0"), ("TYPE k", "+none"), ("DBSIZE", ":0")]);
}

#[test]
fn an_expired_key_is_deleted_without_being_accessed() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SET k v PX 100", "+OK"), ("SET stays v", "+OK")]);
    server.advance_ms(99);
    assert_eq!((client.int("DBSIZE"), expired(&mut client)), (2, 0));
    server.advance_ms(1);
    assert_eq!((client.int("DBSIZE"), expired(&mut client)), (1, 1));
    assert_eq!(client.call("KEYS *"), "*1 $5 stays");
}

#[test]
fn every_command_that_sets_a_ttl_expires_the_key_exactly_then() {
    let ways: &[(&str, u64)] = &[
        ("SET k v EX 2", 2000),
        ("SET k v PX 1501", 1501),
        ("SET k v EXAT 1700000002", 2000),
        ("SET k v PXAT 1700000000777", 777),
        ("SETEX k 3 v", 3000),
        ("PSETEX k 42 v", 42),
        ("GETEX base EX 2", 2000),
        ("GETEX base PX 9", 9),
        ("GETEX base EXAT 1700000005", 5000),
        ("GETEX base PXAT 1700000000001", 1),
        ("EXPIRE base 1", 1000),
        ("PEXPIRE base 123", 123),
        ("EXPIREAT base 1700000001", 1000),
        ("PEXPIREAT base 1700000000999", 999),
    ];
    for (words, life_ms) in ways {
        let server = start_at_known_date();
        let mut client = server.client();
        client.call("SET base v");
        assert!(!client.call(words).starts_with('-'), "{words}");
        let key = words.split(' ').nth(1).expect("a key");
        assert_eq!(client.call(&format!("PTTL {key}")), format!(":{life_ms}"), "{words}");
        assert_eq!(client.int(&format!("PEXPIRETIME {key}")), WALL_MS + *life_ms as i64, "{words}");
        server.advance_ms(life_ms - 1);
        assert_eq!(client.call(&format!("GET {key}")), "$1 v", "{words}");
        server.advance_ms(1);
        assert_eq!(client.call(&format!("GET {key}")), "$-1", "{words}");
        assert_eq!(expired(&mut client), 1, "{words}");
    }
}

#[test]
fn ttl_rounds_to_the_nearest_second() {
    let server = start_at_known_date();
    let mut client = server.client();
    client.expect(&[("TTL none", ":-2"), ("SET k v", "+OK"), ("TTL k", ":-1"), ("PTTL k", ":-1")]);
    for (px, ttl) in [(1, 0), (499, 0), (500, 1), (1499, 1), (1500, 2), (10_000, 10)] {
        client.call(&format!("PEXPIRE k {px}"));
        assert_eq!((client.int("TTL k"), client.int("PTTL k")), (ttl, px));
        assert_eq!(client.int("EXPIRETIME k"), (WALL_MS + px + 500) / 1000);
    }
    client.expect(&[("EXPIRETIME none", ":-2"), ("PEXPIRETIME none", ":-2"), ("PERSIST k", ":1")]);
    client.expect(&[("EXPIRETIME k", ":-1"), ("PEXPIRETIME k", ":-1")]);
}

#[test]
fn a_date_in_the_farthest_future_is_one() {
    let server = TestServer::start();
    let mut client = server.client();
    for date in FAR_DATES {
        client.expect(&[(&format!("SET k v PXAT {date}"), "+OK")]);
        let shown = client.int("PEXPIRETIME k");
        assert!(date - shown <= 1 << 50 && shown <= date, "{date}: {shown}");
        assert!(client.int("PTTL k") > (1 << 50) - (1 << 42), "{date}");
        client.expect(&[("GET k", "$1 v")]);
    }
}

#[test]
fn a_date_in_the_farthest_future_is_the_same_in_each_file() {
    for settings in [&[("appendonly", "yes")][..], &[("appendonly", "yes"), ("aof-use-rdb-preamble", "no")], &[]] {
        let dir = tempfile::tempdir().expect("a directory");
        let place = [("dir", dir.path().to_str().expect("text")), ("save", "3600 1"), ("dbfilename", "dump.rdb")];
        let settings = [&place[..], settings].concat();
        let server = TestServer::start_on(Clock::manual(), &settings);
        let mut client = server.client();
        let dates = FAR_DATES.map(|date| {
            client.expect(&[(&format!("SET k:{date} v PXAT {date}"), "+OK")]);
            client.int(&format!("PEXPIRETIME k:{date}"))
        });
        if client.call("BGREWRITEAOF").starts_with('+') {
            wait_until(|| client.info("aof_rewrite_in_progress") == "0" && client.info("aof_rewrite_scheduled") == "0");
        }
        client.expect(&[("SAVE", "+OK")]);
        server.end();
        let server = TestServer::start_on(Clock::manual(), &settings);
        let mut client = server.client();
        assert_eq!(FAR_DATES.map(|date| client.int(&format!("PEXPIRETIME k:{date}"))), dates, "{settings:?}");
    }
}

#[test]
fn relative_deadlines_ignore_jumps_of_the_wall_clock() {
    let server = start_at_known_date();
    let mut client = server.client();
    client.expect(&[("SET k v PX 1000", "+OK"), ("SET l v", "+OK"), ("EXPIRE l 2", ":1")]);
    for jump_ms in [HOUR_MS, -HOUR_MS, 10_000 * HOUR_MS, -10_000 * HOUR_MS] {
        server.server().set_wall_ms(WALL_MS + jump_ms);
        client.expect(&[("PTTL k", ":1000"), ("PTTL l", ":2000"), ("DBSIZE", ":2")]);
        assert_eq!(client.int("PEXPIRETIME k"), WALL_MS + jump_ms + 1000);
    }
    server.advance_ms(999);
    assert_eq!(client.call("DBSIZE"), ":2");
    server.advance_ms(1);
    client.expect(&[("DBSIZE", ":1"), ("GET k", "$-1")]);
    server.advance_ms(1000);
    assert_eq!((client.int("DBSIZE"), expired(&mut client)), (0, 2));
}

#[test]
fn absolute_deadlines_follow_jumps_of_the_wall_clock() {
    let server = start_at_known_date();
    let mut client = server.client();
    assert_eq!(client.call(&format!("SET k v PXAT {}", WALL_MS + 1000)), "+OK");
    assert_eq!(client.call("PTTL k"), ":1000");
    server.server().set_wall_ms(WALL_MS - HOUR_MS);
    assert_eq!(client.int("PTTL k"), HOUR_MS + 1000);
    server.advance_ms(5000);
    assert_eq!(client.int("PTTL k"), HOUR_MS - 4000);
    server.server().set_wall_ms(WALL_MS + 999);
    client.expect(&[("PTTL k", ":1"), ("DBSIZE", ":1")]);
    server.server().set_wall_ms(WALL_MS + 1000);
    assert_eq!((client.int("DBSIZE"), expired(&mut client)), (0, 1));
}

#[test]
fn a_forward_jump_expires_every_absolute_deadline_it_passes_and_no_other() {
    let server = start_at_known_date();
    let mut client = server.client();
    for n in 0..3000 {
        client.call(&format!("SET at:{n} v PXAT {}", WALL_MS + 1000 + n));
        client.call(&format!("SET in:{n} v PX {}", 1000 + n));
    }
    server.server().set_wall_ms(WALL_MS + 1999);
    assert_eq!((client.int("DBSIZE"), expired(&mut client)), (5000, 1000));
    server.server().set_wall_ms(WALL_MS);
    assert_eq!(client.int("DBSIZE"), 5000);
    server.advance_ms(1500);
    // Relative TTLs up to 1500 ms have ended; absolute deadlines up to there have passed before.
    assert_eq!(client.int("DBSIZE"), 2000 + 2499);
    client.expect(&[
        ("EXISTS at:999", ":0"),
        ("EXISTS at:1000", ":1"),
        ("EXISTS in:500", ":0"),
        ("EXISTS in:501", ":1"),
    ]);
    server.server().set_wall_ms(WALL_MS + 1_000_000);
    assert_eq!(client.int("DBSIZE"), 2499);
    server.advance_ms(2499);
    assert_eq!((client.int("DBSIZE"), expired(&mut client)), (0, 6000));
}

#[test]
fn a_date_in_the_future_of_a_clock_set_back_still_comes() {
    let server = start_at_known_date();
    let mut client = server.client();
    server.server().set_wall_ms(WALL_MS - HOUR_MS);
    client.call(&format!("SET k v EXAT {}", WALL_MS / 1000));
    server.advance_ms(HOUR_MS as u64 - 1);
    assert_eq!(client.int("DBSIZE"), 1);
    server.advance_ms(1);
    assert_eq!(client.int("DBSIZE"), 0);
}

#[test]
fn thousands_of_scattered_deadlines_all_come_exactly_on_time() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut dice = Dice::new(7);
    let mut deadlines: Vec<u64> = (0..20_000).map(|_| 1 + dice.roll(5000)).collect();
    let commands: Vec<String> =
        deadlines.iter().enumerate().map(|(n, at)| format!("SET key:{n} {at} PX {at}")).collect();
    client.pipeline(&commands);
    deadlines.sort_unstable();
    let mut now = 0;
    while now < 5000 {
        let step = 1 + dice.roll(40);
        now += step;
        server.advance_ms(step);
        let alive = deadlines.len() - deadlines.partition_point(|at| *at <= now);
        assert_eq!(client.int("DBSIZE"), alive as i64, "after {now} ms");
        assert_eq!(expired(&mut client), (deadlines.len() - alive) as i64, "after {now} ms");
    }
    assert_eq!(client.int("DBSIZE"), 0);
}

#[test]
fn one_jump_over_many_deadlines_leaves_nothing_behind() {
    let server = TestServer::start();
    let mut client = server.client();
    let commands: Vec<String> = (0..10_000).map(|n| format!("SET key:{n} v PX {}", 1 + n * 37 % 9973)).collect();
    client.pipeline(&commands);
    client.call("SET forever v");
    server.advance_ms(100_000);
    assert_eq!((client.int("DBSIZE"), expired(&mut client)), (1, 10_000));
    assert_eq!(client.info("db0"), "keys=1,expires=0,avg_ttl=0,subexpiry=0");
}

#[test]
fn deadlines_hold_in_every_database() {
    let server = TestServer::start();
    let mut client = server.client();
    for db in 0..16 {
        client.expect(&[(&format!("SELECT {db}"), "+OK"), (&format!("SET k v PX {}", 100 + db), "+OK")]);
    }
    for db in 0..16 {
        server.advance_ms(if db == 0 { 99 } else { 0 });
        client.expect(&[(&format!("SELECT {db}"), "+OK"), ("DBSIZE", ":1")]);
        server.advance_ms(1);
        client.expect(&[("DBSIZE", ":0")]);
    }
}

#[test]
fn what_replaces_a_value_drops_its_ttl_and_what_changes_it_keeps_it() {
    let drops = ["SET k w", "GETSET k w", "MSET k w", "PERSIST k", "GETEX k PERSIST"];
    let keeps =
        ["SET k w KEEPTTL", "INCR k", "INCRBYFLOAT k 1", "APPEND k 0", "SETRANGE k 0 7", "GETEX k", "SETNX k w"];
    for (words, lives_on) in drops.iter().map(|words| (words, true)).chain(keeps.iter().map(|words| (words, false))) {
        let server = TestServer::start();
        let mut client = server.client();
        assert_eq!(client.call("SET k 1 PX 100"), "+OK");
        assert!(!client.call(words).starts_with('-'), "{words}");
        assert_eq!(client.int("PTTL k"), if lives_on { -1 } else { 100 }, "{words}");
        server.advance_ms(99);
        assert_eq!(client.int("DBSIZE"), 1, "{words}");
        server.advance_ms(1);
        assert_eq!(client.int("DBSIZE"), i64::from(lives_on), "{words}");
    }
}

#[test]
fn rename_takes_the_ttl_along_and_drops_the_targets() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("SET timed 1 PX 100", "+OK"),
        ("RENAME timed moved", "+OK"),
        ("PTTL moved", ":100"),
        ("SET plain 2", "+OK"),
        ("SET target 3 PX 50", "+OK"),
        ("RENAME plain target", "+OK"),
        ("PTTL target", ":-1"),
        ("SET timed 4 PX 70", "+OK"),
        ("RENAMENX timed fresh", ":1"),
        ("PTTL fresh", ":70"),
    ]);
    server.advance_ms(50);
    client.expect(&[("GET target", "$1 2"), ("DBSIZE", ":3")]);
    server.advance_ms(20);
    client.expect(&[("GET fresh", "$-1"), ("GET moved", "$1 1"), ("DBSIZE", ":2")]);
    server.advance_ms(30);
    client.expect(&[("GET moved", "$-1"), ("GET target", "$1 2"), ("DBSIZE", ":1")]);
}

#[test]
fn an_overwritten_key_does_not_expire_at_its_old_deadline() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("SET a 1 PX 100", "+OK"),
        ("SET a 2 PX 300", "+OK"),
        ("SET b 1 PX 100", "+OK"),
        ("DEL b", ":1"),
        ("SET b 2", "+OK"),
        ("SET c 1 PX 100", "+OK"),
        ("FLUSHDB", "+OK"),
        ("SET a 2 PX 300", "+OK"),
        ("SET c 2 PX 200", "+OK"),
        ("SET b 2", "+OK"),
    ]);
    server.advance_ms(100);
    client.expect(&[("MGET a b c", "*3 $1 2 $1 2 $1 2"), ("DBSIZE", ":3")]);
    server.advance_ms(100);
    client.expect(&[("MGET a b c", "*3 $1 2 $1 2 $-1"), ("DBSIZE", ":2")]);
    server.advance_ms(100);
    client.expect(&[("MGET a b c", "*3 $-1 $1 2 $-1"), ("DBSIZE", ":1")]);
}

#[test]
fn a_lock_that_is_renewed_in_time_never_ends() {
    let server = TestServer::start();
    let mut client = server.client();
    client.call("SET lock me PX 100");
    for _ in 0..1000 {
        server.advance_ms(99);
        assert_eq!(client.call("PEXPIRE lock 100 XX"), ":1");
    }
    server.advance_ms(99);
    client.expect(&[("GET lock", "$2 me")]);
    server.advance_ms(1);
    client.expect(&[("GET lock", "$-1"), ("PEXPIRE lock 100 XX", ":0"), ("DBSIZE", ":0")]);
}

#[test]
fn a_shortened_ttl_expires_early() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SET k v EX 1000", "+OK"), ("PEXPIRE k 10", ":1")]);
    server.advance_ms(9);
    assert_eq!(client.int("DBSIZE"), 1);
    server.advance_ms(1);
    assert_eq!((client.int("DBSIZE"), expired(&mut client)), (0, 1));
}

#[test]
fn an_expired_key_is_missing_for_every_writer() {
    let server = TestServer::start();
    let mut client = server.client();
    let fresh: &[(&str, &str)] = &[
        ("SETNX k new", ":1"),
        ("SET k new NX", "+OK"),
        ("SET k new XX", "$-1"),
        ("GETSET k new", "$-1"),
        ("INCR k", ":1"),
        ("APPEND k new", ":3"),
        ("SETRANGE k 0 new", ":3"),
        ("MSETNX k new", ":1"),
        ("DEL k", ":0"),
        ("PERSIST k", ":0"),
        ("EXPIRE k 10", ":0"),
        ("RENAME k l", "-ERR no such key"),
        ("GETDEL k", "$-1"),
        ("GETEX k PERSIST", "$-1"),
        ("SET k new KEEPTTL", "+OK"),
    ];
    for (words, reply) in fresh {
        client.expect(&[("FLUSHALL", "+OK"), ("SET k old PX 10", "+OK")]);
        server.advance_ms(10);
        client.expect(&[(words, reply), ("PTTL k", if client_made_key(words) { ":-1" } else { ":-2" })]);
    }
}

/// Returns whether the command leaves a key behind where there was none.
fn client_made_key(words: &str) -> bool {
    !["XX", "DEL", "PERSIST", "EXPIRE", "RENAME"].iter().any(|word| words.contains(word))
}

#[test]
fn growing_and_shrinking_tables_lose_no_deadline() {
    let server = TestServer::start();
    let mut client = server.client();
    let timed: Vec<String> = (0..5000).map(|n| format!("SET timed:{n} v PX {}", 10_000 + n)).collect();
    client.pipeline(&timed);
    let grow: Vec<String> = (0..60_000).map(|n| format!("SET plain:{n} v")).collect();
    client.pipeline(&grow);
    server.advance_ms(10_000);
    assert_eq!(client.int("DBSIZE"), 64_999);
    let shrink: Vec<String> = (0..60_000).map(|n| format!("DEL plain:{n}")).collect();
    client.pipeline(&shrink);
    assert_eq!(client.int("DBSIZE"), 4999);
    for passed in 1..=50 {
        server.advance_ms(99);
        assert_eq!(client.int("DBSIZE"), 4999 - 99 * passed, "after {passed} steps");
    }
    server.advance_ms(49);
    assert_eq!((client.int("DBSIZE"), expired(&mut client)), (0, 5000));
}

#[test]
fn random_histories_of_timed_keys_agree_with_a_model() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut model: std::collections::BTreeMap<u64, Option<u64>> = std::collections::BTreeMap::new();
    let (mut dice, mut now) = (Dice::new(99), 0);
    for step in 0..20_000 {
        let (key, life) = (dice.roll(300), 1 + dice.roll(200));
        match dice.roll(10) {
            0..=3 => {
                client.call(&format!("SET k{key} v PX {life}"));
                model.insert(key, Some(now + life));
            }
            4 => {
                client.call(&format!("SET k{key} v"));
                model.insert(key, None);
            }
            5 => {
                let is_there = client.int(&format!("PEXPIRE k{key} {life}")) == 1;
                assert_eq!(is_there, model.contains_key(&key), "step {step}");
                model.entry(key).and_modify(|deadline| *deadline = Some(now + life));
            }
            6 => {
                let changed = client.int(&format!("PERSIST k{key}")) == 1;
                assert_eq!(changed, model.get(&key).is_some_and(Option::is_some), "step {step}");
                model.entry(key).and_modify(|deadline| *deadline = None);
            }
            7 => {
                assert_eq!(client.int(&format!("DEL k{key}")) == 1, model.remove(&key).is_some(), "step {step}");
            }
            _ => {
                let pass = dice.roll(20);
                server.advance_ms(pass);
                now += pass;
                model.retain(|_, deadline| deadline.is_none_or(|at| at > now));
                assert_eq!(client.int("DBSIZE"), model.len() as i64, "step {step}");
            }
        }
        let expected = model.get(&key).map_or(-2, |deadline| deadline.map_or(-1, |at| (at - now) as i64));
        assert_eq!(client.int(&format!("PTTL k{key}")), expected, "step {step}");
    }
}

#[test]
fn in_real_time_a_key_expires_without_being_accessed() {
    let server = TestServer::start_in_real_time();
    let mut client = server.client();
    let started = wall_ms(&mut client);
    client.call("SET k v PX 30");
    while client.int("DBSIZE") == 1 {
        assert!(wall_ms(&mut client) - started < 120_000, "the key is still there");
    }
    assert!(wall_ms(&mut client) - started >= 29, "the key went before its time");
    assert_eq!(expired(&mut client), 1);
}

#[test]
fn in_real_time_an_earlier_deadline_wakes_the_sweeper_that_waits_for_a_later_one() {
    let server = TestServer::start_in_real_time();
    let mut client = server.client();
    client.expect(&[("SET late v PX 600000", "+OK")]);
    // The sweeper sleeps for at most a second, so without a wakeup it finds each key up to a second late. One key that
    // expires earlier proves that it was woken; a busy machine needs more attempts.
    let mut took_ms = || {
        let started = wall_ms(&mut client);
        client.expect(&[("SET early v PX 20", "+OK")]);
        wait_until(|| client.int("DBSIZE") == 1);
        wall_ms(&mut client) - started
    };
    took_ms();
    assert!((0..60).any(|_| took_ms() < 700), "the sweeper slept on");
    client.expect(&[("EXISTS late", ":1"), ("EXISTS early", ":0")]);
}

/// Reads the server's time, because tests read no clock of their own.
fn wall_ms(client: &mut Client) -> i64 {
    let reply = client.call("TIME");
    let mut words = reply.split(' ').skip(2).step_by(2).map(|word| word.parse::<i64>().expect("a number"));
    let (seconds, micros) = (words.next().expect("seconds"), words.next().expect("microseconds"));
    seconds * 1000 + micros / 1000
}

#[test]
fn a_key_set_with_a_past_deadline_is_counted_nowhere() {
    let server = TestServer::start();
    let (mut client, mut watcher) = (server.client(), server.client());
    watcher.expect(&[("WATCH k", "+OK"), ("MULTI", "+OK"), ("PING", "+QUEUED")]);
    client.expect(&[("SET k v PXAT 1", "+OK"), ("DBSIZE", ":0"), ("KEYS *", "*0"), ("GET k", "$-1")]);
    watcher.expect(&[("EXEC", "*-1")]);
}

#[test]
fn an_expired_key_that_is_set_again_before_it_is_removed_has_expired() {
    let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
    let mut client = server.client();
    client.expect(&[("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"), ("SET k v PX 10", "+OK")]);
    server.advance_ms(10);
    client.expect(&[("SET k w", "+OK"), ("PTTL k", ":-1")]);
    assert_eq!(client.info("expired_keys"), "1");
}
