//! The sections of the example file and of the help.

/// A section of the example file and of the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Ports, addresses and sockets.
    Network,
    /// The metrics port.
    Metrics,
    /// Databases, log and locks.
    General,
    /// Certificates and protocols.
    Tls,
    /// Servers in test mode.
    Testing,
    /// Threads and processors.
    Threads,
    /// Passwords and users.
    Security,
    /// Slow log and latency.
    Monitoring,
    /// The representation of values.
    DataTypes,
    /// Limits of memory and eviction.
    Memory,
    /// Memory that is freed in the background.
    LazyFreeing,
    /// Files with the data.
    Persistence,
    /// Data in an etcd cluster.
    Engine,
    /// Primaries and replicas.
    Replication,
    /// Clusters.
    Cluster,
    /// Lua scripts.
    Scripts,
    /// Limits of clients.
    Clients,
}

impl Section {
    /// Returns the heading.
    pub(super) fn title(self) -> &'static str {
        match self {
            Section::Network => "Network",
            Section::Metrics => "Metrics",
            Section::General => "General",
            Section::Tls => "TLS",
            Section::Testing => "Testing",
            Section::Threads => "Threads",
            Section::Security => "Security",
            Section::Monitoring => "Monitoring",
            Section::DataTypes => "Data types",
            Section::Memory => "Memory",
            Section::LazyFreeing => "Lazy freeing",
            Section::Persistence => "Snapshots and append-only file",
            Section::Engine => "Engine",
            Section::Replication => "Replication",
            Section::Cluster => "Cluster",
            Section::Scripts => "Scripts",
            Section::Clients => "Clients",
        }
    }
}
