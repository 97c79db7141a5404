//! A shutdown that waits: first for replicas that lack changes, then for the last snapshot.
//!
//! Clients that write wait meanwhile, as during CLIENT PAUSE, so that replicas and snapshot have every write that was
//! acknowledged. A save that fails ends the pause, and the server goes on.

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::client::pause::Held;
use crate::config::ShutdownOptions;
use crate::persist::Order;
use crate::time::clock::Now;

/// The shutdown that waits, if there is one.
#[derive(Default)]
pub(crate) struct PendingShutdown {
    pub(super) current: Mutex<Option<Pending>>,
    /// Wakes the task that finishes the shutdown.
    pub(super) begun: Notify,
}

/// A shutdown that waits.
#[derive(Clone)]
pub(super) struct Pending {
    pub(super) options: ShutdownOptions,
    pub(super) awaited: Awaited,
    /// Cancelled when the server goes on.
    pub(super) goes_on: CancellationToken,
    /// The pause that it has replaced, with its end in monotonic milliseconds.
    pub(super) paused_before: Option<(Held, u64)>,
}

/// What a shutdown waits for.
#[derive(Clone, Copy)]
pub(super) enum Awaited {
    /// Replicas, up to a time in monotonic milliseconds.
    Replicas { until_ms: u64 },
    /// The snapshot.
    Snapshot(Order),
}

impl PendingShutdown {
    /// Returns whether a shutdown waits.
    pub(crate) fn is_running(&self) -> bool {
        self.current.lock().is_some()
    }

    /// Returns for how many milliseconds a shutdown still waits for replicas; negative once that is over.
    pub(crate) fn left_ms(&self, now: Now) -> Option<i64> {
        match self.current.lock().as_ref()?.awaited {
            Awaited::Replicas { until_ms } => Some(until_ms as i64 - now.mono_ms() as i64),
            Awaited::Snapshot(_) => None,
        }
    }
}
