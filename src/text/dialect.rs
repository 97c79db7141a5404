//! Whose names and error messages the server answers with: those of Redis, or of Valkey where it has its own.
//!
//! keylatch answers as Redis to the byte. Valkey's own wordings contradict that, so they are there only for those who
//! ask for them by the setting that Valkey itself has for it, `extended-redis-compatibility no`. What Valkey adds without
//! a contradiction (commands, the table `server` in scripts) is always there.

/// The version of Redis that clients may rely on.
pub const REDIS_VERSION: &str = "8.4.0";
/// The version of Valkey whose names and error messages are used where they are asked for.
pub(crate) const VALKEY_VERSION: &str = "8.1.0";

/// Says whose names and error messages are used where Redis and Valkey differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Those of Redis.
    #[default]
    Redis,
    /// Those of Valkey.
    Valkey,
}

impl Dialect {
    /// Returns what Redis says, or what Valkey says.
    pub fn choose<T>(self, redis: T, valkey: T) -> T {
        match self {
            Dialect::Redis => redis,
            Dialect::Valkey => valkey,
        }
    }

    /// Returns the name of the server in running text.
    pub fn title(self) -> &'static str {
        self.choose("Redis", "Valkey")
    }

    /// Returns the name of the server as a word for machines.
    pub fn name(self) -> &'static str {
        self.choose("redis", "valkey")
    }

    /// Returns the version that goes with the name.
    pub fn version(self) -> &'static str {
        self.choose(REDIS_VERSION, VALKEY_VERSION)
    }
}
