//! What one tenant owns: data, clock, channels, scripts, statistics. There are no globals beside it.
//!
//! A server has one namespace. What its namespaces would share belongs to the [`Instance`].

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::sync::Notify;

use crate::client::pause::Pause;
use crate::client::registry::Clients;
use crate::config::Config;
use crate::instance::Instance;
use crate::observe::Observed;
use crate::observe::latency::{EVICTION_CYCLE, EXPIRE_CYCLE};
use crate::observe::sampler::Counted;
use crate::observe::stats::{ScriptUsage, Stats};
use crate::persist::Journal;
use crate::push::hub::Hub;
use crate::push::keyspace::Notifier;
use crate::push::tracking::Tracking;
use crate::spec::{CommandTable, Names};
use crate::store::resident::Resident;
use crate::store::usage::UsageRule;
use crate::store::{Cx, EventSink, Eviction, GateGuard, MemoryAccount, NEVER, Origin, Store, SweepTimer};
use crate::time::clock::{Clock, Now};

/// Holds one tenant.
pub struct Namespace {
    /// What it shares with others of the process.
    pub instance: Instance,
    /// The commands that there are.
    pub commands: &'static CommandTable,
    /// The data.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// The clients that keep copies of keys.
    pub tracking: Arc<Tracking>,
    /// The subscribers of every channel.
    pub hub: Arc<Hub>,
    /// Publishes keyspace notifications.
    notifier: Arc<Notifier>,
    /// What calls have changed, while that is logged.
    pub(crate) journal: Arc<Journal>,
    /// The commands that CLIENT PAUSE holds back, if any.
    pub pause: Pause,
    /// Scripts and functions.
    #[cfg(feature = "lua")]
    pub scripts: crate::script::Scripts,
    /// What has happened so far.
    pub stats: Stats,
    /// What commands cost, which were slow, and who watches.
    pub observed: Observed,
    /// Wakes the sweeper when a key expires earlier than it expects.
    pub sweep_wanted: Arc<Notify>,
    /// Whether expired keys are looked for; they are invisible either way.
    is_sweeping: AtomicBool,
    /// Whether there are fewer replicas than the settings ask for.
    lacks_replicas: AtomicBool,
    /// What the allocator holds beyond what was asked of it.
    resident: Resident,
}

/// How many keys are removed in a step for want of memory with the default tenacity: about half a millisecond's work.
const EVICTED_KEYS: usize = 500;

/// How many keys are removed in a step whatever the tenacity, as Redis looks at its clock only after so many.
const EVICTED_KEYS_MIN: usize = 16;

/// How many keys that clients have copies of are forgotten at a time.
const FORGOTTEN_KEYS: usize = 1000;

impl Namespace {
    /// Returns what scripts and functions take; nothing where the server was built without them.
    pub fn script_usage(&self) -> ScriptUsage {
        #[cfg(feature = "lua")]
        return self.scripts.usage();
        #[cfg(not(feature = "lua"))]
        ScriptUsage::default()
    }

