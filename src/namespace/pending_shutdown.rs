//! A waiting shutdown: first for replicas that lack changes, then for the last snapshot.
//!
//! Clients that write wait meanwhile, as during CLIENT PAUSE, so that replicas and snapshot have every acknowledged
//! write. A save that fails ends the pause, and the server continues.

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::client::pause::PauseScope;
use crate::config::ShutdownOptions;
use crate::persist::Order;
use crate::time::clock::Now;

/// The waiting shutdown, if there is one.
#[derive(Default)]
pub(crate) struct PendingShutdown {
    pub(super) current: Mutex<Option<WaitingShutdown>>,
    /// Wakeup of the task that finishes the shutdown.
    pub(super) begun: Notify,
}

#[derive(Clone)]
pub(super) struct WaitingShutdown {
    pub(super) options: ShutdownOptions,
    pub(super) awaited: ShutdownWait,
    /// Cancelled if the server continues instead.
    pub(super) goes_on: CancellationToken,
    /// The pause before the shutdown, with its end in monotonic milliseconds.
    pub(super) paused_before: Option<(PauseScope, u64)>,
}

/// Event that a shutdown waits for.
#[derive(Clone, Copy)]
pub(super) enum ShutdownWait {
    /// Acknowledgements of replicas, up to a time in monotonic milliseconds.
    Replicas { until_ms: u64 },
    /// The snapshot of an order.
    Snapshot(Order),
}

impl PendingShutdown {
    /// Returns true if a shutdown waits.
    pub(crate) fn is_running(&self) -> bool {
        self.current.lock().is_some()
    }

    /// Returns the milliseconds for which a shutdown still waits for replicas; negative once that time is over.
    pub(crate) fn left_ms(&self, now: Now) -> Option<i64> {
        match self.current.lock().as_ref()?.awaited {
            ShutdownWait::Replicas { until_ms } => Some(until_ms as i64 - now.mono_ms() as i64),
            ShutdownWait::Snapshot(_) => None,
        }
    }
}
