//! Settings: what can be set, its values, and the ways to set them.
//!
//! Everything derives from the one table in `settings`: file directives and command-line options (`load`), `CONFIG
//! GET` and `SET` (here), the example file and the help text (`example`). No setting is applied here: whoever needs
//! one reads the [`Config`], and the server opens sockets and files. Beyond the files it is told to read, and the
//! directories it checks, this module does no IO.
//!
//! Invariant: a `Config` is always valid as a whole; a failed change leaves the old one as it was.

mod directives;
mod environment;
#[cfg(any(test, feature = "internals"))]
mod example;
mod field;
mod help;
mod ignored;
mod kind;
mod lists;
mod live;
mod load;
mod rewrite;
mod settings;
mod suggest;
mod warnings;

use std::fmt;

pub(crate) use environment::{Environment, read_environment};
#[cfg(feature = "internals")]
pub use example::example_file;
pub(crate) use field::{
    Allowance, ChannelDefault, ClientMemory, LogLevel, OomScore, OutputLimit, ShutdownOptions, Supervisor,
    TlsAuthClients,
};
pub(crate) use help::{setting_help, settings_help};
pub(crate) use kind::{Kind, Origin};
pub(crate) use live::Settings;
pub use load::options_text;
pub(crate) use load::{LoadError, load, load_with};
pub use rewrite::rewrite_file;
pub(crate) use settings::Effect;
pub use settings::{Change, Config, Setting};
pub(crate) use warnings::start_warnings;

use crate::acl::{Setup, UserFile};
use crate::glob;
use crate::text::Dialect;

const VALKEY_BAD_PRIMARY_PORT: &str = "Invalid primary port";

/// A limit on the memory of clients below this, in bytes, would leave no way to talk to the server.
const CLIENT_MEMORY_LEAST: u64 = 128 * 1024;

/// Says why `CONFIG SET` changed nothing; `Display` gives the text behind `ERR `.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// No setting has this name.
    Unknown(String),
    /// The setting, named as asked for, refuses the change for this reason.
    Refused {
        /// The name of the setting.
        name: String,
        /// Why it refuses.
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
    /// Returns how many bytes all clients together may take; `None` for no limit.
    pub fn client_memory_max(&self) -> Option<u64> {
        let most = match self.maxmemory_clients {
            ClientMemory::Bytes(0) => return None,
            ClientMemory::Bytes(bytes) => bytes,
            ClientMemory::Percent(_) if self.maxmemory == 0 => return None,
            ClientMemory::Percent(percent) => (u128::from(self.maxmemory) * u128::from(percent) / 100) as u64,
        };
        Some(most.max(CLIENT_MEMORY_LEAST))
    }

    /// Returns names and values of all settings that match any of the patterns, each once (`CONFIG GET`).
    ///
    /// A pattern without wildcards is a name, and comes back spelt as it was asked for: Redis does so. A setting with
    /// two names comes under each that matches.
    pub fn get(&self, patterns: &[&[u8]]) -> Vec<(String, Vec<u8>)> {
        let mut found: Vec<(String, &Setting)> = Vec::new();
        let mut add = |name: &str, setting| {
            if found.iter().all(|(other, _)| !other.eq_ignore_ascii_case(name)) {
                found.push((name.to_owned(), setting));
            }
        };
        for pattern in patterns {
            if !pattern.iter().any(|byte| b"[*?".contains(byte)) {
                if let Some((_, setting)) = Setting::find(pattern) {
                    add(&String::from_utf8_lossy(pattern), setting);
                }
                continue;
            }
            Setting::names()
                .filter(|(name, setting)| !setting.hidden && glob::matches(pattern, name.as_bytes(), true))
                .for_each(|(name, setting)| add(name, setting));
        }
        found.into_iter().map(|(name, setting)| (name, setting.get(self))).collect()
    }

    /// Returns a copy with all the settings changed (`CONFIG SET`), for a client on this machine or another.
    ///
    /// # Errors
    ///
    /// The first name that is unknown, given twice or may not change at run time; then the first value that its
    /// setting refuses.
    pub fn set(&self, pairs: &[(&[u8], &[u8])], is_local: bool) -> Result<Config, SetError> {
        let may_set_protected = self.enable_protected_configs.allows(is_local);
        let mut changes: Vec<(&str, &Setting, &[u8])> = Vec::with_capacity(pairs.len());
        for (name, value) in pairs {
            let (known_as, setting) = settable(name, &changes, may_set_protected)?;
            changes.push((known_as, setting, value));
        }
        let mut config = self.clone();
        for (name, setting, value) in changes {
            config
                .change(setting, &value_words(setting, value), Origin::Runtime)
                .map_err(|reason| SetError::Refused { name: name.to_owned(), reason })?;
        }
        Ok(config)
    }

    /// Returns whether writes are refused because there are fewer replicas than the settings ask for: there are none.
    pub fn lacks_replicas(&self) -> bool {
        self.min_replicas_to_write > 0 && self.min_replicas_max_lag_s > 0
    }

    /// Returns whether new users may use every channel before a rule says so.
    pub fn all_channels(&self) -> bool {
        self.acl_pubsub_default == ChannelDefault::All
    }

    /// Returns where the file of users is, if users have one (`aclfile`).
    pub fn user_file(&self) -> Option<UserFile> {
        let name = self.aclfile.clone()?;
        Some(UserFile { path: self.dir.join(&name), name: name.into_os_string().into_encoded_bytes() })
    }

    /// Returns what the settings say about users.
    pub fn users(&self) -> Setup<'_> {
        Setup {
            requirepass: self.requirepass.as_deref(),
            declared: &self.directives.users,
            file: self.user_file(),
            all_channels: self.all_channels(),
        }
    }

    /// Returns whose names and error messages are used.
    pub fn dialect(&self) -> Dialect {
        if self.extended_redis_compatibility { Dialect::Redis } else { Dialect::Valkey }
    }

    /// Gives one setting a new value, in its words.
    fn change(&mut self, setting: &Setting, words: &[Vec<u8>], origin: Origin) -> Result<(), String> {
        let canonical = setting.kind.canonical(words, &setting.get(self), origin).map_err(|reason| {
            // The only reason that Valkey words in its own way.
            if reason == lists::BAD_PRIMARY_PORT {
                self.dialect().choose(reason, VALKEY_BAD_PRIMARY_PORT.into())
            } else {
                reason
            }
        })?;
        setting.store(self, canonical);
        Ok(())
    }
}

