//! A call that waits for its turn, and whom its outcome is for.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::client::engine::{StagedCall, StagedOutcome};
use crate::client::registry::Wait;
use crate::engine::names::KeyName;
use crate::engine::queue::Keyed;
use crate::error::Result;

/// What is to be done.
pub(super) enum Work {
    /// A call is executed for a client, which is told the outcome.
    Call(Box<StagedCall>, oneshot::Sender<StagedOutcome>),
    /// The call of a blocked client is executed again.
    Repeat(Box<StagedCall>, Arc<Wait>),
    /// A key that is due is deleted.
    Expire,
}

/// Something that waits to be done.
pub(super) struct Pending {
    pub(super) work: Work,
    /// The keys that it may access, each once and in order.
    pub(super) keys: Arc<[KeyName]>,
    /// Until when it may wait, in monotonic milliseconds.
    pub(super) until_ms: u64,
}

impl Pending {
    /// Returns the wait of the client, if it is blocked.
    pub(super) fn wait(&self) -> Option<&Arc<Wait>> {
        match &self.work {
            Work::Repeat(_, wait) => Some(wait),
            Work::Call(..) | Work::Expire => None,
        }
    }
}

impl Keyed for Pending {
    fn keys(&self) -> &[KeyName] {
        &self.keys
    }
}

/// One that waits for a barrier.
pub(super) struct Reader {
    pub(super) done: oneshot::Sender<Result<()>>,
    /// Until when it may wait, in monotonic milliseconds.
    pub(super) until_ms: u64,
}
