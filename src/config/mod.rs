//! Settings: what can be set, its values, and the ways to set them.
//!
//! Everything derives from the one table in `settings`: file directives and command-line options (`load`), `CONFIG
//! GET` and `SET` (here), the example file and the help text (`example`). No setting is applied here: whoever needs
//! one reads the [`Config`], and the server opens sockets and files. Beyond the files it is told to read, and the
//! directories it checks, this module does no IO.
//!
//! Invariant: a `Config` is always valid as a whole; a failed change leaves the old one as it was.

mod environment;
mod example;
mod field;
mod kind;
mod load;
mod settings;
mod text;

use std::fmt;

pub use environment::environment_text;
pub use example::{example_file, settings_help};
pub use field::{LogLevel, OutputLimit, Supervisor, TlsAuthClients};
pub use kind::{Kind, Origin};
pub use load::{LoadError, load, options_text};
pub use settings::{Change, Config, Effect, Setting};
pub use text::{quote, split_words};

use crate::glob;

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
    /// Returns names and values of all settings that match any of the patterns, each once (`CONFIG GET`).
    ///
    /// A pattern without wildcards is a name, and comes back spelt as it was asked for: Redis does so.
    pub fn get(&self, patterns: &[&[u8]]) -> Vec<(String, Vec<u8>)> {
        let mut found: Vec<(String, &Setting)> = Vec::new();
        for pattern in patterns {
            let is_name = !pattern.iter().any(|byte| b"[*?".contains(byte));
            let hits = Setting::all().filter(|setting| {
                let name = setting.name.as_bytes();
                if is_name { name.eq_ignore_ascii_case(pattern) } else { glob::matches(pattern, name, true) }
            });
            for setting in hits {
                let name = if is_name { String::from_utf8_lossy(pattern).into() } else { setting.name.to_owned() };
                if found.iter().all(|(_, other)| other.name != setting.name) {
                    found.push((name, setting));
                }
            }
        }
        found.into_iter().map(|(name, setting)| (name, setting.get(self))).collect()
    }

    /// Returns a copy with all the settings changed (`CONFIG SET`).
    ///
    /// # Errors
    ///
    /// The first name that is unknown, given twice or may not change at run time; then the first value that its
    /// setting refuses.
    pub fn set(&self, pairs: &[(&[u8], &[u8])]) -> Result<Config, SetError> {
        let mut changes: Vec<(&Setting, &[u8])> = Vec::with_capacity(pairs.len());
        for (name, value) in pairs {
            changes.push((settable(name, &changes)?, value));
        }
        let mut config = self.clone();
        for (setting, value) in changes {
            config
                .change(setting, &value_words(setting, value), Origin::Runtime)
                .map_err(|reason| SetError::Refused { name: setting.name.to_owned(), reason })?;
        }
        Ok(config)
    }

    /// Gives one setting a new value, in its words.
    fn change(&mut self, setting: &Setting, words: &[Vec<u8>], origin: Origin) -> Result<(), String> {
        let canonical = setting.kind.canonical(words, &setting.get(self), origin)?;
        setting.store(self, canonical);
        Ok(())
    }
}

/// Finds the setting for one name of `CONFIG SET` and checks that it may change once more.
fn settable(name: &[u8], earlier: &[(&'static Setting, &[u8])]) -> Result<&'static Setting, SetError> {
    let shown = String::from_utf8_lossy(name).into_owned();
    let Some(setting) = Setting::find(name) else { return Err(SetError::Unknown(shown)) };
    let reason = match setting.change {
        Change::Start => "can't set immutable config",
        Change::Protected => "can't set protected config",
        Change::Runtime if earlier.iter().any(|(other, _)| other.name == setting.name) => "duplicate parameter",
        Change::Runtime => return Ok(setting),
    };
    Err(SetError::Refused { name: shown, reason: reason.to_owned() })
}

/// Splits the value of a list at every single blank, as Redis does; any other value is one word.
fn value_words(setting: &Setting, value: &[u8]) -> Vec<Vec<u8>> {
    if setting.kind.takes_many_words() {
        value.split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect()
    } else {
        vec![value.to_vec()]
    }
}

/// Returns the names of the settings that were changed but do nothing, so that the server can warn about each.
pub fn inert_changes(config: &Config) -> Vec<&'static str> {
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
        config.set(&pairs).map_err(|error| error.to_string())
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
            (&["max[m]*", "timeout"], &["maxmemory=0", "maxmemory-policy=noeviction", "timeout=0"]),
            (&["TIME*"], &["timeout=0"]),
            (&["nosuch", "x*"], &[]),
            (&["bind", "save"], &["bind=* -::*", "save="]),
        ];
        for (patterns, expected) in cases {
            assert_eq!(get(&Config::default(), patterns), *expected, "{patterns:?}");
        }
        assert_eq!(get(&Config::default(), &["*"]).len(), Setting::all().count());
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
        assert_eq!(inert_changes(&changed), ["hz", "save", "maxmemory"]);
        assert!(inert_changes(&config).is_empty());
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
            (&[("TIMEOUT", "x")], failed("timeout", "argument couldn't be parsed into an integer")),
            (&[("maxclients", "0")], failed("maxclients", "argument must be between 1 and 4294967295 inclusive")),
            (&[("save", "10 10 ")], failed("save", "Invalid save parameters")),
        ];
        for (pairs, expected) in cases {
            assert_eq!(set(&Config::default(), pairs).expect_err("refused"), *expected, "{pairs:?}");
        }
    }
}
