//! Writing on the thread of a worker, before it sends the replies: one `write(2)` for what it has executed, as Redis does.
//!
//! A worker must not wait for a disk. So it writes little, no sync is under way meanwhile, and after a write that was slow
//! the writer's own thread writes for a while. What a worker does not write, its replies wait for until the thread has.

use std::sync::Weak;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use parking_lot::Mutex;

use crate::persist::aof::block::Stamp;
use crate::persist::aof::handle::Shared;
use crate::persist::aof::policy::Policy;
use crate::persist::aof::writer::{SYNC_PERIOD_MS, UNSYNCED_MAX, Writer};

/// How many bytes a worker writes at most; a copy of so many takes less than a millisecond.
const WORKER_MAX: u64 = 1 << 20;
/// From how many milliseconds on a write is slow, and for how long workers write nothing then.
const SLOW_MS: u64 = 5;
const REST_MS: u64 = 1000;
/// How long a worker waits for another one that writes.
const OTHER_WORKER: Duration = Duration::from_micros(200);

/// Who writes what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// All is done.
    Nothing,
    /// The thread has something to do.
    IsForThread,
    /// The thread does all, and waits for records itself.
    IsOfThread,
}

/// Writes what was logged, or has the thread do it, on a worker's thread; returns false if the thread waits for records.
pub(super) fn flush(writer: &Weak<Mutex<Writer>>, shared: &Weak<Shared>) -> bool {
    let (Some(writer), Some(shared)) = (writer.upgrade(), shared.upgrade()) else { return false };
    let is_stepping = shared.is_stepping.load(Relaxed);
    let held = if is_stepping { None } else { writer.try_lock_for(OTHER_WORKER) };
    match held.map_or(Rest::IsForThread, |mut writer| writer.write_for_worker()) {
        Rest::Nothing => true,
        Rest::IsForThread => {
            shared.reader.wake();
            true
        }
        Rest::IsOfThread => false,
    }
}

impl Writer {
    /// Has workers write, or not any more.
    pub(super) fn follow_workers(&self) {
        self.shared.set_written_by_workers(self.policy != Policy::Always);
    }

    /// Writes what was logged, if that is a worker's work and takes no time.
    pub(crate) fn write_for_worker(&mut self) -> Rest {
        if self.policy == Policy::Always || self.has_ended {
            return Rest::IsOfThread;
        }
        let now = (self.clock)();
        if !self.may_worker_write(now) {
            return Rest::IsForThread;
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
        if self.is_thread_needed(now) { Rest::IsForThread } else { Rest::Nothing }
    }

    /// Notes when the thread will look at what is due by itself.
    pub(crate) fn looks_by(&mut self, boot_ms: u64) {
        self.looks_ms = Some(boot_ms);
    }

    /// Returns whether a write by a worker is unlikely to take long.
    fn may_worker_write(&self, now: Stamp) -> bool {
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

    /// Returns whether there is something to do that only the thread does, or earlier than it looks.
    fn is_thread_needed(&self, now: Stamp) -> bool {
        let is_due = self.policy == Policy::EverySec && self.unsynced() > 0;
        let due_ms = if self.unsynced() >= UNSYNCED_MAX { now.boot_ms } else { self.last_sync_ms + SYNC_PERIOD_MS };
        let is_early = is_due && self.looks_ms.is_none_or(|looks_ms| looks_ms > due_ms);
        is_early || self.pause.is_some() || self.lost.is_some() || self.writeback_is_due()
    }
}
