//! Questions about a cluster: which way a node sends its clients, its view, and the condition of each node.

use std::collections::BTreeMap;

use crate::topology::cluster::node::{ClusterNode, NodeProcess, SeenNode, Service};
use crate::topology::cluster::{Moment, NodeNumber, NodeRole, TopologyCluster};
use crate::topology::{ClusterView, NodeAddress, NodeHealth, NodeView, SLOT_COUNT, Slot};

/// The number in place of an owner of a slot that has none.
pub(crate) const NO_OWNER: u16 = u16::MAX;

/// The way in which a node serves slots, or sends clients elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Routes {
    pub(crate) own: NodeNumber,
    /// The primary, in a replica that knows it.
    pub(crate) primary: Option<NodeNumber>,
    pub(crate) service: Service,
    /// The number of the owner of each slot, [`NO_OWNER`] without one.
    pub(crate) owners: Box<[u16]>,
    /// Own slots that are being moved, with the nodes that take them over.
    pub(crate) migrating: BTreeMap<Slot, NodeNumber>,
    /// Slots that the node is taking over, with their owners.
    pub(crate) importing: BTreeMap<Slot, NodeNumber>,
}

/// The condition of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeCondition {
    Up,
    Stopped,
    Paused,
    /// The process runs, and another running node believes that it has failed.
    Failed,
}

impl NodeCondition {
    /// Returns the name of the state in TEST.CLUSTER NODES.
    pub(crate) fn name(self) -> &'static str {
        match self {
            NodeCondition::Up => "up",
            NodeCondition::Stopped => "stopped",
            NodeCondition::Paused => "paused",
            NodeCondition::Failed => "failed",
        }
    }
}

impl TopologyCluster {
    /// Returns the number of numbers that have been given to nodes.
    pub(crate) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the numbers of the nodes that have not left, in ascending order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = NodeNumber> {
        self.nodes.iter().filter(|node| !node.is_gone()).map(|node| node.number)
    }

    pub(crate) fn id(&self, node: NodeNumber) -> &str {
        &self.nodes[node].id
    }

    /// Returns the node with an id, unless it has left.
    #[cfg(test)]
    pub(crate) fn node_by_id(&self, id: &str) -> Option<NodeNumber> {
        self.numbers().find(|node| self.id(*node) == id)
    }

    /// Returns true if two nodes are up and no partition is between them.
    pub(crate) fn reaches(&self, one: NodeNumber, other: NodeNumber) -> bool {
        self.nodes[one].reaches(&self.nodes[other])
    }

    /// Returns the role of a node as it sees itself.
    pub(crate) fn role(&self, node: NodeNumber) -> NodeRole {
        self.nodes[node].own.role
    }

    /// Returns the primary of a replica, if it knows it.
    pub(crate) fn primary_of(&self, node: NodeNumber) -> Option<NodeNumber> {
        self.role(node).primary()
    }

    /// Returns the nodes that are moving slots to a node.
    #[cfg(test)]
    pub(crate) fn migrating_to(&self, target: NodeNumber) -> Vec<NodeNumber> {
        let is_source = |node: &&ClusterNode| node.migrating.values().any(|to| *to == target);
        self.nodes.iter().filter(is_source).map(|node| node.number).collect()
    }

    /// Returns the slots of a node as it sees them, in ranges of first and last.
    pub(crate) fn slots_of(&self, node: NodeNumber) -> Vec<(Slot, Slot)> {
        self.nodes[node].own.slots.ranges()
    }

    pub(crate) fn state(&self, node: NodeNumber) -> NodeCondition {
        let believes_failed = |other: &ClusterNode| {
            other.is_running() && other.peers.get(&node).is_some_and(|peer| peer.health == NodeHealth::Failed)
        };
        match self.nodes[node].process {
            NodeProcess::Stopped | NodeProcess::Removed => NodeCondition::Stopped,
            NodeProcess::Paused => NodeCondition::Paused,
            NodeProcess::Running if self.nodes.iter().any(believes_failed) => NodeCondition::Failed,
            NodeProcess::Running => NodeCondition::Up,
        }
    }

    /// Returns the nodes that a node suspects or believes to have failed.
    pub(crate) fn believed_dead(&self, node: NodeNumber) -> Vec<NodeNumber> {
        let dead = self.nodes[node].peers.iter().filter(|(_, peer)| peer.health != NodeHealth::Online);
        dead.map(|(number, _)| *number).collect()
    }

    /// Returns the owner of a slot as a node sees it.
    #[cfg(test)]
    pub(crate) fn owner(&self, at: NodeNumber, slot: Slot) -> Option<NodeNumber> {
        self.nodes[at].owner(slot)
    }