    /// Returns the names by which commands go under these settings.
    #[inline]
    pub fn names<'a>(&self, config: &'a Config) -> Names<'a> {
        Names::new(self.commands, &config.directives.renames)
    }

    /// Stops: nobody is let in any more, and every connection ends after its replies.
    pub fn stop(&self) {
        self.begin_to_stop();
        self.instance.clients.end_all();
    }

    /// Stops like [`Namespace::stop`], but connections end once nobody is let in any more: who has been told that the
    /// server is gone does not reach it again.
    pub fn begin_to_stop(&self) {
        self.instance.stop.cancel();
        #[cfg(feature = "lua")]
        self.scripts.control.end_all();
    }

    /// Creates an empty instance whose commands are executed by `threads` threads.
    pub fn new(
        commands: &'static CommandTable,
        config: Config,
        threads: usize,
        clock: Clock,
        config_file: Option<PathBuf>,
    ) -> Self {
        let sweep_wanted = Arc::new(Notify::new());
        let wake = sweep_wanted.clone();
        let sweep_timer = Arc::new(SweepTimer::new(move || wake.notify_one()));
        let (memory_account, settings) = (Arc::<MemoryAccount>::default(), crate::config::Settings::new(config));
        let (hub, observed) =
            (Arc::new(Hub::new(&memory_account)), Observed::new(threads, commands.count(), &memory_account));
        let clients = Arc::new(Clients::new(memory_account.clone()));
        let (config, tracking) = (settings.current(), Arc::new(Tracking::new(clients.clone(), &memory_account)));
        let notifier = Arc::new(Notifier::new(hub.clone(), tracking.clone(), clock.clone(), config.clone()));
        let journal = Arc::<Journal>::default();
        let store = Store::new(
            config.databases as usize,
            threads,
            sweep_timer,
            memory_account,
            EventSink::new(notifier.clone(), journal.clone()),
        );
        let namespace = Namespace {
            #[cfg(feature = "lua")]
            scripts: crate::script::Scripts::new(
                clock.clone(),
                store.busy_flag().clone(),
                store.memory_account().clone(),
            ),
            store,
            instance: Instance::new(commands, settings, clients, clock.now(), config_file),
            commands,
            clock,
            tracking,
            hub,
            notifier,
            journal,
            pause: Pause::default(),
            stats: Stats::default(),
            observed,
            sweep_wanted,
            is_sweeping: AtomicBool::new(true),
            lacks_replicas: AtomicBool::new(false),
            resident: Resident::default(),
        };
        namespace.apply_settings();
        namespace
    }

    /// Tells the store what the settings say about memory and events; to be called whenever they have changed.
    pub fn apply_settings(&self) {
        let config = self.instance.settings.current();
        let policy = config.maxmemory_policy;
        let rule = match policy.is_lfu() {
            true => UsageRule::frequency(config.lfu_log_factor, config.lfu_decay_minutes),
            false => UsageRule::RECENCY,
        };
        self.store.set_policy(policy, config.maxmemory_samples as usize, rule);
        self.store.memory_account().set_limit(config.maxmemory);
        self.lacks_replicas.store(config.lacks_replicas(), Relaxed);
        #[cfg(feature = "lua")]
        self.scripts.control.set_dialect(config.dialect());
        self.store.events().set_classes(self.notifier.follow(config.clone()));
        while self.tracking.forget(config.tracking_table_max_keys, FORGOTTEN_KEYS, (&config, self.clock.now())) {}
        self.note_shortage(self.clock.now());
        if let Some(most) = config.client_memory_max() {
            self.instance.clients.evict(most);
        }
    }

    /// Begins to log what calls change: what [`Namespace::take_log`] returns from then on repeats it.
    pub fn begin_log(&self) {
        let _nobody_else = self.store.exclusive();
        self.journal.begin();
        self.store.set_logged(true);
    }

    /// Takes what was logged since the last time.
    pub fn take_log(&self) -> bytes::BytesMut {
        self.journal.take().into_bytes()
    }

    /// Removes every key of every database.
    pub fn flush(&self) {
        let mut guard = self.store.exclusive();
        guard.view(0, Cx::new(self.clock.now(), Origin::HOST)).clear(true);
        if self.store.is_logged() {
            self.journal.append_command(0, &[b"FLUSHALL"]);
        }
    }

    /// Returns whether writes are refused because the settings ask for replicas.
    #[inline]
    pub fn lacks_replicas(&self) -> bool {
        self.lacks_replicas.load(Relaxed)
    }

    /// Takes note that no more memory is used than may be, if so.
    pub fn note_shortage(&self, now: Now) {
        if !self.store.memory_account().is_over() {
            self.stats.shortage.note(false, now);
        }
    }

    /// Removes some keys if more memory is used than may be. When there is more to do, the sweeper goes on with it.
    pub fn evict_to_fit(&self, hold: &mut GateGuard<'_>, cx: Cx) -> Eviction {
        let now = cx.now;
        let tenacity = self.instance.settings.current().maxmemory_eviction_tenacity;
        let begun = self.clock.ticks();
        let _evicting = self.store.memory_account().evicting();
        let (memory_account, before) = (self.store.memory_account(), self.store.memory_account().held());
        let mut relief = self.store.evict_to_fit(hold, cx, evicted_keys(tenacity));
        let evicted = usize::try_from(before - memory_account.held()).unwrap_or(0);
        self.resident.note_evicted(evicted, memory_account, self.instance.allocator);
        self.resident.compact(memory_account, || self.store.compact(hold));
        if relief == Eviction::None && memory_account.loss() > 0 {
            // Nobody is refused for what the allocator loses.
            memory_account.set_loss(0);
            relief = if memory_account.is_over() { Eviction::None } else { Eviction::Enough };
        }
        self.note_latency(EVICTION_CYCLE, begun);
        self.stats.shortage.note(relief != Eviction::Enough, now);
        if relief == Eviction::Unfinished {
            self.sweep_wanted.notify_one();
        }
        self.broadcast(now);
        relief
    }

    /// Tells clients that track keys of what has changed without anybody's doing.
    fn broadcast(&self, now: Now) {
        if self.tracking.has_news() {
            self.tracking.broadcast((&self.instance.settings.current(), now));
        }
    }

    /// Has keys whose time has come looked for, or not any more.
    pub fn set_sweeping(&self, is_sweeping: bool) {
        self.is_sweeping.store(is_sweeping, Relaxed);
        self.sweep_wanted.notify_one();
    }

    /// Removes some of the keys whose time has come, see [`Store::sweep`], and notes when that takes long.
    pub fn sweep(&self, now: Now) -> u64 {
        if !self.is_sweeping.load(Relaxed) {
            return NEVER;
        }
        let begun = self.clock.ticks();
        let due_ms = self.store.sweep(Cx::new(now, Origin::Expiry));
        self.broadcast(now);
        self.observed.meters.note_sweep(self.clock.tick_rate().ns(self.clock.ticks().saturating_sub(begun)));
        self.note_latency(EXPIRE_CYCLE, begun);
        due_ms
    }

    /// Notes how long something took that began at this reading of the clock's counter, if that was long.
    fn note_latency(&self, event: &'static str, begun: u64) {
        let took_ms = self.clock.tick_rate().ns(self.clock.ticks().saturating_sub(begun)) / 1_000_000;
        if took_ms == 0 {
            return; // spares the look at the settings
        }
        let threshold_ms = self.instance.settings.current().latency_monitor_threshold;
        if threshold_ms != 0 && took_ms >= threshold_ms {
            self.observed.latency.note(event, self.clock.wall_us().div_euclid(1_000_000), took_ms);
        }
    }

    /// Notes how long looking after the clients has taken that began at this reading of the clock's counter.
    pub fn note_housekeeping(&self, begun: u64) {
        self.observed.meters.note_house(self.clock.tick_rate().ns(self.clock.ticks().saturating_sub(begun)));
    }

    /// Looks at what is counted, once a second, for the rates that INFO shows.
    pub fn sample(&self) {
        let turns = self.observed.meters.turns();
        let counted = Counted {
            commands: self.observed.meters.all_calls().count,
            bytes_in: self.stats.bytes_in.load(Relaxed),
            bytes_out: self.stats.bytes_out.load(Relaxed),
            turns: turns.count,
            turns_us: turns.ns.div_ceil(1000),
        };
        self.resident.look_again(self.store.memory_account(), self.instance.allocator);
        let used = self.store.memory_account().used();
        self.observed.sampler.look(counted, self.clock.now().mono_ms(), used);
    }
}

/// Returns how many keys a step removes: in proportion to the tenacity up to 10, then 15 % more for each, without end at
/// 100. So Redis bounds the time, in the unit of a microsecond, which a key takes about.
fn evicted_keys(tenacity: u32) -> usize {
    match tenacity {
        0..=10 => EVICTED_KEYS / 10 * tenacity as usize,
        11..=99 => (EVICTED_KEYS as f64 * 1.15_f64.powi(tenacity as i32 - 10)) as usize,
        _ => usize::MAX,
    }
    .max(EVICTED_KEYS_MIN)
}
