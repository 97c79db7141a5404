//! Settings that are accepted, kept and reported, but have no effect: one line each. `activedefrag yes`
//! is refused.
//!
//! Such settings exist so that files and clients written for Redis up to 8.4 and for Valkey work. Those marked `hidden`
//! are not listed, because Redis hides them, lacks them, or has them only since a version after 8.4.

use crate::config::kind::{INT_MAX, Kind, LONG_MAX};
use crate::config::section::Section;
use crate::config::settings::{ChangeTime, Setting};

const UINT_MAX: i64 = u32::MAX as i64;

const NETWORK: Section = Section::Network;
const TLS: Section = Section::Tls;
const GENERAL: Section = Section::General;
const SNAPSHOTS: Section = Section::Persistence;
const REPLICATION: Section = Section::Replication;
const MEMORY: Section = Section::Memory;
const LAZY: Section = Section::LazyFreeing;
const THREADS: Section = Section::Threads;
const SCRIPTS: Section = Section::Scripts;
const DATA: Section = Section::DataTypes;
const CLUSTER: Section = Section::Cluster;

const FACILITY: Kind =
    Kind::Choice(&["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"]);
const NO_DEFRAG: &str = "Active defragmentation cannot be enabled: it requires a Redis server compiled with a modified \
Jemalloc like the one shipped by default with the Redis source distribution";

