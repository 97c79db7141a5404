//! Everything one instance owns: data, clock, settings, clients, statistics. There are no globals beside it.
//!
//! A server usually has one namespace; a test run may have many in one process.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use tracing::warn;

use crate::acl::Acl;
use crate::client::pause::Pause;
use crate::client::registry::Clients;
use crate::config::{Config, SetError};
use crate::memory::resident::Resident;
use crate::observe::Observed;
use crate::observe::latency::{EVICTION_CYCLE, EXPIRE_CYCLE};
use crate::observe::sampler::Counted;
use crate::push::hub::Hub;
use crate::push::keyspace::Notifier;
use crate::push::tracking::Tracking;
use crate::runtime::panics::Panics;
use crate::store::usage::UsageRule;
use crate::store::{Eviction, GateGuard, Herald, MemoryAccount, NEVER, Store, SweepTimer, Totals};
use crate::time::clock::{Clock, Now};

/// Holds one instance.
pub struct Namespace {
    /// The data.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// The settings.
    pub settings: Settings,
    /// The users, and what each may do.
    pub acl: Acl,
    /// Who is connected.
    pub clients: Arc<Clients>,
    /// Who keeps copies of keys.
    pub tracking: Arc<Tracking>,
    /// Who listens to which channel.
    pub hub: Arc<Hub>,
    /// Publishes what happens to keys.
    notifier: Arc<Notifier>,
    /// Which commands are held back, if any.
    pub pause: Pause,
    /// Scripts and functions.
    #[cfg(feature = "lua")]
    pub scripts: crate::script::Scripts,
    /// What has happened so far.
    pub stats: Stats,
    /// The panics that were caught.
    pub panics: Arc<Panics>,
    /// What commands cost, which were slow, and who watches.
    pub observed: Observed,
    /// Wakes the sweeper when a key falls due earlier than it expects.
    pub sweep_wanted: Arc<Notify>,
    /// Forty hexadecimal digits that are different in every run.
    pub run_id: String,
    replication_id: Mutex<String>,
    /// When it was started.
    pub started: Now,
    /// The configuration file it was started with.
    pub config_file: Option<PathBuf>,
    /// The TCP port it listens on; 0 without TCP.
    pub tcp_port: AtomicU64,
    /// Tells everybody that the server stops.
    pub stop: CancellationToken,
    /// Whether keys whose time has come are looked for; they are invisible either way.
    is_sweeping: AtomicBool,
    /// Whether scripts may call DEBUG.
    pub may_scripts_debug: AtomicBool,
    /// Whether there are fewer replicas than the settings ask for.
    lacks_replicas: AtomicBool,
    /// Asks the allocator what it holds, where that is known.
    pub allocator: Option<fn() -> AllocatorStats>,
    /// What the allocator holds beyond what was asked of it.
    resident: Resident,
}

/// What the allocator holds, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct AllocatorStats {
    /// Its name and version.
    pub name: &'static str,
    /// Handed out and not given back.
    pub allocated: usize,
    /// In pages that hold any of that.
    pub active: usize,
    /// In pages that the operating system has provided.
    pub resident: usize,
    /// In pages that the operating system may take back, and has not yet.
    pub muzzy: usize,
    /// Has it give back the pages it does not use; returns whether that went well.
    pub purge: fn() -> bool,
    /// Does something without the calling thread's cache of places that it has freed.
    pub without_cache: fn(&mut dyn FnMut()),
    /// Returns what it says of itself, in its own words.
    pub report: fn() -> String,
}

/// Sums up scripts and functions for INFO.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptUsage {
    /// What the interpreter of scripts takes, in bytes: `used_memory_vm_eval`, `used_memory_lua`.
    pub eval_bytes: usize,
    /// What the interpreter of functions takes, in bytes: `used_memory_vm_functions`.
    pub functions_bytes: usize,
    /// What the texts of scripts take, in bytes: `used_memory_scripts_eval`.
    pub scripts_bytes: usize,
    /// Scripts in the cache: `number_of_cached_scripts`.
    pub scripts: usize,
    /// Functions of all libraries: `number_of_functions`.
    pub functions: usize,
    /// Libraries: `number_of_libraries`.
    pub libraries: usize,
    /// What their texts take, in bytes: `used_memory_functions`.
    pub libraries_bytes: usize,
}

