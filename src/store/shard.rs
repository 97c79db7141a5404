//! One shard: a table, its expiry index and who watches its keys.
//!
//! Invariant: every change of a key goes through `Shard::changed`, the single choke point, which
//! tells watchers, counts and has the event told; waiters and the log will hang there too. Only [`Shard::clear`] and
//! [`Shard::swap`], which take all keys at once, tell the watchers by themselves instead of going through ten million
//! calls; they are no events, and those who track keys are told once by [`View::clear`](crate::store::View::clear).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::memory::heap::{allocation_len, hash_map_len, list_len, tree_map_len};
use crate::store::compact::Moved;
use crate::store::entry::Entry;
use crate::store::event::{Event, Herald};
use crate::store::expire::{DeadlineTree, NEVER, SweepTimer};
use crate::store::memory_account::{MemoryAccount, Share};
use crate::store::table::{Hasher, Table};
use crate::store::usage::Dice;
use crate::store::value::StringHint;
use crate::time::clock::{Deadline, Now};

/// How many bytes of bounds are kept, for the next deadlines, when no key has one any more.
const DEADLINES_KEEP_MAX: usize = 4096;

/// Tells a transaction that one of its watched keys has changed. Shared by a session and the shards it watches in.
#[derive(Clone, Default)]
pub struct WatchFlag(Arc<AtomicBool>);

impl WatchFlag {
    /// Returns whether a watched key has changed since the flag was made.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Borrows a key together with its hash, which is computed once per call.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The key's bytes.
    pub bytes: &'a [u8],
    /// What the store's hasher makes of them.
    pub hash: u64,
}

/// Holds part of a database's keys.
pub(crate) struct Shard {
    table: Table,
    deadlines: DeadlineTree,
    /// The wall clock's offset that `deadlines` was computed with, in milliseconds.
    wall_offset_ms: i64,
    watchers: HashMap<Box<[u8]>, Vec<WatchFlag>>,
    /// Bytes taken for the watched keys: here, and by the sessions that remember what they watch.
    watched_bytes: usize,
    watched_share: Share,
    sweep_timer: Arc<SweepTimer>,
    memory_account: Arc<MemoryAccount>,
    herald: Arc<Herald>,
    /// The number of the database, for events.
    db: usize,
    hasher: Hasher,
    dice: Dice,
    /// Keys with a deadline.
    with_ttl: usize,
    /// Bytes of entries.
    memory: usize,
    /// What `memory` was when it was last reported.
    reported_memory: usize,
    /// What was reported then: everything.
    reported: usize,
    changes: u64,
    expired: u64,
    /// Those of `expired` that the sweeper found.
    swept: u64,
    evicted: u64,
}

/// Sums up a shard, or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Keys, swept or not.
    pub keys: usize,
    /// Keys that have a time to live.
    pub with_ttl: usize,
    /// Bytes taken by entries and buckets.
    pub memory: usize,
    /// Changes since the store was made.
    pub changes: u64,
    /// Keys that ended by their deadline since the store was made.
    pub expired: u64,
    /// Those of them that the sweeper found before anybody looked.
    pub swept: u64,
    /// Keys removed for want of memory since the store was made.
    pub evicted: u64,
    /// Keys that somebody watches, there or not.
    pub watched: usize,
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
        self.watched += other.watched;
    }
}

impl Shard {
    /// Creates an empty shard of a database, which allocates nothing until it is used.
    pub(crate) fn new(
        db: usize,
        hasher: Hasher,
        sweep_timer: Arc<SweepTimer>,
        memory_account: Arc<MemoryAccount>,
        herald: Arc<Herald>,
    ) -> Self {
        Shard {
            watched_bytes: 0,
            watched_share: Share::new(memory_account.clone()),
            memory_account,
            herald,
            db,
            dice: Dice::new(hasher.hash_one("dice")),
            table: Table::new(hasher.clone()),
            deadlines: DeadlineTree::default(),
            wall_offset_ms: i64::MIN,
            watchers: HashMap::new(),
            sweep_timer,
            hasher,
            with_ttl: 0,
            memory: 0,
            reported_memory: 0,
            reported: 0,
            changes: 0,
            expired: 0,
            swept: 0,
            evicted: 0,
        }
    }

