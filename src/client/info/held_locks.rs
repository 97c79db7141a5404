//! The locks that a client holds.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::memory::heap::allocation_len;
use crate::memory::ordered_map::OrderedMap;

/// A lock's database and key.
pub(crate) type LockName = (usize, Box<[u8]>);

/// How many locks a client holds, and which of them its connection's end releases: each with how often it is bound, because
/// a client may hold one that is shared more than once.
///
/// Lock order: a shard, then these.
#[derive(Default)]
pub(super) struct ClientLocks {
    held: AtomicUsize,
    #[allow(clippy::box_collection, reason = "rarely there, and part of every client")]
    bound: Mutex<Option<Box<OrderedMap<LockName, u32>>>>,
}

/// Returns the memory of the name of a lock that the connection's end releases.
fn bound_len(key: &[u8]) -> isize {
    (allocation_len(key.len()) + OrderedMap::<LockName, u32>::entry_len()) as isize
}

impl ClientLocks {
    /// Returns how many are held.
    pub(super) fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// Counts one that is held from now on, or not any more.
    pub(super) fn count(&self, is_held: bool) {
        match is_held {
            true => self.held.fetch_add(1, Relaxed),
            false => self.held.fetch_sub(1, Relaxed),
        };
    }

    /// Lets the connection's end release one; returns by how many bytes this has grown.
    pub(super) fn bind(&self, db: usize, key: &[u8]) -> isize {
        let mut bound = self.bound.lock();
        let count = bound.get_or_insert_default().get_or_insert_default((db, key.into()));
        *count += 1;
        if *count == 1 { bound_len(key) } else { 0 }
    }

    /// Reverts [`ClientLocks::bind`]; returns by how many bytes this has grown, which is negative.
    pub(super) fn unbind(&self, db: usize, key: &[u8]) -> isize {
        let mut bound = self.bound.lock();
        let Some(names) = &mut *bound else { return 0 };
        let name = (db, Box::from(key));
        let Some(count) = names.get_mut(&name) else { return 0 };
        *count -= 1;
        if *count > 0 {
            return 0;
        }
        names.remove(&name);
        bound.take_if(|names| names.is_empty());
        -bound_len(key)
    }

    /// Returns whether the connection's end releases any.
    pub(super) fn is_any_bound(&self) -> bool {
        self.bound.lock().is_some()
    }

    /// Returns those that the connection's end releases.
    pub(super) fn bound(&self) -> Vec<LockName> {
        self.bound.lock().iter().flat_map(|names| names.keys().cloned()).collect()
    }
}
