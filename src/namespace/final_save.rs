//! The snapshot that is saved before the server stops, and what becomes of a shutdown that waits for it.
//!
//! Clients that write wait meanwhile, as during CLIENT PAUSE, so that the snapshot has every write that was
//! acknowledged. A save that fails ends the pause, and the server goes on.

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::client::pause::Held;
use crate::persist::Order;

/// The shutdown that waits for its snapshot, if there is one.
#[derive(Default)]
pub(crate) struct FinalSave {
    pub(super) current: Mutex<Option<Waiting>>,
    /// Wakes the task that finishes the shutdown.
    pub(super) begun: Notify,
}

/// A shutdown that waits for its snapshot.
#[derive(Clone)]
pub(super) struct Waiting {
    pub(super) order: Order,
    /// Whether the server stops even if the snapshot fails.
    pub(super) is_forced: bool,
    /// Cancelled when the server goes on.
    pub(super) goes_on: CancellationToken,
    /// The pause that it has replaced, with its end in monotonic milliseconds.
    pub(super) paused_before: Option<(Held, u64)>,
}

impl FinalSave {
    /// Returns whether a shutdown waits for its snapshot.
    pub(crate) fn is_running(&self) -> bool {
        self.current.lock().is_some()
    }
}