/// Counts what has happened since the start.
#[derive(Default)]
pub struct Stats {
    /// What was counted elsewhere before CONFIG RESETSTAT.
    pub forgotten: Forgotten,
    /// Reads that brought something.
    pub reads: AtomicU64,
    /// Writes of replies.
    pub writes: AtomicU64,
    /// Bytes read from clients.
    pub bytes_in: AtomicU64,
    /// Bytes written to clients.
    pub bytes_out: AtomicU64,
    /// Clients closed because of `client-output-buffer-limit`.
    pub output_limit_disconnections: AtomicU64,
    /// Clients closed because of `client-query-buffer-limit`.
    pub query_limit_disconnections: AtomicU64,
    /// Log-ins refused because of a wrong name or password.
    pub acl_denied_auth: AtomicU64,
    /// Commands refused because the user may not call them.
    pub acl_denied_command: AtomicU64,
    /// Commands refused because of a key.
    pub acl_denied_key: AtomicU64,
    /// Commands refused because of a channel.
    pub acl_denied_channel: AtomicU64,
    /// Scripts of EVAL that were evicted because there were too many.
    pub evicted_scripts: AtomicU64,
    /// Since when more memory has been used than may be.
    pub shortage: Shortage,
}

/// Measures for how long more memory was used than may be.
pub struct Shortage {
    /// In monotonic milliseconds, or [`NEVER`].
    since_ms: AtomicU64,
    past_ms: AtomicU64,
}

impl Default for Shortage {
    fn default() -> Self {
        Shortage { since_ms: AtomicU64::new(NEVER), past_ms: AtomicU64::new(0) }
    }
}

impl Shortage {
    /// Takes note of whether there is one.
    pub fn note(&self, is_short: bool, now: Now) {
        let since_ms = self.since_ms.load(Relaxed);
        if is_short && since_ms == NEVER {
            self.since_ms.store(now.mono_ms(), Relaxed);
        } else if !is_short && since_ms != NEVER {
            self.since_ms.store(NEVER, Relaxed);
            self.past_ms.fetch_add(now.mono_ms().saturating_sub(since_ms), Relaxed);
        }
    }

    /// Returns how many milliseconds the present one has lasted; 0 if there is none.
    pub fn current_ms(&self, now: Now) -> u64 {
        now.mono_ms().saturating_sub(self.since_ms.load(Relaxed))
    }

    /// Returns how many milliseconds all of them have lasted.
    pub fn total_ms(&self, now: Now) -> u64 {
        self.past_ms.load(Relaxed) + self.current_ms(now)
    }
}

/// Does what a change of the settings, from the first to the second, means beyond their values, or says which one it
/// cannot follow; it is then asked to go back from the second to the first. It must not ask [`Settings`] for anything.
type Follower = Box<dyn Fn(&Config, &Config) -> Result<(), SetError> + Send + Sync>;
/// Remembers what is not to be counted any more.
#[derive(Default)]
pub struct Forgotten {
    /// Keys that ended by their deadline.
    pub expired: AtomicU64,
    /// Those of them that the sweeper found.
    pub swept: AtomicU64,
    /// Keys that were removed for want of memory.
    pub evicted: AtomicU64,
    /// Clients that were closed for want of memory.
    pub evicted_clients: AtomicU64,
    connections: AtomicU64,
    refused: AtomicU64,
}

impl Stats {
    /// Returns how many connections came, served or not.
    pub fn connections(&self, clients: &Clients) -> u64 {
        clients.served() + clients.refused() - self.forgotten.connections.load(Relaxed)
    }

