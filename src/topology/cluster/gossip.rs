//! Headers and gossip: what nodes tell each other, and what they make of it, by the rules of Redis.

use std::sync::Arc;

use crate::topology::NodeHealth;
use crate::topology::cluster::changes::PendingChanges;
use crate::topology::cluster::node::{ClusterNode, NodeRole, SeenNode};
use crate::topology::cluster::slots::SlotSet;
use crate::topology::cluster::{NodeChange, NodeNumber, TopologyCluster};

/// Upper bound of the rounds in which all nodes tell each other what is new; histories of the tests need fewer than ten.
const ROUNDS: usize = 1_000;

/// The result of a message.
#[derive(Default)]
struct Heard {
    /// True if the receiver's view has changed.
    is_news: bool,
    /// A node that has slots which the sender still claims, under a greater configuration epoch.
    outdates: Option<NodeNumber>,
}

impl TopologyCluster {
    /// Passes messages between all nodes that reach each other until nobody learns anything; returns true if somebody has.
    pub(super) fn exchange(&mut self) -> bool {
        let mut rounds = 0;
        while self.exchange_once() && rounds < ROUNDS {
            rounds += 1;
        }
        debug_assert!(rounds < ROUNDS, "gossip does not end");
        rounds > 0
    }

    fn exchange_once(&mut self) -> bool {
        let (mut is_news, count) = (false, self.nodes.len());
        let existing = self.numbers().count();
        for sender in 0..count {
            for receiver in (0..count).filter(|receiver| *receiver != sender) {
                is_news |= self.deliver(sender, receiver, existing);
            }
        }
        let TopologyCluster { nodes, changes, .. } = self;
        for node in nodes.iter_mut().filter(|node| node.is_running()) {
            is_news |= node.follow_highest(changes);
        }
        is_news
    }

    /// Passes a message from one of the existing nodes to another, and the answer if the sender's slots are outdated.
    fn deliver(&mut self, sender: NodeNumber, receiver: NodeNumber, existing: usize) -> bool {
        let TopologyCluster { nodes, changes, now_ms, .. } = self;
        let Ok([sender, receiver]) = nodes.get_disjoint_mut([sender, receiver]) else { return false };
        if !receiver.reaches(sender) || !receiver.peers.contains_key(&sender.number) {
            return false;
        }
        let mut heard = receiver.hear(sender, changes);
        if receiver.peers.len() + 1 < existing {
            heard.is_news |= receiver.hear_gossip(sender, *now_ms);
        }
        let told = heard.outdates.is_some_and(|owner| sender.learn_owner(receiver, owner, changes));
        heard.is_news || told
    }
}

impl ClusterNode {
    /// Takes in the header of a known node that is reached.
    fn hear(&mut self, sender: &ClusterNode, changes: &mut PendingChanges) -> Heard {
        let mut heard = Heard { is_news: self.hear_epochs_and_role(sender, changes), outdates: None };
        let Some(peer) = self.peers.get(&sender.number) else { return heard };
        let (claims, epoch) = (&sender.leader().slots, sender.leader().config_epoch);
        let leader = if peer.role.is_primary() { Some(peer) } else { peer.role.primary().and_then(|of| self.peer(of)) };
        if leader.is_some_and(|leader| !Arc::ptr_eq(&leader.slots, claims) && leader.slots != *claims) {
            if peer.role.is_primary() {
                heard.is_news |= self.claim(sender.number, epoch, claims, changes);
            }
            heard.outdates = self.owner_since(sender.number, epoch, claims);
        }
        heard.is_news |= self.resolve_collision(sender, epoch);
        heard
    }

    fn hear_epochs_and_role(&mut self, sender: &ClusterNode, changes: &mut PendingChanges) -> bool {
        let of = sender.own.role.primary().filter(|of| self.peer(*of).is_some());
        let Some(peer) = self.peers.get_mut(&sender.number) else { return false };
        let mut is_news = raise(&mut self.current_epoch, sender.current_epoch);
        is_news |= raise(&mut peer.config_epoch, sender.leader().config_epoch);
        is_news |= std::mem::replace(&mut peer.shard, sender.own.shard) != sender.own.shard;
        let role = if sender.own.role.is_primary() {
            NodeRole::Primary
        } else {
            NodeRole::Replica { of: of.or(peer.role.primary()) }
        };
        if peer.role == role {
            return is_news;
        }
        let is_demoted = peer.role.is_primary();
        peer.role = role;
        if is_demoted {
            let lost = std::mem::take(&mut peer.slots);
            self.unclaimed = self.unclaimed.without(&lost);
            self.redirect_open_slots(sender.number, of);
        }
        changes.reroute(self.number);
        true
    }

