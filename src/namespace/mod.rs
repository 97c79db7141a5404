//! The state of one namespace (tenant): data, clock, clients, users, channels, scripts, statistics. There are no
//! globals besides it.
//!
//! A server has a main namespace and, in test mode, private ones. The state that they share belongs to the
//! [`Instance`].

mod clock_group;
pub(crate) mod failover;
mod failover_steps;
pub(crate) mod files;
pub(crate) mod history;
pub(crate) mod local_replicas;
mod lock_holders;
pub(crate) mod member;
mod node;
pub(crate) mod pending_shutdown;
mod primary;
mod primary_time;
mod private;
mod push;
mod replication;
pub(crate) mod restrictions;
pub(crate) mod role;
mod sessions;
pub(crate) mod shutdown;
mod tenant;
mod upkeep;

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;

use crate::acl::{Access, Acl, RuleSettings};
use crate::client::engine::Engine;
use crate::client::info::ClientInfo;
use crate::client::outbox::{Delivery, PushRule};
use crate::client::registry::Clients;
use crate::client::replica::Replicas;
use crate::config::{Config, Settings};
use crate::instance::{Instance, new_node};
use crate::namespace::failover::Failover;
use crate::namespace::local_replicas::Links;
use crate::namespace::lock_holders::LockHolders;
pub(crate) use crate::namespace::lock_holders::ReservedSlot;
use crate::namespace::member::{Member, Topologies};
use crate::namespace::pending_shutdown::PendingShutdown;
use crate::namespace::private::PrivateNamespaces;
use crate::namespace::push::Push;
use crate::namespace::restrictions::{IS_PRIVATE, ON_ENGINE, Restrictions};
use crate::namespace::role::Role;
use crate::namespace::tenant::Tenant;
use crate::namespace::upkeep::Upkeep;
use crate::observe::latency::{EVICTION_CYCLE, EXPIRE_CYCLE};
use crate::observe::stats::ScriptUsage;
use crate::observe::{CallTimer, Observed};
use crate::persist::{Effects, Log, LogReader, Persistence, ReaderPurpose};
use crate::spec::{CommandTable, Names};
use crate::store::usage::UsageRule;
use crate::store::{ChangeLog, Cx, EventSink, Eviction, GateGuard, MemoryAccount, NEVER, Origin, Store, Totals};
use crate::test_mode::{CONTROL_CLIENT, FaultKind, Recorder, TestMode};
use crate::time::clock::{Clock, Now};
use crate::topology::NodeIdentity;

/// One namespace.
pub struct Namespace {
    /// The state shared with other namespaces of the process.
    pub instance: Arc<Instance>,
    /// The settings: in the main namespace those of the process, in a private one a copy with its own changes.
    pub settings: Arc<Settings>,
    /// The name, and the time of service.
    pub tenant: Tenant,
    /// The private namespaces of the process.
    private: Arc<PrivateNamespaces<Namespace>>,
    /// The connected clients.
    pub clients: Arc<Clients>,
    /// The users and their permissions.
    pub acl: Arc<Acl>,
    /// The switches of DEBUG.
    pub debug: DebugSwitches,
    /// The table of commands.
    pub commands: &'static CommandTable,
    /// The data.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// Pub/Sub, keyspace notifications, client-side caching.
    pub push: Push,
    pub(crate) log: Arc<Log>,
    pub(crate) replicas: Arc<Replicas>,
    /// The role as primary or replica, and the link to the primary.
    pub(crate) role: Role,
    /// The identity as a node of a cluster, if it is one.
    node: OnceLock<NodeIdentity>,
    /// The place in a topology, for a node of one.
    member: OnceLock<Member>,
    /// The topologies that were made here, or, in a node, where its own was.
    pub(crate) topologies: Topologies,
    /// The engine, if the data is in a cluster: the store is a copy then.
    engine: OnceLock<Arc<dyn Engine>>,
    /// The links to namespaces of the same process.
    pub(crate) links: Links<Namespace>,
    pub(crate) failover: Failover,
    pub(crate) persistence: Arc<Persistence>,
    pub(crate) pending_shutdown: PendingShutdown,
    /// The reasons for which some commands are rejected or paused, or may be.
    pub restrictions: Restrictions,
    /// Scripts and functions.
    #[cfg(feature = "lua")]
    pub scripts: crate::script::Scripts,
    /// Counters, command statistics, slow log, latency monitor, MONITOR.
    pub observed: Observed,
    /// The sweeper, the fragmentation of the allocator, the memory of the users.
    pub upkeep: Upkeep,
    /// The last fencing token, and the clients whose locks are still to be released.
    pub(crate) lock_holders: LockHolders,
    /// The state of test mode; `None` without it.
    pub(crate) test_mode: Option<Box<TestMode>>,
}

