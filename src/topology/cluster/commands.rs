//! Commands as a node receives them, with the conditions and the error texts of Redis 7.0.

use std::sync::Arc;

use crate::topology::NodeHealth;
use crate::topology::Slot;
use crate::topology::cluster::failure::Ballot;
use crate::topology::cluster::node::{NodeProcess, NodeRole};
use crate::topology::cluster::slots::SlotSet;
use crate::topology::cluster::{Moment, NodeChange, NodeCommandError, NodeNumber, TopologyCluster};

/// The time for which FORGET keeps others from telling of a node.
const FORGET_MS: u64 = 60_000;

/// The least time for which a node waits for one that it was to meet.
const HANDSHAKE_MS: u64 = 1_000;

/// The actions of CLUSTER SETSLOT, with the ids of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SetSlot {
    Migrating(String),
    Importing(String),
    Node(String),
    Stable,
}

/// The ways of CLUSTER FAILOVER.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FailoverMode {
    /// With the consent of the primary and of a majority.
    #[default]
    Normal,
    /// With the consent of a majority.
    Force,
    /// Without consent.
    Takeover,
}

impl TopologyCluster {
    /// CLUSTER MEET. Nodes that do not reach each other meet when they do, if that is soon.
    pub(crate) fn meet(
        &mut self,
        at: NodeNumber,
        other: NodeNumber,
        moment: Moment<'_>,
    ) -> Result<(), NodeCommandError> {
        self.catch_up(moment);
        let until_ms = self.now_ms.saturating_add(self.node_timeout_ms.max(HANDSHAKE_MS));
        let is_stranger = self.existing(other).is_ok() && self.nodes[at].peer(other).is_none();
        if is_stranger {
            self.nodes[at].handshakes.entry(other).or_insert(until_ms);
        } else if other != at && self.reaches(at, other) {
            self.introduce(at, other); // it may know this node no longer
        }
        self.settle(moment);
        Ok(())
    }

    /// CLUSTER ADDSLOTS and ADDSLOTSRANGE.
    pub(crate) fn add_slots(
        &mut self,
        at: NodeNumber,
        slots: &[Slot],
        moment: Moment<'_>,
    ) -> Result<(), NodeCommandError> {
        self.set_owner(at, slots, Some(at), moment)
    }

    /// CLUSTER DELSLOTS and DELSLOTSRANGE.
    pub(crate) fn del_slots(
        &mut self,
        at: NodeNumber,
        slots: &[Slot],
        moment: Moment<'_>,
    ) -> Result<(), NodeCommandError> {
        self.set_owner(at, slots, None, moment)
    }

    fn set_owner(
        &mut self,
        at: NodeNumber,
        slots: &[Slot],
        owner: Option<NodeNumber>,
        moment: Moment<'_>,
    ) -> Result<(), NodeCommandError> {
        self.catch_up(moment);
        let TopologyCluster { nodes, changes, .. } = self;
        let (node, mut seen) = (&mut nodes[at], SlotSet::default());
        for slot in slots.iter().copied() {
            match (owner, node.owner(slot)) {
                (None, None) => return Err(NodeCommandError::SlotUnassigned(slot)),
                (Some(_), Some(_)) => return Err(NodeCommandError::SlotBusy(slot)),
                _ if !seen.insert(slot) => return Err(NodeCommandError::SlotTwice(slot)),
                _ => {}
            }
        }
        for slot in seen.iter() {
            node.importing.remove(&slot);
            node.bind(slot, owner, changes);
        }
        self.settle(moment);
        Ok(())
    }

    /// CLUSTER FLUSHSLOTS.
    pub(crate) fn flush_slots(
        &mut self,
        at: NodeNumber,
        has_keys: bool,
        moment: Moment<'_>,
    ) -> Result<(), NodeCommandError> {
        self.catch_up(moment);
        if has_keys {
            return Err(NodeCommandError::FlushWithKeys);
        }
        let node = &mut self.nodes[at];
        node.unclaimed = node.unclaimed.without(&node.own.slots);
        node.own.slots = Arc::default();
        self.changes.reroute(at);
        self.settle(moment);
        Ok(())
    }

