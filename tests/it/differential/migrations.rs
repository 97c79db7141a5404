//! MIGRATE compared with Redis: rejected calls, errors of the target, and keys moved from one server to the other.

use std::process::Command;

use super::oracle::{Arena, Peer};
use super::script::tell;
use crate::harness::{TestServer, encode, show};

#[test]
fn migrations_are_refused_as_by_redis() {
    tell("refusals", REFUSALS);
}

/// Calls that fail, among them calls to port 1 of this machine, where no process listens.
const REFUSALS: &str = r#"
    MIGRATE
    MIGRATE h 1 k 0
    MIGRATE h 1 k 0 100
    MIGRATE h 1 "" 0 100
    SET k v
    MIGRATE h 1 missing 0 100
    MIGRATE h 1 k x 100
    MIGRATE h 1 k 0 x
    MIGRATE h 1 k x x
    MIGRATE h 1 k 0 100 NOSUCH
    MIGRATE h 1 k 0 100 AUTH
    MIGRATE h 1 k 0 100 AUTH2 a
    MIGRATE h 1 k 0 100 AUTH2
    MIGRATE h 1 k 0 100 KEYS k
    MIGRATE h 1 k x 100 KEYS
    MIGRATE h 1 "" 0 100 KEYS
    MIGRATE h 1 "" 0 100 KEYS a b
    MIGRATE h 1 "" 0 100 COPY REPLACE AUTH KEYS KEYS a
    MIGRATE 127.0.0.1 1 k 0 100
    MIGRATE 127.0.0.1 1 k 0 0
    MIGRATE 127.0.0.1 1 k 0 -5 copy
    MIGRATE 127.0.0.1 1 "" 0 100 keys x k
    MIGRATE "" 1 k 0 100
    MIGRATE 127.0.0.1 -1 k 0 100
    GET k
    DBSIZE

    COMMAND GETKEYS MIGRATE h 1 k 0 100
    COMMAND GETKEYS MIGRATE h 1 "" 0 100
    COMMAND GETKEYS MIGRATE h 1 "" 0 100 KEYS a b
    COMMAND GETKEYS MIGRATE h 1 "" 0 100 KEYS
    COMMAND GETKEYS MIGRATE h 1 k 0 100 KEYS a
    COMMAND GETKEYS MIGRATE h 1 "" 0 100 AUTH KEYS KEYS a
    COMMAND GETKEYS MIGRATE h 1 "" 0 100 AUTH2 KEYS x KEYS a
    COMMAND GETKEYS MIGRATE h 1 k 0 100 NOSUCH
    COMMAND GETKEYSANDFLAGS MIGRATE h 1 "" 0 100 KEYS a b
    COMMAND GETKEYS ZINTERSTORE d 5 a
    COMMAND GETKEYSANDFLAGS ZUNIONSTORE d x a
    COMMAND GETKEYS ZUNIONSTORE d 1 a
    COMMAND GETKEYS SORT k
    COMMAND GETKEYS SORT k STORE d
    COMMAND GETKEYSANDFLAGS SORT k BY x STORE d

    ACL SETUSER mover +@all %R~read* %W~write* %RW~rw*
    ACL DRYRUN mover MIGRATE h 1 rw 0 500
    ACL DRYRUN mover MIGRATE h 1 read 0 500
    ACL DRYRUN mover MIGRATE h 1 write 0 500
    ACL DRYRUN mover MIGRATE h 1 "" 0 500 KEYS rw rw2
    ACL DRYRUN mover MIGRATE h 1 "" 0 500 KEYS rw read
    ACL DRYRUN mover MIGRATE h 1 "" 0 500 AUTH2 USER KEYS KEYS write
    ACL DELUSER mover

    CONFIG SET slowlog-log-slower-than 0
    SLOWLOG RESET
    MIGRATE h 1 missing 0 100 AUTH secret
    MIGRATE h 1 missing 0 100 COPY AUTH2 user secret REPLACE AUTH x
    MIGRATE h 1 missing 0 100 AUTH2 user
    CONFIG SET slowlog-log-slower-than -1
    SLOWLOG LEN
"#;

/// Sends a command and returns the reply.
fn ask(peer: &mut Peer, words: &[impl AsRef<[u8]>]) -> String {
    peer.send(&encode(words));
    show(&peer.reply().expect("a reply"))
}

#[test]
fn what_the_target_refuses_is_told_as_by_redis() {
    let Some(arena) = Arena::open() else { return };
    let mut pair = arena.pair();
    let mut told = Vec::new();
    for source in [&mut pair.keylatch, &mut pair.redis] {
        let target = TestServer::start_with(&[("requirepass", "right")]);
        let (mut to, port) = (target.client(), target.addr().port().to_string());
        to.call("AUTH right");
        to.call("MSET c other d other");
        let mut replies = vec![ask(source, &["MSET", "a", "1", "b", "2", "c", "3", "d", "4", "e", "5", "f", "6"])];
        replies.push(ask(source, &["PEXPIRE", "e", "100000000"]));
        for (db, rest) in [
            ("0", "a"),
            ("0", "a AUTH wrong"),
            ("0", "a AUTH2 nobody right"),
            ("0", "a AUTH right COPY"),
            ("0", "a AUTH right"),
            ("0", "a AUTH2 default right REPLACE"),
            ("1", "- AUTH right KEYS b c"),
            ("0", "- AUTH2 other wrong AUTH right KEYS d"),
            ("0", "- AUTH right KEYS nosuch d e"),
            ("0", "- AUTH right REPLACE KEYS nosuch d e"),
            // Redis sends the key nevertheless, to database 0; so the key must not be checked at the end.
            ("99", "f AUTH right"),
        ] {
            let (key, options) = rest.split_once(' ').unwrap_or((rest, ""));
            let key = if key == "-" { "" } else { key };
            let words = ["MIGRATE", "127.0.0.1", &port, key, db, "60000"].into_iter().chain(options.split_whitespace());
            replies.push(ask(source, &words.collect::<Vec<_>>()));
            replies.push(ask(source, &["EXISTS", "a", "b", "c", "d", "e", "f"]));
        }
        replies.push(to.call("MGET a b c d e"));
        replies.push(to.call("SELECT 1"));
        replies.push(to.call("MGET a b c d e"));
        told.push(replies);
    }
    assert_eq!(told[0], told[1]);
}

