//! What follows from an append: threads that wait for records are woken, or a reader's work is done by the appending thread.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::runtime::wakes::Deferred;

/// Does the work of a reader; returns false if a thread of its own does it.
pub(super) type Flush = Arc<dyn Fn() -> bool + Send + Sync>;

/// The threads that wait for records, and the work of a reader that needs no thread.
#[derive(Default)]
pub(super) struct Appended {
    threads: Condvar,
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

    /// Waits to be woken, for so long at most if a time is given.
    pub(super) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Option<Duration>) {
        match timeout {
            Some(timeout) => _ = self.threads.wait_for(guard, timeout),
            None => self.threads.wait(guard),
        }
    }
}

impl Deferred for Appended {
    fn run(&self) {
        let flush = self.flush.lock().clone();
        if !flush.is_some_and(|flush| flush()) {
            self.notify();
        }
    }
}
