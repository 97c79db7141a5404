//! What follows from an append: threads that wait for records are woken, or a reader's work is done by the appending thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::runtime::wakes::Deferred;

/// Does the work of a reader; returns false if a thread of its own does it.
pub(crate) type Flush = Arc<dyn Fn() -> bool + Send + Sync>;

/// The threads that wait for records, and the work of a reader that needs no thread.
#[derive(Default)]
pub(super) struct Appended {
    threads: Condvar,
    /// The number of threads that any append is to wake.
    sleeping: AtomicUsize,
    /// The number of threads that an append is to wake whose records nobody reads for them.
    sleeping_for_foreign: AtomicUsize,
    flush: Mutex<Option<Flush>>,
}

impl Appended {
    /// Has a reader's work done by the threads that append.
    pub(super) fn set_flush(&self, flush: Option<Flush>) {
        *self.flush.lock() = flush;
    }

    /// Wakes the threads that wait.
    pub(super) fn notify(&self) {
        self.threads.notify_all();
    }

    /// Returns whether any append is to wake a thread. Asked with the records locked, as the next.
    pub(super) fn has_sleeping(&self) -> bool {
        self.sleeping.load(Relaxed) > 0
    }

    /// Returns whether an append whose records nobody reads otherwise is to wake a thread.
    pub(super) fn has_sleeping_for_foreign(&self) -> bool {
        self.has_sleeping() || self.sleeping_for_foreign.load(Relaxed) > 0
    }

    /// Waits to be woken, by appends too if they are `awaited`, for so long at most if a time is given.
    pub(super) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>, awaited: Option<Awaited>, timeout: Option<Duration>) {
        let count = awaited.map(|awaited| match awaited {
            Awaited::Every => &self.sleeping,
            Awaited::Foreign => &self.sleeping_for_foreign,
        });
        count.into_iter().for_each(|count| _ = count.fetch_add(1, Relaxed));
        match timeout {
            Some(timeout) => _ = self.threads.wait_for(guard, timeout),
            None => self.threads.wait(guard),
        }
        count.into_iter().for_each(|count| _ = count.fetch_sub(1, Relaxed));
    }
}

/// The appends that end a wait.
#[derive(Clone, Copy)]
pub(super) enum Awaited {
    Every,
    /// Those by threads that do not do the reader's work.
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
