//! Settings: their declaration, values, and the ways to set them.
//!
//! Everything derives from the one table in `settings`: file directives and command-line options (`load`), `CONFIG GET`
//! and `SET` (here), the example file and the help text (`example`). No setting is applied here: code that needs one
//! reads the [`Config`], and the server opens sockets and files. Besides loading files and checking directories, this
//! module does no IO.
//!
//! Invariant: a `Config` is always valid as a whole; a failed change leaves the old one unchanged.

mod certificate;
mod directives;
mod environment;
#[cfg(any(test, feature = "internals"))]
mod example;
mod field;
mod files;
mod help;
mod ignored;
mod kind;
mod lists;
mod live;
mod load;
mod rewrite;
mod section;
mod settings;
mod suggest;
mod table;
mod warnings;
mod words;

use std::fmt;
use std::path::PathBuf;

pub use crate::store::limits::ValueLimits;
pub(crate) use certificate::TestCertificate;
pub(crate) use environment::{Environment, read_environment};
#[cfg(feature = "internals")]
pub use example::example_file;
pub(crate) use field::{
    Allowance, ChannelDefault, ClientMemory, EndpointType, EngineKind, EtcdReads, LogLevel, OnDeadlock, OomScore,
    OutputLimit, ShutdownOptions, Supervisor, TlsAuthClients, Unsupported,
};
pub(crate) use field::{AppendFsync, DisklessLoad, HostPort, SavePoint};
pub(crate) use help::{setting_help, settings_help};
pub(crate) use kind::Kind;
pub(crate) use live::Settings;
#[cfg(feature = "internals")]
pub(crate) use load::load;
pub use load::options_text;
pub(crate) use load::{SettingsError, apply_lines, load_with, set_by_name};
pub use rewrite::rewrite_file;
pub(crate) use settings::SettingEffect;
pub use settings::{ChangeTime, Config, Setting};
pub(crate) use warnings::{refusal, start_warnings};
pub(crate) use words::SettingOrigin;

use crate::acl::{RuleSettings, UserFile, UserSettings};
use crate::glob::Pattern;
use crate::profile::{Identity, Version};
use crate::store::{PackedLimit, StreamLimit};
use crate::text::Dialect;

const VALKEY_BAD_PRIMARY_PORT: &str = "Invalid primary port";

/// The maximum number of members of a set of integers, whatever the setting.
const INTSET_ENTRIES_MAX: usize = 1 << 30;

/// Minimum of the limit of client memory, in bytes: a smaller one would make the server inaccessible.
const CLIENT_MEMORY_LEAST: u64 = 128 * 1024;

/// The client that changes settings at run time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Requester {
    /// True if the client is on this machine.
    pub is_local: bool,
    /// True if the client is in a private instance, where it cannot change settings of the process.
    pub is_private: bool,
}

/// Error of `CONFIG SET`, which has changed nothing; `Display` gives the text after `ERR `.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// No setting has this name.
    Unknown(String),
    /// The setting, named as in the request, rejects the change for this reason.
    Refused {
        /// The name of the setting.
        name: String,
        /// The reason.
        reason: String,
    },
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::Unknown(name) => write!(f, "Unknown option or number of arguments for CONFIG SET - '{name}'"),
            SetError::Refused { name, reason } => {
                write!(f, "CONFIG SET failed (possibly related to argument '{name}') - {reason}")
            }
        }
    }
}

impl std::error::Error for SetError {}

impl Config {
    /// Returns the limit of the memory of all clients in bytes; `None` for no limit.
    pub fn client_memory_max(&self) -> Option<u64> {
        let limit = match self.maxmemory_clients {
            ClientMemory::Bytes(0) => return None,
            ClientMemory::Bytes(bytes) => bytes,
            ClientMemory::Percent(_) if self.maxmemory == 0 => return None,
            ClientMemory::Percent(percent) => (u128::from(self.maxmemory) * u128::from(percent) / 100) as u64,
        };
        Some(limit.max(CLIENT_MEMORY_LEAST))
    }

