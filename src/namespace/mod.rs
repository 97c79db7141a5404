//! The state of one namespace (tenant): data, clock, clients, users, channels, scripts, statistics. There are no globals
//! besides it.
//!
//! A server has a main namespace and, in test mode, private ones. What they share belongs to the [`Instance`].

mod private;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::acl::{Access, Acl};
use crate::client::info::{ClientInfo, LockName};
use crate::client::pause::Pause;
use crate::client::registry::Clients;
use crate::config::{Config, Settings};
use crate::instance::{Instance, random_hex};
use crate::namespace::private::PrivateNamespaces;
use crate::observe::latency::{EVICTION_CYCLE, EXPIRE_CYCLE};
use crate::observe::sampler::Counted;
use crate::observe::stats::{ScriptUsage, Stats};
use crate::observe::{CallTimer, Observed};
use crate::persist::{Effects, Log};
#[cfg(feature = "internals")]
use crate::persist::{LogReader, Purpose};
use crate::push::hub::Hub;
use crate::push::keyspace::Notifier;
use crate::push::tracking::Tracking;
use crate::spec::{CommandTable, Names};
use crate::store::resident::Resident;
use crate::store::usage::UsageRule;
use crate::store::{
    ChangeLog, Cx, EventSink, Eviction, GateGuard, MemoryAccount, NEVER, Origin, Store, SweepTimer, Totals, View,
};
use crate::test_mode::{Recorder, TestMode};
use crate::time::clock::{Clock, Now};

/// One namespace.
pub struct Namespace {
    /// The state shared with other namespaces of the process.
    pub instance: Arc<Instance>,
    /// The settings: in the main namespace those of the process, in a private one a copy with its own changes.
    pub settings: Arc<Settings>,
    /// The name of a private namespace, which is that of its user; `None` for the main one.
    name: Option<Box<[u8]>>,
    /// The private namespaces of the process.
    private: Arc<PrivateNamespaces<Namespace>>,
    /// Cancelled when the namespace must stop: with the server, or when a private one is not needed any more.
    pub(crate) stop: CancellationToken,
    /// The connected clients.
    pub clients: Arc<Clients>,
    /// The users and their permissions.
    pub acl: Arc<Acl>,
    /// The time of its creation.
    pub started: Now,
    replication_id: Mutex<String>,
    /// What DEBUG has switched.
    pub debug: DebugSwitches,
    /// The table of commands.
    pub commands: &'static CommandTable,
    /// The data.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// The clients that use client-side caching.
    pub tracking: Arc<Tracking>,
    /// The subscribers of every channel.
    pub hub: Arc<Hub>,
    /// Publishes keyspace notifications.
    notifier: Arc<Notifier>,
    /// The log of changes, while it is enabled.
    pub(crate) log: Arc<Log>,
    /// CLIENT PAUSE.
    pub pause: Pause,
    /// Scripts and functions.
    #[cfg(feature = "lua")]
    pub scripts: crate::script::Scripts,
    /// Counters.
    pub stats: Stats,
    /// Command statistics, slow log, latency monitor, MONITOR.
    pub observed: Observed,
    /// Wakes the sweeper when a key expires earlier than it expects.
    pub sweep_notify: Arc<Notify>,
    /// Held while keys expire because of the time, and while the clock is steered.
    pub(crate) steering: tokio::sync::Mutex<()>,
    /// Wakes what shows the state every second, after the rates were computed.
    pub sampled: Notify,
    /// The fencing token of the last lock.
    last_fence: AtomicI64,
    /// Clients whose connections have closed, each with the locks to be released for that.
    departed: Mutex<Vec<(u64, Vec<LockName>)>>,
    /// Whether expired keys are deleted actively; they are invisible either way.
    is_sweeping: AtomicBool,
    /// What test mode keeps; `None` without it.
    pub(crate) test_mode: Option<Box<TestMode>>,
    /// Why some commands are rejected, or may be: see [`Namespace::restrictions`].
    restrictions: AtomicU32,
    /// Until when a start after a crash serves no keys, in monotonic milliseconds.
    grace_until_ms: AtomicU64,
    /// The fragmentation of the allocator.
    resident: Resident,
    /// The bytes of the users when they were last counted.
    users_len: AtomicUsize,
}

