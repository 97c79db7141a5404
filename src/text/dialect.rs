//! The dialect of names and error messages: those of Redis, or of Valkey where they differ.
//!
//! keylatch answers as Redis to the byte. Valkey's own wordings differ, so they are used only with the setting that
//! Valkey itself has for this, `extended-redis-compatibility no`. Additions of Valkey that conflict with nothing
//! (commands, the table `server` in scripts) are always available.

/// The version of Redis that clients may rely on.
pub const REDIS_VERSION: &str = "8.4.0";
/// The version of Valkey that is reported in its dialect.
pub(crate) const VALKEY_VERSION: &str = "8.1.0";

/// Selects names and error messages where Redis and Valkey differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// As in Redis.
    #[default]
    Redis,
    /// As in Valkey.
    Valkey,
}

impl Dialect {
    /// Returns the text of this dialect.
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

    /// Returns the name of the server in machine-readable replies.
    pub fn name(self) -> &'static str {
        self.choose("redis", "valkey")
    }

    /// Returns the version that goes with the name.
    pub fn version(self) -> &'static str {
        self.choose(REDIS_VERSION, VALKEY_VERSION)
    }
}