/// Finds the setting for one name of `CONFIG SET` and checks that it may change once more. As in Redis, the two names
/// of a setting count as two.
fn settable(
    name: &[u8],
    earlier: &[(&'static str, &'static Setting, &[u8])],
    may_set_protected: bool,
) -> Result<(&'static str, &'static Setting), SetError> {
    let shown = String::from_utf8_lossy(name).into_owned();
    let Some((known_as, setting)) = Setting::find(name) else { return Err(SetError::Unknown(shown)) };
    let reason = match setting.change {
        Change::Start => "can't set immutable config",
        Change::Protected if !may_set_protected => "can't set protected config",
        _ if earlier.iter().any(|(other, ..)| *other == known_as) => "duplicate parameter",
        _ => return Ok((known_as, setting)),
    };
    Err(SetError::Refused { name: shown, reason: reason.to_owned() })
}

/// Splits the value of a list in `CONFIG SET` at every single blank, as Redis does; any other value is one word.
fn value_words(setting: &Setting, value: &[u8]) -> Vec<Vec<u8>> {
    match setting.kind.takes_many_words() {
        true if value.is_empty() => Vec::new(),
        true => value.split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect(),
        false => vec![value.to_vec()],
    }
}

/// Returns the names of the settings that were changed but do nothing, so that the server can warn about each.
pub(crate) fn ignored_changes(config: &Config) -> Vec<&'static str> {
    Setting::all()
        .filter(|setting| setting.effect == Effect::Nothing && setting.get(config) != setting.default.as_bytes())
        .map(|setting| setting.name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(config: &Config, pairs: &[(&str, &str)]) -> Result<Config, String> {
        let pairs: Vec<(&[u8], &[u8])> =
            pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        config.set(&pairs, false).map_err(|error| error.to_string())
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
        let changed =
            set(&config, &[("TIMEOUT", "7"), ("save", "10 1"), ("maxmemory", "1kb"), ("hz", "1000")]).expect("valid");
        assert_eq!(
            get(&changed, &["timeout", "save", "maxmemory", "hz"]),
            ["timeout=7", "save=10 1", "maxmemory=1024", "hz=500"]
        );
        assert_eq!(changed.timeout_s, 7);
        assert_eq!(ignored_changes(&changed), ["save"]);
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
        ];
        for (pairs, expected) in cases {
            assert_eq!(set(&Config::default(), pairs).expect_err("refused"), *expected, "{pairs:?}");
        }
    }
}
