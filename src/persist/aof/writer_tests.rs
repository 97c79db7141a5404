//! Tests of the writer: its policies, errors and requests, and its threads on a real disk.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::task::Waker;
use std::time::Duration;

use crate::persist::aof::handle::Completion;
use crate::persist::aof::sync::Syncer;
use crate::persist::aof::writer::RemainingWork;
use crate::persist::aof::{
    AofDir, AofHandle, AofOptions, BlockStamp, FsyncPolicy, NeedsRewrite, SegmentReader, Start, Verdict, Writer,
    WriterStep, spawn,
};
use crate::persist::disk::real::RealDisk;
use crate::persist::disk::simulated::SimulatedDisk;
use crate::persist::disk::simulated::faults::{DiskFailure, DiskFaults, DiskOperation, PlannedFaults};
use crate::persist::disk::{Disk, DiskFile, read_small_file};
use crate::persist::{Effects, Log, ReaderPurpose};
use crate::time::clock::Clock;

/// A writer whose steps a test makes, on a simulated disk.
struct Stepped {
    disk: SimulatedDisk,
    log: Arc<Log>,
    dir: Arc<AofDir>,
    writer: Writer,
    handle: AofHandle,
    now_ms: Arc<AtomicU64>,
    /// Time that passes with each look at the clock.
    tick_ms: Arc<AtomicU64>,
}

fn options(dir: &Path, policy: FsyncPolicy) -> AofOptions {
    let (dirname, filename) = ("aof".to_owned(), "a".to_owned());
    AofOptions { dir: dir.to_owned(), dirname, filename, policy, checksums: true, timestamps: false }
}

fn stepped(policy: FsyncPolicy) -> Stepped {
    stepped_on(Log::default(), Start::New, policy)
}

fn stepped_on(log: Log, start: Start, policy: FsyncPolicy) -> Stepped {
    let disk = SimulatedDisk::new(1);
    disk.create_dir(Path::new("/data")).expect("created");
    disk.sync_dir(Path::new("/")).expect("synced");
    let dir = AofDir::open(Arc::new(disk.clone()), Path::new("/data"), "aof", "a", true).expect("opened");
    let (dir, log, now_ms) = (Arc::new(dir), Arc::new(log), Arc::new(AtomicU64::new(5000)));
    let tick_ms = Arc::new(AtomicU64::new(0));
    let (time, tick) = (now_ms.clone(), tick_ms.clone());
    let clock = move || {
        let now = time.fetch_add(tick.load(Relaxed), Relaxed);
        BlockStamp { wall_ms: now as i64, boot_ms: now, fence: 0, history: None }
    };
    let options = options(Path::new("/data"), policy);
    let reader = log.reader(ReaderPurpose::Copy);
    let writer = Writer::open(dir.clone(), reader, start, &options, "boot", Box::new(clock)).expect("opened");
    Stepped { handle: writer.handle(), disk, log, dir, writer, now_ms, tick_ms }
}

/// Returns a callback for a result, and the receiver of the result.
fn done<T: Send + 'static>() -> (Completion<T>, Receiver<Result<T, String>>) {
    let (sender, receiver) = channel();
    let done = move |result: Result<T, crate::persist::aof::AofError>| {
        sender.send(result.map_err(|error| error.to_string())).expect("the test waits");
    };
    (Box::new(done), receiver)
}

fn append(log: &Log, number: usize) -> u64 {
    log.append(&mut Effects::one(0, &[b"SET", format!("key:{number}").as_bytes(), b"value"]))
}

impl Stepped {
    fn pass(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Relaxed);
    }

    fn fail(&self, operation: DiskOperation, count: usize, error: DiskFailure) {
        let planned = vec![PlannedFaults { operation: Some(operation), file: None, after: 0, count, error }];
        self.disk.set_faults(DiskFaults { planned, ..DiskFaults::default() });
    }

    fn error(&self) -> String {
        self.handle.status().error.map_or(String::new(), |error| error.to_string())
    }

    /// Installs an empty base before the increment that a restart has begun.
    fn install_base(&self, restarted: &Receiver<Result<u64, String>>) {
        let (path, number) = (self.dir.temporary_base(), restarted.try_recv().expect("answered").expect("begun"));
        self.disk.create(&path).expect("a base");
        self.dir.install_base(&path, false, number, 0).expect("installed");
    }

    /// Returns the commands in the files of a disk.
    fn commands(&self, disk: &SimulatedDisk) -> String {
        let dir = AofDir::open(Arc::new(disk.clone()), Path::new("/data"), "aof", "a", true).expect("opened");
        let read = |path: PathBuf| commands(disk, &path).0;
        dir.parts().expect("files").into_iter().map(|file| read(file.path)).collect()
    }
}