/// Creates the log, and the state of test mode.
fn logs(config: &Config) -> (Arc<Log>, Option<Box<TestMode>>) {
    let log = Arc::<Log>::default();
    let recorder = || Arc::new(Recorder::new(log.clone()));
    let test_mode = config.test_mode.then(|| Box::new(TestMode::new(recorder())));
    (log, test_mode)
}

/// Handling of a new connection, which faults of test mode can change.
pub(crate) enum Reception {
    /// The connection is served.
    Served,
    /// The connection is accepted, and served after this delay.
    Late(Duration),
    /// The connection is closed with this error line.
    Refused(Vec<u8>),
    /// The connection is reset.
    Reset,
}

/// Returns the rule by which faults change pushed messages.
fn push_rule(test_mode: &TestMode) -> Arc<PushRule> {
    let faults = test_mode.faults.clone();
    let rule = move |encode: &mut dyn FnMut() -> Bytes, name: &str| match faults.lock().fault_of_push(encode, name) {
        None => Delivery::Whole,
        Some(FaultKind::Delay(time)) => Delivery::Late(time),
        Some(FaultKind::Lose) => Delivery::Lost,
        Some(FaultKind::Partial(len)) => Delivery::CutAfter(len),
        Some(_) => Delivery::CutAfter(0),
    };
    Arc::new(PushRule(Box::new(rule)))
}

/// Returns the sink of changes that no call logs.
fn change_log(log: &Arc<Log>, test_mode: Option<&TestMode>) -> Arc<dyn ChangeLog> {
    match test_mode {
        Some(test_mode) => test_mode.recorder.clone(),
        None => log.clone(),
    }
}

/// Returns the identity as a node of a cluster: that of the process is the main namespace's.
fn node_of(instance: &Instance, config: &Config, is_private: bool) -> Option<NodeIdentity> {
    let kept = || instance.node.clone().filter(|_| !is_private);
    config.cluster_enabled.then(|| kept().unwrap_or_else(new_node))
}

/// State that the namespaces of a process share.
struct Process {
    instance: Arc<Instance>,
    private: Arc<PrivateNamespaces<Namespace>>,
}

/// A client's entry in the namespace that it has entered.
pub(crate) struct Admitted {
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) info: Arc<ClientInfo>,
    /// True if the namespace was created for the client.
    pub(crate) is_new: bool,
}

/// The switches of DEBUG, for tests.
#[derive(Default)]
pub struct DebugSwitches {
    /// True if scripts may call DEBUG.
    pub may_scripts_debug: AtomicBool,
    /// True if RESTORE accepts wrong checksums, for tests with damaged payloads.
    pub skips_checksums: AtomicBool,
    /// Length in bytes from which on an element of a long list is a node of its own; 0, as always outside tests, if the
    /// limit of nodes decides.
    pub large_element_min: AtomicUsize,
}

/// Time for which expired keys are deleted before other work has its turn, in nanoseconds.
const SWEEP_SLICE_NS: u64 = 500_000;

/// Number of keys evicted in a step with the default tenacity: about half a millisecond's work.
const EVICTED_KEYS: usize = 500;

/// Least number of keys evicted in a step, because Redis checks its clock only after this many.
const EVICTED_KEYS_MIN: usize = 16;

