//! The keys that the running call has begun to change and that are not logged yet, while changes are logged.
//!
//! A panic ends the call before it logs anything. It unwinds this thread and is caught on it, so the names are kept by
//! thread: the recovery finds them, whatever has unwound, and a call that does not panic pays nothing for it. A reference
//! passed to everything that changes a key would cost each call thirty instructions. A name too many does no harm, because
//! what is logged in the end is what the key holds then.

use std::cell::RefCell;

/// The keys that calls have changed which a panic has ended: what they hold now remains to be logged.
#[derive(Debug, Default)]
pub(crate) struct Interrupted {
    /// Each with the number of its database.
    pub(crate) names: Vec<(usize, Box<[u8]>)>,
    /// Whether any others may have changed, too.
    pub(crate) is_all: bool,
}

impl Interrupted {
    /// Adds those of another call.
    pub(super) fn add(&mut self, mut other: Interrupted) {
        self.names.append(&mut other.names);
        self.is_all |= other.is_all;
    }
}

thread_local! {
    static UNLOGGED: RefCell<Interrupted> = RefCell::default();
}

/// Adds a key that is about to change.
pub(super) fn add(db: usize, key: &[u8]) {
    UNLOGGED.with_borrow_mut(|unlogged| {
        if unlogged.names.last().is_none_or(|last| last.0 != db || *last.1 != *key) {
            unlogged.names.push((db, key.into()));
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
        unlogged.names.pop_if(|last| last.0 == db && *last.1 == *key);
    });
}

/// Forgets the keys, whose changes are logged.
pub(super) fn clear() {
    UNLOGGED.with_borrow_mut(|unlogged| {
        unlogged.names.clear();
        unlogged.is_all = false;
    });
}
