//! The shards that a view has locked: the only access from a call to the data.

use parking_lot::MutexGuard;
use smallvec::SmallVec;

use crate::store::databases::{Databases, Shards};
use crate::store::key::{Key, shard_of};
use crate::store::shard::Shard;

/// The shards that a view has locked.
pub(super) enum ShardAccess<'a> {
    /// One shard of a database.
    One(&'a Shards, MutexGuard<'a, Shard>),
    Few(SmallVec<[(usize, MutexGuard<'a, Shard>); 8]>),
    /// Shards locked by another view.
    Borrowed(SmallVec<[(usize, &'a mut Shard); 8]>),
    /// Any shard of a database, each locked only while it is used.
    Gate(&'a Databases, usize),
    /// Everything.
    Whole(&'a mut Databases, usize),
    Closed,
}

pub(super) const NO_KEYS: &str = "calls over a whole database declare no keys";
pub(super) const NOT_EXCLUSIVE: &str = "calls that need the whole store are declared EXCLUSIVE";
pub(super) const UNDECLARED: &str = "a handler reads only the keys its row declares";

impl<'a> ShardAccess<'a> {
    /// Locks the shards of keys with these hashes.
    #[inline(always)] // as GateGuard::view
    pub(super) fn locked(databases: &'a Databases, db: usize, hashes: &[u64]) -> Self {
        match hashes {
            [] => ShardAccess::Gate(databases, db),
            [hash] => ShardAccess::one(databases.at(db).shards(), *hash),
            _ => {
                let shards = databases.at(db).shards();
                let mut indexes: SmallVec<[usize; 16]> = hashes.iter().map(|hash| shard_of(*hash)).collect();
                indexes.sort_unstable();
                indexes.dedup();
                ShardAccess::Few(indexes.into_iter().map(|index| (index, shards[index].lock())).collect())
            }
        }
    }

    #[inline]
    fn one(shards: &'a Shards, hash: u64) -> Self {
        ShardAccess::One(shards, shards[shard_of(hash)].lock())
    }

    /// Locks the shard of the next call's key instead; returns false if that is not possible, because the view has
    /// locked several shards.
    #[inline]
    pub(super) fn move_on(&mut self, hashes: &[u64]) -> bool {
        match (&*self, hashes) {
            (ShardAccess::Whole(..), _) => true,
            (ShardAccess::One(shards, shard), [hash]) => {
                if shard.keys.index() != shard_of(*hash) {
                    let shards = *shards;
                    *self = ShardAccess::Closed; // a thread holds one shard at a time, or locks several in their order
                    *self = ShardAccess::one(shards, *hash);
                }
                true
            }
            _ => false,
        }
    }

    /// Borrows the shard of a declared key.
    #[inline(always)] // three calls deep in every look-up
    pub(super) fn shard(&mut self, key: Key<'_>) -> &mut Shard {
        match self {
            ShardAccess::One(_, shard) => {
                debug_assert_eq!(shard.keys.index(), shard_of(key.hash), "{UNDECLARED}");
                shard
            }
            ShardAccess::Few(shards) => {
                let at = shards.binary_search_by_key(&shard_of(key.hash), |(index, _)| *index).expect(UNDECLARED);
                &mut shards[at].1
            }
            ShardAccess::Borrowed(shards) => {
                let at = shards.binary_search_by_key(&shard_of(key.hash), |(index, _)| *index).expect(UNDECLARED);
                shards[at].1
            }
            ShardAccess::Whole(databases, db) => databases.at_mut(*db).shard_of(key.hash),
            ShardAccess::Gate(..) | ShardAccess::Closed => unreachable!("{UNDECLARED}"),
        }
    }

    /// Calls `act` with a shard of a database, by default the present one; for calls that declare no keys.
    pub(super) fn with_shard<T>(&mut self, db: Option<usize>, index: usize, act: impl FnOnce(&mut Shard) -> T) -> T {
        match self {
            ShardAccess::Gate(databases, present) => {
                act(&mut databases.at(db.unwrap_or(*present)).shards()[index].lock())
            }
            ShardAccess::Whole(databases, present) => act(databases.at_mut(db.unwrap_or(*present)).shard_mut(index)),
            ShardAccess::One(..) | ShardAccess::Few(_) | ShardAccess::Borrowed(_) | ShardAccess::Closed => {
                unreachable!("{NO_KEYS}")
            }
        }
    }

    /// Returns true if no keys are declared, so that any shard may be locked.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, ShardAccess::Gate(..) | ShardAccess::Whole(..))
    }

    /// Calls `act` with the shard of a key of any database, locked or not; does nothing in a view of nothing.
    pub(super) fn with_any(&mut self, db: usize, key: Key<'_>, act: impl FnOnce(&mut Shard)) {
        match self {
            ShardAccess::Gate(..) | ShardAccess::Whole(..) => self.with_shard(Some(db), shard_of(key.hash), act),
            ShardAccess::One(..) | ShardAccess::Few(_) | ShardAccess::Borrowed(_) => act(self.shard(key)),
            ShardAccess::Closed => {}
        }
    }

    /// Calls `act` with every locked shard; if no keys were declared, with the shards of all databases.
    pub(super) fn each_shard(&mut self, mut act: impl FnMut(&mut Shard)) {
        match self {
            ShardAccess::One(_, shard) => act(shard),
            ShardAccess::Few(shards) => shards.iter_mut().for_each(|(_, shard)| act(shard)),
            ShardAccess::Borrowed(shards) => shards.iter_mut().for_each(|(_, shard)| act(shard)),
            ShardAccess::Whole(databases, _) => databases.each_shard_mut(act),
            ShardAccess::Gate(databases, _) => databases.each_shard(act),
            ShardAccess::Closed => {}
        }
    }

    /// Borrows everything, with the number of the present database; for calls declared EXCLUSIVE.
    pub(super) fn whole(&mut self) -> (&mut Databases, usize) {
        match self {
            ShardAccess::Whole(databases, db) => (databases, *db),
            _ => unreachable!("{NOT_EXCLUSIVE}"),
        }
    }

    /// Borrows every locked shard for reading, in ascending order of their numbers.
    pub(super) fn shards(&mut self) -> SmallVec<[(usize, &Shard); 8]> {
        match self {
            ShardAccess::One(_, shard) => std::iter::once((shard.keys.index(), &**shard)).collect(),
            ShardAccess::Few(shards) => shards.iter().map(|(index, shard)| (*index, &**shard)).collect(),
            ShardAccess::Borrowed(shards) => shards.iter().map(|(index, shard)| (*index, &**shard)).collect(),
            ShardAccess::Whole(databases, db) => {
                let shards = databases.at_mut(*db).shards_mut().iter_mut();
                shards.map(|shard| &*shard.get_mut()).enumerate().collect()
            }
            ShardAccess::Gate(..) | ShardAccess::Closed => unreachable!("{UNDECLARED}"),
        }
    }

    /// Returns the numbers of the locked shards; `None` if they may be any.
    pub(super) fn numbers(&self) -> Option<SmallVec<[usize; 8]>> {
        match self {
            ShardAccess::One(_, shard) => Some(std::iter::once(shard.keys.index()).collect()),
            ShardAccess::Few(shards) => Some(shards.iter().map(|(index, _)| *index).collect()),
            ShardAccess::Borrowed(shards) => Some(shards.iter().map(|(index, _)| *index).collect()),
            ShardAccess::Gate(..) | ShardAccess::Whole(..) => None,
            ShardAccess::Closed => Some(SmallVec::new()),
        }
    }

    /// Lends all locked shards, in database `db` if everything is locked.
    pub(super) fn lend(&mut self, db: usize) -> ShardAccess<'_> {
        match self {
            ShardAccess::One(_, shard) => {
                ShardAccess::Borrowed(std::iter::once((shard.keys.index(), &mut **shard)).collect())
            }
            ShardAccess::Few(shards) => {
                ShardAccess::Borrowed(shards.iter_mut().map(|(index, shard)| (*index, &mut **shard)).collect())
            }
            ShardAccess::Borrowed(shards) => {
                ShardAccess::Borrowed(shards.iter_mut().map(|(index, shard)| (*index, &mut **shard)).collect())
            }
            ShardAccess::Gate(databases, _) => ShardAccess::Gate(databases, db),
            ShardAccess::Whole(databases, _) => ShardAccess::Whole(databases, db),
            ShardAccess::Closed => ShardAccess::Closed,
        }
    }

    /// Switches to another database; returns the previous one.
    pub(super) fn aim(&mut self, db: usize) -> usize {
        match self {
            ShardAccess::Whole(_, aimed) | ShardAccess::Gate(_, aimed) => std::mem::replace(aimed, db),
            _ => unreachable!("{NOT_EXCLUSIVE}"),
        }
    }

    /// Returns true if the keys with these hashes are locked.
    pub(super) fn covers(&self, hashes: &[u64]) -> bool {
        let mut indexes = hashes.iter().map(|hash| shard_of(*hash));
        match self {
            ShardAccess::One(_, shard) => indexes.all(|index| index == shard.keys.index()),
            ShardAccess::Few(shards) => {
                indexes.all(|index| shards.binary_search_by_key(&index, |(other, _)| *other).is_ok())
            }
            ShardAccess::Borrowed(shards) => {
                indexes.all(|index| shards.binary_search_by_key(&index, |(other, _)| *other).is_ok())
            }
            ShardAccess::Whole(..) => true,
            ShardAccess::Gate(..) | ShardAccess::Closed => hashes.is_empty(),
        }
    }

    /// Returns the numbers of the databases that were ever used, in ascending order; for calls declared EXCLUSIVE, and
    /// calls without keys.
    pub(super) fn used_databases(&self) -> Vec<usize> {
        match self {
            ShardAccess::Whole(databases, _) => databases.used(),
            ShardAccess::Gate(databases, _) => databases.used(),
            _ => unreachable!("{NOT_EXCLUSIVE}"),
        }
    }
}
