//! Producers that name their entries: IDMP and IDMPAUTO of XADD, and XCFGSET.

use keylatch::internals::resp::Frame;

use super::SYNTAX;
use crate::files::{dir, start_in};
use crate::harness::{Client, TestServer, wait_until};

fn len(client: &mut Client) -> i64 {
    client.int("XLEN s")
}

#[test]
fn an_entry_that_a_producer_adds_again_is_answered_with_the_first() {
    let server = TestServer::start_with(&[("notify-keyspace-events", "KEA")]);
    let mut client = server.client();
    let first = client.call("XADD s IDMP p n1 * f v");
    assert_eq!(client.call("XADD s IDMP p n1 * other w"), first);
    assert_eq!(client.call("XADD s idmp p n1 MAXLEN 0 * f v"), first, "nor is it trimmed");
    assert_eq!(len(&mut client), 1);
    for other in ["IDMP p n2", "IDMP q n1", "NOMKSTREAM KEEPREF IDMP q n2", "IDMP q n3 MAXLEN 9"] {
        assert_ne!(client.call(&format!("XADD s {other} * f v")), first, "{other}");
    }
    assert_eq!(len(&mut client), 5);
    let (_, id) = first.split_once(' ').expect("a string");
    client.expect(&[(&format!("XDEL s {id}"), ":1")]);
    assert_eq!(client.call("XADD s IDMP p n1 * f v"), first, "although it was deleted");
    client.expect(&[("XADD missing NOMKSTREAM IDMP p n1 * f v", "$-1"), ("EXISTS missing", ":0")]);
}

#[test]
fn the_name_may_be_computed_from_fields_and_values_in_any_order() {
    let server = TestServer::start();
    let mut client = server.client();
    let first = client.call("XADD s IDMPAUTO p * a 1 b 2");
    assert_eq!(client.call("XADD s IDMPAUTO p * b 2 a 1"), first);
    for other in ["a 2 b 1", "a 1", "a 1 b 2 a 1", "1 a 2 b", "a 1b 2 x"] {
        assert_ne!(client.call(&format!("XADD s IDMPAUTO p * {other}")), first, "{other}");
    }
    assert_ne!(client.call("XADD s IDMPAUTO q * a 1 b 2"), first);
}

#[test]
fn entries_are_forgotten_when_they_are_too_old_or_too_many() {
    let server = TestServer::start_with(&[("stream-idmp-duration", "5"), ("stream-idmp-maxsize", "2")]);
    let mut client = server.client();
    let first = client.call("XADD s IDMP p n1 * f v");
    server.advance_ms(4999);
    assert_eq!(client.call("XADD s IDMP p n1 * f v"), first);
    server.advance_ms(1);
    let second = client.call("XADD s IDMP p n1 * f v");
    assert_ne!(second, first);
    client.call("XADD s IDMP p n2 * f v");
    assert_eq!(client.call("XADD s IDMP p n1 * f v"), second);
    client.call("XADD s IDMP p n3 * f v");
    assert_ne!(client.call("XADD s IDMP p n1 * f v"), second, "the oldest of three");
    let info = client.call("XINFO STREAM s");
    assert!(
        info.contains("$13 idmp-duration :5 $12 idmp-maxsize :2 $12 pids-tracked :1 $12 iids-tracked :2"),
        "{info}"
    );
    assert!(info.contains("$10 iids-added :5 $15 iids-duplicates :2"), "{info}");
}

