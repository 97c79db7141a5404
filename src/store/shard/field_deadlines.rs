//! The index of the deadlines of fields: a second tournament tree over the buckets of a shard's table.

use crate::memory::heap::allocation_len;
use crate::store::entry::Entry;
use crate::store::expire::{DeadlineTree, NEVER};
use crate::store::value::{Hash, Kind, Type};
use crate::time::clock::Now;

/// The deadlines of fields in a shard.
#[derive(Default)]
pub(in crate::store) struct FieldDeadlines {
    /// Bounds in milliseconds since 1970.
    pub(in crate::store) bounds: DeadlineTree,
    /// Hashes with a field that has a deadline.
    pub(in crate::store) hashes: usize,
    /// Fields that have expired since the store was created.
    pub(in crate::store) expired: u64,
    /// Of `expired`, those that the sweeper removed.
    pub(in crate::store) swept: u64,
}

impl FieldDeadlines {
    /// Forgets all deadlines, because the table has become empty; returns their bounds.
    pub(in crate::store) fn take_bounds(&mut self) -> DeadlineTree {
        self.hashes = 0;
        std::mem::take(&mut self.bounds)
    }

    /// Returns the bytes allocated.
    pub(in crate::store) fn memory(&self) -> usize {
        allocation_len(size_of::<Self>()) + self.bounds.memory()
    }

    /// After entries moved between buckets, the receiving bucket gets the bound of the giving one.
    pub(in crate::store) fn inherit_bound(&mut self, from: usize, to: usize) {
        if self.bounds.bound(from) != NEVER {
            self.bounds.lower(to, self.bounds.bound(from));
        }
    }
}

/// Returns a lower bound of the deadlines of an entry's fields.
#[inline]
pub(in crate::store) fn nearest_deadline(entry: &Entry) -> Option<i64> {
    if entry.is_of(Type::Hash) { Hash::nearest_deadline(entry) } else { None }
}

/// Returns the wall clock's time in milliseconds since 1970.
pub(in crate::store) fn wall_ms(now: Now) -> u64 {
    u64::try_from(now.wall_ms()).unwrap_or(0)
}