    /// Returns how many connections were refused because of `maxclients`.
    pub fn rejected_connections(&self, clients: &Clients) -> u64 {
        clients.refused() - self.forgotten.refused.load(Relaxed)
    }

    /// Starts from zero; `totals` are those of all databases.
    pub fn clear(&self, clients: &Clients, totals: &Totals) {
        let Stats { forgotten, reads, writes, bytes_in, bytes_out, .. } = self;
        [reads, writes, bytes_in, bytes_out].into_iter().for_each(|counter| counter.store(0, Relaxed));
        [&self.acl_denied_auth, &self.acl_denied_command, &self.acl_denied_key, &self.acl_denied_channel]
            .into_iter()
            .for_each(|counter| counter.store(0, Relaxed));
        self.output_limit_disconnections.store(0, Relaxed);
        self.query_limit_disconnections.store(0, Relaxed);
        self.evicted_scripts.store(0, Relaxed);
        forgotten.expired.store(totals.expired, Relaxed);
        forgotten.swept.store(totals.swept, Relaxed);
        forgotten.evicted.store(totals.evicted, Relaxed);
        forgotten.evicted_clients.store(clients.evicted(), Relaxed);
        forgotten.connections.store(clients.served() + clients.refused(), Relaxed);
        forgotten.refused.store(clients.refused(), Relaxed);
    }
}

/// Holds the settings in force; connections keep a copy and look at the version to see whether it is still right.
pub struct Settings {
    current: RwLock<Arc<Config>>,
    version: AtomicU64,
    followers: RwLock<Vec<Follower>>,
}

impl Settings {
    /// Creates the settings of a server that starts.
    pub fn new(config: Config) -> Self {
        let current = RwLock::new(Arc::new(config));
        Settings { current, version: AtomicU64::new(0), followers: RwLock::default() }
    }

    /// Returns the settings in force.
    pub fn current(&self) -> Arc<Config> {
        self.current.read().clone()
    }

    /// Returns a number that changes with every change of the settings.
    pub fn version(&self) -> u64 {
        self.version.load(Relaxed)
    }

    /// Has every change followed by what `follow` does with the settings before and after it.
    pub fn on_change(&self, follow: impl Fn(&Config, &Config) -> Result<(), SetError> + Send + Sync + 'static) {
        self.followers.write().push(Box::new(follow));
    }

    /// Replaces the settings by what `change` makes of them; when that fails, or cannot be followed, they stay as they
    /// are.
    ///
    /// # Errors
    /// What `change` or a follower returns.
    pub fn update(&self, change: impl FnOnce(&Config) -> Result<Config, SetError>) -> Result<(), SetError> {
        let mut current = self.current.write();
        let changed = change(&current)?;
        let followers = self.followers.read();
        for (at, follow) in followers.iter().enumerate() {
            if let Err(refusal) = follow(&current, &changed) {
                warn!("failed to apply new settings, restoring the old ones: {refusal}");
                for undo in &followers[..at] {
                    if let Err(error) = undo(&changed, &current) {
                        warn!("failed to restore a setting: {error}");
                    }
                }
                return Err(refusal);
            }
        }
        *current = Arc::new(changed);
        self.version.fetch_add(1, Relaxed);
        Ok(())
    }
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

    /// Stops: nobody is let in any more, and every connection ends after its replies.
    pub fn stop(&self) {
        self.begin_to_stop();
        self.clients.end_all();
    }

    /// Stops like [`Namespace::stop`], but connections end once nobody is let in any more: who has been told that the
    /// server is gone does not reach it again.
    pub fn begin_to_stop(&self) {
        self.stop.cancel();
        #[cfg(feature = "lua")]
        self.scripts.control.end_all();
    }

