//! Effects on clients if a step of replication is left out.

use std::io::Write;
use std::net::TcpListener;

use keylatch::Clock;

use super::nodes::Node;
use super::parties::{Primary, RawReplica, answer_replica, hear_replica, no_time};
use crate::files::dir;
use crate::harness::{TestServer, wait_until};

#[test]
fn the_first_snapshot_with_deadlines_of_fields_is_taken() {
    for diskless in ["yes", "no"] {
        let primary = Primary::start(&[("repl-diskless-sync", diskless)]);
        primary.client().expect(&[
            ("HSET h f v g w", ":2"),
            ("HEXPIRE h 10000 FIELDS 1 f", "*1 :1"),
            ("SET k v", "+OK"),
        ]);
        let mut raw = RawReplica::connect(primary.addr(), &["eof"]);
        assert!(raw.synchronize().starts_with(b"REDIS0012"), "{diskless}");
        let replica = Node::keylatch(&[("replicaof", &format!("127.0.0.1 {}", primary.addr().port()))]);
        wait_until(|| replica.client().call("EXISTS h k") == ":2");
        assert_eq!(primary.info("sync_full"), "2");
        primary.client().expect(&[("DEL h", ":1")]);
        let mut raw = RawReplica::connect(primary.addr(), &["eof"]);
        assert!(raw.synchronize().starts_with(b"REDIS0010"), "{diskless}");
    }
}

#[test]
fn bad_data_of_a_primary_replaces_no_snapshot_file_and_ends_the_history() {
    for loading in ["disabled", "on-empty-db", "swapdb"] {
        let settings = [("dbfilename", "dump.rdb"), ("repl-diskless-load", loading)];
        let node = Node::keylatch(&settings);
        node.client().expect(&[("SET own v", "+OK")]);
        let mut raw = RawReplica::synchronized(node.addr());
        node.client().expect(&[("SET k v", "+OK"), ("SAVE", "+OK")]);
        raw.changes_before("set k v");
        let file = node.dir.path().join("dump.rdb");
        let before = std::fs::read(&file).expect("a snapshot");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        node.client().expect(&[(&format!("REPLICAOF 127.0.0.1 {port}"), "+OK")]);
        let mut bad = before.clone();
        let middle = bad.len() - 9; // the end of the keys
        bad[middle] = 77;
        let line = format!("+FULLRESYNC {} 1000\r\n${}\r\n", "f".repeat(40), bad.len());
        let (mut link, _) = hear_replica(&listener, no_time);
        link.write_all(&[line.as_bytes(), &bad].concat()).expect("it reads");
        let (_again, asked) = hear_replica(&listener, no_time); // the former link has ended
        assert_eq!(std::fs::read(&file).expect("it is there"), before, "{loading}");
        let names: Vec<_> = std::fs::read_dir(node.dir.path()).expect("a directory").collect();
        assert_eq!(names.len(), 1, "{loading}: {names:?}");
        node.client().expect(&[("REPLICAOF NO ONE", "+OK")]);
        let (id, offset) = (raw.id.clone(), raw.offset);
        let mut again = RawReplica::connect(node.addr(), &["eof", "psync2"]);
        let answer = again.resume(&id, offset);
        let is_kept = loading == "swapdb"; // the former data still exists
        assert_eq!(answer.starts_with("+CONTINUE"), is_kept, "{loading}: {answer}");
        assert_eq!(asked.contains("PSYNC\r\n$1\r\n?"), !is_kept, "{loading}: {asked}");
        node.client().expect(&[("EXISTS own", if is_kept { ":1" } else { ":0" })]);
    }
}

#[test]
fn a_block_after_wait_is_not_ended_by_an_acknowledgement() {
    let primary = Primary::start(&[]);
    let mut raw = RawReplica::synchronized(primary.addr());
    let (mut client, mut other) = (primary.client(), primary.client());
    client.expect(&[("SET k v", "+OK"), ("WAIT 1 1", ":0")]);
    let mut client = primary.server.block_as(client, "BLPOP list 0");
    raw.changes_before("set k v");
    raw.acknowledge();
    wait_until(|| other.call("INFO replication").contains(&format!("offset={},", raw.offset)));
    other.expect(&[("RPUSH list x", ":1")]);
    assert_eq!(client.reply(), "*2 $4 list $1 x");
}

#[test]
fn a_failover_to_another_host_with_the_port_of_a_replica_is_refused() {
    let primary = Node::keylatch(&[]);
    let replica = Node::replica_of(&primary, &[]);
    replica.wait_for(&primary);
    let port = replica.port();
    let refused = "-ERR FAILOVER target HOST and PORT is not a replica.";
    primary.client().expect(&[(&format!("FAILOVER TO 127.0.0.9 {port}"), refused)]);
    primary.client().expect(&[(&format!("FAILOVER TO 127.0.0.1 {port}"), "+OK")]);
    wait_until(|| replica.client().call("ROLE").contains("master"));
}

