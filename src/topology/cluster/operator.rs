//! Commands of an operator: failovers, nodes that join and leave, slots that move.

use crate::topology::cluster::failure::Ballot;
use crate::topology::cluster::node::{ClusterNode, NodeProcess};
use crate::topology::cluster::{Moment, NodeNumber, TopologyCluster, TopologyError};
use crate::topology::{SLOT_COUNT, Slot};

impl TopologyCluster {
    /// Makes a replica that reaches a majority of the primaries the primary in place of its own, whether that one is up or
    /// not.
    pub(crate) fn failover(&mut self, node: NodeNumber, moment: Moment<'_>) -> Result<(), TopologyError> {
        self.catch_up(moment);
        self.check_replica(node)?;
        let replica = &self.nodes[node];
        if replica.own.role.primary().is_none() {
            return Err(TopologyError::PrimaryUnknown(node));
        }
        if !self.wins(replica, Ballot::Manual) {
            return Err(TopologyError::NoMajority(node));
        }
        self.promote(node, Ballot::Manual);
        self.settle(moment);
        Ok(())
    }

    /// Adds a node that has met the others: an empty primary, or the replica of a primary, on that one's side of a partition.
    pub(crate) fn add(
        &mut self,
        replica_of: Option<NodeNumber>,
        moment: Moment<'_>,
    ) -> Result<NodeNumber, TopologyError> {
        self.catch_up(moment);
        let contact = match replica_of {
            Some(primary) => {
                if !self.running(primary)?.own.role.is_primary() {
                    return Err(TopologyError::IsReplica(primary));
                }
                primary
            }
            None => self.contact().ok_or(TopologyError::NoneUp)?,
        };
        let added = self.create();
        self.nodes[added].is_cut_off = self.nodes[contact].is_cut_off;
        self.introduce(added, contact);
        self.introduce(contact, added);
        self.settle(moment);
        if let Some(primary) = replica_of {
            let TopologyCluster { nodes, changes, .. } = self;
            nodes[added].follow(primary, changes);
            self.settle(moment);
        }
        self.changes.reroute(added);
        Ok(added)
    }

    /// Checks that a node is up, and a replica.
    pub(crate) fn check_replica(&self, node: NodeNumber) -> Result<(), TopologyError> {
        let is_primary = self.running(node)?.own.role.is_primary();
        if is_primary { Err(TopologyError::IsPrimary(node)) } else { Ok(()) }
    }

    /// Returns the node that a new one meets: the first that is up, not cut off if possible.
    fn contact(&self) -> Option<NodeNumber> {
        let running = self.nodes.iter().filter(|node| node.is_running());
        running.min_by_key(|node| (node.is_cut_off, node.number)).map(|node| node.number)
    }

    /// Removes a node without slots and without replicas; all others forget it.
    pub(crate) fn remove(&mut self, node: NodeNumber, moment: Moment<'_>) -> Result<(), TopologyError> {
        self.catch_up(moment);
        self.existing(node)?;
        let mut others = self.nodes.iter().filter(|other| !other.is_gone() && other.number != node).peekable();
        if others.peek().is_none() {
            return Err(TopologyError::IsLast(node));
        }
        let has_slots = |seer: &ClusterNode| seer.peer(node).is_some_and(|peer| !peer.slots.is_empty());
        if others.clone().any(|other| other.is_running() && has_slots(other)) || has_slots(&self.nodes[node]) {
            return Err(TopologyError::HasSlots(node));
        }
        if others.any(|other| other.own.role.primary() == Some(node)) {
            return Err(TopologyError::HasReplicas(node));
        }
        self.nodes[node].process = NodeProcess::Removed;
        self.forget_everywhere(node);
        self.settle(moment);
        Ok(())
    }

    /// Drops a node from the views of all others, which may get to know it under another id.
    pub(super) fn forget_everywhere(&mut self, node: NodeNumber) {
        let TopologyCluster { nodes, changes, .. } = self;
        for other in nodes.iter_mut().filter(|other| other.number != node) {
            other.drop_peer(node, changes);
            other.forgotten.remove(&node);
        }
    }

    /// Marks slots as on their way from their owners to a primary, which must all be up, know each other and reach a
    /// majority. Slots that are marked so already stay marked.
    pub(crate) fn begin_migration(
        &mut self,
        first: Slot,
        last: Slot,
        to: NodeNumber,
        moment: Moment<'_>,
    ) -> Result<(), TopologyError> {
        self.catch_up(moment);
        let owners = self.owners_to_move((first, last), to)?;
        for (slot, owner) in owners {
            self.nodes[owner].migrating.insert(slot, to);
            self.nodes[to].importing.insert(slot, owner);
            self.changes.reroute(owner);
        }
        self.changes.reroute(to);
        self.settle(moment);
        Ok(())
    }

    /// Gives slots to a primary, under a configuration epoch that is greater than that of their owners; conditions are those
    /// of the beginning. All that reach it know before this returns.
    pub(crate) fn finish_migration(
        &mut self,
        first: Slot,
        last: Slot,
        to: NodeNumber,
        moment: Moment<'_>,
    ) -> Result<(), TopologyError> {
        self.catch_up(moment);
        let owners = self.owners_to_move((first, last), to)?;
        let TopologyCluster { nodes, changes, .. } = self;
        for (slot, owner) in owners {
            nodes[owner].migrating.remove(&slot);
            nodes[to].importing.remove(&slot);
            nodes[to].bind(slot, Some(to), changes);
        }
        nodes[to].bump_epoch();
        self.settle(moment);
        Ok(())
    }

    /// Returns the owners of slots that are to be moved to a node.
    fn owners_to_move(
        &self,
        (first, last): (Slot, Slot),
        to: NodeNumber,
    ) -> Result<Vec<(Slot, NodeNumber)>, TopologyError> {
        let target = self.running(to)?;
        if !target.own.role.is_primary() {
            return Err(TopologyError::IsReplica(to));
        }
        if first > last || last >= SLOT_COUNT {
            return Err(TopologyError::NoSlots);
        }
        if !self.reaches_majority(target) {
            return Err(TopologyError::NoMajority(to));
        }
        (first..=last).map(|slot| Ok((slot, self.owner_to_move(slot, target)?))).collect()
    }

    fn owner_to_move(&self, slot: Slot, target: &ClusterNode) -> Result<NodeNumber, TopologyError> {
        let to = target.number;
        let number = target.owner(slot).ok_or(TopologyError::NoOwner(slot))?;
        if number == to {
            return Err(TopologyError::OwnsSlot(to, slot));
        }
        let owner = self.running(number)?;
        if !owner.reaches(target) {
            return Err(TopologyError::CutOff(number, to));
        }
        if !owner.peers.contains_key(&to) {
            return Err(TopologyError::NeverMet(number, to));
        }
        if !owner.own.slots.contains(slot) {
            return Err(TopologyError::NoOwner(slot));
        }
        match owner.migrating.get(&slot) {
            Some(other) if *other != to => Err(TopologyError::IsMoving(slot, *other)),
            _ => Ok(number),
        }
    }
}
