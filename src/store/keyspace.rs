//! All databases of one namespace, and the operations on all of them: sweeping, eviction, defragmentation.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::store::change_records::ChangeRecords;
use crate::store::changes::HeldRecords;
use crate::store::compact::Cursor;
use crate::store::cx::Cx;
use crate::store::databases::{Databases, FAR_MAX};
use crate::store::event::EventSink;
use crate::store::evict::{Eviction, EvictionPolicy, Evictor, forget_retired_fences};
use crate::store::expire::{NEVER, SweepTimer};
use crate::store::gate::{self, BusyFlag, Gate};
use crate::store::hold::{ExclusiveHold, GateGuard};
use crate::store::key::{Key, SHARDS};
use crate::store::memory_account::MemoryAccount;
use crate::store::reclaim::Reclaimer;
use crate::store::services::Services;
use crate::store::sweep::{PanicHandling, STEPPED_OVER_MS, SkippedKeys};
use crate::store::table::Hasher;
use crate::store::tail_work::TailWork;
use crate::store::usage::UsageRule;
use crate::time::clock::Now;

/// Number of calls in a batch from which on the only thread that executes commands takes the gate exclusively.
const EXCLUSIVE_CALLS_MIN: usize = 4;

/// Number of expired keys that one sweep removes, in all shards together: half a millisecond's work. The sweep cycles
/// through the shards, a few keys each, so that no client waits for the same shard repeatedly.
const SWEEP_KEYS: usize = 512;

/// Delay of the sweeper while a busy script holds the gate, in milliseconds.
const SWEEP_RETRY_MS: u64 = 20;

/// All databases of one namespace.
pub struct Store {
    gate: Gate<Databases>,
    services: Services,
    /// Number of databases that exist from the beginning.
    databases: usize,
    /// True if there may be further databases.
    is_unlimited: bool,
    /// Number of further databases.
    far_count: Arc<AtomicUsize>,
    evictor: Mutex<Evictor>,
    /// Position of the next entries to move.
    compacting: Mutex<Cursor>,
    /// Position of the shard that the next sweep begins with.
    sweep_next: AtomicUsize,
    /// Number of threads that execute commands.
    threads: usize,
    skipped: SkippedKeys,
}

impl Store {
    /// Creates the first `databases`, empty; with `is_unlimited`, clients may use further ones. `threads` execute
    /// commands, `sweep_timer` is moved earlier by new deadlines, `memory_account` counts the memory, and `events`
    /// passes changes of keys on.
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

    /// Creates an empty store beside this one: with the same databases and hasher, counted in the same memory, without
    /// observers and log. Its keys can be moved to this one by [`View::exchange`](super::View::exchange).
    pub(crate) fn beside(&self) -> Store {
        let services = Services { events: Arc::new(EventSink::silent()), ..self.services.clone() };
        Store::with(services, (self.databases, self.is_unlimited), self.threads)
    }

