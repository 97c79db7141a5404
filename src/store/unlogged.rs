//! The keys that the running call has begun to change and that are not logged yet, while changes are logged.
//!
//! A panic ends the call before it logs anything. It unwinds this thread and is caught on it, so the names are kept by
//! thread: the recovery finds them, whatever has unwound, and a call that does not panic pays nothing for it. A reference
//! passed to everything that changes a key would cost each call thirty instructions. A name too many does no harm, because
//! what is logged in the end is what the key holds then.

use std::cell::RefCell;

/// The most bytes of names that a thread keeps room for when they are forgotten.
const IDLE_CAPACITY_MAX: usize = 16 * 1024;

/// The keys that calls have changed which a panic has ended: what they hold now remains to be logged.
#[derive(Debug, Default)]
pub(crate) struct Interrupted {
    /// Where each name ends among the bytes, with the number of its database.
    ends: Vec<(usize, usize)>,
    bytes: Vec<u8>,
    /// Whether any others may have changed, too.
    pub(crate) is_all: bool,
}

impl Interrupted {
    /// Iterates over the names, each with the number of its database.
    pub(crate) fn names(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(db, end)| (db, &self.bytes[std::mem::replace(&mut start, end)..end]))
    }

    /// Returns whether no key has changed.
    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty() && !self.is_all
    }

    /// Adds those of another call.
    pub(super) fn add(&mut self, other: &Interrupted) {
        other.names().for_each(|(db, name)| self.push(db, name));
        self.is_all |= other.is_all;
    }

    /// Adds a key.
    pub(crate) fn push(&mut self, db: usize, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push((db, self.bytes.len()));
    }

    /// Returns whether the last key that was added is this one.
    fn ends_with(&self, db: usize, key: &[u8]) -> bool {
        let start = self.ends.len().checked_sub(2).map_or(0, |before| self.ends[before].1);
        self.ends.last().is_some_and(|last| last.0 == db) && self.bytes[start..] == *key
    }

    /// Removes the last key that was added.
    fn pop(&mut self) {
        self.ends.pop();
        self.bytes.truncate(self.ends.last().map_or(0, |last| last.1));
    }

    /// Removes all of them.
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
    /// The locks of which something else is known since, each with the number of its database.
    static LOCKS: RefCell<Vec<(usize, Box<[u8]>)>> = const { RefCell::new(Vec::new()) };
}

/// Adds a lock of which something else is known from now on.
pub(super) fn add_lock(db: usize, key: &[u8]) {
    LOCKS.with_borrow_mut(|locks| {
        if locks.last().is_none_or(|(last, name)| *last != db || **name != *key) {
            locks.push((db, key.into()));
        }
    });
}

/// Removes a lock of which that was logged.
pub(super) fn remove_lock(db: usize, key: &[u8]) {
    LOCKS.with_borrow_mut(|locks| locks.retain(|(other, name)| *other != db || **name != *key));
}

/// Takes the locks; none remain.
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

/// Takes the keys; none remain.
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

/// Forgets the keys, whose changes are logged.
pub(super) fn clear() {
    UNLOGGED.with_borrow_mut(Interrupted::clear);
    LOCKS.with_borrow_mut(Vec::clear);
}
