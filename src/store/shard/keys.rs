//! The keys of a shard, and the only functions that change them (the funnel).
//!
//! [`Keys`] alone owns the table. It lends the table for reading ([`Keys::table`]), and an entry to be changed only to
//! its own mutators and to the guard [`Edit`](super::Edit). Each of them updates the counters (memory, deadlines) and
//! ends in `Keys::changed`, the single choke point: it counts the change, raises the flags of the key's watchers, marks
//! the key as ready for clients blocked on it, and emits the event, which logs removals that no command has caused.
//! `FLUSHALL`, `FLUSHDB` and `SWAPDB`, which change all keys at once, go through the bulk twin (`keys/bulk.rs`),
//! [`Keys::clear`] and [`Keys::swap`], which end in `Keys::all_changed`; so do the keys that a replica has loaded beside
//! its own. Look-ups are in `keys/lookup.rs`.

mod bulk;
mod count;
mod lookup;

use std::sync::Arc;

use crate::store::change_records::Change;
use crate::store::changes::ChangeCx;
use crate::store::cx::{Cx, Removal};
use crate::store::entry::Entry;
use crate::store::event::{self, Event, EventSink};
use crate::store::expire::{DeadlineTree, NEVER, SweepTimer};
use crate::store::interest::Interests;
use crate::store::key::Key;
use crate::store::memory_account::MemoryAccount;
use crate::store::reclaim::Reclaimer;
use crate::store::relocation::Moved;
use crate::store::services::Services;
use crate::store::shard::field_deadlines::{FieldDeadlines, has_no_element, nearest_deadline};
use crate::store::table::{SlotPosition, Table};
use crate::store::usage::Dice;
use crate::store::value::{Str, Type};
use crate::store::walk::{Beside, Entries, TableWalk};
use crate::time::clock::{Deadline, Now};

/// The keys of a shard, with their counters and the interests in them.
///
/// The order of the fields is the order in which commands need them, because a pipeline of reads goes through all 64
/// shards: a GET touches the first cache line alone.
#[repr(C)]
pub(crate) struct Keys {
    memory_account: Arc<MemoryAccount>,
    table: Table<Entry>,
    pub(super) changes: u64,
    /// Bytes of entries.
    memory: usize,
    /// The value of `memory` at the last report.
    reported_memory: usize,
    pub(super) events: Arc<EventSink>,
    /// Number of changes that have begun and not ended. It stays too large if a panic has interrupted a change, see
    /// [`Keys::recover`].
    pub(super) unfinished: u16,
    /// Number of the shard in its database.
    index: u16,
    /// Number of the database, for events.
    db: u32,
    pub(super) interests: Interests,
    /// Keys with a deadline.
    pub(in crate::store) with_ttl: usize,
    pub(in crate::store) deadlines: DeadlineTree,
    /// Offset of the wall clock, in milliseconds, that `deadlines` was computed with.
    wall_offset_ms: i64,
    pub(super) sweep_timer: Arc<SweepTimer>,
    pub(super) reclaimer: Arc<Reclaimer>,
    pub(in crate::store) dice: Dice,
    /// All memory at the last report.
    reported: usize,
    pub(super) expired: u64,
    /// Deadlines of fields of hashes and of members of sets, once there was one.
    pub(in crate::store) fields: Option<Box<FieldDeadlines>>,
    /// Walk of a snapshot that has not visited all keys.
    pub(super) walk: Option<Box<TableWalk>>,
}

impl Keys {
    /// Creates an empty collection for a shard of a database; it allocates on first use.
    pub(super) fn new((db, index): (usize, usize), services: &Services) -> Self {
        let Services { hasher, sweep_timer, memory_account, events, reclaimer, tail_work } = services.clone();
        Keys {
            interests: Interests::new(memory_account.clone(), tail_work),
            memory_account,
            events,
            reclaimer,
            db: db as u32,
            index: index as u16,
            unfinished: 0,
            dice: Dice::new(hasher.hash_one("dice")),
            table: Table::new(hasher),
            deadlines: DeadlineTree::default(),
            wall_offset_ms: i64::MIN,
            sweep_timer,
            with_ttl: 0,
            memory: 0,
            reported_memory: 0,
            reported: 0,
            changes: 0,
            expired: 0,
            fields: None,
            walk: None,
        }
    }

