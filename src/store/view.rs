//! The locked shards of one call: the only way to read or change a key.
//!
//! A view is one guard (most calls), a few sorted guards (several keys), the gate alone (calls over a whole database,
//! which lock shard after shard) or the whole store (scripts). Handlers do not see the difference.
//!
//! - here: look-ups;
//! - `view/write.rs`: changes of keys;
//! - `view/changes.rs`: the changes made so far;
//! - `view/scan.rs`: whole databases;
//! - `view/locks.rs` ([`View::locks`]): locks and fences;
//! - `view/waiting.rs` ([`View::waiting`]): clients that watch keys, or are blocked on them;
//! - `view/images.rs` ([`View::images`]): former states;
//! - `view/mirror.rs`: keys of a cluster.

mod access;
mod changes;
mod images;
mod locks;
mod mirror;
mod scan;
mod waiting;
mod write;

use smallvec::SmallVec;

use crate::store::changes::{ChangeCx, ChangeSet};
use crate::store::cx::{Cx, Lookup};
use crate::store::databases::{Databases, WholeStore};
use crate::store::entry::Entry;
use crate::store::key::{Key, shard_of};
use crate::store::shard::Keys;
use crate::store::usage::Dice;
use crate::store::value::{DataType, Hash, Set, SetRef, VisibleHash, WrongType};
use crate::time::clock::{Deadline, Now};
use access::{ShardAccess, UNDECLARED};
pub(crate) use locks::AdoptedLock;

/// Access to the keys of one database for one call.
pub struct View<'a> {
    access: ShardAccess<'a>,
    cx: ChangeCx<'a>,
    lookups: LookupCounts,
}

/// Counter of look-ups: hits in the lower half, misses in the upper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupCounts(u64);

impl LookupCounts {
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

impl std::ops::Add for LookupCounts {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        LookupCounts(self.0.wrapping_add(other.0))
    }
}

