//! Requests of a replica, and its description at the primary.

use std::io::Write;
use std::net::TcpListener;

use keylatch::Clock;

use super::nodes::Node;
use super::parties::{Primary, RawReplica, answer_replica};
use crate::harness::{TestServer, wait_until};

#[test]
fn replconf_replies_as_redis_does() {
    let primary = Primary::start(&[]);
    let mut client = primary.client();
    client.expect(&[
        ("REPLCONF", "+OK"),
        ("REPLCONF listening-port", "-ERR syntax error"),
        ("REPLCONF listening-port 99999", "+OK"),
        ("REPLCONF listening-port -1", "+OK"),
        ("REPLCONF listening-port x", "-ERR value is not an integer or out of range"),
        ("REPLCONF rdb-only 2", "-ERR value is out of range, value must between 0 and 1"),
        ("REPLCONF rdb-only x", "-ERR value is not an integer or out of range"),
        ("REPLCONF rdb-filter-only nothing", "-ERR Unsupported rdb-filter-only option: nothing"),
        ("REPLCONF rdb-filter-only '", "-ERR Missing rdb-filter-only values"),
        ("REPLCONF capa unknown capa eof", "+OK"),
        ("REPLCONF version 8.1.0", "+OK"),
        ("REPLCONF x y", "-ERR Unrecognized REPLCONF option: x"),
        ("PSYNC ? x", "-ERR value is not an integer or out of range"),
        ("PSYNC ?", "-ERR wrong number of arguments for 'psync' command"),
        ("SYNC x", "-ERR wrong number of arguments for 'sync' command"),
        (&format!("REPLCONF ip-address {}", "a".repeat(255)), "+OK"),
        (
            &format!("REPLCONF ip-address {}", "a".repeat(256)),
            "-ERR REPLCONF ip-address provided by replica instance is too long: 256 bytes",
        ),
    ]);
    // The regular messages of a replica and of a primary have no replies.
    client.send(b"REPLCONF ACK 5\r\nREPLCONF GETACK *\r\nREPLCONF capa eof ack 1\r\nPING\r\n");
    assert_eq!(client.reply(), "+PONG");
    assert_eq!(primary.info("connected_slaves"), "0");
}

#[test]
fn asking_for_the_data_is_not_for_transactions_scripts_and_pipelines() {
    let primary = Primary::start(&[]);
    let mut client = primary.client();
    client.expect(&[
        ("MULTI", "+OK"),
        ("PSYNC ? -1", "-ERR Command not allowed inside a transaction"),
        ("SYNC", "-ERR Command not allowed inside a transaction"),
        ("DISCARD", "+OK"),
    ]);
    #[cfg(feature = "lua")]
    for command in ["'psync', '?', '-1'", "'sync'", "'replconf', 'capa', 'eof'"] {
        let reply = client.call_args(&["EVAL", &format!("return redis.call({command})"), "0"]);
        assert!(reply.starts_with("-ERR This Redis command is not allowed from script"), "{reply}");
    }
    client.send(b"PING\r\nPSYNC ? -1\r\n");
    assert_eq!(
        (client.reply(), client.reply()),
        ("+PONG".into(), "-ERR SYNC and PSYNC are invalid with pending output".into())
    );
    client.expect(&[("REPLCONF rdb-filter-only functions", "+OK")]);
    client.expect(&[("SYNC", "-ERR Filtered replica requires EOF capability")]);
    // Redis does not reply to a monitor's request.
    client.call("MONITOR");
    client.send(b"PSYNC ? -1\r\nPING\r\n");
    let seen: Vec<String> = std::iter::from_fn(|| Some(client.reply()).filter(|line| line != "+PONG")).collect();
    assert!(seen.iter().all(|line| line.ends_with("\"PING\"") || line.ends_with("\"PSYNC\" \"?\" \"-1\"")), "{seen:?}");
    assert_eq!(primary.info("connected_slaves"), "0");
}

#[test]
fn a_private_instance_has_no_replicas() {
    let server = TestServer::start_with(&[("test-mode", "yes")]);
    let mut client = server.client();
    client.expect(&[("AUTH ns-own any", "+OK")]);
    for request in ["PSYNC ? -1", "SYNC"] {
        let reply = client.call(request);
        assert!(reply.starts_with("-ERR ") && reply.contains("private"), "{reply}");
    }
}

