//! The databases of a store: the *near* ones, which a client can select in every store, and in a store without a limit
//! any number of *far* ones, each created on first use.
//!
//! Far databases are in linked lists that only grow, so that a call which shares the gate with other calls can add one.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use crate::store::key::{SHARDS, shard_of};
use crate::store::services::Services;
use crate::store::shard::Shard;

/// Limit of far databases: a sweep visits every shard of all databases, which takes about a millisecond with this many.
pub(super) const FAR_MAX: usize = 1_000;

/// Number of linked lists of far databases: enough to keep each list short.
const LISTS: usize = 256;

pub(super) type Shards = Box<[CachePadded<Mutex<Shard>>]>;

/// One database; its shards are created on first use.
pub(super) struct Database {
    number: usize,
    pub(super) shards: OnceLock<Shards>,
    services: Services,
}

/// All databases of a store, by number.
pub(crate) struct Databases {
    /// Near databases, by number.
    near: Box<[Database]>,
    /// Far databases, by number modulo [`LISTS`].
    far: OnceLock<Box<Far>>,
    far_count: Arc<AtomicUsize>,
    services: Services,
}

/// All databases, by the hold on the gate.
pub(super) enum WholeStore<'a> {
    /// Other calls run concurrently: each shard is locked while it is used.
    Shared(&'a Databases),
    /// No other call runs.
    Exclusive(&'a mut Databases),
}

type Far = [Link; LISTS];

type Link = OnceLock<Box<Node>>;

struct Node {
    database: Database,
    next: Link,
}

impl Database {
    fn new(number: usize, services: &Services) -> Self {
        Database { number, shards: OnceLock::new(), services: services.clone() }
    }

    #[inline]
    pub(super) fn shards(&self) -> &Shards {
        self.shards.get().unwrap_or_else(|| self.make_shards())
    }

    #[cold]
    fn make_shards(&self) -> &Shards {
        let shards = self.shards.get_or_init(|| {
            let shard = |index| Shard::new((self.number, index), &self.services);
            (0..SHARDS).map(|index| CachePadded::new(Mutex::new(shard(index)))).collect()
        });
        // A concurrent sweep may have skipped this database, and no shard's lock has synchronised this thread with the
        // reset of the sweep timer: the first deadline could be mistaken for one later than the sweeper expects.
        self.services.sweep_timer.wake();
        shards
    }

    pub(super) fn shards_mut(&mut self) -> &mut Shards {
        self.shards();
        self.shards.get_mut().expect("made on the line above")
    }

    pub(super) fn shard_mut(&mut self, index: usize) -> &mut Shard {
        self.shards_mut()[index].get_mut()
    }

    pub(super) fn shard_of(&mut self, hash: u64) -> &mut Shard {
        self.shard_mut(shard_of(hash))
    }
}

impl Databases {
    /// Creates the near databases, `count` of them, empty. Far databases will be counted in `far_count`.
    pub(super) fn new(count: usize, far_count: Arc<AtomicUsize>, services: &Services) -> Self {
        let near = (0..count).map(|number| Database::new(number, services)).collect();
        Databases { near, far: OnceLock::new(), far_count, services: services.clone() }
    }

    #[inline]
    pub(super) fn at(&self, db: usize) -> &Database {
        self.near.get(db).unwrap_or_else(|| self.far_at(db))
    }

    #[cold]
    fn far_at(&self, db: usize) -> &Database {
        let far = self.far.get_or_init(|| Box::new(std::array::from_fn(|_| OnceLock::new())));
        let mut link = &far[db % LISTS];
        loop {
            let node = link.get_or_init(|| {
                self.far_count.fetch_add(1, Relaxed);
                Box::new(Node { database: Database::new(db, &self.services), next: OnceLock::new() })
            });
            if node.database.number == db {
                return &node.database;
            }
            link = &node.next;
        }
    }

    #[inline]
    pub(super) fn at_mut(&mut self, db: usize) -> &mut Database {
        if db < self.near.len() { &mut self.near[db] } else { self.far_at_mut(db) }
    }

    #[cold]
    fn far_at_mut(&mut self, db: usize) -> &mut Database {
        const MADE: &str = "made on the first line";
        self.far_at(db);
        let mut link = &mut self.far.get_mut().expect(MADE)[db % LISTS];
        while link.get().is_some_and(|node| node.database.number != db) {
            link = &mut link.get_mut().expect(MADE).next;
        }
        &mut link.get_mut().expect(MADE).database
    }

    fn far_numbers(&self) -> Vec<usize> {
        let lists = self.far.get().into_iter().flat_map(|far| far.iter());
        let nodes = lists.flat_map(|list| std::iter::successors(list.get(), |node| node.next.get()));
        nodes.map(|node| node.database.number).collect()
    }

    /// Returns the numbers of the databases that were ever used, in ascending order.
    pub(super) fn used(&self) -> Vec<usize> {
        let is_used = |db: &usize| self.at(*db).shards.get().is_some();
        let mut used: Vec<usize> = (0..self.near.len()).chain(self.far_numbers()).filter(is_used).collect();
        used.sort_unstable();
        used
    }

    /// Calls `act` with every shard of the databases that were ever used, one locked shard at a time.
    pub(super) fn each_shard(&self, mut act: impl FnMut(&mut Shard)) {
        let used = self.used().into_iter().filter_map(|db| self.at(db).shards.get());
        used.flatten().for_each(|shard| act(&mut shard.lock()));
    }

    /// Calls `act` with every shard of the databases that were ever used, without locking: the access is exclusive.
    pub(super) fn each_shard_mut(&mut self, mut act: impl FnMut(&mut Shard)) {
        for db in self.used() {
            self.at_mut(db).shards_mut().iter_mut().for_each(|shard| act(shard.get_mut()));
        }
    }

    /// Returns the services that all shards share.
    pub(super) fn services(&self) -> &Services {
        &self.services
    }

    /// Swaps the keys of two databases by calling `swap` with each pair of their shards.
    pub(super) fn swap(&mut self, one: usize, other: usize, mut swap: impl FnMut(&mut Shard, &mut Shard)) {
        // Only one database can be borrowed mutably at a time, so the shards of the first are moved out meanwhile.
        let mut shards = std::mem::take(self.at_mut(one).shards_mut());
        let others = self.at_mut(other).shards_mut().iter_mut();
        let swapped = catch_unwind(AssertUnwindSafe(|| {
            shards.iter_mut().zip(others).for_each(|(shard, other)| swap(shard.get_mut(), other.get_mut()));
        }));
        *self.at_mut(one).shards_mut() = shards;
        swapped.unwrap_or_else(|panic| resume_unwind(panic));
    }

    /// Swaps the keys of all databases with the keys of another store by calling `swap` with each pair of shards.
    pub(super) fn exchange(&mut self, other: &mut Databases, mut swap: impl FnMut(&mut Shard, &mut Shard)) {
        let used: BTreeSet<usize> = self.used().into_iter().chain(other.used()).collect();
        for db in used {
            let (shards, others) = (self.at_mut(db).shards_mut().iter_mut(), other.at_mut(db).shards_mut().iter_mut());
            shards.zip(others).for_each(|(shard, other)| swap(shard.get_mut(), other.get_mut()));
        }
    }
}

impl WholeStore<'_> {
    /// Calls `act` with a shard.
    pub(super) fn with_shard<T>(&mut self, db: usize, index: usize, act: impl FnOnce(&mut Shard) -> T) -> T {
        match self {
            WholeStore::Shared(databases) => act(&mut databases.at(db).shards()[index].lock()),
            WholeStore::Exclusive(databases) => act(databases.at_mut(db).shard_mut(index)),
        }
    }

    /// Calls `act` with a shard, unless its database was never used.
    pub(super) fn with_used_shard<T>(
        &mut self,
        db: usize,
        index: usize,
        act: impl FnOnce(&mut Shard) -> T,
    ) -> Option<T> {
        match self {
            WholeStore::Shared(databases) => Some(act(&mut databases.at(db).shards.get()?[index].lock())),
            WholeStore::Exclusive(databases) => Some(act(databases.at_mut(db).shards.get_mut()?[index].get_mut())),
        }
    }

    /// Calls `act` with every shard of the databases that were ever used.
    pub(super) fn each_shard(&mut self, act: impl FnMut(&mut Shard)) {
        match self {
            WholeStore::Shared(databases) => databases.each_shard(act),
            WholeStore::Exclusive(databases) => databases.each_shard_mut(act),
        }
    }

    /// Calls `act` with each hash and its shard.
    #[inline]
    pub(super) fn each_of(&mut self, db: usize, hashes: &[u64], mut act: impl FnMut(u64, &mut Shard)) {
        match self {
            WholeStore::Shared(databases) => {
                let shards = databases.at(db).shards();
                hashes.iter().for_each(|&hash| act(hash, &mut shards[shard_of(hash)].lock()));
            }
            WholeStore::Exclusive(databases) => {
                let shards = databases.at_mut(db).shards_mut();
                hashes.iter().for_each(|&hash| act(hash, shards[shard_of(hash)].get_mut()));
            }
        }
    }

    /// Returns the numbers of the databases that were ever used, in ascending order.
    pub(super) fn used(&self) -> Vec<usize> {
        match self {
            WholeStore::Shared(databases) => databases.used(),
            WholeStore::Exclusive(databases) => databases.used(),
        }
    }

    /// Returns true if no other call runs.
    pub(super) fn is_exclusive(&self) -> bool {
        matches!(self, WholeStore::Exclusive(_))
    }

    pub(super) fn lend(&mut self) -> WholeStore<'_> {
        match self {
            WholeStore::Shared(databases) => WholeStore::Shared(databases),
            WholeStore::Exclusive(databases) => WholeStore::Exclusive(databases),
        }
    }
}
