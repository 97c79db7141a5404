//! The locked shards of one call: the only way to read or change a key.
//!
//! A view is one guard (most calls), a few sorted guards (several keys), the gate alone (calls over a
//! whole database, which lock shard after shard) or the whole store (EXEC). Handlers do not see which.

mod images;
mod interests;

use bytes::Bytes;
use parking_lot::MutexGuard;
use smallvec::SmallVec;

use crate::store::SHARDS;
use crate::store::cx::{Cx, Lookup};
use crate::store::databases::Databases;
use crate::store::entry::Entry;
use crate::store::event::Event;
use crate::store::interest::WatchFlag;
use crate::store::lock::Loss;
use crate::store::shard::{Edit, Key, Shard, Totals};
use crate::store::table::SCAN_POSITIONS;
use crate::store::usage::Dice;
use crate::store::value::{Kind, SHARED_MIN, StringHint, Type, Value, WrongType};
use crate::time::clock::{Deadline, Now};

/// Access to the keys of one database for one call.
pub struct View<'a> {
    access: Access<'a>,
    cx: Cx,
    lookups: Lookups,
    /// How often keys were changed through this view.
    changes: u32,
}

/// Counts look-ups: hits in the lower half, misses in the upper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups(u64);

impl Lookups {
    #[inline]
    fn count(&mut self, is_hit: bool) {
        self.0 += if is_hit { 1 } else { 1 << 32 };
    }

    /// Returns the number of hits.
    pub fn hits(self) -> u32 {
        self.0 as u32
    }

