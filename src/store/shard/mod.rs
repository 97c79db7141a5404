//! One shard: a table of keys, and the only functions that change them (the funnel).
//!
//! A key changes only in [`Shard::edit`], [`Shard::insert`], [`Shard::replace`] and [`Shard::remove`], in
//! [`Shard::set_text`], which is the first two in one look-up, and by the guard [`Edit`], which is `edit` for handlers.
//! Each of them updates the shard's counters (memory, deadlines) and ends in `Shard::changed`, the single choke point:
//! it counts the change, raises the flags of the key's watchers, marks the key as ready for clients blocked on it, and
//! emits the event, which logs what no command has removed. `FLUSHALL`, `FLUSHDB` and `SWAPDB`, which change all keys
//! at once, go through the bulk twin, [`Shard::clear`] and [`Shard::swap`], which end in `Shard::all_changed`.
//!
//! The compiler ensures this: the table is private to this module, which only lends it out for reading
//! ([`Shard::table`]). Sweeping, eviction (`sweep.rs`) and the views (`view.rs`) are other modules.

mod edit;
mod fences;
mod fields;
mod image;
mod locks;
mod recover;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use crate::store::Services;
use crate::store::compact::Moved;
use crate::store::cx::{Cx, Lookup};
use crate::store::entry::Entry;
use crate::store::event::{self, Event, EventSink};
use crate::store::expire::{DeadlineTree, NEVER, SweepTimer};
use crate::store::interest::Interests;
use crate::store::lock::Loss;
use crate::store::memory_account::MemoryAccount;
use crate::store::reclaim::{Contents, Reclaimer};
use crate::store::table::Table;
use crate::store::usage::Dice;
use crate::store::value::{StringHint, Type};
use crate::time::clock::{Deadline, Now};

pub(crate) use edit::Edit;
use fields::FieldDeadlines;
pub(crate) use locks::LockVisitor;

/// A borrowed key with its hash, which is computed once per call.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The key's bytes.
    pub bytes: &'a [u8],
    /// Their hash by the store's hasher.
    pub hash: u64,
}

/// Holds part of the keys of a database.
///
/// The order of the fields is that in which commands need them, because a pipeline of reads goes through all 64 shards:
/// a GET touches the first cache line alone, and a shard is to take no power of two, so that not all first lines fall
/// into the same few sets of the processor's cache.
#[repr(C)]
pub(crate) struct Shard {
    memory_account: Arc<MemoryAccount>,
    table: Table,
    changes: u64,
    /// Bytes of entries.
    memory: usize,
    /// The value of `memory` at the last report.
    reported_memory: usize,
    events: Arc<EventSink>,
    /// How many changes have begun and not ended: more than are under way when a panic has interrupted some, see
    /// [`Shard::recover`].
    unfinished: u16,
    /// The number of the shard in its database.
    index: u16,
    /// The number of the database, for events.
    db: u32,
    interests: Interests,
    /// Keys with a deadline.
    pub(super) with_ttl: usize,
    pub(super) deadlines: DeadlineTree,
    /// The offset of the wall clock that `deadlines` was computed with, in milliseconds.
    wall_offset_ms: i64,
    sweep_timer: Arc<SweepTimer>,
    reclaimer: Arc<Reclaimer>,
    pub(super) dice: Dice,
    /// All memory at the last report.
    reported: usize,
    pub(super) expired: u64,
    /// Of `expired`, those that the sweeper deleted.
    pub(super) swept: u64,
    pub(super) evicted: u64,
    /// The deadlines of fields of hashes, once there was one.
    fields: Option<Box<FieldDeadlines>>,
}

// With the lock in front and padded to 128 bytes, 64 of them are 24 KB and not 32.
const _: () = assert!(size_of::<Shard>() <= 376);

