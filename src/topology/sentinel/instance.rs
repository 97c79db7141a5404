//! Instances as a sentinel sees them: the master that it monitors, the replicas of that, and other sentinels.

use crate::topology::sentinel::place::{NodeNumber, Place};
use crate::topology::sentinel::world::SentinelWorld;

/// Link from a sentinel to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InstanceLink {
    /// The instance has answered since this time.
    Up { since_ms: u64 },
    /// The instance has not answered since this time.
    Silent { since_ms: u64 },
}

/// The part that all kinds of instances have.
#[derive(Clone, Debug)]
pub(super) struct WatchedInstance {
    pub(super) place: Place,
    pub(super) run_id: Option<String>,
    pub(super) link: InstanceLink,
    /// Time since which the sentinel believes that the instance is down.
    pub(super) s_down_since_ms: Option<u64>,
}

/// Role that a data node reports in INFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReportedRole {
    Master,
    Replica,
}

impl ReportedRole {
    pub(super) fn name(self) -> &'static str {
        match self {
            ReportedRole::Master => "master",
            ReportedRole::Replica => "slave",
        }
    }
}

/// A master or a replica.
#[derive(Clone, Debug)]
pub(super) struct DataInstance {
    pub(super) base: WatchedInstance,
    pub(super) reported: ReportedRole,
    /// Time of the last change of the reported role.
    pub(super) reported_ms: u64,
    /// Figures of the last INFO; `None` before the first one.
    pub(super) info: Option<ReceivedInfo>,
    /// True if INFO has not been read since the instance was first or again reached.
    pub(super) needs_info: bool,
    /// Time from which on a role or a primary that differs from the configuration is corrected.
    pub(super) fix_due_ms: u64,
}

/// Figures of a data node in INFO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReceivedInfo {
    pub(super) read_ms: u64,
    /// The primary that a replica names, or the last one that it had.
    pub(super) primary: Option<NodeNumber>,
    pub(super) is_link_up: bool,
    pub(super) link_down_ms: u64,
    pub(super) priority: u32,
    pub(super) offset: u64,
}

/// Another sentinel of the same master.
#[derive(Clone, Debug)]
pub(super) struct KnownSentinel {
    pub(super) base: WatchedInstance,
    pub(super) id: String,
    /// True if it has said that the master is down.
    pub(super) says_down: bool,
    /// The sentinel that it has voted for, by id.
    pub(super) vote: Option<String>,
    pub(super) vote_epoch: u64,
}

impl WatchedInstance {
    fn new(place: Place, watcher: NodeNumber, world: &SentinelWorld) -> Self {
        let since_ms = world.now_ms;
        let is_reached = place.node.is_some_and(|node| world.reaches(watcher, node));
        let link = if is_reached { InstanceLink::Up { since_ms } } else { InstanceLink::Silent { since_ms } };
        WatchedInstance { place, run_id: None, link, s_down_since_ms: None }
    }

    pub(super) fn is_s_down(&self) -> bool {
        self.s_down_since_ms.is_some()
    }

    pub(super) fn is_linked(&self) -> bool {
        matches!(self.link, InstanceLink::Up { .. })
    }

    /// Returns the time of the last answer, if the instance does not answer now.
    pub(super) fn silent_since_ms(&self) -> Option<u64> {
        match self.link {
            InstanceLink::Up { .. } => None,
            InstanceLink::Silent { since_ms } => Some(since_ms),
        }
    }

    /// Brings the link up to date; returns true if the instance is reached again.
    pub(super) fn update_link(&mut self, watcher: NodeNumber, world: &SentinelWorld) -> bool {
        let is_reached = self.place.node.is_some_and(|node| world.reaches(watcher, node));
        let since_ms = world.now_ms;
        match (self.link, is_reached) {
            (InstanceLink::Up { .. }, false) => self.link = InstanceLink::Silent { since_ms },
            (InstanceLink::Silent { .. }, true) => self.link = InstanceLink::Up { since_ms },
            (InstanceLink::Up { .. }, true) | (InstanceLink::Silent { .. }, false) => return false,
        }
        is_reached
    }
}

impl DataInstance {
    pub(super) fn new(place: Place, reported: ReportedRole, watcher: NodeNumber, world: &SentinelWorld) -> Self {
        DataInstance {
            base: WatchedInstance::new(place, watcher, world),
            reported,
            reported_ms: world.now_ms,
            info: None,
            needs_info: true,
            fix_due_ms: 0,
        }
    }

    pub(super) fn update_link(&mut self, watcher: NodeNumber, world: &SentinelWorld) {
        let was_linked = self.base.is_linked();
        self.needs_info |= self.base.update_link(watcher, world);
        if was_linked
            && !self.base.is_linked()
            && let Some(info) = &mut self.info
        {
            info.read_ms = world.now_ms;
        }
    }

    /// Returns the node if it answers and has INFO.
    pub(super) fn readable(&self, world: &SentinelWorld) -> Option<NodeNumber> {
        self.base.place.node.filter(|node| self.base.is_linked() && world.data(*node).is_some())
    }

    /// Returns the primary that the last INFO has named.
    pub(super) fn primary(&self) -> Option<NodeNumber> {
        self.info.as_ref().and_then(|info| info.primary)
    }

    /// Notes the figures that the node reports now.
    pub(super) fn note_info(&mut self, node: NodeNumber, world: &SentinelWorld) {
        let Some(data) = world.data(node) else { return };
        self.info = Some(ReceivedInfo {
            read_ms: world.now_ms,
            primary: data.primary.or(self.primary()),
            is_link_up: if data.primary.is_some() {
                world.is_linked(node)
            } else {
                self.info.as_ref().is_some_and(|info| info.is_link_up)
            },
            link_down_ms: world.link_down_ms(node),
            priority: data.priority,
            offset: data.offset,
        });
        self.needs_info = false;
    }
}

impl KnownSentinel {
    pub(super) fn new(place: Place, id: String, watcher: NodeNumber, world: &SentinelWorld) -> Self {
        let mut base = WatchedInstance::new(place, watcher, world);
        base.run_id = Some(id.clone());
        KnownSentinel { base, id, says_down: false, vote: None, vote_epoch: 0 }
    }
}