    /// Returns the number of misses.
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
    /// Shards locked by another view.
    Borrowed(SmallVec<[(usize, &'a mut Shard); 8]>),
    Gate(&'a Databases, usize),
    Whole(&'a mut Databases, usize),
    Closed,
}

/// What a write does to the TTL of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// The key keeps its deadline.
    Keep,
    /// The deadline is removed.
    Clear,
    /// The key gets this deadline.
    At(Deadline),
}

impl<'a> View<'a> {
    #[inline(always)] // as GateGuard::view
    pub(super) fn locked(databases: &'a Databases, db: usize, hashes: &[u64], cx: Cx) -> Self {
        let access = match hashes {
            [] => Access::Gate(databases, db),
            [hash] => Access::One(databases.at(db).shards()[shard_of(*hash)].lock()),
            _ => {
                let shards = databases.at(db).shards();
                let mut indexes: SmallVec<[usize; 16]> = hashes.iter().map(|hash| shard_of(*hash)).collect();
                indexes.sort_unstable();
                indexes.dedup();
                Access::Few(indexes.into_iter().map(|index| (index, shards[index].lock())).collect())
            }
        };
        View { access, cx, lookups: Lookups::default(), changes: 0 }
    }

    pub(super) fn whole(databases: &'a mut Databases, db: usize, cx: Cx) -> Self {
        View { access: Access::Whole(databases, db), cx, lookups: Lookups::default(), changes: 0 }
    }

    /// Creates a view of nothing, for calls that are allowed while a busy script holds the gate.
    #[cold]
    pub(super) fn closed(cx: Cx) -> Self {
        View { access: Access::Closed, cx, lookups: Lookups::default(), changes: 0 }
    }

    /// Returns whether it is a view of nothing.
    pub fn is_closed(&self) -> bool {
        matches!(self.access, Access::Closed)
    }

    /// Returns whether the whole store is locked.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.access, Access::Whole(..))
    }

    /// Runs a closure on database `db` of this view, which must cover the whole store, or lock shard after shard; for
    /// calls declared EXCLUSIVE, and those without keys.
    pub fn in_db<T>(&mut self, db: usize, act: impl FnOnce(&mut Self) -> T) -> T {
        let own = self.aim(db);
        let result = act(self);
        self.aim(own);
        result
    }

    /// Switches to another database; returns the previous one.
    fn aim(&mut self, db: usize) -> usize {
        match &mut self.access {
            Access::Whole(_, aimed) | Access::Gate(_, aimed) => std::mem::replace(aimed, db),
            _ => unreachable!("{NOT_EXCLUSIVE}"),
        }
    }

    /// Reborrows a view of the whole store for another call; for calls declared EXCLUSIVE.
    pub fn nested(&mut self, db: usize, cx: Cx) -> View<'_> {
        match &mut self.access {
            Access::Whole(databases, _) => View::whole(databases, db, cx),
            _ => unreachable!("{NOT_EXCLUSIVE}"),
        }
    }

    /// Lends all that this view has locked to another call, in database `db` if everything is locked.
    pub fn lend(&mut self, db: usize, cx: Cx) -> View<'_> {
        let access = match &mut self.access {
            Access::One(shard) => Access::Borrowed(std::iter::once((shard.index(), &mut **shard)).collect()),
            Access::Few(shards) => {
                Access::Borrowed(shards.iter_mut().map(|(index, shard)| (*index, &mut **shard)).collect())
            }
            Access::Borrowed(shards) => {
                Access::Borrowed(shards.iter_mut().map(|(index, shard)| (*index, &mut **shard)).collect())
            }
            Access::Gate(databases, _) => Access::Gate(databases, db),
            Access::Whole(databases, _) => Access::Whole(databases, db),
            Access::Closed => Access::Closed,
        };
        View { access, cx, lookups: Lookups::default(), changes: 0 }
    }

    /// Returns whether the keys with these hashes are locked by this view.
    pub fn covers(&self, hashes: &[u64]) -> bool {
        let mut indexes = hashes.iter().map(|hash| shard_of(*hash));
        match &self.access {
            Access::One(shard) => indexes.all(|index| index == shard.index()),
            Access::Few(shards) => {
                indexes.all(|index| shards.binary_search_by_key(&index, |(other, _)| *other).is_ok())
            }
            Access::Borrowed(shards) => {
                indexes.all(|index| shards.binary_search_by_key(&index, |(other, _)| *other).is_ok())
            }
            Access::Whole(..) => true,
            Access::Gate(..) | Access::Closed => hashes.is_empty(),
        }
    }

    /// Returns the context of this call.
    pub fn cx(&self) -> Cx {
        self.cx
    }

    /// Returns the time of this call.
    pub fn now(&self) -> Now {
        self.cx.now
    }

    /// Sets the time of this call.
    pub fn set_now(&mut self, now: Now) {
        self.cx.now = now;
    }

    /// Returns the hits and misses so far.
    #[inline]
    pub fn lookups(&self) -> Lookups {
        self.lookups
    }

    /// Returns whether keys were changed through this view, not counting expired ones.
    #[inline]
    pub fn is_changed(&self) -> bool {
        self.changes != 0
    }

    /// Looks a key up; `how` selects the other effects.
    #[inline(always)] // the flags are constants of the caller; see View::find
    pub fn lookup(&mut self, key: Key<'_>, how: Lookup) -> Option<&Entry> {
        match how {
            Lookup::READ => self.find::<{ Lookup::READ.bits() }>(key),
            Lookup::WRITE => self.find::<{ Lookup::WRITE.bits() }>(key),
            Lookup::TOUCH => self.find::<{ Lookup::TOUCH.bits() }>(key),
            Lookup::ABOUT => self.find::<{ Lookup::ABOUT.bits() }>(key),
            Lookup::INSPECT => self.find::<{ Lookup::INSPECT.bits() }>(key),
            _ => self.peek(key),
        }
    }

    /// Looks a key up. It is compiled once per set of flags, so that no flag is tested at run time.
    #[inline(always)] // a call would be a fortieth of a GET
    fn find<const HOW: u8>(&mut self, key: Key<'_>) -> Option<&Entry> {
        let how = Lookup::from_bits(HOW);
        let View { access, cx, lookups, .. } = self;
        let entry = access.lookup(key, how, cx);
        if how.is_counted() {
            lookups.count(entry.is_some());
        }
        entry
    }

    /// Looks up a key that must hold a value of one type.
    ///
    /// # Errors
    /// [`WrongType`] when the key holds something else.
    #[inline(always)] // as View::lookup
    pub fn get<K: Kind>(&mut self, key: Key<'_>, how: Lookup) -> Result<Option<K::Ref<'_>>, WrongType> {
        match self.lookup(key, how) {
            Some(entry) => entry.get::<K>().map(Some),
            None => Ok(None),
        }
    }

    /// Returns whether a key exists; the look-up has no other effect.
    #[inline]
    pub fn exists(&mut self, key: Key<'_>) -> bool {
        self.peek(key).is_some()
    }

    /// Borrows the entries of several keys at once, `None` for missing ones; the look-ups have no effects.
    pub(crate) fn peek_all(&mut self, keys: &[Key<'_>]) -> SmallVec<[Option<&Entry>; 8]> {
        let View { access, cx, .. } = self;
        let shards: SmallVec<[(usize, &Shard); 8]> = match access {
            Access::One(shard) => std::iter::once((shard.index(), &**shard)).collect(),
            Access::Few(shards) => shards.iter().map(|(index, shard)| (*index, &**shard)).collect(),
            Access::Borrowed(shards) => shards.iter().map(|(index, shard)| (*index, &**shard)).collect(),
            Access::Whole(databases, db) => {
                let shards = databases.at_mut(*db).shards_mut().iter_mut();
                shards.map(|shard| &*shard.get_mut()).enumerate().collect()
            }
            Access::Gate(..) | Access::Closed => unreachable!("{UNDECLARED}"),
        };
        let entry_of = |key: &Key<'_>| {
            let at = shards.binary_search_by_key(&shard_of(key.hash), |(index, _)| *index).expect(UNDECLARED);
            shards[at].1.unexpired(*key, cx)
        };
        keys.iter().map(entry_of).collect()
    }

    /// Opens the value of a key to be changed in place, or created; the look-up is a use of the key.
    ///
    /// # Errors
    /// [`WrongType`] when the key holds something else.
    #[inline(always)] // a guard is long, as a view is
    pub fn edit<'v, K: Kind>(&'v mut self, key: Key<'v>, event: &'static Event) -> Result<Edit<'v, K>, WrongType> {
        let View { access, cx, changes, .. } = self;
        access.shard(key).open(key, event, cx, changes)
    }