    /// Returns the number of the shard in its database.
    pub(crate) fn index(&self) -> usize {
        self.index as usize
    }

    /// Returns the number of the shard's database.
    pub(crate) fn db(&self) -> usize {
        self.db as usize
    }

    /// Borrows the table for reading.
    pub(crate) fn table(&self) -> &Table<Entry> {
        &self.table
    }

    /// Prepares the change of a key: gives the unchanged key to the walk of a snapshot, and adds the change to the
    /// records of the call if changes are logged. Called wherever an entry is lent to be changed, added or removed.
    #[inline(always)]
    fn before_change(&mut self, key: Key<'_>, change: Change, cx: &mut ChangeCx<'_>) {
        if self.events.is_observed() {
            self.prepare_change(key, change, cx);
        }
    }

    #[cold]
    #[inline(never)] // see Keys::publish_change
    fn prepare_change(&mut self, key: Key<'_>, change: Change, cx: &mut ChangeCx<'_>) {
        self.before_remark(key);
        if self.events.is_logged() {
            cx.record((self.db(), key), change, self.events.record_pool());
        }
    }

    /// Prepares a change of a key's state besides its value.
    pub(super) fn before_remark(&mut self, key: Key<'_>) {
        if self.events.is_walked() {
            self.give_to_walk(key);
        }
    }

    /// Borrows the table for reading, with the parts that record a use of an entry.
    #[inline(always)] // see Keys::lookup
    pub(super) fn table_and_usage(&mut self) -> (&Table<Entry>, &MemoryAccount, &mut Dice) {
        (&self.table, &self.memory_account, &mut self.dice)
    }

    /// Borrows the entry of a key for a change.
    #[inline]
    pub(in crate::store) fn lend(&mut self, key: Key<'_>, cx: &mut ChangeCx<'_>) -> Option<&mut Entry> {
        self.before_change(key, Change::Value, cx);
        self.table.find_mut(key.hash, key.bytes)
    }

    /// Borrows the entry of a key at its located position for a change; the table must not have changed since.
    #[inline]
    pub(super) fn entry_mut(&mut self, key: Key<'_>, place: SlotPosition, cx: &mut ChangeCx<'_>) -> Option<&mut Entry> {
        self.before_change(key, Change::Value, cx);
        self.table.at_mut(place)
    }

    /// Borrows the entry of a key, in which the caller may change only the record, and the key's state besides the
    /// entry.
    pub(super) fn entry_and_beside(&mut self, key: Key<'_>) -> (Option<&mut Entry>, Beside<'_>) {
        let beside = Beside { fence: self.interests.fence(key), lock: self.interests.held_lock(key) };
        (self.table.find_mut(key.hash, key.bytes), beside)
    }

