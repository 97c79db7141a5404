//! The store: databases, each divided into shards. Memory only: no wire, no sessions, no async, no clock.
//!
//! **Lock order.** First the gate, then shards in ascending order, each once.
//! - An ordinary call holds the gate *shared* ([`Store::hold`], for a whole pipelined batch) and locks
//!   the shards of its declared keys ([`GateGuard::view`]).
//! - EXEC and other calls whose keys are not known beforehand hold the gate *exclusively*
//!   ([`Store::exclusive`]); every shard is then plain `&mut` and none is locked. Where one thread executes all
//!   commands, a long batch does so too ([`Store::hold`]).
//! - Eviction ([`Store::evict_to_fit`]) takes the evictor between the gate and a shard, and compaction
//!   ([`Store::compact`]) the cursor.
//! - Nothing else takes two locks, and nothing awaits while it holds one.
//!
//! Invariant: a key is read and changed only through a [`View`], and changes only in the funnel of its [`Shard`].

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::time::clock::Now;

mod compact;
pub(crate) mod cx;
mod databases;
pub(crate) mod entry;
pub(crate) mod event;
pub(crate) mod evict;
pub(crate) mod expire;
mod fences;
mod gate;
mod generation;
mod image;
mod interest;
pub(crate) mod limits;
mod lock;
pub(crate) mod memory_account;
mod prefetch;
mod queues;
pub(crate) mod reclaim;
pub(crate) mod resident;
pub(crate) mod shard;
mod sweep;
mod sync;
pub(crate) mod table;
pub(crate) mod usage;
pub(crate) mod value;
pub(crate) mod view;

pub(crate) use cx::{Cx, Lookup, Origin};
pub(crate) use event::{ChangeLog, Classes, Event, EventSink, KeyspaceObserver};
pub(crate) use evict::{Eviction, Policy};
pub(crate) use expire::{NEVER, SweepTimer};
pub(crate) use gate::BusyFlag;
pub(crate) use image::{ByKey, CopyLimit, Image, LockImage, TooLarge};
pub(crate) use interest::WatchFlag;
pub(crate) use limits::{ListLimit, PackedLimit, StreamLimit};
pub(crate) use lock::{Hold, LockHolder, LockRecord, LockWaiter, Loss, LostLock};
pub(crate) use memory_account::{MemoryAccount, Share};
pub(crate) use prefetch::Element;
pub(crate) use queues::Waiter;
pub(crate) use shard::{Key, Shard, Totals};
pub(crate) use table::{Hasher, SCAN_POSITIONS};
pub(crate) use value::stream::{
    BigStream, Bound, Chunk, Consumer, ConsumerNumber, Group, Pending, References, Stream, StreamEntry, StreamId,
    StreamRef, Trim, Walk,
};
pub(crate) use value::{End, List, ListBuilder, ListRef, Node, NodeLimit, Str, StringHint, ValueRef, WrongType};
pub(crate) use view::{Lookups, Ttl, View, shard_of};

use databases::{Databases, FAR_MAX};
use evict::Evictor;
use gate::Gate;
use generation::Generation;
use interest::{ReadyKeys, TailWork};
use reclaim::Reclaimer;
use sweep::{Care, STEPPED_OVER_MS, Stumbles};

/// How many shards a database has: enough that two threads rarely contend, few enough that an idle server stays small.
pub(crate) const SHARDS: usize = 64;

/// The number of calls in a batch from which a thread that executes alone takes the gate exclusively.
const EXCLUSIVE_CALLS_MIN: usize = 4;

/// How many cursors a scan of a database has: one for every position of every shard's table.
pub(crate) const SCAN_CURSORS: u64 = SHARDS as u64 * table::SCAN_POSITIONS;

/// How many expired keys one sweep removes, all shards together: half a millisecond's work. It cycles through the
/// shards, a few keys each, so that no client waits for the same one repeatedly.
const SWEEP_KEYS: usize = 512;

/// How long the sweeper waits while a busy script holds the gate, in milliseconds.
const SWEEP_RETRY_MS: u64 = 20;