/// Returns the commands of a file, with blanks for line ends, and the verdict on the file.
fn commands(disk: &dyn Disk, path: &Path) -> (String, Verdict) {
    let (read, len) = disk.read(path).expect("the file");
    let (mut reader, mut found) = (SegmentReader::new(read, len), Vec::new());
    while let Some(piece) = reader.next().expect("read") {
        found.extend_from_slice(&piece.bytes);
    }
    (String::from_utf8(found).expect("text").replace("\r\n", " "), reader.verdict())
}

const SELECT: &str = "*2 $6 SELECT $1 0 ";

fn set(number: usize) -> String {
    let key = format!("key:{number}");
    format!("*3 $3 SET ${} {key} $5 value ", key.len())
}

#[test]
fn with_always_what_is_written_is_durable_before_it_is_confirmed() {
    let mut server = stepped(FsyncPolicy::Always);
    let end = append(&server.log, 1);
    assert!(server.log.wake_when_confirmed(end, 1, Waker::noop()));
    assert_eq!(server.writer.step(), WriterStep::Again);
    assert!(!server.log.wake_when_confirmed(end, 1, Waker::noop()));
    assert_eq!(server.commands(&server.disk.power_cut()), [SELECT, &set(1)].concat());
    assert_eq!(server.writer.step(), WriterStep::Wait(None));
    let status = server.handle.status();
    assert_eq!((status.synced, status.written, status.pending), (end, end, 0));
}

#[test]
fn with_everysec_a_sync_begins_a_second_after_the_last_one() {
    let mut server = stepped(FsyncPolicy::EverySec);
    let end = append(&server.log, 1);
    assert!(server.log.wake_when_confirmed(end, 1, Waker::noop()));
    assert_eq!(
        (server.writer.step(), server.writer.step()),
        (WriterStep::Again, WriterStep::Wait(Some(Duration::from_secs(1))))
    );
    assert_eq!(server.log.confirmed(), end, "it is written");
    server.pass(999);
    assert_eq!(server.writer.step(), WriterStep::Wait(Some(Duration::from_millis(1))));
    assert_eq!((server.handle.status().synced, server.handle.status().written), (0, end));
    server.pass(1);
    assert_eq!((server.writer.step(), server.handle.status().synced), (WriterStep::Wait(None), end));
    assert_eq!(server.commands(&server.disk.power_cut()), [SELECT, &set(1)].concat());
    let end = append(&server.log, 2);
    server.pass(5000);
    assert_eq!((server.writer.step(), server.handle.status().synced), (WriterStep::Again, end));
}

#[test]
fn with_no_nothing_is_synced_before_it_is_asked_for() {
    let mut server = stepped(FsyncPolicy::No);
    let end = append(&server.log, 1);
    assert_eq!((server.writer.step(), server.writer.step()), (WriterStep::Again, WriterStep::Wait(None)));
    server.pass(100_000);
    assert_eq!((server.writer.step(), server.handle.status().synced), (WriterStep::Wait(None), 0));
    let (done, result) = done();
    server.handle.sync(done);
    server.writer.step();
    assert_eq!((result.try_recv(), server.handle.status().synced), (Ok(Ok(())), end));
}

#[test]
fn what_is_for_replicas_alone_at_the_end_of_the_log_counts_as_durable_with_what_is_before_it() {
    for policy in [FsyncPolicy::Always, FsyncPolicy::EverySec, FsyncPolicy::No] {
        let mut server = stepped(policy);
        server.log.append_aside(b"*1\r\n$4\r\nPING\r\n");
        append(&server.log, 1);
        let end = server.log.append_aside(b"*1\r\n$4\r\nPING\r\n");
        assert!(server.log.wake_when_confirmed(end, 1, Waker::noop()));
        let (done, result) = done();
        server.handle.sync(done);
        while server.writer.step() == WriterStep::Again {}
        assert_eq!((result.try_recv(), server.handle.status().synced), (Ok(Ok(())), end), "{policy:?}");
        assert!(!server.log.wake_when_confirmed(end, 1, Waker::noop()));
        assert_eq!(server.log.kept_len(), 0);
        // The server need not wait for another record when it ends.
        server.log.append_aside(b"*1\r\n$4\r\nPING\r\n");
        let (done, result) = self::done();
        server.handle.stop(false, done);
        while server.writer.step() == WriterStep::Again {}
        assert_eq!(result.try_recv(), Ok(Ok(())));
        assert_eq!(server.commands(&server.disk.power_cut()), [SELECT, &set(1)].concat());
    }
}

