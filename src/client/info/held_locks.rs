//! The locks that a client holds.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::memory::heap::allocation_len;
use crate::memory::ordered_map::OrderedMap;

/// A lock's database and key.
pub(crate) type LockName = (usize, Box<[u8]>);

/// How many locks a client holds, and which of them its connection's end releases.
///
/// Lock order: a shard, then these.
#[derive(Default)]
pub(super) struct ClientLocks {
    held: AtomicUsize,
    /// Rarely there, and part of every client.
    bound: Mutex<Option<Box<Bound>>>,
}

/// The locks that the connection's end releases.
#[derive(Default)]
struct Bound {
    names: OrderedMap<LockName, ()>,
    /// Of those that the client holds more than once, because they are shared: how often besides.
    again: Vec<(LockName, usize)>,
}

/// Returns the memory of the name of a lock that the connection's end releases.
fn bound_len(key: &[u8]) -> isize {
    (allocation_len(key.len()) + OrderedMap::<LockName, ()>::entry_len()) as isize
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
        let bound = bound.get_or_insert_default();
        if bound.names.insert((db, key.into()), ()).is_none() {
            return bound_len(key);
        }
        bound.count_again(db, key, true);
        0
    }

    /// Reverts [`ClientLocks::bind`]; returns by how many bytes this has grown, which is negative.
    pub(super) fn unbind(&self, db: usize, key: &[u8]) -> isize {
        let mut all = self.bound.lock();
        let Some(bound) = &mut *all else { return 0 };
        if bound.count_again(db, key, false) {
            return 0;
        }
        let was_bound = bound.names.remove(&(db, Box::from(key))).is_some();
        all.take_if(|bound| bound.names.is_empty());
        if was_bound { -bound_len(key) } else { 0 }
    }

    /// Returns whether the connection's end releases any.
    pub(super) fn is_any_bound(&self) -> bool {
        self.bound.lock().is_some()
    }

    /// Returns those that the connection's end releases.
    pub(super) fn bound(&self) -> Vec<LockName> {
        self.bound.lock().iter().flat_map(|bound| bound.names.keys().cloned()).collect()
    }
}

impl Bound {
    /// Counts a lock that is bound already, or not that often any more; returns whether it was more than once.
    fn count_again(&mut self, db: usize, key: &[u8], is_bound: bool) -> bool {
        let again = &mut self.again;
        let place = again.iter().position(|((other, name), _)| *other == db && **name == *key);
        match (place, is_bound) {
            (Some(at), true) => again[at].1 += 1,
            (None, true) => again.push(((db, key.into()), 1)),
            (None, false) => return false,
            (Some(at), false) => {
                again[at].1 -= 1;
                if again[at].1 == 0 {
                    again.swap_remove(at);
                }
            }
        }
        true
    }
}
