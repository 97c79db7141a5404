//! Everything one instance owns: data, clock, settings, clients, statistics. There are no globals beside it.
//!
//! A server usually has one namespace; a test run may have many in one process.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use tracing::warn;

use crate::acl::Acl;
use crate::clients::Clients;
use crate::clock::{Clock, Now};
use crate::config::{Config, SetError};
use crate::pause::Pause;
use crate::pubsub::Hub;
use crate::store::usage::UsageRule;
use crate::store::{Alarm, Hold, NEVER, Relief, Store};

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
    pub clients: Clients,
    /// Who listens to which channel.
    pub hub: Hub,
    /// Which commands are held back, if any.
    pub pause: Pause,
    /// Scripts and functions.
    #[cfg(feature = "lua")]
    pub scripts: crate::script::Scripts,
    /// What has happened so far.
    pub stats: Stats,
    /// Wakes the sweeper when a key falls due earlier than it expects.
    pub sweep_wanted: Arc<Notify>,
    /// Forty hexadecimal digits that are different in every run.
    pub run_id: String,
    /// When it was started.
    pub started: Now,
    /// The configuration file it was started with.
    pub config_file: Option<PathBuf>,
    /// The TCP port it listens on; 0 without TCP.
    pub tcp_port: AtomicU64,
    /// Tells everybody that the server stops.
    pub stop: CancellationToken,
    /// Asks the allocator what it holds, where that is known.
    pub allocator: Option<fn() -> AllocatorStats>,
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
}

/// Counts what has happened since the start.
#[derive(Default)]
pub struct Stats {
    /// Commands carried out.
    pub commands: AtomicU64,
    /// Error replies sent.
    pub errors: AtomicU64,
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
            self.since_ms.store(now.mono_ms, Relaxed);
        } else if !is_short && since_ms != NEVER {
            self.since_ms.store(NEVER, Relaxed);
            self.past_ms.fetch_add(now.mono_ms.saturating_sub(since_ms), Relaxed);
        }
    }

    /// Returns how many milliseconds the present one has lasted; 0 if there is none.
    pub fn current_ms(&self, now: Now) -> u64 {
        now.mono_ms.saturating_sub(self.since_ms.load(Relaxed))
    }

    /// Returns how many milliseconds all of them have lasted.
    pub fn total_ms(&self, now: Now) -> u64 {
        self.past_ms.load(Relaxed) + self.current_ms(now)
    }
}

/// Does what a change of the settings, from the first to the second, means beyond their values, or says which one it
/// cannot follow; it is then asked to go back from the second to the first. It must not ask [`Settings`] for anything.
type Follower = Box<dyn Fn(&Config, &Config) -> Result<(), SetError> + Send + Sync>;

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

impl Namespace {
    /// Stops: nobody is let in any more, and every connection ends after its replies.
    pub fn stop(&self) {
        self.stop.cancel();
        #[cfg(feature = "lua")]
        self.scripts.control.end_all();
        self.clients.end_all();
    }

    /// Creates an empty instance whose commands are executed by so many threads.
    pub fn new(config: Config, threads: usize, clock: Clock, config_file: Option<PathBuf>) -> Self {
        let sweep_wanted = Arc::new(Notify::new());
        let wake = sweep_wanted.clone();
        let alarm = Arc::new(Alarm::new(move || wake.notify_one()));
        let store = Store::new(config.databases as usize, threads, alarm);
        let namespace = Namespace {
            #[cfg(feature = "lua")]
            scripts: crate::script::Scripts::new(clock.clone(), store.seat().clone()),
            store,
            started: clock.now(),
            clock,
            acl: Acl::new(config.requirepass.as_deref()),
            settings: Settings::new(config),
            clients: Clients::default(),
            hub: Hub::default(),
            pause: Pause::default(),
            stats: Stats::default(),
            sweep_wanted,
            run_id: random_hex(),
            config_file,
            tcp_port: AtomicU64::new(0),
            stop: CancellationToken::new(),
            allocator: None,
        };
        namespace.apply_settings();
        namespace
    }

    /// Tells the store what the settings say about memory; to be called whenever they have changed.
    pub fn apply_settings(&self) {
        let config = self.settings.current();
        let policy = config.maxmemory_policy;
        let rule = match policy.is_lfu() {
            true => UsageRule::frequency(config.lfu_log_factor, config.lfu_decay_minutes),
            false => UsageRule::RECENCY,
        };
        self.store.set_policy(policy, config.maxmemory_samples as usize, rule);
        self.store.pressure().set_limit(config.maxmemory);
        self.note_shortage(self.clock.now());
    }

    /// Takes note that no more memory is used than may be, if so.
    pub fn note_shortage(&self, now: Now) {
        if !self.store.pressure().is_over() {
            self.stats.shortage.note(false, now);
        }
    }

    /// Removes some keys if more memory is used than may be. When there is more to do, the sweeper goes on with it.
    pub fn relieve(&self, hold: &mut Hold<'_>, now: Now) -> Relief {
        let tenacity = self.settings.current().maxmemory_eviction_tenacity;
        let relief = self.store.relieve(hold, now, evicted_keys(tenacity));
        self.stats.shortage.note(relief != Relief::Enough, now);
        if relief == Relief::Unfinished {
            self.sweep_wanted.notify_one();
        }
        relief
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
