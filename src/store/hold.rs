//! Holds on the gate, which open the views of calls.

use crate::store::change_records::ChangeRecords;
use crate::store::changes::{ChangeCx, HeldRecords};
use crate::store::cx::Cx;
use crate::store::databases::{Databases, WholeStore};
use crate::store::event::EventSink;
use crate::store::gate;
use crate::store::interest::ReadyKeys;
use crate::store::key::{KeyName, SHARDS};
use crate::store::shard::Shard;
use crate::store::view::View;

/// A hold on the gate, if it could be acquired.
pub struct GateGuard<'a> {
    held: HeldRecords<'a>, // first, so that it is dropped before another thread holds the gate
    pub(super) gate: HeldGate<'a>,
}

/// State of the gate for its holder.
pub(super) enum HeldGate<'a> {
    /// Ordinary calls of other threads run concurrently.
    Shared(gate::SharedGuard<'a, Databases>),
    /// No other call runs.
    Exclusive(gate::ExclusiveGuard<'a, Databases>),
    /// Not acquired: a busy script holds the gate.
    Refused,
}

impl HeldGate<'_> {
    /// Returns all databases; `None` if the gate could not be acquired.
    #[inline]
    pub(super) fn whole(&mut self) -> Option<WholeStore<'_>> {
        match self {
            HeldGate::Shared(guard) => Some(WholeStore::Shared(&guard.value)),
            HeldGate::Exclusive(guard) => Some(WholeStore::Exclusive(&mut guard.value)),
            HeldGate::Refused => None,
        }
    }
}

/// A hold on the gate that no other call shares.
pub struct ExclusiveHold<'a> {
    held: HeldRecords<'a>, // as in a guard
    pub(super) guard: gate::ExclusiveGuard<'a, Databases>,
}

impl<'a> GateGuard<'a> {
    #[inline(always)] // as Store::hold
    pub(super) fn shared(guard: Option<gate::SharedGuard<'a, Databases>>, events: &'a EventSink) -> Self {
        GateGuard { held: HeldRecords::new(events), gate: guard.map_or(HeldGate::Refused, HeldGate::Shared) }
    }

    #[inline]
    pub(super) fn exclusive(guard: Option<gate::ExclusiveGuard<'a, Databases>>, events: &'a EventSink) -> Self {
        GateGuard { held: HeldRecords::new(events), gate: guard.map_or(HeldGate::Refused, HeldGate::Exclusive) }
    }
}

impl GateGuard<'_> {
    /// Returns true if the gate could not be acquired, because a busy script holds it.
    #[inline]
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.gate, HeldGate::Refused)
    }

    /// Returns true if ordinary calls of other threads run concurrently.
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.gate, HeldGate::Shared(_))
    }

    /// Returns true if no other call runs.
    #[inline]
    pub(crate) fn is_exclusive(&self) -> bool {
        matches!(self.gate, HeldGate::Exclusive(_))
    }

    /// Returns true if the gate was contended, so that an earlier reading of the time is stale.
    #[inline]
    pub fn has_waited(&self) -> bool {
        match &self.gate {
            HeldGate::Shared(guard) => guard.has_waited,
            HeldGate::Exclusive(guard) => guard.has_waited,
            HeldGate::Refused => true,
        }
    }

    /// Opens one database: the shards of the keys with these hashes, or the whole database if the gate is held
    /// exclusively.
    #[inline(always)] // a view is long: where it is returned by a call, copying it costs a fortieth of a GET
    pub fn view(&mut self, db: usize, hashes: &[u64], cx: Cx) -> View<'_> {
        let cx = ChangeCx::new(cx, self.held.records());
        match &mut self.gate {
            HeldGate::Shared(guard) => View::locked(&guard.value, db, hashes, cx),
            HeldGate::Exclusive(guard) => View::whole(&mut guard.value, db, cx),
            HeldGate::Refused => View::closed(cx),
        }
    }
}

impl GateGuard<'_> {
    /// Locks a shard, unless its database was never used.
    pub(super) fn with_shard<T>(&mut self, db: usize, index: usize, act: impl FnOnce(&mut Shard) -> T) -> Option<T> {
        self.with_shard_and_records(db, index, |shard, _| act(shard))
    }

    /// Locks a shard, unless its database was never used, for changes that are not those of a call.
    pub(super) fn change_shard<T>(
        &mut self,
        (db, index): (usize, usize),
        cx: &Cx,
        act: impl FnOnce(&mut Shard, &mut ChangeCx<'_>) -> T,
    ) -> Option<T> {
        self.with_shard_and_records(db, index, |shard, records| act(shard, &mut ChangeCx::new(*cx, records)))
    }

    fn with_shard_and_records<T>(
        &mut self,
        db: usize,
        index: usize,
        act: impl FnOnce(&mut Shard, &mut ChangeRecords) -> T,
    ) -> Option<T> {
        let records = self.held.records();
        self.gate.whole()?.with_used_shard(db, index, |shard| act(shard, records))
    }

    /// Takes the changed keys with blocked clients of all shards, each with the number of its database, in the order of
    /// their changes. No view has taken these keys, because they changed without a call or in a call that had declared
    /// no keys.
    pub fn take_ready(&mut self) -> Vec<KeyName> {
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
                self.with_shard_and_records(db, index, |shard, records| {
                    shard.recover(&mut ChangeCx::new(*cx, records));
                });
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
    pub(super) fn used(&mut self) -> Vec<usize> {
        self.gate.whole().map_or_else(Vec::new, |store| store.used())
    }
}

impl<'a> From<ExclusiveHold<'a>> for GateGuard<'a> {
    fn from(ExclusiveHold { held, guard }: ExclusiveHold<'a>) -> Self {
        GateGuard { held, gate: HeldGate::Exclusive(guard) }
    }
}

impl<'a> ExclusiveHold<'a> {
    #[inline]
    pub(super) fn new(guard: gate::ExclusiveGuard<'a, Databases>, events: &'a EventSink) -> Self {
        ExclusiveHold { held: HeldRecords::new(events), guard }
    }

    /// Opens one database as a whole.
    pub fn view(&mut self, db: usize, cx: Cx) -> View<'_> {
        View::whole(&mut self.guard.value, db, ChangeCx::new(cx, self.held.records()))
    }
}