/// Effect of a write on the TTL of its key.
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
    pub(super) fn locked(databases: &'a Databases, db: usize, hashes: &[u64], cx: ChangeCx<'a>) -> Self {
        View::of(ShardAccess::locked(databases, db, hashes), cx)
    }

    pub(super) fn whole(databases: &'a mut Databases, db: usize, cx: ChangeCx<'a>) -> Self {
        View::of(ShardAccess::Whole(WholeStore::Exclusive(databases), db), cx)
    }

    /// Creates a view of nothing, for calls that are allowed while a busy script holds the gate.
    #[cold]
    pub(super) fn closed(cx: ChangeCx<'a>) -> Self {
        View::of(ShardAccess::closed(), cx)
    }

    #[inline(always)] // as GateGuard::view
    fn of(access: ShardAccess<'a>, cx: ChangeCx<'a>) -> Self {
        View { access, cx, lookups: LookupCounts::default() }
    }

    /// Moves on to the keys of the next call, as if the view was new; returns false if that is not possible.
    #[inline]
    pub(crate) fn move_on(&mut self, hashes: &[u64]) -> bool {
        let has_moved = self.access.move_on(hashes);
        if has_moved {
            self.cx.renew();
            self.lookups = LookupCounts::default();
        }
        has_moved
    }

    /// Returns true if this is a view of nothing.
    pub fn is_closed(&self) -> bool {
        self.access.is_closed()
    }

    /// Returns true if the whole store is locked.
    pub(crate) fn is_whole(&self) -> bool {
        self.access.is_exclusive()
    }

    /// Runs a closure on database `db` of this view, which must cover the whole store, or lock shard after shard; for
    /// calls declared EXCLUSIVE, and calls without keys.
    pub fn in_db<T>(&mut self, db: usize, act: impl FnOnce(&mut Self) -> T) -> T {
        let own = self.access.aim(db);
        let result = act(self);
        self.access.aim(own);
        result
    }

    /// Lends all locks of this view to another call, in database `db` if everything is locked.
    #[inline]
    pub fn lend(&mut self, db: usize, cx: Cx) -> View<'_> {
        View::of(self.access.lend(db), self.cx.nested(cx))
    }

    /// Returns true if the keys with these hashes are locked by this view.
    pub fn covers(&self, hashes: &[u64]) -> bool {
        self.access.covers(hashes)
    }

    /// Returns the numbers of the locked shards; `None` if the call declares no keys or has locked everything.
    pub(crate) fn shard_numbers(&self) -> Option<SmallVec<[usize; 8]>> {
        self.access.numbers()
    }

    /// Returns the context of this call.
    pub fn cx(&self) -> Cx {
        *self.cx
    }

    /// Returns the time of this call.
    pub fn now(&self) -> Now {
        self.cx.now
    }

    /// Sets the time of this call.
    pub fn set_now(&mut self, now: Now) {
        self.cx.cx_mut().now = now;
    }

    /// Returns the hits and misses so far.
    #[inline]
    pub fn lookups(&self) -> LookupCounts {
        self.lookups
    }

    /// Returns the changes made through this view.
    pub(crate) fn changes(&self) -> ChangeSet {
        self.cx.changes()
    }

    /// Returns the changes made through this view, to add to them.
    pub(crate) fn changes_mut(&mut self) -> &mut ChangeSet {
        self.cx.changes_mut()
    }

    /// Makes the locked shards recount in which a panic has interrupted a change.
    pub(crate) fn recover(&mut self) {
        let View { access, cx, .. } = self;
        access.each_shard(|shard| shard.recover(cx));
    }

    /// Borrows the keys of a key's shard, and the context in which they change.
    #[inline(always)] // see ShardAccess::shard
    fn keys(&mut self, key: Key<'_>) -> (&mut Keys, &mut ChangeCx<'a>) {
        (&mut self.access.shard(key).keys, &mut self.cx)
    }

    /// Looks a key up, with the other effects given by `how`.
    #[inline(always)] // the flags are constants of the caller, and a call would be a fortieth of a GET
    pub fn lookup(&mut self, key: Key<'_>, how: Lookup) -> Option<&Entry> {
        let View { access, cx, lookups } = self;
        let entry = access.shard(key).keys.lookup(key, how, cx);
        if how.is_counted() {
            lookups.count(entry.is_some());
        }
        entry
    }

    #[inline]
    fn peek(&mut self, key: Key<'_>) -> Option<&Entry> {
        let (keys, cx) = self.keys(key);
        keys.peek(key, cx)
    }

    /// Looks up a key that must hold a value of one type.
    ///
    /// # Errors
    /// [`WrongType`] when the key holds something else.
    #[inline(always)] // as View::lookup
    pub fn get<K: DataType>(&mut self, key: Key<'_>, how: Lookup) -> Result<Option<K::Ref<'_>>, WrongType> {
        match self.lookup(key, how) {
            Some(entry) => entry.get::<K>().map(Some),
            None => Ok(None),
        }
    }

    /// Looks up a key that must hold a hash, for its unexpired fields.
    ///
    /// # Errors
    /// [`WrongType`] when the key holds something else.
    #[inline(always)] // as View::lookup
    pub(crate) fn get_hash(&mut self, key: Key<'_>, how: Lookup) -> Result<Option<VisibleHash<'_>>, WrongType> {
        let cx = *self.cx;
        Ok(self.get::<Hash>(key, how)?.map(|hash| VisibleHash::new(hash, &cx)))
    }

    /// Looks up a key that must hold a set, for its unexpired members.
    ///
    /// # Errors
    /// [`WrongType`] when the key holds something else.
    #[inline(always)] // as View::lookup
    pub(crate) fn get_set(&mut self, key: Key<'_>, how: Lookup) -> Result<Option<SetRef<'_>>, WrongType> {
        let cx = *self.cx;
        Ok(self.get::<Set>(key, how)?.map(|set| set.seen_by(&cx)))
    }

    /// Returns true if a key exists; the look-up has no other effect.
    #[inline]
    pub fn exists(&mut self, key: Key<'_>) -> bool {
        self.peek(key).is_some()
    }

    /// Borrows the entries of several keys at once, `None` for a missing key; the look-ups have no effects.
    pub(crate) fn peek_all(&mut self, keys: &[Key<'_>]) -> SmallVec<[Option<&Entry>; 8]> {
        let View { access, cx, .. } = self;
        let shards = access.shards();
        let entry_of = |key: &Key<'_>| {
            let at = shards.binary_search_by_key(&shard_of(key.hash), |shard| shard.keys.index()).expect(UNDECLARED);
            shards[at].keys.unexpired(*key, cx)
        };
        keys.iter().map(entry_of).collect()
    }

    /// Returns the entry of a key, including an expired one that is not deleted yet.
    pub fn find_undeleted(&mut self, key: Key<'_>) -> Option<&Entry> {
        self.keys(key).0.find_undeleted(key)
    }

    /// Returns a generator of random numbers for a call on a key.
    pub(crate) fn dice(&mut self, key: Key<'_>) -> Dice {
        self.keys(key).0.dice.split()
    }

    /// Returns the deadline of a key: `None` for a missing key, `Some(None)` for a key without a TTL.
    pub fn deadline(&mut self, key: Key<'_>) -> Option<Option<Deadline>> {
        self.peek(key).map(Entry::deadline)
    }

    /// Makes a key expire now, if it has a TTL; returns true if it had one.
    pub(crate) fn expire_now(&mut self, key: Key<'_>) -> bool {
        let has_deadline = self.deadline(key).flatten().is_some();
        if has_deadline {
            let (keys, cx) = self.keys(key);
            keys.expire(key, cx);
        }
        has_deadline
    }

    /// Evicts a key, whatever the policy; returns true if there was one.
    pub(crate) fn evict_now(&mut self, key: Key<'_>) -> bool {
        let View { access, cx, .. } = self;
        access.shard(key).evict(key, None, cx)
    }

    /// Returns the memory of a key, including its share of the hash table.
    pub(crate) fn memory(&mut self, key: Key<'_>) -> Option<usize> {
        let (keys, cx) = self.keys(key);
        let (entry_memory, key_count) = (keys.peek(key, cx)?.memory(), keys.totals().keys);
        Some(entry_memory + keys.overhead() / key_count)
    }
}
