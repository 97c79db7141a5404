//! The locked shards of one call: the only way to read or change a key.
//!
//! A view is one guard (most calls), a few sorted guards (several keys), the gate alone (calls over a
//! whole database, which lock shard after shard) or the whole store (EXEC). Handlers do not see which.

use bytes::Bytes;
use parking_lot::MutexGuard;
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::store::entry::Entry;
use crate::store::event::Event;
use crate::store::shard::{Key, Shard, Totals, WatchFlag};
use crate::store::table::SCAN_POSITIONS;
use crate::store::value::{SHARED_MIN, Str, StringHint, Type, Value};
use crate::store::{Databases, SHARDS, free_aside};
use crate::time::clock::{Deadline, Now};

/// Grants access to the keys of one database for one call.
pub struct View<'a> {
    access: Access<'a>,
    now: Now,
    /// Whether a look-up does not count as a use of the key.
    is_silent: bool,
    lookups: Lookups,
}

/// Counts the keys that were to be read: those that were there in the lower half, those that were not in the upper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups(u64);

impl Lookups {
    #[inline]
    fn count(&mut self, is_hit: bool) {
        self.0 += if is_hit { 1 } else { 1 << 32 };
    }

    /// Returns how many keys were there.
    pub fn hits(self) -> u32 {
        self.0 as u32
    }