    pub(crate) fn service(&self, at: NodeNumber) -> Service {
        self.nodes[at].service
    }

    /// Returns the way in which a node serves slots.
    pub(crate) fn routes(&self, at: NodeNumber) -> Routes {
        let node = &self.nodes[at];
        let mut owners = vec![NO_OWNER; SLOT_COUNT.into()].into_boxed_slice();
        for (number, peer) in node.known() {
            let owner = u16::try_from(number).unwrap_or(NO_OWNER);
            for (first, last) in peer.slots.ranges() {
                if let Some(owners) = owners.get_mut(usize::from(first)..=usize::from(last)) {
                    owners.fill(owner);
                }
            }
        }
        Routes {
            own: at,
            primary: node.own.role.primary(),
            service: node.service,
            owners,
            migrating: node.migrating.clone(),
            importing: node.importing.clone(),
        }
    }

    /// Returns the cluster as a node sees it at a moment, its nodes by number. The wall clock then shows `wall_ms`
    /// milliseconds since 1970; ports are by number.
    pub(crate) fn view(&self, at: NodeNumber, moment: Moment<'_>, wall_ms: i64, ports: &[u16]) -> ClusterView {
        let seer = &self.nodes[at];
        let wall_of = |time_ms| wall_ms.saturating_sub_unsigned(moment.now_ms.saturating_sub(time_ms));
        let known = seer.known().map(|(number, peer)| {
            let view = NodeView { offset: moment.offset(number), ..self.node_view(seer, number, peer, wall_of) };
            (number, view)
        });
        let strangers = seer.handshakes.keys().map(|met| (*met, self.stranger(at, *met)));
        let mut views: Vec<(NodeNumber, NodeView)> = known.chain(strangers).collect();
        views.sort_by_key(|(number, view)| (*number, view.is_in_handshake));
        for (number, view) in &mut views {
            if *number == at {
                view.pong_received_ms = if seer.peers.is_empty() { 0 } else { wall_ms - wall_ms % 1_000 }; // by hearsay
            } else {
                let port = ports.get(*number).copied().unwrap_or(0);
                view.address = NodeAddress::SameHost { port, ip: None, host_name: String::new() };
            }
        }
        let own = views.iter().position(|(number, _)| *number == at).unwrap_or(0);
        let nodes = views.into_iter().map(|(_, view)| view).collect();
        ClusterView { nodes, own, current_epoch: seer.current_epoch, is_ok: seer.service.is_ok(true) }
    }

    /// Returns a known node as one node sees it, without its address and its offset. Times are shown by the wall clock.
    fn node_view(
        &self,
        seer: &ClusterNode,
        number: NodeNumber,
        peer: &SeenNode,
        wall_of: impl Fn(u64) -> i64,
    ) -> NodeView {
        let is_own = number == seer.number;
        let id_of = |number: NodeNumber| self.id(number).to_owned();
        let open = |slots: &BTreeMap<Slot, NodeNumber>| -> Vec<(Slot, String)> {
            slots.iter().filter(|_| is_own).map(|(slot, node)| (*slot, id_of(*node))).collect()
        };
        let primary = peer.role.primary();
        let epoch_source = primary.and_then(|primary| seer.peer(primary)).unwrap_or(peer);
        let unanswered_since_ms = peer.unreachable_since_ms;
        NodeView {
            id: id_of(number),
            shard_id: self.shard_id(peer.shard),
            primary: primary.map(id_of),
            health: peer.health,
            has_no_failover: self.nodes[number].policy.has_no_failover,
            ping_sent_ms: unanswered_since_ms.map_or(0, &wall_of),
            pong_received_ms: wall_of(unanswered_since_ms.unwrap_or(u64::MAX)),
            config_epoch: epoch_source.config_epoch,
            is_connected: unanswered_since_ms.is_none() || self.nodes[number].process == NodeProcess::Paused,
            linked_ms: wall_of(peer.reached_since_ms),
            slots: peer.slots.ranges(),
            migrating: open(&seer.migrating),
            importing: open(&seer.importing),
            failure_reports: self.failure_reports(seer, number).count(),
            ..NodeView::default()
        }
    }

    /// Returns a node that has not answered yet, under the id that it has until then.
    fn stranger(&self, at: NodeNumber, met: NodeNumber) -> NodeView {
        let id = self.derive_id("handshake", at, met);
        NodeView { shard_id: id.clone(), id, is_in_handshake: true, ..NodeView::default() }
    }
}
