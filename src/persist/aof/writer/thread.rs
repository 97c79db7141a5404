//! The writer's thread, and the thread that syncs for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;

use crate::persist::aof::handle::WriterShared;
use crate::persist::aof::policy::FsyncPolicy;
use crate::persist::aof::sync::ThreadSyncer;
use crate::persist::aof::writer::{Writer, WriterStep, by_worker};
use crate::time::clock::Clock;

/// Pause of the thread after a block, if no client waits for the disk: under load, records are written once in this
/// time, and no append has to wake the thread.
const LINGER: Duration = Duration::from_millis(1);
/// Divisor of the duration of a sync: for this part of it the next sync waits for the clients that were just answered.
const GATHERING_SHARE: u64 = 2;
/// Longest wait of this kind, in microseconds: a disk that has stalled once is not to be slow twice.
const GATHERING_MAX_US: u64 = 5_000;

/// Result of a step of the writer.
struct Next {
    step: WriterStep,
    /// The position whose next record ends the wait, if there is one.
    from: Option<u64>,
    /// Number of clients that have waited for the step's sync; `None` unless it has made positions durable under
    /// [`FsyncPolicy::Always`].
    waited: Option<usize>,
    /// True if records may be gathered before they are written.
    may_linger: bool,
}

/// Starts a thread that writes, and a thread that syncs.
///
/// # Errors
/// An error if the system has no threads left.
pub(crate) fn spawn(mut writer: Writer) -> io::Result<JoinHandle<()>> {
    let shared = writer.shared.clone();
    let woken = shared.clone();
    writer.set_syncer(Box::new(ThreadSyncer::start_thread(move || woken.reader.wake())?));
    let writer = Arc::new(Mutex::new(writer));
    let (of_workers, shared_by_workers) = (Arc::downgrade(&writer), Arc::downgrade(&shared));
    shared.flush.get_or_init(|| Arc::new(move || by_worker::flush(&of_workers, &shared_by_workers)));
    writer.lock().follow_workers();
    thread::Builder::new().name("aof-writer".to_owned()).spawn(move || run(&writer, &shared))
}

fn run(writer: &Mutex<Writer>, shared: &WriterShared) {
    let (mut has_written, clock) = (false, Clock::system());
    loop {
        let begun_us = clock.now().mono_us();
        let next = step(writer, shared);
        if let (Some(waited), WriterStep::Again | WriterStep::Wait(_)) = (next.waited, &next.step) {
            let ended_us = clock.now().mono_us();
            let longest_us = ((ended_us - begun_us) / GATHERING_SHARE).min(GATHERING_MAX_US);
            gather(shared, waited, &clock, ended_us + longest_us);
            continue; // not to wait by the former step: a request that came meanwhile has ended the wait for clients
        }
        match next.step {
            WriterStep::Again => has_written = true,
            WriterStep::Wait(_) if has_written && next.may_linger => {
                has_written = false;
                shared.reader.wait(None, Some(LINGER));
            }
            WriterStep::Wait(timeout) => shared.reader.wait(next.from, timeout),
            WriterStep::Stopped => return,
        }
    }
}

/// Makes one step of the writer.
fn step(writer: &Mutex<Writer>, shared: &WriterShared) -> Next {
    shared.is_stepping.store(true, Relaxed); // workers do not wait for the disk
    let mut writer = writer.lock();
    let durable = writer.durable;
    let step = writer.step();
    writer.looks_ms = None;
    if let WriterStep::Again = step {
        writer.looks_by(0);
    } else if let WriterStep::Wait(Some(timeout)) = step {
        let now_ms = (writer.clock)().boot_ms;
        writer.looks_by(now_ms + timeout.as_millis() as u64);
    }
    let is_always = writer.policy == FsyncPolicy::Always;
    // Records already in the log must not end the wait if they cannot be written now.
    let is_writing = writer.pause.is_none() && writer.lost.is_none() && !writer.rotation_is_reached();
    let next = Next {
        step,
        from: is_writing.then_some(writer.written.position),
        waited: (is_always && writer.durable > durable).then_some(writer.waited),
        may_linger: !is_always && shared.reader.waiting() == 0,
    };
    drop(writer);
    shared.is_stepping.store(false, Relaxed);
    next
}

/// Waits until as many clients wait for the next sync as have waited for the last one, or until a time. Otherwise
/// clients that send a write after each reply would be divided among two syncs, each of which takes as long as one for
/// all of them.
fn gather(shared: &WriterShared, waited: usize, clock: &Clock, until_us: u64) {
    let reader = &shared.reader;
    while reader.waiting() < waited {
        let left_us = until_us.saturating_sub(clock.now().mono_us());
        if left_us == 0 {
            return;
        }
        reader.wait(Some(reader.end()), Some(Duration::from_micros(left_us)));
    }
}