#[test]
fn the_role_that_a_transaction_shows_is_of_the_primary_that_it_has_set() {
    let primary = Node::keylatch(&[]);
    let replica = Node::replica_of(&primary, &[]);
    replica.wait_for(&primary);
    let mut client = replica.client();
    client.expect(&[("MULTI", "+OK"), ("REPLICAOF 127.0.0.1 1", "+QUEUED"), ("ROLE", "+QUEUED")]);
    let reply = client.call("EXEC");
    // The link of the new term may be connecting already.
    assert!(reply.contains(" $9 127.0.0.1 :1 $") && !reply.contains("connected"), "{reply}");
}

/// Waits until the thread for due work has run after a time.
fn look_after(server: &TestServer, ms: u64) {
    let mut client = server.client();
    let saves = client.info("rdb_saves");
    server.advance_ms(ms);
    wait_until(|| client.info("rdb_saves") != saves);
}

#[test]
fn a_replica_without_replicas_keeps_its_place_for_as_long_as_it_is_one() {
    let settings = [("save", "1 1"), ("dbfilename", "dump.rdb"), ("repl-backlog-ttl", "1")];
    let primary = Primary::start(&[]);
    let replicaof = format!("127.0.0.1 {}", primary.addr().port());
    let replica = Primary::start_on(Clock::manual(), &[&settings[..], &[("replicaof", &replicaof)]].concat());
    wait_until(|| replica.info("master_link_status") == "up");
    primary.client().expect(&[("SET k v", "+OK"), ("WAIT 1 0", ":1")]);
    look_after(&replica.server, 60_000);
    assert_eq!(replica.info("repl_backlog_active"), "1");
    primary.client().call("CLIENT KILL TYPE replica");
    wait_until(|| primary.info("sync_partial_ok") == "1");
    assert_eq!(primary.info("sync_full"), "1");
}

#[test]
fn the_backlog_is_kept_from_when_the_last_replica_has_left() {
    let settings = [("save", "1 1"), ("dbfilename", "dump.rdb"), ("repl-backlog-ttl", "100")];
    let primary = Primary::start_on(Clock::manual(), &settings);
    primary.server.advance_ms(500_000);
    let raw = RawReplica::synchronized(primary.addr());
    let (id, offset) = (raw.id.clone(), raw.offset);
    drop(raw);
    wait_until(|| primary.info("connected_slaves") == "0");
    primary.client().expect(&[("SET k v", "+OK")]);
    look_after(&primary.server, 50_000);
    let mut again = RawReplica::connect(primary.addr(), &["eof", "psync2"]);
    assert_eq!(again.resume(&id, offset), format!("+CONTINUE {id}"));
    drop(again);
    wait_until(|| primary.info("connected_slaves") == "0");
    primary.client().expect(&[("SET k w", "+OK")]);
    look_after(&primary.server, 150_000);
    assert_eq!(primary.info("repl_backlog_active"), "0");
}

#[test]
fn replicas_in_one_directory_and_process_do_not_load_each_others_data() {
    let (dir, clock) = (dir(), Clock::manual());
    let place = dir.path().to_str().expect("valid UTF-8");
    let [one, other] = [(); 2].map(|()| TestServer::start_on(clock.clone(), &[("dir", place)]));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let no_keys = [b"REDIS0010\xff".as_slice(), &[0; 8]].concat(); // no checksum
    let (begin, end) = no_keys.split_at(5);
    let line = format!("+FULLRESYNC {} 1000\r\n${}\r\n", "f".repeat(40), no_keys.len());
    one.client().expect(&[(&format!("REPLICAOF 127.0.0.1 {port}"), "+OK")]);
    let mut link = answer_replica(&listener, &[line.as_bytes(), begin].concat());
    let is_part = |name: std::ffi::OsString| name.to_string_lossy().starts_with("temp-");
    let entries = || std::fs::read_dir(dir.path()).expect("a directory").map(|entry| entry.expect("an entry"));
    let parts = || entries().filter(|entry| is_part(entry.file_name())).count();
    wait_until(|| parts() == 1);
    let primary = Primary::start(&[]);
    primary.client().expect(&[("SET k v", "+OK")]);
    other.client().expect(&[(&format!("REPLICAOF 127.0.0.1 {}", primary.addr().port()), "+OK")]);
    wait_until(|| other.client().info("master_link_status") == "up");
    other.client().expect(&[("GET k", "$1 v")]);
    assert_eq!(parts(), 1, "that of the first replica");
    link.write_all(end).expect("it reads");
    wait_until(|| one.client().info("master_link_status") == "up");
    one.client().expect(&[("DBSIZE", ":0")]);
    assert_eq!(parts(), 0);
}
