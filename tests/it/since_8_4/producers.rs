//! Producers that name their entries: IDMP and IDMPAUTO of XADD, XCFGSET and XIDMPRECORD.

use keylatch::internals::resp::Frame;

use super::SYNTAX;
use crate::files::{dir, start_in};
use crate::harness::{Client, TestServer, encode, wait_until};

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
fn what_a_stream_recognizes_outlives_a_copy_a_restart_and_a_dump() {
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
        for key in ["s", "copy", "empty"] {
            let Frame::Bulk(dump) = client.frame(&["DUMP", key]) else { panic!("no dump") };
            assert_eq!(dump[dump.len() - 10], 13, "the version that Redis 8.6 reads");
            assert_eq!(client.call_args(&[&b"RESTORE"[..], b"restored", b"0", &dump, b"REPLACE"]), "+OK");
            let infos = [key, "restored"].map(|key| client.call(&format!("XINFO STREAM {key}")));
            assert_eq!(infos[0], infos[1], "{key}");
            assert_eq!(client.frame(&["DUMP", "restored"]), Frame::Bulk(dump));
        }
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
    client.expect(&[("XADD t 1-1 f v", "$3 1-1"), ("XCFGSET t IDMP-MAXSIZE 7", "+OK")]);
    let Frame::Bulk(dump) = client.frame(&["DUMP", "s"]) else { panic!("no dump") };
    assert_eq!(client.call_args(&[&b"RESTORE"[..], b"restored", b"0", &dump]), "+OK");
    let (_, id) = second.split_once(' ').expect("a string");
    client.expect(&[(&format!("XIDMPRECORD s q recorded {id}"), "+OK"), ("WAIT 1 0", ":1")]);
    assert!(other.call("XINFO STREAM t").contains("idmp-maxsize :7"));
    other.expect(&[("REPLICAOF NO ONE", "+OK")]);
    assert_eq!(other.call("XADD s IDMP p n1 * f v"), first);
    assert_eq!(other.call("XADD s IDMP p n2 * f v"), second);
    assert_eq!(other.call("XADD s IDMP q recorded * f v"), second);
    assert_eq!(other.call("XADD restored IDMP p n2 * f v"), second);
}

#[test]
fn what_a_stream_recognizes_is_recorded_from_files_of_redis_and_at_replicas() {
    let dir = dir();
    let parts = dir.path().join("appendonlydir");
    std::fs::create_dir(&parts).expect("a folder");
    let manifest = "file appendonly.aof.1.incr.aof seq 1 type i\n";
    std::fs::write(parts.join("appendonly.aof.manifest"), manifest).expect("a file");
    let requests = ["XADD s 9999999999999-1 f v", "XADD s 9999999999999-2 f v", "XCFGSET s IDMP-DURATION 300"];
    let requests = requests.iter().chain(&["XIDMPRECORD s p n 9999999999999-1", "XIDMPRECORD s q n 9999999999999-2"]);
    let log: Vec<u8> = requests.flat_map(|request| encode(&request.split(' ').collect::<Vec<_>>())).collect();
    std::fs::write(parts.join("appendonly.aof.1.incr.aof"), log).expect("a file");
    let server = start_in(dir.path(), &[("appendonly", "yes")]);
    let mut client = server.client();
    client
        .expect(&[("XADD s IDMP p n * f v", "$15 9999999999999-1"), ("XADD s IDMP q n * f v", "$15 9999999999999-2")]);
    let info = client.call("XINFO STREAM s");
    assert!(
        info.contains("idmp-duration :300 $12 idmp-maxsize :100 $12 pids-tracked :2 $12 iids-tracked :2"),
        "{info}"
    );
    client.expect(&[("MULTI", "+OK"), ("XIDMPRECORD s p m 9999999999999-2", "+QUEUED"), ("EXEC", "*1 +OK")]);
    #[cfg(feature = "lua")]
    client.expect(&[("EVAL return(redis.call('xidmprecord',KEYS[1],'p','l','9999999999999-2')) 1 s", "+OK")]);
    server.end();
    let server = start_in(dir.path(), &[("appendonly", "yes")]);
    server.client().expect(&[("XADD s IDMP p m * f v", "$15 9999999999999-2")]);
}

#[test]
fn an_entry_is_recorded_once_and_wrong_records_are_refused() {
    let server = TestServer::start_with(&[("notify-keyspace-events", "KEA")]);
    let (mut client, mut three) = (server.client(), server.client3());
    let first = client.call("XADD s * f v");
    let (_, id) = first.split_once(' ').expect("a string");
    let second = client.call("XADD s * g w");
    let (_, other) = second.split_once(' ').expect("a string");
    client.call("SET t v");
    let mut listener = server.client();
    listener.expect(&[("PSUBSCRIBE *", "*3 $10 psubscribe $1 * :1")]);
    client.expect(&[
        (&format!("XIDMPRECORD s p n {id}"), "+OK"),
        (&format!("xidmprecord s p n {id}"), "+OK"),
        (&format!("XIDMPRECORD s p n {other}"), "-ERR IID already exists for this producer with a different stream ID"),
        (&format!("XIDMPRECORD s q n {other}"), "+OK"),
        ("XADD s IDMP p n * f v", &first),
        ("XIDMPRECORD s p n 1-1", "-ERR No such message in stream"),
        ("XIDMPRECORD s p n x", "-ERR Invalid stream ID specified as stream command argument"),
        ("XIDMPRECORD missing p n 1-1", "-ERR no such key"),
        ("XIDMPRECORD t p n 1-1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XIDMPRECORD s p n", "-ERR wrong number of arguments for 'xidmprecord' command"),
        ("XIDMPRECORD s p n 1-1 2-2", "-ERR wrong number of arguments for 'xidmprecord' command"),
        ("PUBLISH end x", ":1"),
    ]);
    assert_eq!(client.call_args(&["XIDMPRECORD", "s", "", "n", id]), "-ERR producer ID must be non-empty");
    assert_eq!(client.call_args(&["XIDMPRECORD", "s", "p", "", id]), "-ERR idempotent ID must be non-empty");
    three.expect(&[(&format!("XIDMPRECORD s p n {id}"), "+OK")]);
    assert!(listener.reply().contains("$3 end"), "no event");
    let info = client.call("XINFO STREAM s");
    assert!(info.contains("pids-tracked :2 $12 iids-tracked :2 $10 iids-added :2 $15 iids-duplicates :1"), "{info}");
    client.expect(&[
        ("ACL SETUSER limited on nopass +@all ~other", "+OK"),
        ("AUTH limited x", "+OK"),
        (
            &format!("XIDMPRECORD s p n {id}"),
            "-NOPERM this user has no permissions to access one of the keys used as arguments",
        ),
    ]);
    server.advance_ms(100_000);
    three.expect(&[(&format!("XIDMPRECORD s p n {other}"), "+OK")]);
}
