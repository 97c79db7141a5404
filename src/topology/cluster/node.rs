//! A node: its condition, and its own view of the cluster, which may differ from that of others.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::topology::cluster::changes::{NodeChange, NodeNumber, PendingChanges};
use crate::topology::cluster::slots::SlotSet;
use crate::topology::{NodeHealth, SLOT_COUNT, Slot};

/// The role of a node, as it or another node sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NodeRole {
    #[default]
    Primary,
    /// A replica; its primary is not known if the node that sees it has forgotten that one.
    Replica { of: Option<NodeNumber> },
}

impl NodeRole {
    /// Returns the primary of a replica, if it is known.
    pub(crate) fn primary(self) -> Option<NodeNumber> {
        match self {
            NodeRole::Primary => None,
            NodeRole::Replica { of } => of,
        }
    }

    pub(crate) fn is_primary(self) -> bool {
        self == NodeRole::Primary
    }
}

/// The state of a node's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NodeProcess {
    #[default]
    Running,
    /// The process is gone; its data and its view are kept as on a disk.
    Stopped,
    /// The process is alive, and does nothing.
    Paused,
    /// The node has left the cluster for ever.
    Removed,
}

/// A node as one node sees it; also as it sees itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenNode {
    pub(super) role: NodeRole,
    pub(super) config_epoch: u64,
    /// The slots that the seeing node believes to be the node's.
    pub(super) slots: Arc<SlotSet>,
    /// The number of the shard, of which its id is derived.
    pub(super) shard: usize,
    pub(super) health: NodeHealth,
    /// The time since which the seeing node has reached the node, before the last time that it did not.
    pub(super) reached_since_ms: u64,
    /// The time since which the seeing node has not reached the node.
    pub(super) unreachable_since_ms: Option<u64>,
    /// True if replicas of others move to the primary when it has none.
    pub(super) takes_replicas: bool,
    /// True if it had replicas, and slots, when that was noted.
    pub(super) had_replicas: bool,
    pub(super) had_slots: bool,
    /// The time since which the seeing replica waits to move to it.
    pub(super) orphaned_since_ms: Option<u64>,
}

impl SeenNode {
    /// Returns true if the node is one of those whose majority decides.
    pub(super) fn is_voter(&self) -> bool {
        self.role.is_primary() && !self.slots.is_empty()
    }
}

/// Facts that decide if a node serves keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Service {
    /// True if it reaches a majority of the primaries that have slots.
    pub(crate) has_majority: bool,
    /// True if every slot has a node that has not failed.
    pub(crate) is_covered: bool,
}

impl Service {
    /// Returns true if the node serves keys, which may need all slots to be covered.
    pub(crate) fn is_ok(self, needs_full_coverage: bool) -> bool {
        self.has_majority && (self.is_covered || !needs_full_coverage)
    }
}

/// Settings of a node that decide what it does as a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplicaPolicy {
    /// True if it does not stand for election (`cluster-replica-no-failover`).
    pub(crate) has_no_failover: bool,
    /// True if it follows slots to another primary, and moves to primaries without replicas
    /// (`cluster-allow-replica-migration`).
    pub(crate) may_migrate: bool,
    /// The number of replicas that stay with its primary (`cluster-migration-barrier`).
    pub(crate) migration_barrier: u64,
}

impl Default for ReplicaPolicy {
    fn default() -> Self {
        ReplicaPolicy { has_no_failover: false, may_migrate: true, migration_barrier: 1 }
    }
}

/// A node and its view of the cluster.
#[derive(Clone, Debug)]
pub(super) struct ClusterNode {
    pub(super) number: NodeNumber,
    pub(super) id: String,
    /// The number of ids that the node has had before.
    pub(super) former_ids: usize,
    pub(super) process: NodeProcess,
    /// True if a partition separates the node from the rest.
    pub(super) is_cut_off: bool,
    /// The node as it sees itself.
    pub(super) own: SeenNode,
    /// The other nodes that it knows.
    pub(super) peers: BTreeMap<NodeNumber, SeenNode>,
    pub(super) current_epoch: u64,
    pub(super) last_vote_epoch: u64,
    /// Slots whose owner, as this node sees it, has ceased to claim them.
    pub(super) unclaimed: SlotSet,
    /// Own slots that are being moved, with the nodes that take them over.
    pub(super) migrating: BTreeMap<Slot, NodeNumber>,
    /// Slots that are being taken over, with their owners.
    pub(super) importing: BTreeMap<Slot, NodeNumber>,
    /// Nodes that others may not tell of, until a time in milliseconds.
    pub(super) forgotten: BTreeMap<NodeNumber, u64>,
    /// Nodes that are to be met, until a time in milliseconds.
    pub(super) handshakes: BTreeMap<NodeNumber, u64>,
    pub(super) service: Service,
    pub(super) policy: ReplicaPolicy,
}

