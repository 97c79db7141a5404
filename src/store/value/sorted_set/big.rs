//! Big sorted sets: a table of members with their scores, and a tree that orders the same members by score.
//!
//! ```text
//!   table: bucket                       tree: leaf
//! +---------------------+             +----------------------------+
//! | tags | slot | ..    |             | scores                     |
//! +---------|-----------+             | handles: address | ..      |
//!           |                         +-------------|--------------+
//!           v                                       |
//!   +-- entry -------------------------+            |
//!   | header | member | score, 8 bytes | <----------+
//!   +----------------------------------+
//! ```
//!
//! A member lies in memory once, in its entry. The table owns the entries; the tree has their addresses. The score is
//! in both, so that a look-up needs no tree and a range no table.
//!
//! Invariant, on which the `unsafe` blocks below rest: every handle in the tree is that of an entry in the table, which
//! is not reallocated while it is there, because its value has a fixed length and is overwritten in place. An entry
//! leaves the tree before it is freed.

#![allow(unsafe_code)] // members are read through their addresses; see SAFETY

use std::cmp::Ordering;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;

use crate::store::entry::{Entry, EntryHandle};
use crate::store::table::{Hasher, Table, prefetch};
use crate::store::value::listpack::{Blob, Item};
use crate::store::value::rank_tree::{self, Member, RankTree};
use crate::store::value::sorted_set::Score;
use crate::text::bounds::{LexRange, ScoreRange};

/// The address of a member's entry.
#[derive(Clone, Copy)]
pub(crate) struct Handle(EntryHandle);

impl Handle {
    /// Asks the processor to bring the member into its cache.
    #[inline]
    pub(super) fn prefetch(self) {
        prefetch(self.0.address());
    }
}

impl Member for Handle {
    #[inline]
    fn bytes(&self) -> &[u8] {
        // SAFETY: handles are only in the tree, or borrowed from it together with the set; the entry is in the table.
        unsafe { self.0.key() }
    }
}

/// A sorted set above the limits of packed ones.
pub(crate) struct BigSortedSet {
    members: ScoreTable,
    tree: RankTree<Handle>,
}

/// Members with their scores, in no order: the table of a big sorted set, and a result while it is collected.
pub(crate) struct ScoreTable {
    table: Table,
    /// Bytes of the entries.
    memory: usize,
}

/// Creates the entry of a member.
#[inline]
fn entry_of(member: &[u8], score: f64) -> Entry {
    Entry::text(member, &score.to_ne_bytes(), None)
}

/// Returns the score in the entry of a member.
#[inline]
fn score_in(entry: &Entry) -> f64 {
    let bytes = entry.string().as_slice().first_chunk();
    f64::from_ne_bytes(*bytes.expect("the value of a member is its score"))
}

/// Overwrites the score in the entry of a member, in place.
#[inline]
fn set_score_in(entry: &mut Entry, score: f64) {
    Blob::write(entry, 0, &score.to_ne_bytes());
}

