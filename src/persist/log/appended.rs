//! Steps after an append: threads that wait for records are woken, or a reader's work is done by the appending thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::runtime::batched_notify::Deferred;

/// Function that does the work of a reader; returns false if the reader has a thread of its own.
pub(crate) type Flush = Arc<dyn Fn() -> bool + Send + Sync>;

/// Threads that wait for records, and the work of a reader that needs no thread.
#[derive(Default)]
pub(super) struct Appended {
    threads: Condvar,
    /// Number of threads that any append is to wake.
    sleeping: AtomicUsize,
    /// Number of threads to wake by an append after which no worker does the reader's work.
    sleeping_for_foreign: AtomicUsize,
    flush: Mutex<Option<Flush>>,
}

impl Appended {
    /// Sets the reader's work that the appending threads do.
    pub(super) fn set_flush(&self, flush: Option<Flush>) {
        *self.flush.lock() = flush;
    }

    /// Wakes the threads that wait.
    pub(super) fn notify(&self) {
        self.threads.notify_all();
    }

    /// Returns true if any append is to wake a thread. Must be called with the records locked, like the next function.
    pub(super) fn has_sleeping(&self) -> bool {
        self.sleeping.load(Relaxed) > 0
    }

    /// Returns true if an append after which no worker does the reader's work is to wake a thread.
    pub(super) fn has_sleeping_for_foreign(&self) -> bool {
        self.has_sleeping() || self.sleeping_for_foreign.load(Relaxed) > 0
    }

    /// Waits for a wakeup, by `awaited` appends too, for at most `timeout` if there is one.
    pub(super) fn wait<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        awaited: Option<AwaitedAppends>,
        timeout: Option<Duration>,
    ) {
        let count = awaited.map(|awaited| match awaited {
            AwaitedAppends::Every => &self.sleeping,
            AwaitedAppends::Foreign => &self.sleeping_for_foreign,
        });
        if let Some(count) = count {
            count.fetch_add(1, Relaxed);
        }
        match timeout {
            Some(timeout) => _ = self.threads.wait_for(guard, timeout),
            None => self.threads.wait(guard),
        }
        if let Some(count) = count {
            count.fetch_sub(1, Relaxed);
        }
    }
}

/// The appends that end a wait.
#[derive(Clone, Copy)]
pub(super) enum AwaitedAppends {
    Every,
    /// Appends by threads that do not do the reader's work.
    Foreign,
}

impl Deferred for Appended {
    fn run(&self) {
        let flush = self.flush.lock().clone();
        let is_done = flush.is_some_and(|flush| flush());
        if !is_done || self.has_sleeping() {
            self.notify();
        }
    }
}
