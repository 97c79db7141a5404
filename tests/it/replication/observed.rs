//! Observability of the commands that a replica executes, and other introspection of a replica.

use std::io::Write;
use std::net::TcpListener;

use keylatch::Clock;
use keylatch::internals::table;

use super::nodes::{Kind, Node};
use super::parties::{Primary, answer_replica};
use crate::harness::{encode, wait_until};

/// Returns the first bytes that a primary without keys sends.
fn full() -> Vec<u8> {
    let dump = [b"REDIS0010\xff".as_slice(), &[0; 8]].concat(); // no checksum
    [format!("+FULLRESYNC {} 1000\r\n${}\r\n", "f".repeat(40), dump.len()).as_bytes(), &dump].concat()
}

#[test]
fn what_a_replica_executes_is_in_monitor_and_the_slow_log_and_its_bytes_are_counted() {
    let primary = Node::keylatch(&[]);
    let replica = Node::replica_of(&primary, &[("slowlog-log-slower-than", "0")]);
    replica.wait_for(&primary);
    let mut monitor = replica.client();
    monitor.expect(&[("MONITOR", "+OK")]);
    let mut client = primary.client();
    client.expect(&[("SET k v", "+OK"), ("MULTI", "+OK"), ("INCR n", "+QUEUED"), ("INCR n", "+QUEUED")]);
    client.expect(&[("EXEC", "*2 :1 :2"), ("SET last v", "+OK")]);
    let mut seen = Vec::new();
    while seen.last().is_none_or(|line: &String| !line.contains("\"last\"")) {
        seen.push(monitor.reply());
    }
    for call in ["\"set\" \"k\" \"v\"", "\"incr\" \"n\"", "\"set\" \"last\" \"v\""] {
        let line = seen.iter().find(|line| line.to_lowercase().contains(call));
        let line = line.unwrap_or_else(|| panic!("no {call} in {seen:?}"));
        assert!(line.contains(&format!("[0 127.0.0.1:{}]", primary.port())), "{line}");
    }
    replica.wait_for(&primary);
    let slow = replica.client().call("SLOWLOG GET 128").to_lowercase();
    assert!(slow.contains("$3 set $1 k $1 v"), "{slow}");
    let histogram = replica.client().call("LATENCY HISTOGRAM set incr");
    assert_eq!(histogram.matches("$5 calls :2").count(), 2, "{histogram}");
    let count = |node: &Node, field: &str| node.info(field).parse::<u64>().expect("a number");
    assert!(count(&replica, "total_net_repl_input_bytes") > 200);
    assert!(count(&replica, "total_net_input_bytes") >= count(&replica, "total_net_repl_input_bytes"));
    assert!(count(&primary, "total_net_repl_output_bytes") > 200);
    assert!(count(&primary, "total_net_output_bytes") >= count(&primary, "total_net_repl_output_bytes"));
    assert_eq!(count(&primary, "total_net_repl_input_bytes"), 0);
    for (node, field) in [(&replica, "instantaneous_input_repl_kbps"), (&primary, "instantaneous_output_repl_kbps")] {
        wait_until(|| {
            primary.client().call(&format!("SET k {}", "x".repeat(10_000)));
            node.info(field) != "0.00"
        });
    }
    primary.client().expect(&[("CONFIG RESETSTAT", "+OK")]);
    assert!(count(&primary, "total_net_repl_output_bytes") < 200);
}

