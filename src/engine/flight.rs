//! A transaction in flight.

use crate::engine::group::CallGroup;

/// The transaction in flight on a lane.
pub(super) struct Flight {
    pub(super) number: u64,
    /// The calls of the transaction; `None` once their clients were told that its outcome is unknown.
    pub(super) group: Option<CallGroup>,
    pub(super) state: State,
    /// The exceeded limit of the cluster, if it has answered so: no part of the transaction is in flight any more.
    pub(super) exhausted: Option<String>,
    /// Time at which the transaction was sent, in monotonic microseconds.
    pub(super) sent_us: u64,
    /// Time limit for an unknown outcome, by [`Patience`](crate::engine::core::Patience).
    pub(super) until_ms: u64,
}

/// State of a transaction in flight.
pub(super) enum State {
    Sent,
    /// Another transaction was sent, because the outcome is unknown.
    Settling,
    /// Another transaction is due at this time, in monotonic milliseconds.
    Unsettled(u64),
}
