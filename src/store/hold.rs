//! Holds on the gate, which open the views of calls.

use crate::store::cx::Cx;
use crate::store::databases::Databases;
use crate::store::gate;
use crate::store::interest::ReadyKeys;
use crate::store::key::SHARDS;
use crate::store::shard::Shard;
use crate::store::view::View;

/// A shared hold on the gate.
pub struct SharedHold<'a>(pub(super) gate::SharedGuard<'a, Databases>);

/// An exclusive hold on the gate.
pub struct ExclusiveHold<'a>(pub(super) gate::ExclusiveGuard<'a, Databases>);

/// A hold on the gate, if it could be acquired.
pub enum GateGuard<'a> {
    /// Ordinary calls of other threads run concurrently.
    Shared(SharedHold<'a>),
    /// No other call runs.
    Exclusive(ExclusiveHold<'a>),
    /// Not acquired: a busy script holds the gate.
    Refused,
}

impl GateGuard<'_> {
    /// Returns true if the gate was contended, so that an earlier reading of the time is stale.
    #[inline]
    pub fn has_waited(&self) -> bool {
        match self {
            GateGuard::Shared(shared) => shared.0.has_waited,
            GateGuard::Exclusive(exclusive) => exclusive.0.has_waited,
            GateGuard::Refused => true,
        }
    }

    /// Opens one database: the shards of the keys with these hashes, or the whole database if the gate is held
    /// exclusively.
    #[inline(always)] // a view is long: where it is returned by a call, copying it costs a fortieth of a GET
    pub fn view(&mut self, db: usize, hashes: &[u64], cx: Cx) -> View<'_> {
        match self {
            GateGuard::Shared(shared) => View::locked(&shared.0.value, db, hashes, cx),
            GateGuard::Exclusive(exclusive) => exclusive.view(db, cx),
            GateGuard::Refused => View::closed(cx),
        }
    }
}

impl GateGuard<'_> {
    /// Locks a shard, unless its database was never used.
    pub(super) fn with_shard<T>(&mut self, db: usize, index: usize, act: impl FnOnce(&mut Shard) -> T) -> Option<T> {
        match self {
            GateGuard::Shared(shared) => Some(act(&mut shared.0.value.at(db).shards.get()?[index].lock())),
            GateGuard::Exclusive(exclusive) => {
                Some(act(exclusive.0.value.at_mut(db).shards.get_mut()?[index].get_mut()))
            }
            GateGuard::Refused => None,
        }
    }

    /// Takes the changed keys with blocked clients of all shards, each with the number of its database, in the order of
    /// their changes. No view has taken these keys, because they changed without a call or in a call that had declared
    /// no keys.
    pub fn take_ready(&mut self) -> Vec<(usize, Box<[u8]>)> {
        let mut ready = ReadyKeys::default();
        for db in self.used() {
            for index in 0..SHARDS {
                self.with_shard(db, index, |shard| shard.keys.take_ready(&mut ready));
            }
        }
        ready.in_order()
    }

    /// Makes those shards recount in which a panic has interrupted a change.
    pub fn recover(&mut self, cx: &Cx) {
        for db in self.used() {
            for index in 0..SHARDS {
                self.with_shard(db, index, |shard| shard.recover(cx));
            }
        }
    }

    /// Makes every shard report its memory.
    pub fn report(&mut self) {
        for db in self.used() {
            for index in 0..SHARDS {
                self.with_shard(db, index, |shard| shard.keys.report());
            }
        }
    }

    /// Returns the numbers of the databases that were ever used.
    pub(super) fn used(&self) -> Vec<usize> {
        match self {
            GateGuard::Shared(shared) => shared.0.value.used(),
            GateGuard::Exclusive(exclusive) => exclusive.0.value.used(),
            GateGuard::Refused => Vec::new(),
        }
    }
}

impl ExclusiveHold<'_> {
    /// Opens one database as a whole.
    pub fn view(&mut self, db: usize, cx: Cx) -> View<'_> {
        View::whole(&mut self.0.value, db, cx)
    }
}
