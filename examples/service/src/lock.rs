//! A lock with a lease.

use std::time::Duration;

use redis::{RedisResult, cmd};

use crate::Redis;

/// Script that deletes the lock only if the caller holds it.
const RELEASE: &str = "
    if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
    return 0";

/// Lock that excludes other holders for the time of its lease.
pub struct Lock {
    redis: Redis,
    key: String,
    token: String,
    lease: Duration,
}

impl Lock {
    /// Creates a lock by its name. The token must be unique to the caller.
    pub fn new(redis: Redis, name: &str, token: &str, lease: Duration) -> Self {
        Lock { redis, key: format!("lock:{name}"), token: token.to_owned(), lease }
    }

    /// Acquires the lock; returns whether the caller holds it now.
    ///
    /// If the reply is lost, the next attempt finds a lock that may be the caller's own: its token tells.
    pub fn acquire(&mut self) -> RedisResult<bool> {
        let (key, token, ms) = (&self.key, &self.token, self.lease.as_millis() as u64);
        self.redis.repeatable(|redis| {
            let set = cmd("SET").arg(key).arg(token).arg("NX").arg("PX").arg(ms).query::<Option<String>>(redis)?;
            if set.is_some() {
                return Ok(true);
            }
            let holder: Option<String> = cmd("GET").arg(key).query(redis)?;
            Ok(holder.as_ref() == Some(token))
        })
    }

    /// Releases the lock, if the caller still holds it.
    pub fn release(&mut self) -> RedisResult<()> {
        let (key, token) = (&self.key, &self.token);
        self.redis.repeatable(|redis| cmd("EVAL").arg(RELEASE).arg(1).arg(key).arg(token).exec(redis))
    }
}
