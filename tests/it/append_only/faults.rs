//! The append-only file on a disk that is slow, full or failing.

use std::io::{ErrorKind, Read as _};

use keylatch::Clock;
use keylatch::internals::disk::{DiskFailure, DiskFaults, DiskOperation, PlannedFaults, SimulatedDisk};

use crate::append_only::start_at;
use crate::harness::{Client, TestServer, encode, wait_until};

#[test]
fn slow_writes_and_syncs_are_events_of_the_latency_monitor() {
    let disk = SimulatedDisk::new(1);
    let builder = keylatch::Server::builder().disk(disk.clone()).set("dir", "/").set("appendonly", "yes");
    let builder = builder.set("appendfsync", "always").set("latency-monitor-threshold", 20);
    let server = builder.start_blocking().expect("started");
    let mut client = Client::connect(server.addr());
    client.expect(&[("SET k v", "+OK"), ("LATENCY LATEST", "*0")]);
    disk.set_faults(DiskFaults { slowness_ms: 30, ..DiskFaults::default() });
    client.expect(&[("SET k w", "+OK")]);
    let latest = client.call("LATENCY LATEST");
    for event in ["aof-write", "aof-write-alone", "aof-fsync-always"] {
        let sample = latest.split(&format!(" {event} :")).nth(1).expect("noted");
        assert!(sample.split(' ').nth(1) == Some(":30"), "{event}: {latest}");
    }
    assert!(client.call("LATENCY DOCTOR").contains("The disk is slow"));
}

#[test]
fn a_client_whose_write_meets_a_full_disk_is_disconnected_after_five_seconds() {
    let (disk, clock) = (SimulatedDisk::new(1), Clock::manual());
    let builder = keylatch::Server::builder().clock(clock).disk(disk.clone()).set("dir", "/");
    let server = builder.set("appendonly", "yes").set("appendfsync", "always").start_blocking().expect("started");
    let connect = || Client::connect(server.addr());
    assert_eq!(connect().call("SET k 1"), "+OK");
    disk.set_faults(DiskFaults { capacity: Some(0), ..DiskFaults::default() });
    let mut waiting = connect();
    waiting.send(&encode(&["SET", "k", "2"]));
    let mut other = connect();
    wait_until(|| other.info("aof_last_write_status") == "err");
    // It must be seen waiting before each of these; the last comes more than five seconds after the first.
    let ended = std::thread::spawn(move || waiting.read_raw());
    wait_until(|| {
        server.advance(std::time::Duration::from_secs(1));
        ended.is_finished()
    });
    assert_eq!(ended.join().expect("it ends"), None, "without a reply");
    assert_eq!(other.info("aof_last_write_status"), "err", "the others are served");
}

#[test]
fn writes_are_rejected_and_none_waits_for_ever_while_a_lost_file_cannot_be_rewritten() {
    let (disk, clock) = (SimulatedDisk::new(1), Clock::manual());
    let builder = keylatch::Server::builder().clock(clock).disk(disk.clone()).set("dir", "/");
    let server = builder.set("appendonly", "yes").set("appendfsync", "no").start_blocking().expect("started");
    let mut client = Client::connect(server.addr());
    // The first write may still be by the policy that the file was begun with, by which the log keeps written records.
    client.expect(&[("SET k 1", "+OK"), ("SET k 2", "+OK")]);
    // The sync that follows another policy fails, so the file has to be rewritten, and the rewrite fails too.
    let fails_once = |file| PlannedFaults {
        operation: Some(DiskOperation::Sync),
        file: Some(file),
        after: 0,
        count: 1,
        error: DiskFailure::Io,
    };
    let planned = vec![fails_once(".incr.aof"), fails_once(".base")];
    disk.set_faults(DiskFaults { planned, ..DiskFaults::default() });
    client.expect(&[("CONFIG SET appendfsync always", "+OK")]);
    wait_until(|| client.info("aof_last_bgrewrite_status") == "err");
    wait_until(|| {
        disk.advance_ms(100); // the pause after the failed sync ends, and a new file without a base begins
        client.call("SET k 3") == "-MISCONF Errors writing to the AOF file: Input/output error"
    });
    wait_until(|| {
        server.advance(std::time::Duration::from_secs(1)); // another rewrite follows after a pause
        client.call("SET k 4") == "+OK"
    });
    assert_eq!(client.info("aof_last_write_status"), "ok");
    let (_server, mut again) = start_at(&disk.power_cut(), 0);
    again.expect(&[("GET k", "$1 4")]);
}