    /// Lends the table for prefetching.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// Sums up this shard.
    pub(crate) fn totals(&self) -> Totals {
        Totals {
            keys: self.table.count(),
            with_ttl: self.with_ttl,
            memory: self.memory + self.overhead(),
            changes: self.changes,
            expired: self.expired,
            swept: self.swept,
            evicted: self.evicted,
            watched: self.watchers.len(),
        }
    }

    /// Returns the bytes of everything but the entries.
    pub(crate) fn overhead(&self) -> usize {
        self.table.memory() + self.deadlines.memory()
    }

    /// Returns the entry of a key that is alive now; one that has ended is removed on the way.
    #[inline(always)] // see View::entry
    pub(crate) fn get(&mut self, key: Key<'_>, now: Now) -> Option<&Entry> {
        let (place, entry) = self.table.locate(key.hash, key.bytes)?;
        if is_expired(entry, now) {
            return self.delete_expired(key, now);
        }
        self.table.at(place)
    }

    /// Returns the entry of a key like [`Shard::get`], and notes that it was used, unless `is_silent`. That there is none is
    /// told if `tells_misses`.
    #[inline(always)] // see View::entry
    pub(crate) fn read(&mut self, key: Key<'_>, now: Now, (is_silent, tells_misses): (bool, bool)) -> Option<&Entry> {
        let Some((place, entry)) = self.table.locate(key.hash, key.bytes) else {
            if tells_misses {
                self.tell(key, Event::Missed);
            }
            return None;
        };
        if is_expired(entry, now) {
            self.delete_expired(key, now);
            if tells_misses {
                self.tell(key, Event::Missed);
            }
            return None;
        }
        if !is_silent {
            note_use(entry, &self.memory_account, &mut self.dice, now);
        }
        self.table.at(place)
    }

    /// Returns how a key was used, where uses are counted and so outlive its value.
    #[cold]
    pub(crate) fn counted_usage(&mut self, key: Key<'_>, now: Now) -> Option<u32> {
        let counts = self.memory_account.rule().counts();
        self.get(key, now).filter(|_| counts).map(Entry::usage)
    }

    /// Removes a key that has ended, unless all such are to stay for now; either way there is no entry to see.
    #[cold]
    fn delete_expired(&mut self, key: Key<'_>, now: Now) -> Option<&Entry> {
        if self.sweep_timer.frozen_until_ms(now.mono_ms()).is_none() {
            self.expire(key);
        }
        None
    }

    /// Returns the entry of a key, even one whose time is over and that was not removed yet.
    pub(crate) fn leftover(&self, key: Key<'_>) -> Option<&Entry> {
        self.table.find(key.hash, key.bytes)
    }

    /// Notes of a key that exists how it was used.
    pub(crate) fn set_usage(&mut self, key: Key<'_>, usage: u32) {
        if let Some(entry) = self.table.find(key.hash, key.bytes) {
            entry.set_usage(usage);
        }
    }

    /// Sets a key to a string, whatever it held before.
    #[inline(always)] // the call would be a thirtieth of a SET
    pub(crate) fn set_text(&mut self, key: Key<'_>, value: &[u8], deadline: Option<Deadline>, event: Event, now: Now) {
        match self.table.find_mut(key.hash, key.bytes) {
            Some(entry) => {
                let old_deadline = entry.deadline();
                let growth = entry.set_text(value, deadline);
                note_use(entry, &self.memory_account, &mut self.dice, now);
                if growth != 0 {
                    self.resized(growth);
                }
                if let Some(old_deadline) = old_deadline {
                    self.with_ttl -= 1;
                    if old_deadline.is_due(now) {
                        self.note_revival(key);
                    }
                }
                self.note_deadline(key.hash, deadline, now);
            }
            None => {
                self.insert(key.hash, Entry::text(key.bytes, value, deadline), now);
                self.tell(key, Event::New);
            }
        }
        self.changed(key.bytes, event);
    }