#[test]
fn clients_that_wait_are_woken_when_the_policy_changes() {
    let mut server = stepped(FsyncPolicy::Always);
    let end = append(&server.log, 1);
    assert!(server.log.wake_when_confirmed(end, 1, Waker::noop()));
    server.handle.set_policy(FsyncPolicy::EverySec);
    server.writer.step();
    assert_eq!((server.log.confirmed(), server.handle.status().synced), (end, 0));
    server.handle.set_policy(FsyncPolicy::Always);
    let end = append(&server.log, 2);
    server.writer.step();
    assert_eq!(server.log.confirmed(), end);
    // A policy that the writer never sees has no effect.
    server.handle.set_policy(FsyncPolicy::No);
    server.writer.step();
    server.handle.set_policy(FsyncPolicy::Always);
    server.handle.set_policy(FsyncPolicy::No);
    server.writer.step();
    let end = append(&server.log, 3);
    server.writer.step();
    assert_eq!((server.log.confirmed(), server.handle.status().synced < end), (end, true));
}

/// Syncer that performs and ends a sync when it is told to.
struct SlowSyncer(Arc<AtomicU64>, Option<Arc<dyn DiskFile>>);

impl Syncer for SlowSyncer {
    fn start(&mut self, file: Arc<dyn DiskFile>) {
        self.1 = Some(file);
    }

    fn poll(&mut self) -> Option<std::io::Result<()>> {
        let is_due = self.0.swap(0, Relaxed) > 0;
        self.1.take_if(|_| is_due).map(|file| file.sync_data())
    }
}

#[test]
fn a_slow_sync_does_not_delay_writing_and_counts_once() {
    let mut server = stepped(FsyncPolicy::EverySec);
    let finish = Arc::new(AtomicU64::new(0));
    server.writer.set_syncer(Box::new(SlowSyncer(finish.clone(), None)));
    let first = append(&server.log, 1);
    server.pass(1000);
    server.writer.step();
    assert!(server.handle.status().is_syncing);
    let second = append(&server.log, 2);
    assert_eq!((server.writer.step(), server.handle.status().written), (WriterStep::Again, second));
    for (ms, delayed) in [(2000, 0), (1, 1), (3000, 1)] {
        server.pass(ms);
        server.writer.step();
        assert_eq!(server.handle.status().delayed_syncs, delayed);
    }
    finish.store(1, Relaxed);
    server.writer.step();
    let status = server.handle.status();
    assert_eq!((status.synced, status.is_syncing), (first, true), "the next one has begun");
}

#[test]
fn nothing_is_confirmed_while_a_sync_is_late_by_more_than_two_seconds() {
    let mut server = stepped(FsyncPolicy::EverySec);
    let finish = Arc::new(AtomicU64::new(0));
    server.writer.set_syncer(Box::new(SlowSyncer(finish.clone(), None)));
    append(&server.log, 1);
    server.pass(1000);
    server.writer.step();
    server.pass(2000);
    let before = append(&server.log, 2);
    server.writer.step();
    assert_eq!(server.log.confirmed(), before);
    server.pass(1);
    assert_eq!(server.writer.step(), WriterStep::Wait(None));
    let after = append(&server.log, 3);
    server.writer.step();
    let status = server.handle.status();
    assert_eq!((server.log.confirmed(), status.written, status.delayed_syncs), (before, after, 1));
    finish.store(1, Relaxed);
    server.writer.step();
    assert_eq!(server.log.confirmed(), after);
}