    /// Returns the entry of a key, even one that has expired and is not deleted yet.
    pub fn leftover(&mut self, key: Key<'_>) -> Option<&Entry> {
        self.access.shard(key).leftover(key)
    }

    /// Returns random numbers for a call on a key.
    pub(crate) fn dice(&mut self, key: Key<'_>) -> Dice {
        self.shard_mut(key, |shard, _| shard.dice.split())
    }

    /// Removes the expired fields of a hash; for the start of a call that reads or changes it.
    #[inline]
    pub(crate) fn expire_fields(&mut self, key: Key<'_>) {
        self.shard_mut(key, |shard, cx| shard.expire_fields(key, cx));
    }

    /// Sets the usage of a key.
    pub fn set_usage(&mut self, key: Key<'_>, usage: u32) {
        self.shard_mut(key, |shard, _| shard.set_usage(key, usage));
    }

    /// Sets how the string of a key was stored; it is not a change, because the value stays the same.
    pub fn set_hint(&mut self, key: Key<'_>, hint: StringHint) {
        self.shard_mut(key, |shard, _| shard.set_hint(key, hint));
    }

    /// Returns the deadline of a key: `None` without a key, `Some(None)` without a TTL.
    pub fn deadline(&mut self, key: Key<'_>) -> Option<Option<Deadline>> {
        self.peek(key).map(Entry::deadline)
    }

    /// Returns the memory of a key, including its share of the hash table.
    pub fn memory(&mut self, key: Key<'_>) -> Option<usize> {
        self.shard_mut(key, |shard, cx| {
            let (entry_memory, key_count) = (shard.peek(key, cx)?.memory(), shard.totals().keys);
            Some(entry_memory + shard.overhead() / key_count)
        })
    }