    /// Returns names and values of all settings that match any of the patterns, each once (`CONFIG GET`).
    ///
    /// A pattern without wildcards is a name, and is returned in the case of the request, as in Redis. A setting with
    /// two names is returned under each that matches.
    pub fn get(&self, patterns: &[&[u8]]) -> Vec<(String, Vec<u8>)> {
        let mut found: Vec<(String, &Setting)> = Vec::new();
        let mut add = |name: &str, setting| {
            if found.iter().all(|(other, _)| !other.eq_ignore_ascii_case(name)) {
                found.push((name.to_owned(), setting));
            }
        };
        for pattern in patterns {
            if !pattern.iter().any(|byte| b"[*?".contains(byte)) {
                if let Some((_, setting)) = Setting::find(pattern).filter(|(_, setting)| self.shows(setting)) {
                    add(&String::from_utf8_lossy(pattern), setting);
                }
                continue;
            }
            let pattern = Pattern::ignoring_case(pattern);
            Setting::names()
                .filter(|(name, setting)| !setting.hidden && self.shows(setting) && pattern.matches(name.as_bytes()))
                .for_each(|(name, setting)| add(name, setting));
        }
        found.into_iter().map(|(name, setting)| (name, setting.get(self))).collect()
    }

    /// Returns a copy with all the settings changed (`CONFIG SET`) for this client.
    ///
    /// # Errors
    ///
    /// The first name that is unknown, repeated or cannot change at run time; otherwise the first value that its
    /// setting rejects.
    pub fn set(&self, pairs: &[(&[u8], &[u8])], by: Requester) -> Result<Config, SetError> {
        let may_set_protected = self.enable_protected_configs.allows(by.is_local);
        let mut changes: Vec<(&str, &Setting, &[u8])> = Vec::with_capacity(pairs.len());
        for (name, value) in pairs {
            let (known_as, setting) = settable(name, &changes, may_set_protected, by.is_private)?;
            if !self.shows(setting) {
                return Err(SetError::Unknown(known_as.to_owned()));
            }
            changes.push((known_as, setting, value));
        }
        let mut config = self.clone();
        for (name, setting, value) in changes {
            config
                .change(setting, &value_words(setting, value), SettingOrigin::Runtime)
                .and_then(|()| if by.is_private { config.refuse_files() } else { config.refuse_beside_engine() })
                .and_then(|()| config.refuse_beside_test_tls())
                .map_err(|reason| SetError::Refused { name: name.to_owned(), reason })?;
            config.note_named(setting.name);
            if by.is_private {
                config.own.insert(setting.name);
            }
        }
        Ok(config)
    }

    /// Returns the settings of a private instance: those of the process, and from this `Config` those that the instance
    /// has changed for itself.
    pub fn on_top_of(&self, process: &Config) -> Config {
        let mut config = process.clone();
        config.own = self.own.clone();
        for setting in Setting::all().filter(|setting| self.own.contains(setting.name)) {
            setting.store(&mut config, setting.get(self));
        }
        config.directives.renames.answer_as(config.profile);
        config
    }

    /// Returns whether clients see a setting: a profile may hide it.
    fn shows(&self, setting: &Setting) -> bool {
        self.profile.is_none_or(|profile| profile.has_setting(setting.name, setting.since))
    }

    /// Returns whether the server answers as a version that has what appeared in these versions of Redis and of Valkey: without
    /// a profile it has everything.
    pub(crate) fn answers_since(&self, redis: Version, valkey: Option<Version>) -> bool {
        self.profile.is_none_or(|profile| profile.has_since(redis, valkey))
    }

    /// Returns the number of clients that are served at once.
    pub(crate) fn clients_max(&self) -> usize {
        let of_profile = self.profile.and_then(|profile| profile.limits.clients);
        of_profile.map_or(self.maxclients, |clients| clients.min(self.maxclients)) as usize
    }

