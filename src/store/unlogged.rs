//! The keys that the running call has changed, or is about to change, and that are not logged yet.
//!
//! A panic ends the call before it logs anything. It unwinds this thread and is caught on it, so the keys are
//! thread-local: the recovery finds them, however far the stack was unwound, and a call that does not panic pays
//! nothing for it. A reference passed to everything that changes a key would cost each call thirty instructions. A key
//! too many does no harm, because its value at the time of logging is logged.

use std::cell::RefCell;

/// Capacity for names, in bytes, that a thread keeps after forgetting them.
const IDLE_CAPACITY_MAX: usize = 16 * 1024;

/// Keys changed by calls that a panic has ended: their values remain to be logged.
#[derive(Debug, Default)]
pub(crate) struct Interrupted {
    /// End of each name among the bytes, with the number of its database.
    ends: Vec<(usize, usize)>,
    bytes: Vec<u8>,
    /// True if any other keys may have changed, too.
    pub(crate) is_all: bool,
}

impl Interrupted {
    /// Iterates over the names, each with the number of its database.
    pub(crate) fn names(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(db, end)| (db, &self.bytes[std::mem::replace(&mut start, end)..end]))
    }

    /// Returns true if no key has changed.
    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty() && !self.is_all
    }

    /// Adds the keys of another call.
    pub(super) fn add(&mut self, other: &Interrupted) {
        other.names().for_each(|(db, name)| self.push(db, name));
        self.is_all |= other.is_all;
    }

    pub(crate) fn push(&mut self, db: usize, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push((db, self.bytes.len()));
    }

    /// Returns true if this key was added last.
    fn ends_with(&self, db: usize, key: &[u8]) -> bool {
        let start = self.ends.len().checked_sub(2).map_or(0, |before| self.ends[before].1);
        self.ends.last().is_some_and(|last| last.0 == db) && self.bytes[start..] == *key
    }

    fn pop(&mut self) {
        self.ends.pop();
        self.bytes.truncate(self.ends.last().map_or(0, |last| last.1));
    }

    fn clear(&mut self) {
        if self.bytes.capacity() > IDLE_CAPACITY_MAX || self.ends.capacity() > IDLE_CAPACITY_MAX {
            *self = Interrupted::default();
        }
        self.ends.clear();
        self.bytes.clear();
        self.is_all = false;
    }
}

thread_local! {
    static UNLOGGED: RefCell<Interrupted> = RefCell::default();
    /// Locks whose state has changed, each with the number of its database.
    static LOCKS: RefCell<Vec<(usize, Box<[u8]>)>> = const { RefCell::new(Vec::new()) };
}

/// Adds a lock whose state has changed.
pub(super) fn add_lock(db: usize, key: &[u8]) {
    LOCKS.with_borrow_mut(|locks| {
        if locks.last().is_none_or(|(last, name)| *last != db || **name != *key) {
            locks.push((db, key.into()));
        }
    });
}

/// Removes a lock whose state was logged.
pub(super) fn remove_lock(db: usize, key: &[u8]) {
    LOCKS.with_borrow_mut(|locks| locks.retain(|(other, name)| *other != db || **name != *key));
}

/// Takes all locks.
pub(super) fn take_locks() -> Vec<(usize, Box<[u8]>)> {
    LOCKS.take()
}

/// Adds a key that is about to change.
pub(super) fn add(db: usize, key: &[u8]) {
    UNLOGGED.with_borrow_mut(|unlogged| {
        if !unlogged.ends_with(db, key) {
            unlogged.push(db, key);
        }
    });
}

/// Adds all keys.
pub(super) fn add_all() {
    UNLOGGED.with_borrow_mut(|unlogged| unlogged.is_all = true);
}

/// Takes all keys.
pub(super) fn take() -> Interrupted {
    UNLOGGED.take()
}

/// Removes a key whose change has a record of its own, which was logged just now.
pub(super) fn remove(db: usize, key: &[u8]) {
    UNLOGGED.with_borrow_mut(|unlogged| {
        if unlogged.ends_with(db, key) {
            unlogged.pop();
        }
    });
}

/// Forgets all keys and locks, whose changes are logged.
pub(super) fn clear() {
    UNLOGGED.with_borrow_mut(Interrupted::clear);
    LOCKS.with_borrow_mut(Vec::clear);
}