    /// Takes note that a key that had ended is set again before it was removed.
    #[cold]
    fn note_revival(&mut self, key: Key<'_>) {
        self.expired += 1;
        self.tell(key, Event::Expired);
        self.tell(key, Event::New);
    }

    /// Writes into the string of a key that exists; see [`Entry::write_range`].
    pub(crate) fn write_range(&mut self, key: Key<'_>, offset: usize, patch: &[u8], event: Event) {
        if let Some(entry) = self.table.find_mut(key.hash, key.bytes) {
            let old = entry.memory();
            entry.write_range(offset, patch);
            let growth = entry.memory() as isize - old as isize;
            self.resized(growth);
            self.changed(key.bytes, event);
        }
    }

    /// Sets or removes the deadline of a key that exists.
    pub(crate) fn set_deadline(&mut self, key: Key<'_>, deadline: Option<Deadline>, now: Now) {
        if let Some(entry) = self.table.find_mut(key.hash, key.bytes) {
            let (was_timed, old) = (entry.deadline().is_some(), entry.memory());
            entry.set_deadline(deadline);
            let growth = entry.memory() as isize - old as isize;
            self.resized(growth);
            self.with_ttl -= usize::from(was_timed);
            self.note_deadline(key.hash, deadline, now);
            self.changed(key.bytes, if deadline.is_some() { Event::Expire } else { Event::Persist });
        }
    }

    /// Removes a key and returns its entry.
    pub(crate) fn remove(&mut self, key: Key<'_>, event: Event) -> Option<Entry> {
        let entry = self.detach(key)?;
        self.changed(key.bytes, event);
        Some(entry)
    }

    /// Adds the entry of a key, in the place of the one that the key may have; whoever knows better than to take that for a
    /// new key says so.
    pub(crate) fn put(&mut self, key: Key<'_>, entry: Entry, is_new: bool, event: Event, now: Now) {
        self.detach(key);
        self.insert(key.hash, entry, now);
        if is_new {
            self.tell(key, Event::New);
        }
        self.changed(key.bytes, event);
    }

    /// Has an event told that goes beyond a change.
    #[inline]
    pub(crate) fn tell(&self, key: Key<'_>, event: Event) {
        self.herald.tell(self.db, key.bytes, event);
    }

    /// Raises `flag` when the key changes from now on.
    pub(crate) fn watch(&mut self, key: Key<'_>, flag: &WatchFlag, now: Now) {
        self.get(key, now);
        let flags = self.watchers.entry(key.bytes.into()).or_default();
        if flags.is_empty() {
            self.watched_bytes += allocation_len(key.bytes.len()) + list_len::<WatchFlag>(4);
        }
        flags.push(flag.clone());
        self.watched_bytes += watch_len(key.bytes);
        self.count_watched();
    }

    fn count_watched(&mut self) {
        let map = hash_map_len::<Box<[u8]>, Vec<WatchFlag>>(self.watchers.capacity());
        self.watched_share.set(if self.watchers.is_empty() { 0 } else { self.watched_bytes + map });
    }

    /// Forgets what [`Shard::watch`] was told.
    pub(crate) fn unwatch(&mut self, key: &[u8], flag: &WatchFlag) {
        if let Some(flags) = self.watchers.get_mut(key) {
            let before = flags.len();
            flags.retain(|other| !Arc::ptr_eq(&other.0, &flag.0));
            self.watched_bytes -= (before - flags.len()) * watch_len(key);
            if flags.is_empty() {
                self.watchers.remove(key);
                self.watched_bytes -= allocation_len(key.len()) + list_len::<WatchFlag>(4);
            }
            if self.watchers.is_empty() {
                self.watchers = HashMap::new();
            }
            self.count_watched();
        }
    }

