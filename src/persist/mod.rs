//! The log of effects: what calls have changed, as the commands that repeat it.
//!
//! It has the form of Redis' append-only file and of its replication stream: requests in RESP, `SELECT` where the
//! database changes, `MULTI` and `EXEC` around several effects of one call. A call that depends on the time, on chance
//! or on a condition is not logged verbatim; its row declares what is logged instead, see
//! [`Effect`](crate::spec::Effect).
//!
//! Lock order: the gate of the store, shards, the journal. A record is appended while its shards are locked, so the
//! order of the log is a valid sequential order of execution.

mod effects;
mod journal;
pub(crate) mod payload;
mod window;

pub(crate) use effects::Effects;
pub(crate) use journal::Journal;
pub(crate) use window::{Past, Touched, Write};