/// Totals of one or more shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Keys, including expired ones that are not deleted yet.
    pub keys: usize,
    /// Keys with a TTL.
    pub with_ttl: usize,
    /// Bytes taken by entries and buckets.
    pub memory: usize,
    /// Changes since the store was created.
    pub changes: u64,
    /// Keys that have expired since the store was created.
    pub expired: u64,
    /// Of these, the keys that the sweeper deleted before they were looked up.
    pub swept: u64,
    /// Keys evicted since the store was created.
    pub evicted: u64,
    /// Fields of hashes that have expired since the store was created.
    pub expired_fields: u64,
    /// Of these, the fields that the sweeper removed before a call could find them.
    pub swept_fields: u64,
    /// Hashes one of whose fields has a TTL.
    pub with_field_ttl: usize,
    /// Watched keys, existing or not.
    pub watched: usize,
    /// Keys with blocked clients, existing or not.
    pub blocking: usize,
    /// Locks that are held through `LOCK.*`.
    pub locks: usize,
    /// Clients in line for locks.
    pub in_line: usize,
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.keys += other.keys;
        self.with_ttl += other.with_ttl;
        self.memory += other.memory;
        self.changes += other.changes;
        self.expired += other.expired;
        self.swept += other.swept;
        self.evicted += other.evicted;
        self.expired_fields += other.expired_fields;
        self.swept_fields += other.swept_fields;
        self.with_field_ttl += other.with_field_ttl;
        self.watched += other.watched;
        self.blocking += other.blocking;
        self.locks += other.locks;
        self.in_line += other.in_line;
    }
}

impl Shard {
    /// Creates an empty shard of a database, which allocates on first use.
    pub(crate) fn new((db, index): (usize, usize), services: &Services) -> Self {
        let Services { hasher, sweep_timer, memory_account, events, reclaimer, tail_work } = services.clone();
        Shard {
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
            swept: 0,
            evicted: 0,
            fields: None,
        }
    }

    /// Returns the number of the shard in its database.
    pub(crate) fn index(&self) -> usize {
        self.index as usize
    }

    /// Returns the number of its database.
    pub(crate) fn db(&self) -> usize {
        self.db as usize
    }

