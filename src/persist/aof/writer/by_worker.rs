//! Writing on a worker's thread, before it sends the replies: one `write(2)` for all calls that it has executed, as in
//! Redis.
//!
//! A worker must not wait for a disk. So it writes little, no sync runs meanwhile, and after a slow write the writer's
//! own thread takes over for a while. Replies wait for the thread where a worker has not written the records.

use std::sync::Weak;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use parking_lot::Mutex;

use crate::persist::aof::block::BlockStamp;
use crate::persist::aof::handle::WriterShared;
use crate::persist::aof::policy::FsyncPolicy;
use crate::persist::aof::writer::{SYNC_PERIOD_MS, UNSYNCED_MAX, Writer};

/// Largest number of bytes that a worker writes; a copy of so many takes less than a millisecond.
const WORKER_MAX: u64 = 1 << 20;
/// Duration from which on a write is slow, and the time for which workers write nothing then, in milliseconds.
const SLOW_MS: u64 = 5;
const REST_MS: u64 = 1000;
/// Time for which a worker waits for another worker that writes.
const OTHER_WORKER: Duration = Duration::from_micros(200);

/// Remaining work, and the thread that does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemainingWork {
    /// All work is done.
    Nothing,
    /// The writer's thread has work.
    IsForThread,
    /// The writer's thread does all work, and waits for records itself.
    IsOfThread,
}

/// Writes the logged records on a worker's thread, or wakes the writer's thread; returns false if that thread waits for
/// records.
pub(super) fn flush(writer: &Weak<Mutex<Writer>>, shared: &Weak<WriterShared>) -> bool {
    let (Some(writer), Some(shared)) = (writer.upgrade(), shared.upgrade()) else { return false };
    let is_stepping = shared.is_stepping.load(Relaxed);
    let held = if is_stepping { None } else { writer.try_lock_for(OTHER_WORKER) };
    match held.map_or(RemainingWork::IsForThread, |mut writer| writer.write_for_worker()) {
        RemainingWork::Nothing => true,
        RemainingWork::IsForThread => {
            shared.reader.wake();
            true
        }
        RemainingWork::IsOfThread => false,
    }
}

impl Writer {
    /// Has workers write, or ends that, by the policy.
    pub(super) fn follow_workers(&self) {
        self.shared.set_written_by_workers(self.policy != FsyncPolicy::Always);
    }

    /// Writes the logged records, if workers write and the write is likely to be quick.
    pub(crate) fn write_for_worker(&mut self) -> RemainingWork {
        if self.policy == FsyncPolicy::Always || self.has_ended {
            return RemainingWork::IsOfThread;
        }
        let now = (self.clock)();
        if !self.may_worker_write(now) {
            return RemainingWork::IsForThread;
        }
        let written = loop {
            match self.write(now) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        if let Err(error) = written {
            self.pause_after(error, now);
        }
        self.pass_asides();
        self.confirm();
        self.publish();
        let took_ms = (self.clock)().boot_ms.saturating_sub(now.boot_ms);
        if took_ms >= SLOW_MS {
            self.workers_rest_until_ms = now.boot_ms + REST_MS;
        }
        if self.is_thread_needed(now) { RemainingWork::IsForThread } else { RemainingWork::Nothing }
    }

    /// Notes the time at which the thread makes its next step without a wakeup.
    pub(crate) fn looks_by(&mut self, boot_ms: u64) {
        self.looks_ms = Some(boot_ms);
    }

    /// Returns true if a write by a worker is unlikely to take long.
    fn may_worker_write(&self, now: BlockStamp) -> bool {
        let has_failed = self.pause.is_some() || self.is_torn || self.must_sync || self.lost.is_some();
        let has_order = self.rotation.is_some() || self.restart.is_some() || self.stop.is_some();
        let unwritten = self.shared.reader.end().saturating_sub(self.written.position);
        !has_failed
            && !has_order
            && self.syncs.is_empty()
            && self.syncing.is_none()
            && now.boot_ms >= self.workers_rest_until_ms
            && unwritten <= WORKER_MAX
            && self.shared.requests.lock().is_empty()
    }

    /// Returns true if there is work for the thread alone, or before its next step.
    fn is_thread_needed(&self, now: BlockStamp) -> bool {
        let is_due = self.policy == FsyncPolicy::EverySec && self.unsynced() > 0;
        let due_ms = if self.unsynced() >= UNSYNCED_MAX { now.boot_ms } else { self.last_sync_ms + SYNC_PERIOD_MS };
        let is_early = is_due && self.looks_ms.is_none_or(|looks_ms| looks_ms > due_ms);
        is_early || self.pause.is_some() || self.lost.is_some() || self.writeback_is_due()
    }
}