#[test]
fn nobody_is_given_the_data_while_it_is_not_served() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(dir.path().join("keylatch-0.running"), "").expect("a file");
    let dir = dir.path().to_str().expect("text");
    let server = TestServer::start_with(&[("dir", dir), ("restart-grace-ms", "1500")]);
    let mut client = server.client();
    let loading = "-LOADING Redis is loading the dataset in memory";
    client.expect(&[("PSYNC ? -1", loading), ("SYNC", loading), ("REPLCONF capa eof", "+OK")]);
    server.advance_ms(1500);
    let mut raw = RawReplica::connect(server.addr(), &["eof"]);
    server.client().call("CONFIG SET repl-diskless-sync-delay 0");
    raw.synchronize();
}

#[test]
fn a_replica_whose_request_has_a_reply_is_disconnected_as_by_redis() {
    let primary = Primary::start(&[]);
    primary.client().call("SET a b");
    for request in
        ["GET a", "PING", "REPLCONF capa eof", "SUBSCRIBE c", "CLIENT REPLY ON", "HELLO 3", "RESET", "NOSUCH"]
    {
        let mut raw = RawReplica::synchronized(primary.addr());
        raw.send(request);
        let rest = raw.read_to_end();
        assert!(!rest.windows(2).any(|window| window == b"$1" || window == b"+P" || window == b"+O"), "{request}");
        wait_until(|| primary.info("connected_slaves") == "0");
    }
    // A repeated request is not answered.
    let mut raw = RawReplica::synchronized(primary.addr());
    raw.send("PSYNC ? -1");
    raw.send("SYNC");
    primary.client().call("SET a c");
    assert_eq!((raw.change(), raw.change()), ("select 0".into(), "set a c".into()));
}

#[test]
fn clients_that_are_replicas_are_listed_and_closed_by_their_type() {
    let primary = Primary::start(&[]);
    let mut client = primary.client();
    for name in ["replica", "slave"] {
        assert_eq!(client.call(&format!("CLIENT LIST TYPE {name}")), "$0 ");
        let mut raw = RawReplica::connect(primary.addr(), &["eof"]);
        assert_eq!(raw.call("REPLCONF listening-port 4711 ip-address host.example"), "+OK");
        raw.synchronize();
        raw.acknowledge();
        wait_until(|| primary.shows("state=online"));
        let shown = primary.info("slave0");
        assert!(shown.starts_with("ip=host.example,port=4711,state=online,offset="), "{shown}");
        let line = client.call(&format!("CLIENT LIST TYPE {name}"));
        assert!(line.contains(" flags=S ") && line.contains(" cmd=replconf "), "{line}");
        assert_eq!(client.call(&format!("CLIENT KILL TYPE {name}")), ":1");
        raw.read_to_end();
        wait_until(|| primary.info("connected_slaves") == "0");
    }
}

#[test]
fn an_address_cannot_add_lines_to_info() {
    let primary = Primary::start(&[]);
    let mut raw = RawReplica::connect(primary.addr(), &["eof"]);
    raw.send("REPLCONF ip-address a\r\nrole:slave,port=1");
    assert_eq!(raw.line(), "+OK");
    raw.synchronize();
    let shown = primary.info("slave0");
    assert!(shown.starts_with("ip=a??role:slave?port=1,port=0,"), "{shown}");
}

#[test]
fn a_flood_of_options_and_acknowledgements_holds_nobody_up() {
    let primary = Primary::start(&[]);
    let mut raw = RawReplica::synchronized(primary.addr());
    let mut client = primary.client();
    let flood = "REPLCONF ACK 1\r\nREPLCONF GETACK *\r\n";
    let mut writer = client.writer();
    writer
        .write_all("REPLCONF listening-port 1 capa eof capa eof ip-address x\r\n".repeat(20_000).as_bytes())
        .expect("read");
    (0..20_000).for_each(|_| assert_eq!(client.reply(), "+OK"));
    (0..1000).for_each(|n| raw.send(&format!("REPLCONF ACK {n}")));
    client.send(flood.repeat(1000).as_bytes());
    client.expect(&[("SET k v", "+OK")]);
    assert_eq!((raw.change(), raw.change()), ("select 0".into(), "set k v".into()));
}

