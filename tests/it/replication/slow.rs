//! Replicas that do not read, and a stalled disk: neither blocks other clients.

use std::net::SocketAddr;

use keylatch::Clock;
use keylatch::internals::disk::{DiskFailure, DiskFaults, DiskOperation, PlannedFaults, SimulatedDisk};

use super::parties::{Primary, RawReplica};
use crate::harness::{Client, encode, wait_until};
use crate::process::Process;

/// Number of keys, and length of their values: together more than the buffers of a socket and the retained changed
/// keys.
const KEYS: usize = 2700;
const LEN: usize = 30_000;

/// Returns the requests that set all keys.
fn writes(letter: &str) -> Vec<String> {
    let long = letter.repeat(LEN);
    (0..KEYS).map(|n| format!("SET long:{n} {long}")).collect()
}

/// Sets all keys.
fn fill(client: &mut Client, letter: &str) {
    assert!(client.pipeline(&writes(letter)).iter().all(|reply| reply == "+OK"));
}

/// Requests all data and does not read it; returns when the snapshot was cut.
fn begin_to_stall(addr: SocketAddr) -> RawReplica {
    let mut raw = RawReplica::connect(addr, &["eof"]);
    raw.send("PSYNC ? -1");
    raw.begin_full();
    raw
}

#[test]
fn a_replica_that_reads_nothing_delays_no_writes_and_no_snapshot_and_gets_everything_in_the_end() {
    for diskless in ["yes", "no"] {
        let settings = [("repl-timeout", "3600"), ("rdbcompression", "no"), ("dbfilename", "dump.rdb")];
        let primary = Primary::start(&[&settings[..], &[("repl-diskless-sync", diskless)]].concat());
        let mut client = primary.client();
        fill(&mut client, "a");
        let mut raw = begin_to_stall(primary.addr());
        fill(&mut client, "b");
        client.expect(&[("SAVE", "+OK"), ("BGSAVE", "+Background saving started")]);
        wait_until(|| client.info("rdb_bgsave_in_progress") == "0");
        client.expect(&[("SET behind v", "+OK")]);
        let payload = raw.payload().1;
        let count = |letter: u8| payload.iter().filter(|byte| **byte == letter).count();
        assert!(count(b'a') >= KEYS * LEN && count(b'b') < LEN, "{diskless}");
        raw.acknowledge();
        raw.acknowledge();
        assert_eq!(raw.changes_before("set behind v").len(), 1 + KEYS, "{diskless}"); // SELECT comes first
        let files = std::fs::read_dir(primary.dir.path()).expect("a directory");
        let names: Vec<_> = files.map(|file| file.expect("a file").file_name()).collect();
        assert_eq!(names, ["dump.rdb"], "{diskless}");
    }
}

#[test]
fn a_replica_that_reads_nothing_is_cut_where_no_file_can_be_written_for_it() {
    let primary = Primary::start(&[("repl-timeout", "3600"), ("rdbcompression", "no")]);
    let mut client = primary.client();
    fill(&mut client, "a");
    let place = primary.dir.path().join(format!("temp-{}.rdb", std::process::id()));
    std::fs::create_dir(&place).expect("a directory where the file would be");
    // A replica that reads gets everything.
    let mut reading = RawReplica::connect(primary.addr(), &["eof"]);
    assert!(reading.synchronize().len() > KEYS * LEN);
    drop(reading);
    wait_until(|| client.info("connected_slaves") == "0");
    let mut raw = begin_to_stall(primary.addr());
    fill(&mut client, "b");
    wait_until(|| client.info("rdb_bgsave_in_progress") == "0");
    assert!(raw.read_to_end().len() < KEYS * LEN);
    std::fs::remove_dir(&place).expect("an empty directory");
}

#[test]
fn a_replica_that_does_not_read_what_it_lacks_from_the_file_delays_no_snapshot() {
    let settings = [("appendonly", "yes"), ("repl-backlog-size", "16kb"), ("repl-timeout", "3600")];
    let primary = Primary::start(&[&settings[..], &[("auto-aof-rewrite-percentage", "0")]].concat());
    let mut client = primary.client();
    let raw = RawReplica::synchronized(primary.addr());
    let (id, offset) = (raw.id.clone(), raw.offset);
    drop(raw);
    fill(&mut client, "a");
    client.call("WAITAOF 1 0 0");
    let mut late = RawReplica::connect(primary.addr(), &["eof", "psync2"]);
    assert_eq!(late.resume(&id, offset), format!("+CONTINUE {id}"));
    let rewrites = client.info("aof_rewrites");
    assert!(client.call("BGREWRITEAOF").starts_with('+'));
    wait_until(|| client.info("aof_rewrites") != rewrites);
    client.expect(&[("SET end v", "+OK")]);
    late.offset = offset;
    let changes = late.changes_before("set end v");
    assert_eq!(changes.iter().filter(|change| change.starts_with("set long:")).count(), KEYS);
}