    /// Sets a key to a string, whatever it held before; `event` names the change.
    pub fn set(&mut self, key: Key<'_>, value: &[u8], ttl: Ttl, event: &'static Event) {
        let deadline = match ttl {
            Ttl::Clear => None,
            Ttl::At(deadline) => Some(deadline),
            Ttl::Keep => self.deadline(key).flatten(),
        };
        self.changes += 1;
        if Lookup::WRITE.is_use(self.cx.lookup) {
            self.shard_mut(key, |shard, cx| shard.set_text(key, value, deadline, event, cx));
        } else {
            self.set_without_use(key, value, deadline, event);
        }
        if deadline.is_some_and(|deadline| self.cx.has_expired(deadline)) {
            self.exists(key); // deletes the key if the new deadline has passed
        }
    }

    /// Sets a key without counting that as a use of it.
    #[cold]
    fn set_without_use(&mut self, key: Key<'_>, value: &[u8], deadline: Option<Deadline>, event: &'static Event) {
        self.shard_mut(key, |shard, cx| {
            let before = shard.counted_usage(key, cx);
            shard.set_text(key, value, deadline, event, cx);
            before.iter().for_each(|usage| shard.set_usage(key, *usage));
        });
    }

    /// Sets a key to a string that the caller has created; a long one is taken over without a copy. Its hint is
    /// [`StringHint::Raw`].
    pub fn set_bytes(&mut self, key: Key<'_>, value: Bytes, ttl: Ttl, event: &'static Event) {
        if value.len() < SHARED_MIN {
            self.set(key, &value, ttl, event);
            return self.set_hint(key, StringHint::Raw);
        }
        let deadline = match ttl {
            Ttl::Clear => None,
            Ttl::At(deadline) => Some(deadline),
            Ttl::Keep => self.deadline(key).flatten(),
        };
        let is_new = !self.exists(key); // a look-up deletes an expired key, so that it counts as new
        let entry = Entry::boxed(key.bytes, Type::String, Box::new(Value::Text(value.into())), deadline);
        self.changes += 1;
        self.shard_mut(key, |shard, cx| {
            if let Some(before) = shard.observed_type(key, cx).filter(|_| event.replaces()) {
                shard.emit_overwritten(key, before == Type::String);
            }
            match is_new || event.replaces() {
                true => shard.replace(key, entry, is_new, event, cx),
                false => shard.rebuild(key, entry, event, cx),
            }
        });
        self.exists(key); // deletes the key if the new deadline has passed
    }

    /// Sets or removes the deadline of an existing key.
    pub fn set_deadline(&mut self, key: Key<'_>, deadline: Option<Deadline>, event: &'static Event) {
        self.changes += 1;
        self.shard_mut(key, |shard, cx| shard.set_deadline(key, deadline, event, cx));
    }

    /// Deletes a key; returns whether it existed.
    pub fn remove(&mut self, key: Key<'_>) -> bool {
        self.exists(key) && self.discard(key)
    }

    /// Deletes a key, even one that has expired and is not deleted yet; returns whether it was there.
    pub fn discard(&mut self, key: Key<'_>) -> bool {
        let is_deleted = self.shard_mut(key, |shard, cx| shard.delete(key, Event::DEL, cx));
        self.changes += u32::from(is_deleted);
        is_deleted
    }

    /// Removes a key and returns its entry; `event` names the change.
    pub fn take(&mut self, key: Key<'_>, event: &'static Event) -> Option<Entry> {
        if !self.exists(key) {
            return None;
        }
        self.changes += 1;
        self.shard_mut(key, |shard, cx| shard.remove(key, event, cx))
    }

    /// Sets the entry of a key, replacing an existing one; `key` is the entry's key, and counts as new in any case.
    pub fn put(&mut self, key: Key<'_>, entry: Entry, event: &'static Event) {
        if let Some(is_same_type) = self.put_untold(key, entry, event) {
            self.shard_mut(key, |shard, _| shard.emit_overwritten(key, is_same_type));
        }
    }

