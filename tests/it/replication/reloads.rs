//! Data that DEBUG replaces, and data that is missing, while replicas have it.

use std::process::Command;

use keylatch::Clock;
use keylatch::internals::disk::SimulatedDisk;

use super::nodes::{Kind, Node};
use super::parties::RawReplica;
use crate::harness::{Client, wait_until};
use crate::process::{Process, binary};

#[test]
fn replicas_get_all_data_again_where_debug_has_put_a_file_in_its_place() {
    for kind in [Kind::Keylatch, Kind::Redis] {
        let primary = Node::keylatch(&[("dbfilename", "dump.rdb")]);
        let Some(replica) = Node::start(kind, &[]) else { return };
        replica.follow(&primary);
        let mut client = primary.client();
        client.expect(&[("SET k saved", "+OK"), ("SAVE", "+OK"), ("SET k later", "+OK"), ("SET l v", "+OK")]);
        replica.assert_same(&primary);
        client.expect(&[("DEBUG RELOAD NOSAVE", "+OK"), ("GET k", "$5 saved"), ("EXISTS l", ":0")]);
        replica.assert_same(&primary);
        replica.client().expect(&[("GET k", "$5 saved"), ("EXISTS l", ":0")]);
        assert_eq!(primary.info("sync_full"), "2");
        // A save and load keeps the data the same.
        client.expect(&[("SET k again", "+OK"), ("DEBUG RELOAD", "+OK"), ("SET l w", "+OK")]);
        replica.assert_same(&primary);
        assert_eq!(primary.info("sync_full"), "2");
        // A failed load may leave a part of the data.
        client.expect(&[("DEBUG RELOAD NOSAVE NOFLUSH", "-ERR Error trying to load the RDB dump")]);
        replica.assert_same(&primary);
        client.expect(&[("CONFIG SET appendonly yes", "+OK")]);
        wait_until(|| client.info("aof_enabled") == "1" && client.info("aof_rewrite_in_progress") == "0");
        client.expect(&[("SET k logged", "+OK"), ("DEBUG LOADAOF", "+OK"), ("GET k", "$6 logged")]);
        replica.assert_same(&primary);
        assert_eq!(primary.info("sync_full"), "4");
    }
}

#[test]
fn the_append_only_file_has_what_debug_has_put_in_the_place_of_its_data() {
    let primary = Node::keylatch(&[("dbfilename", "dump.rdb"), ("appendonly", "yes")]);
    let mut client = primary.client();
    client.expect(&[("SET k saved", "+OK"), ("SAVE", "+OK"), ("SET k later", "+OK")]);
    let rewrites: u64 = client.info("aof_rewrites").parse().expect("a number");
    client.expect(&[("DEBUG RELOAD NOSAVE", "+OK")]);
    wait_until(|| client.info("aof_rewrites") == (rewrites + 1).to_string());
    client.expect(&[("SET l v", "+OK"), ("DEBUG LOADAOF", "+OK"), ("GET k", "$5 saved"), ("GET l", "$1 v")]);
}

#[test]
fn a_replica_whose_data_debug_has_replaced_gets_that_of_its_primary_again() {
    let primary = Node::keylatch(&[]);
    let replica = Node::replica_of(&primary, &[("dbfilename", "dump.rdb")]);
    primary.client().expect(&[("SET k v", "+OK")]);
    replica.assert_same(&primary);
    replica.client().expect(&[("SAVE", "+OK")]);
    primary.client().expect(&[("SET k w", "+OK")]);
    replica.assert_same(&primary);
    replica.client().expect(&[("DEBUG RELOAD NOSAVE", "+OK")]);
    replica.assert_same(&primary);
    replica.client().expect(&[("GET k", "$1 w")]);
}

#[test]
fn a_replica_executes_nothing_of_its_primary_while_debug_loads_its_data() {
    let primary = Node::keylatch(&[]);
    let replica = Node::replica_of(&primary, &[("dbfilename", "dump.rdb"), ("appendonly", "yes")]);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = primary.client();
            for n in 0.. {
                if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                let calls: Vec<String> = (0..20)
                    .flat_map(|k| [format!("INCR n{k}"), format!("SADD s{k} {n}"), format!("SET new:{n}:{k} v")])
                    .collect();
                client.pipeline(&calls);
            }
        });
        let mut client = replica.client();
        wait_until(|| client.call("EXISTS n1") == ":1");
        let replies: Vec<String> = (0..12).map(|_| client.call("DEBUG RELOAD")).collect();
        let loaded = client.call("DEBUG LOADAOF");
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(replies.iter().all(|reply| reply == "+OK"), "{replies:?}");
        assert_eq!(loaded, "+OK");
    });
    replica.assert_same(&primary);
    assert_eq!(primary.info("sync_partial_err"), "1"); // after LOADAOF, whose data is not compared
}

