//! Expired keys and fields of hashes where nothing removes them: no reader finds them.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpListener;

use keylatch::Clock;

use super::nodes::Node;
use super::parties::answer_replica;
use crate::harness::{Client, TestServer, encode, wait_until};
use crate::probabilistic::rows as probabilistic;

/// Reading commands, with `?` in place of a key.
const READS: &[&str] = &[
    "BITCOUNT ?",
    "BITFIELD_RO ? GET u8 0",
    "BITPOS ? 1",
    "DIGEST ?",
    "DUMP ?",
    "EXISTS ?",
    "EXPIRETIME ?",
    "GEODIST ? a b",
    "GEOHASH ? a",
    "GEOPOS ? a",
    "GEORADIUS_RO ? 15 37 200 km",
    "GEORADIUSBYMEMBER_RO ? a 200 km",
    "GEOSEARCH ? FROMLONLAT 15 37 BYRADIUS 200 km",
    "GET ?",
    "GETBIT ? 1",
    "GETRANGE ? 0 -1",
    "HEXISTS ? over",
    "HEXPIRETIME ? FIELDS 1 over",
    "HGET ? over",
    "HGETALL ?",
    "HKEYS ?",
    "HLEN ?",
    "HMGET ? over other",
    "HPEXPIRETIME ? FIELDS 1 over",
    "HPTTL ? FIELDS 1 over",
    "HRANDFIELD ?",
    "HRANDFIELD ? 3 WITHVALUES",
    "HRANDFIELD ? -3",
    "HSCAN ? 0 COUNT 100000",
    "HSTRLEN ? over",
    "HTTL ? FIELDS 2 over other",
    "HVALS ?",
    #[cfg(feature = "json")]
    "JSON.ARRINDEX ? $ 1",
    #[cfg(feature = "json")]
    "JSON.ARRLEN ? .",
    #[cfg(feature = "json")]
    "JSON.DEBUG MEMORY ?",
    #[cfg(feature = "json")]
    "JSON.GET ?",
    #[cfg(feature = "json")]
    "JSON.MGET ? missing $",
    #[cfg(feature = "json")]
    "JSON.OBJKEYS ?",
    #[cfg(feature = "json")]
    "JSON.OBJLEN ? .",
    #[cfg(feature = "json")]
    "JSON.RESP ?",
    #[cfg(feature = "json")]
    "JSON.STRLEN ? .",
    #[cfg(feature = "json")]
    "JSON.TYPE ?",
    "KEYS ?",
    "LCS ? missing",
    "LINDEX ? 0",
    "LLEN ?",
    "LOCK.INFO ?",
    "LPOS ? a",
    "LRANGE ? 0 -1",
    "MEMORY USAGE ?",
    "MGET ? missing",
    "OBJECT ENCODING ?",
    "OBJECT FREQ ?",
    "OBJECT IDLETIME ?",
    "OBJECT REFCOUNT ?",
    "PEXPIRETIME ?",
    "PFCOUNT ?",
    "PTTL ?",
    "RANDOMKEY",
    "SCAN 0 COUNT 100000",
    "SCARD ?",
    "SDIFF ?",
    "SEXPIRETIME ? MEMBERS 1 over",
    "SINTER ?",
    "SDIFFCARD 1 ?",
    "SINTERCARD 1 ?",
    "SUNIONCARD 1 ?",
    "SISMEMBER ? a",
    "SMEMBERS ?",
    "SMISMEMBER ? a b",
    "SORT_RO ? ALPHA",
    "SPEXPIRETIME ? MEMBERS 1 over",
    "SPTTL ? MEMBERS 1 over",
    "SRANDMEMBER ?",
    "SSCAN ? 0",
    "STRLEN ?",
    "STTL ? MEMBERS 1 over",
    "SUBSTR ? 0 -1",
    "SUNION ?",
    "TOUCH ?",
    "TTL ?",
    "TYPE ?",
    "VCARD ?",
    "VDIM ?",
    "VEMB ? a",
    "VGETATTR ? a",
    "VINFO ?",
    "VISMEMBER ? a",
    "VLINKS ? a",
    "VRANDMEMBER ?",
    "VRANGE ? - +",
    "VSIM ? ELE a",
    "XINFO CONSUMERS ? group",
    "XINFO GROUPS ?",
    "XINFO STREAM ?",
    "XLEN ?",
    "XPENDING ? group",
    "XRANGE ? - +",
    "XREAD STREAMS ? 0",
    "XREVRANGE ? + -",
    "ZCARD ?",
    "ZCOUNT ? 0 9",
    "ZDIFF 1 ?",
    "ZINTER 1 ?",
    "ZINTERCARD 1 ?",
    "ZLEXCOUNT ? - +",
    "ZMSCORE ? a",
    "ZRANDMEMBER ?",
    "ZRANGE ? 0 -1",
    "ZRANGEBYLEX ? - +",
    "ZRANGEBYSCORE ? 0 9",
    "ZRANK ? a",
    "ZREVRANGE ? 0 -1",
    "ZREVRANGEBYLEX ? + -",
    "ZREVRANGEBYSCORE ? 9 0",
    "ZREVRANK ? a",
    "ZSCAN ? 0",
    "ZSCORE ? a",
    "ZUNION 1 ?",
];

