//! The table of settings: each declared once, with its name, type, default and documentation.
//!
//! A row defines the field of [`Config`], the directive in a file, the command-line option, `CONFIG GET` and `SET`, the
//! line in `redis.conf.example` and the line in `--help`. Adding a setting means adding a row: to `HONOURED` when the
//! server reads it as a field, to `INERT` in `ignored.rs` when it is only accepted.
//!
//! Invariant: a default is canonical text of its kind, so it is the same in a file and in `CONFIG GET`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use crate::config::certificate::TestCertificate;
use crate::config::directives::Directives;
use crate::config::field::{
    Allowance, AppendFsync, ChannelDefault, ClientMemory, DisklessLoad, EndpointType, EngineKind, EtcdReads, Field,
    HostPort, LogLevel, OnDeadlock, OomScore, OutputLimit, SavePoint, ShutdownOptions, Supervisor, TlsAuthClients,
    Unsupported,
};
use crate::config::kind::{INT_MAX, INT_MIN, Kind, LONG_MAX};
use crate::config::section::Section;
use crate::profile::{self, Profile, Version};
use crate::store::{Classes, EvictionPolicy, ListLimit};

/// Times at which a setting may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeTime {
    /// At any time, by `CONFIG SET`.
    Runtime,
    /// At any time, by `CONFIG SET` of a client that `enable-protected-configs` allows.
    Protected,
    /// At startup only.
    Start,
}

/// Effect of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingEffect {
    /// The server implements the setting.
    Supported,
    /// The server accepts and reports the setting without any effect, so that files and clients written for Redis work.
    Nothing,
}

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// The name in files, on the command line and in `CONFIG`.
    pub name: &'static str,
    /// Alias, mostly an older name.
    pub alias: Option<&'static str>,
    /// The name in Valkey: accepted wherever a setting is named, but not listed.
    pub synonym: Option<&'static str>,
    /// True if only `CONFIG GET` with the exact name shows the setting.
    pub hidden: bool,
    /// Version of Redis that introduced the setting, if later than 7.0.
    pub since: Option<Version>,
    /// True if the value is a secret, which MONITOR and the slow log do not show.
    pub secret: bool,
    /// True if each private instance may have a value of its own; all others have the value of the process.
    pub own: bool,
    /// True if `CONFIG SET` is refused while data is loaded, because the setting determines what is loaded.
    pub fixed_in_loading: bool,
    /// Section in the example file and in `--help`.
    pub section: Section,
    /// Type of the value.
    pub kind: Kind,
    /// The default value, as canonical text.
    pub default: &'static str,
    /// Times at which the setting may change.
    pub change: ChangeTime,
    /// Effect of the setting.
    pub effect: SettingEffect,
    /// The documentation: sentences; a blank may precede them.
    pub doc: &'static str,
    store: Store,
}

/// Location of the value in `Config`.
#[derive(Debug)]
enum Store {
    Field { get: fn(&Config) -> Vec<u8>, set: fn(&mut Config, &[u8]) },
    Inert,
}

impl Setting {
    /// Declares a setting that is accepted, kept and reported, without any effect.
    pub(super) const fn ignored(
        section: Section,
        name: &'static str,
        kind: Kind,
        default: &'static str,
        change: ChangeTime,
        doc: &'static str,
    ) -> Self {
        let (effect, store) = (SettingEffect::Nothing, Store::Inert);
        let (alias, synonym, since, hidden, secret) = (None, None, None, false, false);
        let own = matches!(change, ChangeTime::Runtime); // nothing of the process depends on it
        let fixed_in_loading = false;
        Setting {
            name,
            alias,
            synonym,
            since,
            hidden,
            secret,
            own,
            fixed_in_loading,
            section,
            kind,
            default,
            change,
            effect,
            doc,
            store,
        }
    }

    pub(super) const fn alias(self, name: &'static str) -> Self {
        Setting { alias: Some(name), ..self }
    }

    /// Declares the value a secret.
    pub(super) const fn secret(self) -> Self {
        Setting { secret: true, ..self }
    }

    /// Hides the setting from listings.
    pub(super) const fn hidden(self) -> Self {
        Setting { hidden: true, ..self }
    }

    /// Sets the version of Redis after 7.0 that introduced the setting.
    pub(super) const fn since(self, version: &'static str) -> Self {
        Setting { since: Some(Version::parse(version)), ..self }
    }

    /// Returns true if the setting is a switch that Redis does not have.
    pub fn is_own_switch(&self) -> bool {
        self.hidden && self.effect == SettingEffect::Supported && matches!(self.kind, Kind::Switch)
    }

    /// Returns true if the example file and the help show the setting: hidden ones without effect are for test suites.
    pub fn is_documented(&self) -> bool {
        !self.hidden || self.effect == SettingEffect::Supported
    }

    /// Returns the documentation as one line, with a note for settings without effect.
    pub fn doc_text(&self) -> String {
        let mut text = self.doc.trim_start().to_owned();
        if self.effect == SettingEffect::Nothing {
            text.push_str(" Accepted for compatibility; it has no effect.");
        }
        text
    }

    /// Returns the value in `config` as `CONFIG GET` prints it.
    pub fn get(&self, config: &Config) -> Vec<u8> {
        match self.store {
            Store::Field { get, .. } => get(config),
            Store::Inert => config.ignored.get(self.name).cloned().unwrap_or_else(|| self.default.into()),
        }
    }

    /// Stores canonical text, as returned by [`Kind::canonical`], in `config`.
    pub(super) fn store(&self, config: &mut Config, canonical: Vec<u8>) {
        match self.store {
            Store::Field { set, .. } => set(config, &canonical),
            Store::Inert => {
                config.ignored.insert(self.name, canonical);
            }
        }
    }
}