    /// Replaces a former primary, among those from and to which slots are being moved, by the one that it follows now.
    fn redirect_open_slots(&mut self, former: NodeNumber, present: Option<NodeNumber>) {
        let present = present.filter(|present| *present != self.number);
        for open in [&mut self.migrating, &mut self.importing] {
            open.retain(|_, node| *node != former || present.is_some());
            for node in open.values_mut().filter(|node| **node == former) {
                *node = present.unwrap_or(former);
            }
        }
    }

    /// Binds the slots that a primary claims under a configuration epoch, as far as they are free or were claimed under a
    /// lesser one; returns true if the view has changed. Redis: `clusterUpdateSlotsConfigWith`.
    fn claim(&mut self, claimant: NodeNumber, epoch: u64, claims: &Arc<SlotSet>, changes: &mut PendingChanges) -> bool {
        let leader = self.own.role.primary().unwrap_or(self.number);
        let mut granted = claims.without(&self.kept_for_import(claimant, claims));
        let (mut lost, mut lost_by_leader) = (SlotSet::default(), SlotSet::default());
        let ClusterNode { number: own_number, own, peers, unclaimed, .. } = self;
        for (number, peer) in
            std::iter::once((*own_number, own)).chain(peers.iter_mut().map(|(number, peer)| (*number, peer)))
        {
            let mut taken = granted.and(&peer.slots);
            if number == claimant || taken.is_empty() {
                continue;
            }
            if peer.config_epoch >= epoch {
                granted = granted.without(&taken.without(unclaimed));
                taken = taken.and(unclaimed);
            }
            if !taken.is_empty() {
                peer.slots = Arc::new(peer.slots.without(&taken));
                if number == leader {
                    lost_by_leader = taken.clone();
                }
                if number == *own_number {
                    lost = taken;
                }
            }
        }
        let is_news = self.grant(claimant, claims, &granted, changes);
        // With all slots of the claimant it is a failover, which a replica follows in any case.
        let may_follow = self.policy.may_migrate || lost_by_leader == **claims;
        let is_empty = self.peer(leader).is_some_and(|leader| leader.slots.is_empty());
        if !lost_by_leader.is_empty() && is_empty && may_follow {
            self.follow(claimant, changes);
        } else if !lost.is_empty() {
            changes.push(NodeChange::LostSlots { node: self.number, slots: lost.ranges() });
        }
        is_news
    }

    /// Adds slots to those of a claimant, and notes which of them it does not claim.
    fn grant(
        &mut self,
        claimant: NodeNumber,
        claims: &Arc<SlotSet>,
        granted: &SlotSet,
        changes: &mut PendingChanges,
    ) -> bool {
        let Some(peer) = self.peers.get_mut(&claimant) else { return false };
        let slots = peer.slots.or(granted);
        let unclaimed = self.unclaimed.without(&granted.or(claims).and(&slots)).or(&slots.without(claims));
        let is_granted = slots != *peer.slots;
        if slots == **claims {
            peer.slots = Arc::clone(claims); // told from others at a glance from now on
        } else if is_granted {
            peer.slots = Arc::new(slots);
        }
        let is_news = is_granted || unclaimed != self.unclaimed;
        self.unclaimed = unclaimed;
        if is_granted {
            for (slot, source) in &mut self.importing {
                if granted.contains(*slot) {
                    *source = claimant;
                }
            }
            changes.reroute(self.number);
        }
        is_news
    }