#[test]
fn a_lock_of_a_session_does_not_outlive_a_reload_for_ever() {
    let node = Node::keylatch(&[("dbfilename", "dump.rdb"), ("session-grace-ms", "0")]);
    let mut client = node.client();
    assert!(client.call("LOCK.ACQUIRE lock token SESSION").starts_with(':'));
    client.expect(&[("DEBUG RELOAD", "+OK"), ("EXISTS lock", ":0")]);
    assert!(client.call("LOCK.ACQUIRE lock token SESSION").starts_with(':'));
}

#[test]
fn a_primary_that_finds_no_data_does_not_start_and_empties_no_replica_if_it_is_to_refuse_that() {
    let dir = tempfile::tempdir().expect("a directory");
    let args = ["--bind", "127.0.0.1", "--dir", dir.path().to_str().expect("text"), "--appendonly", "yes"];
    let mut first = Process::run(Command::new(binary()).args(args).args(["--port", "0"]));
    let addr = first.addr();
    Client::connect(addr).expect(&[("CONFIG SET repl-diskless-sync-delay 0", "+OK"), ("SET k v", "+OK")]);
    let replica = Node::keylatch(&[("replicaof", &format!("127.0.0.1 {}", addr.port()))]);
    let mut client = replica.client();
    wait_until(|| client.call("GET k") == "$1 v");
    first.signal("KILL");
    first.wait();
    std::fs::remove_dir_all(dir.path().join("appendonlydir")).expect("it was there");
    let port = addr.port().to_string();
    let again = ["--port", &port, "--refuse-empty-start", "yes"];
    let mut second = Process::run(Command::new(binary()).args(args).args(again));
    assert_eq!(second.wait().code(), Some(1));
    assert!(second.rest().contains("there is no data to load, and refuse-empty-start is yes"));
    wait_until(|| client.info("master_link_status") == "down");
    client.expect(&[("GET k", "$1 v")]);
}

#[test]
fn a_replica_that_has_seen_more_than_was_saved_does_not_continue_with_a_primary_that_was_started_again() {
    let settings = [("dbfilename", "dump.rdb")];
    let primary = Node::keylatch(&settings);
    let (mut raw, mut client) = (RawReplica::synchronized(primary.addr()), primary.client());
    client.expect(&[("SET k saved", "+OK"), ("SAVE", "+OK")]);
    raw.changes_before("set k saved");
    let saved = raw.offset;
    client.expect(&[("SET k seen", "+OK")]);
    raw.changes_before("set k seen");
    let (id, seen) = (raw.id.clone(), raw.offset);
    drop(raw);
    let again = Node::start_in(primary.stop(), Kind::Keylatch, &settings).expect("keylatch");
    let mut client = again.client();
    client.expect(&[("GET k", "$5 saved")]);
    // Its log reaches that offset with other changes.
    while client.info("master_repl_offset").parse::<u64>().expect("an offset") <= seen {
        client.expect(&[("SET k other", "+OK")]);
    }
    for (offset, answer) in [(saved, "+CONTINUE "), (seen, "+FULLRESYNC ")] {
        let reply = RawReplica::connect(again.addr(), &["eof", "psync2"]).resume(&id, offset);
        assert!(reply.starts_with(answer), "from {offset}: {reply}");
    }
}

#[test]
fn a_primary_whose_clock_was_set_while_it_was_down_gives_its_replicas_everything_again() {
    let disk = SimulatedDisk::new(1);
    let start = |wall_ms: i64| {
        let clock = Clock::manual();
        clock.set_wall_ms(wall_ms);
        let builder = keylatch::Server::builder().clock(clock).disk(disk.clone()).set("dir", "/");
        let builder = builder.set("appendonly", "yes").set("repl-diskless-sync-delay", "0");
        builder.start_blocking().expect("started")
    };
    let begin_ms = Clock::system().now().wall_ms();
    let mut server = start(begin_ms);
    let mut raw = RawReplica::synchronized(server.addr());
    for (step_ms, answer) in [(0, "+CONTINUE"), (3_600_000, "+FULLRESYNC"), (0, "+FULLRESYNC")] {
        Client::connect(server.addr()).expect(&[("SET k v PX 900000", "+OK"), ("SET last v", "+OK")]);
        while raw.change() != "set last v" {}
        server.shutdown_blocking();
        server = start(begin_ms + step_ms);
        let (id, offset) = (raw.id.clone(), raw.offset);
        let mut again = RawReplica::connect(server.addr(), &["eof", "psync2"]);
        let reply = again.resume(&id, offset);
        assert!(reply.starts_with(answer), "{step_ms}: {reply}");
        drop(again);
        Client::connect(server.addr()).expect(&[("PTTL k", ":900000")]);
        raw = RawReplica::synchronized(server.addr());
    }
}
