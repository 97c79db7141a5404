//! The log of effects: the changes of calls, as the commands that repeat them.
//!
//! The log has the form of Redis' append-only file and of its replication stream: requests in RESP, `SELECT` where the
//! database changes, `MULTI` and `EXEC` around several effects of one call. A call that depends on the time, on chance
//! or on a condition is not logged verbatim; its row declares what is logged instead, see
//! [`Effect`](crate::spec::Effect).
//!
//! Lock order: the gate of the store, shards, the log. A record is appended while its shards are locked, so the
//! order of the log is a valid sequential order of execution.

pub(crate) mod aof;
pub(crate) mod disk;
mod effects;
mod log;
pub(crate) mod rdb_file;
pub(crate) mod snapshot;
mod state;

pub(crate) use effects::Effects;
#[cfg(feature = "internals")]
pub use log::LostPlace;
pub use log::ReaderPurpose;
pub use log::reader::LogReader;
pub(crate) use log::{Flush, Log};
pub(crate) use state::{
    Busy, FileFigures, FileJob, FileTask, Job, JobOutcome, Loading, LogFigures, Order, Persistence, Reload,
};
