//! The walk of a snapshot over the keys: it visits each as it was at one moment, the *cut*, while commands change them.
//!
//! At the cut, with the gate held exclusively, every shard gets a [`Walk`]. A thread then visits the keys of one shard
//! after another in the order of a scan, whose positions keep their meaning while the table grows and shrinks. Whatever
//! changes a key that the walk has not reached gives it to the [`WalkSink`] first, as it is until then, and the walk
//! passes over it; a key that is created after the cut is passed over, too. So each key of the cut is visited once, and
//! nothing is copied but what changes meanwhile.
//!
//! A walk belongs to the table: SWAPDB swaps both, and FLUSHALL hands both over, so that the walk goes on in what is no
//! longer there for commands.

use std::collections::HashSet;
use std::sync::Arc;

use crate::store::entry::Entry;
use crate::store::key::Key;
use crate::store::table::{Table, scan_position};

/// Takes keys that are changed before the walk has reached them. It is called while their shard is locked.
pub(crate) trait WalkSink: Send + Sync {
    /// Takes a key as it was at the cut, with the number that its database had then, and its fence.
    fn add_former(&self, db: usize, entry: &Entry, fence: i64);
}

/// Visits a key: the number that its database had at the cut, the key with its value, and its fence.
pub(super) type Visit<'v> = &'v mut dyn FnMut(usize, &Entry, i64);

/// The walk over the keys of one table.
pub(super) struct Walk {
    /// The number of the database at the cut.
    db: usize,
    /// The scan position up to which keys were visited.
    position: u64,
    /// The keys beyond the position that are not to be visited: they were given to the sink, or created after the cut.
    passed_over: HashSet<Box<[u8]>, ahash::RandomState>,
    sink: Arc<dyn WalkSink>,
}

impl Walk {
    /// Begins a walk.
    pub(super) fn new(db: usize, sink: &Arc<dyn WalkSink>) -> Self {
        Walk { db, position: 0, passed_over: HashSet::default(), sink: sink.clone() }
    }

    /// Gives a key to the sink that is about to change, unless it was reached or given before. `entry` is what it holds,
    /// if it exists.
    pub(super) fn before_change(&mut self, key: Key<'_>, entry: Option<&Entry>, fence: i64) {
        if scan_position(key.hash) < self.position || self.passed_over.contains(key.bytes) {
            return;
        }
        entry.iter().for_each(|entry| self.sink.add_former(self.db, entry, fence));
        self.passed_over.insert(key.bytes.into());
    }

    /// Visits keys until the time is up; returns whether that were all.
    pub(super) fn go_on(
        &mut self,
        table: &Table<Entry>,
        fence: impl Fn(&Entry) -> i64,
        is_time_up: &dyn Fn() -> bool,
        visit: Visit<'_>,
    ) -> bool {
        loop {
            let Walk { db, position, passed_over, .. } = self;
            let next = table.scan(*position, |entry| {
                if passed_over.is_empty() || !passed_over.remove(entry.key()) {
                    visit(*db, entry, fence(entry));
                }
            });
            match next {
                Some(next) => self.position = next,
                None => return true,
            }
            if is_time_up() {
                return false;
            }
        }
    }
}