    /// Returns the names and versions that the server reports.
    pub(crate) fn identity(&self) -> &'static Identity {
        match (self.profile, self.dialect()) {
            (Some(profile), _) => &profile.identity,
            (None, Dialect::Redis) => &Identity::REDIS,
            (None, Dialect::Valkey) => &Identity::VALKEY,
        }
    }

    /// Returns the sizes up to which collections are stored packed. Inlined, so that only the fields that a handler
    /// reads are loaded.
    #[inline]
    pub fn limits(&self) -> ValueLimits {
        ValueLimits {
            hash: PackedLimit { entries: self.hash_max_listpack_entries, len: self.hash_max_listpack_value },
            list: self.list_max_listpack_size,
            set: PackedLimit { entries: self.set_max_listpack_entries, len: self.set_max_listpack_value },
            intset_entries: self.set_max_intset_entries.min(INTSET_ENTRIES_MAX),
            zset: PackedLimit { entries: self.zset_max_listpack_entries, len: self.zset_max_listpack_value },
            stream: StreamLimit { bytes: self.stream_node_max_bytes, entries: self.stream_node_max_entries },
        }
    }

    /// Returns the files with the certificate that a replica shows its primary, and with its key, if it has one.
    pub fn link_identity(&self) -> Option<(PathBuf, PathBuf)> {
        let own = self.tls_client_cert_file.clone().zip(self.tls_client_key_file.clone());
        own.or_else(|| self.tls_cert_file.clone().zip(self.tls_key_file.clone()))
    }

    /// Returns true if a replica loads the data of its primary from the connection, and not from a file that is written
    /// first.
    pub fn loads_diskless(&self, is_empty: bool) -> bool {
        self.loads_beside() || is_empty && self.repl_diskless_load == DisklessLoad::OnEmpty
    }

    /// Returns true if a replica loads the data of its primary beside its own.
    pub fn loads_beside(&self) -> bool {
        self.repl_diskless_load == DisklessLoad::Swap
    }

    /// Returns true if writes are rejected while there are too few replicas.
    pub fn wants_replicas(&self) -> bool {
        self.min_replicas_to_write > 0 && self.min_replicas_max_lag_s > 0
    }

    /// Returns true if new users may use every channel before any rule is applied.
    pub fn all_channels(&self) -> bool {
        self.acl_pubsub_default == ChannelDefault::All
    }

    /// Returns the settings by which rules about users are read.
    pub(crate) fn rule_settings(&self) -> RuleSettings {
        RuleSettings { all_channels: self.all_channels(), profile: self.profile }
    }

    /// Returns the ACL file (`aclfile`), if there is one.
    pub fn user_file(&self) -> Option<UserFile> {
        let name = self.aclfile.clone()?;
        Some(UserFile { path: self.dir.join(&name), name: name.into_os_string().into_encoded_bytes() })
    }

    /// Returns the settings about users.
    pub fn users(&self) -> UserSettings<'_> {
        UserSettings {
            requirepass: self.requirepass.as_deref(),
            declared: &self.directives.users,
            file: self.user_file(),
            rules: self.rule_settings(),
        }
    }

    /// Returns the dialect of names and error messages.
    pub fn dialect(&self) -> Dialect {
        let chosen = if self.extended_redis_compatibility { Dialect::Redis } else { Dialect::Valkey };
        self.profile.map_or(chosen, |profile| profile.dialect)
    }

    /// Sets one setting from its arguments.
    fn change(&mut self, setting: &Setting, words: &[Vec<u8>], origin: SettingOrigin) -> Result<(), String> {
        let kind = if origin == SettingOrigin::Runtime { self.narrowed(setting) } else { setting.kind };
        let canonical = kind.canonical(words, &setting.get(self), origin).map_err(|reason| {
            // The only reason with a different text in Valkey.
            if reason == lists::BAD_PRIMARY_PORT {
                self.dialect().choose(reason, VALKEY_BAD_PRIMARY_PORT.into())
            } else {
                reason
            }
        })?;
        setting.store(self, canonical);
        self.directives.renames.answer_as(self.profile);
        Ok(())
    }
}

impl Config {
    /// Returns the kind of a setting with the bounds that it has beside the value of another one.
    fn narrowed(&self, setting: &Setting) -> Kind {
        match setting.kind {
            Kind::OfModule(name @ "cf-initial-size", _, max) => {
                Kind::OfModule(name, i64::from(self.cf_bucket_size) * 2, max)
            }
            Kind::OfModule(name @ "cf-bucket-size", min, max) => {
                Kind::OfModule(name, min, max.min(self.cf_initial_size.cast_signed() / 2))
            }
            kind => kind,
        }
    }
}

/// Finds the setting of one name of `CONFIG SET` and checks that it may change. As in Redis, the two names of a setting
/// count as two.
fn settable(
    name: &[u8],
    earlier: &[(&'static str, &'static Setting, &[u8])],
    may_set_protected: bool,
    is_private: bool,
) -> Result<(&'static str, &'static Setting), SetError> {
    let shown = String::from_utf8_lossy(name).into_owned();
    let Some((known_as, setting)) = Setting::find(name) else { return Err(SetError::Unknown(shown)) };
    let reason = match setting.change {
        ChangeTime::Start => "can't set immutable config",
        ChangeTime::Protected if !may_set_protected => "can't set protected config",
        _ if is_private && !setting.own => "a private instance cannot change a setting of the whole process",
        _ if earlier.iter().any(|(other, ..)| *other == known_as) => "duplicate parameter",
        _ => return Ok((known_as, setting)),
    };
    Err(SetError::Refused { name: shown, reason: reason.to_owned() })
}

/// Splits the value of a list in `CONFIG SET` at every single blank, as Redis does; any other value is one argument.
fn value_words(setting: &Setting, value: &[u8]) -> Vec<Vec<u8>> {
    if !setting.kind.takes_many_words() {
        return vec![value.to_vec()];
    }
    if value.is_empty() { Vec::new() } else { value.split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect() }
}