    /// Does the same without the event that a value was replaced; returns whether it was of the same type if there was
    /// one, and an observer.
    fn put_untold(&mut self, key: Key<'_>, entry: Entry, event: &'static Event) -> Option<bool> {
        self.changes += 1;
        self.shard_mut(key, |shard, cx| {
            let (before, after) = (shard.observed_type(key, cx), entry.kind());
            shard.replace(key, entry, true, event, cx);
            before.map(|before| before == after)
        })
    }

    /// Sets the entry of a key, whatever it held before; the key counts as new only if it was missing.
    pub(crate) fn overwrite(&mut self, key: Key<'_>, entry: Entry, event: &'static Event) {
        let is_new = !self.exists(key); // a look-up deletes an expired key, so that it counts as new
        self.changes += 1;
        self.shard_mut(key, |shard, cx| {
            if let Some(before) = shard.observed_type(key, cx) {
                shard.emit_overwritten(key, before == entry.kind());
            }
            shard.replace(key, entry, is_new, event, cx);
        });
    }

    /// Sets the entry of an existing key to one with the same value.
    pub(crate) fn renew(&mut self, key: Key<'_>, entry: Entry) {
        self.changes += 1;
        self.shard_mut(key, |shard, cx| shard.rebuild(key, entry, Event::NONE, cx));
    }

    /// Counts more changes of a key that was changed.
    pub fn count_more(&mut self, key: Key<'_>, changes: usize) {
        self.shard_mut(key, |shard, _| shard.count_more(changes));
    }

    /// Emits an event in addition to a change, or that summarises several unnamed ones.
    #[inline]
    pub fn emit(&mut self, key: Key<'_>, event: &'static Event) {
        self.shard_mut(key, |shard, _| shard.emit(key, event));
    }