    /// Returns a key with its hash.
    pub(in crate::store) fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key { bytes, hash: self.table.hasher().hash_one(bytes) }
    }

    /// Returns the number of keys, including expired ones that are not deleted yet.
    pub(in crate::store) fn len(&self) -> usize {
        self.table.count()
    }

    /// Returns true if there are no keys.
    pub(in crate::store) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory of everything except the entries.
    pub(crate) fn overhead(&self) -> usize {
        self.table.memory() + self.deadlines.memory() + self.fields.as_ref().map_or(0, |fields| fields.memory())
    }

    /// The funnel: sets a key to a string, replacing any value.
    #[inline(always)] // the call would be a thirtieth of a SET
    pub(crate) fn set_text(
        &mut self,
        key: Key<'_>,
        value: Str<'_>,
        deadline: Option<Deadline>,
        event: &'static Event,
        cx: &mut ChangeCx<'_>,
    ) {
        if self.fields.is_some() {
            self.forget_overwritten(key);
        }
        let is_observed = self.events.is_observed(); // one load, for before and after the change
        if is_observed {
            self.prepare_change(key, Change::Value, cx);
        }
        let Keys { memory_account, dice, reclaimer, unfinished, .. } = self;
        match self.table.find_mut(key.hash, key.bytes) {
            Some(entry) => {
                *unfinished += 1;
                let (old_deadline, was_string) = (entry.deadline(), entry.is_of(Type::String));
                let growth = entry.set_text(value, deadline, |old| reclaimer.free(old));
                record_use(entry, memory_account, dice, cx.now);
                self.settle(key, (old_deadline, deadline), growth, cx);
                self.changes += 1;
                cx.changes_mut().add();
                if !self.interests.is_empty() || is_observed {
                    self.publish_text(key, event, (was_string, old_deadline), cx);
                }
                self.unfinished -= 1;
            }
            None => self.insert(key, Entry::text(key.bytes, value, deadline), event, cx),
        }
    }

    /// The funnel: sets or removes the deadline of an existing key.
    pub(crate) fn set_deadline(
        &mut self,
        key: Key<'_>,
        deadline: Option<Deadline>,
        event: &'static Event,
        cx: &mut ChangeCx<'_>,
    ) {
        self.before_change(key, Change::Deadline(deadline), cx);
        let Some(entry) = self.table.find_mut(key.hash, key.bytes) else { return };
        self.unfinished += 1;
        let (old_deadline, old_memory) = (entry.deadline(), entry.memory());
        entry.set_deadline(deadline);
        let growth = entry.memory() as isize - old_memory as isize;
        self.settle(key, (old_deadline, deadline), growth, cx);
        self.changed(key, event, 1, cx);
        self.unfinished -= 1;
    }

    /// Updates memory and deadlines after an entry has changed.
    #[inline(always)] // see Keys::set_text
    pub(super) fn settle(
        &mut self,
        key: Key<'_>,
        (old, new): (Option<Deadline>, Option<Deadline>),
        growth: isize,
        cx: &mut ChangeCx<'_>,
    ) {
        self.events.pass_half_way(key.hash);
        if growth != 0 {
            self.resized(growth);
        }
        if let Some(old) = old {
            self.with_ttl -= 1;
            if cx.has_expired(old) {
                self.record_revival(key, cx);
            }
        }
        if let Some(new) = new {
            self.record_deadline(key.hash, new, cx);
        }
    }

    /// The funnel: adds the entry of a missing key.
    pub(crate) fn insert(&mut self, key: Key<'_>, entry: Entry, event: &'static Event, cx: &mut ChangeCx<'_>) {
        self.unfinished += 1;
        self.attach(key, entry, cx);
        self.emit(key, event::NEW);
        self.changed(key, event, 1, cx);
        self.unfinished -= 1;
    }

    /// The funnel: sets the entry of a key, replacing an existing one; with `is_new` the key counts as new.
    pub(crate) fn replace(
        &mut self,
        key: Key<'_>,
        entry: Entry,
        is_new: bool,
        event: &'static Event,
        count: u64,
        cx: &mut ChangeCx<'_>,
    ) {
        self.unfinished += 1;
        self.displace(key, cx);
        let (of, nearest) = (entry.kind(), nearest_deadline(&entry));
        self.attach(key, entry, cx);
        self.record_fields(key, of, false, nearest, cx);
        if is_new {
            self.emit(key, event::NEW);
        }
        self.changed(key, event, count, cx);
        self.unfinished -= 1;
    }

    /// The funnel: removes a key and returns its entry.
    pub(crate) fn remove(&mut self, key: Key<'_>, event: &'static Event, cx: &mut ChangeCx<'_>) -> Option<Entry> {
        self.unfinished += 1;
        let entry = self.detach(key, cx);
        if entry.is_some() {
            self.changed(key, event, 1, cx);
        }
        self.unfinished -= 1;
        entry
    }

    /// Deletes a key and frees its entry; returns true if it existed.
    pub(crate) fn delete(&mut self, key: Key<'_>, event: &'static Event, cx: &mut ChangeCx<'_>) -> bool {
        let removed = self.remove(key, event, cx);
        removed.map(|entry| self.reclaimer.free(entry)).is_some()
    }

    /// The funnel: deletes a key and frees its entry, with one look-up; returns true if it existed. An expired key did
    /// not exist, and is deleted as expired.
    #[inline]
    pub(crate) fn delete_existing(&mut self, key: Key<'_>, event: &'static Event, cx: &mut ChangeCx<'_>) -> bool {
        let Some((place, entry)) = self.table.locate(key.hash, key.bytes) else { return false };
        if is_expired(entry, cx) {
            return self.delete_expired(key, cx).is_some();
        }
        self.unfinished += 1;
        self.before_change(key, Change::Removal, cx);
        self.events.pass_half_way(key.hash);
        let entry = self.detach_at(place);
        self.changed(key, event, 1, cx);
        self.unfinished -= 1;
        entry.map(|entry| self.reclaimer.free(entry)).is_some()
    }

    /// Counts a change that is not a change of a key.
    pub(in crate::store) fn count_change(&mut self) {
        self.changes += 1;
    }

    /// Handles every change of a key, of any cause. It counts as `count` changes in INFO.
    #[inline]
    pub(super) fn changed(&mut self, key: Key<'_>, event: &'static Event, count: u64, cx: &mut ChangeCx<'_>) {
        self.changes += count;
        cx.changes_mut().add();
        if !self.interests.is_empty() || self.events.is_observed() {
            self.publish_change(key, event, cx);
        }
    }

    /// Removes the entry of a key that is about to be created again. An expired key that cannot be deleted yet is
    /// missing for the call, so it must be missing in the replay of the log, too.
    pub(super) fn displace(&mut self, key: Key<'_>, cx: &mut ChangeCx<'_>) {
        let Some(displaced) = self.detach(key, cx) else { return };
        self.sidecars_forget_value(key);
        if is_expired(&displaced, cx) {
            self.log_removal(key);
            self.sidecars_on_removal(key, Removal::Expired, cx);
        }
        self.reclaimer.free(displaced);
    }

    /// Relocates entries, from a bucket on, until enough were moved; see
    /// [`Store::compact`](crate::store::Store::compact). Returns the bucket to continue with, or `None` after the last.
    /// Only the addresses of entries change.
    pub(crate) fn compact(&mut self, first: usize, moved: &mut Moved) -> Option<usize> {
        for bucket in first..self.table.buckets() {
            if moved.is_enough() {
                return Some(bucket);
            }
            self.unfinished += 1;
            let growth = moved.relocate(self.table.items_mut(bucket));
            self.resized(growth);
            self.unfinished -= 1;
        }
        None
    }

    /// Records a change of the entries' memory.
    #[inline]
    pub(super) fn resized(&mut self, growth: isize) {
        self.memory = self.memory.wrapping_add_signed(growth);
        if self.memory.abs_diff(self.reported_memory) > self.memory_account.step() {
            self.report();
        }
    }

    /// Reports the memory of this shard.
    #[inline(never)]
    pub(crate) fn report(&mut self) {
        let held = self.memory + self.overhead();
        self.memory_account.report(self.reported, held);
        (self.reported, self.reported_memory) = (held, self.memory);
    }

    /// Removes an entry from the table; every caller must end in `changed`.
    pub(super) fn detach(&mut self, key: Key<'_>, cx: &mut ChangeCx<'_>) -> Option<Entry> {
        self.before_change(key, Change::Removal, cx);
        self.events.pass_half_way(key.hash);
        let (place, _) = self.table.locate(key.hash, key.bytes)?;
        self.detach_at(place)
    }

    /// Removes the entry at a located position, as [`Keys::detach`] does after its preparations; the table must not
    /// have changed since.
    #[inline]
    fn detach_at(&mut self, place: SlotPosition) -> Option<Entry> {
        let (entry, merged) = self.table.remove_at(place)?;
        self.with_ttl -= usize::from(entry.deadline().is_some());
        self.resized(-(entry.memory() as isize));
        if self.fields.is_some() {
            self.forget_fields(&entry, merged);
        }
        if let Some((from, into)) = merged {
            self.inherit_bound(from, into);
            self.deadlines.set(from, NEVER);
        }
        Some(entry)
    }

    /// Reserves space for `keys` keys in an empty shard.
    pub(crate) fn reserve(&mut self, keys: usize) {
        self.table.reserve(keys);
        self.report();
    }

    /// Inserts the entry of a missing key into the table; every caller must end in `changed`.
    pub(super) fn attach(&mut self, key: Key<'_>, entry: Entry, cx: &mut ChangeCx<'_>) {
        self.before_change(key, Change::Value, cx);
        let (memory, deadline) = (entry.memory(), entry.deadline());
        if entry.usage() == 0 {
            entry.set_usage(self.memory_account.rule().fresh(cx.now));
        }
        let split = self.table.insert(key.hash, entry);
        self.events.pass_creation(key.hash);
        if let Some((from, to)) = split {
            self.inherit_bound(from, to);
            if let Some(fields) = &mut self.fields {
                fields.inherit_bound(from, to);
            }
        }
        if let Some(deadline) = deadline {
            self.record_deadline(key.hash, deadline, cx);
        }
        if self.events.is_walked() {
            self.follow_record(key);
        }
        // Last, because the report includes the table and the deadlines, which may have grown.
        self.resized(memory as isize);
    }

    /// Lowers the bound of bucket `to` to that of bucket `from`, after entries moved from one to the other.
    fn inherit_bound(&mut self, from: usize, to: usize) {
        if !self.deadlines.is_unused() && self.deadlines.bound(from) != NEVER {
            self.deadlines.lower(to, self.deadlines.bound(from));
        }
    }

    /// Counts a key's deadline and makes the sweeper wake up by then.
    #[inline]
    fn record_deadline(&mut self, hash: u64, deadline: Deadline, cx: &Cx) {
        self.with_ttl += 1;
        self.follow_wall_clock(cx.now);
        let at_ms = deadline.mono_ms(cx.now);
        if let Some(bucket) = self.table.bucket_of(hash) {
            self.deadlines.lower(bucket, at_ms);
            self.sweep_timer.lower(at_ms);
        }
    }

    /// Corrects the bounds of absolute deadlines, which would be too late, after the wall clock was set forward.
    pub(in crate::store) fn follow_wall_clock(&mut self, now: Now) {
        let offset_ms = now.wall_offset_ms();
        if offset_ms > self.wall_offset_ms && !self.deadlines.is_unused() {
            self.deadlines.shift_earlier(offset_ms.abs_diff(self.wall_offset_ms));
        }
        self.wall_offset_ms = offset_ms;
    }
}

