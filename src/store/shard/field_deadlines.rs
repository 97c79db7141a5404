//! The index of the deadlines of elements, which are fields of hashes and members of sets and are called fields here: a
//! second tournament tree over the buckets of a shard's table.

use crate::memory::heap::allocation_len;
use crate::store::cx::Cx;
use crate::store::entry::Entry;
use crate::store::expire::{DeadlineTree, NEVER};
use crate::store::value::{DataType, Hash, Set, Type, VisibleHash};
use crate::time::clock::Now;

/// The deadlines of fields in a shard.
#[derive(Default)]
pub(in crate::store) struct FieldDeadlines {
    /// Bounds in milliseconds since 1970.
    pub(in crate::store) bounds: DeadlineTree,
    /// Hashes with a field that has a deadline.
    pub(in crate::store) hashes: usize,
    /// Sets with a member that has a deadline.
    pub(in crate::store) sets: usize,
    /// Fields that have expired since the store was created.
    pub(in crate::store) expired: u64,
    /// Number of the fields in `expired` that the sweeper removed.
    pub(in crate::store) swept: u64,
}

impl FieldDeadlines {
    /// Swaps the deadlines of two shards. The counts of expired fields stay with their shards.
    pub(in crate::store) fn swap(one: &mut Option<Box<Self>>, other: &mut Option<Box<Self>>) {
        let counts =
            |fields: &Option<Box<Self>>| fields.as_ref().map_or((0, 0), |fields| (fields.expired, fields.swept));
        let (of_one, of_other) = (counts(one), counts(other));
        std::mem::swap(one, other);
        for (fields, counts) in [(one, of_one), (other, of_other)] {
            if fields.is_some() || counts != (0, 0) {
                let fields = fields.get_or_insert_default();
                (fields.expired, fields.swept) = counts;
            }
        }
    }

    /// Returns the number of the values of a type some of whose elements have deadlines.
    pub(in crate::store) fn count_mut(&mut self, of: Type) -> &mut usize {
        if of == Type::Set { &mut self.sets } else { &mut self.hashes }
    }

    /// Forgets all deadlines, because the table has become empty; returns their bounds.
    pub(in crate::store) fn take_bounds(&mut self) -> DeadlineTree {
        (self.hashes, self.sets) = (0, 0);
        std::mem::take(&mut self.bounds)
    }

    pub(in crate::store) fn memory(&self) -> usize {
        allocation_len(size_of::<Self>()) + self.bounds.memory()
    }

    /// Lowers the bound of bucket `to` to that of bucket `from`, after entries moved from one to the other.
    pub(in crate::store) fn inherit_bound(&mut self, from: usize, to: usize) {
        if self.bounds.bound(from) != NEVER {
            self.bounds.lower(to, self.bounds.bound(from));
        }
    }
}

/// Returns a lower bound of the deadlines of an entry's fields.
#[inline]
pub(crate) fn nearest_deadline(entry: &Entry) -> Option<i64> {
    if entry.is_of(Type::Hash) || entry.is_of(Type::Set) { nearest_of_elements(entry) } else { None }
}

/// Returns the bound for a hash or a set. Not inlined, because every look-up asks for it, and most find other values.
#[inline(never)]
fn nearest_of_elements(entry: &Entry) -> Option<i64> {
    if entry.is_of(Type::Hash) { Hash::nearest_deadline(entry) } else { Set::nearest_deadline(entry) }
}

/// Removes up to `max` elements of an entry whose deadlines have passed, and returns them.
pub(super) fn remove_expired(entry: &mut Entry, now_ms: i64, max: usize) -> Vec<Box<[u8]>> {
    match entry.kind() {
        Type::Set => Set::write(entry).remove_expired(now_ms, max),
        _ => Hash::write(entry).remove_expired(now_ms, max),
    }
}

/// Removes the elements of an entry, which is in no table, whose deadlines have passed; returns true if there were any.
pub(crate) fn remove_expired_elements(entry: &mut Entry, now: Now) -> bool {
    let now_ms = now.wall_ms();
    let has_any = nearest_deadline(entry).is_some_and(|at_ms| at_ms <= now_ms);
    has_any && !remove_expired(entry, now_ms, usize::MAX).is_empty()
}

/// Returns true if all elements of an entry, some of which have deadlines, have expired for a call.
#[cold]
pub(super) fn has_no_element(entry: &Entry, cx: &Cx) -> bool {
    match entry.kind() {
        Type::Set => Set::read(entry).seen_by(cx).len() == 0,
        _ => VisibleHash::new(Hash::read(entry), cx).is_empty(),
    }
}

/// Returns the wall-clock time in milliseconds since 1970.
pub(in crate::store) fn wall_ms(now: Now) -> u64 {
    u64::try_from(now.wall_ms()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_expired_stays_counted_where_it_was_when_deadlines_are_swapped() {
        let counted = |expired| Some(Box::new(FieldDeadlines { hashes: 3, expired, swept: 1, ..Default::default() }));
        let shown =
            |fields: &Option<Box<FieldDeadlines>>| fields.as_ref().map(|fields| (fields.hashes, fields.expired));
        let (mut one, mut other, mut fresh) = (counted(5), counted(7), None);
        one.iter_mut().for_each(|fields| fields.hashes = 4);
        FieldDeadlines::swap(&mut one, &mut other);
        assert_eq!((shown(&one), shown(&other)), (Some((3, 5)), Some((4, 7))));
        FieldDeadlines::swap(&mut one, &mut fresh);
        assert_eq!((shown(&one), shown(&fresh)), (Some((0, 5)), Some((3, 0))));
        let (mut none, mut neither) = (None, None);
        FieldDeadlines::swap(&mut none, &mut neither);
        assert!(none.is_none() && neither.is_none());
    }
}
