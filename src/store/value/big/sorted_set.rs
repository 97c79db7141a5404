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
//! A member is stored in memory once, in its entry. The table owns the entries; the tree has their addresses. The score
//! is in both, so that a look-up needs no tree and a range no table.
//!
//! Invariant, on which the `unsafe` blocks below rest: every handle in the tree refers to an entry in the table, which
//! is not reallocated while it is there, because its value has a fixed length and is overwritten in place. An entry
//! leaves the tree before it is freed; an entry that the tree does not find is never freed. No code outside this file
//! gets a handle, only members borrowed from the set. A score that is not a number is replaced here, because the tree
//! could not find an element by it.

#![allow(unsafe_code)] // members are read through their addresses; see SAFETY

use std::cmp::Ordering;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;

use tracing::error;

use crate::store::entry::{Entry, EntryHandle};
use crate::store::table::{Hasher, prefetch};
use crate::store::value::big::elements::Elements;
use crate::store::value::big::form::LargeForm;
use crate::store::value::big::walk::{Record, RecordPart, WalkedElement};
use crate::store::value::listpack::{Blob, StoredElement};
use crate::store::value::rank_tree::{self, MemberHandle, RankTree};
use crate::store::value::score::Score;
use crate::text::bounds::{LexRange, ScoreRange};

/// Address of a member's entry. It does not leave this file.
#[derive(Clone, Copy)]
struct Handle(EntryHandle);

impl Handle {
    /// Prefetches the member.
    #[inline]
    fn prefetch(self) {
        prefetch(self.0.address());
    }
}

impl MemberHandle for Handle {
    #[inline]
    fn bytes(&self) -> &[u8] {
        // SAFETY: handles are only in the tree, or borrowed from it together with the set; the entry is in the table.
        unsafe { self.0.key() }
    }
}

/// Elements of a set at a range of ranks, borrowed from it.
#[derive(Clone)]
pub(in crate::store::value) struct BigElements<'e>(rank_tree::Iter<'e, Handle>);

impl<'e> BigElements<'e> {
    #[inline]
    fn element((score, handle): (f64, Handle)) -> (&'e [u8], f64) {
        // SAFETY: the handle is from the tree of a set that is borrowed for 'e with its entries, and thus not changed.
        (unsafe { handle.0.key() }, score)
    }

    /// Prefetches the member that comes `count` after the next one, if it is nearby.
    #[inline]
    pub(in crate::store::value) fn prefetch_ahead(&self, count: usize) {
        if let Some(handle) = self.0.ahead(count) {
            handle.prefetch();
        }
    }

    /// Folds all elements, with each member prefetched `ahead` elements earlier.
    pub(in crate::store::value) fn fold_prefetched<B>(
        self,
        init: B,
        ahead: usize,
        mut visit: impl FnMut(B, (&'e [u8], f64)) -> B,
    ) -> B {
        self.0.fold_prepared(init, ahead, Handle::prefetch, |result, element| visit(result, Self::element(element)))
    }
}

impl<'e> Iterator for BigElements<'e> {
    type Item = (&'e [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<(&'e [u8], f64)> {
        self.0.next().map(Self::element)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl DoubleEndedIterator for BigElements<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(Self::element)
    }
}

/// A sorted set above the limits of packed sorted sets.
pub(crate) struct BigSortedSet {
    members: ScoreTable,
    tree: RankTree<Handle>,
}

/// Members with their scores, in no order: the table of a big sorted set, and a result while it is collected.
pub(crate) struct ScoreTable {
    table: Elements<Entry>,
    /// Bytes of the entries.
    memory: usize,
}

/// Returns a score as a number. No command gives anything else; after a bug, at most a score is wrong.
#[inline]
fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
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

/// Overwrites the score in the entry of a member in place.
#[inline]
fn set_score_in(entry: &mut Entry, score: f64) {
    Blob::write(entry, 0, &score.to_ne_bytes());
}

/// Compares elements of the same set.
fn order((score, member): (f64, Handle), (other, other_member): (f64, Handle)) -> Ordering {
    let by_score = score.partial_cmp(&other).unwrap_or(Ordering::Equal); // scores are numbers
    by_score.then_with(|| member.bytes().cmp(other_member.bytes()))
}

/// Beginning of the log message for a set whose table and tree disagree, which is a bug.
const LOST: &str = "a member of a sorted set is not in its order";

impl LargeForm for BigSortedSet {
    fn memory(&self) -> usize {
        self.members.table.memory() + self.tree.memory() + self.members.memory
    }

    fn effort(&self) -> usize {
        self.members.table.count() + self.tree.effort()
    }

    fn copy(&self) -> Self {
        let elements = self.range(0..self.len());
        let elements = elements.map(|(member, score)| (StoredElement::Text(member), Score::Number(score)));
        Self::from_ascending(elements, self.members.table.hasher())
    }

    fn set_record(&mut self, record: Option<Record>) {
        self.members.table.set_record(record, |entry| WalkedElement::Scored(entry.key(), score_in(entry)));
    }

    fn record(&self) -> Option<&Record> {
        self.members.table.record()
    }

    fn visit_elements(&mut self, is_time_up: &dyn Fn() -> bool) -> Option<RecordPart> {
        self.members.table.visit(is_time_up)
    }
}

impl BigSortedSet {
    /// Creates a set of elements that should be in ascending order and have different members; otherwise they are
    /// sorted, and the last of equal members counts.
    pub(crate) fn from_ascending<'e>(
        elements: impl Iterator<Item = (StoredElement<'e>, Score<'e>)>,
        hasher: &Hasher,
    ) -> BigSortedSet {
        let (mut members, mut last, mut is_ordered) = (ScoreTable::new(hasher), None::<(f64, Handle)>, true);
        let tree = RankTree::from_ascending(elements.filter_map(|(member, score)| {
            let score = number(score.get());
            let handle = member.with_text(|text| members.put(text, score));
            let element = handle.map(|handle| (score, handle));
            is_ordered &= element.is_some_and(|element| last.is_none_or(|last| order(last, element).is_lt()));
            last = element;
            element.filter(|_| is_ordered)
        }));
        if is_ordered { BigSortedSet { members, tree } } else { members.finish() }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.tree.len()
    }

    /// Returns the score of a member.
    #[inline]
    pub(in crate::store::value) fn score(&self, member: &[u8]) -> Option<f64> {
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

    /// Prefetches the member with this hash.
    #[inline]
    pub(crate) fn prefetch_member(&self, hash: u64) {
        self.members.table.prefetch_entry(hash);
    }

    /// Returns the rank and the score of a member.
    pub(in crate::store::value) fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let score = self.score(member)?;
        Some((self.tree.rank_of(score, member)?, score))
    }

    /// Returns the elements at a range of ranks.
    pub(in crate::store::value) fn range(&self, ranks: Range<usize>) -> BigElements<'_> {
        BigElements(self.tree.range(ranks))
    }