    /// Returns how many keys were not there.
    pub fn misses(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl std::ops::Add for Lookups {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        Lookups(self.0.wrapping_add(other.0))
    }
}

enum Access<'a> {
    One(MutexGuard<'a, Shard>),
    Few(SmallVec<[(usize, MutexGuard<'a, Shard>); 8]>),
    Gate(&'a Databases, usize),
    Whole(&'a mut Databases, usize),
    Closed,
}

/// Says what a write does to the time to live of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// The key keeps the deadline it has.
    Keep,
    /// The key lives until it is removed.
    Clear,
    /// The key gets this deadline.
    At(Deadline),
}

impl<'a> View<'a> {
    #[inline]
    pub(super) fn locked(databases: &'a Databases, db: usize, hashes: &[u64], now: Now) -> Self {
        let access = match hashes {
            [] => Access::Gate(databases, db),
            [hash] => Access::One(databases.0[db].shards()[shard_of(*hash)].lock()),
            _ => {
                let shards = databases.0[db].shards();
                let mut indexes: SmallVec<[usize; 16]> = hashes.iter().map(|hash| shard_of(*hash)).collect();
                indexes.sort_unstable();
                indexes.dedup();
                Access::Few(indexes.into_iter().map(|index| (index, shards[index].lock())).collect())
            }
        };
        View { access, now, is_silent: false, lookups: Lookups::default() }
    }

    pub(super) fn whole(databases: &'a mut Databases, db: usize, now: Now) -> Self {
        View { access: Access::Whole(databases, db), now, is_silent: false, lookups: Lookups::default() }
    }

    /// Creates a view of nothing, for calls that a client may make while a script holds the gate for long.
    #[cold]
    pub(super) fn closed(now: Now) -> Self {
        View { access: Access::Closed, now, is_silent: false, lookups: Lookups::default() }
    }

    /// Makes look-ups not count as uses of keys.
    pub fn set_silent(&mut self) {
        self.is_silent = true;
    }

    /// Returns whether nothing can be seen through it.
    pub fn is_closed(&self) -> bool {
        matches!(self.access, Access::Closed)
    }

    /// Reborrows a view of the whole store, aimed at database `db`; for calls that are declared EXCLUSIVE.
    pub fn whole_again(&mut self, db: usize) -> View<'_> {
        match &mut self.access {
            Access::Whole(databases, _) => View::whole(databases, db, self.now),
            _ => unreachable!("{NOT_EXCLUSIVE}"),
        }
    }

    /// Returns the time of this call.
    pub fn now(&self) -> Now {
        self.now
    }

    /// Sets the time of this call.
    pub fn set_now(&mut self, now: Now) {
        self.now = now;
    }

    /// Returns how many keys that were to be read were there, and how many were not.
    #[inline]
    pub fn lookups(&self) -> Lookups {
        self.lookups
    }

    /// Counts the look-up of a key that is to be read: a hit or a miss in INFO. A miss is an event. What is looked up to be
    /// changed is not counted. Returns what it was given.
    #[inline]
    pub fn count(&mut self, key: Key<'_>, is_hit: bool) -> bool {
        self.count_untold(is_hit);
        if !is_hit {
            self.tell(key, Event::Missed);
        }
        is_hit
    }

    /// Counts the look-up of a key that is looked at from outside, for which a miss is no event.
    #[inline]
    pub fn count_untold(&mut self, is_hit: bool) {
        self.lookups.count(is_hit);
    }

    /// Returns the string of a key that is to be read, and counts the look-up.
    ///
    /// # Errors
    /// [`Error::WrongType`] when the key holds something else.
    #[inline]
    pub fn read(&mut self, key: Key<'_>) -> Result<Option<Str<'_>>> {
        let View { access, now, is_silent, lookups, .. } = self;
        let entry = access.used_entry(key, *now, *is_silent, true);
        lookups.count(entry.is_some());
        text_of(entry)
    }

    /// Returns whether a key exists.
    pub fn exists(&mut self, key: Key<'_>) -> bool {
        self.entry(key).is_some()
    }

    /// Returns the data type of a key.
    pub fn kind(&mut self, key: Key<'_>) -> Option<Type> {
        self.entry(key).map(Entry::kind)
    }

    /// Returns the string of a key.
    ///
    /// # Errors
    /// [`Error::WrongType`] when the key holds something else.
    pub fn string(&mut self, key: Key<'_>) -> Result<Option<Str<'_>>> {
        text_of(self.used_entry(key))
    }

    /// Returns the string of a key without taking that for a use of it.
    ///
    /// # Errors
    /// As of [`View::string`].
    pub fn peek(&mut self, key: Key<'_>) -> Result<Option<Str<'_>>> {
        text_of(self.entry(key))
    }

    /// Returns the string of a key, how that came to be and how the key was used, even of one whose time is over and that
    /// was not removed yet.
    ///
    /// # Errors
    /// As of [`View::string`].
    pub fn leftover(&mut self, key: Key<'_>) -> Result<Option<(StringHint, Vec<u8>, u32)>> {
        self.shard_mut(key, |shard| {
            let entry = shard.leftover(key);
            let text = text_of(entry)?.map(|text| text.as_slice().to_vec());
            Ok(entry.zip(text).map(|(entry, text)| (entry.form(), text, entry.usage())))
        })
    }

    /// Uses a key; returns whether it exists.
    pub fn use_key(&mut self, key: Key<'_>) -> bool {
        self.used_entry(key).is_some()
    }

    /// Notes that a key is used, whoever asks for it; returns whether it exists.
    pub fn touch(&mut self, key: Key<'_>) -> bool {
        self.access.used_entry(key, self.now, false, false).is_some()
    }

    /// Returns how a key was used; see [`crate::store::usage`].
    pub fn usage(&mut self, key: Key<'_>) -> Option<u32> {
        self.entry(key).map(Entry::usage)
    }

    /// Notes how a key was used.
    pub fn set_usage(&mut self, key: Key<'_>, usage: u32) {
        self.shard_mut(key, |shard| shard.set_usage(key, usage));
    }

    /// Returns how the string of a key came to be.
    pub fn form(&mut self, key: Key<'_>) -> Option<StringHint> {
        self.entry(key).map(Entry::form)
    }

    /// Notes how the string of a key came to be; nobody who watches the key learns of it, because its value stays.
    pub fn set_form(&mut self, key: Key<'_>, form: StringHint) {
        self.shard_mut(key, |shard| shard.set_form(key, form));
    }

    /// Returns the deadline of a key: `None` without key, `Some(None)` without time to live.
    pub fn deadline(&mut self, key: Key<'_>) -> Option<Option<Deadline>> {
        self.entry(key).map(Entry::deadline)
    }

    /// Returns the bytes that a key takes, its share of the hash table included.
    pub fn memory(&mut self, key: Key<'_>) -> Option<usize> {
        let now = self.now;
        self.shard_mut(key, |shard| {
            let (entry_memory, key_count) = (shard.get(key, now)?.memory(), shard.totals().keys);
            Some(entry_memory + shard.overhead() / key_count)
        })
    }

    /// Sets a key to a string, whatever it held before; `event` is what that is called.
    pub fn set(&mut self, key: Key<'_>, value: &[u8], ttl: Ttl, event: Event) {
        let deadline = match ttl {
            Ttl::Clear => None,
            Ttl::At(deadline) => Some(deadline),
            Ttl::Keep => self.deadline(key).flatten(),
        };
        let now = self.now;
        if self.is_silent {
            self.set_silently(key, value, deadline, event);
        } else {
            self.shard_mut(key, |shard| shard.set_text(key, value, deadline, event, now));
        }
        if deadline.is_some_and(|deadline| deadline.is_due(now)) {
            self.exists(key); // looking at a key that has ended removes it, so that nothing counts it
        }
    }

    /// Sets a key without counting that as a use of it.
    #[cold]
    fn set_silently(&mut self, key: Key<'_>, value: &[u8], deadline: Option<Deadline>, event: Event) {
        let now = self.now;
        self.shard_mut(key, |shard| {
            let before = shard.counted_usage(key, now);
            shard.set_text(key, value, deadline, event, now);
            before.iter().for_each(|usage| shard.set_usage(key, *usage));
        });
    }

    /// Sets a key to a string that the caller has made; a long one is taken over as it is. Its form is [`StringHint::Raw`].
    pub fn set_bytes(&mut self, key: Key<'_>, value: Bytes, ttl: Ttl, event: Event) {
        if value.len() < SHARED_MIN {
            self.set(key, &value, ttl, event);
            return self.set_form(key, StringHint::Raw);
        }
        let deadline = match ttl {
            Ttl::Clear => None,
            Ttl::At(deadline) => Some(deadline),
            Ttl::Keep => self.deadline(key).flatten(),
        };
        let is_new = !self.exists(key); // looking at a key that has ended removes it, so that it counts as such
        let (entry, now) = (Entry::boxed(key.bytes, Box::new(Value::Text(value.into())), deadline), self.now);
        self.shard_mut(key, |shard| shard.put(key, entry, is_new, event, now));
        self.exists(key); // and so it is when the new deadline has passed
    }

    /// Writes `patch` into the string of a key from `offset` on; the key is created, and the gap filled with zero bytes, as needed.
    ///
    /// The caller has made sure that the key, if it exists, holds a string.
    pub fn write_range(&mut self, key: Key<'_>, offset: usize, patch: &[u8], event: Event) {
        let (exists, now) = (self.exists(key), self.now);
        self.shard_mut(key, |shard| {
            if exists {
                shard.write_range(key, offset, patch, event);
            } else {
                let mut entry = Entry::text(key.bytes, b"", None);
                entry.write_range(offset, patch);
                shard.put(key, entry, true, event, now);
            }
        });
    }

    /// Sets or removes the deadline of a key that exists.
    pub fn set_deadline(&mut self, key: Key<'_>, deadline: Option<Deadline>) {
        let now = self.now;
        self.shard_mut(key, |shard| shard.set_deadline(key, deadline, now));
    }

    /// Removes a key; returns whether it existed.
    pub fn remove(&mut self, key: Key<'_>) -> bool {
        self.take(key, Event::Del).is_some()
    }

    /// Removes a key, even one that has ended and that nobody has noticed; returns whether it was there.
    pub fn discard(&mut self, key: Key<'_>) -> bool {
        self.shard_mut(key, |shard| shard.remove(key, Event::Del)).is_some()
    }

    /// Removes a key and returns its entry; `event` is what that is called.
    pub fn take(&mut self, key: Key<'_>, event: Event) -> Option<Entry> {
        if !self.exists(key) {
            return None;
        }
        self.shard_mut(key, |shard| shard.remove(key, event))
    }

    /// Returns a copy of the value and the deadline of a key, under another key.
    pub fn copy(&mut self, key: Key<'_>, to: Key<'_>) -> Option<Entry> {
        self.used_entry(key).map(|entry| entry.copy(to.bytes))
    }

    /// Adds an entry, over whatever its key held; `key` is the entry's key, and a new one even if it held something.
    pub fn put(&mut self, key: Key<'_>, entry: Entry, event: Event) {
        let now = self.now;
        self.shard_mut(key, |shard| shard.put(key, entry, true, event, now));
    }

    /// Has an event told that goes beyond a change, or sums up several that were untold.
    #[inline]
    pub fn tell(&mut self, key: Key<'_>, event: Event) {
        self.shard_mut(key, |shard| shard.tell(key, event));
    }

    /// Moves a value, with its deadline, from one key to another, over whatever that held; returns whether there was one.
    pub fn rename(&mut self, from: Key<'_>, to: Key<'_>) -> bool {
        let Some(entry) = self.take(from, Event::Untold) else { return false };
        self.exists(to); // looking at a key that has ended removes it, so that it counts as such
        self.put(to, entry.with_key(to.bytes), Event::Untold);
        self.tell(from, Event::RenameFrom);
        self.tell(to, Event::RenameTo);
        true
    }

    /// Raises `flag` when the key changes from now on.
    pub fn watch(&mut self, key: Key<'_>, flag: &WatchFlag) {
        let now = self.now;
        self.shard_mut(key, |shard| shard.watch(key, flag, now));
    }

    /// Forgets what [`View::watch`] was told about a key of any database; for calls that declare no keys.
    pub fn unwatch(&mut self, db: usize, key: Key<'_>, flag: &WatchFlag) {
        let index = shard_of(key.hash);
        match &mut self.access {
            Access::Gate(databases, _) => databases.0[db].shards()[index].lock().unwatch(key.bytes, flag),
            Access::Whole(databases, _) => databases.0[db].shard_mut(index).unwatch(key.bytes, flag),
            Access::One(_) | Access::Few(_) | Access::Closed => unreachable!("{NO_KEYS}"),
        }
    }

    /// Forgets what [`View::watch`] was told about a key; for calls that declare no keys.
    pub fn forget(&mut self, key: Key<'_>, flag: &WatchFlag) {
        self.shard_at(shard_of(key.hash), |shard| shard.unwatch(key.bytes, flag));
    }

    /// Removes a key that has not changed since [`View::watch`] was told of it; for calls that declare no keys.
    pub fn remove_unchanged(&mut self, key: Key<'_>, flag: &WatchFlag) {
        let now = self.now;
        self.shard_at(shard_of(key.hash), |shard| {
            // Looking at a key that has ended removes it, so that it counts as such.
            if shard.get(key, now).is_some() && !flag.is_raised() {
                shard.remove(key, Event::Del);
            }
        });
    }

    /// Visits living keys from a cursor on, one bucket; returns the cursor to go on from, or 0 at the end.
    ///
    /// Every key that exists from cursor 0 to the end is visited at least once.
    pub fn scan(&mut self, cursor: u64, mut visit: impl FnMut(&Entry)) -> u64 {
        let now = self.now;
        let (mut index, mut position) = ((cursor / SCAN_POSITIONS) as usize, cursor % SCAN_POSITIONS);
        if index >= SHARDS {
            return 0;
        }
        loop {
            let mut empty = true;
            let next = self.shard_at(index, |shard| {
                empty = shard.totals().keys == 0;
                if empty { None } else { shard.scan(position, now, &mut visit) }
            });
            match next {
                Some(next) => return index as u64 * SCAN_POSITIONS + next,
                None if index + 1 == SHARDS => return 0,
                None => (index, position) = (index + 1, 0),
            }
            if !empty {
                return index as u64 * SCAN_POSITIONS;
            }
        }
    }

    /// Returns how many keys the database has, swept or not.
    pub fn key_count(&mut self) -> usize {
        (0..SHARDS).map(|index| self.shard_at(index, |shard| shard.totals().keys)).sum()
    }

    /// Estimates how many milliseconds the keys with a time to live have left in the mean, by a few of them.
    pub fn mean_ttl_ms(&mut self) -> i64 {
        const SAMPLES: i64 = 64;
        let (now, mut cursor, mut count, mut sum) = (self.now, 0, 0, 0i64);
        for _ in 0..MEAN_TTL_STEPS {
            cursor = self.scan(cursor, |entry| {
                if let Some(deadline) = entry.deadline() {
                    count += 1;
                    sum = sum.saturating_add(deadline.remaining_ms(now));
                }
            });
            if cursor == 0 || count >= SAMPLES {
                break;
            }
        }
        sum / count.max(1)
    }

    /// Removes every key of this database, or of all. Their memory is freed aside.
    pub fn clear(&mut self, all_databases: bool) {
        let mut old = Vec::new();
        match &mut self.access {
            Access::Whole(databases, db) => {
                let chosen = if all_databases { 0..databases.0.len() } else { *db..*db + 1 };
                for database in &mut databases.0[chosen] {
                    for shard in database.shards.get_mut().into_iter().flatten() {
                        old.push(shard.get_mut().clear());
                    }
                }
            }
            _ => unreachable!("{NOT_EXCLUSIVE}"),
        }
        if let Access::Whole(databases, db) = &self.access {
            databases.0[*db].herald.tell_all_removed();
        }
        free_aside(old);
    }

    /// Exchanges all keys of two databases.
    pub fn swap(&mut self, one: usize, other: usize) {
        let now = self.now;
        let Access::Whole(databases, _) = &mut self.access else { unreachable!("{NOT_EXCLUSIVE}") };
        // The same database twice is not two, and needs no exchange.
        if let Ok([one, other]) = databases.0.get_disjoint_mut([one, other]) {
            for index in 0..SHARDS {
                one.shard_mut(index).swap(other.shard_mut(index), now);
            }
        }
    }

    /// Returns the bytes of this database that are no entries.
    pub fn overhead(&mut self) -> usize {
        (0..SHARDS).map(|index| self.shard_at(index, |shard| shard.overhead())).sum()
    }

    /// Sums up every shard of this database.
    pub fn totals(&mut self) -> Totals {
        let mut totals = Totals::default();
        (0..SHARDS).for_each(|index| totals += self.shard_at(index, |shard| shard.totals()));
        totals
    }

    #[inline]
    fn entry(&mut self, key: Key<'_>) -> Option<&Entry> {
        let now = self.now;
        match &mut self.access {
            Access::One(shard) => shard.get(key, now),
            Access::Few(shards) => few(shards, key).get(key, now),
            Access::Whole(databases, db) => databases.0[*db].shard_of(key.hash).get(key, now),
            Access::Gate(..) | Access::Closed => unreachable!("{UNDECLARED}"),
        }
    }

    #[inline(always)]
    fn used_entry(&mut self, key: Key<'_>) -> Option<&Entry> {
        self.access.used_entry(key, self.now, self.is_silent, false)
    }

    #[inline]
    fn shard_mut<T>(&mut self, key: Key<'_>, act: impl FnOnce(&mut Shard) -> T) -> T {
        match &mut self.access {
            Access::One(shard) => act(shard),
            Access::Few(shards) => act(few(shards, key)),
            Access::Whole(databases, db) => act(databases.0[*db].shard_of(key.hash)),
            Access::Gate(..) | Access::Closed => unreachable!("{UNDECLARED}"),
        }
    }

    fn shard_at<T>(&mut self, index: usize, act: impl FnOnce(&mut Shard) -> T) -> T {
        match &mut self.access {
            Access::Gate(databases, db) => act(&mut databases.0[*db].shards()[index].lock()),
            Access::Whole(databases, db) => act(databases.0[*db].shard_mut(index)),
            Access::One(_) | Access::Few(_) | Access::Closed => unreachable!("{NO_KEYS}"),
        }
    }
}

fn text_of(entry: Option<&Entry>) -> Result<Option<Str<'_>>> {
    match entry.map(Entry::as_text) {
        Some(None) => Err(Error::WrongType),
        text => Ok(text.flatten()),
    }
}

impl Access<'_> {
    #[inline(always)] // three calls deep in every look-up
    fn used_entry(&mut self, key: Key<'_>, now: Now, is_silent: bool, tells_misses: bool) -> Option<&Entry> {
        let how = (is_silent, tells_misses);
        match self {
            Access::One(shard) => shard.read(key, now, how),
            Access::Few(shards) => few(shards, key).read(key, now, how),
            Access::Whole(databases, db) => databases.0[*db].shard_of(key.hash).read(key, now, how),
            Access::Gate(..) | Access::Closed => unreachable!("{UNDECLARED}"),
        }
    }
}

/// How many buckets are looked at for keys with a time to live.
const MEAN_TTL_STEPS: usize = 1000;

const NO_KEYS: &str = "calls over a whole database declare no keys";
const NOT_EXCLUSIVE: &str = "calls that need the whole store are declared EXCLUSIVE";
const UNDECLARED: &str = "a handler reads only the keys its row declares";

fn few<'v>(shards: &'v mut SmallVec<[(usize, MutexGuard<'_, Shard>); 8]>, key: Key<'_>) -> &'v mut Shard {
    let at = shards.binary_search_by_key(&shard_of(key.hash), |(index, _)| *index).expect(UNDECLARED);
    &mut shards[at].1
}

/// Numbers the shard of a key by hash bits that neither its bucket nor its tag uses.
#[inline]
pub(super) fn shard_of(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}
