//! Threads of the server: worker runtimes that execute commands, the order in which they poll connections, caught
//! panics, and the thread that writes the log.

pub(crate) mod batched_notify;
pub(crate) mod block_on;
pub(crate) mod executor;
pub(crate) mod log_queue;
pub(crate) mod panics;
pub mod worker;