    /// Returns the ranks of the elements whose scores are in a range, which is not empty.
    pub(in crate::store::value) fn ranks_by_score(&self, range: &ScoreRange) -> Range<usize> {
        let (min, max) = (range.min, range.max);
        let start =
            if min.is_excluded { self.tree.rank_greater(min.score) } else { self.tree.rank_not_less(min.score) };
        let end = if max.is_excluded { self.tree.rank_not_less(max.score) } else { self.tree.rank_greater(max.score) };
        start..end.max(start)
    }

    /// Returns the ranks of the elements whose members are in a range; all scores should be equal.
    pub(in crate::store::value) fn ranks_by_member(&self, range: &LexRange<'_>) -> Range<usize> {
        let start = self.tree.partition_point(|_, member| !range.admits_above(member));
        let end = self.tree.partition_point(|_, member| range.admits_below(member));
        start..end.max(start)
    }

    /// Visits the members at a scan position; returns the position after it, or `None` at the end.
    pub(crate) fn scan(&self, position: u64, mut visit: impl FnMut(&[u8], f64)) -> Option<u64> {
        self.members.table.scan(position, |entry| visit(entry.key(), score_in(entry)))
    }

    /// Sets the score of a member to the result of `choose` for the present one; nothing changes if that is `None`.
    pub(in crate::store::value) fn put(&mut self, member: &[u8], choose: impl FnOnce(Option<f64>) -> Option<f64>) {
        let hash = self.members.table.hash(member);
        if let Some(entry) = self.members.table.find_mut(hash, member) {
            let old = score_in(entry);
            if let Some(score) = choose(Some(old)).map(number).filter(|score| *score != old) {
                if self.tree.update(old, member, score) {
                    set_score_in(entry, score);
                } else {
                    error!("{LOST}: the score of a member stays");
                }
            }
        } else if let Some(score) = choose(None).map(number) {
            let handle = self.members.insert(hash, member, score);
            self.tree.insert(score, handle);
        }
    }

    /// Removes a member; returns true if it existed.
    pub(in crate::store::value) fn remove(&mut self, member: &[u8]) -> bool {
        let Some(entry) = self.members.remove(member) else { return false };
        // If the tree panics, or does not find the entry, the entry to which it may still refer is leaked.
        let entry = ManuallyDrop::new(entry);
        match self.tree.remove(score_in(&entry), member) {
            Some(_) => drop(ManuallyDrop::into_inner(entry)),
            None => error!("{LOST}: the memory of a member is not freed"),
        }
        true
    }

    /// Removes the elements at a range of ranks, which exist.
    pub(in crate::store::value) fn remove_ranks(&mut self, ranks: Range<usize>) {
        let mut removed = Vec::with_capacity(ranks.len());
        self.tree.remove_range(ranks, |handle| removed.push(handle));
        removed.iter().for_each(|handle| drop(self.members.remove(handle.bytes())));
    }
}

impl ScoreTable {
    /// Creates an empty table.
    pub(crate) fn new(hasher: &Hasher) -> Self {
        ScoreTable { table: Elements::new(hasher.clone()), memory: 0 }
    }

