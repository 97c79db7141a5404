//! A call that waits for its turn, and whom its outcome is for.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::client::engine::{StagedCall, StagedOutcome};
use crate::client::registry::{Unblocked, Wait};
use crate::engine::cluster::Revision;
use crate::engine::names::KeyName;
use crate::engine::queue::Keyed;
use crate::engine::stored::StoredWait;
use crate::error::Result;
use crate::resp::Output;

/// What is to be done.
pub(super) enum Work {
    /// A call is executed for a client, which is told the outcome.
    Call(Box<StagedCall>, oneshot::Sender<StagedOutcome>),
    /// The call of a blocked client is executed again.
    Repeat(Box<StagedCall>, Arc<Wait>),
    /// A key that is due is deleted.
    Expire,
    /// A client leaves the queue for a lock.
    Leave(Leave),
    /// The session of a client has ended, that locks are bound to, or its process: that, and its id there.
    EndSession(u64, u64),
}

/// A client leaves the queue for a lock.
pub(super) struct Leave {
    /// The wait.
    pub(super) wait: StoredWait,
    /// Who is told when that is done.
    pub(super) done: Option<oneshot::Sender<()>>,
    /// What the client is answered then.
    pub(super) answer: Option<(Arc<Wait>, Output)>,
}

impl Leave {
    /// Returns what ends a wait that nobody asks about.
    pub(super) fn of(wait: StoredWait) -> Self {
        Leave { wait, done: None, answer: None }
    }

    /// Tells those who wait for it that it is done.
    pub(super) fn conclude(self) {
        self.done.into_iter().for_each(|done| _ = done.send(())); // the client may be gone
        if let Some((wait, out)) = self.answer {
            wait.answer(|_| Some(Unblocked::Served(out)));
        }
    }
}

/// Something that waits to be done.
pub(super) struct Pending {
    pub(super) work: Work,
    /// The keys that it may access, each once and in order.
    pub(super) keys: Arc<[KeyName]>,
    /// Until when it may wait, by [`Patience`](crate::engine::core::Patience).
    pub(super) until_ms: u64,
    /// How often it was executed again, because others have changed its keys.
    pub(super) conflicts: u32,
}

impl Pending {
    /// Returns the wait of the client, if it is blocked.
    pub(super) fn wait(&self) -> Option<&Arc<Wait>> {
        match &self.work {
            Work::Repeat(_, wait) => Some(wait),
            _ => None,
        }
    }
}

impl Keyed for Pending {
    fn keys(&self) -> &[KeyName] {
        &self.keys
    }
}

/// A client that is queued for a lock, or about to be.
pub(super) struct Queued {
    pub(super) wait: Arc<Wait>,
    pub(super) key: KeyName,
    /// When it was queued; `None` while that is not known.
    pub(super) since: Option<Revision>,
}

/// One that waits for a barrier.
pub(super) struct Reader {
    pub(super) done: oneshot::Sender<Result<()>>,
    /// Until when it may wait, by [`Patience`](crate::engine::core::Patience).
    pub(super) until_ms: u64,
}