/// Declares the settings that are fields of [`Config`]: the struct, its defaults and the rows of the table. `!hidden`
/// keeps settings that Redis does not have out of `CONFIG GET *`, because test suites and tools set all that they find
/// there. `?secret` keeps the value out of MONITOR and the slow log. `~` precedes the name in Valkey, `@` the version
/// of Redis after 7.0 that introduced the setting. `%own` lets each private instance have a value of its own,
/// and `^fixed` refuses changes while data is loaded.
macro_rules! supported {
    ($($section:ident { $(
        $(#[doc = $doc:literal])+
        $name:literal $(| $alias:literal)? $(~ $synonym:literal)? $(! $hidden:ident)? $(? $secret:ident)? $(@ $since:literal)? $(% $own:ident)? $(^ $fixed:ident)?
            $field:ident: $type:ty = $default:literal, $kind:expr, $change:ident, $effect:ident;
    )+ })+) => {
        /// The values of all settings.
        #[derive(Clone, Debug)]
        pub struct Config {
            $($( $(#[doc = $doc])+ pub $field: $type, )+)+
            /// The certificate of `test-tls`, once it is made.
            pub(crate) test_certificate: Option<Arc<TestCertificate>>,
            /// Canonical texts of the settings without a field, where they were ever set.
            ignored: BTreeMap<&'static str, Vec<u8>>,
            /// The settings that a private instance has changed for itself.
            pub(super) own: BTreeSet<&'static str>,
            /// The settings that were set, by whatever means, even if to their defaults.
            pub(super) named: BTreeSet<&'static str>,
            /// The values of directives that are not settings.
            pub directives: Directives,
        }

        impl Default for Config {
            fn default() -> Self {
                Config {
                    $($( $field: <$type as Field>::from_text($default.as_bytes()), )+)+
                    test_certificate: None,
                    ignored: BTreeMap::new(),
                    own: BTreeSet::new(),
                    named: BTreeSet::new(),
                    directives: Directives::default(),
                }
            }
        }

        /// The settings with a field in [`Config`].
        pub(super) const HONOURED: &[Setting] = &[$($( Setting {
            name: $name,
            alias: [$(Some($alias),)? None][0],
            synonym: [$(Some($synonym),)? None][0],
            hidden: [$({ let $hidden = true; $hidden },)? false][0],
            since: [$(Some(Version::parse($since)),)? None][0],
            secret: [$({ let $secret = true; $secret },)? false][0],
            own: [$({ let $own = true; $own },)? false][0],
            fixed_in_loading: [$({ let $fixed = true; $fixed },)? false][0],
            section: Section::$section,
            kind: $kind,
            default: $default,
            change: ChangeTime::$change,
            effect: SettingEffect::$effect,
            doc: concat!($($doc),+),
            store: Store::Field {
                get: |config| config.$field.to_text(),
                set: |config, text| config.$field = Field::from_text(text),
            },
        }, )+)+];
    };
}

/// The upper bound of `proto-max-bulk-len`: 4 GiB.
const BULK_LEN_MAX: u64 = u32::MAX as u64;

const DBFILENAME: Kind = Kind::FileName("dbfilename", "filename", true);
const APPENDFILENAME: Kind = Kind::FileName("appendfilename", "filename", false);
const APPENDDIRNAME: Kind = Kind::FileName("appenddirname", "dirname", false);
const OOM_SCORE: Kind = Kind::ChoiceOr(&["no", "yes", "relative", "absolute"], &("relative", "yes"));
const ALLOWANCE: Kind = Kind::Choice(Allowance::WORDS);

supported! {
    Network {
        /// Accepts TCP connections on this port. With `tls-port` or `unixsocket`, 0 accepts none; otherwise 0 selects a
        /// free port, which is printed as a line of JSON on standard output; the log goes to standard error then.
        "port" port: u16 = "6379", Kind::Int(0, 65535), Runtime, Supported;
        /// Listens on these addresses. `*` is all of IPv4 and `::*` all of IPv6; an address that starts with `-` may be
        /// missing on this machine.
        "bind" bind: Vec<String> = "* -::*", Kind::Addresses, Runtime, Supported;
        /// Rejects clients from other machines while no password is set.
        "protected-mode" protected_mode: bool = "yes", Kind::Switch, Runtime, Supported;
        /// Listens on this Unix socket in addition to TCP.
        "unixsocket" unixsocket: Option<PathBuf> = "", Kind::Path, Start, Supported;
        /// Sets the permission bits of the Unix socket, in octal; 0 leaves them to the umask.
        "unixsocketperm" unixsocketperm: Option<u32> = "0", Kind::Octal(0o777), Start, Supported;
        /// The number of connections that may wait to be accepted; the operating system may allow fewer.
        "tcp-backlog" tcp_backlog: u32 = "511", Kind::Int(0, INT_MAX), Start, Supported;
        /// Sends TCP keepalives after this many idle seconds; 0 disables them.
        "tcp-keepalive" tcp_keepalive_s: u32 = "300", Kind::Int(0, INT_MAX), Runtime, Supported;
        /// Disconnects a client that is idle for this many seconds; 0 disables that.
        "timeout" %own timeout_s: u32 = "0", Kind::Int(0, INT_MAX), Runtime, Supported;
    }
    Metrics {
        /// Serves HTTP on this port: /metrics for Prometheus, and a page with locks, queues, rates and memory;
        /// 0 serves none. With a password for the default user, requests need one too (HTTP Basic, not encrypted): a
        /// user who may call INFO, and for the page also LOCK.LIST, CLIENT LIST and SLOWLOG GET.
        "metrics-port" !hidden metrics_port: u16 = "0", Kind::Int(0, 65535), Start, Supported;
        /// Serves it at these addresses, written as in `bind`. At a loopback address, requests must name the host by
        /// its address or as localhost.
        "metrics-bind" !hidden metrics_bind: Vec<String> = "127.0.0.1 -::1", Kind::Addresses, Start, Supported;
        /// Allows the page to release locks, in the name of this ACL user alone: its password is asked for (HTTP Basic,
        /// not encrypted), and it needs all commands of the category @admin, and LOCK.RELEASE with the lock's key.
        /// Empty: nothing can be changed through the port.
        "metrics-release-user" !hidden metrics_release_user: Option<Vec<u8>> = "", Kind::Text, Runtime, Supported;
    }
    General {
        /// The number of databases, which SELECT numbers from 0.
        "databases" databases: u32 = "16", Kind::Int(1, INT_MAX), Start, Supported;
        /// Logs messages of this level and above.
        "loglevel" loglevel: LogLevel = "notice", Kind::Choice(LogLevel::WORDS), Runtime, Supported;
        /// Appends the log to this file; empty means standard output.
        "logfile" logfile: Option<PathBuf> = "", Kind::Path, Start, Supported;
        /// The working directory, which relative paths start from.
        "dir" ^fixed dir: PathBuf = ".", Kind::Directory, Protected, Supported;
        /// After a crash, or a shutdown while locks were held or keys had a TTL, answers -LOADING to commands on keys for
        /// this many milliseconds, so that no client can believe any more that it holds a lock that is gone: the longest
        /// TTL of a lock. A file in `dir`, named by the port, tells the next start. 0 disables that.
        "restart-grace-ms" !hidden restart_grace_ms: u64 = "0", Kind::Int(0, i64::MAX), Start, Supported;
        /// Selects the result of LOCK.ACQUIRE with BLOCK where clients would wait for each other in a cycle: `error`
        /// replies -DEADLOCK at once, `wait` waits as long as BLOCK says, and LOCK.INFO shows the cycle.
        "lock-deadlock" !hidden lock_deadlock: OnDeadlock = "error", Kind::Choice(OnDeadlock::WORDS), Runtime, Supported;
        /// The time in milliseconds for which the state of a session is kept after its connection closed, so that a
        /// client that connects again keeps it: locks of SESSION (LOCK.RESUME), and its place in their queues. QUIT and
        /// RESET end a session at once.
        "session-grace-ms" !hidden session_grace_ms: u64 = "0", Kind::Int(0, i64::MAX), Runtime, Supported;
        /// The time in milliseconds for which the fence of a string (SETIFGREATER) is remembered after its key was
        /// deleted or has expired, so that a late writer is refused then, too: longer than a holder of a lock can stand
        /// still and write all the same. 0 forgets it at once.
        "fence-memory-ms" !hidden fence_memory_ms: u64 = "300000", Kind::Int(0, i64::MAX), Runtime, Supported;
        /// Writes the process id to this file and removes the file at exit.
        "pidfile" pidfile: Option<PathBuf> = "", Kind::Path, Start, Supported;
        /// Notifies this supervisor when the server is ready and when it stops: `systemd`, or `auto` for systemd if it
        /// asks for notifications.
        "supervised" supervised: Supervisor = "no", Kind::Choice(Supervisor::WORDS), Start, Supported;
        /// Shuts down with these options on SIGINT; see SHUTDOWN.
        "shutdown-on-sigint" shutdown_on_sigint: ShutdownOptions = "default", Kind::ShutdownOptions, Runtime, Supported;
        /// Shuts down with these options on SIGTERM; see SHUTDOWN.
        "shutdown-on-sigterm" shutdown_on_sigterm: ShutdownOptions = "default", Kind::ShutdownOptions, Runtime, Supported;
        /// The number of seconds that a shutdown waits for replicas that lack changes; 0 does not wait.
        "shutdown-timeout" shutdown_timeout_s: u64 = "10", Kind::Int(0, INT_MAX), Runtime, Supported;
        /// Prints the startup banner even when the log does not go to a terminal.
        "always-show-logo" always_show_logo: bool = "no", Kind::Switch, Start, Supported;
        /// Adjusts how likely the kernel's OOM killer selects this process: `relative` (or `yes`) adds the first of
        /// oom-score-adj-values to the original score, `absolute` replaces the score with it.
        "oom-score-adj" oom_score_adj: OomScore = "no", OOM_SCORE, Runtime, Supported;
        /// Adjusts the OOM score by the first of these; the others would be for replicas and child processes.
        "oom-score-adj-values" oom_score_adj_values: [i32; 3] = "0 200 800", Kind::OomScores, Runtime, Supported;
        /// Runs the server in the background, unless a supervisor has started it. The process that was started exits
        /// when the server is ready, or with status 1 and the reason when it cannot start.
        "daemonize" daemonize: bool = "no", Kind::Switch, Start, Supported;
        /// Replies exactly as Redis. With `no`, replies as Valkey where that has other names and error messages, as in
        /// HELLO and INFO. Valkey's own default is `no`.
        "extended-redis-compatibility" !hidden %own extended_redis_compatibility: bool = "yes", Kind::Switch, Runtime, Supported;
        /// Warns at startup about settings that ask for what keylatch does not have, such as files (`warn`), or does not
        /// start with them (`refuse`).
        "unsupported-settings" !hidden unsupported_settings: Unsupported = "warn", Kind::Choice(Unsupported::WORDS), Start, Supported;
        /// Checks the total memory of clients this many times per second. Keys expire exactly, without such a timer.
        "hz" hz: u32 = "10", Kind::Clamped(1, 500), Runtime, Supported;
    }
    Tls {
        /// Accepts TLS connections on this port, at the addresses of `bind`; 0 accepts none.
        "tls-port" tls_port: u16 = "0", Kind::Int(0, 65535), Runtime, Supported;
        /// The server's certificate chain, in a PEM file, the server's own certificate first.
        "tls-cert-file" tls_cert_file: Option<PathBuf> = "", Kind::Path, Runtime, Supported;
        /// The private key of the certificate, in a PEM file.
        "tls-key-file" tls_key_file: Option<PathBuf> = "", Kind::Path, Runtime, Supported;
        /// Would decrypt the key file. Encrypted key files are not supported, so the server does not start with this.
        "tls-key-file-pass" ?secret tls_key_file_pass: Option<Vec<u8>> = "", Kind::Text, Runtime, Supported;
        /// Trusts client certificates that were signed by an authority in this PEM file.
        "tls-ca-cert-file" tls_ca_cert_file: Option<PathBuf> = "", Kind::Path, Runtime, Supported;
        /// Trusts client certificates that were signed by an authority in the files of this directory.
        "tls-ca-cert-dir" tls_ca_cert_dir: Option<PathBuf> = "", Kind::Path, Runtime, Supported;
        /// Requires a certificate of clients (`yes`), verifies one if there is one (`optional`), or requests none (`no`).
        "tls-auth-clients" tls_auth_clients: TlsAuthClients = "yes", Kind::Choice(TlsAuthClients::WORDS), Runtime, Supported;
        /// The enabled versions of the protocol, TLSv1.2 and TLSv1.3; empty means both. Older ones are ignored.
        "tls-protocols" tls_protocols: Option<Vec<u8>> = "", Kind::Text, Runtime, Supported;
        /// Uses TLS for the link of a replica to its primary, whose certificate must be signed by an authority in
        /// `tls-ca-cert-file`, for whatever name.
        "tls-replication" tls_replication: bool = "no", Kind::Switch, Runtime, Supported;
        /// The certificate that a replica shows its primary, in a PEM file; without it, that of `tls-cert-file`.
        "tls-client-cert-file" tls_client_cert_file: Option<PathBuf> = "", Kind::Path, Runtime, Supported;
        /// The private key of that certificate, in a PEM file.
        "tls-client-key-file" tls_client_key_file: Option<PathBuf> = "", Kind::Path, Runtime, Supported;
        /// Allows clients of TLSv1.2 to resume a session, which saves half of the handshake.
        "tls-session-caching" tls_session_caching: bool = "yes", Kind::Switch, Runtime, Supported;
        /// The number of sessions that can be resumed.
        "tls-session-cache-size" tls_session_cache_size: u32 = "20480", Kind::Int(0, INT_MAX), Runtime, Supported;
    }
    Testing {
        /// Adds the commands TEST.*, which let tests steer time, inject faults and see the calls received. Every
        /// client can use them: never for a server that keeps data.
        "test-mode" !hidden test_mode: bool = "no", Kind::Switch, Start, Supported;
        /// The number of received calls that TEST.CALLS shows; older ones are forgotten, as are those beyond 64 MB.
        "test-calls-max" !hidden %own test_calls_max: usize = "10000", Kind::Int(0, INT_MAX), Runtime, Supported;
        /// The number of writes that TEST.FAILOVER can forget; 0 remembers none. Those before the last 64 MB are not
        /// remembered, either.
        "test-journal-max" !hidden %own test_journal_max: usize = "1000", Kind::Int(0, INT_MAX), Runtime, Supported;
        /// The milliseconds of real time for which a private instance stays after its last connection was closed.
        "namespace-linger" !hidden %own namespace_linger_ms: u64 = "5000", Kind::Int(0, INT_MAX), Runtime, Supported;
        /// Answers as this service or version does, with what it refuses: docs/PROFILES.md lists them. Empty for none.
        "profile" !hidden %own profile: Option<&'static Profile> = "", Kind::Choice(profile::WORDS), Runtime, Supported;
        /// Makes an authority and a certificate, and accepts TLS connections beside the others, without certificates of
        /// clients: on a free port if `tls-port` names none. A line of JSON on standard output says when the server is ready,
        /// with the port (`tls_port`) and the authority, as a file (`tls_ca_file`) and as text (`tls_ca`). Needs test mode.
        "test-tls" !hidden test_tls: bool = "no", Kind::Switch, Start, Supported;
        /// The ports of the nodes that TEST.CLUSTER and TEST.SENTINEL make, as `7000-7099`; without it any free ones.
        "topology-ports" !hidden topology_ports: Option<RangeInclusive<u16>> = "", Kind::PortRange, Start, Supported;
        /// Writes the TCP port to this file, atomically, once the server is ready, and removes the file at exit.
        "port-file" !hidden port_file: Option<PathBuf> = "", Kind::Path, Start, Supported;
        /// Shuts down when standard input is closed, and so together with the process that has started the server and
        /// keeps the other end of the pipe. A line of JSON on standard output says when it is ready, whatever the port,
        /// and the log goes to standard error. Not for a daemon.
        "exit-on-stdin-close" !hidden exit_on_stdin_close: bool = "no", Kind::Switch, Start, Supported;
    }
    Threads {
        /// The number of threads that serve connections; 0 selects one for every two cores.
        "worker-threads" !hidden worker_threads: u32 = "0", Kind::Int(0, 1024), Start, Supported;
    }
    Security {
        /// The password of the default user (AUTH); empty means none.
        "requirepass" ?secret requirepass: Option<Vec<u8>> = "", Kind::Bytes, Runtime, Supported;
        /// Loads users and their permissions from this file in `dir`; ACL SAVE writes it and ACL LOAD reloads it.
        /// Alternatively, lines of the form user NAME RULE ... declare users here; both together are an error.
        "aclfile" aclfile: Option<PathBuf> = "", Kind::Path, Start, Supported;
        /// Allows a new user all Pub/Sub channels, or none, before any rule is applied.
        "acl-pubsub-default" %own acl_pubsub_default: ChannelDefault = "resetchannels", Kind::Choice(ChannelDefault::WORDS), Runtime, Supported;
        /// The number of entries in ACL LOG, which records denied commands, keys and channels.
        "acllog-max-len" %own acllog_max_len: usize = "128", Kind::Int(0, i64::MAX), Runtime, Supported;
        /// Allows `CONFIG SET` of settings that name files: to all clients (`yes`), to clients on this machine
        /// (`local`), or to none (`no`).
        "enable-protected-configs" enable_protected_configs: Allowance = "no", ALLOWANCE, Start, Supported;
        /// Allows DEBUG: to all clients (`yes`), to clients on this machine (`local`), or to none (`no`).
        "enable-debug-command" enable_debug_command: Allowance = "no", ALLOWANCE, Start, Supported;
        /// Allows MODULE: to all clients (`yes`), to clients on this machine (`local`), or to none (`no`).
        "enable-module-command" enable_module_command: Allowance = "no", ALLOWANCE, Start, Supported;
    }
    Monitoring {
        /// Records commands that take this many microseconds in the slow log; 0 records all and -1 none.
        "slowlog-log-slower-than" ~ "commandlog-execution-slower-than" %own slowlog_log_slower_than: i64 = "10000",
            Kind::Int(-1, i64::MAX), Runtime, Supported;
        /// The number of entries in the slow log.
        "slowlog-max-len" ~ "commandlog-slow-execution-max-len" %own slowlog_max_len: usize = "128", Kind::Int(0, i64::MAX), Runtime, Supported;
        /// Records commands with requests of this many bytes in a log of COMMANDLOG; 0 records all and -1 none.
        "commandlog-request-larger-than" !hidden %own commandlog_request_larger_than: i64 = "-1", Kind::Int(-1, i64::MAX), Runtime, Supported;
        /// The number of entries in the log of large requests.
        "commandlog-large-request-max-len" !hidden %own commandlog_large_request_max_len: usize = "128", Kind::Int(0, i64::MAX), Runtime, Supported;
        /// Records commands with replies of this many bytes in a log of COMMANDLOG; 0 records all and -1 none.
        "commandlog-reply-larger-than" !hidden %own commandlog_reply_larger_than: i64 = "-1", Kind::Int(-1, i64::MAX), Runtime, Supported;
        /// The number of entries in the log of large replies.
        "commandlog-large-reply-max-len" !hidden %own commandlog_large_reply_max_len: usize = "128", Kind::Int(0, i64::MAX), Runtime, Supported;
        /// Records events that take this many milliseconds, for LATENCY; 0 records none.
        "latency-monitor-threshold" %own latency_monitor_threshold: u64 = "0", Kind::Int(0, i64::MAX), Runtime, Supported;
        /// Records a latency histogram of every command.
        "latency-tracking" %own latency_tracking: bool = "yes", Kind::Switch, Runtime, Supported;
        /// The latency percentiles that INFO shows.
        "latency-tracking-info-percentiles" %own latency_tracking_info_percentiles: Vec<f64> = "50 99 99.9", Kind::Percentiles, Runtime, Supported;
        /// Publishes keyspace notifications to channels named after the key (K), the event (E) or both: for generic
        /// commands (g), strings ($), lists (l), sets (s), hashes (h), sorted sets (z) and streams (t), new keys (n), key
        /// misses (m), expired keys (x) and evicted keys (e); d, o and c are accepted and have no events. A is an alias
        /// of g$lshzxetd.
        "notify-keyspace-events" %own notify_keyspace_events: Classes = "", Kind::Events, Runtime, Supported;
    }
    DataTypes {
        /// The maximum size of a HyperLogLog in the sparse encoding, in bytes; a larger one is converted to the dense
        /// encoding of 12304 bytes, which is faster.
        "hll-sparse-max-bytes" %own hll_sparse_max_bytes: usize = "3000", Kind::Memory(0, LONG_MAX), Runtime, Supported;
        /// The maximum number of fields of a hash in the compact encoding.
        "hash-max-listpack-entries" | "hash-max-ziplist-entries" %own hash_max_listpack_entries: usize = "512",
            Kind::Int(0, i64::MAX), Runtime, Supported;
        /// The maximum length of a field or value of a hash in the compact encoding, in bytes.
        "hash-max-listpack-value" | "hash-max-ziplist-value" %own hash_max_listpack_value: usize = "64",
            Kind::Memory(0, LONG_MAX), Runtime, Supported;
        /// The maximum size of a list in the compact encoding, and of each node of a longer one: a number of entries,
        /// or from -1 to -5 a size of 4, 8, 16, 32 or 64 kb.
        "list-max-listpack-size" | "list-max-ziplist-size" %own list_max_listpack_size: ListLimit = "-2",
            Kind::Int(INT_MIN, INT_MAX), Runtime, Supported;
        /// The maximum number of members of a set of integers in the encoding for these.
        "set-max-intset-entries" %own set_max_intset_entries: usize = "512", Kind::Int(0, i64::MAX), Runtime, Supported;
        /// The maximum number of members of a set in the compact encoding.
        "set-max-listpack-entries" @ "7.2" %own set_max_listpack_entries: usize = "128", Kind::Int(0, i64::MAX), Runtime, Supported;
        /// The maximum length of a member of a set in the compact encoding, in bytes.
        "set-max-listpack-value" @ "7.2" %own set_max_listpack_value: usize = "64", Kind::Int(0, i64::MAX), Runtime, Supported;
        /// The maximum number of members of a sorted set in the compact encoding.
        "zset-max-listpack-entries" | "zset-max-ziplist-entries" %own zset_max_listpack_entries: usize = "128", Kind::Int(0, i64::MAX), Runtime, Supported;
        /// The maximum length of a member of a sorted set in the compact encoding, in bytes.
        "zset-max-listpack-value" | "zset-max-ziplist-value" %own zset_max_listpack_value: usize = "64",
            Kind::Memory(0, LONG_MAX), Runtime, Supported;
        /// The maximum size of a stream's nodes, in bytes; 0 is no limit.
        "stream-node-max-bytes" %own stream_node_max_bytes: usize = "4096", Kind::Memory(0, LONG_MAX), Runtime, Supported;
        /// The maximum number of entries of a stream's nodes; 0 is no limit.
        "stream-node-max-entries" %own stream_node_max_entries: usize = "100", Kind::Int(0, i64::MAX), Runtime, Supported;
        /// The time for which a stream recognizes entries that their producers have named, in seconds.
        "stream-idmp-duration" !hidden %own stream_idmp_duration: u64 = "100", Kind::Int(1, 86400), Runtime, Supported;
        /// The number of named entries of each producer that a stream recognizes.
        "stream-idmp-maxsize" !hidden %own stream_idmp_maxsize: usize = "100", Kind::Int(1, 10000), Runtime, Supported;
        /// The error rate of Bloom filters that are created without one.
        "bf-error-rate" !hidden %own bf_error_rate: f64 = "0.01", Kind::ErrorRate("bf-error-rate"), Runtime, Supported;
        /// The capacity of Bloom filters that are created without one.
        "bf-initial-size" !hidden %own bf_initial_size: u64 = "100", Kind::OfModule("bf-initial-size", 1, 1 << 30), Runtime, Supported;
        /// The expansion of Bloom filters that are created without one; with 0 they do not expand.
        "bf-expansion-factor" !hidden %own bf_expansion_factor: u32 = "2", Kind::OfModule("bf-expansion-factor", 0, 32768), Runtime, Supported;
        /// The size of buckets of cuckoo filters that are created without one.
        "cf-bucket-size" !hidden %own cf_bucket_size: u16 = "2", Kind::OfModule("cf-bucket-size", 1, 255), Runtime, Supported;
        /// The capacity of cuckoo filters that are created without one; at least that of two buckets.
        "cf-initial-size" !hidden %own cf_initial_size: u64 = "1024", Kind::OfModule("cf-initial-size", 2, 1 << 30), Runtime, Supported;
        /// The maximum number of moves of an item in cuckoo filters that are created without one.
        "cf-max-iterations" !hidden %own cf_max_iterations: u16 = "20", Kind::OfModule("cf-max-iterations", 1, 65535), Runtime, Supported;
        /// The expansion of cuckoo filters that are created without one; with 0 they do not expand.
        "cf-expansion-factor" !hidden %own cf_expansion_factor: u16 = "1", Kind::OfModule("cf-expansion-factor", 0, 32768), Runtime, Supported;
    }
    Memory {
        /// The limit of the memory for data and clients' buffers, in bytes; 0 is no limit.
        "maxmemory" %own maxmemory: u64 = "0", Kind::Memory(0, u64::MAX), Runtime, Supported;
        /// Selects the keys to evict when memory runs out: among all keys (allkeys) or those with a TTL (volatile) the
        /// least recently used (lru), the least recently modified (lrm), the least frequently used (lfu), a random one
        /// (random) or the one that expires first (ttl). With noeviction, commands that need memory fail instead.
        "maxmemory-policy" %own maxmemory_policy: EvictionPolicy = "noeviction", Kind::Choice(EvictionPolicy::WORDS), Runtime, Supported;
        /// The number of keys sampled to choose one to evict; more is more exact and slower.
        "maxmemory-samples" %own maxmemory_samples: u32 = "5", Kind::Int(1, 64), Runtime, Supported;
        /// The limit of the time that clients wait for eviction: from 0, hardly at all, to 100, without limit.
        "maxmemory-eviction-tenacity" %own maxmemory_eviction_tenacity: u32 = "10", Kind::Int(0, 100), Runtime, Supported;
        /// Makes the counter of a key's uses rise more slowly the higher it is, with an LFU policy.
        "lfu-log-factor" %own lfu_log_factor: u32 = "10", Kind::Int(0, INT_MAX), Runtime, Supported;
        /// Decrements a key's counter of uses after this many minutes without use, with an LFU policy; 0 disables that.
        "lfu-decay-time" %own lfu_decay_minutes: u32 = "1", Kind::Int(0, INT_MAX), Runtime, Supported;
        /// The maximum number of keys remembered for clients that cache them (CLIENT TRACKING); above it, other keys
        /// are invalidated. 0 is no limit.
        "tracking-table-max-keys" %own tracking_table_max_keys: usize = "1000000", Kind::Int(0, i64::MAX), Runtime, Supported;
    }
    Persistence {
        /// Saves a snapshot when so many seconds have passed since the last one and there were so many changes: pairs of
        /// both numbers. An empty list never does. In test mode, and in a server that another program embeds, it is
        /// empty unless it is set.
        "save" %own save_points: Vec<SavePoint> = "3600 1 300 100 60 10000", Kind::SavePoints, Runtime, Supported;
        /// Names the snapshot file, which is in `dir` and is loaded at the start. Empty means none: nothing is loaded, and
        /// saving fails. That is the default in test mode, and in a server that another program embeds, unless `dir` or
        /// save points are set.
        "dbfilename" dbfilename: Option<PathBuf> = "dump.rdb", DBFILENAME, Protected, Supported;
        /// Compresses strings in snapshots and in the replies of DUMP.
        "rdbcompression" %own rdbcompression: bool = "yes", Kind::Switch, Runtime, Supported;
        /// Ends a snapshot with a checksum, which is verified when it is loaded.
        "rdbchecksum" rdbchecksum: bool = "yes", Kind::Switch, Start, Supported;
        /// Writes snapshots in this version of the format; 0 selects the lowest that expresses the data. Redis 7.0 reads
        /// 10, 7.2 also 11, 7.4 also 12, 8.6 also 13, 8.8 also 14. The last two have what `IDMP` of XADD and XNACK leave
        /// in streams, which is beside the stream in others and read by keylatch alone.
        "rdb-version" !hidden rdb_version: u32 = "0", Kind::Choice(&["0", "10", "11", "12", "13", "14"]), Runtime, Supported;
        /// Rejects writes after a snapshot could not be saved, until one is, if there are save points.
        "stop-writes-on-bgsave-error" %own stop_writes_on_bgsave_error: bool = "yes", Kind::Switch, Runtime, Supported;
        /// For tests: waits this many microseconds after each saved key; one in so many keys of a negative number.
        "rdb-key-save-delay" !hidden %own rdb_key_save_delay: i64 = "0", Kind::Int(INT_MIN, INT_MAX), Runtime, Supported;
        /// For tests: waits this many microseconds after each loaded key; one in so many keys of a negative number.
        "key-load-delay" !hidden %own key_load_delay: i64 = "0", Kind::Int(INT_MIN, INT_MAX), Runtime, Supported;
        /// Refuses to start when the snapshot or the append-only file that the settings name is missing, instead of
        /// starting without keys.
        "refuse-empty-start" !hidden refuse_empty_start: bool = "no", Kind::Switch, Start, Supported;
        /// Logs every write to an append-only file, and loads that at the start instead of the snapshot.
        "appendonly" %own ^fixed appendonly: bool = "no", Kind::Switch, Runtime, Supported;
        /// The first part of the names of the append-only files.
        "appendfilename" appendfilename: OsString = "appendonly.aof", APPENDFILENAME, Start, Supported;
        /// Names the directory of the append-only files, which is in `dir`.
        "appenddirname" appenddirname: OsString = "appendonlydir", APPENDDIRNAME, Start, Supported;
        /// Selects when the append-only file is fsynced: before any reply to a write (`always`), every second
        /// (`everysec`), or when the kernel decides (`no`).
        "appendfsync" %own appendfsync: AppendFsync = "everysec", Kind::Choice(AppendFsync::WORDS), Runtime, Supported;
        /// Rewrites the append-only file when it has grown by this percentage since the last time; 0 never does.
        "auto-aof-rewrite-percentage" %own auto_aof_rewrite_percentage: u32 = "100", Kind::Int(0, INT_MAX), Runtime, Supported;
        /// The size below which an append-only file is not rewritten automatically, in bytes.
        "auto-aof-rewrite-min-size" %own auto_aof_rewrite_min_size: u64 = "67108864", Kind::Memory(0, LONG_MAX), Runtime, Supported;
        /// Writes the data as a snapshot when an append-only file is rewritten; otherwise as commands, which take more space
        /// and time and have no checksum.
        "aof-use-rdb-preamble" %own aof_use_rdb_preamble: bool = "yes", Kind::Switch, Runtime, Supported;
        /// Loads an append-only file whose last command is incomplete, without that command; otherwise the server does not
        /// start with it.
        "aof-load-truncated" %own aof_load_truncated: bool = "yes", Kind::Switch, Runtime, Supported;
        /// Loads an append-only file that ends with at most this many damaged bytes, without them; 0 accepts no damage.
        "aof-load-corrupt-tail-max-size" @ "8.4" %own aof_load_corrupt_tail_max_size: u64 = "0", Kind::Memory(0, LONG_MAX), Runtime, Supported;
        /// Writes the time into the append-only file, as annotations that Redis 7.0 and later skip.
        "aof-timestamp-enabled" %own aof_timestamp_enabled: bool = "no", Kind::Switch, Runtime, Supported;
        /// Writes checksums into the append-only file and its manifest, as annotations that Redis 7.0 and later skip; a
        /// change takes effect with the next rewrite.
        "aof-checksum" !hidden %own aof_checksum: bool = "yes", Kind::Switch, Runtime, Supported;
        /// Retains append-only files that are no longer needed. For tests.
        "aof-disable-auto-gc" %own aof_disable_auto_gc: bool = "no", Kind::Switch, Runtime, Supported;
    }
    Engine {
        /// The place of the data: the memory of this process (`memory`), or an etcd cluster (`etcd`) that any number of
        /// processes serve together. With `etcd` there are no snapshots, no append-only file and no replicas.
        "engine" !hidden engine: EngineKind = "memory", Kind::Choice(EngineKind::WORDS), Start, Supported;
        /// The members of the cluster as URLs, separated by commas: http://HOST:PORT, or https:// for TLS.
        "etcd-endpoints" !hidden etcd_endpoints: Option<Vec<u8>> = "", Kind::Text, Start, Supported;
        /// Begins the names of everything in etcd; processes with the same prefix serve the same data.
        "etcd-prefix" !hidden etcd_prefix: Option<Vec<u8>> = "keylatch/", Kind::Text, Start, Supported;
        /// The user of etcd.
        "etcd-user" !hidden etcd_user: Option<Vec<u8>> = "", Kind::Text, Start, Supported;
        /// A file with the user's password.
        "etcd-password-file" !hidden etcd_password_file: Option<PathBuf> = "", Kind::Path, Start, Supported;
        /// Trusts members whose certificates were signed by an authority in this PEM file.
        "etcd-cacert" !hidden etcd_cacert: Option<PathBuf> = "", Kind::Path, Start, Supported;
        /// The certificate that members are shown, in a PEM file.
        "etcd-cert" !hidden etcd_cert: Option<PathBuf> = "", Kind::Path, Start, Supported;
        /// The private key of that certificate, in a PEM file.
        "etcd-key" !hidden etcd_key: Option<PathBuf> = "", Kind::Path, Start, Supported;
        /// For how many milliseconds a command waits for the cluster, at most: then the reply is -NOQUORUM if it was not
        /// executed, and -UNCERTAIN if that is not known.
        "etcd-timeout" !hidden etcd_timeout_ms: u64 = "5000", Kind::Int(100, INT_MAX), Runtime, Supported;
        /// The consistency of reads: a read waits until it sees everything that was acknowledged before it
        /// (`linearizable`), or sees the changes that have arrived at this process (`local`), which may be old.
        "etcd-reads" !hidden etcd_reads: EtcdReads = "linearizable", Kind::Choice(EtcdReads::WORDS), Runtime, Supported;
        /// The maximum difference between the wall clocks of the servers, in milliseconds: a server that starts then
        /// counts a TTL up to its date and this time. With -1 it trusts no clock, and counts the whole TTL again.
        "etcd-clock-skew-max" !hidden etcd_clock_skew_max_ms: i64 = "-1", Kind::Int(-1, INT_MAX), Start, Supported;
        /// The largest value of a key, in bytes as in a dump; a write of a larger one fails. etcd itself takes 1.5 MB.
        "etcd-value-max" !hidden etcd_value_max: usize = "1048576", Kind::Memory(1024, 1 << 20), Runtime, Supported;
    }
    Replication {
        /// Makes the server a replica of the one at this host and port, of which it gets all data and every change; see
        /// REPLICAOF, which changes it.
        "replicaof" | "slaveof" replicaof: Option<HostPort> = "", Kind::Primary, Start, Supported;
        /// The password that a replica gives its primary.
        "masterauth" ~"primaryauth" ?secret masterauth: Option<Vec<u8>> = "", Kind::Bytes, Runtime, Supported;
        /// The user as whom a replica logs in to its primary; without it, the default user.
        "masteruser" ~"primaryuser" ?secret masteruser: Option<Vec<u8>> = "", Kind::Text, Runtime, Supported;
        /// Allows a replica to serve clients without a link to its primary; otherwise they get -MASTERDOWN.
        "replica-serve-stale-data" | "slave-serve-stale-data" replica_serve_stale_data: bool = "yes", Kind::Switch, Runtime, Supported;
        /// Rejects writes of clients on a replica. What they write otherwise is not sent to replicas of the replica, nor is
        /// it in the append-only file.
        "replica-read-only" | "slave-read-only" replica_read_only: bool = "yes", Kind::Switch, Runtime, Supported;
        /// The priority by which Sentinel selects a replica to be promoted, the lowest first; 0 is never promoted.
        "replica-priority" | "slave-priority" replica_priority: u32 = "100", Kind::Int(0, INT_MAX), Runtime, Supported;
        /// Allows Sentinel to tell clients of this replica.
        "replica-announced" replica_announced: bool = "yes", Kind::Switch, Runtime, Supported;
        /// The address that a replica tells its primary, where the primary does not see the right one.
        "replica-announce-ip" | "slave-announce-ip" replica_announce_ip: Option<Vec<u8>> = "", Kind::Text, Runtime, Supported;
        /// The port that a replica tells its primary, where it is not its own; 0 is its own.
        "replica-announce-port" | "slave-announce-port" replica_announce_port: u16 = "0", Kind::Int(0, 65535), Runtime, Supported;
        /// Leaves evictions to the primary: a replica does not evict keys of its own accord.
        "replica-ignore-maxmemory" | "slave-ignore-maxmemory" replica_ignore_maxmemory: bool = "yes", Kind::Switch, Runtime, Supported;
        /// Loads the data of the primary from the connection where there are no keys (`on-empty-db`), or always, beside the
        /// present data (`swapdb`): that needs memory for both, serves the present data meanwhile if it is of the same
        /// history, and keeps it if the link breaks. Otherwise the data is written to a file first, and the present data is
        /// served until all of it is here.
        "repl-diskless-load" ^fixed repl_diskless_load: DisklessLoad = "disabled", Kind::Choice(DisklessLoad::WORDS), Runtime, Supported;
        /// Ends the link between a primary and a replica when it was silent for this many seconds.
        "repl-timeout" %own repl_timeout_s: u64 = "60", Kind::Int(1, INT_MAX), Runtime, Supported;
        /// Rejects writes with fewer replicas than this, unless `min-replicas-max-lag` is 0.
        "min-replicas-to-write" | "min-slaves-to-write" %own min_replicas_to_write: u32 = "0", Kind::Int(0, INT_MAX), Runtime, Supported;
        /// Sends snapshots to replicas as they are written. With `no`, and to replicas that do not understand this, they are
        /// written to a temporary file first.
        "repl-diskless-sync" %own repl_diskless_sync: bool = "yes", Kind::Switch, Runtime, Supported;
        /// Waits this many seconds for more replicas before a snapshot is sent to all that have asked for one.
        "repl-diskless-sync-delay" %own repl_diskless_sync_delay_s: u64 = "5", Kind::Int(0, INT_MAX), Runtime, Supported;
        /// Ends the wait of `repl-diskless-sync-delay` once this many replicas have asked; 0 is no such number.
        "repl-diskless-sync-max-replicas" %own repl_diskless_sync_max_replicas: usize = "0", Kind::Int(0, INT_MAX), Runtime, Supported;
        /// Pings the replicas at this interval, in seconds.
        "repl-ping-replica-period" | "repl-ping-slave-period" %own repl_ping_replica_period_s: u64 = "10", Kind::Int(1, INT_MAX), Runtime, Supported;
        /// Forgets the latest changes, and logs none, once there have been no replicas for this many seconds; 0 keeps them.
        "repl-backlog-ttl" %own repl_backlog_ttl_s: u64 = "3600", Kind::Int(0, i64::MAX), Runtime, Supported;
        /// Retains this many bytes of the latest changes for replicas that come back; one that lacks more reads on from
        /// the append-only file, if there is one and it was not rewritten since.
        "repl-backlog-size" %own repl_backlog_size: u64 = "1048576", Kind::Raised(16 * 1024), Runtime, Supported;
        /// Ignores a replica that was silent for this many seconds; 0 disables `min-replicas-to-write`.
        "min-replicas-max-lag" | "min-slaves-max-lag" %own min_replicas_max_lag_s: u32 = "10", Kind::Int(0, INT_MAX), Runtime, Supported;
    }
    Cluster {
        /// Makes the server a cluster of one node, which has all 16384 slots: cluster clients work unchanged, and the keys of a
        /// call, a transaction or a script have to be in one slot. With `engine etcd` its nodes are all processes with the same
        /// data and this setting, to which the slots are dealt.
        "cluster-enabled" cluster_enabled: bool = "no", Kind::Switch, Start, Supported;
        /// The file in `dir` that keeps the ids of the node, in the form of Redis.
        "cluster-config-file" cluster_config_file: Option<Vec<u8>> = "nodes.conf", Kind::Text, Start, Supported;
        /// The port of the cluster bus that the node is said to have; nothing listens there. 0 is the server's port and 10000.
        "cluster-port" cluster_port: u16 = "0", Kind::Int(0, 65535), Start, Supported;
        /// The address that clients are told, if not the one at which they have reached the server. With `engine etcd` and
        /// several nodes, clients are otherwise told the address in `bind`, or the one from which the process reaches etcd.
        "cluster-announce-ip" %own cluster_announce_ip: Option<Vec<u8>> = "", Kind::Text, Runtime, Supported;
        /// The host name that clients are told.
        "cluster-announce-hostname" %own cluster_announce_hostname: Option<Vec<u8>> = "", Kind::HostName, Runtime, Supported;
        /// The port that clients are told, if not the one at which they have reached the server.
        "cluster-announce-port" %own cluster_announce_port: u16 = "0", Kind::Int(0, 65535), Runtime, Supported;
        /// The same for clients with TLS.
        "cluster-announce-tls-port" %own cluster_announce_tls_port: u16 = "0", Kind::Int(0, 65535), Runtime, Supported;
        /// The port of the cluster bus that clients are told.
        "cluster-announce-bus-port" %own cluster_announce_bus_port: u16 = "0", Kind::Int(0, 65535), Runtime, Supported;
        /// Excludes the node from elections while it is a replica; for the nodes of TEST.CLUSTER, as the next two.
        "cluster-replica-no-failover" | "cluster-slave-no-failover" %own cluster_replica_no_failover: bool = "no", Kind::Switch, Runtime, Supported;
        /// Moves the node, as a replica, with its primary's slots, and to a primary that has no replica left.
        "cluster-allow-replica-migration" %own cluster_allow_replica_migration: bool = "yes", Kind::Switch, Runtime, Supported;
        /// The number of replicas that stay with the primary when one moves.
        "cluster-migration-barrier" %own cluster_migration_barrier: u32 = "1", Kind::Int(0, INT_MAX), Runtime, Supported;
        /// Names the node to clients by its address, by its host name, or not at all, so that they use the address that they have.
        "cluster-preferred-endpoint-type" %own cluster_preferred_endpoint_type: EndpointType = "ip",
            Kind::Choice(EndpointType::WORDS), Runtime, Supported;
        /// Serves no keys while a slot has no node; for the nodes of TEST.CLUSTER, as the next two.
        "cluster-require-full-coverage" %own cluster_require_full_coverage: bool = "yes", Kind::Switch, Runtime, Supported;
        /// Serves reads while the cluster is down.
        "cluster-allow-reads-when-down" %own cluster_allow_reads_when_down: bool = "no", Kind::Switch, Runtime, Supported;
        /// Serves the channels of shards while the cluster is down.
        "cluster-allow-pubsubshard-when-down" %own cluster_allow_pubsubshard_when_down: bool = "yes", Kind::Switch, Runtime, Supported;
    }
    Scripts {
        /// The time in milliseconds after which a running script makes other clients get BUSY errors, and can be
        /// killed; 0 makes them wait.
        "busy-reply-threshold" | "lua-time-limit" %own busy_reply_threshold_ms: u64 = "5000", Kind::Int(0, i64::MAX), Runtime, Supported;
    }
    Clients {
        /// The maximum number of clients at a time; further ones are rejected.
        "maxclients" maxclients: u32 = "10000", Kind::Int(1, u32::MAX as i64), Runtime, Supported;
        /// The maximum length of a single argument of a request, in bytes.
        "proto-max-bulk-len" proto_max_bulk_len: usize = "536870912", Kind::Memory(1 << 20, BULK_LEN_MAX), Runtime, Supported;
        /// Disconnects a client whose incomplete request takes more than this many bytes.
        "client-query-buffer-limit" client_query_buffer_limit: usize = "1073741824", Kind::Memory(1 << 20, LONG_MAX), Runtime, Supported;
        /// Disconnects a client that does not read its replies. For each client class (normal, slave, pubsub): the hard
        /// limit in bytes, the soft limit in bytes, and how many seconds the soft limit may be exceeded; 0 is no limit.
        "client-output-buffer-limit" %own client_output_buffer_limit: [OutputLimit; 3]
            = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60", Kind::OutputLimits, Runtime, Supported;
        /// Disconnects the clients that use the most memory when all of them together use this much: bytes, or a
        /// percentage of `maxmemory` such as `5%`; 0 is no limit.
        "maxmemory-clients" %own maxmemory_clients: ClientMemory = "0", Kind::MemoryOrPercent(100), Runtime, Supported;
    }
}