#[test]
fn the_limits_of_a_stream_are_set_and_others_make_it_forget() {
    let server = TestServer::start();
    let mut client = server.client();
    let first = client.call("XADD s IDMP p n1 * f v");
    client.expect(&[("XCFGSET s IDMP-DURATION 100", "+OK"), ("xcfgset s idmp-maxsize 100 idmp-duration 100", "+OK")]);
    assert_eq!(client.call("XADD s IDMP p n1 * f v"), first, "the limits are those that it had");
    client.expect(&[("XCFGSET s IDMP-MAXSIZE 7", "+OK")]);
    assert_ne!(client.call("XADD s IDMP p n1 * f v"), first);
    client.call("XADD plain * f v");
    assert!(client.call("XINFO STREAM plain").starts_with("*20 "), "as in Redis 8.4");
    client.expect(&[("XCFGSET plain IDMP-DURATION 86400", "+OK")]);
    assert!(client.call("XINFO STREAM plain").contains("$13 idmp-duration :86400 $12 idmp-maxsize :100"));
    const DURATION: &str = "-ERR IDMP-DURATION must be between 1 and 86400 seconds";
    const SIZE: &str = "-ERR IDMP-MAXSIZE must be between 1 and 10000 entries";
    client.call("SET t v");
    client.expect(&[
        ("XCFGSET missing IDMP-MAXSIZE 7", "-ERR no such key"),
        ("XCFGSET t IDMP-MAXSIZE 7", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XCFGSET s", "-ERR At least one parameter must be specified"),
        ("XCFGSET s IDMP-DURATION 0", DURATION),
        ("XCFGSET s IDMP-DURATION 86401", DURATION),
        ("XCFGSET s IDMP-DURATION x", DURATION),
        ("XCFGSET s IDMP-MAXSIZE 0", SIZE),
        ("XCFGSET s IDMP-MAXSIZE 10001", SIZE),
        ("XCFGSET s IDMP-MAXSIZE 1 IDMP-MAXSIZE 1", "-ERR IDMP-MAXSIZE specified multiple times"),
        ("XCFGSET s IDMP-DURATION 1 IDMP-DURATION 1", "-ERR IDMP-DURATION specified multiple times"),
        ("XCFGSET s IDMP-MAXSIZE", SYNTAX),
        ("XCFGSET s MAXLEN 5", SYNTAX),
        ("XCFGSET", "-ERR wrong number of arguments for 'xcfgset' command"),
        ("CONFIG GET stream-idmp-duration", "*2 $20 stream-idmp-duration $3 100"),
        ("CONFIG GET stream-idmp-maxsize", "*2 $19 stream-idmp-maxsize $3 100"),
    ]);
    assert!(client.call("CONFIG SET stream-idmp-duration 0").starts_with("-ERR CONFIG SET failed"));
}

#[test]
fn wrong_names_of_producers_and_entries_are_refused() {
    let server = TestServer::start();
    let mut client = server.client();
    for (args, error) in [
        (&["IDMP", "p", "n", "IDMP", "p", "n", "*"][..], "-ERR syntax error, IDMP/IDMPAUTO specified multiple times"),
        (&["IDMP", "p", "n", "IDMPAUTO", "p", "*"], "-ERR syntax error, IDMP/IDMPAUTO specified multiple times"),
        (&["IDMPAUTO", "", "*"], "-ERR syntax error, IDMPAUTO requires a non-empty producer ID"),
        (&["IDMP", "", "n", "*"], "-ERR syntax error, IDMP requires a non-empty producer ID"),
        (&["IDMP", "p", "", "*"], "-ERR syntax error, IDMP requires a non-empty idempotent ID"),
        (&["IDMP", "p", "n", "1-1"], "-ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs"),
        (&["IDMPAUTO", "p", "5-*"], "-ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs"),
    ] {
        let words = [&["XADD", "s"], args, &["f", "v"]].concat();
        assert_eq!(client.call_args(&words), error, "{words:?}");
    }
    client.expect(&[("EXISTS s", ":0")]);
}

#[test]
fn what_a_stream_recognizes_outlives_a_copy_and_a_restart_but_not_a_dump() {
    for (aof, preamble) in [("no", "yes"), ("yes", "yes"), ("yes", "no")] {
        let dir = dir();
        let settings = [("appendonly", aof), ("aof-use-rdb-preamble", preamble), ("stream-idmp-duration", "86400")];
        let server = start_in(dir.path(), &settings);
        let mut client = server.client();
        let first = client.call_args(&["XADD", "s", "IDMP", "p 1", "n\r\n", "*", "f", "v"]);
        client.call("XADD s IDMPAUTO q * f v");
        client.call("XADD empty MAXLEN 0 IDMP p n * f v");
        client.expect(&[("XCFGSET s IDMP-DURATION 86400", "+OK"), ("COPY s copy", ":1")]);
        if aof == "yes" {
            client.call("BGREWRITEAOF");
            wait_until(|| client.info("aof_rewrite_in_progress") == "0");
        }
        let third = client.call("XADD s IDMP p late * f v");
        let infos = ["s", "copy", "empty"].map(|key| client.call(&format!("XINFO STREAM {key}")));
        client.call("SAVE");
        server.end();
        let server = start_in(dir.path(), &settings);
        let mut client = server.client();
        for (key, info) in ["s", "copy", "empty"].iter().zip(infos) {
            assert_eq!(client.call(&format!("XINFO STREAM {key}")), info, "{key} {aof} {preamble}");
        }
        for key in ["s", "copy"] {
            let again = client.call_args(&["XADD", key, "IDMP", "p 1", "n\r\n", "*", "f", "v"]);
            assert_eq!(again, first, "{key} {aof} {preamble}");
        }
        assert_eq!(client.call("XADD s IDMP p late * f v"), third, "{aof} {preamble}");
        let Frame::Bulk(dump) = client.frame(&["DUMP", "s"]) else { panic!("no dump") };
        client.call_args(&[&b"RESTORE"[..], b"restored", b"0", &dump]);
        assert!(client.call("XINFO STREAM restored").starts_with("*20 "));
    }
}

#[test]
fn a_replica_recognizes_what_its_primary_does() {
    let (primary, replica) = (TestServer::start_in_real_time(), TestServer::start_in_real_time());
    let (mut client, mut other) = (primary.client(), replica.client());
    let first = client.call("XADD s IDMP p n1 * f v");
    other.call(&format!("REPLICAOF 127.0.0.1 {}", primary.addr().port()));
    wait_until(|| other.info("master_link_status") == "up");
    let second = client.call("XADD s IDMP p n2 * f v");
    client.expect(&[("XADD t 1-1 f v", "$3 1-1"), ("XCFGSET t IDMP-MAXSIZE 7", "+OK"), ("WAIT 1 0", ":1")]);
    assert!(other.call("XINFO STREAM t").contains("idmp-maxsize :7"));
    other.expect(&[("REPLICAOF NO ONE", "+OK")]);
    assert_eq!(other.call("XADD s IDMP p n1 * f v"), first);
    assert_eq!(other.call("XADD s IDMP p n2 * f v"), second);
}
