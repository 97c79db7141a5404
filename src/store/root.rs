//! All databases of one namespace, and what works on all of them: sweeping, eviction, defragmentation.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::store::compact::Cursor;
use crate::store::cx::Cx;
use crate::store::databases::{Databases, FAR_MAX};
use crate::store::event::EventSink;
use crate::store::evict::{Eviction, Evictor, Policy, forget_retired_fences};
use crate::store::expire::{NEVER, SweepTimer};
use crate::store::gate::{self, BusyFlag, Gate};
use crate::store::generation::Generation;
use crate::store::hold::{Exclusive, GateGuard, Shared};
use crate::store::interest::TailWork;
use crate::store::key::{Key, SHARDS};
use crate::store::memory_account::MemoryAccount;
use crate::store::reclaim::Reclaimer;
use crate::store::services::Services;
use crate::store::sweep::{Care, STEPPED_OVER_MS, Stumbles};
use crate::store::table::Hasher;
use crate::store::unlogged::{self, Interrupted};
use crate::store::usage::UsageRule;
use crate::time::clock::Now;

/// The number of calls in a batch from which a thread that executes alone takes the gate exclusively.
const EXCLUSIVE_CALLS_MIN: usize = 4;

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
    compacting: Mutex<Cursor>,
    /// The position of the shard that the next sweep begins with.
    sweep_next: AtomicUsize,
    /// How many threads execute commands.
    threads: usize,
    stumbles: Stumbles,
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
        Store::with(services, (databases, is_unlimited), threads)
    }

    /// Creates an empty store beside this one: of the same databases, with the same hasher, counted in the same memory,
    /// without observers and log. Its keys can come to this one by [`View::exchange`](super::View::exchange).
    pub(crate) fn beside(&self) -> Store {
        let services = Services { events: Arc::new(EventSink::silent()), ..self.services.clone() };
        Store::with(services, (self.databases, self.is_unlimited), self.threads)
    }

    /// Creates an empty store for copies of keys: of the same databases, with the same hasher, counted in the same memory,
    /// whose changes are told to `events`.
    pub(crate) fn stage(&self, events: EventSink) -> Store {
        let services = Services {
            events: Arc::new(events),
            sweep_timer: Arc::new(SweepTimer::new(|| {})),
            tail_work: Arc::default(),
            ..self.services.clone()
        };
        let stage = Store::with(services, (self.databases, self.is_unlimited), self.threads);
        stage.set_logged(true);
        stage
    }

    fn with(services: Services, (databases, is_unlimited): (usize, bool), threads: usize) -> Self {
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

    /// Acquires the gate shared with others, unless a busy script holds it.
    pub(super) fn share_gate(&self) -> Option<gate::Shared<'_, Databases>> {
        self.gate.share()
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

    /// Returns whether clients are queued for locks.
    #[inline]
    pub fn has_lock_queues(&self) -> bool {
        self.services.tail_work.has_lock_queues()
    }

    /// Returns whether clients are queued for locks in the shard of any of some keys, given by their hashes.
    #[inline]
    pub fn has_lock_queues_beside(&self, hashes: &[u64]) -> bool {
        self.services.tail_work.has_lock_queues_beside(hashes)
    }

    /// Returns whether a call has work at its end: [`Store::has_ready_keys`], [`Store::is_logged`] or [`Reclaimer::is_behind`].
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

    /// Takes the keys that calls have changed which a panic has ended: what they hold now is to be logged.
    pub(crate) fn take_interrupted(&self) -> Option<Interrupted> {
        self.services.events.take_interrupted()
    }

    /// Takes the keys that the call on this thread has changed, to be logged by what they hold now.
    pub(crate) fn take_unlogged(&self) -> Interrupted {
        unlogged::take()
    }

    /// Takes the locks of which something else is known since the call on this thread, some of them more than once: to be logged
    /// by what is known now.
    pub(crate) fn take_unlogged_locks(&self) -> Vec<(usize, Box<[u8]>)> {
        unlogged::take_locks()
    }

    /// Forgets which keys the call on this thread has changed: that is logged.
    pub(crate) fn forget_unlogged(&self) {
        unlogged::clear();
    }

    /// Keeps for later what [`Store::take_interrupted`] has returned.
    pub(crate) fn put_back_interrupted(&self, interrupted: Interrupted) {
        self.services.events.interrupt(interrupted);
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

    /// Acquires the gate for a call. Waits without limit, also for a script.
    pub(crate) fn hold_patiently(&self) -> GateGuard<'_> {
        loop {
            match self.hold(1) {
                GateGuard::Refused => self.gate.busy_flag().wait_until_free(),
                hold => return hold,
            }
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
    pub fn has_single_worker(&self) -> bool {
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

    /// Keeps expired keys (invisibly) until a primary says that they are gone, or no longer.
    pub fn follow(&self, is_following: bool) {
        self.services.sweep_timer.follow(is_following);
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
    /// more. The next call continues with the next shard, so the order of the keys does not depend on the time.
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
            let max_count = (SWEEP_KEYS / SHARDS / used.len().max(1)).max(1);
            let (shards, first) = (used.len() * SHARDS, self.sweep_next.load(Relaxed));
            let mut due_ms = NEVER;
            for position in (first..shards).chain(0..first.min(shards)) {
                let Some(databases) = self.gate.share() else { return later };
                let mut shard = databases.value.at(used[position / SHARDS]).shards()[position % SHARDS].lock();
                let before = shard.swept_count();
                let next_ms = shard.catch(care, &cx, |shard| shard.sweep(&cx, max_count, care));
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

    /// Moves some entries, cycling through the whole store. Returns how many bytes were copied.
    pub fn compact(&self, hold: &mut GateGuard<'_>) -> usize {
        self.compacting.lock().compact(hold)
    }

    /// Sets the eviction policy and how many keys are sampled per choice.
    pub fn set_policy(&self, policy: Policy, samples: usize, rule: UsageRule) {
        self.evictor.lock().set_policy(policy, samples);
        self.memory_account().set_rule(rule);
    }

    /// Evicts keys until memory usage is within the limit, but at most `max`.
    pub fn evict_to_fit(&self, hold: &mut GateGuard<'_>, cx: Cx, max: usize) -> Eviction {
        // Keys are evicted for the present excess only, not for the memory of the notifications about their eviction.
        let Some(mut goal) = self.memory_account().relief_goal() else { return Eviction::Enough };
        // Nor for the fences of removed keys.
        if self.memory_account().take_retired_fences() && forget_retired_fences(hold) {
            let Some(rest) = self.memory_account().relief_goal() else { return Eviction::Enough };
            goal = rest;
        }
        self.evictor.lock().evict_to(goal, hold, self.memory_account(), (&cx, max))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use crate::store::event::{ChangeLog, EventSink, Nobody};
    use crate::store::expire::SweepTimer;
    use crate::store::{Cx, Event, HeldLock, NEVER, Origin, Store, Ttl, WatchFlag};
    use crate::time::clock::{Deadline, Now};

    /// Records the keys that are removed, in order.
    #[derive(Default)]
    struct Recorder(Mutex<Vec<Vec<u8>>>);

    impl ChangeLog for Recorder {
        fn append_removal(&self, _: usize, key: &[u8]) {
            self.0.lock().push(key.to_vec());
        }

        fn append_deadline(&self, _: usize, _: &[u8], _: Option<i64>) {}

        fn append_lock(&self, _: usize, _: &[u8], _: &[u8]) {}

        fn append_field_removal(&self, _: usize, _: &[u8], _: &[u8]) {}

        fn record_change(&self, _: usize, _: &[u8]) {}

        fn record_all(&self, _: Option<usize>) {}

        fn record_lock(&self, _: usize, _: &[u8], _: Option<HeldLock<'_>>) {}
    }

    /// Sweeps 2,000 keys that are due at once; returns the calls that this took, and the keys in order.
    fn swept(store: &Store, recorder: &Recorder, is_time_up: bool) -> (usize, Vec<Vec<u8>>) {
        let (before, due) = (Cx::new(Now::at_ms(0, 0), Origin::HOST), Now::at_ms(10, 10));
        for key in 0..2_000_u32 {
            let name = key.to_le_bytes();
            let key = store.key(&name);
            let deadline = Ttl::At(Deadline::at_wall_ms(5));
            store.hold(1).view(0, &[key.hash], before).set(key, b"value", deadline, Event::NONE);
        }
        let mut calls = 1;
        while store.sweep(Cx::new(due, Origin::Expiry), || is_time_up, &|_| {}) <= due.mono_ms() {
            calls += 1;
        }
        (calls, std::mem::take(&mut recorder.0.lock()))
    }

    #[test]
    fn a_sweep_stops_when_its_time_is_up_and_the_next_goes_on_in_the_same_order() {
        let recorder = Arc::<Recorder>::default();
        let events = EventSink::new(Nobody, recorder.clone());
        let store = Store::new((1, false), 1, Arc::new(SweepTimer::new(|| {})), Arc::default(), events);
        store.set_logged(true);
        let (whole_calls, whole) = swept(&store, &recorder, false);
        let (sliced_calls, sliced) = swept(&store, &recorder, true);
        assert_eq!((whole.len(), &whole), (2_000, &sliced));
        assert!(whole_calls < 20 && sliced_calls > 200, "{whole_calls} calls, {sliced_calls} with a slice each");
    }

    /// Sets a key to its own name.
    fn set(store: &Store, db: usize, name: &str, ttl: Ttl, cx: Cx) {
        let (mut hold, key) = (store.hold(1), store.key(name.as_bytes()));
        let mut view = hold.view(db, &[key.hash], cx);
        view.set(key, name.as_bytes(), ttl, Event::NONE);
        view.locks().set_fence(key, 7);
    }

    #[test]
    fn a_store_beside_another_exchanges_all_keys_with_it_and_leaves_no_memory_behind() {
        let sweep_timer = Arc::new(SweepTimer::new(|| {}));
        let store = Store::new((4, true), 1, sweep_timer, Arc::default(), EventSink::silent());
        let (cx, later) = (Cx::new(Now::at_ms(0, 0), Origin::HOST), Cx::new(Now::at_ms(10, 10), Origin::HOST));
        let until = Ttl::At(Deadline::at_wall_ms(5));
        let names = |store: &Store, cx| {
            let (mut hold, mut names) = (store.exclusive(), Vec::new());
            let mut view = hold.view(0, cx);
            for db in view.used_databases() {
                view.in_db(db, |view| {
                    let mut cursor = 0;
                    loop {
                        cursor = view.scan(cursor, |entry| names.push((db, entry.key().to_vec())));
                        if cursor == 0 {
                            break;
                        }
                    }
                });
            }
            names.sort();
            names
        };
        let flags = ["old", "new", "neither"].map(|name| {
            let (flag, key) = (WatchFlag::default(), store.key(name.as_bytes()));
            store.hold(1).view(0, &[key.hash], cx).waiting().watch(key, &flag);
            flag
        });
        let before = store.memory_account().held();
        let beside = store.beside();
        for number in 0..100 {
            set(&store, 1, &format!("old:{number}"), Ttl::Clear, cx);
            set(&beside, 2, &format!("new:{number}"), Ttl::Clear, cx);
        }
        set(&store, 0, "old", Ttl::Clear, cx);
        set(&beside, 0, "new", Ttl::Clear, cx);
        set(&beside, 77, "far", until, cx);
        let (old, new, changes) =
            (names(&store, cx), names(&beside, cx), store.hold(1).view(0, &[], cx).totals().changes);
        store.exclusive().view(0, cx).exchange(&mut beside.exclusive().view(0, cx));
        assert_eq!((names(&store, cx), names(&beside, cx)), (new, old));
        assert_eq!(store.hold(1).view(0, &[], cx).totals().changes, changes + 1);
        assert_eq!(flags.map(|flag| flag.is_raised()), [true, true, false]);
        assert!(store.next_sweep_ms(later.now) <= 10);
        assert_eq!(store.sweep(later, || false, &|_| {}), NEVER);
        assert_eq!(names(&store, cx).last(), Some(&(2, b"new:99".to_vec())));
        let key = store.key(b"new");
        assert_eq!(store.hold(1).view(0, &[key.hash], cx).locks().fence(key), 7);
        drop(beside);
        store.exclusive().view(0, cx).clear(true);
        assert_eq!(store.memory_account().held(), before);
    }
}