    /// Removes every key and returns the old table, whose memory the caller frees where it holds nobody up.
    pub(crate) fn clear(&mut self) -> Table {
        let hasher = self.hasher.clone();
        let old = std::mem::replace(&mut self.table, Table::new(hasher));
        for (key, flags) in &self.watchers {
            if old.find(self.hasher.hash_one(&key[..]), key).is_some() {
                flags.iter().for_each(WatchFlag::raise);
            }
        }
        self.deadlines = DeadlineTree::default();
        self.changes += old.count() as u64;
        (self.with_ttl, self.memory) = (0, 0);
        self.report();
        old
    }

    /// Exchanges all keys with those of another shard. Watchers stay with their databases, and learn of it where either
    /// shard has the key. One that has ended and comes from the other shard is no change to them: for them there was
    /// none before and is none now.
    pub(crate) fn swap(&mut self, other: &mut Shard, now: Now) {
        for (old, new) in [(&*self, &*other), (&*other, &*self)] {
            for (key, flags) in &old.watchers {
                let hash = self.hasher.hash_one(&key[..]);
                let appears = || new.table.find(hash, key).is_some_and(|entry| !is_expired(entry, now));
                if old.table.find(hash, key).is_some() || appears() {
                    flags.iter().for_each(WatchFlag::raise);
                }
            }
        }
        std::mem::swap(&mut self.table, &mut other.table);
        std::mem::swap(&mut self.deadlines, &mut other.deadlines);
        std::mem::swap(&mut self.wall_offset_ms, &mut other.wall_offset_ms);
        std::mem::swap(&mut self.with_ttl, &mut other.with_ttl);
        std::mem::swap(&mut self.memory, &mut other.memory);
        std::mem::swap(&mut self.reported_memory, &mut other.reported_memory);
        std::mem::swap(&mut self.reported, &mut other.reported);
        self.bury_watched(now);
        other.bury_watched(now);
    }

    /// Removes the watched keys that have ended, of which the watchers are not to learn.
    fn bury_watched(&mut self, now: Now) {
        let watchers = std::mem::take(&mut self.watchers);
        for key in watchers.keys() {
            let hash = self.hasher.hash_one(&key[..]);
            self.get(Key { bytes: key, hash }, now);
        }
        self.watchers = watchers;
    }

    /// Notes how the string of a key came to be. That is no change: the value stays as it is.
    pub(crate) fn set_form(&mut self, key: Key<'_>, form: StringHint) {
        if let Some(entry) = self.table.find_mut(key.hash, key.bytes) {
            entry.set_form(form);
        }
    }

    /// Visits the living keys at a scan position; see [`Table::scan`].
    pub(crate) fn scan(&self, position: u64, now: Now, mut visit: impl FnMut(&Entry)) -> Option<u64> {
        self.table.scan(position, |entry| {
            if !is_expired(entry, now) {
                visit(entry);
            }
        })
    }

    /// Removes up to `most` keys that have ended. Returns when the next one may be due; in the past when more are due now.
    pub(crate) fn sweep(&mut self, now: Now, most: usize) -> u64 {
        self.follow_wall_clock(now);
        let mut removed = 0;
        while let Some(bucket) = self.deadlines.due(now.mono_ms()) {
            if removed >= most {
                break;
            }
            let mut ended = Vec::new();
            let mut bound = NEVER;
            self.table.for_each_in(bucket, |entry| match entry.deadline() {
                Some(deadline) if deadline.is_due(now) => ended.push(entry.key().to_vec()),
                Some(deadline) => bound = bound.min(deadline.mono_ms(now)),
                None => {}
            });
            self.deadlines.set(bucket, bound);
            removed += ended.len().max(1);
            self.swept += ended.len() as u64;
            for bytes in &ended {
                self.expire(Key { bytes, hash: self.hasher.hash_one(&bytes[..]) });
            }
        }
        if self.with_ttl == 0 && removed > 0 && self.deadlines.memory() > DEADLINES_KEEP_MAX {
            self.deadlines = DeadlineTree::default();
        }
        self.deadlines.earliest()
    }