    /// Adds a member with a score and returns its handle; an existing member gets the score, and `None` is returned.
    fn put(&mut self, member: &[u8], score: f64) -> Option<Handle> {
        let hash = self.table.hash(member);
        if let Some(entry) = self.table.find_mut(hash, member) {
            set_score_in(entry, score);
            return None;
        }
        Some(self.insert(hash, member, score))
    }

    /// Adds a member with a score; an existing member gets the result of `merge` for its own score and the given one.
    pub(crate) fn add(&mut self, member: &[u8], score: f64, merge: impl FnOnce(f64, f64) -> f64) {
        let hash = self.table.hash(member);
        match self.table.find_mut(hash, member) {
            Some(entry) => set_score_in(entry, number(merge(score_in(entry), score))),
            None => {
                self.insert(hash, member, number(score));
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

    /// Orders the members by their scores.
    pub(crate) fn finish(self) -> BigSortedSet {
        let elements = self.table.iter().map(|entry| (score_in(entry), Handle(entry.handle())));
        let mut elements: Vec<(f64, Handle)> = elements.collect();
        elements.sort_unstable_by(|one, other| order(*one, *other));
        BigSortedSet { members: self, tree: RankTree::from_ascending(elements) }
    }
}

impl fmt::Debug for BigSortedSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BigSortedSet").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements_of(set: &BigSortedSet) -> Vec<(String, f64)> {
        set.range(0..set.len()).map(|(member, score)| (String::from_utf8_lossy(member).into_owned(), score)).collect()
    }

    fn set_of(elements: &[(&'static str, f64)]) -> BigSortedSet {
        let elements =
            elements.iter().map(|(member, score)| (StoredElement::Text(member.as_bytes()), Score::Number(*score)));
        BigSortedSet::from_ascending(elements, &Hasher::new())
    }

    #[test]
    fn elements_in_any_order_and_equal_ones_and_such_that_are_no_number_make_a_set_all_the_same() {
        for (elements, expected) in [
            (&[("a", 1.0), ("b", 1.0), ("c", 2.0)][..], &[("a", 1.0), ("b", 1.0), ("c", 2.0)][..]),
            (&[("b", 1.0), ("a", 1.0)], &[("a", 1.0), ("b", 1.0)]),
            (&[("a", 1.0), ("b", 2.0), ("a", 3.0)], &[("b", 2.0), ("a", 3.0)]),
            (&[("a", 1.0), ("a", 1.0)], &[("a", 1.0)]),
            (&[("a", f64::NAN), ("b", -1.0), ("c", f64::NAN)], &[("b", -1.0), ("a", 0.0), ("c", 0.0)]),
        ] {
            let mut set = set_of(elements);
            let expected: Vec<(String, f64)> =
                expected.iter().map(|(name, score)| ((*name).to_owned(), *score)).collect();
            assert_eq!(elements_of(&set), expected);
            expected.iter().for_each(|(member, _)| assert!(set.remove(member.as_bytes())));
            assert_eq!((set.len(), set.members.table.count(), set.members.memory), (0, 0, 0));
        }
    }

    #[test]
    fn a_score_that_is_no_number_is_found_again() {
        let mut set = set_of(&[("a", 1.0), ("b", 2.0)]);
        set.put(b"b", |_| Some(f64::NAN));
        set.put(b"c", |_| Some(f64::NAN));
        assert_eq!(elements_of(&set), [("b".to_owned(), 0.0), ("c".to_owned(), 0.0), ("a".to_owned(), 1.0)]);
        assert!(set.remove(b"b") && set.remove(b"c") && set.remove(b"a"));
        let mut table = ScoreTable::new(&Hasher::new());
        table.add(b"a", f64::INFINITY, |_, _| 0.0);
        table.add(b"a", f64::NEG_INFINITY, |one, other| one + other);
        table.add(b"b", f64::NAN, |_, _| 0.0);
        assert_eq!(elements_of(&table.finish()), [("a".to_owned(), 0.0), ("b".to_owned(), 0.0)]);
    }

    #[test]
    fn a_member_that_the_order_does_not_find_is_not_freed_nor_given_another_score() {
        let mut set = set_of(&[("a", 1.0), ("b", 2.0)]);
        let hash = set.members.table.hash(b"a");
        set_score_in(set.members.table.find_mut(hash, b"a").expect("it is there"), 5.0); // as a bug might
        set.put(b"a", |_| Some(7.0));
        assert_eq!(set.score(b"a"), Some(5.0));
        assert!(set.remove(b"a"));
        // The tree still has the entry, and its memory can be read.
        assert_eq!(elements_of(&set), [("a".to_owned(), 1.0), ("b".to_owned(), 2.0)]);
        // The set stays reachable, so that a leak check does not report the entry.
        static KEPT: std::sync::Mutex<Option<BigSortedSet>> = std::sync::Mutex::new(None);
        *KEPT.lock().expect("no other test has it") = Some(set);
    }
}
