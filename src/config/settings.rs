//! The table of settings: each declared once, with its name, type, default and documentation.
//!
//! From a row come the field of [`Config`], the directive in a file, the command-line option, `CONFIG GET` and `SET`,
//! the line in `redis.conf.example` and the line in `--help`. Adding a setting means adding a row: to
//! `HONOURED` when the server reads it as a field, to `INERT` in `ignored.rs` when it is only accepted.
//!
//! Invariant: a default is canonical text of its kind, so it reads the same from a file and from `CONFIG GET`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::config::directives::Directives;
use crate::config::field::{
    Allowance, ChannelDefault, ClientMemory, Field, LogLevel, OomScore, OutputLimit, ShutdownOptions, Supervisor,
    TlsAuthClients,
};
use crate::config::ignored::INERT;
use crate::config::kind::Kind;
use crate::store::{Classes, Policy};

/// Says when a setting may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// At any time, by `CONFIG SET`.
    Runtime,
    /// At any time, by `CONFIG SET` of a client that `enable-protected-configs` allows.
    Protected,
    /// At start only.
    Start,
}

/// Says what a setting does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The server acts on it.
    Supported,
    /// The server accepts and reports it, so that files and clients written for Redis work, and does nothing.
    Nothing,
}

/// Describes one setting.
#[derive(Debug)]
pub struct Setting {
    /// The name in files, on the command line and in `CONFIG`.
    pub name: &'static str,
    /// The other name it has, mostly an older one.
    pub alias: Option<&'static str>,
    /// A name that Valkey has for it: understood wherever a setting is named, and shown in no listing.
    pub synonym: Option<&'static str>,
    /// Whether only `CONFIG GET` of its very name shows it.
    pub hidden: bool,
    /// The version of Redis that brought it, where that is later than 7.0.
    #[cfg_attr(not(feature = "internals"), expect(dead_code, reason = "for the tests beside Redis"))]
    pub since: Option<&'static str>,
    /// Whether its value is a secret, which neither MONITOR nor the slow log shows.
    pub secret: bool,
    /// The heading it stands under in the example file and in `--help`.
    pub section: &'static str,
    /// The type of its value.
    pub kind: Kind,
    /// The value it has unless told otherwise, as canonical text.
    pub default: &'static str,
    /// When it may change.
    pub change: Change,
    /// What it does.
    pub effect: Effect,
    /// What it is for: sentences, one per element or continued in the next.
    pub doc: &'static [&'static str],
    store: Store,
}

/// Says where `Config` keeps the value.
#[derive(Debug)]
enum Store {
    Field { get: fn(&Config) -> Vec<u8>, set: fn(&mut Config, &[u8]) },
    Inert,
}

