//! A transaction on the way.

use crate::engine::group::Group;

/// What is on the way on a lane.
pub(super) struct Flight {
    /// The number of the transaction.
    pub(super) number: u64,
    /// The calls that it is for; `None` once their clients were told that its outcome is not known.
    pub(super) group: Option<Group>,
    pub(super) state: State,
    /// The limit of the cluster that is exceeded, if it has answered so: nothing of the transaction is on the way any more.
    pub(super) exhausted: Option<String>,
    /// When it was sent, in monotonic microseconds.
    pub(super) sent_us: u64,
    /// Until when its outcome may stay unknown, by [`Patience`](crate::engine::core::Patience).
    pub(super) until_ms: u64,
}

/// How far it is.
pub(super) enum State {
    /// It was sent.
    Sent,
    /// Another one was sent, because its outcome is not known.
    Settling,
    /// Another one is sent at this time, in monotonic milliseconds.
    Unsettled(u64),
}
