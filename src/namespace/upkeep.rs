//! The state of what keeps a namespace in order while no command does: the sweeper, the fragmentation of the allocator,
//! the memory of the users.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use tokio::sync::{Mutex, Notify};

use crate::client::info::LockName;
use crate::store::SweepTimer;
use crate::store::resident::Resident;

/// What the upkeep of a namespace knows from one time to the next, and what wakes and excludes it.
pub struct Upkeep {
    /// Wakes the sweeper when a key expires earlier than it expects.
    pub sweep_notify: Arc<Notify>,
    /// Held while keys expire because of the time, and while the clock is steered; shared by all with the same clock.
    pub(crate) steering: Arc<Mutex<()>>,
    /// Whether expired keys are deleted actively; they are invisible either way.
    is_sweeping: AtomicBool,
    /// The fragmentation of the allocator.
    pub(super) resident: Resident,
    /// The bytes of the users when they were last counted.
    pub(super) users_len: AtomicUsize,
    /// The locks that more of the clients queued for them may have.
    unserved: parking_lot::Mutex<BTreeSet<LockName>>,
}

impl Upkeep {
    /// Creates the state of a namespace whose users take this many bytes.
    pub(super) fn new(users_len: usize) -> Self {
        Upkeep {
            sweep_notify: Arc::new(Notify::new()),
            steering: Arc::default(),
            is_sweeping: AtomicBool::new(true),
            resident: Resident::default(),
            users_len: AtomicUsize::new(users_len),
            unserved: parking_lot::Mutex::default(),
        }
    }

    /// Remembers a lock that more of the clients queued for it may have.
    pub(crate) fn serve_later(&self, lock: LockName) {
        self.unserved.lock().insert(lock);
    }

    /// Returns whether there is such a lock.
    pub(crate) fn has_unserved(&self) -> bool {
        !self.unserved.lock().is_empty()
    }

    /// Returns whether a lock is one.
    pub(crate) fn is_unserved(&self, db: usize, key: &[u8]) -> bool {
        let unserved = self.unserved.lock();
        !unserved.is_empty() && unserved.contains(&(db, key.into()))
    }

    /// Takes one.
    pub(crate) fn take_unserved(&self) -> Option<LockName> {
        self.unserved.lock().pop_first()
    }

    /// Returns a timer that wakes the sweeper.
    pub(super) fn sweep_timer(&self) -> Arc<SweepTimer> {
        let wake = self.sweep_notify.clone();
        Arc::new(SweepTimer::new(move || wake.notify_one()))
    }

    /// Enables or disables the deletion of expired keys.
    pub fn set_sweeping(&self, is_sweeping: bool) {
        self.is_sweeping.store(is_sweeping, Relaxed);
        self.sweep_notify.notify_one();
    }

    /// Returns whether expired keys are deleted.
    pub(super) fn is_sweeping(&self) -> bool {
        self.is_sweeping.load(Relaxed)
    }
}
