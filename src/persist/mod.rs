//! The log of effects: what calls have changed, as the commands that repeat it.
//!
//! It has the form of Redis' append-only file and of its replication stream: requests in RESP, `SELECT` where the database
//! changes, `MULTI` and `EXEC` around the effects of one call that are several. A call that depends on the time, on chance or
//! on a condition is not repeated as it came; its row says what is written in its place, see
//! [`Effect`](crate::spec::Effect).
//!
//! Lock order: the gate of the store, shards, the journal. A record is appended while the shards are locked that it is about,
//! so the order of the log is one in which the calls could have been executed one after the other.

mod effects;
mod journal;

pub(crate) use effects::Effects;
pub(crate) use journal::Journal;
