//! The locks of a client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::client::registry::ClientInfo;
use crate::memory::heap::allocation_len;
use crate::memory::ordered_map::OrderedMap;
use crate::store::LockHolder;

/// A lock's database and key.
pub(crate) type LockName = (usize, Box<[u8]>);

/// How many locks a client holds, and which of them its connection's end releases.
///
/// Lock order: a shard, then these.
#[derive(Default)]
pub(super) struct ClientLocks {
    held: AtomicUsize,
    #[allow(clippy::box_collection, reason = "rarely there, and part of every client")]
    bound: Mutex<Option<Box<OrderedMap<LockName, ()>>>>,
}

/// Returns the memory of a name in [`ClientLocks`].
fn bound_len(key: &[u8]) -> usize {
    allocation_len(key.len()) + OrderedMap::<LockName, ()>::entry_len()
}

impl LockHolder for ClientInfo {
    fn id(&self) -> u64 {
        self.id
    }

    fn is_gone(&self) -> bool {
        self.outbox.is_ending()
    }

    fn count_lock(&self, is_held: bool) {
        match is_held {
            true => self.locks.held.fetch_add(1, Relaxed),
            false => self.locks.held.fetch_sub(1, Relaxed),
        };
    }

    fn bind_lock(&self, db: usize, key: &[u8]) {
        if self.locks.bound.lock().get_or_insert_default().insert((db, key.into()), ()).is_none() {
            self.add_kept_len(bound_len(key) as isize);
        }
    }

    fn unbind_lock(&self, db: usize, key: &[u8]) {
        let mut bound = self.locks.bound.lock();
        if let Some(names) = &mut *bound {
            if names.remove(&(db, Box::from(key))).is_some() {
                self.add_kept_len(-(bound_len(key) as isize));
            }
            if names.is_empty() {
                *bound = None;
            }
        }
    }
}

impl ClientInfo {
    /// Returns how many locks the client holds through `LOCK.*`.
    pub(crate) fn held_locks(&self) -> usize {
        self.locks.held.load(Relaxed)
    }

    /// Returns whether locks are released when its connection closes.
    pub(crate) fn has_bound_locks(&self) -> bool {
        self.locks.bound.lock().is_some()
    }

    /// Returns the locks that are released when its connection closes.
    pub(crate) fn bound_locks(&self) -> Vec<LockName> {
        self.locks.bound.lock().iter().flat_map(|names| names.keys().cloned()).collect()
    }

    /// Returns the client as the holder of a lock.
    pub(crate) fn as_lock_holder(self: &Arc<Self>) -> Arc<dyn LockHolder> {
        self.clone()
    }
}