impl Namespace {
    /// Starts to measure calls of a client.
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

    /// Returns how the server is said to run: `cluster`, `sentinel` or `standalone`.
    pub(crate) fn mode(&self) -> &'static str {
        if self.restrictions.is_sentinel() {
            return "sentinel";
        }
        if self.restrictions.is_in_cluster() { "cluster" } else { "standalone" }
    }

    /// Returns the engine, if the data is in a cluster.
    pub(crate) fn engine(&self) -> Option<&dyn Engine> {
        self.engine.get().map(|engine| &**engine)
    }

    /// Sets the engine, before the first client is served.
    pub(crate) fn set_engine(&self, engine: Arc<dyn Engine>) {
        let is_first = self.engine.set(engine).is_ok();
        debug_assert!(is_first, "a namespace has one engine");
        self.restrictions.set(ON_ENGINE, true);
    }

    /// Stops the server: no new clients are accepted, and every connection closes after its replies.
    pub fn stop(&self) {
        self.begin_shutdown();
        self.end_clients();
    }

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

    /// Creates an empty private namespace, with a user of that name with all permissions.
    pub(crate) fn new_private(main: &Namespace, name: &[u8], clock: Clock) -> Self {
        let acl = Acl::new(main.commands, None);
        let mut config = Config::clone(&main.settings.current());
        config.make_private();
        let settings = Settings::new(config);
        let process = Process { instance: main.instance.clone(), private: main.private.clone() };
        let own = (Arc::new(acl), Arc::new(settings));
        let namespace = Namespace::open(main.commands, process, Some(name.into()), own, main.store.threads(), clock);
        namespace.restrictions.set(IS_PRIVATE, true);
        namespace
    }

    /// Creates a private namespace like [`Namespace::new_private`], to be a replica of another one, whose clock it
    /// shares.
    pub(crate) fn new_replica(main: &Namespace, name: &[u8], primary: &Namespace) -> Self {
        let mut namespace = Namespace::new_private(main, name, primary.clock.clone());
        namespace.links = primary.links.of_kin();
        namespace.upkeep.steering = primary.upkeep.steering.clone();
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
        let (memory_account, config) = (Arc::<MemoryAccount>::default(), settings.current());
        let observed = Observed::new(threads, commands.count(), &memory_account);
        let lock_holders = LockHolders::new(memory_account.clone());
        let (log, test_mode) = logs(&config);
        let push_rule = test_mode.as_deref().map(push_rule);
        let clients = Arc::new(Clients::new(instance.admissions.clone(), memory_account.clone(), push_rule));
        let push = Push::new((&clients, &acl), &clock, &config, &observed.locks, &memory_account);
        let upkeep = Upkeep::new(acl.memory());
        let restrictions = Restrictions::by(&config);
        let store = Store::new(
            (config.databases as usize, name.is_some()),
            threads,
            upkeep.sweep_timer(),
            memory_account,
            EventSink::new(push.notifier.clone(), change_log(&log, test_mode.as_deref())),
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
            node: node_of(&instance, &config, name.is_some()).map_or_else(OnceLock::new, OnceLock::from),
            tenant: Tenant::new(name, clock.now(), instance.stop.child_token()),
            instance,
            settings,
            private,
            clients,
            acl,
            debug: DebugSwitches::default(),
            commands,
            clock,
            push,
            log,
            replicas: Arc::default(),
            role: Role::default(),
            member: OnceLock::new(),
            topologies: Topologies::default(),
            engine: OnceLock::new(),
            links: Links::default(),
            failover: Failover::default(),
            persistence: Arc::default(),
            pending_shutdown: PendingShutdown::default(),
            restrictions,
            observed,
            upkeep,
            lock_holders,
            test_mode,
        };
        namespace.persistence.update(|figures| figures.saved_ms = namespace.tenant.started.wall_ms());
        namespace.apply_settings();
        {
            let _alone = namespace.store.exclusive();
            namespace.follow_log_readers();
        }
        namespace.begin_as_replica();
        namespace
    }

    /// Applies changed settings. Those of the main namespace also apply to private ones, except for settings that these
    /// have changed for themselves.
    pub fn follow_settings(&self) {
        self.apply_settings();
        if self.tenant.is_private() {
            return;
        }
        for namespace in self.private.all() {
            // These settings change no state of the process, so no check can refuse them.
            let _ = namespace.settings.update(|own| Ok(own.on_top_of(&self.settings.current())));
            namespace.apply_settings();
        }
    }

    /// Applies the settings about memory and events to the store.
    pub(crate) fn apply_settings(&self) {
        let config = self.settings.current();
        let policy = config.maxmemory_policy;
        let rule = if policy.is_lfu() {
            UsageRule::frequency(config.lfu_log_factor, config.lfu_decay_minutes)
        } else if policy.is_lrm() {
            UsageRule::MODIFICATION
        } else {
            UsageRule::RECENCY
        };
        self.store.set_policy(policy, config.maxmemory_samples as usize, rule);
        self.store.memory_account().set_limit(config.maxmemory);
        self.store.remember_fences(config.fence_memory_ms);
        self.follow_profile(&config);
        self.follow_replicas(self.clock.now());
        self.follow_role();
        self.follow_backlog_size();
        #[cfg(feature = "lua")]
        self.scripts.control.answer_as(config.dialect(), config.identity());
        self.store.events().set_classes(self.push.notifier.follow(config.clone()));
        self.push.forget_excess(&config, &self.clock);
        if let Some(test_mode) = &self.test_mode {
            test_mode.recorder.remember(config.test_journal_max);
            if config.test_journal_max == 0 {
                test_mode.history.lock().stop_remembering(self.log.end());
            }
        }
        self.follow_file_settings();
        self.follow_files();
        self.persistence.look();
        self.record_shortage(self.clock.now());
        if let Some(limit) = config.client_memory_max() {
            self.clients.evict(limit);
        }
        self.store.renew_generation();
    }

    /// Counts the memory that the process has allocated before the namespace was created as used memory.
    pub(crate) fn record_startup(&self) {
        let allocated = self.instance.allocator.map_or(0, |stats| stats().allocated);
        self.observed.sampler.record_startup(allocated);
        self.store.memory_account().report_outside(0, allocated);
    }

    /// Counts the users as used memory, after they have changed.
    pub(crate) fn count_users(&self) {
        let len = self.acl.memory();
        self.store.memory_account().report_outside(self.upkeep.users_len.swap(len, Relaxed), len);
    }

    /// Adds a client of another namespace to the private namespace with a name; calls `create` if there is none. `None`
    /// if there are too many already.
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

    /// Returns the private namespace with a name, and true if it was created; calls `create` if there is none. `None`
    /// if there are too many already.
    pub(crate) fn found_private(
        &self,
        name: &[u8],
        create: impl FnOnce() -> Namespace,
    ) -> Option<(Arc<Namespace>, bool)> {
        self.private.enter(name, create, |namespace, is_new| (namespace, is_new))
    }

    /// Returns the delay with which writes of a primary in the same process arrive; `None` while the link is cut.
    pub(crate) fn link_delay(&self) -> Option<Duration> {
        let fault =
            self.test_mode.as_ref().map_or(Some(Duration::ZERO), |test_mode| test_mode.faults.lock().link_delay());
        let own = self.member().map_or(Some(Duration::ZERO), Member::link_delay);
        Some(fault?.max(own?))
    }

    /// Returns how a new connection, or a client with this name that enters, is received.
    pub(crate) fn reception(&self, client_name: &str) -> Reception {
        let test_mode = self.test_mode.as_ref().filter(|_| client_name != CONTROL_CLIENT);
        match test_mode.and_then(|test_mode| test_mode.faults.lock().fault_of_connection()) {
            None => Reception::Served,
            Some(FaultKind::Delay(time)) => Reception::Late(time),
            Some(FaultKind::Error(line)) => Reception::Refused(line),
            Some(_) => Reception::Reset,
        }
    }

    /// Removes this private namespace, which has no clients, if none has entered since `served` was their number;
    /// returns true if it was removed.
    pub(crate) fn forget_private(self: &Arc<Self>, served: u64) -> bool {
        let is_deserted = || self.is_deserted() && self.clients.served() == served;
        self.tenant.name().is_some_and(|name| self.private.forget(name, is_deserted))
    }

    /// Removes this private namespace, a node of a topology that has ended.
    pub(crate) fn forget_node(&self) {
        if let Some(name) = self.tenant.name() {
            self.private.forget(name, || true);
        }
    }

    /// Returns the number of private namespaces.
    pub fn private_count(&self) -> usize {
        self.private.all().len()
    }

    /// Returns the permissions of the user of a private namespace, creating a user without a password if there is none;
    /// `None` if the user was changed since and `password` is wrong.
    pub(crate) fn admit_user(&self, name: &[u8], password: &[u8]) -> Option<Access> {
        if self.acl.user(name).is_none() {
            // These rules are valid.
            let _ = self.acl.set_user(
                name,
                &["on", "nopass", "allkeys", "allchannels", "allcommands"],
                RuleSettings::default(),
            );
        }
        let mut access = Access::new(&self.acl);
        access.log_in(&self.acl, name, password).then_some(access)
    }

    /// Stops a private namespace that is not used any more. Its data is freed in the background, if that takes long.
    pub(crate) fn end(&self) {
        self.tenant.stop.cancel();
        if let Some(test_mode) = &self.test_mode {
            self.store.reclaimer().free_later(std::mem::take(&mut *test_mode.history.lock()));
        }
        self.flush();
    }

    /// Enables the log of changes; returns a reader of it.
    pub fn read_log(&self, purpose: ReaderPurpose) -> LogReader {
        let _alone = self.store.exclusive();
        let reader = self.log.reader(purpose);
        self.follow_log_readers();
        reader
    }

    /// Appends the effects of a call to the log, and clears them; returns the position behind them. Must be called
    /// while the changed shards are locked; `shards` are these, if they are known.
    pub(crate) fn record(&self, effects: &mut Effects, at: Now, shards: Option<&[usize]>) -> u64 {
        let position = match &self.test_mode {
            Some(test_mode) => test_mode.recorder.append(effects, at),
            None => self.log.append(effects),
        };
        self.log.note_change(shards, position);
        position
    }

    /// Deletes every key of every database.
    pub fn flush(&self) {
        let mut guard = self.store.exclusive();
        let now = self.clock.now();
        guard.view(0, Cx::new(now, Origin::HOST)).clear(true);
        if self.store.is_logged() {
            self.record(&mut Effects::one(0, &[b"FLUSHALL"]), now, None);
        }
    }

    /// Records that memory usage is within the limit again, if it is.
    pub fn record_shortage(&self, now: Now) {
        if !self.store.memory_account().is_over() {
            self.observed.stats.shortage.note(false, now);
        }
    }

    /// Evicts some keys if memory usage exceeds the limit. If there is more to do, the sweeper continues.
    pub fn evict_to_fit(&self, hold: &mut GateGuard<'_>, cx: Cx) -> Eviction {
        if self.leaves_eviction_to_primary() || self.restrictions.is_loading_anything() {
            return Eviction::Enough;
        }
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
        self.upkeep.resident.record_evicted(evicted, memory_account, self.instance.allocator);
        self.upkeep.resident.compact(memory_account, || self.store.compact(hold));
        if relief == Eviction::None && memory_account.loss() > 0 {
            // No command is rejected because of fragmentation.
            memory_account.set_loss(0);
            relief = if memory_account.is_over() { Eviction::None } else { Eviction::Enough };
        }
        self.record_latency(EVICTION_CYCLE, begun);
        self.observed.stats.shortage.note(relief != Eviction::Enough, now);
        if relief == Eviction::Unfinished {
            self.upkeep.sweep_notify.notify_one();
        }
        self.push.broadcast(&self.settings, now);
        relief
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

    /// Returns true if a client may believe after the server's stop that it holds a lock which no file has: one of
    /// `LOCK.*`, or a key with a TTL, as `SET` with `NX` makes it; or if clients from before the last crash may.
    pub(crate) fn may_leave_holders(&self) -> bool {
        let is_in_grace = self.restrictions.grace_left_ms(self.clock.now()).is_some();
        let files = self.persistence.figures();
        let is_lacking = |totals: &Totals| {
            let is_saved = files.saves.succeeded > 0 && totals.changes == files.saved_changes;
            totals.locks + totals.with_ttl > 0 && !files.is_log_complete && !is_saved
        };
        is_in_grace || self.held_locks().is_none_or(|totals| is_lacking(&totals))
    }

    /// Deletes some expired keys, see [`Store::sweep`], and records the latency if it is high.
    pub fn sweep(&self, now: Now) -> u64 {
        if !self.may_sweep() {
            return NEVER;
        }
        let begun = self.clock.ticks();
        let is_time_up = || self.clock.tick_rate().ns(self.clock.ticks().saturating_sub(begun)) >= SWEEP_SLICE_NS;
        let report = |panic: &(dyn Any + Send)| self.instance.panics.report("sweep", panic);
        let due_ms = self.store.sweep(Cx::new(now, Origin::Expiry), is_time_up, &report);
        self.push.broadcast(&self.settings, now);
        self.observed.command_stats.record_sweep(self.clock.tick_rate().ns(self.clock.ticks().saturating_sub(begun)));
        self.record_latency(EXPIRE_CYCLE, begun);
        due_ms
    }

    /// Returns the time of the next sweep, in monotonic milliseconds, or [`NEVER`].
    pub(crate) fn next_sweep_ms(&self, now: Now) -> u64 {
        if self.may_sweep() { self.store.next_sweep_ms(now) } else { NEVER }
    }

    /// Returns true if expired keys may be deleted: not while a log is loaded, which may give them another deadline.
    fn may_sweep(&self) -> bool {
        self.upkeep.is_sweeping() && !self.restrictions.is_loading()
    }

    /// Records the latency of an event that began at `begun`, a reading of the clock's counter, if it is high.
    fn record_latency(&self, event: &'static str, begun: u64) {
        self.note_latency(event, self.clock.tick_rate().ns(self.clock.ticks().saturating_sub(begun)) / 1_000_000);
    }

    /// Records the duration of an event, if it is long.
    pub(crate) fn note_latency(&self, event: &'static str, took_ms: u64) {
        if took_ms == 0 {
            return; // saves reading the settings
        }
        let threshold_ms = self.settings.current().latency_monitor_threshold;
        if threshold_ms != 0 && took_ms >= threshold_ms {
            self.observed.latency.note(event, self.clock.wall_us().div_euclid(1_000_000), took_ms);
        }
    }

    /// Records the duration of housekeeping that began at `begun`, a reading of the clock's counter.
    pub fn record_housekeeping(&self, begun: u64) {
        self.observed
            .command_stats
            .record_housekeeping(self.clock.tick_rate().ns(self.clock.ticks().saturating_sub(begun)));
    }

    /// Samples the counters, once a second, for the rates that INFO shows.
    pub fn sample(&self) {
        self.upkeep.resident.refresh(self.store.memory_account(), self.instance.allocator);
        let used = self.store.memory_account().used();
        self.observed.sample(self.clock.now().mono_ms(), used);
    }
}

/// Returns the number of keys that a step evicts: in proportion to the tenacity up to 10, then 15 % more for each,
/// without limit at 100. Redis bounds the time in the same way, in microseconds, about the time of one key.
fn evicted_keys(tenacity: u32) -> usize {
    match tenacity {
        0..=10 => EVICTED_KEYS / 10 * tenacity as usize,
        11..=99 => (EVICTED_KEYS as f64 * 1.15_f64.powi(tenacity as i32 - 10)) as usize,
        _ => usize::MAX,
    }
    .max(EVICTED_KEYS_MIN)
}