impl ClusterNode {
    /// Creates a node that knows only itself.
    pub(super) fn new(number: NodeNumber, id: String, shard: usize) -> Self {
        ClusterNode {
            number,
            id,
            former_ids: 0,
            process: NodeProcess::Running,
            is_cut_off: false,
            own: SeenNode { shard, ..SeenNode::default() },
            peers: BTreeMap::new(),
            current_epoch: 0,
            last_vote_epoch: 0,
            unclaimed: SlotSet::default(),
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
            forgotten: BTreeMap::new(),
            handshakes: BTreeMap::new(),
            service: Service::default(),
            policy: ReplicaPolicy::default(),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.process == NodeProcess::Running
    }

    pub(super) fn is_gone(&self) -> bool {
        self.process == NodeProcess::Removed
    }

    /// Returns true if messages pass between the nodes.
    pub(super) fn reaches(&self, other: &ClusterNode) -> bool {
        self.is_running() && other.is_running() && self.is_cut_off == other.is_cut_off
    }

    /// Returns a node, if this one knows it; itself, too.
    pub(super) fn peer(&self, number: NodeNumber) -> Option<&SeenNode> {
        if number == self.number { Some(&self.own) } else { self.peers.get(&number) }
    }

    fn peer_mut(&mut self, number: NodeNumber) -> Option<&mut SeenNode> {
        if number == self.number { Some(&mut self.own) } else { self.peers.get_mut(&number) }
    }

    /// Returns all known nodes, itself first.
    pub(super) fn known(&self) -> impl Iterator<Item = (NodeNumber, &SeenNode)> {
        std::iter::once((self.number, &self.own)).chain(self.peers.iter().map(|(number, peer)| (*number, peer)))
    }

    /// Returns the owner of a slot.
    pub(super) fn owner(&self, slot: Slot) -> Option<NodeNumber> {
        self.known().find(|(_, peer)| peer.slots.contains(slot)).map(|(number, _)| number)
    }

    /// Returns the number of votes that are a majority.
    pub(super) fn quorum(&self) -> usize {
        self.known().filter(|(_, peer)| peer.is_voter()).count() / 2 + 1
    }

    /// Returns the node whose slots this node tells others of: itself, or its primary.
    pub(super) fn leader(&self) -> &SeenNode {
        self.own.role.primary().and_then(|primary| self.peers.get(&primary)).unwrap_or(&self.own)
    }

    /// Binds a slot to a node, or to none.
    pub(super) fn bind(&mut self, slot: Slot, owner: Option<NodeNumber>, changes: &mut PendingChanges) {
        for peer in std::iter::once(&mut self.own).chain(self.peers.values_mut()) {
            if peer.slots.contains(slot) {
                Arc::make_mut(&mut peer.slots).remove(slot);
            }
        }
        if let Some(peer) = owner.and_then(|owner| self.peer_mut(owner)) {
            Arc::make_mut(&mut peer.slots).insert(slot);
        }
        self.unclaimed.remove(slot);
        changes.reroute(self.number);
    }

    /// Takes a configuration epoch of its own, without votes, unless it has the greatest one already; returns true if it has
    /// taken one.
    pub(super) fn bump_epoch(&mut self) -> bool {
        let greatest = self.known().map(|(_, peer)| peer.config_epoch).max().unwrap_or(0).max(self.current_epoch);
        let bumps = self.own.config_epoch == 0 || self.own.config_epoch != greatest;
        if bumps {
            self.current_epoch += 1;
            self.own.config_epoch = self.current_epoch;
        }
        bumps
    }

    /// Becomes a replica of a known node; a primary that does so has no slots.
    pub(super) fn follow(&mut self, primary: NodeNumber, changes: &mut PendingChanges) {
        let Some(shard) = self.peers.get(&primary).map(|peer| peer.shard) else { return };
        if self.own.role.primary() == Some(primary) {
            return;
        }
        if self.own.role.is_primary() {
            self.migrating.clear();
            self.importing.clear();
        }
        self.own.slots = Arc::default();
        self.own.role = NodeRole::Replica { of: Some(primary) };
        self.own.shard = shard;
        changes.push(NodeChange::Follows { node: self.number, primary });
        changes.reroute(self.number);
    }

    /// Becomes a primary in the place of its own, with that one's slots.
    pub(super) fn replace_primary(&mut self, changes: &mut PendingChanges) {
        let Some(former) = self.own.role.primary() else { return };
        self.own.role = NodeRole::Primary;
        if let Some(former) = self.peers.get_mut(&former) {
            let slots = std::mem::take(&mut former.slots);
            self.unclaimed = self.unclaimed.without(&slots);
            self.own.slots = Arc::new(self.own.slots.or(&slots));
        }
        changes.push(NodeChange::Promoted { node: self.number });
        changes.reroute(self.number);
    }

    /// Drops a node from the view, with all that refers to it.
    pub(super) fn drop_peer(&mut self, number: NodeNumber, changes: &mut PendingChanges) {
        self.handshakes.remove(&number);
        let Some(dropped) = self.peers.remove(&number) else { return };
        self.unclaimed = self.unclaimed.without(&dropped.slots);
        self.migrating.retain(|_, target| *target != number);
        self.importing.retain(|_, source| *source != number);
        for peer in std::iter::once(&mut self.own).chain(self.peers.values_mut()) {
            if peer.role.primary() == Some(number) {
                peer.role = NodeRole::Replica { of: None };
            }
        }
        changes.reroute(self.number);
    }

    /// Computes whether the node serves keys; returns true if that has changed.
    pub(super) fn update_state(&mut self) -> bool {
        let (mut voters, mut reachable, mut assigned, mut has_failed) = (0, 0, 0, false);
        for (_, peer) in self.known() {
            assigned += peer.slots.len();
            has_failed |= peer.health == NodeHealth::Failed && !peer.slots.is_empty();
            voters += usize::from(peer.is_voter());
            reachable += usize::from(peer.is_voter() && peer.health == NodeHealth::Online);
        }
        let is_covered = assigned == usize::from(SLOT_COUNT) && !has_failed;
        let service = Service { has_majority: reachable > voters / 2, is_covered };
        std::mem::replace(&mut self.service, service) != service
    }
}
