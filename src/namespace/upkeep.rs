//! State of a namespace's background work: the sweeper, the fragmentation of the allocator, the memory of the users.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use tokio::sync::{Mutex, MutexGuard, Notify};

use crate::store::resident::Fragmentation;
use crate::store::{KeyName, SweepTimer};

/// State of a namespace's background work, with its wakeups and locks.
pub struct Upkeep {
    /// Wakeup of the sweeper when a key expires earlier than it expects.
    pub sweep_notify: Arc<Notify>,
    /// Held while keys expire by the time, and while the clock is steered; shared by all namespaces with the same
    /// clock.
    pub(crate) steering: Arc<Mutex<()>>,
    /// True if expired keys are deleted actively; they are invisible either way.
    is_sweeping: AtomicBool,
    /// The fragmentation of the allocator.
    pub(super) resident: Fragmentation,
    /// Number of bytes of the users at the last count.
    pub(super) users_len: AtomicUsize,
    /// Locks that more of their queued clients may acquire.
    unserved: parking_lot::Mutex<BTreeSet<KeyName>>,
}

impl Upkeep {
    /// Creates the state of a namespace whose users take `users_len` bytes.
    pub(super) fn new(users_len: usize) -> Self {
        Upkeep {
            sweep_notify: Arc::new(Notify::new()),
            steering: Arc::default(),
            is_sweeping: AtomicBool::new(true),
            resident: Fragmentation::default(),
            users_len: AtomicUsize::new(users_len),
            unserved: parking_lot::Mutex::default(),
        }
    }

    /// Waits for the turn of those who steer the clock, on the calling thread, which may serve clients.
    pub(crate) fn wait_for_turn(&self) -> MutexGuard<'_, ()> {
        loop {
            match self.steering.try_lock() {
                Ok(turn) => return turn,
                Err(_) => std::thread::yield_now(),
            }
        }
    }

    /// Notes a lock that more of its queued clients may acquire.
    pub(crate) fn serve_later(&self, lock: KeyName) {
        self.unserved.lock().insert(lock);
    }

    /// Returns true if there is such a lock.
    pub(crate) fn has_unserved(&self) -> bool {
        !self.unserved.lock().is_empty()
    }

    /// Returns true if a key is such a lock.
    pub(crate) fn is_unserved(&self, db: usize, key: &[u8]) -> bool {
        let unserved = self.unserved.lock();
        !unserved.is_empty() && unserved.contains(&(db, key.into()))
    }

    /// Takes one of these locks.
    pub(crate) fn take_unserved(&self) -> Option<KeyName> {
        self.unserved.lock().pop_first()
    }

    /// Returns a timer that wakes the sweeper.
    pub(super) fn sweep_timer(&self) -> Arc<SweepTimer> {
        let wake = self.sweep_notify.clone();
        Arc::new(SweepTimer::new(move || wake.notify_one()))
    }

    /// Enables or disables the active deletion of expired keys.
    pub fn set_sweeping(&self, is_sweeping: bool) {
        self.is_sweeping.store(is_sweeping, Relaxed);
        self.sweep_notify.notify_one();
    }

    /// Returns true if expired keys are deleted actively.
    pub(super) fn is_sweeping(&self) -> bool {
        self.is_sweeping.load(Relaxed)
    }
}
