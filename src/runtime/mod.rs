//! The threads that execute commands: worker runtimes, the order in which they poll connections, panics that are caught.

pub mod executor;
pub mod panics;
pub mod worker;