impl Setting {
    /// Iterates over all settings, those with a field first.
    pub fn all() -> impl Iterator<Item = &'static Setting> + Clone {
        HONOURED.iter().chain(INERT)
    }

    /// Iterates over all names, older ones included, each with its setting.
    pub fn names() -> impl Iterator<Item = (&'static str, &'static Setting)> {
        Setting::all()
            .flat_map(|setting| std::iter::once(setting.name).chain(setting.alias).map(move |name| (name, setting)))
    }

    /// Finds a setting by one of its names in any case; returns that name, too.
    pub fn find(name: &[u8]) -> Option<(&'static str, &'static Setting)> {
        let synonyms = Setting::all().filter_map(|setting| Some((setting.synonym?, setting)));
        Setting::names().chain(synonyms).find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Declares a setting that is accepted, kept and reported, and does nothing.
    pub(super) const fn ignored(
        section: &'static str,
        name: &'static str,
        kind: Kind,
        default: &'static str,
        change: Change,
        doc: &'static [&'static str; 1],
    ) -> Self {
        let (effect, store) = (Effect::Nothing, Store::Inert);
        let (alias, synonym, since, hidden, secret) = (None, None, None, false, false);
        Setting { name, alias, synonym, since, hidden, secret, section, kind, default, change, effect, doc, store }
    }

    /// Gives the setting its other name.
    pub(super) const fn alias(self, name: &'static str) -> Self {
        Setting { alias: Some(name), ..self }
    }

    /// Gives the setting the name that Valkey has for it.
    pub(super) const fn synonym(self, name: &'static str) -> Self {
        Setting { synonym: Some(name), ..self }
    }

    /// Declares the value a secret.
    pub(super) const fn secret(self) -> Self {
        Setting { secret: true, ..self }
    }

    /// Keeps the setting out of listings.
    pub(super) const fn hidden(self) -> Self {
        Setting { hidden: true, ..self }
    }

    /// Notes which version of Redis after 7.0 brought the setting.
    pub(super) const fn since(self, version: &'static str) -> Self {
        Setting { since: Some(version), ..self }
    }

    /// Returns whether the example file and the help show it: what is hidden and does nothing is for suites alone.
    pub fn is_documented(&self) -> bool {
        !self.hidden || self.effect == Effect::Supported
    }

    /// Returns the documentation as one line of text, with the note on settings that do nothing.
    pub fn doc_text(&self) -> String {
        let mut text: String = self.doc.iter().flat_map(|line| [line.trim(), " "]).collect();
        if self.effect == Effect::Nothing {
            text.push_str("Accepted for compatibility; it has no effect.");
        }
        text.trim_end().to_owned()
    }

    /// Returns the value in `config` as `CONFIG GET` prints it.
    pub fn get(&self, config: &Config) -> Vec<u8> {
        match self.store {
            Store::Field { get, .. } => get(config),
            Store::Inert => config.ignored.get(self.name).cloned().unwrap_or_else(|| self.default.into()),
        }
    }

    /// Puts canonical text, which [`Kind::canonical`] made, into `config`.
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
/// keeps what Redis does not have out of `CONFIG GET *`, because suites and tools set all that they find there. `?secret`
/// keeps the value out of MONITOR and the slow log. Behind `~` stands the name that Valkey has.
macro_rules! supported {
    ($($section:literal { $(
        $(#[doc = $doc:literal])+
        $name:literal $(| $alias:literal)? $(~ $synonym:literal)? $(! $hidden:ident)? $(? $secret:ident)? $field:ident: $type:ty = $default:literal, $kind:expr, $change:ident, $effect:ident;
    )+ })+) => {
        /// Holds the value of every setting.
        #[derive(Clone, Debug)]
        pub struct Config {
            $($( $(#[doc = $doc])+ pub $field: $type, )+)+
            /// Canonical texts of the settings without a field, where they were ever set.
            ignored: BTreeMap<&'static str, Vec<u8>>,
            /// What directives that are no settings have said.
            pub directives: Directives,
        }

        impl Default for Config {
            fn default() -> Self {
                Config {
                    $($( $field: <$type as Field>::from_text($default.as_bytes()), )+)+
                    ignored: BTreeMap::new(),
                    directives: Directives::default(),
                }
            }
        }

        /// The settings with a field in [`Config`].
        const HONOURED: &[Setting] = &[$($( Setting {
            name: $name,
            alias: [$(Some($alias),)? None][0],
            synonym: [$(Some($synonym),)? None][0],
            hidden: [$({ let $hidden = true; $hidden },)? false][0],
            since: None,
            secret: [$({ let $secret = true; $secret },)? false][0],
            section: $section,
            kind: $kind,
            default: $default,
            change: Change::$change,
            effect: Effect::$effect,
            doc: &[$($doc),+],
            store: Store::Field {
                get: |config| config.$field.to_text(),
                set: |config, text| config.$field = Field::from_text(text),
            },
        }, )+)+];
    };
}

pub(super) const INT_MAX: i64 = i32::MAX as i64;
pub(super) const LONG_MAX: u64 = i64::MAX as u64;
/// An entry of the store counts the bytes of its key in 32 bits.
const BULK_LEN_MAX: u64 = u32::MAX as u64;

const OOM_SCORE: Kind = Kind::ChoiceOr(&["no", "yes", "relative", "absolute"], ("relative", "yes"));
const ALLOWANCE: Kind = Kind::Choice(Allowance::WORDS);

supported! {
    "Network" {
        /// Accepts TCP connections on this port. 0 beside `tls-port` or `unixsocket` accepts none; alone it takes a free
        /// port and prints it as a line of JSON on standard output.
        "port" port: u16 = "6379", Kind::Int(0, 65535), Runtime, Supported;
        /// Listens on these addresses. `*` is all of IPv4 and `::*` all of IPv6; one that starts with `-` may be
        /// missing on this machine.
        "bind" bind: Vec<String> = "* -::*", Kind::Addresses, Runtime, Supported;
        /// Refuses clients from other machines while no password is set.
        "protected-mode" protected_mode: bool = "yes", Kind::Switch, Runtime, Supported;
        /// Listens on this Unix socket in addition to TCP.
        "unixsocket" unixsocket: Option<PathBuf> = "", Kind::Path, Start, Supported;
        /// Gives the Unix socket these permission bits, in octal; 0 leaves them to the umask.
        "unixsocketperm" unixsocketperm: Option<u32> = "0", Kind::Octal(0o777), Start, Supported;
        /// Lets this many connections wait to be accepted; the operating system may allow fewer.
        "tcp-backlog" tcp_backlog: u32 = "511", Kind::Int(0, INT_MAX), Start, Supported;
        /// Sends TCP keepalives after this many idle seconds; 0 sends none.
        "tcp-keepalive" tcp_keepalive_s: u32 = "300", Kind::Int(0, INT_MAX), Runtime, Supported;
        /// Closes a client that was idle for this many seconds; 0 keeps it.
        "timeout" timeout_s: u32 = "0", Kind::Int(0, INT_MAX), Runtime, Supported;
    }
    "General" {
        /// Has this many databases, numbered from 0, to choose from with SELECT.
        "databases" databases: u32 = "16", Kind::Int(1, INT_MAX), Start, Supported;
        /// Logs messages of this weight and above.
        "loglevel" loglevel: LogLevel = "notice", Kind::Choice(LogLevel::WORDS), Runtime, Supported;
        /// Appends the log to this file; empty means standard output.
        "logfile" logfile: Option<PathBuf> = "", Kind::Path, Start, Supported;
        /// Works in this directory: relative paths start here.
        "dir" dir: PathBuf = ".", Kind::Directory, Protected, Supported;
        /// Writes the process id to this file and removes the file at exit.
        "pidfile" pidfile: Option<PathBuf> = "", Kind::Path, Start, Supported;
        /// Tells this supervisor that the server is ready and that it stops: `systemd`, or `auto` for systemd if it asks.
        "supervised" supervised: Supervisor = "no", Kind::Choice(Supervisor::WORDS), Start, Supported;
        /// Stops in this way on SIGINT; see SHUTDOWN.
        "shutdown-on-sigint" shutdown_on_sigint: ShutdownOptions = "default", Kind::ShutdownOptions, Runtime, Supported;
        /// Stops in this way on SIGTERM; see SHUTDOWN.
        "shutdown-on-sigterm" shutdown_on_sigterm: ShutdownOptions = "default", Kind::ShutdownOptions, Runtime, Supported;
        /// Prints the start-up banner even when the log does not go to a terminal.
        "always-show-logo" always_show_logo: bool = "no", Kind::Switch, Start, Supported;
        /// Tells the kernel how willingly to end this process when the machine has no memory left: `relative` (or `yes`) adds
        /// the first of oom-score-adj-values to what it was, `absolute` puts it in its place.
        "oom-score-adj" oom_score_adj: OomScore = "no", OOM_SCORE, Runtime, Supported;
        /// Adjusts the kernel's willingness by the first of these; the others would be for replicas and child processes.
        "oom-score-adj-values" oom_score_adj_values: [i32; 3] = "0 200 800", Kind::OomScores, Runtime, Supported;
        /// Runs the server in the background, unless a supervisor has started it. The process that was started ends when
        /// the server is ready, or with status 1 and the reason when it cannot start.
        "daemonize" daemonize: bool = "no", Kind::Switch, Start, Supported;
        /// Answers exactly as Redis. With `no`, answers as Valkey where that has other names and error messages, as in HELLO
        /// and INFO. Valkey's own default is `no`.
        "extended-redis-compatibility" !hidden extended_redis_compatibility: bool = "yes", Kind::Switch, Runtime, Supported;
        /// Looks this many times a second at what clients take together. keylatch expires keys exactly and needs no timer
        /// for that.
        "hz" hz: u32 = "10", Kind::Clamped(1, 500), Runtime, Supported;
    }
    "TLS" {
        /// Accepts TLS connections on this port, at the addresses of `bind`; 0 accepts none.
        "tls-port" tls_port: u16 = "0", Kind::Int(0, 65535), Runtime, Supported;
        /// Shows clients the certificates in this PEM file, the server's own first.
        "tls-cert-file" tls_cert_file: Option<PathBuf> = "", Kind::Path, Runtime, Supported;
        /// Proves to be their owner with the private key in this PEM file.
        "tls-key-file" tls_key_file: Option<PathBuf> = "", Kind::Path, Runtime, Supported;
        /// Would decrypt the key file. Encrypted key files are refused, so the start is when this is set.
        "tls-key-file-pass" ?secret tls_key_file_pass: Option<Vec<u8>> = "", Kind::Text, Runtime, Supported;
        /// Trusts clients whose certificates were signed by one of those in this PEM file.
        "tls-ca-cert-file" tls_ca_cert_file: Option<PathBuf> = "", Kind::Path, Runtime, Supported;
        /// Trusts clients whose certificates were signed by one of those in the files of this directory.
        "tls-ca-cert-dir" tls_ca_cert_dir: Option<PathBuf> = "", Kind::Path, Runtime, Supported;
        /// Demands a certificate of clients (`yes`), checks one if they show it (`optional`), or asks for none.
        "tls-auth-clients" tls_auth_clients: TlsAuthClients = "yes", Kind::Choice(TlsAuthClients::WORDS), Runtime, Supported;
        /// Speaks these versions of the protocol, TLSv1.2 and TLSv1.3; empty means both. Older ones are passed over.
        "tls-protocols" tls_protocols: Option<Vec<u8>> = "", Kind::Text, Runtime, Supported;
        /// Lets clients of TLSv1.2 resume a session, which spares them half of the handshake.
        "tls-session-caching" tls_session_caching: bool = "yes", Kind::Switch, Runtime, Supported;
        /// Remembers this many sessions.
        "tls-session-cache-size" tls_session_cache_size: u32 = "20480", Kind::Int(0, INT_MAX), Runtime, Supported;
    }
    "Threads" {
        /// Serves connections on this many threads; 0 takes one for every two cores.
        "worker-threads" !hidden worker_threads: u32 = "0", Kind::Int(0, 1024), Start, Supported;
    }
    "Security" {
        /// Asks clients for this password (AUTH); empty asks for none.
        "requirepass" ?secret requirepass: Option<Vec<u8>> = "", Kind::Bytes, Runtime, Supported;
        /// Takes the users, and what they may do, from this file in `dir`; ACL SAVE writes it and ACL LOAD reads it
        /// again. Lines of the form user NAME RULE ... declare users here instead; both together are refused.
        "aclfile" aclfile: Option<PathBuf> = "", Kind::Path, Start, Supported;
        /// Allows a new user all channels of publish and subscribe, or none, before any rule says so.
        "acl-pubsub-default" acl_pubsub_default: ChannelDefault = "resetchannels", Kind::Choice(ChannelDefault::WORDS),
            Runtime, Supported;
        /// Keeps this many entries of ACL LOG, which tells what users were refused.
        "acllog-max-len" acllog_max_len: usize = "128", Kind::Int(0, i64::MAX), Runtime, Supported;
        /// Lets `CONFIG SET` change settings that name files: for everybody, for clients on this machine, or for none.
        "enable-protected-configs" enable_protected_configs: Allowance = "no", ALLOWANCE, Start, Supported;
        /// Lets clients call DEBUG: everybody, clients on this machine, or none.
        "enable-debug-command" enable_debug_command: Allowance = "no", ALLOWANCE, Start, Supported;
        /// Lets clients call MODULE: everybody, clients on this machine, or none.
        "enable-module-command" enable_module_command: Allowance = "no", ALLOWANCE, Start, Supported;
    }
    "Monitoring" {
        /// Remembers commands that take this many microseconds in the slow log; 0 remembers all and -1 none.
        "slowlog-log-slower-than" ~ "commandlog-execution-slower-than" slowlog_log_slower_than: i64 = "10000",
            Kind::Int(-1, i64::MAX), Runtime, Supported;
        /// Remembers this many slow commands.
        "slowlog-max-len" ~ "commandlog-slow-execution-max-len" slowlog_max_len: usize = "128", Kind::Int(0, i64::MAX),
            Runtime, Supported;
        /// Notes what takes this many milliseconds, for LATENCY; 0 notes nothing.
        "latency-monitor-threshold" latency_monitor_threshold: u64 = "0", Kind::Int(0, i64::MAX), Runtime, Supported;
        /// Keeps a histogram of every command's durations.
        "latency-tracking" latency_tracking: bool = "yes", Kind::Switch, Runtime, Supported;
        /// Shows these percentiles of the durations in INFO.
        "latency-tracking-info-percentiles" latency_tracking_info_percentiles: Vec<f64> = "50 99 99.9",
            Kind::Percentiles, Runtime, Supported;
        /// Publishes what happens to keys, to channels named after the key (K), the event (E) or both: what any command
        /// does (g) and those on strings do ($), keys that are new (n), were missed (m), have ended (x) or were removed for
        /// want of memory (e). A stands for g$lshzxetd; some of these letters mean types of values that there are not yet.
        "notify-keyspace-events" notify_keyspace_events: Classes = "", Kind::Events, Runtime, Supported;
    }
    "Data types" {
        /// Keeps a HyperLogLog of few elements in a form that takes as many bytes as it needs, up to this many; it then
        /// becomes one of 12304 bytes, which is faster.
        "hll-sparse-max-bytes" hll_sparse_max_bytes: usize = "3000", Kind::Memory(0, LONG_MAX), Runtime, Supported;
    }
    "Memory" {
        /// Keeps the memory for data and for clients' buffers below this many bytes; 0 is no limit.
        "maxmemory" maxmemory: u64 = "0", Kind::Memory(0, u64::MAX), Runtime, Supported;
        /// Chooses the keys to remove when memory runs out: of all keys or of those with a time to live (volatile) the
        /// least recently used (lru), the least frequently used (lfu), any (random) or those that end first (ttl). With
        /// noeviction, commands that need memory are refused instead.
        "maxmemory-policy" maxmemory_policy: Policy = "noeviction", Kind::Choice(Policy::WORDS), Runtime, Supported;
        /// Looks at this many keys at least to choose one to remove; more is more exact and takes longer.
        "maxmemory-samples" maxmemory_samples: u32 = "5", Kind::Int(1, 64), Runtime, Supported;
        /// Lets clients wait longer for memory to be freed the higher it is: from 0, not at all, to 100, to the end.
        "maxmemory-eviction-tenacity" maxmemory_eviction_tenacity: u32 = "10", Kind::Int(0, 100), Runtime, Supported;
        /// Makes the count of a key's uses rise more slowly the higher it is, with an LFU policy.
        "lfu-log-factor" lfu_log_factor: u32 = "10", Kind::Int(0, INT_MAX), Runtime, Supported;
        /// Lowers the count of a key's uses by one after so many minutes without use, with an LFU policy; 0 never does.
        "lfu-decay-time" lfu_decay_minutes: u32 = "1", Kind::Int(0, INT_MAX), Runtime, Supported;
        /// Remembers this many keys that clients have copies of (CLIENT TRACKING); of one more, some client is told to give
        /// up its copy. 0 is no limit.
        "tracking-table-max-keys" tracking_table_max_keys: usize = "1000000", Kind::Int(0, i64::MAX), Runtime, Supported;
    }
    "Snapshots and append-only file" {
        /// Compresses strings in the replies of DUMP.
        "rdbcompression" rdbcompression: bool = "yes", Kind::Switch, Runtime, Supported;
    }
    "Replication" {
        /// Refuses writes with fewer replicas than this. keylatch has none, so anything but 0 refuses every write, unless
        /// `min-replicas-max-lag` is 0.
        "min-replicas-to-write" | "min-slaves-to-write" min_replicas_to_write: u32 = "0", Kind::Int(0, INT_MAX), Runtime, Supported;
        /// Does not count a replica that is silent for so many seconds; 0 turns `min-replicas-to-write` off.
        "min-replicas-max-lag" | "min-slaves-max-lag" min_replicas_max_lag_s: u32 = "10", Kind::Int(0, INT_MAX), Runtime, Supported;
    }
    "Scripts" {
        /// Tells other clients that a script is busy once it has run for this many milliseconds, and lets it be killed; 0
        /// makes them wait.
        "busy-reply-threshold" | "lua-time-limit" busy_reply_threshold_ms: u64 = "5000", Kind::Int(0, i64::MAX), Runtime, Supported;
    }
    "Clients" {
        /// Serves at most this many clients at a time and refuses the next.
        "maxclients" maxclients: u32 = "10000", Kind::Int(1, u32::MAX as i64), Runtime, Supported;
        /// Refuses a single string in a request that is longer than this many bytes.
        "proto-max-bulk-len" proto_max_bulk_len: usize = "536870912", Kind::Memory(1 << 20, BULK_LEN_MAX), Runtime, Supported;
        /// Closes a client whose unfinished request takes more than this many bytes.
        "client-query-buffer-limit" client_query_buffer_limit: usize = "1073741824", Kind::Memory(1 << 20, LONG_MAX),
            Runtime, Supported;
        /// Closes a client that does not read its replies. For each class of clients (normal, slave, pubsub) these
        /// are the bytes that close it at once, and the bytes that close it when they wait for that many seconds; 0
        /// is no limit.
        "client-output-buffer-limit" client_output_buffer_limit: [OutputLimit; 3]
            = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60", Kind::OutputLimits, Runtime, Supported;
        /// Closes the clients that take the most memory, for what they send and do not read, when all of them together
        /// take so much: bytes, or a share of `maxmemory` such as `5%`; 0 is no limit.
        "maxmemory-clients" maxmemory_clients: ClientMemory = "0", Kind::MemoryOrPercent(100), Runtime, Supported;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::kind::Origin;

    #[test]
    fn every_default_is_canonical_text_of_its_kind() {
        // `dir` is shown as an absolute path, and there is no way to say in words that there is no primary.
        for setting in Setting::all().filter(|setting| !["dir", "replicaof"].contains(&setting.name)) {
            let words = crate::config::value_words(setting, setting.default.as_bytes());
            let canonical = setting.kind.canonical(&words, setting.default.as_bytes(), Origin::Runtime);
            assert_eq!(canonical.as_deref(), Ok(setting.default.as_bytes()), "{}", setting.name);
            assert_eq!(setting.get(&Config::default()), setting.default.as_bytes(), "{}", setting.name);
        }
    }

    #[test]
    fn every_name_is_lower_case_and_declared_once() {
        let mut names: Vec<_> = Setting::names().map(|(name, _)| name).collect();
        assert!(names.iter().all(|name| {
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte))
        }));
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn every_setting_is_documented_in_whole_sentences() {
        for setting in Setting::all() {
            let doc = setting.doc_text();
            assert!(doc.ends_with('.') && !doc.contains("  "), "{}: {doc:?}", setting.name);
            assert_eq!(doc.contains("no effect"), setting.effect == Effect::Nothing, "{}", setting.name);
        }
    }
}