#[test]
fn whatever_lengths_a_primary_claims_its_replica_reports_the_loss_and_connects_again() {
    const HUGE: &[u8] = b"\x81\x7f\xff\xff\xff\xff\xff\xff\xff"; // a length of the dump's own kind
    const LONG: &[u8] = b"\x81\0\0\x01\0\0\0\0\0";
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let full = format!("+FULLRESYNC {} 1000\r\n", "f".repeat(40));
    let whole = |dump: &[u8]| [format!("${}\r\n", dump.len()).as_bytes(), dump].concat();
    let mut payloads = vec![b"$9223372036854775807\r\nREDIS0010".to_vec(), b"$18446744073709551615\r\n".to_vec()];
    payloads.push([b"$9223372036854775807\r\nREDIS0010\xfe\0\xfb", HUGE, b"\0"].concat());
    for len in [HUGE, LONG] {
        payloads.push(whole(&[b"REDIS0010\xfe\0\xfb", len, b"\0"].concat()));
        payloads.push(whole(&[b"REDIS0010\xfe\0\0", len, b"key"].concat()));
        payloads.push(whole(&[b"REDIS0010\xfe\0\0\x01k\xc3\x05", len, b"value"].concat()));
        // A string, a list, a set, a hash, a sorted set and a stream.
        for kind in [0, 18, 2, 4, 5, 19_u8] {
            payloads.push(whole(&[b"REDIS0010\xfe\0", &[kind][..], b"\x01k", len, b"\x01a"].concat()));
        }
    }
    for how in ["disabled", "on-empty-db", "swapdb"] {
        let replica = Node::keylatch(&[("repl-diskless-load", how)]);
        let mut client = replica.client();
        for payload in &payloads {
            client.expect(&[(&format!("REPLICAOF 127.0.0.1 {port}"), "+OK")]);
            drop(answer_replica(&listener, &[full.as_bytes(), payload].concat()));
            let what = payload.escape_ascii();
            listener.set_nonblocking(true).expect("a listener that does not wait");
            wait_until(|| client.call("ROLE").contains(" connect :-1") || listener.accept().is_ok());
            listener.set_nonblocking(false).expect("a listener that waits");
            assert_eq!(["caught_panics", "loading"].map(|field| client.info(field)), ["0", "0"], "{how}: {what}");
            client.expect(&[("DBSIZE", ":0"), ("REPLICAOF NO ONE", "+OK")]);
        }
        client.expect(&[(&format!("REPLICAOF 127.0.0.1 {port}"), "+OK")]);
        drop(answer_replica(&listener, &[full.as_bytes(), &payloads[4]].concat()));
        let (clock, lost_ms) = (Clock::system(), Clock::system().now().mono_ms());
        drop(listener.accept().expect("it connects again"));
        let waited_ms = clock.now().mono_ms() - lost_ms;
        assert!(waited_ms > 900, "{waited_ms} ms: a load that fails is not repeated at once");
    }
}

#[cfg(feature = "lua")]
#[test]
fn a_failover_that_waits_for_a_script_keeps_nobody_from_connecting_and_killing_that() {
    let primary = Primary::start(&[("busy-reply-threshold", "1")]);
    let _silent = RawReplica::synchronized(primary.addr());
    let mut client = primary.client();
    client.expect(&[("SET k v", "+OK"), ("FAILOVER", "+OK")]);
    let endless = "#!lua flags=no-writes\nwhile true do end";
    client.send(&crate::harness::encode(&["EVAL", endless, "0"]));
    let clock = Clock::system();
    let started_ms = clock.now().mono_ms();
    // The failover checks several times during this whether the replica has everything.
    wait_until(|| primary.client().call("PING").starts_with("-BUSY") && clock.now().mono_ms() - started_ms > 300);
    primary.client().expect(&[("SCRIPT KILL", "+OK")]);
    let reply = client.reply();
    assert!(reply.starts_with("-ERR Script killed by user"), "{reply}");
    primary.client().expect(&[("FAILOVER ABORT", "+OK"), ("SET k w", "+OK")]);
}
