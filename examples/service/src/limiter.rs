//! A rate limiter with fixed windows.

use std::time::Duration;

use redis::{RedisResult, pipe};

use crate::Redis;

/// Rate limiter: each user may make a number of requests per window, which begins with the first of them.
pub struct RateLimiter {
    redis: Redis,
    limit: u64,
    window: Duration,
}

impl RateLimiter {
    /// Creates a limiter.
    pub fn new(redis: Redis, limit: u64, window: Duration) -> Self {
        RateLimiter { redis, limit, window }
    }

    /// Counts a request, and returns whether it is allowed. A request whose reply was lost may count twice: the count
    /// is never too low.
    pub fn allows(&mut self, user: &str) -> RedisResult<bool> {
        let (key, ms) = (format!("hits:{user}"), self.window.as_millis() as u64);
        let (hits,): (u64,) = self.redis.repeatable(|redis| {
            let mut transaction = pipe();
            transaction.atomic().cmd("SET").arg(&key).arg(0).arg("PX").arg(ms).arg("NX").ignore();
            transaction.cmd("INCR").arg(&key).query(redis)
        })?;
        Ok(hits <= self.limit)
    }
}