    /// Borrows the table for reading.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// Returns a key with its hash.
    pub(super) fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key { bytes, hash: self.table.hasher().hash_one(bytes) }
    }

    /// Returns the totals of this shard.
    pub(crate) fn totals(&self) -> Totals {
        Totals {
            keys: self.table.count(),
            with_ttl: self.with_ttl,
            memory: self.memory + self.overhead(),
            changes: self.changes,
            expired: self.expired,
            swept: self.swept,
            evicted: self.evicted,
            expired_fields: self.fields.as_ref().map_or(0, |fields| fields.expired),
            swept_fields: self.fields.as_ref().map_or(0, |fields| fields.swept),
            with_field_ttl: self.fields.as_ref().map_or(0, |fields| fields.hashes),
            watched: self.interests.counts().watched as usize,
            blocking: self.interests.counts().blocking as usize,
            locks: self.interests.counts().locks as usize,
            in_line: self.interests.counts().in_line as usize,
        }
    }

    /// Returns the memory of everything except the entries.
    pub(crate) fn overhead(&self) -> usize {
        self.table.memory() + self.deadlines.memory() + self.fields.as_ref().map_or(0, |fields| fields.memory())
    }

    /// Returns how many keys and fields the sweeper has removed.
    pub(crate) fn swept_count(&self) -> u64 {
        self.swept + self.fields.as_ref().map_or(0, |fields| fields.swept)
    }

    /// Returns the entry of a key that has not expired; an expired one is deleted.
    #[inline(always)] // see View::lookup
    pub(crate) fn peek(&mut self, key: Key<'_>, cx: &Cx) -> Option<&Entry> {
        let (place, entry) = self.table.locate(key.hash, key.bytes)?;
        if is_expired(entry, cx) {
            return self.delete_expired(key, cx);
        }
        self.table.at(place)
    }

    /// Returns the entry of a key like [`Shard::peek`], with the other effects of a look-up except counting it.
    #[inline(always)] // see View::lookup
    pub(crate) fn lookup(&mut self, key: Key<'_>, how: Lookup, cx: &Cx) -> Option<&Entry> {
        let Some((place, entry)) = self.table.locate(key.hash, key.bytes) else {
            if how.reports_miss(cx.lookup) {
                self.emit(key, event::MISSED);
            }
            return None;
        };
        if is_expired(entry, cx) {
            self.delete_expired(key, cx);
            if how.reports_miss(cx.lookup) {
                self.emit(key, event::MISSED);
            }
            return None;
        }
        if how.is_use(cx.lookup) {
            note_use(entry, &self.memory_account, &mut self.dice, cx.now);
        }
        self.table.at(place)
    }

    /// Returns the usage of a key with an LFU policy, where it outlives the value.
    #[cold]
    pub(crate) fn counted_usage(&mut self, key: Key<'_>, cx: &Cx) -> Option<u32> {
        let counts = self.memory_account.rule().counts();
        self.peek(key, cx).filter(|_| counts).map(Entry::usage)
    }

    /// Deletes an expired key, unless that is disabled for now; in either case there is no entry.
    #[cold]
    fn delete_expired(&mut self, key: Key<'_>, cx: &Cx) -> Option<&Entry> {
        if self.sweep_timer.frozen_until_ms(cx.now.mono_ms()).is_none() {
            self.expire(key, cx);
        }
        None
    }

    /// Returns the entry of a key, even one that has expired and is not deleted yet.
    pub(crate) fn leftover(&self, key: Key<'_>) -> Option<&Entry> {
        self.table.find(key.hash, key.bytes)
    }

    /// Returns the entry of a key that has not expired; the look-up has no effects.
    pub(crate) fn unexpired(&self, key: Key<'_>, cx: &Cx) -> Option<&Entry> {
        self.leftover(key).filter(|entry| !is_expired(entry, cx))
    }

    /// Sets the usage of an existing key.
    pub(crate) fn set_usage(&mut self, key: Key<'_>, usage: u32) {
        if let Some(entry) = self.table.find(key.hash, key.bytes) {
            entry.set_usage(usage);
        }
    }

    /// Sets how the string of a key was stored. This is not a change, because the value stays the same.
    pub(crate) fn set_hint(&mut self, key: Key<'_>, hint: StringHint) {
        if let Some(entry) = self.table.find_mut(key.hash, key.bytes) {
            entry.set_hint(hint);
        }
    }

    /// Visits the keys at a scan position, each with whether it has expired; see [`Table::scan`]. Deletes the expired
    /// ones for which `visit` returns true.
    pub(crate) fn scan(&mut self, position: u64, cx: &Cx, mut visit: impl FnMut(&Entry, bool) -> bool) -> Option<u64> {
        let mut expired = Vec::new();
        let next = self.table.scan(position, |entry| {
            let is_expired = is_expired(entry, cx);
            if visit(entry, is_expired) && is_expired {
                expired.push(entry.key().to_vec());
            }
        });
        for bytes in &expired {
            self.peek(self.key(bytes), cx);
        }
        next
    }

    /// The funnel: sets a key to a string, whatever it held before.
    #[inline(always)] // the call would be a thirtieth of a SET
    pub(crate) fn set_text(
        &mut self,
        key: Key<'_>,
        value: &[u8],
        deadline: Option<Deadline>,
        event: &'static Event,
        cx: &Cx,
    ) {
        if self.fields.is_some() {
            self.forget_overwritten(key);
        }
        let Shard { memory_account, dice, reclaimer, unfinished, .. } = self;
        match self.table.find_mut(key.hash, key.bytes) {
            Some(entry) => {
                *unfinished += 1;
                let (old_deadline, was_string) = (entry.deadline(), entry.is_of(Type::String));
                let growth = entry.set_text(value, deadline, |old| reclaimer.free(old));
                note_use(entry, memory_account, dice, cx.now);
                self.settle(key, (old_deadline, deadline), growth, cx);
                self.changes += 1;
                if !self.interests.is_empty() || self.events.is_observed() {
                    self.publish_text(key, event, (was_string, old_deadline), cx);
                }
                self.unfinished -= 1;
            }
            None => self.insert(key, Entry::text(key.bytes, value, deadline), event, cx),
        }
    }

    /// Sets or removes the deadline of an existing key.
    pub(crate) fn set_deadline(&mut self, key: Key<'_>, deadline: Option<Deadline>, event: &'static Event, cx: &Cx) {
        self.edit(key, event, cx, |entry| entry.set_deadline(deadline));
    }

    /// The funnel: changes the entry of an existing key.
    fn edit(&mut self, key: Key<'_>, event: &'static Event, cx: &Cx, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.table.find_mut(key.hash, key.bytes) else { return };
        self.unfinished += 1;
        let (old_deadline, old_memory) = (entry.deadline(), entry.memory());
        change(entry);
        let (deadline, growth) = (entry.deadline(), entry.memory() as isize - old_memory as isize);
        self.settle(key, (old_deadline, deadline), growth, cx);
        self.changed(key, event, cx);
        self.unfinished -= 1;
    }

    /// Updates memory and deadlines after an entry has changed.
    #[inline(always)] // see Shard::set_text
    fn settle(&mut self, key: Key<'_>, (old, new): (Option<Deadline>, Option<Deadline>), growth: isize, cx: &Cx) {
        self.events.pass_half_way(key.hash);
        if growth != 0 {
            self.resized(growth);
        }
        if let Some(old) = old {
            self.with_ttl -= 1;
            if cx.has_expired(old) {
                self.note_revival(key, cx);
            }
        }
        if let Some(new) = new {
            self.note_deadline(key.hash, new, cx);
        }
    }

    /// The funnel: adds the entry of a missing key.
    pub(crate) fn insert(&mut self, key: Key<'_>, entry: Entry, event: &'static Event, cx: &Cx) {
        self.unfinished += 1;
        self.attach(key, entry, cx);
        self.emit(key, event::NEW);
        self.changed(key, event, cx);
        self.unfinished -= 1;
    }

    /// The funnel: sets the entry of a key, replacing an existing one; `is_new` tells whether that counts as a new key.
    pub(crate) fn replace(&mut self, key: Key<'_>, entry: Entry, is_new: bool, event: &'static Event, cx: &Cx) {
        self.unfinished += 1;
        self.displace(key, cx);
        let nearest = fields::nearest_deadline(&entry);
        self.attach(key, entry, cx);
        self.note_fields(key, false, nearest, cx);
        if is_new {
            self.emit(key, event::NEW);
        }
        self.changed(key, event, cx);
        self.unfinished -= 1;
    }

    /// The funnel: removes a key and returns its entry.
    pub(crate) fn remove(&mut self, key: Key<'_>, event: &'static Event, cx: &Cx) -> Option<Entry> {
        self.unfinished += 1;
        let entry = self.detach(key);
        if entry.is_some() {
            self.changed(key, event, cx);
        }
        self.unfinished -= 1;
        entry
    }

    /// Deletes a key and frees its entry; returns whether it existed.
    pub(crate) fn delete(&mut self, key: Key<'_>, event: &'static Event, cx: &Cx) -> bool {
        let removed = self.remove(key, event, cx);
        removed.map(|entry| self.reclaimer.free(entry)).is_some()
    }

    /// The bulk version of the funnel: removes every key and returns what there was.
    pub(crate) fn clear(&mut self, cx: &Cx) -> Contents {
        self.unfinished += 1;
        let empty = Table::new(self.table.hasher().clone());
        let old = Contents {
            table: std::mem::replace(&mut self.table, empty),
            memory: std::mem::take(&mut self.memory),
            deadlines: std::mem::take(&mut self.deadlines),
            field_deadlines: self.fields.as_mut().map(|fields| fields.take_bounds()),
            fences: self.interests.take_fences(),
        };
        self.changes += old.keys() as u64;
        self.with_ttl = 0;
        self.report();
        self.all_changed(&old.table, Loss::Flushed, cx);
        self.unfinished -= 1;
        old
    }

    /// The bulk version of the funnel: swaps all keys with those of another shard. Watchers stay with their databases.
    pub(crate) fn swap(&mut self, other: &mut Shard, cx: &Cx) {
        self.unfinished += 1;
        other.unfinished += 1;
        std::mem::swap(&mut self.table, &mut other.table);
        std::mem::swap(&mut self.deadlines, &mut other.deadlines);
        std::mem::swap(&mut self.fields, &mut other.fields);
        std::mem::swap(&mut self.wall_offset_ms, &mut other.wall_offset_ms);
        std::mem::swap(&mut self.with_ttl, &mut other.with_ttl);
        std::mem::swap(&mut self.memory, &mut other.memory);
        std::mem::swap(&mut self.reported_memory, &mut other.reported_memory);
        std::mem::swap(&mut self.reported, &mut other.reported);
        self.interests.swap_fences(&mut other.interests);
        self.all_changed(&other.table, Loss::Swapped, cx);
        other.all_changed(&self.table, Loss::Swapped, cx);
        self.delete_expired_watched(cx);
        other.delete_expired_watched(cx);
        self.unfinished -= 1;
        other.unfinished -= 1;
    }

    /// Counts more changes than those that passed the funnel, as where one call adds several elements.
    pub(crate) fn count_more(&mut self, changes: usize) {
        self.changes += changes as u64;
    }

    /// Handles every change of a key, whatever its cause.
    #[inline]
    fn changed(&mut self, key: Key<'_>, event: &'static Event, cx: &Cx) {
        self.changes += 1;
        if !self.interests.is_empty() || self.events.is_observed() {
            self.publish_change(key, event, cx);
        }
    }

    #[cold]
    #[inline(never)] // keeps the path of every change short
    fn publish_change(&mut self, key: Key<'_>, event: &'static Event, cx: &Cx) {
        self.notify_interested(key);
        self.events.emit_change(self.db(), key.bytes, event, cx);
        if self.interests.has_locks() {
            self.follow_lock(key, event.loss(), cx);
        }
        if self.interests.has_fences() {
            let is_there = self.leftover(key).is_some();
            self.interests.follow_fence(key, is_there, cx.now.mono_ms());
        }
    }

    /// Publishes that an existing key was set to a string.
    #[cold]
    #[inline(never)] // see Shard::publish_change
    fn publish_text(
        &mut self,
        key: Key<'_>,
        event: &'static Event,
        (was_string, old_deadline): (bool, Option<Deadline>),
        cx: &Cx,
    ) {
        let had_expired = old_deadline.is_some_and(|deadline| cx.has_expired(deadline));
        if event.replaces() && !had_expired {
            self.emit_overwritten(key, was_string);
        }
        if event.replaces() || had_expired {
            self.interests.forget_fence(key);
        }
        self.publish_change(key, event, cx);
    }

    /// Emits that a value was replaced, by one of the same type or of another.
    pub(crate) fn emit_overwritten(&self, key: Key<'_>, is_same_type: bool) {
        self.emit(key, if is_same_type { event::OVERWRITTEN } else { event::RETYPED });
    }

    /// Returns the type of a key if there is an observer of events that may be told of it.
    pub(crate) fn observed_type(&self, key: Key<'_>, cx: &Cx) -> Option<Type> {
        if !self.events.is_observed() {
            return None;
        }
        self.unexpired(key, cx).map(Entry::kind)
    }

    /// Handles the change of all keys: those of `old`, and those that are here now. An expired key from elsewhere is no
    /// change for its watchers: for them it was missing before and is missing now.
    fn all_changed(&mut self, old: &Table, loss: Loss, cx: &Cx) {
        let Shard { table, interests, .. } = &*self;
        let has_changed = |key: &Key<'_>| {
            let appears = || table.find(key.hash, key.bytes).is_some_and(|entry| !is_expired(entry, cx));
            old.find(key.hash, key.bytes).is_some() || appears()
        };
        let changed = interests.keys().filter(has_changed).map(|key| (key.hash, Box::from(key.bytes)));
        let changed: Vec<(u64, Box<[u8]>)> = changed.collect();
        for (hash, bytes) in &changed {
            let key = Key { bytes, hash: *hash };
            self.notify_interested(key);
            self.lose_lock(key, loss, cx);
            self.follow_lock(key, loss, cx);
        }
    }

    /// Deletes watched keys that have expired elsewhere, without raising the flags of their watchers.
    fn delete_expired_watched(&mut self, cx: &Cx) {
        let expired = |key: &Key<'_>| self.leftover(*key).is_some_and(|entry| is_expired(entry, cx));
        let keys: Vec<(u64, Box<[u8]>)> =
            self.interests.keys().filter(expired).map(|key| (key.hash, key.bytes.into())).collect();
        if keys.is_empty() {
            return;
        }
        let interests = self.interests.take_all();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for (hash, bytes) in &keys {
                self.peek(Key { bytes, hash: *hash }, cx);
            }
        }));
        self.interests.put_back(interests);
        outcome.unwrap_or_else(|panic| resume_unwind(panic));
    }

    /// Removes the leftover of a key that is created again. A key that has expired and cannot be deleted yet is missing
    /// for the call, so it must be missing in the replay of the log, too.
    fn displace(&mut self, key: Key<'_>, cx: &Cx) {
        let Some(displaced) = self.detach(key) else { return };
        self.interests.forget_fence(key);
        if is_expired(&displaced, cx) {
            self.log_removal(key);
            self.lose_lock(key, Loss::Expired, cx);
        }
        self.reclaimer.free(displaced);
    }

    /// Logs the deletion of a key by something that is not logged itself.
    pub(crate) fn log_removal(&self, key: Key<'_>) {
        self.events.log_removal(self.db(), key.bytes);
    }

    /// Handles that an expired key is set again before it was deleted.
    #[cold]
    fn note_revival(&mut self, key: Key<'_>, cx: &Cx) {
        self.expired += 1;
        self.lose_lock(key, Loss::Expired, cx);
        self.log_removal(key);
        self.emit(key, event::EXPIRED);
        self.emit(key, event::NEW);
    }

    /// Emits an event that is not a change itself, or that summarises several.
    #[inline]
    pub(crate) fn emit(&self, key: Key<'_>, event: &'static Event) {
        self.events.emit(self.db(), key.bytes, event);
    }

    /// Moves entries from a bucket on until enough were moved; see [`Store::compact`](crate::store::Store::compact).
    /// Returns the bucket to continue with, unless that was the last. Only the addresses of entries change.
    pub(crate) fn compact(&mut self, first: usize, moved: &mut Moved) -> Option<usize> {
        for bucket in first..self.table.buckets() {
            if moved.is_enough() {
                return Some(bucket);
            }
            self.unfinished += 1;
            let growth = self.table.move_entries(bucket, moved);
            self.resized(growth);
            self.unfinished -= 1;
        }
        None
    }

    /// Records that the entries' memory has grown or shrunk.
    #[inline]
    fn resized(&mut self, growth: isize) {
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

    /// Removes an entry from the table; every caller ends in `changed`.
    fn detach(&mut self, key: Key<'_>) -> Option<Entry> {
        self.events.pass_half_way(key.hash);
        let (entry, merged) = self.table.remove(key.hash, key.bytes)?;
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

    /// Inserts an entry of a missing key into the table; every caller ends in `changed`.
    fn attach(&mut self, key: Key<'_>, entry: Entry, cx: &Cx) {
        let (memory, deadline) = (entry.memory(), entry.deadline());
        if entry.usage() == 0 {
            entry.set_usage(self.memory_account.rule().fresh(cx.now));
        }
        let split = self.table.insert(key.hash, entry);
        self.events.pass_creation(key.hash);
        if let Some((from, to)) = split {
            self.inherit_bound(from, to);
            self.fields.iter_mut().for_each(|fields| fields.inherit_bound(from, to));
        }
        if let Some(deadline) = deadline {
            self.note_deadline(key.hash, deadline, cx);
        }
        // Last, because the report includes the table and the deadlines, which may have grown.
        self.resized(memory as isize);
    }

    /// After entries moved between buckets, the receiving bucket gets the bound of the giving one.
    fn inherit_bound(&mut self, from: usize, to: usize) {
        if !self.deadlines.is_unused() && self.deadlines.bound(from) != NEVER {
            self.deadlines.lower(to, self.deadlines.bound(from));
        }
    }

    /// Counts a key's deadline and makes the sweeper wake up by then.
    #[inline]
    fn note_deadline(&mut self, hash: u64, deadline: Deadline, cx: &Cx) {
        self.with_ttl += 1;
        self.follow_wall_clock(cx.now);
        let at_ms = deadline.mono_ms(cx.now);
        if let Some(bucket) = self.table.bucket_of(hash) {
            self.deadlines.lower(bucket, at_ms);
            self.sweep_timer.lower(at_ms);
        }
    }

    /// Keeps the bounds of absolute deadlines from being too late after the wall clock was set forward.
    pub(super) fn follow_wall_clock(&mut self, now: Now) {
        let offset_ms = now.wall_offset_ms();
        if offset_ms > self.wall_offset_ms && !self.deadlines.is_unused() {
            self.deadlines.shift_earlier(offset_ms.abs_diff(self.wall_offset_ms));
        }
        self.wall_offset_ms = offset_ms;
    }
}

/// Records a use of a key. Where only the time counts, this is a comparison with the present tick: a key that is used
/// all the time is written to once per tick.
#[inline]
fn note_use(entry: &Entry, memory_account: &MemoryAccount, dice: &mut Dice, now: Now) {
    if entry.usage() != memory_account.stamp() {
        entry.set_usage(memory_account.rule().used(entry.usage(), now, dice));
    }
}

#[inline]
fn is_expired(entry: &Entry, cx: &Cx) -> bool {
    entry.deadline().is_some_and(|deadline| cx.has_expired(deadline))
}