impl BigSortedSet {
    /// Creates a set of elements that are in ascending order and have different members.
    pub(crate) fn from_ascending<'e>(
        elements: impl Iterator<Item = (Item<'e>, Score<'e>)>,
        hasher: &Hasher,
    ) -> BigSortedSet {
        let mut members = ScoreTable::new(hasher);
        let tree = RankTree::from_ascending(elements.map(|(member, score)| {
            let score = score.get();
            (score, member.with_text(|text| members.insert(members.table.hash(text), text, score)))
        }));
        BigSortedSet { members, tree }
    }

    /// Returns the number of members.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.tree.len()
    }

    /// Returns the bytes allocated, without this struct itself.
    pub(in crate::store::value) fn memory(&self) -> usize {
        self.members.table.memory() + self.tree.memory() + self.members.memory
    }

    /// Returns the cost of freeing it, in units of one allocation.
    pub(in crate::store::value) fn effort(&self) -> usize {
        self.members.table.count() + self.tree.effort()
    }

    /// Returns a copy that shares no memory with the original.
    pub(in crate::store::value) fn copy(&self) -> Self {
        let elements = self.tree.iter();
        let elements = elements.map(|(score, handle)| (Item::Text(self.member(handle)), Score::Number(score)));
        Self::from_ascending(elements, self.members.table.hasher())
    }

    /// Returns the member that a handle from this set refers to.
    #[inline]
    pub(super) fn member(&self, handle: Handle) -> &[u8] {
        // SAFETY: the entry is in the table of this set, which is borrowed and thus not changed.
        unsafe { handle.0.key() }
    }

    /// Returns the score of a member.
    #[inline]
    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        let table = &self.members.table;
        table.find(table.hash(member), member).map(score_in)
    }

    /// Prefetches the bucket of a member; returns the member's hash.
    #[inline]
    pub(crate) fn prefetch_bucket(&self, member: &[u8]) -> u64 {
        let hash = self.members.table.hash(member);
        self.members.table.prefetch_bucket(hash);
        hash
    }

    /// Prefetches the member with a hash.
    #[inline]
    pub(crate) fn prefetch_member(&self, hash: u64) {
        self.members.table.prefetch_entry(hash);
    }

    /// Returns the rank and the score of a member.
    pub(super) fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let score = self.score(member)?;
        Some((self.tree.rank_of(score, member)?, score))
    }

    /// Returns the elements at a range of ranks.
    pub(super) fn range(&self, ranks: Range<usize>) -> rank_tree::Iter<'_, Handle> {
        self.tree.range(ranks)
    }

    /// Returns the ranks of the elements whose scores are in a range, which is not empty.
    pub(super) fn ranks_by_score(&self, range: &ScoreRange) -> Range<usize> {
        let (min, max) = (range.min, range.max);
        let start =
            if min.is_excluded { self.tree.rank_greater(min.score) } else { self.tree.rank_not_less(min.score) };
        let end = if max.is_excluded { self.tree.rank_not_less(max.score) } else { self.tree.rank_greater(max.score) };
        start..end.max(start)
    }

    /// Returns the ranks of the elements whose members are in a range; all scores should be equal.
    pub(super) fn ranks_by_member(&self, range: &LexRange<'_>) -> Range<usize> {
        let start = self.tree.partition_point(|_, member| !range.admits_above(member));
        let end = self.tree.partition_point(|_, member| range.admits_below(member));
        start..end.max(start)
    }

    /// Visits the members at a scan position; returns the position after it, or `None` at the end.
    pub(crate) fn scan(&self, position: u64, mut visit: impl FnMut(&[u8], f64)) -> Option<u64> {
        self.members.table.scan(position, |entry| visit(entry.key(), score_in(entry)))
    }

    /// Sets the score of a member to what `choose` returns for the present one; if that is `None`, nothing changes.
    pub(super) fn put(&mut self, member: &[u8], choose: impl FnOnce(Option<f64>) -> Option<f64>) {
        let hash = self.members.table.hash(member);
        if let Some(entry) = self.members.table.find_mut(hash, member) {
            let old = score_in(entry);
            if let Some(score) = choose(Some(old)).filter(|score| *score != old) {
                self.tree.update(old, member, score);
                set_score_in(entry, score);
            }
        } else if let Some(score) = choose(None) {
            let handle = self.members.insert(hash, member, score);
            self.tree.insert(score, handle);
        }
    }

    /// Removes a member; returns whether it existed.
    pub(super) fn remove(&mut self, member: &[u8]) -> bool {
        let Some(entry) = self.members.remove(member) else { return false };
        // Should the tree panic, the entry that it may still refer to is leaked.
        let entry = ManuallyDrop::new(entry);
        self.tree.remove(score_in(&entry), member);
        drop(ManuallyDrop::into_inner(entry));
        true
    }

    /// Removes the elements at a range of ranks, which exist.
    pub(super) fn remove_ranks(&mut self, ranks: Range<usize>) {
        let mut removed = Vec::with_capacity(ranks.len());
        self.tree.remove_range(ranks, |handle| removed.push(handle));
        removed.iter().for_each(|handle| drop(self.members.remove(handle.bytes())));
    }
}

impl ScoreTable {
    /// Creates an empty one.
    pub(crate) fn new(hasher: &Hasher) -> Self {
        ScoreTable { table: Table::new(hasher.clone()), memory: 0 }
    }

    /// Adds a member with a score; one that is there gets the score that `merge` makes of its own and this one.
    pub(crate) fn add(&mut self, member: &[u8], score: f64, merge: impl FnOnce(f64, f64) -> f64) {
        let hash = self.table.hash(member);
        match self.table.find_mut(hash, member) {
            Some(entry) => set_score_in(entry, merge(score_in(entry), score)),
            None => {
                self.insert(hash, member, score);
            }
        }
    }

    /// Adds a member that is known to be missing.
    #[inline]
    fn insert(&mut self, hash: u64, member: &[u8], score: f64) -> Handle {
        let entry = entry_of(member, score);
        let handle = Handle(entry.handle());
        self.memory += entry.own_memory();
        self.table.insert(hash, entry);
        handle
    }

    /// Removes a member and returns its entry.
    fn remove(&mut self, member: &[u8]) -> Option<Entry> {
        let (entry, _) = self.table.remove(self.table.hash(member), member)?;
        self.memory -= entry.own_memory();
        Some(entry)
    }

    /// Orders the members.
    pub(crate) fn finish(self) -> BigSortedSet {
        let elements = self.table.iter().map(|entry| (score_in(entry), Handle(entry.handle())));
        let mut elements: Vec<(f64, Handle)> = elements.collect();
        elements.sort_unstable_by(|(score, member), (other, other_member)| {
            let by_score = score.partial_cmp(other).unwrap_or(Ordering::Equal); // scores are never NaN
            by_score.then_with(|| member.bytes().cmp(other_member.bytes()))
        });
        BigSortedSet { members: self, tree: RankTree::from_ascending(elements) }
    }
}

impl fmt::Debug for BigSortedSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BigSortedSet").field("len", &self.len()).finish_non_exhaustive()
    }
}
