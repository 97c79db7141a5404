//! The append-only file on a disk that is slow, full or fails.

use keylatch::Clock;
use keylatch::internals::disk::{Failure, Faults, Operation, Planned, SimulatedDisk};

use crate::append_only::start_at;
use crate::harness::{Client, encode, wait_until};

#[test]
fn slow_writes_and_syncs_are_events_of_the_latency_monitor() {
    let disk = SimulatedDisk::new(1);
    let builder = keylatch::Server::builder().disk(disk.clone()).set("dir", "/").set("appendonly", "yes");
    let builder = builder.set("appendfsync", "always").set("latency-monitor-threshold", 20);
    let server = builder.start_blocking().expect("started");
    let mut client = Client::connect(server.addr());
    client.expect(&[("SET k v", "+OK"), ("LATENCY LATEST", "*0")]);
    disk.set_faults(Faults { slowness_ms: 30, ..Faults::default() });
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
    disk.set_faults(Faults { capacity: Some(0), ..Faults::default() });
    let mut waiting = connect();
    waiting.send(&encode(&["SET", "k", "2"]));
    let mut other = connect();
    wait_until(|| other.info("aof_last_write_status") == "err");
    // It is seen to wait at some time before each of these; the last comes more than five seconds after the first.
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
    client.expect(&[("SET k 1", "+OK")]);
    // The sync that comes with another policy fails, so that the file has to be rewritten, and so does that.
    let planned = vec![Planned { operation: Some(Operation::Sync), after: 0, count: 2, error: Failure::Io }];
    disk.set_faults(Faults { planned, ..Faults::default() });
    client.expect(&[("CONFIG SET appendfsync always", "+OK")]);
    wait_until(|| client.info("aof_last_bgrewrite_status") == "err");
    wait_until(|| {
        disk.advance_ms(100); // the pause after the failed sync ends, and a new file begins that has no base
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
