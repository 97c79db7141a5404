//! Threads of the server: worker runtimes that execute commands, the order in which they poll connections, caught
//! panics, and the thread that writes the log.

pub(crate) mod executor;
pub(crate) mod log_queue;
pub(crate) mod panics;
pub(crate) mod park;
pub(crate) mod wakes;
pub mod worker;