/// Creates the log, and what test mode keeps.
fn logs(config: &Config) -> (Arc<Log>, Option<Box<TestMode>>) {
    let log = Arc::<Log>::default();
    let recorder = || Arc::new(Recorder::new(log.clone()));
    let test_mode = config.test_mode.then(|| Box::new(TestMode::new(recorder())));
    (log, test_mode)
}

/// Returns what is told of changes that no call logs.
fn change_log(log: &Arc<Log>, test_mode: Option<&TestMode>) -> Arc<dyn ChangeLog> {
    match test_mode {
        Some(test_mode) => test_mode.recorder.clone(),
        None => log.clone(),
    }
}

/// What a namespace shares with the others of its process.
struct Process {
    instance: Arc<Instance>,
    private: Arc<PrivateNamespaces<Namespace>>,
}

/// A client's entry in the namespace that it has entered.
pub(crate) struct Admitted {
    /// The namespace.
    pub(crate) namespace: Arc<Namespace>,
    /// The client in it.
    pub(crate) info: Arc<ClientInfo>,
    /// Whether it was created for the client.
    pub(crate) is_new: bool,
}

/// What DEBUG switches, for tests.
#[derive(Default)]
pub struct DebugSwitches {
    /// Whether scripts may call DEBUG.
    pub may_scripts_debug: AtomicBool,
    /// Whether RESTORE accepts wrong checksums, for tests with damaged payloads.
    pub skips_checksums: AtomicBool,
    /// From this length on, in bytes, an element of a long list is a node of its own; 0, as always but in tests, if the
    /// limit of nodes decides that.
    pub large_element_min: AtomicUsize,
}

/// The settings ask for more replicas than there are.
pub(crate) const LACKS_REPLICAS: u32 = 1;
/// The server has begun after a crash and may still serve no keys.
pub(crate) const RESTARTING: u32 = 1 << 1;
/// The server is in test mode, where a fault may be injected into any call.
pub(crate) const IN_TEST_MODE: u32 = 1 << 2;
/// The namespace is a private one, of which the process is not a part.
pub(crate) const IS_PRIVATE: u32 = 1 << 3;
/// How many bits the restrictions above may have.
pub(crate) const RESTRICTION_BITS: u32 = 8;

/// How long expired keys are deleted before others have their turn, in nanoseconds.
const SWEEP_SLICE_NS: u64 = 500_000;

/// How many keys are evicted in a step with the default tenacity: about half a millisecond's work.
const EVICTED_KEYS: usize = 500;

/// The minimum number of keys evicted in a step, because Redis checks its clock only after this many.
const EVICTED_KEYS_MIN: usize = 16;

/// How many tracked keys are dropped at a time.
const FORGOTTEN_KEYS: usize = 1000;