#[test]
fn a_worker_writes_what_is_logged_and_has_the_thread_look_when_a_sync_will_be_due() {
    for (policy, rest) in
        [(FsyncPolicy::EverySec, RemainingWork::IsForThread), (FsyncPolicy::No, RemainingWork::Nothing)]
    {
        let mut server = stepped(policy);
        append(&server.log, 1);
        let end = server.log.append_aside(b"*1\r\n$4\r\nPING\r\n");
        assert!(server.log.wake_when_confirmed(end, 1, Waker::noop()));
        assert_eq!((server.writer.write_for_worker(), server.log.confirmed()), (rest, end), "{policy:?}");
        assert_eq!(server.commands(&server.disk.kill()), [SELECT, &set(1)].concat());
        server.writer.looks_by(6000);
        append(&server.log, 2);
        assert_eq!(server.writer.write_for_worker(), RemainingWork::Nothing, "the thread looks then");
    }
    let mut server = stepped(FsyncPolicy::Always);
    append(&server.log, 1);
    assert_eq!((server.writer.write_for_worker(), server.handle.status().written), (RemainingWork::IsOfThread, 0));
}

#[test]
fn a_worker_writes_nothing_where_that_could_take_long() {
    let refused = |server: &mut Stepped| {
        let before = server.handle.status().written;
        append(&server.log, 1);
        assert_eq!(
            (server.writer.write_for_worker(), server.handle.status().written),
            (RemainingWork::IsForThread, before)
        );
    };
    let mut server = stepped(FsyncPolicy::EverySec);
    let finish = Arc::new(AtomicU64::new(0));
    server.writer.set_syncer(Box::new(SlowSyncer(finish.clone(), None)));
    append(&server.log, 0);
    server.pass(1000);
    server.writer.step();
    refused(&mut server); // a sync is under way
    finish.store(1, Relaxed);
    while server.writer.step() == WriterStep::Again {}
    // Each look at the clock takes this long.
    server.tick_ms.store(5, Relaxed);
    append(&server.log, 1);
    server.writer.write_for_worker();
    server.tick_ms.store(0, Relaxed);
    assert_eq!(server.log.confirmed(), server.log.end());
    refused(&mut server); // a write was slow
    server.pass(1000);
    server.log.append(&mut Effects::one(0, &[b"SET", b"large", &vec![0; 1 << 20]]));
    refused(&mut server); // there is much
    finish.store(1, Relaxed);
    while server.writer.step() == WriterStep::Again {}
    server.handle.set_policy(FsyncPolicy::Always);
    refused(&mut server); // another policy was asked for
}

#[test]
fn a_full_disk_leaves_nothing_torn_and_is_recovered_from() {
    let mut server = stepped(FsyncPolicy::Always);
    append(&server.log, 1);
    server.writer.step();
    let len = server.handle.status().current_size;
    server.disk.set_faults(DiskFaults { capacity: Some(len + 250), ..DiskFaults::default() });
    (2..8).for_each(|number| _ = append(&server.log, number));
    let end = append(&server.log, 8);
    assert_eq!(server.writer.step(), WriterStep::Wait(Some(Duration::from_millis(100))));
    assert!(server.error().starts_with("cannot write to /data/aof/a.1.incr.aof: No space left on device"));
    assert_eq!((server.handle.status().pending > 0, server.log.confirmed() < end), (true, true));
    assert_eq!(
        server.writer.step(),
        WriterStep::Wait(Some(Duration::from_millis(100))),
        "not before the pause is over"
    );
    for pause in [200, 400, 800, 1000, 1000] {
        server.pass(1000);
        assert_eq!(server.writer.step(), WriterStep::Wait(Some(Duration::from_millis(pause))));
    }
    server.disk.set_faults(DiskFaults::default());
    server.pass(1000);
    assert_eq!((server.writer.step(), server.error(), server.log.confirmed()), (WriterStep::Again, String::new(), end));
    let expected: String = [SELECT.to_owned()].into_iter().chain((1..9).map(set)).collect();
    assert_eq!(server.commands(&server.disk.power_cut()), expected);
}

#[test]
fn after_a_failed_sync_the_same_records_are_written_again() {
    for policy in [FsyncPolicy::Always, FsyncPolicy::EverySec] {
        let mut server = stepped(policy);
        let end = append(&server.log, 1);
        server.fail(DiskOperation::Sync, 2, DiskFailure::Io);
        server.pass(1000);
        assert_eq!(server.writer.step(), WriterStep::Wait(Some(Duration::from_millis(100))));
        assert!(server.error().starts_with("cannot sync /data/aof/a.1.incr.aof: Input/output error"));
        assert_eq!((server.handle.status().synced, server.handle.status().written), (0, 0));
        server.pass(100);
        assert_eq!(server.writer.step(), WriterStep::Wait(Some(Duration::from_millis(200))));
        server.pass(200);
        assert_eq!((server.writer.step(), server.handle.status().synced), (WriterStep::Again, end));
        assert_eq!(server.error(), "");
        assert_eq!(server.commands(&server.disk.power_cut()), [SELECT, &set(1)].concat());
    }
}