    /// Moves a value, with its deadline, from one key to another, overwriting it; returns whether there was one. The
    /// events, of the old name and of the new, are emitted when both keys have changed.
    pub fn rename(&mut self, (from, to): (Key<'_>, Key<'_>), events: [&'static Event; 2]) -> bool {
        let Some(entry) = self.take_away(from, Loss::Renamed) else { return false };
        self.exists(to); // a look-up deletes an expired key, so that it counts as new
        let overwritten = self.put_untold(to, entry.with_key(to.bytes), Event::NONE);
        self.emit(from, events[0]);
        self.emit(to, events[1]);
        if let Some(is_same_type) = overwritten {
            self.shard_mut(to, |shard, _| shard.emit_overwritten(to, is_same_type));
        }
        true
    }

    /// Raises `flag` when the key changes from now on.
    pub fn watch(&mut self, key: Key<'_>, flag: &WatchFlag) {
        self.shard_mut(key, |shard, cx| shard.watch(key, flag, cx));
    }

    /// Reverts [`View::watch`] of a key of any database; for calls that declare no keys.
    pub fn unwatch(&mut self, db: usize, key: Key<'_>, flag: &WatchFlag) {
        let index = shard_of(key.hash);
        match &mut self.access {
            Access::Gate(databases, _) => databases.at(db).shards()[index].lock().unwatch(key, flag),
            Access::Whole(databases, _) => databases.at_mut(db).shard_mut(index).unwatch(key, flag),
            Access::One(_) | Access::Few(_) | Access::Borrowed(_) | Access::Closed => unreachable!("{NO_KEYS}"),
        }
    }

    /// Reverts [`View::watch`] of a key; for calls that declare no keys.
    pub fn forget(&mut self, key: Key<'_>, flag: &WatchFlag) {
        self.shard_at(shard_of(key.hash), |shard, _| shard.unwatch(key, flag));
    }

    /// Deletes a key that has not changed since [`View::watch`], and logs that; for the end of a call, when its keys
    /// are no longer locked.
    pub fn remove_unchanged(&mut self, key: Key<'_>, flag: &WatchFlag) {
        self.shard_at(shard_of(key.hash), |shard, cx| {
            // A look-up deletes an expired key, which counts as a change.
            if shard.peek(key, cx).is_some() && !flag.is_raised() {
                shard.delete(key, Event::DEL, cx);
                shard.log_removal(key);
            }
        });
    }

    /// Visits the keys of one bucket at a cursor that have not expired; returns the next cursor, or 0 at the end.
    ///
    /// Every key that exists from cursor 0 to the end is visited at least once.
    pub fn scan(&mut self, cursor: u64, mut visit: impl FnMut(&Entry)) -> u64 {
        self.scan_leftovers(cursor, |entry, is_expired| {
            if !is_expired {
                visit(entry);
            }
            false
        })
    }

    /// Does the same as [`View::scan`], and also visits keys that have expired and are not deleted yet; whether a key
    /// has is the second argument. Deletes those for which `visit` returns true.
    pub(crate) fn scan_leftovers(&mut self, cursor: u64, mut visit: impl FnMut(&Entry, bool) -> bool) -> u64 {
        let (mut index, mut position) = ((cursor / SCAN_POSITIONS) as usize, cursor % SCAN_POSITIONS);
        if index >= SHARDS {
            return 0;
        }
        loop {
            let mut empty = true;
            let next = self.shard_at(index, |shard, cx| {
                empty = shard.totals().keys == 0;
                if empty { None } else { shard.scan(position, cx, &mut visit) }
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

    /// Returns the number of keys in the database, including expired ones that are not deleted yet.
    pub fn key_count(&mut self) -> usize {
        (0..SHARDS).map(|index| self.shard_at(index, |shard, _| shard.totals().keys)).sum()
    }

    /// Estimates the mean remaining TTL in milliseconds, from a sample of keys.
    pub fn mean_ttl_ms(&mut self) -> i64 {
        const SAMPLES: i64 = 64;
        let (now, mut cursor, mut count, mut sum) = (self.cx.now, 0, 0, 0i64);
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

    /// Deletes every key of this database, or of all. Their memory is freed in the background.
    pub fn clear(&mut self, all_databases: bool) {
        let Access::Whole(databases, db) = &mut self.access else { unreachable!("{NOT_EXCLUSIVE}") };
        let mut old = Vec::new();
        let mut clear = |shard: &mut Shard| old.push(shard.clear(&self.cx));
        match all_databases {
            true => databases.each_shard_mut(clear),
            false => databases.at_mut(*db).shards_mut().iter_mut().for_each(|shard| clear(shard.get_mut())),
        }
        self.changes += 1;
        let services = databases.services();
        services.events.emit_flush();
        services.events.note_all();
        services.reclaimer.free_shards(old);
    }

    /// Swaps all keys of two databases.
    pub fn swap(&mut self, one: usize, other: usize) {
        let Access::Whole(databases, _) = &mut self.access else { unreachable!("{NOT_EXCLUSIVE}") };
        self.changes += 1;
        // A database swapped with itself stays the same.
        if one != other {
            databases.swap(one, other, |one, other| one.swap(other, &self.cx));
            databases.services().events.note_all();
        }
    }

    /// Returns the numbers of the databases that were ever used, in ascending order; for calls declared EXCLUSIVE, and
    /// those without keys.
    pub fn used_databases(&self) -> Vec<usize> {
        match &self.access {
            Access::Whole(databases, _) => databases.used(),
            Access::Gate(databases, _) => databases.used(),
            _ => unreachable!("{NOT_EXCLUSIVE}"),
        }
    }

    /// Returns the memory of this database besides its entries.
    pub fn overhead(&mut self) -> usize {
        (0..SHARDS).map(|index| self.shard_at(index, |shard, _| shard.overhead())).sum()
    }

    /// Returns the totals of this database.
    pub fn totals(&mut self) -> Totals {
        let mut totals = Totals::default();
        (0..SHARDS).for_each(|index| totals += self.shard_at(index, |shard, _| shard.totals()));
        totals
    }

    #[inline]
    fn peek(&mut self, key: Key<'_>) -> Option<&Entry> {
        let View { access, cx, .. } = self;
        match access {
            Access::One(shard) => shard.peek(key, cx),
            Access::Few(shards) => few(shards, key).peek(key, cx),
            Access::Borrowed(shards) => lent(shards, key).peek(key, cx),
            Access::Whole(databases, db) => databases.at_mut(*db).shard_of(key.hash).peek(key, cx),
            Access::Gate(..) | Access::Closed => unreachable!("{UNDECLARED}"),
        }
    }

    #[inline]
    fn shard_mut<T>(&mut self, key: Key<'_>, act: impl FnOnce(&mut Shard, &Cx) -> T) -> T {
        let View { access, cx, .. } = self;
        match access {
            Access::One(shard) => act(shard, cx),
            Access::Few(shards) => act(few(shards, key), cx),
            Access::Borrowed(shards) => act(lent(shards, key), cx),
            Access::Whole(databases, db) => act(databases.at_mut(*db).shard_of(key.hash), cx),
            Access::Gate(..) | Access::Closed => unreachable!("{UNDECLARED}"),
        }
    }

    fn shard_at<T>(&mut self, index: usize, act: impl FnOnce(&mut Shard, &Cx) -> T) -> T {
        match &mut self.access {
            Access::Gate(databases, db) => act(&mut databases.at(*db).shards()[index].lock(), &self.cx),
            Access::Whole(databases, db) => act(databases.at_mut(*db).shard_mut(index), &self.cx),
            Access::One(_) | Access::Few(_) | Access::Borrowed(_) | Access::Closed => unreachable!("{NO_KEYS}"),
        }
    }
}

impl Access<'_> {
    #[inline(always)] // see View::edit
    fn shard(&mut self, key: Key<'_>) -> &mut Shard {
        match self {
            Access::One(shard) => shard,
            Access::Few(shards) => few(shards, key),
            Access::Borrowed(shards) => lent(shards, key),
            Access::Whole(databases, db) => databases.at_mut(*db).shard_of(key.hash),
            Access::Gate(..) | Access::Closed => unreachable!("{UNDECLARED}"),
        }
    }

    #[inline(always)] // three calls deep in every look-up
    fn lookup(&mut self, key: Key<'_>, how: Lookup, cx: &Cx) -> Option<&Entry> {
        match self {
            Access::One(shard) => shard.lookup(key, how, cx),
            Access::Few(shards) => few(shards, key).lookup(key, how, cx),
            Access::Borrowed(shards) => lent(shards, key).lookup(key, how, cx),
            Access::Whole(databases, db) => databases.at_mut(*db).shard_of(key.hash).lookup(key, how, cx),
            Access::Gate(..) | Access::Closed => unreachable!("{UNDECLARED}"),
        }
    }
}

/// How many buckets are sampled for keys with a TTL.
const MEAN_TTL_STEPS: usize = 1000;

const NO_KEYS: &str = "calls over a whole database declare no keys";
const NOT_EXCLUSIVE: &str = "calls that need the whole store are declared EXCLUSIVE";
const UNDECLARED: &str = "a handler reads only the keys its row declares";

fn few<'v>(shards: &'v mut SmallVec<[(usize, MutexGuard<'_, Shard>); 8]>, key: Key<'_>) -> &'v mut Shard {
    let at = shards.binary_search_by_key(&shard_of(key.hash), |(index, _)| *index).expect(UNDECLARED);
    &mut shards[at].1
}

fn lent<'v>(shards: &'v mut SmallVec<[(usize, &mut Shard); 8]>, key: Key<'_>) -> &'v mut Shard {
    let at = shards.binary_search_by_key(&shard_of(key.hash), |(index, _)| *index).expect(UNDECLARED);
    shards[at].1
}

/// Returns the shard of a key, by hash bits that neither its bucket nor its tag uses.
#[inline]
pub(crate) fn shard_of(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}
