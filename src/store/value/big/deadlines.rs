//! The deadlines of the elements of a large collection.

use crate::store::expire::{DeadlineTree, NEVER};
use crate::store::table::{Item, Table};

/// A lower bound of the deadlines in each bucket of a table, in milliseconds since 1970, and the number of deadlines.
#[derive(Default)]
pub(super) struct ElementDeadlines {
    bounds: DeadlineTree,
    /// Elements with a deadline.
    count: usize,
}

impl ElementDeadlines {
    /// Returns the bytes allocated, without this struct itself.
    pub(super) fn memory(&self) -> usize {
        self.bounds.memory()
    }

    /// Returns true if no element has a deadline.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns a lower bound of the deadlines; `None` if there are none.
    pub(super) fn nearest(&self) -> Option<i64> {
        (!self.is_empty()).then(|| i64::try_from(self.bounds.earliest()).unwrap_or(i64::MAX))
    }

    /// Follows the split of a bucket of the table.
    pub(super) fn split(&mut self, from: usize, to: usize) {
        self.bounds.lower(to, self.bounds.bound(from));
    }

    /// Follows the merger of two buckets of the table.
    pub(super) fn merge(&mut self, from: usize, into: usize) {
        self.bounds.lower(into, self.bounds.bound(from));
        self.bounds.set(from, NEVER);
    }

    /// Counts a new or removed deadline of an element, and lowers the bound of its bucket.
    pub(super) fn record(&mut self, bucket: Option<usize>, had_one: bool, deadline: Option<i64>) {
        self.count = self.count + usize::from(deadline.is_some()) - usize::from(had_one);
        if let (Some(at_ms), Some(bucket)) = (deadline, bucket) {
            self.bounds.lower(bucket, at_ms.unsigned_abs());
        }
    }

    /// Passes the elements of one bucket whose deadlines have passed to `take`, which must lead to their removal;
    /// returns false if no bucket is due.
    pub(super) fn take_due<T: Item>(
        &mut self,
        table: &Table<T>,
        now_ms: i64,
        deadline_of: fn(&T) -> Option<i64>,
        mut take: impl FnMut(&T),
    ) -> bool {
        let Some(bucket) = self.bounds.due(u64::try_from(now_ms).unwrap_or(0)) else { return false };
        let mut bound = NEVER;
        table.for_each_in(bucket, |element| match deadline_of(element) {
            Some(at_ms) if at_ms <= now_ms => take(element),
            Some(at_ms) => bound = bound.min(at_ms.unsigned_abs()),
            None => {}
        });
        self.bounds.set(bucket, bound);
        true
    }
}
