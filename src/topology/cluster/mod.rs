//! A cluster of nodes as one state machine, which gets events and the time, and tells what has changed.
//!
//! Each node has its own view: whom it knows, who has which slots under which epoch, whom it suspects. Views change by the
//! rules of Redis 7.0 (`cluster.c`), with two differences that make a history repeatable: messages between nodes that reach
//! each other take no time, and neither do agreement on a failure and elections. So after each event everything that follows
//! from it has happened, and something happens by itself only at [`TopologyCluster::next_due_ms`].
//!
//! Smaller differences: an election that cannot be won is not begun; only primaries with slots report failures; a failed node
//! that is reached again has not failed; a slot that is being taken over follows a failover of its owner; a replica of a
//! replica follows that one's primary at once; nobody knows a node's former id after a hard reset.

mod changes;
mod commands;
mod errors;
mod failure;
mod faults;
mod gossip;
mod make;
mod node;
mod observe;
mod operator;
mod replica_migration;
mod slots;
#[cfg(test)]
mod tests;

use crate::topology::cluster::changes::PendingChanges;
use crate::topology::cluster::node::ClusterNode;

pub(crate) use changes::{NodeChange, NodeNumber};
pub(crate) use commands::{FailoverMode, SetSlot};
pub(crate) use errors::{NodeCommandError, TopologyError};
pub(crate) use make::ClusterPlan;
pub(crate) use node::{NodeRole, ReplicaPolicy};
pub(crate) use observe::{NO_OWNER, Routes};

/// A cluster, or several clusters of nodes that may yet meet.
#[derive(Clone, Debug)]
pub(crate) struct TopologyCluster {
    name: String,
    node_timeout_ms: u64,
    /// The time of the last event.
    now_ms: u64,
    /// All nodes by number, those that have left included.
    nodes: Vec<ClusterNode>,
    /// The number of shards there have been.
    shards: usize,
    changes: PendingChanges,
    /// True while nodes tell each other nothing: several commands are executed as one.
    is_held: bool,
}

/// The time of an event, and the state of the nodes' data at that time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moment<'o> {
    pub(crate) now_ms: u64,
    /// The position in the log that each node has reached, by number; 0 of a node that is not in it.
    pub(crate) offsets: &'o [u64],
}

impl Moment<'_> {
    fn offset(self, node: NodeNumber) -> u64 {
        self.offsets.get(node).copied().unwrap_or(0)
    }
}

impl TopologyCluster {
    /// Performs all that is due.
    pub(crate) fn tick(&mut self, moment: Moment<'_>) {
        self.catch_up(moment);
        self.settle(moment);
    }

    /// Returns the changes since the last call: in their order, routes last.
    pub(crate) fn take_changes(&mut self) -> Vec<NodeChange> {
        self.changes.take()
    }

    /// Performs all that is due, and holds back what follows from the commands at this moment until [`Self::pass_messages`].
    pub(crate) fn hold_messages(&mut self, moment: Moment<'_>) {
        self.tick(moment);
        self.is_held = true;
    }

    /// Performs all that follows from the commands since [`Self::hold_messages`].
    pub(crate) fn pass_messages(&mut self, moment: Moment<'_>) {
        self.is_held = false;
        self.settle(moment);
    }

    /// Performs all that is due up to a moment, each at its time.
    fn catch_up(&mut self, moment: Moment<'_>) {
        while let Some(due_ms) =
            self.next_due_ms().filter(|due_ms| (self.now_ms.saturating_add(1)..=moment.now_ms).contains(due_ms))
        {
            self.settle(Moment { now_ms: due_ms, ..moment });
        }
        self.now_ms = self.now_ms.max(moment.now_ms);
    }

    /// Performs all that follows from the present state at a moment.
    fn settle(&mut self, moment: Moment<'_>) {
        self.now_ms = self.now_ms.max(moment.now_ms);
        if self.is_held {
            return;
        }
        loop {
            let mut is_news = true;
            while is_news {
                is_news = self.observe_links();
                is_news |= self.exchange();
                is_news |= self.mark_failed();
                is_news |= self.elect(moment);
            }
            self.update_states();
            if !self.migrate_replica() {
                break;
            }
        }
    }
}
