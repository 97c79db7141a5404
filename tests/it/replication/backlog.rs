//! Replicas that reconnect.

use keylatch::Clock;

use super::parties::{Primary, RawReplica};
use super::snapshots::fill;
use crate::harness::{Client, wait_until};

/// Returns the numbers of full, partial and refused partial synchronisations.
fn syncs(primary: &Primary) -> [String; 3] {
    ["sync_full", "sync_partial_ok", "sync_partial_err"].map(|field| primary.info(field))
}

#[test]
fn a_redis_server_that_was_cut_off_continues_where_it_was() {
    let primary = Primary::start(&[]);
    let mut client = primary.client();
    fill(&mut client);
    let Some(replica) = primary.synchronized_replica() else { return };
    for _ in 0..3 {
        client.expect(&[("CLIENT KILL TYPE replica", ":1"), ("APPEND text x", &client_len(&primary))]);
        primary.assert_same(&replica);
    }
    assert_eq!(syncs(&primary), ["1", "3", "0"]);
}

/// Returns the reply of the next APPEND of one byte to `text`.
fn client_len(primary: &Primary) -> String {
    format!(":{}", primary.client().int("STRLEN text") + 1)
}

#[test]
fn what_was_written_meanwhile_is_sent_byte_by_byte_and_messages_too() {
    let primary = Primary::start(&[]);
    let mut raw = RawReplica::synchronized(primary.addr());
    let mut client = primary.client();
    client.call("SET before v");
    assert_eq!((raw.change(), raw.change()), ("select 0".into(), "set before v".into()));
    let (id, offset) = (raw.id.clone(), raw.offset);
    drop(raw);
    wait_until(|| primary.info("connected_slaves") == "0");
    client.expect(&[("SET after v", "+OK"), ("PUBLISH news m", ":0"), ("SET short v PX 1", "+OK")]);
    wait_until(|| client.call("EXISTS short") == ":0");
    let mut again = RawReplica::connect(primary.addr(), &["eof", "psync2"]);
    assert_eq!(again.resume(&id, offset), format!("+CONTINUE {id}"));
    assert_eq!((again.change(), again.change()), ("set after v".into(), "publish news m".into()));
    assert!(again.change().starts_with("set short v pxat "));
    assert_eq!(again.change(), "del short");
    // A replica that does not support a second id gets none.
    let mut old = RawReplica::connect(primary.addr(), &["eof"]);
    assert_eq!(old.resume(&id, offset), "+CONTINUE");
    assert_eq!(old.change(), "set after v");
    assert_eq!(syncs(&primary), ["1", "2", "0"]);
}

#[test]
fn what_the_backlog_has_lost_is_sent_as_a_whole() {
    let primary = Primary::start(&[("repl-backlog-size", "16kb")]);
    let raw = RawReplica::synchronized(primary.addr());
    let (id, offset) = (raw.id.clone(), raw.offset);
    drop(raw);
    let mut client = primary.client();
    let value = "x".repeat(1000);
    (0..200).for_each(|_| _ = client.call(&format!("SET k {value}")));
    let mut again = RawReplica::connect(primary.addr(), &["eof", "psync2"]);
    assert!(again.resume(&id, offset).starts_with(&format!("+FULLRESYNC {id} ")));
    assert_eq!(syncs(&primary), ["2", "0", "1"]);
    let kept: u64 = primary.info("repl_backlog_histlen").parse().expect("a number");
    assert!((16 << 10..200 << 10).contains(&kept), "{kept}");
    assert_eq!(primary.info("mem_replication_backlog"), kept.to_string());
}

#[test]
fn the_size_of_the_backlog_can_be_changed_while_it_is_used() {
    let primary = Primary::start(&[("repl-backlog-size", "10mb")]);
    let raw = RawReplica::synchronized(primary.addr());
    drop(raw);
    let value = "x".repeat(1000);
    (0..1000).for_each(|_| _ = primary.client().call(&format!("SET k {value}")));
    let kept = || primary.info("repl_backlog_histlen").parse::<u64>().expect("a number");
    assert!(kept() > 1_000_000);
    primary.client().call("CONFIG SET repl-backlog-size 16kb");
    assert!(kept() < 200_000, "{}", kept());
}

#[test]
fn another_id_and_an_offset_that_was_not_reached_are_refused() {
    let primary = Primary::start(&[]);
    let raw = RawReplica::synchronized(primary.addr());
    for (id, offset) in [("f".repeat(40), raw.offset), (raw.id.clone(), raw.offset + 1_000_000), ("x".into(), 0)] {
        let mut other = RawReplica::connect(primary.addr(), &["eof", "psync2"]);
        assert!(other.resume(&id, offset).starts_with("+FULLRESYNC "));
    }
    assert_eq!(syncs(&primary), ["4", "0", "3"]);
    let mut other = RawReplica::connect(primary.addr(), &["eof", "psync2"]);
    other.send(&format!("PSYNC {} -5", raw.id));
    assert!(other.line().starts_with("+FULLRESYNC "));
}

