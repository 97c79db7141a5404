//! Cache of values whose computation is slow.

use std::time::Duration;

use redis::{RedisResult, cmd};

use crate::Redis;

/// Cache whose values expire after a time.
pub struct Cache {
    redis: Redis,
    ttl: Duration,
}

impl Cache {
    /// Creates a cache whose values live this long.
    pub fn new(redis: Redis, ttl: Duration) -> Self {
        Cache { redis, ttl }
    }

    /// Returns the value of a name, and computes it if it is not cached. An unavailable server is not an error.
    pub fn get_or(&mut self, name: &str, compute: impl FnOnce() -> String) -> String {
        let key = format!("cache:{name}");
        let cached: RedisResult<Option<String>> = self.redis.repeatable(|redis| cmd("GET").arg(&key).query(redis));
        if let Ok(Some(value)) = cached {
            return value;
        }
        let (value, ms) = (compute(), self.ttl.as_millis() as u64);
        let _ = self.redis.repeatable(|redis| cmd("SET").arg(&key).arg(&value).arg("PX").arg(ms).exec(redis));
        value
    }
}