impl Drop for Keys {
    /// Withdraws the report of a store beside another one: their memory is counted together, and the other one goes on.
    fn drop(&mut self) {
        self.memory_account.report(self.reported, 0);
    }
}

impl Entries for Keys {
    fn entry(&mut self, key: &[u8]) -> Option<&mut Entry> {
        self.table.find_mut(self.table.hash(key), key)
    }
}

/// Records a use of a key. If only the time counts, this is a comparison with the present tick: a key that is used all
/// the time is written to once per tick.
#[inline]
pub(super) fn record_use(entry: &Entry, memory_account: &MemoryAccount, dice: &mut Dice, now: Now) {
    if entry.usage() != memory_account.stamp() {
        entry.set_usage(memory_account.rule().used(entry.usage(), now, dice));
    }
}

/// Returns true if a key counts as missing because of time: its own deadline has passed, or the deadlines of all its
/// elements.
#[inline]
pub(super) fn is_expired(entry: &Entry, cx: &Cx) -> bool {
    is_due(entry, cx)
        || nearest_deadline(entry).is_some_and(|at_ms| at_ms <= cx.now.wall_ms() && has_no_element(entry, cx))
}

/// Returns true if the deadline of a key has passed.
#[inline]
pub(super) fn is_due(entry: &Entry, cx: &Cx) -> bool {
    entry.deadline().is_some_and(|deadline| cx.has_expired(deadline))
}
