//! Full synchronisations.

use super::parties::{Primary, RawReplica};
use crate::harness::{Client, wait_until};

/// Adds keys of all types that Redis 7.0 has, with deadlines, in several databases, and a library.
pub(super) fn fill(client: &mut Client) {
    for request in [
        "SET text value",
        "SET number 12345",
        "SET until v EX 10000",
        "RPUSH list a 1 2 b",
        "SADD integers 1 2 300",
        "SADD words a b c",
        "ZADD scores 1 a 2.5 b",
        "HSET fields a 1 b 2",
        "XADD stream 1-1 f v",
        "XADD stream 2-1 f v g w",
        "XGROUP CREATE stream group 0",
        "XREADGROUP GROUP group consumer COUNT 1 STREAMS stream >",
        "PFADD log a b c",
        "GEOADD places 13.361389 38.115556 palermo",
        "SETBIT bits 77 1",
        "SELECT 7",
        "SET text elsewhere PX 10000000",
        "SELECT 0",
    ] {
        let reply = client.call(request);
        assert!(!reply.starts_with('-'), "{request}: {reply}");
    }
    let long = "x".repeat(20_000);
    let many: Vec<String> = (0..1000)
        .flat_map(|n| {
            [
                format!("RPUSH longlist {n}:{long:.40}"),
                format!("SADD manywords {n}w"),
                format!("ZADD manyscores {n} {n}m"),
                format!("HSET manyfields {n}f {n}"),
                format!("SET key:{n} {long:.50}"),
            ]
        })
        .collect();
    client.pipeline(&many);
    client.call(&format!("SET long {long}"));
    #[cfg(feature = "lua")]
    client.call_args(&["FUNCTION", "LOAD", "#!lua name=mylib\nredis.register_function('f', function() return 7 end)"]);
}

#[test]
fn a_redis_server_gets_all_data_and_what_follows() {
    let primary = Primary::start(&[]);
    let mut client = primary.client();
    fill(&mut client);
    let Some(replica) = primary.synchronized_replica() else { return };
    primary.assert_same(&replica);
    assert_eq!((primary.info("sync_full"), primary.info("connected_slaves")), ("1".into(), "1".into()));
    let line = primary.info("slave0");
    assert!(line.starts_with("ip=127.0.0.1,port=0,state=online,offset="), "{line}");
    #[cfg(feature = "lua")]
    assert!(replica.client().call("FUNCTION LIST").contains("$5 mylib"));
    client.expect(&[("SET behind it", "+OK"), ("SELECT 5", "+OK"), ("SET behind there", "+OK")]);
    primary.assert_same(&replica);
    let mut there = replica.client();
    there.expect(&[("GET behind", "$2 it"), ("SELECT 5", "+OK"), ("GET behind", "$5 there")]);
}

#[test]
fn without_diskless_synchronisation_a_snapshot_is_a_file_of_known_length_that_is_removed() {
    let primary = Primary::start(&[("repl-diskless-sync", "no"), ("repl-diskless-sync-delay", "1000")]);
    fill(&mut primary.client());
    let mut raw = RawReplica::connect(primary.addr(), &["eof"]);
    raw.send("PSYNC ? -1");
    assert!(raw.line().starts_with("+FULLRESYNC "));
    let (framing, payload) = raw.payload();
    assert_eq!(framing, format!("${}", payload.len()));
    assert!(payload.starts_with(b"REDIS"));
    // The replica need not acknowledge the snapshot.
    primary.client().call("SET k v");
    assert_eq!((raw.change(), raw.change()), ("select 0".into(), "set k v".into()));
    let left: Vec<_> = std::fs::read_dir(primary.dir.path()).expect("a directory").collect();
    assert!(left.is_empty(), "{left:?}");
    let Some(replica) = primary.synchronized_replica() else { return };
    primary.assert_same(&replica);
}

#[test]
fn a_replica_that_does_not_know_the_mark_at_the_end_is_told_the_length() {
    let primary = Primary::start(&[]);
    fill(&mut primary.client());
    let [mut old, mut new] = [&[][..], &["eof"][..]].map(|capa| RawReplica::connect(primary.addr(), capa));
    new.send("PSYNC ? -1");
    assert!(new.line().starts_with("+FULLRESYNC "));
    assert!(new.payload().0.starts_with("$EOF:"));
    // The reply to SYNC is the payload alone.
    old.send("SYNC");
    let (framing, payload) = old.payload();
    assert_eq!(framing, format!("${}", payload.len()));
}

#[test]
fn replicas_that_ask_within_the_delay_get_one_snapshot() {
    let primary = Primary::start(&[("repl-diskless-sync-delay", "600"), ("repl-diskless-sync-max-replicas", "3")]);
    fill(&mut primary.client());
    let mut raws: Vec<_> = (0..2).map(|_| RawReplica::connect(primary.addr(), &["eof"])).collect();
    raws.iter_mut().for_each(|raw| raw.send("PSYNC ? -1"));
    wait_until(|| primary.info("connected_slaves") == "2");
    assert!(primary.info("slave1").contains("state=wait_bgsave"));
    raws.push(RawReplica::connect(primary.addr(), &["eof"]));
    raws[2].send("PSYNC ? -1");
    let payloads: Vec<_> = raws.iter_mut().map(RawReplica::full).collect();
    assert!(payloads.iter().all(|payload| *payload == payloads[0]));
    assert!(raws.iter().all(|raw| (raw.offset, &raw.id) == (raws[0].offset, &raws[0].id)));
}