    /// CLUSTER SETSLOT; `has_keys` tells if the node has keys in the slot.
    pub(crate) fn set_slot(
        &mut self,
        at: NodeNumber,
        slot: Slot,
        action: &SetSlot,
        has_keys: bool,
        moment: Moment<'_>,
    ) -> Result<(), NodeCommandError> {
        self.catch_up(moment);
        if !self.nodes[at].own.role.is_primary() {
            return Err(NodeCommandError::SetSlotAtReplica);
        }
        let is_owner = self.nodes[at].own.slots.contains(slot);
        match action {
            SetSlot::Migrating(_) if !is_owner => return Err(NodeCommandError::NotOwner(slot)),
            SetSlot::Importing(_) if is_owner => return Err(NodeCommandError::OwnerAlready(slot)),
            SetSlot::Migrating(id) => {
                let target = self.known_primary(at, id, NodeCommandError::StrangeNode)?;
                self.nodes[at].migrating.insert(slot, target);
            }
            SetSlot::Importing(id) => {
                let source = self.known_primary(at, id, NodeCommandError::StrangeNode)?;
                self.nodes[at].importing.insert(slot, source);
            }
            SetSlot::Stable => {
                self.nodes[at].migrating.remove(&slot);
                self.nodes[at].importing.remove(&slot);
            }
            SetSlot::Node(id) => {
                let owner = self.known_primary(at, id, NodeCommandError::UnknownNode)?;
                self.assign_slot(at, slot, owner, has_keys)?;
            }
        }
        self.changes.reroute(at);
        self.settle(moment);
        Ok(())
    }

    /// Binds a slot to a node, as seen by the node at which that is asked for.
    fn assign_slot(
        &mut self,
        at: NodeNumber,
        slot: Slot,
        owner: NodeNumber,
        has_keys: bool,
    ) -> Result<(), NodeCommandError> {
        let TopologyCluster { nodes, changes, .. } = self;
        let node = &mut nodes[at];
        let was_owner = node.own.slots.contains(slot);
        if was_owner && owner != at && has_keys {
            return Err(NodeCommandError::SlotHasKeys(slot));
        }
        if !has_keys {
            node.migrating.remove(&slot);
        }
        node.bind(slot, Some(owner), changes);
        if was_owner && owner != at && node.own.slots.is_empty() {
            node.follow(owner, changes);
        }
        if owner == at && node.importing.remove(&slot).is_some() {
            node.bump_epoch();
        }
        Ok(())
    }

    /// CLUSTER FORGET.
    pub(crate) fn forget(&mut self, at: NodeNumber, id: &str, moment: Moment<'_>) -> Result<(), NodeCommandError> {
        self.catch_up(moment);
        let forgotten = self.known(at, id).ok_or_else(|| NodeCommandError::UnknownNode(id.to_owned()))?;
        if forgotten == at {
            return Err(NodeCommandError::ForgetSelf);
        }
        if self.nodes[at].own.role.primary() == Some(forgotten) {
            return Err(NodeCommandError::ForgetPrimary);
        }
        let TopologyCluster { nodes, changes, now_ms, .. } = self;
        nodes[at].forgotten.insert(forgotten, now_ms.saturating_add(FORGET_MS));
        nodes[at].drop_peer(forgotten, changes);
        self.settle(moment);
        Ok(())
    }

    /// CLUSTER REPLICATE; `has_keys` tells if the node has keys.
    pub(crate) fn replicate(
        &mut self,
        at: NodeNumber,
        id: &str,
        has_keys: bool,
        moment: Moment<'_>,
    ) -> Result<(), NodeCommandError> {
        self.catch_up(moment);
        let primary = self.known(at, id).ok_or_else(|| NodeCommandError::UnknownNode(id.to_owned()))?;
        let node = &self.nodes[at];
        if primary == at {
            return Err(NodeCommandError::ReplicateSelf);
        }
        if !node.peer(primary).is_some_and(|peer| peer.role.is_primary()) {
            return Err(NodeCommandError::ReplicateReplica);
        }
        if node.own.role.is_primary() && (has_keys || !node.own.slots.is_empty()) {
            return Err(NodeCommandError::ReplicateWithData);
        }
        let TopologyCluster { nodes, changes, .. } = self;
        nodes[at].follow(primary, changes);
        self.settle(moment);
        Ok(())
    }

    /// CLUSTER FAILOVER. Without the consent that the mode asks for, nothing happens.
    pub(crate) fn cluster_failover(
        &mut self,
        at: NodeNumber,
        mode: FailoverMode,
        moment: Moment<'_>,
    ) -> Result<(), NodeCommandError> {
        self.catch_up(moment);
        self.check_cluster_failover(at, mode)?;
        let node = &self.nodes[at];
        let has_slots = !node.leader().slots.is_empty();
        let has_consent = mode == FailoverMode::Force || node.own.role.primary().is_some_and(|of| self.reaches(at, of));
        if mode == FailoverMode::Takeover {
            let TopologyCluster { nodes, changes, .. } = self;
            nodes[at].bump_epoch();
            nodes[at].replace_primary(changes);
        } else if has_slots && has_consent && self.wins(node, Ballot::Manual) {
            self.promote(at, Ballot::Manual);
        }
        self.settle(moment);
        Ok(())
    }

