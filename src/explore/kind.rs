//! Kinds of faults that an exploration tries.

use std::time::Duration;

use crate::test_mode::Fault;

/// An event that strikes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PointKind {
    LostReply,
    NotExecuted,
    CutAll,
    Late,
    Expired,
    NoScript,
    Evicted,
    Failover,
    ReadOnly,
    OutOfMemory,
    Loading,
    Busy,
}

impl PointKind {
    /// All kinds, in the order in which they are tried at a call.
    pub(super) const ALL: [PointKind; 12] = [
        PointKind::LostReply,
        PointKind::NotExecuted,
        PointKind::CutAll,
        PointKind::Late,
        PointKind::Expired,
        PointKind::NoScript,
        PointKind::Evicted,
        PointKind::Failover,
        PointKind::ReadOnly,
        PointKind::OutOfMemory,
        PointKind::Loading,
        PointKind::Busy,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            PointKind::LostReply => "lost-reply",
            PointKind::NotExecuted => "not-executed",
            PointKind::CutAll => "cut-all",
            PointKind::Late => "late",
            PointKind::Expired => "expired",
            PointKind::NoScript => "noscript",
            PointKind::Evicted => "evicted",
            PointKind::Failover => "failover",
            PointKind::ReadOnly => "readonly",
            PointKind::OutOfMemory => "oom",
            PointKind::Loading => "loading",
            PointKind::Busy => "busy",
        }
    }

    /// Finds a kind by its name.
    pub(super) fn named(name: &str) -> Result<Self, String> {
        let names = || PointKind::ALL.map(PointKind::name).join(", ");
        let found = PointKind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("there is no kind '{name}' of faults; there are {}", names()))
    }

    /// Returns true if a correct client can always survive it.
    pub(super) fn is_default(self) -> bool {
        use PointKind::{CutAll, Expired, Late, LostReply, NoScript, NotExecuted};
        matches!(self, LostReply | NotExecuted | CutAll | Late | Expired | NoScript)
    }

    /// Gives a fault the effect of the kind; `key` is the key that expires or is evicted.
    pub(super) fn apply(self, fault: Fault, key: &[u8], late_by: Duration) -> Fault {
        match self {
            PointKind::LostReply => fault.lose_reply(),
            PointKind::NotExecuted => fault.drop(),
            PointKind::CutAll => fault.drop_all(),
            PointKind::Late => fault.advance(late_by),
            PointKind::Expired => fault.expire(key),
            PointKind::NoScript => fault.no_script(),
            PointKind::Evicted => fault.evict(key),
            PointKind::Failover => fault.fail_over(),
            PointKind::ReadOnly => fault.error("READONLY You can't write against a read only replica."),
            PointKind::OutOfMemory => fault.error("OOM command not allowed when used memory > 'maxmemory'."),
            PointKind::Loading => fault.error("LOADING Redis is loading the dataset in memory"),
            PointKind::Busy => {
                fault.error("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.")
            }
        }
    }
}
