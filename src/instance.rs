//! The state of the process, whatever its namespaces: settings, users, clients, ports, identity.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::acl::Acl;
use crate::client::registry::Clients;
use crate::config::Settings;
use crate::memory::allocator::AllocatorStats;
use crate::runtime::panics::Panics;
use crate::spec::CommandTable;
use crate::time::clock::Now;

/// What one server process, or one embedded server, has only once.
pub struct Instance {
    /// The settings.
    pub settings: Settings,
    /// The users and their permissions.
    pub acl: Acl,
    /// The connected clients.
    pub clients: Arc<Clients>,
    /// Caught and injected panics.
    pub panics: Arc<Panics>,
    /// Forty hexadecimal digits that are different in every run.
    pub run_id: String,
    replication_id: Mutex<String>,
    /// The start time.
    pub started: Now,
    /// The configuration file, if there was one.
    pub config_file: Option<PathBuf>,
    /// The TCP port it listens on; 0 without TCP.
    pub tcp_port: AtomicU64,
    /// Cancelled when the server must stop.
    pub stop: CancellationToken,
    /// Whether scripts may call DEBUG.
    pub may_scripts_debug: AtomicBool,
    /// Whether RESTORE accepts wrong checksums, for tests with damaged payloads.
    pub skips_checksums: AtomicBool,
    /// From this length on, in bytes, an element of a long list is a node of its own; 0, as always but in tests, if the
    /// limit of nodes decides that.
    pub large_element_min: AtomicUsize,
    /// Reads the allocator's statistics, where it provides them.
    pub allocator: Option<fn() -> AllocatorStats>,
}

impl Instance {
    /// Creates an instance with the default user, whose password is `requirepass`.
    pub fn new(
        commands: &'static CommandTable,
        settings: Settings,
        clients: Arc<Clients>,
        started: Now,
        config_file: Option<PathBuf>,
    ) -> Self {
        Instance {
            acl: Acl::new(commands, settings.current().requirepass.as_deref()),
            settings,
            clients,
            panics: Arc::default(),
            run_id: random_hex(),
            replication_id: Mutex::new(random_hex()),
            started,
            config_file,
            tcp_port: AtomicU64::new(0),
            stop: CancellationToken::new(),
            may_scripts_debug: AtomicBool::new(false),
            skips_checksums: AtomicBool::new(false),
            large_element_min: AtomicUsize::new(0),
            allocator: None,
        }
    }

    /// Returns the replication id of the data set; there are no replicas.
    pub fn replication_id(&self) -> String {
        self.replication_id.lock().clone()
    }

    /// Changes the replication id.
    pub fn change_replication_id(&self) {
        *self.replication_id.lock() = random_hex();
    }
}

/// Returns 160 random bits in hexadecimal, from the random seeds of hash tables.
fn random_hex() -> String {
    let hasher = ahash::RandomState::new();
    let mut hex: String = (0..3u8).map(|word| format!("{:016x}", hasher.hash_one(word))).collect();
    hex.truncate(40);
    hex
}