/// Reading commands that count keys which are not deleted yet, as in Redis, or access no key.
const OTHERS: [&str; 4] = ["clusterscan", "dbsize", "lolwut", "lock.list"];

/// Commands that create keys of each type, and hashes all of whose fields expire.
const WRITES: &[&str] = &[
    "SET over:text v",
    "RPUSH over:list a b",
    "SADD over:set a b",
    "ZADD over:scores 1 a 2 b",
    "HSET over:hash over 1 other 2",
    "XADD over:stream 1-1 f v",
    #[cfg(feature = "json")]
    "JSON.SET over:json $ [1]",
];

/// Returns the commands that make everything expire at a time, the last hash being large, and a hash with a field that
/// stays.
fn commands(end_ms: i64) -> Vec<Vec<String>> {
    let split = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut commands: Vec<Vec<String>> = WRITES.iter().map(|write| split(write)).collect();
    let keys: Vec<String> = WRITES.iter().map(|write| split(write)[1].clone()).collect();
    commands.extend(keys.iter().map(|key| split(&format!("PEXPIREAT {key} {end_ms}"))));
    commands.push(split("HSET over:fields over 1 other 2"));
    commands.push(split(&format!("HPEXPIREAT over:fields {end_ms} FIELDS 2 over other")));
    let names: Vec<String> = (0..1000).map(|n| format!("f{n}")).collect();
    let (pairs, fields) = (names.join(" v ") + " v over v", names.join(" ") + " over");
    commands.push(split(&format!("HSET over:many {pairs}")));
    commands.push(split(&format!("HPEXPIREAT over:many {end_ms} FIELDS 1001 {fields}")));
    for (key, more) in [("some:few", String::new()), ("some:many", format!(" {pairs}"))] {
        commands.push(split(&format!("HSET {key} stays value over 1{more}")));
        let fields = if more.is_empty() { "over" } else { &*fields };
        commands.push(split(&format!("HPEXPIREAT {key} {end_ms} FIELDS {} {fields}", fields.split(' ').count())));
    }
    for (key, stays) in
        [("over:members", ""), ("over:manymembers", ""), ("some:members", " stays"), ("some:more", " stays")]
    {
        let members = if key.contains("many") || key.contains("more") { &fields } else { "over other" };
        commands.push(split(&format!("SADD {key} {members}{stays}")));
        let count = members.split(' ').count();
        commands.push(split(&format!("SPEXPIREAT {key} {end_ms} MEMBERS {count} {members}")));
    }
    commands
}

const OVER: &[&str] = &[
    "over:text",
    "over:list",
    "over:set",
    "over:scores",
    "over:hash",
    "over:stream",
    "over:fields",
    "over:many",
    "over:members",
    "over:manymembers",
    #[cfg(feature = "json")]
    "over:json",
];

/// Asserts that no reading command finds expired keys or fields.
fn assert_over(client: &mut Client, state: &str) {
    client.expect(&[("SORT_RO list BY nosort GET some:*->over GET some:*->stays", "*4 $-1 $5 value $-1 $5 value")]);
    // PFCOUNT may write, and so waits for the end of a pause.
    for read in
        READS.iter().chain(probabilistic::READS).filter(|read| state != "paused" || !read.starts_with("PFCOUNT"))
    {
        let missing = client.call(&read.replace('?', "missing"));
        for key in OVER {
            let reply = client.call(&read.replace('?', key)).replace(key, "missing");
            assert!(!reply.contains("over:"), "{read} of {key}, {state}: {reply}");
            // These two return the names of existing keys.
            if !read.starts_with("SCAN") && !read.starts_with("RANDOMKEY") {
                assert_eq!(reply, missing, "{read} of {key}, {state}");
            }
        }
    }
    for key in ["some:few", "some:many"] {
        for (read, reply) in [
            ("HGETALL ?", "*2 $5 stays $5 value"),
            ("HKEYS ?", "*1 $5 stays"),
            ("HVALS ?", "*1 $5 value"),
            ("HLEN ?", ":1"),
            ("HGET ? over", "$-1"),
            ("HMGET ? over stays", "*2 $-1 $5 value"),
            ("HEXISTS ? over", ":0"),
            ("HSTRLEN ? over", ":0"),
            ("HTTL ? FIELDS 2 over stays", "*2 :-2 :-1"),
            ("HRANDFIELD ?", "$5 stays"),
            ("HRANDFIELD ? 9", "*1 $5 stays"),
            ("HRANDFIELD ? -2 WITHVALUES", "*4 $5 stays $5 value $5 stays $5 value"),
            ("HSCAN ? 0 COUNT 100000", "*2 $1 0 *2 $5 stays $5 value"),
            ("EXISTS ?", ":1"),
        ] {
            assert_eq!(client.call(&read.replace('?', key)), reply, "{read} of {key}, {state}");
        }
        #[cfg(feature = "lua")]
        assert_eq!(
            client.call_args(&["EVAL_RO", "return #redis.call('HGETALL', KEYS[1])", "1", key]),
            ":2",
            "a script, {state}"
        );
    }
    for key in ["some:members", "some:more"] {
        for (read, reply) in [
            ("SMEMBERS ?", "*1 $5 stays"),
            ("SCARD ?", ":1"),
            ("SISMEMBER ? over", ":0"),
            ("SMISMEMBER ? over stays", "*2 :0 :1"),
            ("STTL ? MEMBERS 2 over stays", "*2 :-2 :-1"),
            ("SRANDMEMBER ?", "$5 stays"),
            ("SRANDMEMBER ? 9", "*1 $5 stays"),
            ("SRANDMEMBER ? -2", "*2 $5 stays $5 stays"),
            ("SSCAN ? 0 COUNT 100000", "*2 $1 0 *1 $5 stays"),
            ("SINTER ? ?", "*1 $5 stays"),
            ("SUNION ? over:members", "*1 $5 stays"),
            ("SDIFF ? missing", "*1 $5 stays"),
            ("SUNIONCARD 1 ?", ":1"),
            ("ZUNION 1 ?", "*1 $5 stays"),
            ("SORT_RO ? ALPHA", "*1 $5 stays"),
            ("EXISTS ?", ":1"),
        ] {
            assert_eq!(client.call(&read.replace('?', key)), reply, "{read} of {key}, {state}");
        }
    }
}