#[test]
fn nothing_is_acknowledged_while_a_sync_takes_longer_than_two_seconds() {
    let disk = SimulatedDisk::new(1);
    let builder = keylatch::Server::builder().clock(Clock::manual()).disk(disk.clone()).set("dir", "/");
    let server = builder.set("appendonly", "yes").set("appendfsync", "everysec").start_blocking().expect("started");
    let (mut client, mut other) = (Client::connect(server.addr()), Client::connect(server.addr()));
    disk.freeze_syncs();
    let mut writes = 0;
    wait_until(|| {
        disk.advance_ms(1000); // a sync is due
        client.expect(&[("SET k 1", "+OK")]);
        writes += 1;
        other.info("aof_pending_bio_fsync") == "1"
    });
    client.expect(&[("SET k 2", "+OK")]);
    assert_eq!(other.info("aof_delayed_fsync"), "0");
    disk.advance_ms(2001);
    wait_until(|| other.info("aof_delayed_fsync") == "1");

    client.send(&encode(&["SET", "k", "3"]));
    let executed = format!("cmdstat_set:calls={},", writes + 2);
    wait_until(|| other.call("INFO commandstats").contains(&executed));
    (0..10).for_each(|_| other.expect(&[("PING", "+PONG")]));
    client.stream_mut().set_nonblocking(true).expect("a socket");
    let read = client.stream_mut().read(&mut [0]);
    assert!(read.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "no reply but {read:?}");
    client.stream_mut().set_nonblocking(false).expect("a socket");
    let (_killed, mut again) = start_at(&disk.kill(), 0);
    assert_ne!(again.call("GET k"), "$1 1", "what was acknowledged survives the process");

    disk.thaw();
    assert_eq!(client.reply(), "+OK");
    client.expect(&[("SET k 4", "+OK")]);
}

#[test]
fn waitaof_is_not_answered_for_a_write_whose_place_the_data_of_a_primary_has_taken() {
    let primary = TestServer::start_with(&[("repl-diskless-sync-delay", "0")]);
    let disk = SimulatedDisk::new(1);
    let builder = keylatch::Server::builder().disk(disk.clone()).set("dir", "/").set("appendonly", "yes");
    let server = builder.set("repl-diskless-load", "swapdb").start_blocking().expect("started");
    let (mut client, mut other) = (Client::connect(server.addr()), Client::connect(server.addr()));
    let planned = vec![PlannedFaults {
        operation: Some(DiskOperation::Sync),
        file: None,
        after: 0,
        count: usize::MAX,
        error: DiskFailure::Io,
    }];
    client.expect(&[("SET lost v", "+OK"), ("WAITAOF 1 0 0", "*2 :1 :0")]);
    disk.set_faults(DiskFaults { planned, ..DiskFaults::default() });
    client.send(b"SET lost w\r\nWAITAOF 1 0 0\r\n");
    assert_eq!(client.reply(), "+OK");
    wait_until(|| other.info("aof_last_write_status") == "err");
    other.expect(&[(&format!("REPLICAOF 127.0.0.1 {}", primary.addr().port()), "+OK")]);
    wait_until(|| other.info("master_link_status") == "up");
    disk.set_faults(DiskFaults::default());
    assert!(client.reply().starts_with("-UNBLOCKED "));
    other.expect(&[("EXISTS lost", ":0")]);
}
