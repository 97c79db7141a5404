//! The shards that a view may use: the only access from a call to the data.

use std::ops::{Deref, DerefMut};

use parking_lot::MutexGuard;
use smallvec::SmallVec;

use crate::store::databases::{Databases, Shards, WholeStore};
use crate::store::key::{Key, shard_of};
use crate::store::shard::Shard;

/// The shards that a view may use: those of the declared keys, or any.
pub(super) enum ShardAccess<'a> {
    /// The shard of the declared key, and all shards of its database, from which a run of calls locks that of its next
    /// call; `None` if the shard is lent.
    One(LockedShard<'a>, Option<&'a Shards>),
    /// The shards of the declared keys, in ascending order of their numbers; none in a view of nothing.
    Several(SmallVec<[LockedShard<'a>; 8]>),
    /// Any shard of any database; the number is that of the present one.
    Whole(WholeStore<'a>, usize),
}

/// A shard that is locked for a call, or lent to a nested one.
pub(super) enum LockedShard<'a> {
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
            [hash] => ShardAccess::one(databases.at(db).shards(), *hash),
            _ => {
                let shards = databases.at(db).shards();
                let mut indexes: SmallVec<[usize; 16]> = hashes.iter().map(|hash| shard_of(*hash)).collect();
                indexes.sort_unstable();
                indexes.dedup();
                ShardAccess::Several(indexes.into_iter().map(|index| LockedShard::Own(shards[index].lock())).collect())
            }
        }
    }

    #[inline]
    fn one(shards: &'a Shards, hash: u64) -> Self {
        ShardAccess::One(LockedShard::Own(shards[shard_of(hash)].lock()), Some(shards))
    }

    /// Returns the access of a view of nothing.
    pub(super) fn closed() -> Self {
        ShardAccess::Several(SmallVec::new())
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self, ShardAccess::Several(shards) if shards.is_empty())
    }

    /// Locks the shard of the next call's key instead; returns false if that is not possible, because the view has
    /// locked several shards.
    #[inline]
    pub(super) fn move_on(&mut self, hashes: &[u64]) -> bool {
        match (&*self, hashes) {
            (ShardAccess::One(shard, Some(shards)), [hash]) => {
                if shard.keys.index() != shard_of(*hash) {
                    let shards = *shards;
                    *self = ShardAccess::closed(); // a thread holds one shard at a time, or locks several in their order
                    *self = ShardAccess::one(shards, *hash);
                }
                true
            }
            (ShardAccess::Whole(store, _), _) => store.is_exclusive(),
            _ => false,
        }
    }

    /// Borrows the shard of a declared key.
    #[inline(always)] // three calls deep in every look-up
    pub(super) fn shard(&mut self, key: Key<'_>) -> &mut Shard {
        match self {
            ShardAccess::One(LockedShard::Own(shard), _) => {
                debug_assert_eq!(shard.keys.index(), shard_of(key.hash), "{UNDECLARED}");
                shard
            }
            ShardAccess::One(LockedShard::Lent(shard), _) => {
                assert_eq!(shard.keys.index(), shard_of(key.hash), "{UNDECLARED}");
                shard
            }
            ShardAccess::Several(shards) => {
                let at = position(shards, key.hash).expect(UNDECLARED);
                &mut shards[at]
            }
            ShardAccess::Whole(WholeStore::Exclusive(databases), db) => databases.at_mut(*db).shard_of(key.hash),
            ShardAccess::Whole(WholeStore::Shared(_), _) => unreachable!("{UNDECLARED}"),
        }
    }

    /// Calls `act` with a shard of a database, by default the present one; for calls that declare no keys.
    pub(super) fn with_shard<T>(&mut self, db: Option<usize>, index: usize, act: impl FnOnce(&mut Shard) -> T) -> T {
        match self {
            ShardAccess::Whole(store, present) => store.with_shard(db.unwrap_or(*present), index, act),
            ShardAccess::One(..) | ShardAccess::Several(_) => unreachable!("{NO_KEYS}"),
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
            ShardAccess::Several(shards) if shards.is_empty() => {}
            ShardAccess::One(..) | ShardAccess::Several(_) => act(self.shard(key)),
        }
    }

    /// Calls `act` with every locked shard; if no keys were declared, with the shards of all databases.
    pub(super) fn each_shard(&mut self, mut act: impl FnMut(&mut Shard)) {
        match self {
            ShardAccess::One(shard, _) => act(shard),
            ShardAccess::Several(shards) => shards.iter_mut().for_each(|shard| act(shard)),
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
            ShardAccess::One(shard, _) => std::iter::once(&**shard).collect(),
            ShardAccess::Several(shards) => shards.iter().map(|shard| &**shard).collect(),
            ShardAccess::Whole(WholeStore::Exclusive(databases), db) => {
                databases.at_mut(*db).shards_mut().iter_mut().map(|shard| &*shard.get_mut()).collect()
            }
            ShardAccess::Whole(WholeStore::Shared(_), _) => unreachable!("{UNDECLARED}"),
        }
    }

    /// Returns the numbers of the locked shards; `None` if they may be any.
    pub(super) fn numbers(&self) -> Option<SmallVec<[usize; 8]>> {
        match self {
            ShardAccess::One(shard, _) => Some(std::iter::once(shard.keys.index()).collect()),
            ShardAccess::Several(shards) => Some(shards.iter().map(|shard| shard.keys.index()).collect()),
            ShardAccess::Whole(..) => None,
        }
    }

    /// Lends all locked shards, in database `db` if everything is locked.
    pub(super) fn lend(&mut self, db: usize) -> ShardAccess<'_> {
        match self {
            ShardAccess::One(shard, _) => ShardAccess::One(LockedShard::Lent(shard), None),
            ShardAccess::Several(shards) => {
                ShardAccess::Several(shards.iter_mut().map(|shard| LockedShard::Lent(shard)).collect())
            }
            ShardAccess::Whole(store, _) => ShardAccess::Whole(store.lend(), db),
        }
    }

    /// Switches to another database; returns the previous one.
    pub(super) fn aim(&mut self, db: usize) -> usize {
        match self {
            ShardAccess::Whole(_, aimed) => std::mem::replace(aimed, db),
            ShardAccess::One(..) | ShardAccess::Several(_) => unreachable!("{NOT_EXCLUSIVE}"),
        }
    }

    /// Returns true if the keys with these hashes are locked.
    pub(super) fn covers(&self, hashes: &[u64]) -> bool {
        match self {
            ShardAccess::One(shard, _) => hashes.iter().all(|hash| shard_of(*hash) == shard.keys.index()),
            ShardAccess::Several(shards) => hashes.iter().all(|hash| position(shards, *hash).is_some()),
            ShardAccess::Whole(store, _) => store.is_exclusive() || hashes.is_empty(),
        }
    }

    /// Returns the numbers of the databases that were ever used, in ascending order; for calls declared EXCLUSIVE, and
    /// calls without keys.
    pub(super) fn used_databases(&self) -> Vec<usize> {
        match self {
            ShardAccess::Whole(store, _) => store.used(),
            ShardAccess::One(..) | ShardAccess::Several(_) => unreachable!("{NOT_EXCLUSIVE}"),
        }
    }
}

/// Returns the position of a key's shard among several.
fn position(shards: &[LockedShard<'_>], hash: u64) -> Option<usize> {
    shards.binary_search_by_key(&shard_of(hash), |shard| shard.keys.index()).ok()
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
