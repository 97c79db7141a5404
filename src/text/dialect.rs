//! The dialect of names and error messages: Redis', or Valkey's where they differ.
//!
//! keylatch answers as Redis to the byte. Valkey's own wordings are used only with the setting that Valkey itself has
//! for this, `extended-redis-compatibility no`. Additions of Valkey that conflict with nothing (commands, the table
//! `server` in scripts) are always available.

/// The version of Redis that clients may rely on.
pub const REDIS_VERSION: &str = "8.4.0";
/// The version of Valkey that is reported in its dialect.
pub(crate) const VALKEY_VERSION: &str = "8.1.0";

/// Names and error messages of one of two servers, where Redis and Valkey differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Redis.
    #[default]
    Redis,
    /// Valkey.
    Valkey,
}

impl Dialect {
    /// Returns one of two values by the dialect.
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

    /// Returns the version of the server of this dialect.
    pub fn version(self) -> &'static str {
        self.choose(REDIS_VERSION, VALKEY_VERSION)
    }
}
