//! A call that waits for its turn, and the receivers of its outcome.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::client::engine::{StagedCall, StagedOutcome};
use crate::client::registry::{ClientWait, Unblocked};
use crate::client::tracking::NO_LOOP;
use crate::engine::cluster::Revision;
use crate::engine::queue::HasKeys;
use crate::engine::stored::StoredWait;
use crate::error::Result;
use crate::resp::Output;
use crate::store::KeyName;

/// Work for the stage.
pub(super) enum WorkItem {
    /// A call is executed for a client, which is told the outcome.
    Call(Box<StagedCall>, oneshot::Sender<StagedOutcome>),
    /// The call of a blocked client is repeated.
    Repeat(Box<StagedCall>, Arc<ClientWait>),
    /// A due key is deleted.
    Expire,
    /// A client leaves the queue for a lock.
    Leave(QueueRemoval),
    /// The session of a client, to which locks are bound, or its process has ended: the process, and the client's ID
    /// there.
    EndSession(u64, u64),
}

impl WorkItem {
    /// Returns the script that a call runs: its text, its digest, or the name of the function.
    pub(super) fn script(&self) -> Option<&[u8]> {
        match self {
            WorkItem::Call(call, _) => call.script(),
            _ => None,
        }
    }

    /// Returns true if the work can go together with calls of other clients, if it is quick: nobody has to know which
    /// client has caused which of the changes, and how long it takes is known.
    pub(super) fn goes_with_others(&self) -> bool {
        match self {
            WorkItem::Call(call, _) => {
                (!call.runs_scripts() || call.script().is_some()) && !call.caller.info.tracking.has(NO_LOOP)
            }
            WorkItem::Repeat(..) => false,
            WorkItem::Expire | WorkItem::Leave(_) | WorkItem::EndSession(..) => true,
        }
    }
}

/// Removal of a client from the queue for a lock.
pub(super) struct QueueRemoval {
    pub(super) wait: StoredWait,
    /// Signalled when the client has left the queue.
    pub(super) done: Option<oneshot::Sender<()>>,
    /// The client's reply, sent when it has left the queue.
    pub(super) answer: Option<(Arc<ClientWait>, Output)>,
}

impl QueueRemoval {
    /// Creates the removal of a wait, without a receiver of the outcome.
    pub(super) fn of(wait: StoredWait) -> Self {
        QueueRemoval { wait, done: None, answer: None }
    }

    /// Signals the end of the removal to its receivers.
    pub(super) fn conclude(self) {
        if let Some(done) = self.done {
            _ = done.send(()); // the client may be gone
        }
        if let Some((wait, out)) = self.answer {
            wait.answer(|_| Some(Unblocked::Served(out)));
        }
    }
}

/// Work that waits for its turn.
pub(super) struct PendingWork {
    pub(super) work: WorkItem,
    /// The keys that the work may access, each once and in order.
    pub(super) keys: Arc<[KeyName]>,
    /// Time limit of the wait, by [`Patience`](crate::engine::core::Patience).
    pub(super) until_ms: u64,
    /// Number of repetitions because other processes have changed the keys.
    pub(super) conflicts: u32,
    /// True if it takes no longer than calls of other clients, and can go together with them.
    pub(super) is_quick: bool,
    /// Duration of its last execution, in microseconds, if it is a call.
    pub(super) took_us: u64,
}

impl PendingWork {
    pub(super) fn new(work: WorkItem, keys: Arc<[KeyName]>, until_ms: u64) -> Self {
        PendingWork { work, keys, until_ms, conflicts: 0, is_quick: true, took_us: 0 }
    }

    /// Returns the wait of the client, if it is blocked.
    pub(super) fn wait(&self) -> Option<&Arc<ClientWait>> {
        match &self.work {
            WorkItem::Repeat(_, wait) => Some(wait),
            _ => None,
        }
    }
}

impl HasKeys for PendingWork {
    fn keys(&self) -> &[KeyName] {
        &self.keys
    }

    fn is_quick(&self) -> bool {
        self.is_quick
    }
}

/// A client that is queued for locks, or about to be.
pub(super) struct Queued {
    pub(super) wait: Arc<ClientWait>,
    /// The locks, in the order named.
    pub(super) locks: Vec<KeyName>,
    /// True if the client asks for several locks at the same time.
    pub(super) is_several: bool,
    /// Revision at which the client was queued; `None` while it is not known.
    pub(super) since: Option<Revision>,
}

/// A client that waits for a barrier.
pub(super) struct BarrierReader {
    pub(super) done: oneshot::Sender<Result<()>>,
    /// Time limit of the wait, by [`Patience`](crate::engine::core::Patience).
    pub(super) until_ms: u64,
}
