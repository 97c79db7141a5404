//! Queue of jobs. A job that was taken and not finished in time can be taken again.

use std::time::Duration;

use redis::{RedisResult, cmd};

use crate::Redis;

/// Script that adds a job once, whatever the number of attempts: its id is remembered for a day.
const PUSH: &str = "
    if redis.call('SET', 'queue:seen:' .. ARGV[1], 1, 'NX', 'EX', 86400) then
        redis.call('HSET', 'queue:jobs', ARGV[1], ARGV[2])
        redis.call('ZADD', 'queue:due', 0, ARGV[1])
    end";

/// Script that takes the job that is due first. The job is due again when the time to finish it is over.
const TAKE: &str = "
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local id = redis.call('ZRANGEBYSCORE', 'queue:due', '-inf', now, 'LIMIT', 0, 1)[1]
    if not id then return nil end
    redis.call('ZADD', 'queue:due', now + ARGV[1], id)
    return {id, redis.call('HGET', 'queue:jobs', id)}";

/// Script that removes a finished job.
const FINISH: &str = "
    redis.call('HDEL', 'queue:jobs', ARGV[1])
    redis.call('ZREM', 'queue:due', ARGV[1])";

#[derive(Debug, PartialEq, Eq)]
pub struct Job {
    /// Id of the job.
    pub id: String,
    /// Description of the work.
    pub payload: String,
}

/// Queue that hands out jobs.
pub struct Queue {
    redis: Redis,
    visibility_timeout: Duration,
}

impl Queue {
    /// Creates a queue whose jobs have to be finished within a time.
    pub fn new(redis: Redis, visibility_timeout: Duration) -> Self {
        Queue { redis, visibility_timeout }
    }

    /// Adds a job, unless one with this id was added before.
    pub fn push(&mut self, id: &str, payload: &str) -> RedisResult<()> {
        self.redis.repeatable(|redis| cmd("EVAL").arg(PUSH).arg(0).arg(id).arg(payload).exec(redis))
    }

    /// Takes a job, if one is due.
    pub fn take(&mut self) -> RedisResult<Option<Job>> {
        let ms = self.visibility_timeout.as_millis() as u64;
        let job: Option<(String, String)> =
            self.redis.repeatable(|redis| cmd("EVAL").arg(TAKE).arg(0).arg(ms).query(redis))?;
        Ok(job.map(|(id, payload)| Job { id, payload }))
    }

    /// Removes a finished job.
    pub fn finish(&mut self, job: &Job) -> RedisResult<()> {
        self.redis.repeatable(|redis| cmd("EVAL").arg(FINISH).arg(0).arg(&job.id).exec(redis))
    }
}