    /// Creates an empty store for copies of keys: with the same databases and hasher, counted in the same memory. Its
    /// changes are passed to `events`.
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
            services,
            databases,
            is_unlimited,
            far_count,
            evictor,
            compacting: Mutex::default(),
            sweep_next: AtomicUsize::new(0),
            threads,
            skipped: SkippedKeys::default(),
        }
    }

    /// Acquires the gate shared, unless a busy script holds it.
    pub(super) fn share_gate(&self) -> Option<gate::SharedGuard<'_, Databases>> {
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

    /// Returns true if keys with blocked clients have changed and those clients were not served yet.
    #[inline]
    pub fn has_ready_keys(&self) -> bool {
        self.services.tail_work.has_ready_keys()
    }

    /// Returns true if clients are queued for locks.
    #[inline]
    pub fn has_lock_queues(&self) -> bool {
        self.services.tail_work.has_lock_queues()
    }

    /// Returns true if clients are queued for locks in the shards of the keys with these hashes.
    #[inline]
    pub fn has_lock_queues_beside(&self, hashes: &[u64]) -> bool {
        self.services.tail_work.has_lock_queues_beside(hashes)
    }

    /// Returns true if a call has work at its end: [`Store::has_ready_keys`], [`Store::is_logged`] or
    /// [`Reclaimer::is_behind`].
    #[inline]
    pub fn has_tail_work(&self) -> bool {
        self.services.tail_work.is_any()
    }

    /// Returns true if changes are logged.
    #[inline]
    pub fn is_logged(&self) -> bool {
        self.services.tail_work.is_logged()
    }

    /// Begins or ends logging changes: calls log at their end, and the store itself logs the deletions that no command
    /// causes. Must be called with the gate held exclusively, so that no call is half done.
    pub fn set_logged(&self, is_logged: bool) {
        self.services.tail_work.set_logged(is_logged);
        self.services.events.set_logged(is_logged);
    }

    /// Takes the changes of calls that a panic has ended: the present state of the keys is to be logged.
    pub(crate) fn take_interrupted(&self) -> Option<ChangeRecords> {
        self.services.events.take_interrupted()
    }

    /// Puts back the result of [`Store::take_interrupted`] for later.
    pub(crate) fn put_back_interrupted(&self, interrupted: &ChangeRecords) {
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

    /// Returns the hasher of keys, and of the fields and members of large values.
    pub fn hasher(&self) -> &Hasher {
        &self.services.hasher
    }

    /// Acquires the gate for a batch of `calls`. If only one thread executes commands, a long batch takes the gate
    /// exclusively: that costs as much as the locks of a few calls and saves the locks of all.
    #[inline(always)] // for a single request the call would cost a hundredth of all instructions
    pub fn hold(&self, calls: usize) -> GateGuard<'_> {
        if self.threads == 1 && calls >= EXCLUSIVE_CALLS_MIN {
            self.lock_exclusive()
        } else {
            GateGuard::shared(self.gate.share(), self.events())
        }
    }

    /// Acquires the gate for a call. Waits without limit, also for a script.
    pub(crate) fn hold_patiently(&self) -> GateGuard<'_> {
        loop {
            let hold = self.hold(1);
            if !hold.is_refused() {
                return hold;
            }
            self.gate.busy_flag().wait_until_free();
        }
    }

    /// Returns true if a client may select a database. There may be a thousand databases beyond the first ones.
    pub(crate) fn may_use(&self, db: usize) -> bool {
        db < self.databases || self.is_unlimited && self.far_count.load(Relaxed) < FAR_MAX
    }

    /// Returns the number of threads that execute commands.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Returns true if only one thread executes commands, so that no other waits at the gate.
    pub fn has_single_worker(&self) -> bool {
        self.threads == 1
    }

    /// Returns the generation of the admission state. After each acquisition of the gate, calls must be admitted again
    /// if it has changed.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.gate.generation.present()
    }

    /// Begins a new generation: the admission state has changed. The reply must wait for [`Store::pass_barrier`], which
    /// the end of a control call does.
    pub(crate) fn renew_generation(&self) {
        self.gate.generation.renew();
    }

    /// Waits for the end of the calls that were admitted by the former state; the caller does not hold the gate. While
    /// a busy script holds it, no other call is made.
    pub(crate) fn pass_barrier(&self) {
        drop(self.lock_exclusive());
    }

    /// Returns true if a thread waits for exclusive access while the caller has shared access.
    pub(crate) fn is_awaited(&self) -> bool {
        self.gate.is_awaited()
    }

    /// Gives precedence to a thread that waits for the gate; the caller has released it.
    pub(crate) fn yield_to_waiter(&self) {
        self.gate.yield_to_waiter();
    }

    /// Acquires the gate exclusively for calls that need the whole store.
    pub fn lock_exclusive(&self) -> GateGuard<'_> {
        GateGuard::exclusive(self.gate.exclude(), self.events())
    }

    /// Acquires the gate exclusively, as [`Store::exclusive`] does; returns `None` while a busy script holds it.
    pub(crate) fn try_exclusive(&self) -> Option<ExclusiveHold<'_>> {
        Some(ExclusiveHold::new(self.gate.exclude()?, self.events()))
    }

    /// Acquires the gate exclusively: no other call runs. Waits without limit, also for a script.
    pub fn exclusive(&self) -> ExclusiveHold<'_> {
        loop {
            match self.try_exclusive() {
                Some(hold) => return hold,
                None => self.gate.busy_flag().wait_until_free(),
            }
        }
    }

    /// Returns the busy flag of the gate's exclusive holder, with which a script reports that it takes long.
    pub fn busy_flag(&self) -> &Arc<BusyFlag> {
        self.gate.busy_flag()
    }

    /// Prevents the deletion of expired keys, by sweep or look-up, until a monotonic time in milliseconds; they are
    /// invisible all the same. A time in the past permits it again. Wakes the sweeper.
    pub fn freeze(&self, until_ms: u64) {
        self.services.sweep_timer.freeze(until_ms);
        self.services.sweep_timer.wake();
    }

    /// Begins keeping expired fields of hashes and members of sets (invisibly) until a cluster reports their deletion.
    pub(crate) fn keep_elements(&self) {
        self.services.sweep_timer.keep_elements();
    }

    /// Begins or ends keeping expired keys (invisibly) until a primary reports their deletion.
    pub fn follow(&self, is_following: bool) {
        self.services.sweep_timer.follow(is_following);
    }

    /// Makes the shards recount in which a panic has interrupted a change; if a busy script holds the gate, the next
    /// sweep does so.
    pub fn recover(&self, cx: Cx) {
        if let Some(databases) = self.gate.share() {
            let mut held = HeldRecords::new(self.events());
            databases.value.each_shard(|shard| shard.recover(&mut held.cx(cx)));
        }
    }

    /// Sets the time for which the fences of removed keys are remembered, in milliseconds.
    pub fn remember_fences(&self, memory_ms: u64) {
        self.services.sweep_timer.remember_fences(memory_ms);
    }

    /// Deletes expired keys, a few in every shard, until `is_time_up`, and returns the monotonic time, in milliseconds,
    /// of the next sweep needed, or [`NEVER`]. A time that is not in the future means that more keys are due. The next
    /// call continues with the next shard, so the order of the keys does not depend on the time. Panics are passed to
    /// `report`; the keys that cause them are left for later.
    pub fn sweep(&self, cx: Cx, is_time_up: impl Fn() -> bool, report: &dyn Fn(&(dyn Any + Send))) -> u64 {
        let (now, care) = (cx.now, PanicHandling { report, skipped: &self.skipped });
        if let Some(until_ms) = self.services.sweep_timer.frozen_until_ms(now.mono_ms()) {
            return until_ms;
        }
        // While a busy script holds the gate, nothing can be swept: retry a little later.
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
                let mut held = HeldRecords::new(self.events());
                let mut shard = databases.value.at(used[position / SHARDS]).shards()[position % SHARDS].lock();
                let before = shard.swept_count();
                let cx = &mut held.cx(cx);
                let next_ms = shard.catch(care, cx, |shard, cx| shard.sweep(cx, max_count, care));
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

    /// Returns the time of the next sweep, in monotonic milliseconds, or [`NEVER`].
    pub(crate) fn next_sweep_ms(&self, now: Now) -> u64 {
        let timer = &self.services.sweep_timer;
        timer.frozen_until_ms(now.mono_ms()).unwrap_or_else(|| timer.due_ms())
    }

    /// Moves some entries, cycling through the whole store. Returns the number of bytes copied.
    pub fn compact(&self, hold: &mut GateGuard<'_>) -> usize {
        self.compacting.lock().compact(hold)
    }

    /// Sets the eviction policy, the number of keys sampled per choice, and the rule by which usage is recorded.
    pub fn set_policy(&self, policy: EvictionPolicy, samples: usize, rule: UsageRule) {
        self.evictor.lock().set_policy(policy, samples);
        self.memory_account().set_rule(rule);
        self.events().set_timed(rule.is_of_changes());
    }

    /// Evicts keys, `max` at most, until memory usage is within the limit.
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

    use crate::store::event::{ChangeLog, EventSink, NullObserver};
    use crate::store::expire::SweepTimer;
    use crate::store::{Cx, Event, HeldLock, NEVER, Origin, SideRecord, Store, Ttl, WatchFlag};
    use crate::time::clock::{Deadline, Now};

    /// Observer of the removed keys, in order.
    #[derive(Default)]
    struct Recorder(Mutex<Vec<Vec<u8>>>);

    impl ChangeLog for Recorder {
        fn append_removal(&self, _: usize, key: &[u8]) {
            self.0.lock().push(key.to_vec());
        }

        fn append_deadline(&self, _: usize, _: &[u8], _: Option<i64>) {}

        fn append_side_record(&self, _: usize, _: SideRecord<'_>) {}

        fn append_message(&self, _: &[u8], _: &[u8]) {}

        fn append_field_removal(&self, _: usize, _: [&[u8]; 3]) {}

        fn record_change(&self, _: usize, _: &[u8]) {}

        fn record_all(&self, _: Option<usize>) {}

        fn record_lock(&self, _: usize, _: &[u8], _: Option<HeldLock<'_>>) {}
    }

    /// Sweeps 2,000 keys that are due at once; returns the number of calls needed, and the keys in order.
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
        let events = EventSink::new(NullObserver, recorder.clone());
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
