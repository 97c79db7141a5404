//! The shards that a view may use: the only access from a call to the data.

use std::ops::{Deref, DerefMut};

use parking_lot::MutexGuard;
use smallvec::SmallVec;

use crate::store::databases::{Databases, Shards, WholeStore};
use crate::store::key::{Key, shard_of};
use crate::store::shard::Shard;

/// The shards that a view may use.
pub(super) enum ShardAccess<'a> {
    /// The shards of the declared keys.
    Declared(DeclaredShards<'a>),
    /// Any shard of any database; the number is that of the present one.
    Whole(WholeStore<'a>, usize),
}

/// Locked shards of one database, in ascending order of their numbers; none in a view of nothing.
pub(super) struct DeclaredShards<'a> {
    /// All shards of the database, of which the next call's is locked; `None` if these are lent.
    database: Option<&'a Shards>,
    locked: SmallVec<[LockedShard<'a>; 8]>,
}

/// A shard that is locked for a call, or lent to a nested one.
enum LockedShard<'a> {
    Own(MutexGuard<'a, Shard>),
    Lent(&'a mut Shard),
}

pub(super) const NO_KEYS: &str = "calls over a whole database declare no keys";
pub(super) const NOT_EXCLUSIVE: &str = "calls that need the whole store are declared EXCLUSIVE";
pub(super) const UNDECLARED: &str = "a handler reads only the keys its row declares";

impl<'a> ShardAccess<'a> {
    /// Locks the shards of keys with these hashes; without any, each shard is locked while it is used.
    #[inline(always)] // as GateGuard::view
    pub(super) fn locked(databases: &'a Databases, db: usize, hashes: &[u64]) -> Self {
        match hashes {
            [] => ShardAccess::Whole(WholeStore::Shared(databases), db),
            hashes => ShardAccess::Declared(DeclaredShards::lock(databases.at(db).shards(), hashes)),
        }
    }

    /// Returns the access of a view of nothing.
    pub(super) fn closed() -> Self {
        ShardAccess::Declared(DeclaredShards { database: None, locked: SmallVec::new() })
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self, ShardAccess::Declared(shards) if shards.locked.is_empty())
    }

    /// Locks the shard of the next call's key instead; returns false if that is not possible, because the view has
    /// locked several shards.
    #[inline]
    pub(super) fn move_on(&mut self, hashes: &[u64]) -> bool {
        match self {
            ShardAccess::Declared(shards) => shards.move_on(hashes),
            ShardAccess::Whole(store, _) => store.is_exclusive(),
        }
    }

    /// Borrows the shard of a declared key.
    #[inline(always)] // three calls deep in every look-up
    pub(super) fn shard(&mut self, key: Key<'_>) -> &mut Shard {
        match self {
            ShardAccess::Declared(shards) => shards.of(key.hash),
            ShardAccess::Whole(WholeStore::Exclusive(databases), db) => databases.at_mut(*db).shard_of(key.hash),
            ShardAccess::Whole(WholeStore::Shared(_), _) => unreachable!("{UNDECLARED}"),
        }
    }

    /// Calls `act` with a shard of a database, by default the present one; for calls that declare no keys.
    pub(super) fn with_shard<T>(&mut self, db: Option<usize>, index: usize, act: impl FnOnce(&mut Shard) -> T) -> T {
        match self {
            ShardAccess::Whole(store, present) => store.with_shard(db.unwrap_or(*present), index, act),
            ShardAccess::Declared(_) => unreachable!("{NO_KEYS}"),
        }
    }

    /// Returns true if no keys are declared, so that any shard may be locked.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, ShardAccess::Whole(..))
    }

    /// Returns true if no other call runs.
    pub(super) fn is_exclusive(&self) -> bool {
        matches!(self, ShardAccess::Whole(store, _) if store.is_exclusive())
    }

    /// Calls `act` with the shard of a key of any database, locked or not; does nothing in a view of nothing.
    pub(super) fn with_any(&mut self, db: usize, key: Key<'_>, act: impl FnOnce(&mut Shard)) {
        match self {
            ShardAccess::Whole(store, _) => store.with_shard(db, shard_of(key.hash), act),
            ShardAccess::Declared(shards) if shards.locked.is_empty() => {}
            ShardAccess::Declared(shards) => act(shards.of(key.hash)),
        }
    }

    /// Calls `act` with every locked shard; if no keys were declared, with the shards of all databases.
    pub(super) fn each_shard(&mut self, mut act: impl FnMut(&mut Shard)) {
        match self {
            ShardAccess::Declared(shards) => shards.locked.iter_mut().for_each(|shard| act(shard)),
            ShardAccess::Whole(store, _) => store.each_shard(act),
        }
    }

    /// Borrows everything, with the number of the present database; for calls declared EXCLUSIVE.
    pub(super) fn whole(&mut self) -> (&mut Databases, usize) {
        match self {
            ShardAccess::Whole(WholeStore::Exclusive(databases), db) => (databases, *db),
            _ => unreachable!("{NOT_EXCLUSIVE}"),
        }
    }

    /// Borrows every locked shard for reading, in ascending order of their numbers.
    pub(super) fn shards(&mut self) -> SmallVec<[&Shard; 8]> {
        match self {
            ShardAccess::Declared(shards) => shards.locked.iter().map(|shard| &**shard).collect(),
            ShardAccess::Whole(WholeStore::Exclusive(databases), db) => {
                databases.at_mut(*db).shards_mut().iter_mut().map(|shard| &*shard.get_mut()).collect()
            }
            ShardAccess::Whole(WholeStore::Shared(_), _) => unreachable!("{UNDECLARED}"),
        }
    }

    /// Returns the numbers of the locked shards; `None` if they may be any.
    pub(super) fn numbers(&self) -> Option<SmallVec<[usize; 8]>> {
        match self {
            ShardAccess::Declared(shards) => Some(shards.locked.iter().map(|shard| shard.keys.index()).collect()),
            ShardAccess::Whole(..) => None,
        }
    }

    /// Lends all locked shards, in database `db` if everything is locked.
    pub(super) fn lend(&mut self, db: usize) -> ShardAccess<'_> {
        match self {
            ShardAccess::Declared(shards) => ShardAccess::Declared(shards.lend()),
            ShardAccess::Whole(store, _) => ShardAccess::Whole(store.lend(), db),
        }
    }

    /// Switches to another database; returns the previous one.
    pub(super) fn aim(&mut self, db: usize) -> usize {
        match self {
            ShardAccess::Whole(_, aimed) => std::mem::replace(aimed, db),
            ShardAccess::Declared(_) => unreachable!("{NOT_EXCLUSIVE}"),
        }
    }

    /// Returns true if the keys with these hashes are locked.
    pub(super) fn covers(&self, hashes: &[u64]) -> bool {
        match self {
            ShardAccess::Declared(shards) => hashes.iter().all(|hash| shards.position(*hash).is_some()),
            ShardAccess::Whole(store, _) => store.is_exclusive() || hashes.is_empty(),
        }
    }

    /// Returns the numbers of the databases that were ever used, in ascending order; for calls declared EXCLUSIVE, and
    /// calls without keys.
    pub(super) fn used_databases(&self) -> Vec<usize> {
        match self {
            ShardAccess::Whole(store, _) => store.used(),
            ShardAccess::Declared(_) => unreachable!("{NOT_EXCLUSIVE}"),
        }
    }
}

