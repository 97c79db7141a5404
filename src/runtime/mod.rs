//! The threads that execute commands: worker runtimes, the order in which they poll connections, and the panics they
//! catch; and the one that writes the log.

pub(crate) mod executor;
pub(crate) mod log_queue;
pub(crate) mod panics;
pub(crate) mod park;
pub(crate) mod wakes;
pub mod worker;
