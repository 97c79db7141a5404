//! Large sets some of whose members have deadlines: the same table, in which a member with a deadline is an entry with
//! one, and the bounds of the deadlines in its buckets. So a set takes this form, or leaves it, without a copy of its
//! members.

use std::fmt;

use crate::store::value::big::deadlines::ElementDeadlines;
use crate::store::value::big::form::LargeForm;
use crate::store::value::big::set::BigSet;
use crate::store::value::big::walk::{Record, RecordPart, WalkedElement};
use crate::store::value::listpack::StoredElement;
use crate::store::value::member::{MemberName, OwnedMember};
use crate::time::clock::Deadline;

/// A set above the limits of packed sets, some of whose members have deadlines.
pub(crate) struct TimedSet {
    set: BigSet,
    deadlines: ElementDeadlines,
}

impl LargeForm for TimedSet {
    fn memory(&self) -> usize {
        self.set.memory() + self.deadlines.memory()
    }

    fn effort(&self) -> usize {
        self.set.effort()
    }

    fn copy(&self) -> Self {
        let mut copy = TimedSet::new(BigSet::new(self.set.members.hasher().clone()));
        self.for_each(|member, deadline| {
            copy.add(member);
            if deadline.is_some() {
                copy.set_deadline(member, deadline);
            }
        });
        copy
    }

    fn set_record(&mut self, record: Option<Record>) {
        self.set.members.set_record(record, |member| WalkedElement::TimedMember(member.item(), deadline_of(member)));
    }

    fn record(&self) -> Option<&Record> {
        self.set.record()
    }

    fn visit_elements(&mut self, is_time_up: &dyn Fn() -> bool) -> Option<RecordPart> {
        self.set.visit_elements(is_time_up)
    }
}

impl TimedSet {
    /// Creates the set from one whose members have no deadlines.
    pub(in crate::store::value) fn new(set: BigSet) -> Self {
        TimedSet { set, deadlines: ElementDeadlines::default() }
    }

    /// Returns the set, whose members have no deadlines any more.
    pub(in crate::store::value) fn into_plain(self) -> BigSet {
        self.set
    }

    /// Returns true if no member has a deadline.
    pub(in crate::store::value) fn is_plain(&self) -> bool {
        self.deadlines.is_empty()
    }

    /// Borrows the members, whatever their deadlines.
    #[inline]
    pub(crate) fn set(&self) -> &BigSet {
        &self.set
    }

    /// Returns a lower bound of the deadlines; `None` if there are none.
    pub(in crate::store::value) fn nearest_deadline(&self) -> Option<i64> {
        self.deadlines.nearest()
    }

    /// Returns the deadline of a member in milliseconds since 1970: `Some(None)` for a member without one, `None` for a
    /// missing member.
    pub(in crate::store::value) fn deadline(&self, member: StoredElement<'_>) -> Option<Option<i64>> {
        let mut buffer = itoa::Buffer::new();
        let name = MemberName::of_item(member, &mut buffer);
        self.set.members.find(self.set.members.hash(name), name).map(deadline_of)
    }

    /// Returns the members with their deadlines, in no particular order.
    pub(in crate::store::value) fn iter(&self) -> impl Iterator<Item = (StoredElement<'_>, Option<i64>)> {
        self.set.iter().map(|member| (member.item(), deadline_of(member)))
    }

    fn for_each(&self, mut visit: impl FnMut(StoredElement<'_>, Option<i64>)) {
        self.iter().for_each(|(member, deadline)| visit(member, deadline));
    }

    /// Visits the members at a position with their deadlines; returns the next position, if any.
    pub(in crate::store::value) fn scan(
        &self,
        position: u64,
        mut visit: impl FnMut(StoredElement<'_>, Option<i64>),
    ) -> Option<u64> {
        self.set.members.scan(position, |member| visit(member.item(), deadline_of(member)))
    }

    /// Adds a member; one that exists keeps its deadline. Returns true if it is new.
    pub(in crate::store::value) fn add(&mut self, member: StoredElement<'_>) -> bool {
        let mut buffer = itoa::Buffer::new();
        let name = MemberName::of_item(member, &mut buffer);
        let hash = self.set.members.hash(name);
        let is_new = self.set.members.find(hash, name).is_none();
        if is_new && let Some((from, to)) = self.set.insert(hash, OwnedMember::new(name)) {
            self.deadlines.split(from, to);
        }
        is_new
    }

    /// Removes a member. Returns true if it was in the set.
    pub(in crate::store::value) fn remove(&mut self, member: StoredElement<'_>) -> bool {
        let Some((removed, merged)) = self.set.take(member) else { return false };
        if let Some((from, into)) = merged {
            self.deadlines.merge(from, into);
        }
        self.deadlines.record(None, removed.deadline().is_some(), None);
        true
    }

    /// Sets or removes the deadline of an existing member.
    pub(in crate::store::value) fn set_deadline(&mut self, member: StoredElement<'_>, deadline: Option<i64>) {
        let mut buffer = itoa::Buffer::new();
        let name = MemberName::of_item(member, &mut buffer);
        let hash = self.set.members.hash(name);
        let Some(found) = self.set.members.find_mut(hash, name) else { return };
        let (had_one, before) = (found.deadline().is_some(), found.memory());
        found.set_deadline(deadline.map(Deadline::at_wall_ms));
        self.set.texts = self.set.texts + found.memory() - before;
        self.deadlines.record(self.set.members.bucket_of(hash), had_one, deadline);
    }

    /// Removes up to `max_count` members whose deadlines have passed, or a few more from one bucket, and appends them
    /// to `expired`.
    pub(in crate::store::value) fn remove_expired(
        &mut self,
        now_ms: i64,
        max_count: usize,
        expired: &mut Vec<Box<[u8]>>,
    ) {
        let mut first = expired.len();
        while expired.len() < max_count {
            let take = |member: &OwnedMember| expired.push(member.item().to_cow().into());
            if !self.deadlines.take_due(&self.set.members, now_ms, deadline_of, take) {
                return;
            }
            for member in &expired[std::mem::replace(&mut first, expired.len())..] {
                self.remove(StoredElement::of(member));
            }
        }
    }
}

/// Returns the deadline of a member, in milliseconds since 1970.
fn deadline_of(member: &OwnedMember) -> Option<i64> {
    member.deadline().map(Deadline::absolute_ms)
}

impl fmt::Debug for TimedSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TimedSet").field("len", &self.set.len()).finish_non_exhaustive()
    }
}