    /// Checks that a node accepts CLUSTER FAILOVER.
    pub(crate) fn check_cluster_failover(&self, at: NodeNumber, mode: FailoverMode) -> Result<(), NodeCommandError> {
        let node = &self.nodes[at];
        if node.own.role.is_primary() {
            return Err(NodeCommandError::FailoverAtPrimary);
        }
        let primary = node.own.role.primary().ok_or(NodeCommandError::PrimaryUnknown)?;
        let has_failed = node.peer(primary).is_none_or(|peer| peer.health == NodeHealth::Failed);
        let is_linked = self.reaches(at, primary) || self.nodes[primary].process == NodeProcess::Paused;
        if mode == FailoverMode::Normal && (has_failed || !is_linked) {
            return Err(NodeCommandError::PrimaryDown);
        }
        Ok(())
    }

    /// CLUSTER RESET; `has_keys` tells if the node has keys. After a hard one, others know nothing of the node.
    pub(crate) fn reset(
        &mut self,
        at: NodeNumber,
        is_hard: bool,
        has_keys: bool,
        moment: Moment<'_>,
    ) -> Result<(), NodeCommandError> {
        self.catch_up(moment);
        let was_primary = self.nodes[at].own.role.is_primary();
        if was_primary && has_keys {
            return Err(NodeCommandError::ResetWithKeys);
        }
        if is_hard || !was_primary {
            self.nodes[at].own.shard = self.new_shard();
        }
        let node = &mut self.nodes[at];
        (node.own.role, node.own.slots) = (NodeRole::Primary, Arc::default());
        node.unclaimed = SlotSet::default();
        node.peers.clear();
        node.migrating.clear();
        node.importing.clear();
        node.handshakes.clear();
        if is_hard {
            (node.current_epoch, node.last_vote_epoch, node.own.config_epoch) = (0, 0, 0);
            self.rename(at);
            self.forget_everywhere(at);
        }
        self.changes.push(NodeChange::Reset { node: at });
        self.changes.reroute(at);
        self.settle(moment);
        Ok(())
    }

    /// CLUSTER SET-CONFIG-EPOCH.
    pub(crate) fn set_config_epoch(
        &mut self,
        at: NodeNumber,
        epoch: i64,
        moment: Moment<'_>,
    ) -> Result<(), NodeCommandError> {
        self.catch_up(moment);
        let node = &mut self.nodes[at];
        let value = u64::try_from(epoch).map_err(|_| NodeCommandError::InvalidEpoch(epoch))?;
        if !node.peers.is_empty() || !node.handshakes.is_empty() {
            return Err(NodeCommandError::EpochAmongNodes);
        }
        if node.own.config_epoch != 0 {
            return Err(NodeCommandError::EpochSet);
        }
        node.own.config_epoch = value;
        node.current_epoch = node.current_epoch.max(value);
        self.settle(moment);
        Ok(())
    }

    /// CLUSTER BUMPEPOCH; returns the text of its reply.
    pub(crate) fn bump_epoch(&mut self, at: NodeNumber, moment: Moment<'_>) -> Result<String, NodeCommandError> {
        self.catch_up(moment);
        let node = &mut self.nodes[at];
        let word = if node.bump_epoch() { "BUMPED" } else { "STILL" };
        let reply = format!("{word} {}", node.own.config_epoch);
        self.settle(moment);
        Ok(reply)
    }

    /// Returns a node that another one knows by this id.
    fn known(&self, at: NodeNumber, id: &str) -> Option<NodeNumber> {
        self.nodes[at].known().map(|(number, _)| number).find(|number| self.id(*number) == id)
    }

    fn known_primary(
        &self,
        at: NodeNumber,
        id: &str,
        unknown: fn(String) -> NodeCommandError,
    ) -> Result<NodeNumber, NodeCommandError> {
        let number = self.known(at, id).ok_or_else(|| unknown(id.to_owned()))?;
        let is_primary = self.nodes[at].peer(number).is_some_and(|peer| peer.role.is_primary());
        if is_primary { Ok(number) } else { Err(NodeCommandError::TargetIsReplica) }
    }
}
