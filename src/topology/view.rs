//! A cluster as one of its nodes sees it: the value that the replies of CLUSTER NODES, SLOTS and SHARDS are written from.

use crate::topology::{NodeIdentity, SLOT_COUNT, Slot};

/// The cluster as seen by one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClusterView {
    /// The known nodes, in a fixed order.
    pub(crate) nodes: Vec<NodeView>,
    /// The index of the node that sees them.
    pub(crate) own: usize,
    /// The greatest epoch that the node has seen.
    pub(crate) current_epoch: u64,
    /// True if the node serves keys: all slots that must be covered are.
    pub(crate) is_ok: bool,
}

impl ClusterView {
    /// Returns the view of a node that is alone and has all slots.
    pub(crate) fn of_one(node: &NodeIdentity) -> Self {
        let own = NodeView {
            id: node.id.clone(),
            shard_id: node.shard_id.clone(),
            is_connected: true,
            slots: vec![(0, SLOT_COUNT - 1)],
            ..NodeView::default()
        };
        ClusterView { nodes: vec![own], own: 0, current_epoch: 0, is_ok: true }
    }

    /// Returns the node that sees the others.
    ///
    /// # Panics
    /// A view without it.
    pub(crate) fn own(&self) -> &NodeView {
        &self.nodes[self.own]
    }

    /// Returns true for the node that sees the others.
    pub(crate) fn is_own(&self, node: &NodeView) -> bool {
        self.own().id == node.id
    }

    /// Returns the replicas of a primary.
    pub(crate) fn replicas_of<'a>(&'a self, primary: &'a NodeView) -> impl Iterator<Item = &'a NodeView> {
        self.nodes.iter().filter(|node| node.primary.as_ref() == Some(&primary.id))
    }
}

/// A node as seen by one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeView {
    pub(crate) id: String,
    pub(crate) shard_id: String,
    pub(crate) address: NodeAddress,
    /// The id of its primary, in a replica.
    pub(crate) primary: Option<String>,
    pub(crate) health: NodeHealth,
    /// True if it does not stand for election.
    pub(crate) has_no_failover: bool,
    /// True before the two nodes have met.
    pub(crate) is_in_handshake: bool,
    /// Times of the last unanswered ping and of the last answer, in milliseconds since 1970; 0 without one.
    pub(crate) ping_sent_ms: i64,
    pub(crate) pong_received_ms: i64,
    /// The epoch of its slots; that of its primary, in a replica.
    pub(crate) config_epoch: u64,
    /// True if the link to the node is up.
    pub(crate) is_connected: bool,
    /// The time since which it is, in milliseconds since 1970.
    pub(crate) linked_ms: i64,
    /// Its slots, in ranges of first and last.
    pub(crate) slots: Vec<(Slot, Slot)>,
    /// Slots that the seeing node is moving to other nodes, with their ids; empty for other nodes.
    pub(crate) migrating: Vec<(Slot, String)>,
    /// Slots that the seeing node is taking over from other nodes, with their ids; empty for other nodes.
    pub(crate) importing: Vec<(Slot, String)>,
    /// The number of nodes that report it as failing.
    pub(crate) failure_reports: usize,
    /// The position in the log that it has reached; the seeing node's own is filled in for each reply.
    pub(crate) offset: u64,
}

/// The belief of a node about another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NodeHealth {
    #[default]
    Online,
    /// The seeing node has had no answer for the timeout: `fail?`.
    Suspected,
    /// A majority of the primaries has had none: `fail`.
    Failed,
}

/// Address of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum NodeAddress {
    /// The seeing node itself: the address that the settings announce, or that the client has reached.
    #[default]
    Own,
    /// Another port of the host that the client has reached, or of the one that the node announces.
    SameHost { port: u16, ip: Option<String>, host_name: String },
    /// An address of its own; ports are 0 where there is none of the kind.
    #[cfg_attr(not(any(test, feature = "etcd")), allow(dead_code, reason = "nodes of an engine"))]
    At { ip: String, port: u16, tls_port: u16, bus_port: u16, host_name: String },
}
