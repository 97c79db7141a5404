//! Large sets: a table of members.

mod timed;

use std::fmt;

use crate::store::table::Hasher;
use crate::store::usage::Dice;
use crate::store::value::big::elements::Elements;
use crate::store::value::big::form::LargeForm;
use crate::store::value::big::walk::{Record, RecordPart, WalkedElement};
use crate::store::value::listpack::StoredElement;
use crate::store::value::member::{MemberName, OwnedMember};

pub(crate) use timed::TimedSet;

/// A set above the limits of packed sets.
pub(crate) struct BigSet {
    members: Elements<OwnedMember>,
    /// Bytes allocated for members that are not integers.
    texts: usize,
}

impl LargeForm for BigSet {
    fn memory(&self) -> usize {
        self.members.memory() + self.texts
    }

    fn effort(&self) -> usize {
        1 + self.len()
    }

    fn copy(&self) -> Self {
        let mut copy = BigSet::new(self.members.hasher().clone());
        self.iter().for_each(|member| copy.add_new(member.item()));
        copy
    }

    fn set_record(&mut self, record: Option<Record>) {
        self.members.set_record(record, |member| WalkedElement::Member(member.item()));
    }

    fn record(&self) -> Option<&Record> {
        self.members.record()
    }

    fn visit_elements(&mut self, is_time_up: &dyn Fn() -> bool) -> Option<RecordPart> {
        self.members.visit(is_time_up)
    }
}

impl BigSet {
    pub(crate) fn new(hasher: Hasher) -> Self {
        BigSet { members: Elements::new(hasher), texts: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.members.count()
    }

    /// Prefetches the bucket of a member; returns the member's hash.
    #[inline]
    pub(crate) fn prefetch_bucket(&self, member: &[u8]) -> u64 {
        let mut buffer = itoa::Buffer::new();
        let hash = self.members.hash(MemberName::of_item(StoredElement::of(member), &mut buffer));
        self.members.prefetch_bucket(hash);
        hash
    }

    /// Prefetches the member with this hash.
    #[inline]
    pub(crate) fn prefetch_member(&self, hash: u64) {
        self.members.prefetch_entry(hash);
    }

    /// Returns true if a member is in the set.
    #[inline]
    pub(in crate::store::value) fn contains(&self, member: StoredElement<'_>) -> bool {
        let mut buffer = itoa::Buffer::new();
        let name = MemberName::of_item(member, &mut buffer);
        self.members.find(self.members.hash(name), name).is_some()
    }

    /// Adds a member. Returns true if it is new.
    #[inline]
    pub(in crate::store::value) fn add(&mut self, member: StoredElement<'_>) -> bool {
        let mut buffer = itoa::Buffer::new();
        let name = MemberName::of_item(member, &mut buffer);
        let hash = self.members.hash(name);
        let is_new = self.members.find(hash, name).is_none();
        if is_new {
            self.insert(hash, OwnedMember::new(name));
        }
        is_new
    }

    /// Adds a member that is known to be missing.
    pub(in crate::store::value) fn add_new(&mut self, member: StoredElement<'_>) {
        let mut buffer = itoa::Buffer::new();
        let name = MemberName::of_item(member, &mut buffer);
        self.insert(self.members.hash(name), OwnedMember::new(name));
    }

    /// Adds a missing member; returns the buckets, old and new, if one was split, as [`Table::insert`] does.
    ///
    /// [`Table::insert`]: crate::store::table::Table::insert
    fn insert(&mut self, hash: u64, member: OwnedMember) -> Option<(usize, usize)> {
        self.texts += member.memory();
        self.members.insert(hash, member)
    }

    /// Removes a member. Returns true if it was in the set.
    pub(in crate::store::value) fn remove(&mut self, member: StoredElement<'_>) -> bool {
        self.take(member).is_some()
    }

    /// Removes a random member.
    pub(in crate::store::value) fn pop(&mut self, dice: &mut Dice) -> Option<OwnedMember> {
        // The name borrows from the table, which the removal changes, so it is read from a copy.
        let chosen = self.members.random(dice)?.copy();
        self.take(chosen.item()).map(|(member, _)| member)
    }

    /// Removes a member; returns it, and the buckets that were merged, as [`Table::remove`] does.
    ///
    /// [`Table::remove`]: crate::store::table::Table::remove
    fn take(&mut self, member: StoredElement<'_>) -> Option<(OwnedMember, Option<(usize, usize)>)> {
        let mut buffer = itoa::Buffer::new();
        let name = MemberName::of_item(member, &mut buffer);
        let (member, merged) = self.members.remove(self.members.hash(name), name)?;
        self.texts -= member.memory();
        Some((member, merged))
    }

    /// Returns an iterator over the members, in no particular order.
    pub(in crate::store::value) fn iter(&self) -> impl Iterator<Item = &OwnedMember> {
        self.members.iter()
    }

    /// Returns a random member.
    pub(in crate::store::value) fn random(&self, dice: &mut Dice) -> Option<&OwnedMember> {
        self.members.random(dice)
    }

    /// Returns `count` different random members, or all if there are fewer.
    pub(in crate::store::value) fn sample(&self, count: usize, dice: &mut Dice) -> Vec<&OwnedMember> {
        self.members.sample(count, dice)
    }

    /// Visits the members at a position; returns the next position, if any. See
    /// [`Table::scan`](crate::store::table::Table::scan).
    pub(crate) fn scan(&self, position: u64, mut visit: impl FnMut(StoredElement<'_>)) -> Option<u64> {
        self.members.scan(position, |member| visit(member.item()))
    }
}

impl fmt::Debug for BigSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BigSet").field("len", &self.len()).finish_non_exhaustive()
    }
}