/// All databases of one namespace.
pub struct Store {
    gate: Gate<Databases>,
    /// That of what calls are admitted by.
    generation: Generation,
    services: Services,
    /// How many databases there are from the beginning.
    databases: usize,
    /// Whether there may be others.
    is_unlimited: bool,
    /// How many of those there are.
    far_count: Arc<AtomicUsize>,
    evictor: Mutex<Evictor>,
    /// The position of the next entries to move.
    compacting: Mutex<compact::Cursor>,
    /// The position of the shard that the next sweep begins with.
    sweep_next: AtomicUsize,
    /// How many threads execute commands.
    threads: usize,
    stumbles: Stumbles,
}

/// What all shards of a store share.
#[derive(Clone)]
pub(crate) struct Services {
    hasher: Hasher,
    sweep_timer: Arc<SweepTimer>,
    memory_account: Arc<MemoryAccount>,
    events: Arc<EventSink>,
    reclaimer: Arc<Reclaimer>,
    tail_work: Arc<TailWork>,
}

impl Store {
    /// Creates the first `databases`, empty, and lets clients use others if there is to be no limit. `threads` execute
    /// commands, `sweep_timer` is moved earlier by new deadlines, `memory_account` counts the memory, and `events`
    /// passes on changes of keys.
    pub fn new(
        (databases, is_unlimited): (usize, bool),
        threads: usize,
        sweep_timer: Arc<SweepTimer>,
        memory_account: Arc<MemoryAccount>,
        events: EventSink,
    ) -> Self {
        let tail_work = Arc::<TailWork>::default();
        let reclaimer = Arc::new(Reclaimer::new(memory_account.clone(), tail_work.clone()));
        let services = Services {
            hasher: Hasher::new(),
            sweep_timer,
            memory_account,
            events: Arc::new(events),
            reclaimer,
            tail_work,
        };
        let evictor = Mutex::new(Evictor::new(services.hasher.clone()));
        let far_count = Arc::<AtomicUsize>::default();
        let gate = Gate::new(Databases::new(databases, far_count.clone(), &services));
        Store {
            gate,
            generation: Generation::first(),
            services,
            databases,
            is_unlimited,
            far_count,
            evictor,
            compacting: Mutex::default(),
            sweep_next: AtomicUsize::new(0),
            threads,
            stumbles: Stumbles::default(),
        }
    }

    /// Returns the event sink.
    pub fn events(&self) -> &EventSink {
        &self.services.events
    }

    /// Returns the reclaimer, which frees large values.
    pub fn reclaimer(&self) -> &Arc<Reclaimer> {
        &self.services.reclaimer
    }

    /// Returns whether keys with blocked clients have changed and those clients were not served yet.
    #[inline]
    pub fn has_ready_keys(&self) -> bool {
        self.services.tail_work.has_ready_keys()
    }

    /// Returns whether clients are in line for locks.
    #[inline]
    pub fn has_lines(&self) -> bool {
        self.services.tail_work.has_lines()
    }

    /// Returns whether a call has work at its end: [`Store::has_ready_keys`], [`Store::is_logged`], [`Store::has_lines`] or
    /// [`Reclaimer::is_behind`].
    #[inline]
    pub fn has_tail_work(&self) -> bool {
        self.services.tail_work.is_any()
    }

    /// Returns whether changes are logged.
    #[inline]
    pub fn is_logged(&self) -> bool {
        self.services.tail_work.is_logged()
    }

    /// Sets whether changes are logged: by calls at their end, deletions that no command causes by the store itself.
    /// Must be called with the gate held exclusively, so that no call is half done.
    pub fn set_logged(&self, is_logged: bool) {
        self.services.tail_work.set_logged(is_logged);
        self.services.events.set_logged(is_logged);
    }

    /// Returns the memory usage and its limit.
    #[inline]
    pub fn memory_account(&self) -> &Arc<MemoryAccount> {
        &self.services.memory_account
    }