#[test]
fn a_backlog_that_nobody_needs_is_freed_and_the_id_changes() {
    let primary = Primary::start_on(Clock::manual(), &[("repl-backlog-ttl", "10")]);
    let raw = RawReplica::synchronized(primary.addr());
    let (id, offset) = (raw.id.clone(), raw.offset);
    let mut client = primary.client();
    primary.server.advance_ms(20_000); // with a replica
    client.call("SET k v");
    drop(raw);
    wait_until(|| primary.info("connected_slaves") == "0");
    primary.server.advance_ms(9_900);
    assert_eq!((client.info("repl_backlog_active"), client.info("master_replid")), ("1".into(), id.clone()));
    primary.server.advance_ms(200);
    wait_until(|| client.info("repl_backlog_active") == "0");
    assert_ne!(client.info("master_replid"), id);
    assert_eq!(client.info("mem_replication_backlog"), "0");
    // Nothing is logged now.
    let end = client.info("master_repl_offset");
    client.call("SET k w");
    assert_eq!(client.info("master_repl_offset"), end);
    let mut again = RawReplica::connect(primary.addr(), &["eof", "psync2"]);
    assert!(again.resume(&id, offset).starts_with("+FULLRESYNC "));
}

#[test]
fn the_end_of_the_append_only_file_leaves_the_backlog_as_it_is() {
    let primary = Primary::start(&[("appendonly", "yes")]);
    let mut raw = RawReplica::synchronized(primary.addr());
    let mut client = primary.client();
    client.expect(&[("SET a 1", "+OK"), ("CONFIG SET appendonly no", "+OK")]);
    wait_until(|| client.info("aof_enabled") == "0");
    client.call("SET b 2");
    assert_eq!(raw.changes_before("set b 2"), ["select 0", "set a 1"]);
    // Without a replica, only the backlog needs the log.
    client.expect(&[("CONFIG SET appendonly yes", "+OK")]);
    wait_until(|| client.info("aof_enabled") == "1" && client.info("aof_rewrite_in_progress") == "0");
    let (id, offset) = (raw.id.clone(), raw.offset);
    drop(raw);
    wait_until(|| client.info("connected_slaves") == "0");
    client.expect(&[("CONFIG SET appendonly no", "+OK")]);
    wait_until(|| client.info("aof_enabled") == "0");
    client.call("SET c 3");
    let mut again = RawReplica::connect(primary.addr(), &["eof", "psync2"]);
    assert_eq!(again.resume(&id, offset), format!("+CONTINUE {id}"));
    assert_eq!(again.changes_before("set c 3").into_iter().filter(|change| change != "select 0").count(), 0);
}

#[test]
fn what_is_for_replicas_alone_is_not_in_the_append_only_file() {
    let primary = Primary::start(&[("appendonly", "yes"), ("repl-ping-replica-period", "1")]);
    let mut raw = RawReplica::synchronized(primary.addr());
    let mut client = primary.client();
    for n in 0..20 {
        client.call(&format!("SET key:{n} v"));
        client.call("PUBLISH news m");
        client.call("WAIT 1 1");
    }
    while raw.command() != "ping" {}
    client.call("WAITAOF 1 0 0");
    let digest = client.call("DEBUG DIGEST");
    let file = std::fs::read(primary.dir.path().join("appendonlydir/appendonly.aof.1.incr.aof")).expect("a file");
    let text = String::from_utf8_lossy(&file).to_lowercase();
    assert!(text.contains("key:19") && ["ping", "getack", "publish"].iter().all(|word| !text.contains(word)), "{text}");
    let dir = primary.dir.path().to_str().expect("text").to_owned();
    let Primary { server, dir: _kept } = primary;
    server.end();
    let settings = [("appendonly", "yes"), ("enable-debug-command", "yes"), ("dir", dir.as_str())];
    let again = crate::harness::TestServer::start_on(Clock::system(), &settings);
    let mut client: Client = again.client();
    assert_eq!(client.call("DEBUG DIGEST"), digest);
}

#[test]
fn config_resetstat_resets_what_is_counted_of_replicas_and_files() {
    let primary = Primary::start(&[("appendonly", "yes")]);
    let raw = RawReplica::synchronized(primary.addr());
    let mut again = RawReplica::connect(primary.addr(), &["eof", "psync2"]);
    assert!(again.resume(&raw.id, raw.offset).starts_with("+CONTINUE"));
    let mut other = RawReplica::connect(primary.addr(), &["eof", "psync2"]);
    assert!(other.resume(&raw.id, raw.offset + 1_000_000).starts_with("+FULLRESYNC"));
    let mut client = primary.client();
    client.expect(&[("SAVE", "+OK")]);
    let fields = ["sync_full", "sync_partial_ok", "sync_partial_err", "rdb_saves", "aof_rewrites"];
    assert_eq!(fields.map(|field| client.info(field)), ["2", "1", "1", "1", "1"]);
    client.expect(&[("CONFIG RESETSTAT", "+OK")]);
    assert_eq!(fields.map(|field| client.info(field)), ["0"; 5]);
}