impl<'a> DeclaredShards<'a> {
    #[inline(always)] // as GateGuard::view
    fn lock(database: &'a Shards, hashes: &[u64]) -> Self {
        let lock = |index: usize| LockedShard::Own(database[index].lock());
        let locked = match hashes {
            [hash] => SmallVec::from_iter([lock(shard_of(*hash))]),
            hashes => {
                let mut indexes: SmallVec<[usize; 16]> = hashes.iter().map(|hash| shard_of(*hash)).collect();
                indexes.sort_unstable();
                indexes.dedup();
                indexes.into_iter().map(lock).collect()
            }
        };
        DeclaredShards { database: Some(database), locked }
    }

    /// See [`ShardAccess::move_on`].
    #[inline]
    fn move_on(&mut self, hashes: &[u64]) -> bool {
        let (Some(database), [locked], [hash]) = (self.database, &self.locked[..], hashes) else { return false };
        if locked.keys.index() != shard_of(*hash) {
            self.locked.clear(); // a thread holds one shard at a time, or locks several in their order
            self.locked.push(LockedShard::Own(database[shard_of(*hash)].lock()));
        }
        true
    }

    /// Returns the position of a key's shard among the locked ones.
    fn position(&self, hash: u64) -> Option<usize> {
        self.locked.binary_search_by_key(&shard_of(hash), |shard| shard.keys.index()).ok()
    }

    /// Borrows the shard of a declared key.
    #[inline(always)] // as ShardAccess::shard
    fn of(&mut self, hash: u64) -> &mut Shard {
        let position = if self.locked.len() == 1 { 0 } else { self.position(hash).expect(UNDECLARED) };
        let shard = &mut self.locked[position];
        debug_assert_eq!(shard.keys.index(), shard_of(hash), "{UNDECLARED}");
        shard
    }

    fn lend(&mut self) -> DeclaredShards<'_> {
        DeclaredShards {
            database: None,
            locked: self.locked.iter_mut().map(|shard| LockedShard::Lent(shard)).collect(),
        }
    }
}

impl Deref for LockedShard<'_> {
    type Target = Shard;

    #[inline]
    fn deref(&self) -> &Shard {
        match self {
            LockedShard::Own(shard) => shard,
            LockedShard::Lent(shard) => shard,
        }
    }
}

impl DerefMut for LockedShard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Shard {
        match self {
            LockedShard::Own(shard) => shard,
            LockedShard::Lent(shard) => shard,
        }
    }
}