    /// Returns a key together with its hash.
    #[inline]
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        Key { bytes, hash: self.hash(bytes) }
    }

    /// Hashes a key.
    #[inline]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        self.services.hasher.hash_one(bytes)
    }

    /// Returns what hashes keys, and the fields and members of large values.
    pub fn hasher(&self) -> &Hasher {
        &self.services.hasher
    }

    /// Acquires the gate for a batch of `calls`. Where one thread executes everything, a long batch takes it
    /// exclusively: that costs as much as the locks of a few calls and saves those of all.
    pub fn hold(&self, calls: usize) -> GateGuard<'_> {
        match self.threads == 1 && calls >= EXCLUSIVE_CALLS_MIN {
            true => self.lock_exclusive(),
            false => self.gate.share().map_or(GateGuard::Refused, |databases| GateGuard::Shared(Shared(databases))),
        }
    }

    /// Returns whether a client may select a database. Of those beyond the first ones there may be a thousand.
    pub(crate) fn may_use(&self, db: usize) -> bool {
        db < self.databases || self.is_unlimited && self.far_count.load(Relaxed) < FAR_MAX
    }

    /// Returns how many threads execute commands.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Returns whether one thread executes everything, and no other waits at the gate.
    pub fn is_alone(&self) -> bool {
        self.threads == 1
    }

    /// Returns the generation of what calls are admitted by; after each acquisition of the gate, calls must be admitted
    /// again if it has changed.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.present()
    }

    /// Begins a new generation: something was published by which calls are admitted. The reply must wait for
    /// [`Store::pass_barrier`], which the end of a control call does.
    pub(crate) fn renew_generation(&self) {
        self.generation.renew();
    }

    /// Waits until the calls are over that were admitted by what was published before; the caller does not hold the gate.
    /// While a busy script holds it, no other call is made.
    pub(crate) fn pass_barrier(&self) {
        drop(self.lock_exclusive());
    }

    /// Returns whether a thread waits for exclusive access while the caller has shared access.
    pub(crate) fn is_awaited(&self) -> bool {
        self.gate.is_awaited()
    }

    /// Lets a thread pass that waits for the gate; the caller has released it.
    pub(crate) fn let_pass(&self) {
        self.gate.let_pass();
    }

    /// Acquires the gate exclusively for calls that need the whole store.
    pub fn lock_exclusive(&self) -> GateGuard<'_> {
        self.gate.exclude().map_or(GateGuard::Refused, |databases| GateGuard::Exclusive(Exclusive(databases)))
    }

    /// Acquires the gate exclusively: no other call runs. Waits without limit, also for a script.
    pub fn exclusive(&self) -> Exclusive<'_> {
        loop {
            match self.gate.exclude() {
                Some(databases) => return Exclusive(databases),
                None => self.gate.busy_flag().wait_until_free(),
            }
        }
    }

    /// Returns the busy flag of the gate's exclusive holder, by which a script tells that it takes long.
    pub fn busy_flag(&self) -> &Arc<BusyFlag> {
        self.gate.busy_flag()
    }

    /// Keeps expired keys from being deleted, by sweep or look-up, until a monotonic time in milliseconds; they are
    /// invisible all the same. A time that has passed ends that, and wakes the sweeper.
    pub fn freeze(&self, until_ms: u64) {
        self.services.sweep_timer.freeze(until_ms);
        self.services.sweep_timer.wake();
    }

    /// Lets the shards count again in which a panic has interrupted a change; those of a busy script do so at the next
    /// sweep.
    pub fn recover(&self, cx: Cx) {
        if let Some(databases) = self.gate.share() {
            databases.value.each_shard(|shard| shard.recover(&cx));
        }
    }

    /// Sets how long the fences of removed keys are remembered, in milliseconds.
    pub fn remember_fences(&self, memory_ms: u64) {
        self.services.sweep_timer.remember_fences(memory_ms);
    }

    /// Deletes expired keys, a few in every shard, until the time for it is up, and returns the monotonic time, in
    /// milliseconds, of the next sweep that is needed, or [`NEVER`]. A time that is not in the future means that there are
    /// more. The next call goes on with the next shard, so the order of the keys does not depend on the time.
    /// `report` is told of panics; what causes them is left for later.
    pub fn sweep(&self, cx: Cx, is_time_up: impl Fn() -> bool, report: &dyn Fn(&(dyn Any + Send))) -> u64 {
        let (now, care) = (cx.now, Care { report, stumbles: &self.stumbles });
        if let Some(until_ms) = self.services.sweep_timer.frozen_until_ms(now.mono_ms()) {
            return until_ms;
        }
        // While a busy script holds the gate, nothing can be swept; retry a little later.
        let later = now.mono_ms().saturating_add(SWEEP_RETRY_MS);
        self.services.sweep_timer.rearm(|| {
            let Some(databases) = self.gate.share() else { return later };
            let used = databases.value.used();
            drop(databases);
            let most = (SWEEP_KEYS / SHARDS / used.len().max(1)).max(1);
            let (shards, first) = (used.len() * SHARDS, self.sweep_next.load(Relaxed));
            let mut due_ms = NEVER;
            for position in (first..shards).chain(0..first.min(shards)) {
                let Some(databases) = self.gate.share() else { return later };
                let mut shard = databases.value.at(used[position / SHARDS]).shards()[position % SHARDS].lock();
                let before = shard.swept_count();
                let next_ms = shard.catch(care, &cx, |shard| shard.sweep(&cx, most, care));
                due_ms = due_ms.min(next_ms.unwrap_or(now.mono_ms() + STEPPED_OVER_MS));
                if shard.swept_count() > before && is_time_up() {
                    self.sweep_next.store((position + 1) % shards, Relaxed);
                    return now.mono_ms();
                }
            }
            if due_ms > now.mono_ms() {
                self.sweep_next.store(0, Relaxed);
            }
            due_ms
        })
    }

    /// Returns when the next sweep is needed, in monotonic milliseconds, or [`NEVER`].
    pub(crate) fn next_sweep_ms(&self, now: Now) -> u64 {
        let timer = &self.services.sweep_timer;
        timer.frozen_until_ms(now.mono_ms()).unwrap_or_else(|| timer.due_ms())
    }
}

