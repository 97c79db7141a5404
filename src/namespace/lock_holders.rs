//! The holders of a namespace's locks: the last fencing token, and the clients that disconnected while a script kept
//! the keys locked.

use std::sync::atomic::{
    AtomicI64,
    Ordering::{Acquire, Relaxed, Release},
};

use parking_lot::Mutex;

use crate::client::info::LockName;

/// How many tokens replicas are told of at once: those of ten seconds.
const ANNOUNCED_AHEAD: i64 = 10_000_000;

/// A client whose connection has closed, and the locks to be released for that.
type Departed = (u64, Vec<LockName>);

/// The holders of locks.
#[derive(Default)]
pub(crate) struct LockHolders {
    /// The fencing token of the last lock.
    last_fence: AtomicI64,
    /// Up to which one the replicas know that they may have been given.
    announced: AtomicI64,
    /// Held while they are told.
    telling: Mutex<()>,
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

    /// Returns a fencing token that none is larger than which was given, and none will be before replicas are told.
    pub(crate) fn fence_bound(&self) -> i64 {
        self.last_fence().max(self.announced.load(Relaxed))
    }

    /// Tells replicas that a token may have been given, and up to which one others may be, unless they know. When this
    /// returns, they have been told, by whatever thread.
    pub(super) fn announce(&self, fence: i64, tell: impl FnOnce(i64)) {
        if self.announced.load(Acquire) < fence {
            let _telling = self.telling.lock();
            if self.announced.load(Relaxed) < fence {
                let bound = fence.saturating_add(ANNOUNCED_AHEAD);
                tell(bound);
                self.announced.store(bound, Release);
            }
        }
    }

    /// Forgets what the replicas know.
    pub(super) fn forget_announced(&self) {
        self.announced.store(0, Relaxed);
    }

    /// Lets the next fencing token be larger than one from before a restart, or of a primary.
    pub(crate) fn continue_after(&self, fence: i64) {
        self.last_fence.fetch_max(fence, Relaxed);
    }

    /// Remembers clients whose locks cannot be released yet.
    pub(super) fn remember_departed(&self, departed: impl IntoIterator<Item = Departed>) {
        self.departed.lock().extend(departed);
    }

    /// Forgets the clients whose locks are still to be released: they are those of a primary now.
    pub(super) fn forget_departed(&self) {
        self.departed.lock().clear();
    }

    /// Returns the clients whose locks are still to be released, and forgets them.
    pub(super) fn take_departed(&self) -> Vec<Departed> {
        std::mem::take(&mut *self.departed.lock())
    }
}
