//! The threads that execute commands: worker runtimes, the order in which they poll connections, panics that are caught.

pub(crate) mod executor;
pub(crate) mod panics;
pub mod worker;