/// The settings without a field; one line each.
#[rustfmt::skip]
pub(super) const INERT: &[Setting] = {
    use ChangeTime::{Runtime, Start};
    use Kind::{
        Bytes, Choice, Int, Memory,
        SwitchedOff, Switch, Text, Title,
    };
    use Setting as S;
    &[
        S::ignored(NETWORK, "bind-source-addr", Text, "", Runtime, "Would be the source address of connections to a primary."),
        S::ignored(NETWORK, "socket-mark-id", Int(0, UINT_MAX), "0", Start, "Would mark the listening sockets for packet filters."),
        S::ignored(NETWORK, "unixsocketgroup", Text, "", Start, "Would set the group of the Unix socket.").hidden(),
        S::ignored(TLS, "tls-client-key-file-pass", Text, "", Runtime, "Would be the passphrase of that key.").secret(),
        S::ignored(TLS, "tls-dh-params-file", Text, "", Runtime, "Would name the parameters for Diffie-Hellman key exchange."),
        S::ignored(TLS, "tls-cluster", Switch, "no", Runtime, "Would use TLS for the cluster bus."),
        S::ignored(TLS, "tls-ciphers", Text, "", Runtime, "Would choose the ciphers for TLS 1.2 and below."),
        S::ignored(TLS, "tls-ciphersuites", Text, "", Runtime, "Would choose the ciphers for TLS 1.3."),
        S::ignored(TLS, "tls-prefer-server-ciphers", Switch, "no", Runtime, "Would prefer the server's order of ciphers."),
        S::ignored(TLS, "tls-session-cache-timeout", Int(0, INT_MAX), "300", Runtime, "Would keep sessions for this many seconds."),
        S::ignored(GENERAL, "syslog-enabled", Switch, "no", Start, "Would send the log to syslog."),
        S::ignored(GENERAL, "syslog-ident", Text, "redis", Start, "Would be the identity in syslog."),
        S::ignored(GENERAL, "syslog-facility", FACILITY, "local0", Start, "Would be the syslog facility."),
        S::ignored(GENERAL, "crash-log-enabled", Switch, "yes", Runtime, "Would log a report when the server crashes."),
        S::ignored(GENERAL, "crash-memcheck-enabled", Switch, "yes", Runtime, "Would test the memory after a crash."),
        S::ignored(GENERAL, "set-proc-title", Switch, "yes", Start, "Would set the title of the process."),
        S::ignored(GENERAL, "proc-title-template", Title, "{title} {listen-addr} {server-mode}", Runtime, "Would be the template of the process title."),
        S::ignored(GENERAL, "ignore-warnings", Text, "", Runtime, "Would silence warnings about the machine."),
        S::ignored(GENERAL, "disable-thp", Switch, "yes", Start, "Would turn off transparent huge pages for the process."),
        S::ignored(GENERAL, "dynamic-hz", Switch, "yes", Runtime, "Would let the rate of background work follow the number of clients."),
        S::ignored(GENERAL, "server-cpulist", Text, "", Start, "Would bind the server's threads to these processors.").alias("server_cpulist"),
        S::ignored(GENERAL, "bio-cpulist", Text, "", Start, "Would bind the background threads to these processors.").alias("bio_cpulist"),
        S::ignored(GENERAL, "aof-rewrite-cpulist", Text, "", Start, "Would bind the rewriting child process to these processors.").alias("aof_rewrite_cpulist"),
        S::ignored(GENERAL, "bgsave-cpulist", Text, "", Start, "Would bind the saving child process to these processors.").alias("bgsave_cpulist"),
        S::ignored(GENERAL, "use-exit-on-panic", Switch, "no", Runtime, "Would call exit instead of abort after a panic.").hidden(),
        S::ignored(GENERAL, "watchdog-period", Int(0, INT_MAX), "0", Runtime, "Would log a stack trace when the server is blocked for longer than this many milliseconds.").hidden(),
        S::ignored(GENERAL, "enable-debug-assert", Switch, "no", Start, "Would enable more assertions.").hidden(),
        S::ignored(GENERAL, "hide-user-data-from-log", Switch, "no", Runtime, "Would keep user data out of the log.").since("8.0"),
        S::ignored(GENERAL, "log-format", Choice(&["legacy", "logfmt"]), "legacy", Runtime, "Would select the format of log lines.").hidden(),
        S::ignored(GENERAL, "log-timestamp-format", Choice(&["legacy", "iso8601", "milliseconds"]), "legacy", Runtime, "Would select the format of timestamps in the log.").hidden(),
        S::ignored(GENERAL, "locale-collate", Text, "", Runtime, "Would be the locale by which SORT compares text.").since("7.2"),
        S::ignored(GENERAL, "availability-zone", Bytes, "", Runtime, "Would tell clients where the server runs.").hidden(),
        S::ignored(GENERAL, "debug-context", Text, "", Runtime, "Would be shown in crash reports.").hidden(),
        S::ignored(GENERAL, "req-res-logfile", Text, "", Start, "Would record requests and replies.").hidden(),
        S::ignored(SNAPSHOTS, "rdb-del-sync-files", Switch, "no", Runtime, "Would remove snapshots that were only written for replicas."),
        S::ignored(SNAPSHOTS, "rdb-save-incremental-fsync", Switch, "yes", Runtime, "Would fsync snapshots incrementally while they are written."),
        S::ignored(SNAPSHOTS, "sanitize-dump-payload", Choice(&["no", "yes", "clients"]), "no", Runtime, "Would check snapshots and RESTORE payloads in depth."),
        S::ignored(SNAPSHOTS, "loading-process-events-interval-bytes", Int(1024, INT_MAX), "2097152", Runtime, "Would serve clients after this many bytes while loading.").hidden(),
        S::ignored(SNAPSHOTS, "rdb-version-check", Choice(&["strict", "relaxed"]), "strict", Runtime, "Would reject snapshots of newer versions.").hidden(),
        S::ignored(SNAPSHOTS, "no-appendfsync-on-rewrite", Switch, "no", Runtime, "Would skip fsync while a file is rewritten; a rewrite here does not slow fsync down."),
        S::ignored(SNAPSHOTS, "aof-rewrite-incremental-fsync", Switch, "yes", Runtime, "Would fsync a rewritten file incrementally."),
        S::ignored(REPLICATION, "replica-lazy-flush", Switch, "no", Runtime, "Would free a replica's old data in the background.").alias("slave-lazy-flush"),
        S::ignored(REPLICATION, "replica-ignore-disk-write-errors", Switch, "no", Runtime, "Would let a replica continue when it cannot write its files."),
        S::ignored(REPLICATION, "repl-disable-tcp-nodelay", Switch, "no", Runtime, "Would batch small packets to replicas (no TCP_NODELAY)."),
        S::ignored(REPLICATION, "replica-full-sync-buffer-limit", Memory(0, u64::MAX), "0", Runtime, "Would limit the buffer of a replica during a full synchronisation.").since("8.0"),
        S::ignored(REPLICATION, "repl-rdb-channel", Switch, "no", Runtime, "Would send snapshots and changes to replicas in parallel.").hidden(),
        S::ignored(REPLICATION, "propagation-error-behavior", Choice(&["ignore", "panic", "panic-on-replicas"]), "ignore", Runtime, "Would select what happens when a replica cannot apply a write."),
        S::ignored(REPLICATION, "dual-channel-replication-enabled", Switch, "no", Runtime, "Would send snapshots and changes to replicas in parallel.").hidden(),
        S::ignored(MEMORY, "active-expire-effort", Int(1, 10), "1", Runtime, "Would be the effort of looking for expired keys; keylatch deletes each when it expires."),
        S::ignored(MEMORY, "activerehashing", Switch, "yes", Runtime, "Would rehash tables in idle time."),
        S::ignored(MEMORY, "jemalloc-bg-thread", Switch, "yes", Runtime, "Would let the allocator return memory in the background, which it always does."),
        S::ignored(MEMORY, "activedefrag", SwitchedOff(NO_DEFRAG), "no", Runtime, "Would defragment memory."),
        S::ignored(MEMORY, "active-defrag-ignore-bytes", Memory(1, LONG_MAX), "104857600", Runtime, "Would start defragmenting from this many bytes of fragmentation on."),
        S::ignored(MEMORY, "active-defrag-threshold-lower", Int(0, 1000), "10", Runtime, "Would start defragmenting from this percentage of fragmentation on."),
        S::ignored(MEMORY, "active-defrag-threshold-upper", Int(0, 1000), "100", Runtime, "Would defragment with maximum effort from this percentage of fragmentation on."),
        S::ignored(MEMORY, "active-defrag-cycle-min", Int(1, 99), "1", Runtime, "Would be the minimum CPU time for defragmentation, in per cent."),
        S::ignored(MEMORY, "active-defrag-cycle-max", Int(1, 99), "25", Runtime, "Would be the maximum CPU time for defragmentation, in per cent."),
        S::ignored(MEMORY, "active-defrag-max-scan-fields", Int(1, i64::MAX), "1000", Runtime, "Would be the size from which collections are defragmented in steps."),
        S::ignored(MEMORY, "active-defrag-cycle-us", Int(0, 100_000), "500", Runtime, "Would be the length of a defragmentation step, in microseconds.").hidden(),
        S::ignored(MEMORY, "key-memory-histograms", Switch, "no", Start, "Would count keys by their memory.").hidden(),
        S::ignored(MEMORY, "import-mode", Switch, "no", Runtime, "Would keep expired keys during an import.").hidden(),
        S::ignored(LAZY, "lazyfree-lazy-eviction", Switch, "no", Runtime, "Would free evicted values in the background."),
        S::ignored(LAZY, "lazyfree-lazy-expire", Switch, "no", Runtime, "Would free expired values in the background."),
        S::ignored(LAZY, "lazyfree-lazy-server-del", Switch, "no", Runtime, "Would free overwritten values in the background."),
        S::ignored(LAZY, "lazyfree-lazy-user-del", Switch, "no", Runtime, "Would make DEL free values in the background."),
        S::ignored(LAZY, "lazyfree-lazy-user-flush", Switch, "no", Runtime, "Would make FLUSHALL and FLUSHDB free values in the background."),
        S::ignored(THREADS, "io-threads", Int(1, 128), "1", Start, "Would be the number of I/O threads; see worker-threads."),
        S::ignored(THREADS, "io-threads-do-reads", Switch, "no", Start, "Would use the I/O threads for reading as well."),
        S::ignored(THREADS, "events-per-io-thread", Int(0, INT_MAX), "2", Runtime, "Would be the load at which another I/O thread is activated.").hidden(),
        S::ignored(THREADS, "prefetch-batch-max-size", Int(0, 128), "16", Runtime, "Would be the number of commands whose keys are prefetched together.").hidden(),
        S::ignored(THREADS, "lookahead", Int(1, INT_MAX), "16", Runtime, "Would be the number of a client's commands parsed ahead; keylatch parses all that have arrived.").since("8.4"),
        S::ignored(THREADS, "io-threads-always-active", Switch, "no", Start, "Would keep the I/O threads active.").hidden(),
        S::ignored(NETWORK, "max-new-connections-per-cycle", Int(1, 1000), "10", Runtime, "Would be the number of connections accepted at a time.").since("8.0"),
        S::ignored(NETWORK, "max-new-tls-connections-per-cycle", Int(1, 1000), "1", Runtime, "Would be the number of TLS connections accepted at a time.").since("8.0"),
        S::ignored(NETWORK, "client-default-resp", Int(2, 3), "2", Start, "Would be the protocol of a client before HELLO.").hidden(),
        S::ignored(NETWORK, "tcp-keepalive-probes", Int(1, INT_MAX), "3", Runtime, "Would close a connection after this many unanswered keepalives.").hidden(),
        S::ignored(NETWORK, "mptcp", Switch, "no", Start, "Would enable Multipath TCP.").hidden(),
        S::ignored(NETWORK, "repl-mptcp", Switch, "no", Runtime, "Would use Multipath TCP to a primary.").hidden(),
        S::ignored(NETWORK, "rdma-port", Int(0, 65535), "0", Runtime, "Would accept connections by RDMA on this port.").hidden(),
        S::ignored(NETWORK, "rdma-bind", Text, "", Runtime, "Would be the addresses for connections by RDMA.").hidden(),
        S::ignored(NETWORK, "rdma-rx-size", Int(64 * 1024, 16 * 1024 * 1024), "1048576", Start, "Would be the size of the buffers for RDMA.").hidden(),
        S::ignored(NETWORK, "rdma-completion-vector", Int(-1, 1024), "-1", Start, "Would be the completion vector for RDMA.").hidden(),
        S::ignored(SCRIPTS, "lua-enable-insecure-api", Switch, "no", Runtime, "Would give scripts access to deprecated functions.").hidden(),
        S::ignored(SCRIPTS, "lua-enable-deprecated-api", Switch, "no", Start, "Would give scripts access to deprecated functions.").hidden(),
        S::ignored(DATA, "cf-max-expansions", Int(1, INT_MAX), "32", Runtime, "Would limit the filters of a cuckoo filter.").hidden(),
        S::ignored(DATA, "vset-force-single-threaded-execution", Switch, "no", Runtime, "Would search vector sets without threads.").hidden(),
        S::ignored(DATA, "list-compress-depth", Int(0, INT_MAX), "0", Runtime, "Would compress a list's nodes, except this many at each end; keylatch compresses none."),
        S::ignored(CLUSTER, "cluster-node-timeout", Int(0, i64::MAX), "15000", Runtime, "Would be the time after which a node counts as failed, in milliseconds."),
        S::ignored(CLUSTER, "cluster-replica-validity-factor", Int(0, INT_MAX), "10", Runtime, "Would exclude replicas with older data from failover.").alias("cluster-slave-validity-factor"),
        S::ignored(CLUSTER, "cluster-link-sendbuf-limit", Memory(0, u64::MAX), "0", Runtime, "Would be the maximum size of the output buffer of a cluster link."),
        S::ignored(CLUSTER, "cluster-ping-interval", Int(0, i64::MAX), "0", Runtime, "Would be the interval of pings to other nodes, in milliseconds.").hidden(),
        S::ignored(CLUSTER, "cluster-slot-stats-enabled", Switch, "no", Runtime, "Would collect statistics per slot.").since("8.0"),
        S::ignored(CLUSTER, "cluster-compatibility-sample-ratio", Int(0, 100), "0", Runtime, "Would check this percentage of commands for compatibility with a cluster.").since("8.0"),
        S::ignored(CLUSTER, "cluster-slot-migration-handoff-max-lag-bytes", Memory(0, LONG_MAX), "1048576", Runtime, "Would hand over a slot once at most this many bytes are missing.").since("8.4"),
        S::ignored(CLUSTER, "cluster-slot-migration-write-pause-timeout", Int(0, i64::MAX), "10000", Runtime, "Would be the maximum pause of writes while a slot is handed over, in milliseconds.").since("8.4"),
        S::ignored(CLUSTER, "cluster-slot-migration-sync-buffer-drain-timeout", Int(0, i64::MAX), "60000", Runtime, "Would be the timeout of transferring a slot's remaining changes, in milliseconds.").hidden(),
        S::ignored(CLUSTER, "cluster-slot-migration-log-max-len", Int(0, i64::MAX), "1000", Runtime, "Would be the number of slot migrations to keep.").hidden(),
        S::ignored(CLUSTER, "slot-migration-max-failover-repl-bytes", Int(-1, i64::MAX), "0", Runtime, "Would hand over a slot once at most this many bytes are missing.").hidden(),
        S::ignored(CLUSTER, "cluster-databases", Int(1, INT_MAX), "1", Start, "Would be the number of databases of a cluster.").hidden(),
        S::ignored(CLUSTER, "auto-failover-on-shutdown", Switch, "no", Runtime, "Would promote a replica before a primary shuts down.").hidden(),
        S::ignored(CLUSTER, "cluster-announce-human-nodename", Text, "", Runtime, "Would be the node's name in logs.").since("7.2"),
        S::ignored(CLUSTER, "cluster-announce-client-ipv4", Text, "", Runtime, "Would be the IPv4 address announced to clients.").hidden(),
        S::ignored(CLUSTER, "cluster-announce-client-ipv6", Text, "", Runtime, "Would be the IPv6 address announced to clients.").hidden(),
        S::ignored(CLUSTER, "cluster-blacklist-ttl", Int(0, i64::MAX), "60", Runtime, "Would be the time before a forgotten node may rejoin, in seconds.").hidden(),
        S::ignored(CLUSTER, "cluster-manual-failover-timeout", Int(1, INT_MAX), "5000", Runtime, "Would be the timeout of a manual failover, in milliseconds.").hidden(),
    ]
};
