//! The parts of a service that keep their state in Redis: a cache, a rate limiter, a queue of jobs and a lock.
//!
//! Nothing here depends on the server that it is tested with. Every operation can be repeated safely, so a broken
//! connection is followed by another attempt.

mod cache;
mod connection;
mod limiter;
mod lock;
mod queue;

pub use cache::Cache;
pub use connection::Redis;
pub use limiter::RateLimiter;
pub use lock::Lock;
pub use queue::{Job, Queue};