#[test]
fn a_file_whose_content_is_unknown_after_a_failed_sync_is_written_anew() {
    let mut server = stepped(FsyncPolicy::No);
    append(&server.log, 1);
    server.writer.step();
    server.fail(DiskOperation::Sync, 1, DiskFailure::Io);
    let (sync, synced) = done();
    server.handle.sync(sync);
    server.writer.step();
    assert!(matches!(synced.try_recv(), Ok(Err(_))));
    assert_eq!(server.handle.status().needs_rewrite, Some(NeedsRewrite::UnknownContent));
    append(&server.log, 2);
    server.pass(1000);
    assert_eq!(server.writer.step(), WriterStep::Wait(None), "nothing is written to it");
    let (restart, restarted) = done();
    let position = server.handle.restart(restart);
    assert_eq!(position, server.log.end());
    append(&server.log, 3);
    server.writer.step();
    let (sync, synced) = done();
    server.handle.sync(sync);
    server.writer.step();
    assert!(synced.try_recv().is_err(), "nothing is durable without the base");
    server.install_base(&restarted);
    server.handle.base_installed();
    server.writer.step();
    assert_eq!(synced.try_recv(), Ok(Ok(())));
    assert_eq!(server.commands(&server.disk.power_cut()), [SELECT, &set(3)].concat());
    assert_eq!(server.handle.status().needs_rewrite, None);
}

#[test]
fn replies_wait_for_a_file_as_soon_as_it_has_its_base() {
    for policy in [FsyncPolicy::No, FsyncPolicy::EverySec] {
        let mut server = stepped_on(Log::default(), Start::Detached, policy);
        let (restart, restarted) = done();
        server.handle.restart(restart);
        server.writer.step();
        append(&server.log, 1);
        assert!(server.log.is_confirmed(), "nothing depends on a file without its base");
        server.install_base(&restarted);
        server.handle.base_installed();
        let waits = |end: u64| server.log.wake_when_confirmed(end, 1, std::task::Waker::noop());
        assert!(waits(server.log.end()), "{policy:?}: it is not in the file yet");
        server.writer.step();
        assert_eq!(server.log.confirmed(), server.log.end());
    }
}

#[test]
fn no_reply_waits_for_a_file_that_loses_its_place_as_it_gets_its_base() {
    let mut server = stepped_on(Log::with_limit(10_000), Start::Detached, FsyncPolicy::No);
    let (restart, restarted) = done();
    server.handle.restart(restart);
    server.writer.step();
    server.install_base(&restarted);
    server.handle.base_installed();
    assert!(!server.log.is_confirmed());
    (0..10_000).for_each(|number| _ = append(&server.log, number));
    server.writer.step();
    assert_eq!(server.handle.status().needs_rewrite, Some(NeedsRewrite::LostPlace));
    assert!(server.log.is_confirmed(), "it has to be begun again with all data");
}

#[test]
fn a_new_increment_begins_at_its_position_with_the_database() {
    let mut server = stepped(FsyncPolicy::EverySec);
    append(&server.log, 1);
    let (rotate, rotated) = done();
    let position = server.handle.rotate(rotate);
    let (again, refused) = done();
    server.handle.rotate(again);
    assert_eq!(refused.try_recv(), Ok(Err("another request is not done yet".to_owned())));
    let end = append(&server.log, 2);
    assert_eq!((server.writer.step(), server.writer.step()), (WriterStep::Again, WriterStep::Again));
    assert_eq!((rotated.try_recv(), server.handle.status().synced), (Ok(Ok(2)), position));
    assert_eq!(server.handle.status().written, end);
    let files =
        ["a.1.incr.aof", "a.2.incr.aof"].map(|name| commands(&server.disk, &Path::new("/data/aof").join(name)).0);
    assert_eq!(files, [[SELECT, &set(1)].concat(), [SELECT, &set(2)].concat()]);
}