    /// Creates an empty instance whose commands are executed by `threads` threads.
    pub fn new(config: Config, threads: usize, clock: Clock, config_file: Option<PathBuf>) -> Self {
        let sweep_wanted = Arc::new(Notify::new());
        let wake = sweep_wanted.clone();
        let sweep_timer = Arc::new(SweepTimer::new(move || wake.notify_one()));
        let (memory_account, settings) = (Arc::<MemoryAccount>::default(), Settings::new(config));
        let (hub, observed) = (Arc::new(Hub::new(&memory_account)), Observed::new(threads, &memory_account));
        let clients = Arc::new(Clients::new(memory_account.clone()));
        let (config, tracking) = (settings.current(), Arc::new(Tracking::new(clients.clone(), &memory_account)));
        let notifier = Arc::new(Notifier::new(hub.clone(), tracking.clone(), clock.clone(), config.clone()));
        let store =
            Store::new(config.databases as usize, threads, sweep_timer, memory_account, Herald::new(notifier.clone()));
        let namespace = Namespace {
            #[cfg(feature = "lua")]
            scripts: crate::script::Scripts::new(
                clock.clone(),
                store.busy_flag().clone(),
                store.memory_account().clone(),
            ),
            store,
            started: clock.now(),
            clock,
            acl: Acl::new(config.requirepass.as_deref()),
            settings,
            clients,
            tracking,
            hub,
            notifier,
            pause: Pause::default(),
            stats: Stats::default(),
            observed,
            sweep_wanted,
            run_id: random_hex(),
            replication_id: Mutex::new(random_hex()),
            config_file,
            tcp_port: AtomicU64::new(0),
            stop: CancellationToken::new(),
            panics: Arc::default(),
            is_sweeping: AtomicBool::new(true),
            lacks_replicas: AtomicBool::new(false),
            may_scripts_debug: AtomicBool::new(false),
            allocator: None,
            resident: Resident::default(),
        };
        namespace.apply_settings();
        namespace
    }

    /// Tells the store what the settings say about memory and events; to be called whenever they have changed.
    pub fn apply_settings(&self) {
        let config = self.settings.current();
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
        self.store.herald().set_wanted(self.notifier.follow(config.clone()));
        while self.tracking.forget(config.tracking_table_max_keys, FORGOTTEN_KEYS, (&config, self.clock.now())) {}
        self.note_shortage(self.clock.now());
        if let Some(most) = config.client_memory_max() {
            self.clients.evict(most);
        }
    }

    /// Returns whether commands may be refused for lack of memory or of replicas.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.store.memory_account().has_limit() || self.lacks_replicas()
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
    pub fn evict_to_fit(&self, hold: &mut GateGuard<'_>, now: Now) -> Eviction {
        let tenacity = self.settings.current().maxmemory_eviction_tenacity;
        let begun = self.clock.ticks();
        let _evicting = self.store.memory_account().evicting();
        let (memory_account, before) = (self.store.memory_account(), self.store.memory_account().held());
        let mut relief = self.store.evict_to_fit(hold, now, evicted_keys(tenacity));
        let evicted = usize::try_from(before - memory_account.held()).unwrap_or(0);
        self.resident.note_evicted(evicted, memory_account, self.allocator);
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
            self.tracking.broadcast((&self.settings.current(), now));
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
        let due_ms = self.store.sweep(now);
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
        let threshold_ms = self.settings.current().latency_monitor_threshold;
        if threshold_ms != 0 && took_ms >= threshold_ms {
            self.observed.latency.note(event, self.clock.wall_us().div_euclid(1_000_000), took_ms);
        }
    }

    /// Returns forty hexadecimal digits that name this data set to replicas, if there were any.
    pub fn replication_id(&self) -> String {
        self.replication_id.lock().clone()
    }

    /// Gives the data set another name.
    pub fn change_replication_id(&self) {
        *self.replication_id.lock() = random_hex();
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
        self.resident.look_again(self.store.memory_account(), self.allocator);
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

/// Returns 160 random bits in hexadecimal, from the seeds that hash tables get from the operating system.
fn random_hex() -> String {
    let hasher = ahash::RandomState::new();
    let mut hex: String = (0..3u8).map(|word| format!("{:016x}", hasher.hash_one(word))).collect();
    hex.truncate(40);
    hex
}