#[test]
fn every_reading_command_is_among_those_that_are_tried() {
    let server = TestServer::start();
    let listed = server.client().call("COMMAND LIST FILTERBY ACLCAT read").to_lowercase();
    let names: BTreeSet<&str> =
        listed.split(' ').filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase())).collect();
    let is_tried = |name: &&str| {
        let words = name.replace('|', " ").to_uppercase() + " ";
        READS.iter().chain(probabilistic::READS).any(|read| format!("{read} ").starts_with(&words))
            || OTHERS.contains(name)
    };
    let missing: Vec<&&str> = names.iter().filter(|name| !is_tried(name)).collect();
    assert!(names.len() > 80 && missing.is_empty(), "{missing:?}");
}

#[test]
fn no_reader_of_a_replica_finds_what_is_over_with_its_primary_or_without() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port().to_string();
    let replica = Node::keylatch(&[("replicaof", &format!("127.0.0.1 {port}"))]);
    let dump = [b"REDIS0010\xff".as_slice(), &[0; 8]].concat(); // no checksum
    let full = [format!("+FULLRESYNC {} 1000\r\n${}\r\n", "f".repeat(40), dump.len()).as_bytes(), &dump].concat();
    let mut link = answer_replica(&listener, &full);
    let past_ms = Clock::system().now().wall_ms() - 1_000_000;
    let mut stream = encode(&["SELECT", "0"]);
    commands(past_ms).iter().for_each(|command| stream.extend(encode(command)));
    stream.extend(encode(&["RPUSH", "list", "few", "many"]));
    stream.extend(encode(&["SET", "end", "v"]));
    link.write_all(&stream).expect("it reads");
    let mut client = replica.client();
    wait_until(|| client.call("EXISTS end") == ":1");
    client.expect(&[("DEBUG SET-ACTIVE-EXPIRE 1", "+OK")]);
    assert_over(&mut client, "replica");
    drop((link, listener));
    wait_until(|| client.info("master_link_status") == "down");
    assert_over(&mut client, "without its primary");
    // A client that may write finds no more than one that reads.
    client.expect(&[("CONFIG SET replica-read-only no", "+OK"), ("HINCRBY some:few over 5", ":5")]);
    client.expect(&[("HSETNX over:fields over 7", ":1"), ("HGETALL over:fields", "*2 $4 over $1 7")]);
    client.expect(&[("INCR over:text", ":1"), ("LPUSH over:list z", ":1")]);
    // When it takes the primary's place, it removes expired keys and fields.
    client.expect(&[("REPLICAOF NO ONE", "+OK")]);
    wait_until(|| client.call("DBSIZE") == ":9");
}

#[test]
fn no_reader_finds_what_is_over_while_clients_are_paused() {
    let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
    let mut client = server.client();
    client.expect(&[("RPUSH list few many", ":2")]);
    let reply = client.call("TIME");
    let now_ms: i64 = reply.split(' ').nth(2).expect("seconds").parse::<i64>().expect("a number") * 1000;
    for command in commands(now_ms + 10_000) {
        assert!(!client.call_args(&command).starts_with('-'));
    }
    client.expect(&[("CLIENT PAUSE 10000000 WRITE", "+OK")]);
    server.advance_ms(20_000);
    assert_over(&mut client, "paused");
    client.expect(&[("CLIENT UNPAUSE", "+OK")]);
    server.advance_ms(1);
    client.expect(&[("DBSIZE", ":5")]);
}