/// A shared hold on the gate.
pub struct Shared<'a>(gate::Shared<'a, Databases>);

/// An exclusive hold on the gate.
pub struct Exclusive<'a>(gate::Exclusive<'a, Databases>);

/// A hold on the gate, if it could be acquired.
pub enum GateGuard<'a> {
    /// Ordinary calls of other threads run concurrently.
    Shared(Shared<'a>),
    /// No other call runs.
    Exclusive(Exclusive<'a>),
    /// Not acquired: a busy script holds the gate.
    Refused,
}

impl GateGuard<'_> {
    /// Returns whether the gate was contended, so that an earlier reading of the time is stale.
    #[inline]
    pub fn has_waited(&self) -> bool {
        match self {
            GateGuard::Shared(shared) => shared.0.has_waited,
            GateGuard::Exclusive(exclusive) => exclusive.0.has_waited,
            GateGuard::Refused => true,
        }
    }

    /// Opens one database: the shards of keys with these hashes, or all of it if the gate is held exclusively.
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
    fn with_shard<T>(&mut self, db: usize, index: usize, act: impl FnOnce(&mut Shard) -> T) -> Option<T> {
        match self {
            GateGuard::Shared(shared) => Some(act(&mut shared.0.value.at(db).shards.get()?[index].lock())),
            GateGuard::Exclusive(exclusive) => {
                Some(act(exclusive.0.value.at_mut(db).shards.get_mut()?[index].get_mut()))
            }
            GateGuard::Refused => None,
        }
    }

    /// Takes the changed keys with blocked clients of all shards, each with the number of its database and in the order of
    /// their changes: those that no view has taken, because they changed without a call or in a call that had declared
    /// no keys.
    pub fn take_ready(&mut self) -> Vec<(usize, Box<[u8]>)> {
        let mut ready = ReadyKeys::default();
        for db in self.used() {
            for index in 0..SHARDS {
                self.with_shard(db, index, |shard| shard.take_ready(&mut ready));
            }
        }
        ready.in_order()
    }

    /// Lets the shards count again in which a panic has interrupted a change.
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
                self.with_shard(db, index, Shard::report);
            }
        }
    }

    /// Returns the numbers of the databases that were ever used.
    fn used(&self) -> Vec<usize> {
        match self {
            GateGuard::Shared(shared) => shared.0.value.used(),
            GateGuard::Exclusive(exclusive) => exclusive.0.value.used(),
            GateGuard::Refused => Vec::new(),
        }
    }
}

impl Exclusive<'_> {
    /// Opens one database as a whole.
    pub fn view(&mut self, db: usize, cx: Cx) -> View<'_> {
        View::whole(&mut self.0.value, db, cx)
    }
}
