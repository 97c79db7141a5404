//! FAILOVER: a primary that hands its role over to one of its replicas, without losing a write.
//!
//! Clients that write wait meanwhile. Once a replica has all records, the primary becomes its replica, and asks it to
//! be the primary when it requests the next records.

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::client::pause::PauseScope;
use crate::config::HostPort;

/// The failover in progress, if there is one.
#[derive(Default)]
pub(crate) struct Failover {
    pub(super) current: Mutex<Option<OngoingFailover>>,
    /// Wakeup of the task that makes the failover's next step.
    pub(crate) begun: Notify,
}

/// Options of a failover.
#[derive(Clone, Debug)]
pub(crate) struct FailoverOptions {
    /// The replica that is to be the primary; `None` for the first replica with all records.
    pub(crate) target: Option<HostPort>,
    /// The time limit, in monotonic milliseconds.
    pub(crate) until_ms: Option<u64>,
    /// True if the replica becomes the primary at the time limit, even if it lacks records.
    pub(crate) is_forced: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailoverStage {
    /// A replica has to receive all records.
    Waiting,
    /// A replica has all records, and is asked to be the primary.
    InProgress,
}

impl FailoverStage {
    /// Returns the name of the stage in INFO.
    pub(crate) fn name(stage: Option<FailoverStage>) -> &'static str {
        match stage {
            None => "no-failover",
            Some(FailoverStage::Waiting) => "waiting-for-sync",
            Some(FailoverStage::InProgress) => "failover-in-progress",
        }
    }
}

pub(super) struct OngoingFailover {
    pub(super) terms: FailoverOptions,
    pub(super) stage: FailoverStage,
    /// The pause before the failover, with its end in monotonic milliseconds.
    pub(super) paused_before: Option<(PauseScope, u64)>,
}

impl Failover {
    pub(crate) fn stage(&self) -> Option<FailoverStage> {
        self.current.lock().as_ref().map(|handover| handover.stage)
    }
}