impl Namespace {
    /// Starts to measure calls of the client with this id.
    #[inline(always)] // built in place, once per batch
    pub(crate) fn call_timer(&self, client: u64) -> CallTimer<'_> {
        CallTimer::new(&self.observed.command_stats, &self.clock, client)
    }

    /// Returns the statistics of scripts and functions; zeros in a build without them.
    pub fn script_usage(&self) -> ScriptUsage {
        #[cfg(feature = "lua")]
        return self.scripts.usage();
        #[cfg(not(feature = "lua"))]
        ScriptUsage::default()
    }

    /// Returns the names of the commands with these settings.
    #[inline]
    pub fn names<'a>(&self, config: &'a Config) -> Names<'a> {
        Names::new(self.commands, &config.directives.renames)
    }

    /// Stops the server: no new clients are accepted, and every connection closes after its replies.
    pub fn stop(&self) {
        self.begin_shutdown();
        self.end_clients();
    }

    /// Closes the connections of all namespaces.
    pub(crate) fn end_clients(&self) {
        self.each(|namespace| namespace.clients.end_all());
    }

    /// Calls `act` with this namespace, which is the main one, and with the private ones.
    pub(crate) fn each(&self, act: impl Fn(&Namespace)) {
        act(self);
        self.private.all().iter().for_each(|namespace| act(namespace));
    }

    /// Stops like [`Namespace::stop`], but connections close only once the ports are closed: a client that sees its
    /// connection close cannot reconnect.
    pub fn begin_shutdown(&self) {
        self.instance.stop.cancel();
        #[cfg(feature = "lua")]
        self.each(|namespace| namespace.scripts.control.end_all());
    }

    /// Creates the main namespace, empty, whose commands are executed by `threads` threads.
    pub fn new(commands: &'static CommandTable, instance: Arc<Instance>, threads: usize, clock: Clock) -> Self {
        let (acl, settings) = (instance.acl.clone(), instance.settings.clone());
        let process = Process { instance, private: Arc::default() };
        Namespace::open(commands, process, None, (acl, settings), threads, clock)
    }

    /// Creates the main namespace of an instance of its own, for unit tests.
    #[cfg(test)]
    pub(crate) fn for_test(commands: &'static CommandTable, config: Config, clock: Clock) -> Self {
        Namespace::new(commands, Arc::new(Instance::new(commands, config)), 1, clock)
    }

    /// Creates an empty private namespace, with a user of that name who may do everything.
    pub(crate) fn new_private(main: &Namespace, name: &[u8], clock: Clock) -> Self {
        let acl = Acl::new(main.commands, None);
        let settings = Settings::new(Config::clone(&main.settings.current()));
        let process = Process { instance: main.instance.clone(), private: main.private.clone() };
        let own = (Arc::new(acl), Arc::new(settings));
        let namespace = Namespace::open(main.commands, process, Some(name.into()), own, main.store.threads(), clock);
        namespace.restrict(IS_PRIVATE, true);
        namespace
    }

    fn open(
        commands: &'static CommandTable,
        Process { instance, private }: Process,
        name: Option<Box<[u8]>>,
        (acl, settings): (Arc<Acl>, Arc<Settings>),
        threads: usize,
        clock: Clock,
    ) -> Self {
        let (sweep_notify, users_len) = (Arc::new(Notify::new()), acl.memory());
        let wake = sweep_notify.clone();
        let sweep_timer = Arc::new(SweepTimer::new(move || wake.notify_one()));
        let (memory_account, config) = (Arc::<MemoryAccount>::default(), settings.current());
        let (hub, observed) =
            (Arc::new(Hub::new(&memory_account)), Observed::new(threads, commands.count(), &memory_account));
        let clients = Arc::new(Clients::new(instance.admissions.clone(), memory_account.clone()));
        let tracking = Arc::new(Tracking::new(clients.clone(), &memory_account));
        let locks = observed.locks.clone();
        let notifier = Arc::new(Notifier::new(hub.clone(), tracking.clone(), clock.clone(), locks, config.clone()));
        let (log, test_mode) = logs(&config);
        let store = Store::new(
            (config.databases as usize, name.is_some()),
            threads,
            sweep_timer,
            memory_account,
            EventSink::new(notifier.clone(), change_log(&log, test_mode.as_deref())),
        );
        let namespace = Namespace {
            #[cfg(feature = "lua")]
            scripts: crate::script::Scripts::new(
                clock.clone(),
                config.test_mode,
                store.busy_flag().clone(),
                store.memory_account().clone(),
            ),
            store,
            stop: instance.stop.child_token(),
            instance,
            settings,
            name,
            private,
            clients,
            acl,
            started: clock.now(),
            replication_id: Mutex::new(random_hex()),
            debug: DebugSwitches::default(),
            commands,
            clock,
            tracking,
            hub,
            notifier,
            log,
            pause: Pause::default(),
            stats: Stats::default(),
            observed,
            sweep_notify,
            steering: tokio::sync::Mutex::default(),
            sampled: Notify::new(),
            last_fence: AtomicI64::new(0),
            departed: Mutex::default(),
            is_sweeping: AtomicBool::new(true),
            test_mode,
            restrictions: AtomicU32::new(if config.test_mode { IN_TEST_MODE } else { 0 }),
            grace_until_ms: AtomicU64::new(0),
            resident: Resident::default(),
            users_len: AtomicUsize::new(users_len),
        };
        namespace.apply_settings();
        namespace.store.set_logged(namespace.test_mode.is_some());
        namespace
    }

    /// Applies changed settings. Those of the main namespace are also those of the private ones, but for the settings that
    /// these have changed for themselves.
    pub fn follow_settings(&self) {
        self.apply_settings();
        if self.name.is_some() {
            return;
        }
        for namespace in self.private.all() {
            // Nothing of the process follows these settings, so none can be refused.
            let _ = namespace.settings.update(|own| Ok(own.on_top_of(&self.settings.current())));
            namespace.apply_settings();
        }
    }

    /// Applies the settings about memory and events to the store.
    pub(crate) fn apply_settings(&self) {
        let config = self.settings.current();
        let policy = config.maxmemory_policy;
        let rule = match policy.is_lfu() {
            true => UsageRule::frequency(config.lfu_log_factor, config.lfu_decay_minutes),
            false => UsageRule::RECENCY,
        };
        self.store.set_policy(policy, config.maxmemory_samples as usize, rule);
        self.store.memory_account().set_limit(config.maxmemory);
        self.store.remember_fences(config.fence_memory_ms);
        self.restrict(LACKS_REPLICAS, config.lacks_replicas());
        #[cfg(feature = "lua")]
        self.scripts.control.set_dialect(config.dialect());
        self.store.events().set_classes(self.notifier.follow(config.clone()));
        while self.tracking.forget(config.tracking_table_max_keys, FORGOTTEN_KEYS, (&config, self.clock.now())) {}
        if let Some(test_mode) = &self.test_mode {
            test_mode.recorder.remember(config.test_journal_max);
            if config.test_journal_max == 0 {
                test_mode.history.lock().stop_remembering();
            }
        }
        self.record_shortage(self.clock.now());
        if let Some(limit) = config.client_memory_max() {
            self.clients.evict(limit);
        }
        self.store.renew_generation();
    }

    /// Counts what the process has allocated before the namespace was created as used memory.
    pub(crate) fn record_startup(&self) {
        let allocated = self.instance.allocator.map_or(0, |stats| stats().allocated);
        self.observed.sampler.record_startup(allocated);
        self.store.memory_account().report_outside(0, allocated);
    }

    /// Counts the users, which have changed, as used memory.
    pub(crate) fn count_users(&self) {
        let len = self.acl.memory();
        self.store.memory_account().report_outside(self.users_len.swap(len, Relaxed), len);
    }

    /// Adds a client of another namespace to the private one of this name, which is created by `create` if there is none;
    /// `None` when there are too many already.
    pub(crate) fn admit_private(
        &self,
        name: &[u8],
        client: &ClientInfo,
        create: impl FnOnce() -> Namespace,
    ) -> Option<Admitted> {
        self.private.enter(name, create, |namespace, is_new| {
            let info = namespace.clients.adopt(client, namespace.clock.now());
            Admitted { namespace, info, is_new }
        })
    }

    /// Forgets this private namespace, which has no clients, if none has entered since `served` was their number; returns
    /// whether it was forgotten.
    pub(crate) fn forget_private(&self, served: u64) -> bool {
        let is_deserted = || self.clients.is_empty() && self.clients.served() == served;
        self.name().is_some_and(|name| self.private.forget(name, is_deserted))
    }

    /// Returns how many private namespaces there are.
    pub fn private_count(&self) -> usize {
        self.private.all().len()
    }

    /// Returns the name of a private namespace.
    pub(crate) fn name(&self) -> Option<&[u8]> {
        self.name.as_deref()
    }

    /// Returns the permissions of the user of a private namespace, who is created if there is none and then needs no
    /// password; `None` if the user was changed since and this is not the password.
    pub(crate) fn admit_user(&self, name: &[u8], password: &[u8]) -> Option<Access> {
        if self.acl.user(name).is_none() {
            // These rules are valid.
            let _ = self.acl.set_user(name, &["on", "nopass", "allkeys", "allchannels", "allcommands"], true);
        }
        let mut access = Access::new(&self.acl);
        access.log_in(&self.acl, name, password).then_some(access)
    }

    /// Stops a private namespace that nobody uses any more. Its data is freed in the background, where that takes long.
    pub(crate) fn end(&self) {
        self.stop.cancel();
        if let Some(test_mode) = &self.test_mode {
            self.store.reclaimer().free_later(std::mem::take(&mut *test_mode.history.lock()));
        }
        self.flush();
    }

    /// Returns the replication id of the data set; there are no replicas.
    pub fn replication_id(&self) -> String {
        self.replication_id.lock().clone()
    }

    /// Changes the replication id.
    pub fn change_replication_id(&self) {
        *self.replication_id.lock() = random_hex();
    }

    /// Enables the log of changes; returns a reader of it.
    #[cfg(feature = "internals")] // until there is a file to write
    pub fn read_log(&self, purpose: Purpose) -> LogReader {
        let _alone = self.store.exclusive();
        self.store.set_logged(true);
        self.log.reader(purpose)
    }

    /// Appends the effects of a call at a time to the log, and clears them; returns the position behind them. Must be
    /// called while the changed shards are locked.
    pub(crate) fn record(&self, effects: &mut Effects, at: Now) -> u64 {
        match &self.test_mode {
            Some(test_mode) => test_mode.recorder.append(effects, at),
            None => self.log.append(effects),
        }
    }

    /// Deletes every key of every database.
    pub fn flush(&self) {
        let mut guard = self.store.exclusive();
        let now = self.clock.now();
        guard.view(0, Cx::new(now, Origin::HOST)).clear(true);
        if self.store.is_logged() {
            self.record(&mut Effects::one(0, &[b"FLUSHALL"]), now);
        }
    }

    /// Returns whether writes are rejected because the settings ask for replicas.
    #[inline]
    pub fn lacks_replicas(&self) -> bool {
        self.restrictions.load(Relaxed) & LACKS_REPLICAS != 0
    }

    /// Returns why commands are rejected, or may be, because of the state of the server: a set of [`LACKS_REPLICAS`],
    /// [`RESTARTING`], [`IN_TEST_MODE`] and [`IS_PRIVATE`].
    #[inline]
    pub(crate) fn restrictions(&self) -> u32 {
        self.restrictions.load(Relaxed)
    }

    fn restrict(&self, restriction: u32, is_on: bool) {
        match is_on {
            true => self.restrictions.fetch_or(restriction, Relaxed),
            false => self.restrictions.fetch_and(!restriction, Relaxed),
        };
    }

    /// Serves no keys for a time, in milliseconds, because the server has crashed before and its locks may still be
    /// believed to be held.
    pub fn begin_grace(&self, ms: u64) {
        self.grace_until_ms.store(self.clock.now().ms_later(ms), Relaxed);
        self.restrict(RESTARTING, true);
    }

    /// Returns for how many milliseconds no keys will be served yet; `None` when they are.
    pub fn grace_left_ms(&self, now: Now) -> Option<u64> {
        if self.restrictions.load(Relaxed) & RESTARTING == 0 {
            return None;
        }
        let left_ms = self.grace_until_ms.load(Relaxed).checked_sub(now.mono_ms()).filter(|left_ms| *left_ms > 0);
        if left_ms.is_none() {
            self.restrict(RESTARTING, false);
        }
        left_ms
    }

    /// Records that memory usage is within the limit again, if so.
    pub fn record_shortage(&self, now: Now) {
        if !self.store.memory_account().is_over() {
            self.stats.shortage.note(false, now);
        }
    }

    /// Evicts some keys if memory usage exceeds the limit. When there is more to do, the sweeper continues.
    pub fn evict_to_fit(&self, hold: &mut GateGuard<'_>, cx: Cx) -> Eviction {
        let now = cx.now;
        let tenacity = self.settings.current().maxmemory_eviction_tenacity;
        let begun = self.clock.ticks();
        let _evicting = self.store.memory_account().evicting();
        let (memory_account, before) = (self.store.memory_account(), self.store.memory_account().held());
        let panics = &self.instance.panics;
        let relief = panics.catch("eviction", || self.store.evict_to_fit(hold, cx, evicted_keys(tenacity)));
        // A key that cannot be evicted is no reason to lose the client that needs room, but then there is none.
        let mut relief = relief.unwrap_or_else(|| {
            panics.catch("recovery", || hold.recover(&cx));
            Eviction::None
        });
        let evicted = usize::try_from(before - memory_account.held()).unwrap_or(0);
        self.resident.record_evicted(evicted, memory_account, self.instance.allocator);
        self.resident.compact(memory_account, || self.store.compact(hold));
        if relief == Eviction::None && memory_account.loss() > 0 {
            // No command is rejected because of fragmentation.
            memory_account.set_loss(0);
            relief = if memory_account.is_over() { Eviction::None } else { Eviction::Enough };
        }
        self.record_latency(EVICTION_CYCLE, begun);
        self.stats.shortage.note(relief != Eviction::Enough, now);
        if relief == Eviction::Unfinished {
            self.sweep_notify.notify_one();
        }
        self.broadcast(now);
        relief
    }

    /// Broadcasts the keys that have changed without a command: expired and evicted ones.
    fn broadcast(&self, now: Now) {
        if self.tracking.has_invalidations() {
            self.tracking.broadcast((&self.settings.current(), now));
        }
    }

    /// Returns the number of keys and locks; `None` while a script keeps them locked.
    pub(crate) fn held_locks(&self) -> Option<Totals> {
        let mut guard = self.store.hold(1);
        let mut view = guard.view(0, &[], Cx::new(self.clock.now(), Origin::HOST));
        let mut totals = Totals::default();
        if view.is_closed() {
            return None;
        }
        view.used_databases().into_iter().for_each(|db| totals += view.in_db(db, |view| view.totals()));
        Some(totals)
    }

    /// Returns whether somebody may believe to hold a lock after the server has stopped: one of `LOCK.*`, or a key with a
    /// TTL, as `SET` with `NX` makes it; or somebody from before the last crash.
    pub(crate) fn may_leave_holders(&self) -> bool {
        let is_in_grace = self.grace_left_ms(self.clock.now()).is_some();
        is_in_grace || self.held_locks().is_none_or(|totals| totals.locks + totals.with_ttl > 0)
    }

    /// Returns a fencing token: larger than all before, also than those before a restart, because it is not below the
    /// microseconds since 1970. Only a wall clock that was set back over the restart makes it smaller.
    pub(crate) fn next_fence(&self) -> i64 {
        let now_us = self.clock.wall_us();
        let next = |last: i64| last.saturating_add(1).max(now_us);
        // Never fails, because the closure always returns a value.
        next(self.last_fence.fetch_update(Relaxed, Relaxed, |last| Some(next(last))).unwrap_or_default())
    }

    /// Has the locks released that are bound to a connection: at once, or by the sweeper while a script keeps keys locked.
    /// Those in line for them must be served then. The view is one without declared keys.
    pub(crate) fn end_session(&self, client: &ClientInfo, view: &mut View<'_>) {
        if !client.has_bound_locks() {
            return;
        }
        let names = client.bound_locks();
        if view.is_closed() {
            self.departed.lock().push((client.id, names));
            return self.sweep_notify.notify_one();
        }
        self.release(client.id, &names, view);
    }

    /// Releases the locks that [`Namespace::end_session`] could not; returns whether none is left.
    pub(crate) fn end_departed_sessions(&self, now: Now) -> bool {
        let departed = std::mem::take(&mut *self.departed.lock());
        if departed.is_empty() {
            return true;
        }
        let mut guard = self.store.hold(1);
        let mut view = guard.view(0, &[], Cx::new(now, Origin::HOST));
        if view.is_closed() {
            self.departed.lock().extend(departed);
            return false;
        }
        departed.iter().for_each(|(client, names)| self.release(*client, names, &mut view));
        true
    }

    fn release(&self, client: u64, names: &[LockName], view: &mut View<'_>) {
        for (db, key) in names {
            // One that cannot be released ends by its TTL; the others are released all the same.
            let release = || view.locks().end_of_session(*db, self.store.key(key), client);
            if self.instance.panics.catch("release of a lock", release).is_none() {
                self.instance.panics.catch("recovery", || view.recover());
            }
        }
    }

    /// Enables or disables the deletion of expired keys.
    pub fn set_sweeping(&self, is_sweeping: bool) {
        self.is_sweeping.store(is_sweeping, Relaxed);
        self.sweep_notify.notify_one();
    }

    /// Deletes some expired keys, see [`Store::sweep`], and records the latency if it is high.
    pub fn sweep(&self, now: Now) -> u64 {
        if !self.is_sweeping.load(Relaxed) {
            return NEVER;
        }
        let begun = self.clock.ticks();
        let is_time_up = || self.clock.tick_rate().ns(self.clock.ticks().saturating_sub(begun)) >= SWEEP_SLICE_NS;
        let report = |panic: &(dyn Any + Send)| self.instance.panics.report("sweep", panic);
        let due_ms = self.store.sweep(Cx::new(now, Origin::Expiry), is_time_up, &report);
        self.broadcast(now);
        self.observed.command_stats.record_sweep(self.clock.tick_rate().ns(self.clock.ticks().saturating_sub(begun)));
        self.record_latency(EXPIRE_CYCLE, begun);
        due_ms
    }

    /// Returns when the next sweep is needed, in monotonic milliseconds, or [`NEVER`].
    pub(crate) fn next_sweep_ms(&self, now: Now) -> u64 {
        if self.is_sweeping.load(Relaxed) { self.store.next_sweep_ms(now) } else { NEVER }
    }

    /// Records the latency of an event that began at this reading of the clock's counter, if it is high.
    fn record_latency(&self, event: &'static str, begun: u64) {
        let took_ms = self.clock.tick_rate().ns(self.clock.ticks().saturating_sub(begun)) / 1_000_000;
        if took_ms == 0 {
            return; // saves reading the settings
        }
        let threshold_ms = self.settings.current().latency_monitor_threshold;
        if threshold_ms != 0 && took_ms >= threshold_ms {
            self.observed.latency.note(event, self.clock.wall_us().div_euclid(1_000_000), took_ms);
        }
    }

    /// Records the time of housekeeping that began at this reading of the clock's counter.
    pub fn record_housekeeping(&self, begun: u64) {
        self.observed
            .command_stats
            .record_housekeeping(self.clock.tick_rate().ns(self.clock.ticks().saturating_sub(begun)));
    }

    /// Samples the counters, once a second, for the rates that INFO shows.
    pub fn sample(&self) {
        let turns = self.observed.command_stats.turns();
        let counted = Counted {
            commands: self.observed.command_stats.all_calls().count,
            bytes_in: self.stats.bytes_in.load(Relaxed),
            bytes_out: self.stats.bytes_out.load(Relaxed),
            turns: turns.count,
            turns_us: turns.ns.div_ceil(1000),
        };
        self.resident.refresh(self.store.memory_account(), self.instance.allocator);
        let used = self.store.memory_account().used();
        self.observed.sampler.look(counted, self.clock.now().mono_ms(), used);
        self.sampled.notify_one();
    }
}

/// Returns how many keys a step evicts: in proportion to the tenacity up to 10, then 15 % more for each, without limit
/// at
/// 100. So Redis bounds the time, in the unit of a microsecond, which a key takes about.
fn evicted_keys(tenacity: u32) -> usize {
    match tenacity {
        0..=10 => EVICTED_KEYS / 10 * tenacity as usize,
        11..=99 => (EVICTED_KEYS as f64 * 1.15_f64.powi(tenacity as i32 - 10)) as usize,
        _ => usize::MAX,
    }
    .max(EVICTED_KEYS_MIN)
}