#[test]
fn times_of_deliveries_are_stored_as_the_primary_says_them() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let replica = Node::keylatch(&[("replicaof", &format!("127.0.0.1 {port}"))]);
    let mut link = answer_replica(&listener, &full());
    let ahead_ms = (Clock::system().now().wall_ms() + 1_000_000).to_string();
    let mut send = |words: &str| link.write_all(&encode(&words.split(' ').collect::<Vec<_>>())).expect("it reads");
    send("SELECT 0");
    send("XADD s 1-1 f v");
    send("XGROUP CREATE s g 0");
    send(&format!("XCLAIM s g c 0 1-1 TIME {ahead_ms} RETRYCOUNT 1 FORCE JUSTID LASTID 1-1"));
    send("SET end v");
    let mut client = replica.client();
    wait_until(|| client.call("EXISTS end") == ":1");
    let shown = client.call("XINFO STREAM s FULL");
    assert!(shown.contains(&format!("$3 1-1 $1 c :{ahead_ms} :1")), "{shown}");
    let Some(primary) = Node::start(Kind::Redis, &[]) else { return };
    let replica = Node::replica_of(&primary, &[]);
    let mut client = primary.client();
    for n in 0..50 {
        for call in [format!("XADD s{n} 1-1 f v"), format!("XGROUP CREATE s{n} g 0"), format!("XADD s{n} 1-2 f v")] {
            client.call(&call);
        }
        client.call(&format!("XREADGROUP GROUP g c STREAMS s{n} >"));
        client.call(&format!("XCLAIM s{n} g d 0 1-1"));
    }
    replica.wait_for(&primary);
    let pending = |node: &Node, n: usize| {
        let shown = node.client().call(&format!("XINFO STREAM s{n} FULL"));
        let (_, rest) = shown.split_once("$7 pending ").expect("entries that are pending");
        rest.split_once(" $9 consumers").expect("consumers").0.to_owned()
    };
    for n in 0..50 {
        assert_eq!(pending(&replica, n), pending(&primary, n));
    }
}

#[test]
fn a_replica_sends_a_client_that_follows_redirections_to_its_primary() {
    let primary = Node::keylatch(&[]);
    let replica = Node::replica_of(&primary, &[]);
    primary.client().expect(&[("SET k v", "+OK")]);
    replica.wait_for(&primary);
    let redirect = format!("-REDIRECT 127.0.0.1:{}", primary.port());
    let mut client = replica.client();
    client.expect(&[("CLIENT CAPA other", "+OK"), ("GET k", "$1 v"), ("CLIENT CAPA redirect", "+OK")]);
    client.expect(&[("GET k", &redirect), ("SET k w", &redirect), ("PING", "+PONG")]);
    client.expect(&[("MULTI", "+OK"), ("GET k", &redirect)]);
    assert!(client.call("EXEC").starts_with("-EXECABORT"));
    client.expect(&[("READONLY", "+OK"), ("GET k", "$1 v"), ("SET k w", &redirect)]);
    client.expect(&[("READWRITE", "+OK"), ("GET k", &redirect), ("READONLY", "+OK"), ("RESET", "+RESET")]);
    client.expect(&[("GET k", &redirect)]);
    let refused = "-ERR This instance has cluster support disabled";
    replica.client().expect(&[("READONLY", refused), ("READWRITE", refused)]);
    client.expect(&[("REPLICAOF NO ONE", "+OK"), ("GET k", "$1 v"), ("SET k w", "+OK")]);
    let mut other = primary.client();
    other.expect(&[("CLIENT CAPA redirect", "+OK"), ("GET k", "$1 v"), ("SET k w", "+OK")]);
}

/// Output that a server before Redis 7.2 lacks after a command.
const NOT_IN_OLD: [(&str, &str); 9] = [
    ("hexpire", "HEXPIRE h 9 FIELDS 1 a"),
    ("hgetex", "HGETEX h PX 9000 FIELDS 1 a"),
    ("hpexpire", "HPEXPIRE h 9000 FIELDS 2 a b"),
    ("hsetex", "HSETEX h PX 9000 FIELDS 1 a 1"),
    ("saddex", "SADDEX s PX 9000 MEMBERS 2 a b"),
    ("sexpire", "SEXPIRE s 9 MEMBERS 1 a"),
    ("spersist", "SPERSIST s MEMBERS 1 a"),
    ("spexpire", "SPEXPIRE s 9000 MEMBERS 2 a b"),
    ("xtrim", "XTRIM s MAXLEN 0 DELREF"),
];