    /// Calls `visit` for the keys, those with a time to live if `volatile`, of whole buckets from a random one on, until
    /// there were `most` or all. Returns how many there were.
    pub(crate) fn sample(&mut self, most: usize, volatile: bool, mut visit: impl FnMut(&Entry)) -> usize {
        let (buckets, keys) = (self.table.buckets(), if volatile { self.with_ttl } else { self.table.count() });
        let most = most.min(keys);
        let (mut found, mut bucket) = (0, if keys == 0 { 0 } else { self.dice.below(buckets) });
        while found < most {
            // The buckets that may hold a deadline are known, so that few such keys among many are found, too.
            if volatile {
                bucket = self.deadlines.bounded_from(bucket).or(self.deadlines.bounded_from(0)).unwrap_or(0);
            }
            self.table.for_each_in(bucket, |entry| {
                if !volatile || entry.deadline().is_some() {
                    found += 1;
                    visit(entry);
                }
            });
            bucket = (bucket + 1) % buckets;
        }
        found
    }

    /// Returns a bound of the earliest deadline, or [`NEVER`].
    pub(crate) fn earliest(&mut self, now: Now) -> u64 {
        self.follow_wall_clock(now);
        if self.with_ttl == 0 { NEVER } else { self.deadlines.earliest() }
    }

    /// Returns the key with the earliest deadline if that is at the bound [`Shard::earliest`]; otherwise corrects a bound.
    pub(crate) fn nearest_ttl(&mut self, now: Now) -> Option<Box<[u8]>> {
        let bound = self.deadlines.earliest();
        let bucket = self.deadlines.due(bound)?;
        let mut first: Option<(u64, Box<[u8]>)> = None;
        self.table.for_each_in(bucket, |entry| {
            if let Some(end_ms) = entry.deadline().map(|deadline| deadline.mono_ms(now))
                && first.as_ref().is_none_or(|(first_ms, _)| end_ms < *first_ms)
            {
                first = Some((end_ms, entry.key().into()));
            }
        });
        let found_ms = first.as_ref().map_or(NEVER, |(end_ms, _)| *end_ms);
        self.deadlines.set(bucket, found_ms);
        first.filter(|_| found_ms <= bound).map(|(_, key)| key)
    }

    /// Removes a key for want of memory, unless it was used since its usage was this; returns whether it was there.
    pub(crate) fn evict(&mut self, key: Key<'_>, usage: Option<u32>) -> bool {
        let found = self.table.find(key.hash, key.bytes);
        if found.is_none_or(|entry| usage.is_some_and(|usage| usage != entry.usage())) {
            return false;
        }
        self.detach(key);
        self.evicted += 1;
        self.changed(key.bytes, Event::Evicted);
        self.report();
        true
    }

    /// Moves entries from a bucket on until that is enough; see [`Store::compact`](crate::store::Store::compact). Returns the bucket
    /// to go on with, unless that was the last.
    pub(crate) fn compact(&mut self, first: usize, moved: &mut Moved) -> Option<usize> {
        for bucket in first..self.table.buckets() {
            if moved.is_enough() {
                return Some(bucket);
            }
            let growth = self.table.move_entries(bucket, moved);
            self.resized(growth);
        }
        None
    }

    /// Takes note of every change of a key, whatever made it.
    #[inline]
    fn changed(&mut self, key: &[u8], event: Event) {
        self.changes += 1;
        if !self.watchers.is_empty() || self.herald.is_asked() {
            self.tell_change(key, event);
        }
    }

    /// Tells a change to those who watch the key, and to the herald.
    #[cold]
    #[inline(never)] // keeps what every change takes short
    fn tell_change(&self, key: &[u8], event: Event) {
        if let Some(flags) = self.watchers.get(key) {
            flags.iter().for_each(WatchFlag::raise);
        }
        self.herald.tell_change(self.db, key, event);
    }

