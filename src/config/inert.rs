//! The settings that are accepted, kept and reported, and do nothing: one line each.
//!
//! They are here so that files and clients written for Redis 7.0 work. Those that are marked `hidden` appear in
//! no listing: Redis hides them too, or a later Redis or Valkey has brought them.

use super::kind::Kind;
use super::settings::{Change, INT_MAX, LONG_MAX, Setting};

const INT_MIN: i64 = i32::MIN as i64;
const UINT_MAX: i64 = u32::MAX as i64;

const NETWORK: &str = "Network";
const TLS: &str = "TLS";
const GENERAL: &str = "General";
const SNAPSHOTS: &str = "Snapshots and append-only file";
const REPLICATION: &str = "Replication";
const MEMORY: &str = "Memory";
const LAZY: &str = "Lazy freeing";
const THREADS: &str = "Threads";
const SCRIPTS: &str = "Scripts";
const DATA: &str = "Data types";
const CLUSTER: &str = "Cluster";

const FACILITY: Kind =
    Kind::Choice(&["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"]);
const NO_DEFRAG: &str = "Active defragmentation cannot be enabled: it requires a Redis server compiled with a modified \
Jemalloc like the one shipped by default with the Redis source distribution";

/// The settings without a field; one line each.
#[rustfmt::skip]
pub(super) const INERT: &[Setting] = {
    use Change::{Protected, Runtime, Start};
    use Kind::{
        Bytes, Choice, ChoiceOr, FileName, HostName, Int, Memory, OomScores, Primary,
        Raised, SavePoints, SwitchedOff, Switch, Text, Title,
    };
    use Setting as S;
    &[
        S::inert(NETWORK, "bind-source-addr", Text, "", Runtime, &["Would be the address that connections to a primary come from."]),
        S::inert(NETWORK, "socket-mark-id", Int(0, UINT_MAX), "0", Start, &["Would mark the listening sockets for the packet filter."]),
        S::inert(NETWORK, "unixsocketgroup", Text, "", Start, &["Would give the Unix socket to this group."]).hidden(),
        S::inert(TLS, "tls-client-cert-file", Text, "", Runtime, &["Would name the certificate for connections that the server opens."]),
        S::inert(TLS, "tls-client-key-file", Text, "", Runtime, &["Would name the private key of that certificate."]),
        S::inert(TLS, "tls-client-key-file-pass", Text, "", Runtime, &["Would be the passphrase of that key."]),
        S::inert(TLS, "tls-dh-params-file", Text, "", Runtime, &["Would name the parameters for Diffie-Hellman key exchange."]),
        S::inert(TLS, "tls-replication", Switch, "no", Runtime, &["Would encrypt the connection to a primary."]),
        S::inert(TLS, "tls-cluster", Switch, "no", Runtime, &["Would encrypt the bus of a cluster."]),
        S::inert(TLS, "tls-ciphers", Text, "", Runtime, &["Would choose the ciphers for TLS 1.2 and below."]),
        S::inert(TLS, "tls-ciphersuites", Text, "", Runtime, &["Would choose the ciphers for TLS 1.3."]),
        S::inert(TLS, "tls-prefer-server-ciphers", Switch, "no", Runtime, &["Would let the server's order of ciphers count."]),
        S::inert(TLS, "tls-session-cache-timeout", Int(0, INT_MAX), "300", Runtime, &["Would keep sessions for this many seconds."]),
        S::inert(GENERAL, "syslog-enabled", Switch, "no", Start, &["Would send the log to the system's log."]),
        S::inert(GENERAL, "syslog-ident", Text, "redis", Start, &["Would be the name in the system's log."]),
        S::inert(GENERAL, "syslog-facility", FACILITY, "local0", Start, &["Would be the facility in the system's log."]),
        S::inert(GENERAL, "crash-log-enabled", Switch, "yes", Runtime, &["Would log what is known when the server crashes."]),
        S::inert(GENERAL, "crash-memcheck-enabled", Switch, "yes", Runtime, &["Would test the memory after a crash."]),
        S::inert(GENERAL, "set-proc-title", Switch, "yes", Start, &["Would change how the process is shown in lists of processes."]),
        S::inert(GENERAL, "proc-title-template", Title, "{title} {listen-addr} {server-mode}", Runtime, &["Would say how the process is shown."]),
        S::inert(GENERAL, "ignore-warnings", Text, "", Runtime, &["Would silence warnings about the machine."]),
        S::inert(GENERAL, "disable-thp", Switch, "yes", Start, &["Would turn off transparent huge pages for the process."]),
        S::inert(GENERAL, "shutdown-timeout", Int(0, INT_MAX), "10", Runtime, &["Would wait this many seconds for replicas before the server stops."]),
        S::inert(GENERAL, "oom-score-adj", ChoiceOr(&["no", "yes", "relative", "absolute"], ("relative", "yes")), "no", Runtime, &["Would tell the kernel which process to end first when memory runs out."]),
        S::inert(GENERAL, "oom-score-adj-values", OomScores, "0 200 800", Runtime, &["Would be the scores of primary, replica and child processes."]),
        S::inert(GENERAL, "dynamic-hz", Switch, "yes", Runtime, &["Would let the rate of background work follow the number of clients."]),
        S::inert(GENERAL, "server_cpulist", Text, "", Start, &["Would bind the server's threads to these processors."]),
        S::inert(GENERAL, "bio_cpulist", Text, "", Start, &["Would bind the background threads to these processors."]),
        S::inert(GENERAL, "aof_rewrite_cpulist", Text, "", Start, &["Would bind the rewriting child process to these processors."]),
        S::inert(GENERAL, "bgsave_cpulist", Text, "", Start, &["Would bind the saving child process to these processors."]),
        S::inert(GENERAL, "use-exit-on-panic", Switch, "no", Runtime, &["Would end by exit instead of by a signal after a panic."]).hidden(),
        S::inert(GENERAL, "watchdog-period", Int(0, INT_MAX), "0", Runtime, &["Would log what holds the server up for longer than this many milliseconds."]).hidden(),
        S::inert(GENERAL, "enable-debug-assert", Switch, "no", Start, &["Would check more of the server's own assumptions."]).hidden(),
        S::inert(GENERAL, "hide-user-data-from-log", Switch, "yes", Runtime, &["Would keep what users store out of the log."]).hidden(),
        S::inert(GENERAL, "log-format", Choice(&["legacy", "logfmt"]), "legacy", Runtime, &["Would choose the form of log lines."]).hidden(),
        S::inert(GENERAL, "log-timestamp-format", Choice(&["legacy", "iso8601", "milliseconds"]), "legacy", Runtime, &["Would choose the form of times in the log."]).hidden(),
        S::inert(GENERAL, "extended-redis-compatibility", Switch, "no", Runtime, &["Would make Valkey call itself Redis."]).hidden(),
        S::inert(GENERAL, "locale-collate", Text, "", Runtime, &["Would choose how SORT compares text."]).hidden(),
        S::inert(GENERAL, "availability-zone", Bytes, "", Runtime, &["Would tell clients where the server runs."]).hidden(),
        S::inert(GENERAL, "debug-context", Text, "", Runtime, &["Would be shown in crash reports."]).hidden(),
        S::inert(GENERAL, "req-res-logfile", Text, "", Start, &["Would record requests and replies."]).hidden(),
        S::inert(SNAPSHOTS, "save", SavePoints, "3600 1 300 100 60 10000", Runtime, &["Would write a snapshot after so many seconds with so many changes; keylatch keeps data in memory only."]),
        S::inert(SNAPSHOTS, "dbfilename", FileName("dbfilename", "filename", true), "dump.rdb", Protected, &["Would name the snapshot file."]),
        S::inert(SNAPSHOTS, "rdbchecksum", Switch, "yes", Start, &["Would put a checksum at the end of snapshots."]),
        S::inert(SNAPSHOTS, "rdb-del-sync-files", Switch, "no", Runtime, &["Would remove snapshots that were only made for replicas."]),
        S::inert(SNAPSHOTS, "rdb-save-incremental-fsync", Switch, "yes", Runtime, &["Would send snapshots to the disk bit by bit."]),
        S::inert(SNAPSHOTS, "stop-writes-on-bgsave-error", Switch, "yes", Runtime, &["Would refuse writes after a failed snapshot."]),
        S::inert(SNAPSHOTS, "sanitize-dump-payload", Choice(&["no", "yes", "clients"]), "no", Runtime, &["Would check snapshots and RESTORE deeply."]),
        S::inert(SNAPSHOTS, "rdb-key-save-delay", Int(INT_MIN, INT_MAX), "0", Runtime, &["Would slow saving down, for tests."]).hidden(),
        S::inert(SNAPSHOTS, "key-load-delay", Int(INT_MIN, INT_MAX), "0", Runtime, &["Would slow loading down, for tests."]).hidden(),
        S::inert(SNAPSHOTS, "loading-process-events-interval-bytes", Int(1024, INT_MAX), "2097152", Runtime, &["Would serve clients after this many bytes while loading."]).hidden(),
        S::inert(SNAPSHOTS, "rdb-version-check", Choice(&["strict", "relaxed"]), "strict", Runtime, &["Would refuse snapshots of newer versions."]).hidden(),
        S::inert(SNAPSHOTS, "appendonly", Switch, "no", Runtime, &["Would log every write to a file."]),
        S::inert(SNAPSHOTS, "appendfilename", FileName("appendfilename", "filename", false), "appendonly.aof", Start, &["Would name the append-only files."]),
        S::inert(SNAPSHOTS, "appenddirname", FileName("appenddirname", "dirname", false), "appendonlydir", Start, &["Would name the folder of the append-only files."]),
        S::inert(SNAPSHOTS, "appendfsync", Choice(&["everysec", "always", "no"]), "everysec", Runtime, &["Would choose when the append-only file reaches the disk."]),
        S::inert(SNAPSHOTS, "no-appendfsync-on-rewrite", Switch, "no", Runtime, &["Would let the disk rest while a file is rewritten."]),
        S::inert(SNAPSHOTS, "auto-aof-rewrite-percentage", Int(0, INT_MAX), "100", Runtime, &["Would rewrite the append-only file when it has grown by so many per cent."]),
        S::inert(SNAPSHOTS, "auto-aof-rewrite-min-size", Memory(0, LONG_MAX), "67108864", Runtime, &["Would rewrite the append-only file from this size on."]),
        S::inert(SNAPSHOTS, "aof-load-truncated", Switch, "yes", Runtime, &["Would load an append-only file whose end is missing."]),
        S::inert(SNAPSHOTS, "aof-use-rdb-preamble", Switch, "yes", Runtime, &["Would begin append-only files with a snapshot."]),
        S::inert(SNAPSHOTS, "aof-timestamp-enabled", Switch, "no", Runtime, &["Would note times in the append-only file."]),
        S::inert(SNAPSHOTS, "aof-rewrite-incremental-fsync", Switch, "yes", Runtime, &["Would send a rewritten file to the disk bit by bit."]),
        S::inert(SNAPSHOTS, "aof-disable-auto-gc", Switch, "no", Runtime, &["Would keep append-only files that are no longer needed."]),
        S::inert(REPLICATION, "replicaof", Primary, "", Start, &["Would copy another server; keylatch is always a primary."]).alias("slaveof"),
        S::inert(REPLICATION, "masterauth", Bytes, "", Runtime, &["Would be the password for the primary."]),
        S::inert(REPLICATION, "masteruser", Text, "", Runtime, &["Would be the user for the primary."]),
        S::inert(REPLICATION, "primaryauth", Bytes, "", Runtime, &["Would be the password for the primary."]).hidden(),
        S::inert(REPLICATION, "primaryuser", Text, "", Runtime, &["Would be the user for the primary."]).hidden(),
        S::inert(REPLICATION, "replica-serve-stale-data", Switch, "yes", Runtime, &["Would let a replica answer without its primary."]).alias("slave-serve-stale-data"),
        S::inert(REPLICATION, "replica-read-only", Switch, "yes", Runtime, &["Would let a replica refuse writes."]).alias("slave-read-only"),
        S::inert(REPLICATION, "replica-priority", Int(0, INT_MAX), "100", Runtime, &["Would say which replica becomes primary first."]).alias("slave-priority"),
        S::inert(REPLICATION, "replica-announced", Switch, "yes", Runtime, &["Would show a replica to Sentinel's clients."]),
        S::inert(REPLICATION, "replica-announce-ip", Text, "", Runtime, &["Would be the address a replica tells its primary."]).alias("slave-announce-ip"),
        S::inert(REPLICATION, "replica-announce-port", Int(0, 65535), "0", Runtime, &["Would be the port a replica tells its primary."]).alias("slave-announce-port"),
        S::inert(REPLICATION, "replica-lazy-flush", Switch, "no", Runtime, &["Would free a replica's old data in the background."]).alias("slave-lazy-flush"),
        S::inert(REPLICATION, "replica-ignore-maxmemory", Switch, "yes", Runtime, &["Would leave removing keys to the primary."]).alias("slave-ignore-maxmemory"),
        S::inert(REPLICATION, "replica-ignore-disk-write-errors", Switch, "no", Runtime, &["Would let a replica go on when it cannot write its files."]),
        S::inert(REPLICATION, "repl-diskless-sync", Switch, "yes", Runtime, &["Would send snapshots to replicas without a file."]),
        S::inert(REPLICATION, "repl-diskless-sync-delay", Int(0, INT_MAX), "5", Runtime, &["Would wait this many seconds for more replicas."]),
        S::inert(REPLICATION, "repl-diskless-sync-max-replicas", Int(0, INT_MAX), "0", Runtime, &["Would not wait for more replicas than this."]),
        S::inert(REPLICATION, "repl-diskless-load", Choice(&["disabled", "on-empty-db", "swapdb"]), "disabled", Runtime, &["Would let a replica load a snapshot from the connection."]),
        S::inert(REPLICATION, "repl-ping-replica-period", Int(1, INT_MAX), "10", Runtime, &["Would greet replicas every so many seconds."]).alias("repl-ping-slave-period"),
        S::inert(REPLICATION, "repl-timeout", Int(1, INT_MAX), "60", Runtime, &["Would give a replica up after this many seconds."]),
        S::inert(REPLICATION, "repl-disable-tcp-nodelay", Switch, "no", Runtime, &["Would send less often to replicas."]),
        S::inert(REPLICATION, "repl-backlog-size", Raised(16 * 1024), "1048576", Runtime, &["Would remember this many bytes for replicas that come back."]),
        S::inert(REPLICATION, "repl-backlog-ttl", Int(0, i64::MAX), "3600", Runtime, &["Would forget them after this many seconds without replicas."]),
        S::inert(REPLICATION, "min-replicas-to-write", Int(0, INT_MAX), "0", Runtime, &["Would refuse writes with fewer replicas than this."]).alias("min-slaves-to-write"),
        S::inert(REPLICATION, "min-replicas-max-lag", Int(0, INT_MAX), "10", Runtime, &["Would not count a replica that is silent for so many seconds."]).alias("min-slaves-max-lag"),
        S::inert(REPLICATION, "propagation-error-behavior", Choice(&["ignore", "panic", "panic-on-replicas"]), "ignore", Runtime, &["Would choose what happens when a replica cannot apply a write."]),
        S::inert(REPLICATION, "dual-channel-replication-enabled", Switch, "no", Runtime, &["Would send snapshots and changes to replicas side by side."]).hidden(),
        S::inert(MEMORY, "active-expire-effort", Int(1, 10), "1", Runtime, &["Would say how hard to look for keys that have ended; keylatch removes each at its time."]),
        S::inert(MEMORY, "activerehashing", Switch, "yes", Runtime, &["Would spend idle time on growing tables."]),
        S::inert(MEMORY, "jemalloc-bg-thread", Switch, "yes", Runtime, &["Would let the allocator return memory in the background, which it always does."]),
        S::inert(MEMORY, "activedefrag", SwitchedOff(NO_DEFRAG), "no", Runtime, &["Would move data together to free memory."]),
        S::inert(MEMORY, "active-defrag-ignore-bytes", Memory(1, LONG_MAX), "104857600", Runtime, &["Would start defragmenting when this much is wasted."]),
        S::inert(MEMORY, "active-defrag-threshold-lower", Int(0, 1000), "10", Runtime, &["Would start defragmenting at so many per cent of waste."]),
        S::inert(MEMORY, "active-defrag-threshold-upper", Int(0, 1000), "100", Runtime, &["Would defragment as hard as possible from so many per cent on."]),
        S::inert(MEMORY, "active-defrag-cycle-min", Int(1, 99), "1", Runtime, &["Would be the least share of time for it, in per cent."]),
        S::inert(MEMORY, "active-defrag-cycle-max", Int(1, 99), "25", Runtime, &["Would be the greatest share of time for it, in per cent."]),
        S::inert(MEMORY, "active-defrag-max-scan-fields", Int(1, i64::MAX), "1000", Runtime, &["Would move larger collections piece by piece."]),
        S::inert(LAZY, "lazyfree-lazy-eviction", Switch, "no", Runtime, &["Would free evicted values in the background."]),
        S::inert(LAZY, "lazyfree-lazy-expire", Switch, "no", Runtime, &["Would free expired values in the background."]),
        S::inert(LAZY, "lazyfree-lazy-server-del", Switch, "no", Runtime, &["Would free overwritten values in the background."]),
        S::inert(LAZY, "lazyfree-lazy-user-del", Switch, "no", Runtime, &["Would make DEL free values in the background."]),
        S::inert(LAZY, "lazyfree-lazy-user-flush", Switch, "no", Runtime, &["Would make FLUSHALL and FLUSHDB free values in the background."]),
        S::inert(THREADS, "io-threads", Int(1, 128), "1", Start, &["Would read and write with this many threads; see worker-threads."]),
        S::inert(THREADS, "io-threads-do-reads", Switch, "no", Start, &["Would let those threads read as well."]),
        S::inert(THREADS, "events-per-io-thread", Int(0, INT_MAX), "2", Runtime, &["Would say when another of those threads starts."]).hidden(),
        S::inert(THREADS, "prefetch-batch-max-size", Int(0, 128), "16", Runtime, &["Would look this many commands ahead."]).hidden(),
        S::inert(NETWORK, "max-new-connections-per-cycle", Int(1, 1000), "10", Runtime, &["Would accept this many clients at a time."]).hidden(),
        S::inert(NETWORK, "max-new-tls-connections-per-cycle", Int(1, 1000), "1", Runtime, &["Would accept this many encrypted clients at a time."]).hidden(),
        S::inert(NETWORK, "client-default-resp", Int(2, 3), "2", Start, &["Would be the protocol of a client before HELLO."]).hidden(),
        S::inert(SCRIPTS, "lua-enable-insecure-api", Switch, "no", Runtime, &["Would let scripts see deprecated functions."]).hidden(),
        S::inert(SCRIPTS, "lua-enable-deprecated-api", Switch, "no", Start, &["Would let scripts see deprecated functions."]).hidden(),
        S::inert(DATA, "hash-max-listpack-entries", Int(0, i64::MAX), "512", Runtime, &["Would keep hashes of up to this many fields compact."]).alias("hash-max-ziplist-entries"),
        S::inert(DATA, "hash-max-listpack-value", Memory(0, LONG_MAX), "64", Runtime, &["Would keep hashes of values up to this length compact."]).alias("hash-max-ziplist-value"),
        S::inert(DATA, "list-max-listpack-size", Int(INT_MIN, INT_MAX), "-2", Runtime, &["Would limit the pieces of a list."]).alias("list-max-ziplist-size"),
        S::inert(DATA, "list-compress-depth", Int(0, INT_MAX), "0", Runtime, &["Would compress the inner pieces of a list."]),
        S::inert(DATA, "set-max-intset-entries", Int(0, i64::MAX), "512", Runtime, &["Would keep sets of up to this many integers compact."]),
        S::inert(DATA, "set-max-listpack-entries", Int(0, i64::MAX), "128", Runtime, &["Would keep sets of up to this many members compact."]).hidden(),
        S::inert(DATA, "set-max-listpack-value", Int(0, i64::MAX), "64", Runtime, &["Would keep sets of members up to this length compact."]).hidden(),
        S::inert(DATA, "zset-max-listpack-entries", Int(0, i64::MAX), "128", Runtime, &["Would keep sorted sets of up to this many members compact."]).alias("zset-max-ziplist-entries"),
        S::inert(DATA, "zset-max-listpack-value", Memory(0, LONG_MAX), "64", Runtime, &["Would keep sorted sets of members up to this length compact."]).alias("zset-max-ziplist-value"),
        S::inert(DATA, "stream-node-max-bytes", Memory(0, LONG_MAX), "4096", Runtime, &["Would limit the bytes of a stream's node."]),
        S::inert(DATA, "stream-node-max-entries", Int(0, i64::MAX), "100", Runtime, &["Would limit the entries of a stream's node."]),
        S::inert(CLUSTER, "cluster-enabled", Switch, "no", Start, &["Would make the server part of a cluster; keylatch stands alone."]),
        S::inert(CLUSTER, "cluster-config-file", Text, "nodes.conf", Start, &["Would keep what is known of the cluster."]),
        S::inert(CLUSTER, "cluster-node-timeout", Int(0, i64::MAX), "15000", Runtime, &["Would take a node for lost after this many milliseconds."]),
        S::inert(CLUSTER, "cluster-port", Int(0, 65535), "0", Start, &["Would be the port of the cluster's bus."]),
        S::inert(CLUSTER, "cluster-announce-ip", Text, "", Runtime, &["Would be the address told to other nodes."]),
        S::inert(CLUSTER, "cluster-announce-hostname", HostName, "", Runtime, &["Would be the name told to clients."]),
        S::inert(CLUSTER, "cluster-announce-port", Int(0, 65535), "0", Runtime, &["Would be the port told to other nodes."]),
        S::inert(CLUSTER, "cluster-announce-tls-port", Int(0, 65535), "0", Runtime, &["Would be the encrypted port told to other nodes."]),
        S::inert(CLUSTER, "cluster-announce-bus-port", Int(0, 65535), "0", Runtime, &["Would be the bus port told to other nodes."]),
        S::inert(CLUSTER, "cluster-preferred-endpoint-type", Choice(&["ip", "hostname", "unknown-endpoint"]), "ip", Runtime, &["Would choose how clients are told of nodes."]),
        S::inert(CLUSTER, "cluster-require-full-coverage", Switch, "yes", Runtime, &["Would refuse commands while slots are uncovered."]),
        S::inert(CLUSTER, "cluster-allow-reads-when-down", Switch, "no", Runtime, &["Would serve reads while the cluster is down."]),
        S::inert(CLUSTER, "cluster-allow-pubsubshard-when-down", Switch, "yes", Runtime, &["Would serve sharded channels while the cluster is down."]),
        S::inert(CLUSTER, "cluster-allow-replica-migration", Switch, "yes", Runtime, &["Would let replicas move to primaries without any."]),
        S::inert(CLUSTER, "cluster-migration-barrier", Int(0, INT_MAX), "1", Runtime, &["Would leave a primary this many replicas."]),
        S::inert(CLUSTER, "cluster-replica-validity-factor", Int(0, INT_MAX), "10", Runtime, &["Would keep a replica with old data from becoming primary."]).alias("cluster-slave-validity-factor"),
        S::inert(CLUSTER, "cluster-replica-no-failover", Switch, "no", Runtime, &["Would keep a replica from becoming primary."]).alias("cluster-slave-no-failover"),
        S::inert(CLUSTER, "cluster-link-sendbuf-limit", Memory(0, u64::MAX), "0", Runtime, &["Would close a link to a node that reads too slowly."]),
        S::inert(CLUSTER, "cluster-ping-interval", Int(0, i64::MAX), "0", Runtime, &["Would greet other nodes every so many milliseconds."]).hidden(),
        S::inert(CLUSTER, "cluster-slot-stats-enabled", Switch, "no", Runtime, &["Would count commands and bytes of every slot."]).hidden(),
        S::inert(CLUSTER, "cluster-announce-human-nodename", Text, "", Runtime, &["Would be the node's name in logs."]).hidden(),
        S::inert(CLUSTER, "cluster-announce-client-ipv4", Text, "", Runtime, &["Would be the address told to clients."]).hidden(),
        S::inert(CLUSTER, "cluster-announce-client-ipv6", Text, "", Runtime, &["Would be the address told to clients."]).hidden(),
        S::inert(CLUSTER, "cluster-blacklist-ttl", Int(0, i64::MAX), "60", Runtime, &["Would keep a forgotten node away for this many seconds."]).hidden(),
        S::inert(CLUSTER, "cluster-manual-failover-timeout", Int(1, INT_MAX), "5000", Runtime, &["Would give a planned change of primary this many milliseconds."]).hidden(),
    ]
};