#[test]
fn a_silent_target_is_given_up_as_by_redis() {
    let Some(arena) = Arena::open() else { return };
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = silent.local_addr().expect("bound").port().to_string();
    let mut pair = arena.pair();
    pair.call(&["SET", "k", "v"]);
    for options in [&[][..], &["AUTH", "secret"]] {
        let words = [&["MIGRATE", "127.0.0.1", &port, "k", "0", "20"], options].concat();
        let replies = pair.call(&words);
        assert_eq!(replies.keylatch, replies.redis);
    }
}

#[test]
fn keys_travel_to_redis_and_back() {
    let Some(arena) = Arena::open() else { return };
    let (mut pair, ours) = (arena.pair(), arena.keylatch_port().to_string());
    let theirs = open_port(&mut pair.redis);
    let long: Vec<u8> = (0..200_000usize).map(|at| (at * at % 241) as u8).collect();
    let values: [&[u8]; 6] = [b"", b"-12", b"value", b"\0\xff\r\n", &[b'x'; 5000], &long];
    for (number, value) in values.iter().enumerate() {
        let key = format!("k{number}");
        assert_eq!(ask(&mut pair.keylatch, &[b"SET", key.as_bytes(), value, b"EX", b"1000"]), "+OK");
        assert_eq!(ask(&mut pair.keylatch, &["MIGRATE", "127.0.0.1", &theirs, &key, "0", "60000"]), "+OK");
        let sent = pair.call(&["GET", &key]);
        assert_eq!(sent.keylatch.as_deref(), Some(&b"$-1\r\n"[..]));
        let expected = [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat();
        assert_eq!(sent.redis, Some(expected.clone()));
        let ttl = ask(&mut pair.redis, &["PTTL", &key]);
        assert!(ttl[1..].parse::<u64>().is_ok_and(|ms| ms > 900_000 && ms <= 1_000_000), "{ttl}");
        let back = ["MIGRATE", "127.0.0.1", &ours, "", "0", "60000", "KEYS", "missing", &key];
        assert_eq!(ask(&mut pair.redis, &back), "+OK");
        let returned = pair.call(&["GET", &key]);
        assert_eq!(returned.keylatch, Some(expected));
        assert_eq!(returned.redis.as_deref(), Some(&b"$-1\r\n"[..]));
    }
}

#[test]
fn the_recipe_of_the_page_copies_all_keys_to_redis_and_back() {
    let Some(arena) = Arena::open() else { return };
    let (mut pair, ours) = (arena.pair(), arena.keylatch_port().to_string());
    let theirs = open_port(&mut pair.redis);
    for number in 0..250 {
        pair.call(&["SET", &format!("key {number} \"'\\"), "value", "EX", "1000"]);
    }
    let types = "RPUSH l a b|HSET h f v|SADD s x 1|SADD i 1 2|ZADD z 1.5 m|XADD x 1-1 f v|PFADD p a|GEOADD g 1 2 m";
    for words in types.split('|') {
        pair.call(&words.split(' ').collect::<Vec<_>>());
    }
    for (from, to) in [(&theirs, &ours), (&ours, &theirs)] {
        let (source, target) =
            if from == &ours { (&mut pair.keylatch, &mut pair.redis) } else { (&mut pair.redis, &mut pair.keylatch) };
        let expected = ask(source, &["DEBUG", "DIGEST"]);
        assert_eq!(ask(target, &["FLUSHALL"]), "+OK");
        assert!(copies(from, to));
        assert_eq!(ask(target, &["DEBUG", "DIGEST"]), expected);
        assert_eq!(ask(target, &["DBSIZE"]), ":258");
        assert_eq!(ask(source, &["DEBUG", "DIGEST"]), expected);
        assert_eq!(ask(target, &["CONFIG", "SET", "requirepass", "secret"]), "+OK");
        // Redis keeps its connections to targets for a while; these need no password.
        ask(target, &["CLIENT", "KILL", "TYPE", "normal"]);
        assert!(!copies(from, to), "the target refuses");
        assert!(!copies(to, from), "the source refuses");
        assert_eq!(ask(target, &["CONFIG", "SET", "requirepass", ""]), "+OK");
    }
}

/// Runs the recipe of MIGRATION.md; returns whether it succeeds.
fn copies(from: &str, to: &str) -> bool {
    let page = include_str!("../../../docs/MIGRATION.md");
    let recipe = page.split("<!-- copy -->\n```sh\n").nth(1).and_then(|rest| rest.split("```").next());
    let mut shell = Command::new("bash");
    shell.args(["-c", recipe.expect("a recipe between its marks")]).env("FROM", from).env("TO", to);
    shell.output().expect("bash starts").status.success()
}

/// Makes Redis listen on a port.
fn open_port(redis: &mut Peer) -> String {
    let reserved = crate::harness::ReservedPort::new();
    let port = reserved.port().to_string();
    assert_eq!(ask(redis, &["CONFIG", "SET", "port", &port]), "+OK");
    port
}