#[test]
fn a_redis_replica_has_what_every_command_has_changed_that_it_can_have() {
    let primary = Primary::start(&[]);
    let Some(replica) = primary.synchronized_replica() else { return };
    let mut client = primary.client();
    const STREAM: &str = "XADD s 1 f v; XADD s 2 f v; XGROUP CREATE s g 0; XREADGROUP GROUP g a COUNT 1 STREAMS s >";
    let more = [
        ("bitop", "SET a abc; SET b xbz", "BITOP DIFF k a b"),
        ("bitop", "SET a abc; SET b xbz", "BITOP ONE k a b"),
        ("bitop", "SET a abc; SET k v", "BITOP DIFF1 k a a"),
        ("xadd", "XADD s 1 f v; XADD s 2 f v; XGROUP CREATE s g 0", "XADD s MAXLEN = 9 ACKED 3 f v"),
        ("hgetdel", "HSET h a 1 b 2", "HGETDEL h FIELDS 2 b missing"),
        ("xdelex", STREAM, "XDELEX s ACKED IDS 2 1 2"),
        ("xdelex", STREAM, "XDELEX s DELREF IDS 1 2"),
        ("xackdel", STREAM, "XACKDEL s g ACKED IDS 2 1 2"),
        ("xackdel", STREAM, "XACKDEL s g DELREF IDS 1 1"),
        ("xtrim", STREAM, "XTRIM s MAXLEN 0 DELREF"),
    ];
    let mut different = Vec::new();
    // A server without their modules knows no value of the types of Redis 8.
    let is_known = |name: &str| !table().find(name.as_bytes()).is_some_and(|row| row.command.group.is_of_module());
    let stories = crate::log::rows::STORIES.iter().chain(&more);
    for (name, before, request) in stories.filter(|(name, ..)| is_known(name)) {
        client.call("FLUSHALL");
        client.call("SELECT 0");
        crate::log::rows::call_all(&mut client, name, before);
        client.call(request);
        primary.wait_for(&replica);
        let (here, there) = (client.call("DEBUG DIGEST"), replica.client().call("DEBUG DIGEST"));
        if here != there {
            different.push((*name, *request));
        }
    }
    assert_eq!(different, NOT_IN_OLD);
}

#[cfg(feature = "lua")]
#[test]
fn what_a_script_keeps_from_the_log_is_neither_at_replicas_nor_in_the_file() {
    let primary = Node::keylatch(&[("appendonly", "yes")]);
    let replica = Node::replica_of(&primary, &[]);
    replica.wait_for(&primary);
    let mut client = primary.client();
    let script = "redis.call('set', 'a', 1) redis.set_repl(redis.REPL_NONE) redis.call('set', 'b', 1) \
        redis.call('rpush', 'l', 1) redis.set_repl(redis.REPL_ALL) return redis.call('set', 'c', 1)";
    assert_eq!(client.call_args(&["EVAL", script, "0"]), "+OK");
    let script = "redis.set_repl(redis.REPL_NONE) return redis.call('set', 'd', 1)";
    assert_eq!(client.call_args(&["EVAL", script, "0"]), "+OK");
    client.expect(&[("SET e v", "+OK"), ("EXISTS a b c d e l", ":6")]);
    replica.wait_for(&primary);
    replica.client().expect(&[("EXISTS a c e", ":3"), ("EXISTS b d l", ":0")]);
    client.expect(&[("DEBUG LOADAOF", "+OK"), ("EXISTS a c e", ":3"), ("EXISTS b d l", ":0")]);
    for flag in ["REPL_AOF", "REPL_REPLICA", "REPL_SLAVE"] {
        let reply =
            client.call_args(&["EVAL", &format!("redis.set_repl(redis.{flag}) return redis.call('set', 'f', 1)"), "0"]);
        assert!(reply.starts_with("-ERR REPL_AOF and REPL_REPLICA are possible only together"), "{reply}");
    }
    client.expect(&[("EXISTS f", ":0")]);
}