#[test]
fn a_torn_block_that_was_cut_does_not_come_back_before_the_next_increment() {
    let mut server = stepped(FsyncPolicy::EverySec);
    let finish = Arc::new(AtomicU64::new(0));
    server.writer.set_syncer(Box::new(SlowSyncer(finish.clone(), None)));
    append(&server.log, 1);
    server.pass(1000);
    server.writer.step();
    // While the disk syncs, it becomes full in the middle of a block, which is synced with the rest.
    let len = server.handle.status().current_size;
    server.disk.set_faults(DiskFaults { capacity: Some(len + 50), ..DiskFaults::default() });
    let (rotate, rotated) = done();
    append(&server.log, 2);
    server.writer.step();
    finish.store(1, Relaxed);
    server.pass(1000);
    server.writer.step();
    server.disk.set_faults(DiskFaults::default());
    server.handle.rotate(rotate);
    for _ in 0..6 {
        server.pass(1000);
        finish.store(1, Relaxed);
        server.writer.step();
    }
    assert_eq!(rotated.try_recv(), Ok(Ok(2)));
    for _ in 0..50 {
        let (found, verdict) = commands(&server.disk.power_cut(), Path::new("/data/aof/a.1.incr.aof"));
        assert_eq!((found, verdict), ([SELECT, &set(1), &set(2)].concat(), Verdict::Complete));
    }
}

#[test]
fn an_increment_that_cannot_be_created_leaves_the_present_one() {
    let mut server = stepped(FsyncPolicy::Always);
    server.fail(DiskOperation::Create, 1, DiskFailure::Full);
    let (rotate, rotated) = done::<u64>();
    server.handle.rotate(rotate);
    append(&server.log, 1);
    server.writer.step();
    server.writer.step();
    assert!(matches!(rotated.try_recv(), Ok(Err(error)) if error.starts_with("cannot create /data/aof/a.2.incr.aof")));
    assert_eq!(server.commands(&server.disk.power_cut()), [SELECT, &set(1)].concat());
    let (rotate, rotated) = done();
    server.handle.rotate(rotate);
    server.writer.step();
    assert_eq!(rotated.try_recv(), Ok(Ok(3)), "a number is not used twice");
}

#[test]
fn a_writer_that_is_stopped_completes_the_file_and_refuses_requests() {
    let mut server = stepped(FsyncPolicy::No);
    append(&server.log, 1);
    server.fail(DiskOperation::Write, 1, DiskFailure::Full);
    let (stop, stopped) = done();
    server.handle.stop(false, stop);
    server.writer.step();
    assert!(matches!(stopped.try_recv(), Ok(Err(_))), "it goes on after an error");
    let (stop, stopped) = done();
    server.handle.stop(false, stop);
    assert_eq!((server.writer.step(), stopped.try_recv()), (WriterStep::Stopped, Ok(Ok(()))));
    assert_eq!(server.commands(&server.disk.power_cut()), [SELECT, &set(1)].concat());
    let (sync, refused) = done();
    server.handle.sync(sync);
    assert_eq!(refused.try_recv(), Ok(Err("the writer has stopped".to_owned())));
    // Damage anywhere is known not to be a torn tail.
    let path = Path::new("/data/aof/a.1.incr.aof");
    server.disk.damage(path, |bytes| bytes[100] ^= 1);
    let (_, verdict) = commands(&server.disk, path);
    assert!(matches!(verdict, Verdict::Corrupt { offset: 0, .. }), "{verdict:?}");
}

#[test]
fn a_writer_that_is_forced_to_stop_does_so_in_any_case() {
    let mut server = stepped(FsyncPolicy::Always);
    append(&server.log, 1);
    server.fail(DiskOperation::Write, usize::MAX, DiskFailure::Full);
    let (stop, stopped) = done();
    server.handle.stop(true, stop);
    assert_eq!(server.writer.step(), WriterStep::Stopped);
    assert!(matches!(stopped.try_recv(), Ok(Err(_))));
    assert_eq!(server.log.confirmed(), 0, "nobody is told that it is durable");
}

