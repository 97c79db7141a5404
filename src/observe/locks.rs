//! Statistics of locks for INFO: acquisitions, waits and losses, and durations.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::observe::handovers::Handovers;
use crate::observe::histogram::{Counts, Histogram};

/// Counters of `LOCK.*`, and the durations of waits and holds.
#[derive(Default)]
pub struct LockStats {
    /// Locks acquired by LOCK.ACQUIRE.
    pub acquired: AtomicU64,
    /// Calls of LOCK.ACQUIRE that found the lock held by another token.
    pub contended: AtomicU64,
    /// Waits that timed out.
    pub timed_out: AtomicU64,
    /// Calls of LOCK.ACQUIRE that were refused because they would have waited for ever.
    pub deadlocks: AtomicU64,
    /// Locks, holders and clients visited by the searches for deadlocks.
    pub deadlock_steps: AtomicU64,
    /// Locks that expired before they were released.
    pub expired: AtomicU64,
    /// The last locks that were handed over.
    pub(crate) handovers: Handovers,
    durations: Mutex<Durations>,
}

/// Histograms whose unit is the microsecond, so that they reach up to 1000 seconds.
#[derive(Default)]
struct Durations {
    waits: Histogram,
    holds: Histogram,
}

impl LockStats {
    /// Records that a lock was acquired after a wait, whose duration is 0 for a free lock.
    pub fn record_acquired(&self, waited_us: u64) {
        self.acquired.fetch_add(1, Relaxed);
        self.durations.lock().waits.record(waited_us);
    }

    /// Records that a lock was released or lost, and the duration of the hold.
    pub fn record_ended(&self, held_us: u64) {
        self.durations.lock().holds.record(held_us);
    }

    /// Records the number of locks, holders and clients visited by the search for a deadlock before a client waits.
    pub(crate) fn record_deadlock_steps(&self, count: usize) {
        self.deadlock_steps.fetch_add(count as u64, Relaxed);
    }

    /// Returns the waits of the locks that were acquired, in microseconds.
    pub fn waits(&self) -> Counts {
        self.durations.lock().waits.counts()
    }

    /// Returns the durations of ended holds, in microseconds.
    pub fn holds(&self) -> Counts {
        self.durations.lock().holds.counts()
    }

    /// Resets everything.
    pub fn clear(&self) {
        let counters =
            [&self.acquired, &self.contended, &self.timed_out, &self.deadlocks, &self.deadlock_steps, &self.expired];
        counters.into_iter().for_each(|counter| counter.store(0, Relaxed));
        *self.durations.lock() = Durations::default();
        self.handovers.clear();
    }
}