/// Returns the names of changed settings without effect, so that the server can warn about them.
pub(crate) fn ignored_changes(config: &Config) -> Vec<&'static str> {
    Setting::all()
        .filter(|setting| setting.effect == SettingEffect::Nothing && setting.get(config) != setting.default.as_bytes())
        .map(|setting| setting.name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(config: &Config, pairs: &[(&str, &str)]) -> Result<Config, String> {
        let pairs: Vec<(&[u8], &[u8])> =
            pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        config.set(&pairs, Requester::default()).map_err(|error| error.to_string())
    }

    fn get(config: &Config, patterns: &[&str]) -> Vec<String> {
        let patterns: Vec<&[u8]> = patterns.iter().map(|pattern| pattern.as_bytes()).collect();
        let lossy = |value: Vec<u8>| String::from_utf8_lossy(&value).into_owned();
        config.get(&patterns).into_iter().map(|(name, value)| format!("{name}={}", lossy(value))).collect()
    }

    #[test]
    fn get_matches_names_and_patterns_each_setting_once() {
        let cases: &[(&[&str], &[&str])] = &[
            (&["port"], &["port=6379"]),
            (&["PORT", "port", "Port"], &["PORT=6379"]),
            (&["io-thr?ads", "IO-THREADS"], &["io-threads=1"]),
            (&["slaveof", "replicaof"], &["slaveof=", "replicaof="]),
            (&["*-save-delay", "rdb-key-save-delay"], &["rdb-key-save-delay=0"]),
            (&["maxmemory-[ps]*", "timeout"], &["maxmemory-policy=noeviction", "maxmemory-samples=5", "timeout=0"]),
            (&["TIMEO*"], &["timeout=0"]),
            (&["nosuch", "x*"], &[]),
            (&["bind", "save"], &["bind=* -::*", "save=3600 1 300 100 60 10000"]),
        ];
        for (patterns, expected) in cases {
            assert_eq!(get(&Config::default(), patterns), *expected, "{patterns:?}");
        }
        let shown = Setting::names().filter(|(_, setting)| !setting.hidden).count();
        assert_eq!(get(&Config::default(), &["*"]).len(), shown);
    }

    #[test]
    fn set_changes_everything_or_nothing() {
        let config = Config::default();
        let changed = set(
            &config,
            &[("TIMEOUT", "7"), ("save", ""), ("activerehashing", "no"), ("maxmemory", "1kb"), ("hz", "1000")],
        )
        .expect("valid");
        assert_eq!(
            get(&changed, &["timeout", "save", "maxmemory", "hz"]),
            ["timeout=7", "save=", "maxmemory=1024", "hz=500"]
        );
        assert_eq!(changed.timeout_s, 7);
        assert_eq!(ignored_changes(&changed), ["activerehashing"]);
        assert!(ignored_changes(&config).is_empty());
        assert!(set(&config, &[("timeout", "7"), ("loglevel", "xx")]).is_err());
        assert_eq!(config.timeout_s, 0);
    }

    #[test]
    fn set_refuses_with_the_texts_of_redis() {
        let failed =
            |name: &str, reason: &str| format!("CONFIG SET failed (possibly related to argument '{name}') - {reason}");
        let unknown = "Unknown option or number of arguments for CONFIG SET - 'foo'".to_owned();
        let cases: &[(&[(&str, &str)], String)] = &[
            (&[("foo", "1"), ("timeout", "x")], unknown.clone()),
            (&[("timeout", "x"), ("foo", "1")], unknown),
            (&[("timeout", "1"), ("TIMEOUT", "2"), ("foo", "1")], failed("TIMEOUT", "duplicate parameter")),
            (&[("Databases", "1"), ("foo", "1")], failed("Databases", "can't set immutable config")),
            (&[("dir", "/")], failed("dir", "can't set protected config")),
            (&[("slave-priority", "x")], failed("slave-priority", "argument couldn't be parsed into an integer")),
            (&[("TIMEOUT", "x")], failed("timeout", "argument couldn't be parsed into an integer")),
            (&[("maxclients", "0")], failed("maxclients", "argument must be between 1 and 4294967295 inclusive")),
            (&[("save", "10 10 5")], failed("save", "Invalid save parameters")),
            (&[("appendfilename", "x")], failed("appendfilename", "can't set immutable config")),
            (&[("dbfilename", "x")], failed("dbfilename", "can't set protected config")),
        ];
        for (pairs, expected) in cases {
            assert_eq!(set(&Config::default(), pairs).expect_err("refused"), *expected, "{pairs:?}");
        }
    }
}
