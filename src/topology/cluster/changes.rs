//! PendingChanges that the owner of the nodes' data and connections must carry out.

use std::collections::BTreeSet;

use crate::topology::Slot;

pub(crate) use crate::topology::NodeNumber;
/// A change of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeChange {
    /// A replica has become a primary.
    Promoted { node: NodeNumber },
    /// A node has become a replica, or the replica of another primary.
    Follows { node: NodeNumber, primary: NodeNumber },
    /// A primary has lost slots to another node, and remains a primary: its keys in them must go.
    LostSlots { node: NodeNumber, slots: Vec<(Slot, Slot)> },
    /// A node is an empty primary that knows only itself: its data must go.
    Reset { node: NodeNumber },
    /// The routes of a node have changed; last in a list of changes, and once for a node.
    Routes { node: NodeNumber },
}

/// PendingChanges since the last time they were taken.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingChanges {
    list: Vec<NodeChange>,
    rerouted: BTreeSet<NodeNumber>,
}

impl PendingChanges {
    pub(super) fn push(&mut self, change: NodeChange) {
        self.list.push(change);
    }

    /// Notes that the routes of a node have changed.
    pub(super) fn reroute(&mut self, node: NodeNumber) {
        self.rerouted.insert(node);
    }

    /// Returns all changes in their order, and forgets them.
    pub(super) fn take(&mut self) -> Vec<NodeChange> {
        let routes = std::mem::take(&mut self.rerouted).into_iter().map(|node| NodeChange::Routes { node });
        let mut list = std::mem::take(&mut self.list);
        list.extend(routes);
        list
    }
}
