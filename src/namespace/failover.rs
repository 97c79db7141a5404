//! FAILOVER: a primary that hands its role over to one of its replicas, without losing a write.
//!
//! Clients that write wait meanwhile. Once a replica has everything, the primary becomes its replica, and asks it to be the
//! primary when it asks for what comes next.

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::client::pause::Held;
use crate::config::Address;

/// The failover that is under way, if there is one.
#[derive(Default)]
pub(crate) struct Failover {
    pub(super) current: Mutex<Option<Handover>>,
    /// Wakes the task that makes its next step.
    pub(crate) begun: Notify,
}

/// What is asked of a failover.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// The replica that is to be the primary; otherwise the first that has everything.
    pub(crate) target: Option<Address>,
    /// When it is given up, in monotonic milliseconds.
    pub(crate) until_ms: Option<u64>,
    /// Whether the replica is to be the primary then, whatever it has.
    pub(crate) is_forced: bool,
}

/// How far a failover is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A replica has to receive everything.
    Waiting,
    /// A replica has everything, and is asked to be the primary.
    InProgress,
}

impl Stage {
    /// Returns its name in INFO.
    pub(crate) fn name(stage: Option<Stage>) -> &'static str {
        match stage {
            None => "no-failover",
            Some(Stage::Waiting) => "waiting-for-sync",
            Some(Stage::InProgress) => "failover-in-progress",
        }
    }
}

/// A failover that is under way.
pub(super) struct Handover {
    pub(super) terms: Terms,
    pub(super) stage: Stage,
    /// The pause that it has replaced, with its end in monotonic milliseconds.
    pub(super) paused_before: Option<(Held, u64)>,
}

impl Failover {
    /// Returns how far the failover is, if there is one.
    pub(crate) fn stage(&self) -> Option<Stage> {
        self.current.lock().as_ref().map(|handover| handover.stage)
    }
}
