//! The threads that execute commands: worker runtimes, the order in which they poll connections, and the panics they
//! catch.

pub(crate) mod executor;
pub(crate) mod panics;
pub(crate) mod park;
pub mod worker;
