//! State of the process that all namespaces share: settings, users, ports, identity.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio_util::sync::CancellationToken;

use crate::acl::Acl;
use crate::client::registry::Admissions;
use crate::config::{Config, Settings};
use crate::memory::AllocatorStats;
use crate::runtime::log_queue::LogQueue;
use crate::runtime::panics::Panics;
use crate::spec::CommandTable;
use crate::topology::NodeIdentity;

/// The state of one server process, or of one embedded server.
pub struct Instance {
    /// The settings of the process and of the main namespace.
    pub settings: Arc<Settings>,
    /// The users of the main namespace, and their permissions.
    pub acl: Arc<Acl>,
    /// The clients admitted, in all namespaces.
    pub admissions: Arc<Admissions>,
    /// Caught and injected panics.
    pub panics: Arc<Panics>,
    /// Forty hexadecimal digits that are different in every run.
    pub run_id: String,
    /// The identity of the main namespace as a node of a cluster, if it was kept.
    pub(crate) node: Option<NodeIdentity>,
    /// The configuration file, if there was one.
    pub config_file: Option<PathBuf>,
    /// The TCP port of the server; 0 without TCP.
    pub tcp_port: AtomicU64,
    /// Token that is cancelled when the server must stop.
    pub stop: CancellationToken,
    /// The log lines that are not written yet, if the process has a log.
    pub log_queue: Option<Arc<LogQueue>>,
    /// Function that reads the allocator's statistics, if the allocator provides them.
    pub allocator: Option<fn() -> AllocatorStats>,
}

impl Instance {
    /// Creates an instance with the default user, whose password is `requirepass`.
    pub fn new(commands: &'static CommandTable, config: Config) -> Self {
        Instance {
            acl: Arc::new(Acl::new(commands, config.requirepass.as_deref())),
            settings: Arc::new(Settings::new(config)),
            admissions: Arc::default(),
            panics: Arc::default(),
            run_id: random_hex(),
            node: None,
            config_file: None,
            tcp_port: AtomicU64::new(0),
            stop: CancellationToken::new(),
            log_queue: None,
            allocator: None,
        }
    }
}

/// Returns the identity of a new node.
pub(crate) fn new_node() -> NodeIdentity {
    NodeIdentity { id: random_hex(), shard_id: random_hex() }
}

/// Returns 160 random bits in hexadecimal, from the random seeds of hash tables.
pub(crate) fn random_hex() -> String {
    let hasher = ahash::RandomState::new();
    let mut hex: String = (0..3u8).map(|word| format!("{:016x}", hasher.hash_one(word))).collect();
    hex.truncate(40);
    hex
}
