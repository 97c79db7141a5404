//! The holders of a namespace's locks: the last fencing token, and the clients that disconnected while a script kept
//! the keys locked.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::client::info::LockName;

/// A client whose connection has closed, and the locks to be released for that.
type Departed = (u64, Vec<LockName>);

/// The holders of locks.
#[derive(Default)]
pub(crate) struct LockHolders {
    /// The fencing token of the last lock.
    last_fence: AtomicI64,
    departed: Mutex<Vec<Departed>>,
}

impl LockHolders {
    /// Returns a fencing token: larger than all before, also than those before a restart, because it is not below
    /// `now_us`, the microseconds since 1970. Only a wall clock that was set back over the restart makes it smaller.
    pub(crate) fn next_fence(&self, now_us: i64) -> i64 {
        let next = |last: i64| last.saturating_add(1).max(now_us);
        // Never fails, because the closure always returns a value.
        next(self.last_fence.fetch_update(Relaxed, Relaxed, |last| Some(next(last))).unwrap_or_default())
    }

    /// Returns the last fencing token that was given; 0 if none was.
    pub(crate) fn last_fence(&self) -> i64 {
        self.last_fence.load(Relaxed)
    }

    /// Lets the next fencing token be larger than one from before a restart.
    pub(crate) fn continue_after(&self, fence: i64) {
        self.last_fence.fetch_max(fence, Relaxed);
    }

    /// Remembers clients whose locks cannot be released yet.
    pub(super) fn remember_departed(&self, departed: impl IntoIterator<Item = Departed>) {
        self.departed.lock().extend(departed);
    }

    /// Returns the clients whose locks are still to be released, and forgets them.
    pub(super) fn take_departed(&self) -> Vec<Departed> {
        std::mem::take(&mut *self.departed.lock())
    }
}