    /// Returns the slots among the claimed ones that stay with their owners, as this node is taking them over: as long as these
    /// claim them, and unless the claimant has replaced the primary from which they are taken.
    fn kept_for_import(&self, claimant: NodeNumber, claims: &SlotSet) -> SlotSet {
        let shard_of = |number| self.peer(number).map(|peer| peer.shard);
        let is_kept = |slot, source| {
            claims.contains(slot)
                && !self.unclaimed.contains(slot)
                && shard_of(source) != shard_of(claimant)
                && self.owner(slot).is_some_and(|owner| owner != claimant)
        };
        self.importing.iter().filter(|(slot, source)| is_kept(**slot, **source)).map(|(slot, _)| *slot).collect()
    }

    /// Returns the owner of the lowest of the slots that a sender claims and another node has under a greater epoch.
    fn owner_since(&self, sender: NodeNumber, epoch: u64, claims: &SlotSet) -> Option<NodeNumber> {
        let newer = self.known().filter(|(number, peer)| *number != sender && peer.config_epoch > epoch);
        let contested = newer
            .filter_map(|(number, peer)| Some((claims.and(&peer.slots).without(&self.unclaimed).first()?, number)));
        contested.min().map(|(_, number)| number)
    }

    /// Learns from another node of an owner of slots. Redis: the message UPDATE.
    fn learn_owner(&mut self, messenger: &ClusterNode, owner: NodeNumber, changes: &mut PendingChanges) -> bool {
        let Some(told) = messenger.peer(owner).filter(|_| self.peers.contains_key(&messenger.number)) else {
            return false;
        };
        let Some(peer) = self.peers.get_mut(&owner).filter(|peer| peer.config_epoch < told.config_epoch) else {
            return false;
        };
        peer.config_epoch = told.config_epoch;
        peer.role = NodeRole::Primary;
        self.claim(owner, told.config_epoch, &told.slots, changes);
        true
    }

    /// Takes another epoch if a primary with a greater id has the same one.
    fn resolve_collision(&mut self, sender: &ClusterNode, epoch: u64) -> bool {
        let are_primaries = self.own.role.is_primary() && sender.own.role.is_primary();
        let yields = are_primaries && epoch == self.own.config_epoch && sender.id > self.id;
        if yields {
            self.current_epoch += 1;
            self.own.config_epoch = self.current_epoch;
        }
        yields
    }

    /// Gets to know the nodes that a sender knows.
    fn hear_gossip(&mut self, sender: &ClusterNode, now_ms: u64) -> bool {
        let mut is_news = false;
        for (number, rumour) in &sender.peers {
            let is_worth_it = rumour.unreachable_since_ms.is_none()
                || rumour.health == NodeHealth::Suspected
                || !rumour.slots.is_empty();
            if is_worth_it && self.peer(*number).is_none() && !self.forgotten.contains_key(number) {
                is_news = true;
                self.peers.insert(*number, SeenNode::by_hearsay(rumour, now_ms));
            }
        }
        is_news
    }

    /// Follows the primary of its primary, if that one has become a replica.
    fn follow_highest(&mut self, changes: &mut PendingChanges) -> bool {
        let Some(primary) = self.own.role.primary() else { return false };
        let mut highest = primary;
        for _ in 0..=self.peers.len() {
            match self.peers.get(&highest).map(|peer| peer.role) {
                Some(NodeRole::Replica { of: Some(next) }) if next != self.number => highest = next,
                Some(NodeRole::Primary) if highest != primary => {
                    self.follow(highest, changes);
                    return true;
                }
                _ => return false,
            }
        }
        false
    }
}

impl SeenNode {
    /// Returns a node as it is first known, when another node tells of it.
    fn by_hearsay(rumour: &SeenNode, now_ms: u64) -> Self {
        let role = match rumour.role {
            NodeRole::Primary => NodeRole::Primary,
            NodeRole::Replica { .. } => NodeRole::Replica { of: None },
        };
        SeenNode {
            role,
            shard: rumour.shard,
            health: rumour.health,
            reached_since_ms: now_ms,
            unreachable_since_ms: rumour.unreachable_since_ms.map(|_| now_ms),
            ..SeenNode::default()
        }
    }
}

fn raise(value: &mut u64, to: u64) -> bool {
    let is_less = *value < to;
    *value = to.max(*value);
    is_less
}