#[test]
fn hundreds_that_ask_at_once_are_served_and_those_that_leave_are_forgotten() {
    let primary = Primary::start(&[("repl-diskless-sync-delay", "600"), ("repl-diskless-sync-max-replicas", "200")]);
    fill(&mut primary.client());
    let mut raws: Vec<_> = (0..199).map(|_| RawReplica::connect(primary.addr(), &["eof"])).collect();
    raws.iter_mut().for_each(|raw| raw.send("PSYNC ? -1"));
    wait_until(|| primary.info("connected_slaves") == "199");
    raws.truncate(150);
    wait_until(|| primary.info("connected_slaves") == "150");
    // Disconnected replicas do not count.
    let more: Vec<_> = (0..50).map(|_| RawReplica::connect(primary.addr(), &["eof"])).collect();
    raws.extend(more);
    raws[150..].iter_mut().for_each(|raw| raw.send("PSYNC ? -1"));
    let first = raws[0].full();
    assert!(raws[1..].iter_mut().all(|raw| raw.full() == first));
    drop(raws);
    wait_until(|| primary.info("connected_slaves") == "0");
}

#[test]
fn what_is_written_during_a_snapshot_comes_behind_it() {
    let primary = Primary::start(&[("rdb-key-save-delay", "200")]);
    fill(&mut primary.client());
    let mut raw = RawReplica::connect(primary.addr(), &["eof"]);
    raw.send("PSYNC ? -1");
    wait_until(|| primary.info("rdb_bgsave_in_progress") == "1");
    primary.client().expect(&[("SET text changed", "+OK"), ("DEL key:1 key:999", ":2")]);
    let payload = raw.full();
    let has = |text: &[u8]| payload.windows(text.len()).any(|window| window == text);
    assert!(has(b"key:999") && has(b"value") && !has(b"changed"));
    raw.acknowledge();
    raw.acknowledge();
    assert_eq!(raw.changes_before("del key:1 key:999"), ["select 0", "set text changed"]);
}

#[test]
fn a_replica_that_reads_no_snapshot_is_disconnected_and_holds_nobody_up_for_ever() {
    let primary = Primary::start(&[("repl-timeout", "2")]);
    let mut client = primary.client();
    let long = "x".repeat(1 << 20);
    for n in 0..40 {
        client.call(&format!("SET long:{n} {long}{}", n * 7919)); // more than the buffers of a socket
    }
    client.call("CONFIG SET rdbcompression no");
    let mut raw = RawReplica::connect(primary.addr(), &["eof"]);
    raw.send("PSYNC ? -1");
    wait_until(|| primary.info("connected_slaves") == "1");
    let mut other = RawReplica::connect(primary.addr(), &["eof"]);
    wait_until(|| primary.info("rdb_bgsave_in_progress") == "1");
    other.send("PSYNC ? -1");
    assert!(other.full().len() > 40 << 20);
    wait_until(|| primary.info("connected_slaves") == "1");
}

#[test]
fn a_snapshot_that_cannot_be_begun_leaves_no_former_keys_to_the_next() {
    let primary = Primary::start(&[("repl-diskless-sync", "no")]);
    let mut client = primary.client();
    client.expect(&[("SET key former", "+OK"), ("SET removed value", "+OK")]);
    let place = primary.dir.path().join(format!("temp-{}.rdb", std::process::id()));
    std::fs::create_dir(&place).expect("a directory where the file of the snapshot would be");
    let mut raw = RawReplica::connect(primary.addr(), &["eof"]);
    raw.send("PSYNC ? -1");
    let answer = raw.read_to_end();
    assert!(answer.starts_with(b"+FULLRESYNC ") && answer.iter().filter(|byte| **byte == b'\n').count() == 1);
    std::fs::remove_dir(&place).expect("an empty directory");
    // Data that no client sees any more was retained for the snapshot, and is not in the next one.
    client.expect(&[("FLUSHALL", "+OK"), ("SET key present", "+OK"), ("DEBUG RELOAD", "+OK")]);
    client.expect(&[("DBSIZE", ":1"), ("GET key", "$7 present")]);
}

#[test]
fn a_server_ends_while_a_replica_reads_no_snapshot() {
    let primary = Primary::start(&[]);
    let long = "x".repeat(1 << 20);
    primary.client().call("CONFIG SET rdbcompression no");
    for n in 0..40 {
        primary.client().call(&format!("SET long:{n} {long}"));
    }
    let mut raw = RawReplica::connect(primary.addr(), &["eof"]);
    raw.send("PSYNC ? -1");
    wait_until(|| primary.info("rdb_bgsave_in_progress") == "1");
    primary.server.end();
}