/// Starts a writer with its threads on a real disk.
fn start(path: &Path, policy: FsyncPolicy, log: &Arc<Log>) -> (AofHandle, std::thread::JoinHandle<()>, Arc<AofDir>) {
    let dir = Arc::new(AofDir::open(Arc::new(RealDisk), path, "aof", "a", true).expect("opened"));
    let start = match dir.increment() {
        Some(path) => {
            let len = RealDisk.len(&path).expect("asked").expect("the file");
            Start::Append(crate::persist::aof::Tail::read(&RealDisk, &path, len).expect("a tail"))
        }
        None => Start::New,
    };
    let options = AofOptions { timestamps: true, ..options(path, policy) };
    let clock = || BlockStamp { wall_ms: 1_700_000_000_000, boot_ms: 0, fence: 0, history: None };
    let reader = log.reader(ReaderPurpose::Copy);
    let boot = RealDisk.boot_id(&Clock::system()).unwrap_or_default();
    let writer = Writer::open(dir.clone(), reader, start, &options, &boot, Box::new(clock)).expect("opened");
    let handle = writer.handle();
    (handle, spawn(writer).expect("threads"), dir)
}

#[test]
fn threads_write_and_sync_a_real_file_over_several_starts() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut expected, mut number) = (String::new(), 0);
    for policy in [FsyncPolicy::Always, FsyncPolicy::EverySec, FsyncPolicy::No, FsyncPolicy::Always] {
        let log = Arc::new(Log::default());
        let (handle, thread, dir) = start(directory.path(), policy, &log);
        expected.push_str(SELECT);
        for _ in 0..300 {
            append(&log, number);
            expected.push_str(&set(number));
            number += 1;
            if number % 100 == 0 {
                let (sync, synced) = done();
                handle.sync(sync);
                assert_eq!(synced.recv().expect("a result"), Ok(()));
                assert_eq!(handle.status().synced, log.end());
            }
        }
        let (stop, stopped) = done();
        handle.stop(false, stop);
        assert_eq!(stopped.recv().expect("a result"), Ok(()));
        thread.join().expect("it ends");
        let path = dir.increment().expect("a file");
        assert_eq!(commands(&RealDisk, &path), (expected.clone(), Verdict::Complete));
    }
}

#[test]
fn a_real_file_cut_at_each_of_its_last_bytes_gives_its_whole_records() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = Arc::new(Log::default());
    let (handle, thread, dir) = start(directory.path(), FsyncPolicy::Always, &log);
    for number in 0..6 {
        append(&log, number);
        let (sync, synced) = done();
        handle.sync(sync);
        assert_eq!(synced.recv().expect("a result"), Ok(()));
    }
    let (stop, stopped) = done();
    handle.stop(true, stop);
    assert_eq!(stopped.recv().expect("a result"), Ok(()));
    thread.join().expect("it ends");
    let path = dir.increment().expect("a file");
    let bytes = read_small_file(&RealDisk, &path, 1 << 20).expect("the file");
    let mut found = std::collections::BTreeSet::new();
    for len in bytes.len() - 300..=bytes.len() {
        std::fs::write(&path, &bytes[..len]).expect("written");
        let (text, verdict) = commands(&RealDisk, &path);
        let count = text.matches("SET").count();
        let expected: String = [SELECT.to_owned()].into_iter().chain((0..count).map(set)).collect();
        assert_eq!(text, expected);
        assert!(!matches!(verdict, Verdict::Corrupt { .. }), "{len}: {verdict:?}");
        found.insert(count);
    }
    assert_eq!(found, [4, 5, 6].into());
}

#[test]
fn redis_check_aof_finds_no_fault_in_a_file_with_headers_and_timestamps() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = Arc::new(Log::default());
    let (handle, thread, dir) = start(directory.path(), FsyncPolicy::EverySec, &log);
    (0..100).for_each(|number| _ = append(&log, number));
    let (stop, stopped) = done();
    handle.stop(false, stop);
    assert_eq!(stopped.recv().expect("a result"), Ok(()));
    thread.join().expect("it ends");
    let path = dir.increment().expect("a file");
    let bytes = read_small_file(&RealDisk, &path, 1 << 20).expect("the file");
    assert!(bytes.starts_with(b"#TS:1700000000\r\n#HDR:v1;off:0;len:"));
    match Command::new("redis-check-aof").arg(path.with_file_name("a.manifest")).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("All AOF files and manifest are valid"), "{text}");
        }
        Err(error) => assert!(std::env::var("KEYLATCH_REQUIRE_REDIS").is_err(), "redis-check-aof: {error}"),
    }
}