    /// Takes note that the entries take more bytes than before, or less.
    #[inline]
    fn resized(&mut self, growth: isize) {
        self.memory = self.memory.wrapping_add_signed(growth);
        if self.memory.abs_diff(self.reported_memory) > self.memory_account.step() {
            self.report();
        }
    }

    /// Tells how much memory this shard takes.
    #[inline(never)]
    pub(crate) fn report(&mut self) {
        let held = self.memory + self.overhead();
        self.memory_account.report(self.reported, held);
        (self.reported, self.reported_memory) = (held, self.memory);
    }

    /// Removes a key whose time has come; an expired key is invisible, swept or not.
    #[cold]
    fn expire(&mut self, key: Key<'_>) {
        self.detach(key);
        self.expired += 1;
        self.changed(key.bytes, Event::Expired);
    }

    /// Takes an entry out without telling anybody; every caller ends in `changed`.
    fn detach(&mut self, key: Key<'_>) -> Option<Entry> {
        let (entry, merged) = self.table.remove(key.hash, key.bytes)?;
        self.with_ttl -= usize::from(entry.deadline().is_some());
        self.resized(-(entry.memory() as isize));
        if let Some((from, into)) = merged {
            self.inherit_bound(from, into);
            self.deadlines.set(from, NEVER);
        }
        Some(entry)
    }

    fn insert(&mut self, hash: u64, entry: Entry, now: Now) {
        self.resized(entry.memory() as isize);
        if entry.usage() == 0 {
            entry.set_usage(self.memory_account.rule().fresh(now));
        }
        let deadline = entry.deadline();
        if let Some((from, to)) = self.table.insert(hash, entry) {
            self.inherit_bound(from, to);
        }
        self.note_deadline(hash, deadline, now);
    }

    /// After entries moved between buckets, the receiving one is bounded by what the giving one was.
    fn inherit_bound(&mut self, from: usize, to: usize) {
        if !self.deadlines.is_unused() && self.deadlines.bound(from) != NEVER {
            self.deadlines.lower(to, self.deadlines.bound(from));
        }
    }

    /// Counts a key's deadline and sees to it that somebody looks when it comes.
    #[inline]
    fn note_deadline(&mut self, hash: u64, deadline: Option<Deadline>, now: Now) {
        let Some(deadline) = deadline else { return };
        self.with_ttl += 1;
        self.follow_wall_clock(now);
        let at_ms = deadline.mono_ms(now);
        if let Some(bucket) = self.table.bucket_of(hash) {
            self.deadlines.lower(bucket, at_ms);
            self.sweep_timer.lower(at_ms);
        }
    }

    /// Keeps the bounds of absolute deadlines from being too late after the wall clock was set forward.
    fn follow_wall_clock(&mut self, now: Now) {
        let offset_ms = now.wall_offset_ms();
        if offset_ms > self.wall_offset_ms && !self.deadlines.is_unused() {
            self.deadlines.shift_earlier(offset_ms.abs_diff(self.wall_offset_ms));
        }
        self.wall_offset_ms = offset_ms;
    }
}

/// Takes note that a key is used now. Where only the time counts, that is a comparison with the present tick: a key that
/// is used all the time is written to once in a tick.
#[inline]
fn note_use(entry: &Entry, memory_account: &MemoryAccount, dice: &mut Dice, now: Now) {
    if entry.usage() != memory_account.stamp() {
        entry.set_usage(memory_account.rule().used(entry.usage(), now, dice));
    }
}

/// Returns what a session takes to remember that it watches a key.
fn watch_len(key: &[u8]) -> usize {
    const MANY: usize = 1000;
    allocation_len(key.len()) + tree_map_len::<(usize, Box<[u8]>), ()>(MANY) / MANY
}

#[inline]
fn is_expired(entry: &Entry, now: Now) -> bool {
    entry.deadline().is_some_and(|deadline| deadline.is_due(now))
}