#[test]
fn no_file_is_removed_from_which_a_replica_is_still_sent_what_it_lacks() {
    let disk = SimulatedDisk::new(1);
    let builder = keylatch::Server::builder().clock(Clock::system()).disk(disk.clone()).set("dir", "/");
    let builder = builder.set("appendonly", "yes").set("auto-aof-rewrite-percentage", "0").set("repl-timeout", "3600");
    let builder = builder.set("repl-backlog-size", "16kb").set("repl-diskless-sync-delay", "0");
    let server = builder.start_blocking().expect("started");
    let mut client = Client::connect(server.addr());
    let raw = RawReplica::synchronized(server.addr());
    let (id, offset) = (raw.id.clone(), raw.offset);
    drop(raw);
    fill(&mut client, "a");
    // A rewrite that fails at its end, at the renaming of its file, has begun another file for appending.
    let planned = vec![PlannedFaults {
        operation: Some(DiskOperation::Name),
        file: None,
        after: 1,
        count: 1,
        error: DiskFailure::Io,
    }];
    disk.set_faults(DiskFaults { planned, ..DiskFaults::default() });
    assert!(client.call("BGREWRITEAOF").starts_with('+'));
    wait_until(|| client.info("aof_last_bgrewrite_status") == "err");
    client.pipeline(&(0..6000).map(|n| format!("SET second:{n} {n}")).collect::<Vec<_>>());
    client.call("WAITAOF 1 0 0");
    let mut late = RawReplica::connect(server.addr(), &["eof", "psync2"]);
    assert_eq!(late.resume(&id, offset), format!("+CONTINUE {id}"));
    let rewrites = client.info("aof_rewrites");
    assert!(client.call("BGREWRITEAOF").starts_with('+'));
    wait_until(|| client.info("aof_rewrites") != rewrites && client.info("aof_rewrite_in_progress") == "0");
    client.expect(&[("SET end v", "+OK")]);
    late.offset = offset;
    let changes = late.changes_before("set end v");
    let count = |start: &str| changes.iter().filter(|change| change.starts_with(start)).count();
    assert_eq!((count("set long:"), count("set second:")), (KEYS, 6000));
}

#[test]
fn replicas_that_fall_behind_at_different_places_get_the_same_data() {
    let settings = [("repl-diskless-sync-delay", "3600"), ("repl-diskless-sync-max-replicas", "2")];
    let primary = Primary::start(&[&settings[..], &[("repl-timeout", "3600"), ("rdbcompression", "no")]].concat());
    let mut client = primary.client();
    fill(&mut client, "a");
    let mut replicas = [(); 2].map(|()| {
        let mut raw = RawReplica::connect(primary.addr(), &["eof"]);
        raw.send("PSYNC ? -1");
        raw
    });
    replicas.iter_mut().for_each(RawReplica::begin_full);
    let [first, second] = &mut replicas;
    (0..200).for_each(|_| assert!(second.fill()));
    client.expect(&[("SAVE", "+OK")]); // it waits for the end of the replicas' snapshot
    let payloads = [first.payload(), second.payload()];
    assert!(payloads[0].1.len() > KEYS * LEN && payloads[0] == payloads[1]);
}

#[test]
fn a_server_that_is_terminated_while_a_replica_reads_nothing_saves_at_once() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().to_str().expect("text");
    let own = ["--dir", path, "--save", "3600 1", "--repl-diskless-sync-delay", "0", "--rdbcompression", "no"];
    let mut process = Process::start(&[&own[..], &["--repl-timeout", "3600", "--shutdown-timeout", "3600"]].concat());
    let mut client = process.client();
    fill(&mut client, "a");
    let _raw = begin_to_stall(process.known_addr());
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(0));
    let file = std::fs::metadata(dir.path().join("dump.rdb")).expect("the last snapshot");
    assert!(file.len() as usize > KEYS * LEN);
}

#[test]
fn clients_do_not_wait_for_a_snapshot_on_a_disk_that_stands_still() {
    let disk = SimulatedDisk::new(1);
    let builder = keylatch::Server::builder().clock(Clock::system()).disk(disk.clone()).set("dir", "/");
    let builder = builder.set("dbfilename", "dump.rdb").set("rdbcompression", "no");
    let server = builder.start_blocking().expect("started");
    let (mut client, mut other) = (Client::connect(server.addr()), Client::connect(server.addr()));
    fill(&mut client, "a");
    disk.set_faults(DiskFaults { slowness_ms: 15_000, ..DiskFaults::default() });
    client.expect(&[("BGSAVE", "+Background saving started")]);
    wait_until(|| other.info("rdb_bgsave_in_progress") == "1");
    let words = writes("b");
    let writes: Vec<u8> = words.iter().flat_map(|words| encode(&words.split(' ').collect::<Vec<_>>())).collect();
    let mut writer = client.writer();
    std::thread::spawn(move || {
        std::io::Write::write_all(&mut writer, &[writes, encode(&["SET", "last", "v"])].concat())
    });
    // Each of the last writes would wait for ten seconds.
    wait_until(|| other.call("EXISTS last") == ":1");
    disk.set_faults(DiskFaults::default());
    wait_until(|| other.info("rdb_bgsave_in_progress") == "0");
    // It is no reason to reject writes.
    other.expect(&[("SET k v", "+OK"), ("SAVE", "+OK")]);
}
