//! Replicas that move to primaries without any, by the rules of Redis (`clusterHandleSlaveMigration`).

use crate::topology::NodeHealth;
use crate::topology::cluster::node::{ClusterNode, ReplicaPolicy, SeenNode};
use crate::topology::cluster::{NodeNumber, TopologyCluster};

/// Time for which a primary has no replica before one moves to it, in milliseconds.
const MIGRATION_DELAY_MS: u64 = 5_000;

impl TopologyCluster {
    /// Sets the policies of the nodes, by number.
    pub(crate) fn follow_policies(&mut self, policies: &[ReplicaPolicy]) {
        for (node, policy) in self.nodes.iter_mut().zip(policies) {
            node.policy = *policy;
        }
    }

    /// Returns true if these are the policies of the nodes, by number.
    pub(crate) fn has_policies(&self, policies: impl Iterator<Item = ReplicaPolicy>) -> bool {
        self.nodes.iter().zip(policies).all(|(node, policy)| node.policy == policy)
    }

    /// Notes at every node which primaries may be given replicas, and moves one replica that is to go; returns true if there
    /// is one.
    pub(super) fn migrate_replica(&mut self) -> bool {
        let ids: Vec<String> = self.nodes.iter().map(|node| node.id.clone()).collect();
        let TopologyCluster { nodes, changes, now_ms, .. } = self;
        for node in nodes.iter_mut().filter(|node| node.is_running()) {
            node.note_takers();
            if let Some(primary) = node.primary_to_join(&ids, *now_ms) {
                node.follow(primary, changes);
                return true;
            }
        }
        false
    }
}

impl ClusterNode {
    /// Returns the numbers of the known replicas of a primary.
    fn replicas_of(&self, primary: NodeNumber) -> impl Iterator<Item = (NodeNumber, &SeenNode)> {
        self.known().filter(move |(_, peer)| peer.role.primary() == Some(primary))
    }

    /// Notes which primaries have had replicas, or have got slots while others had some: only these are given replicas.
    fn note_takers(&mut self) {
        let primaries: Vec<(NodeNumber, bool)> =
            self.known().map(|(number, _)| (number, self.replicas_of(number).next().is_some())).collect();
        let are_there_replicas = primaries.iter().any(|(_, has_replicas)| *has_replicas);
        for (number, has_replicas) in primaries {
            let Some(peer) = self.peers.get_mut(&number) else { continue };
            let has_slots = !peer.slots.is_empty();
            let gets_slots = has_slots && !std::mem::replace(&mut peer.had_slots, has_slots);
            let had_replicas = std::mem::replace(&mut peer.had_replicas, has_replicas);
            peer.takes_replicas |= has_replicas || gets_slots && are_there_replicas;
            peer.takes_replicas &= has_replicas || !had_replicas;
        }
    }

    /// Returns the primary without replicas that this replica is to join, if it is the one that goes.
    fn primary_to_join(&mut self, ids: &[String], now_ms: u64) -> Option<NodeNumber> {
        let own = self.own.role.primary()?;
        let is_fine = |number: NodeNumber| {
            self.peers.get(&number).is_some_and(|peer| peer.role.is_primary() && peer.health != NodeHealth::Failed)
        };
        let working = |primary: NodeNumber| {
            self.replicas_of(primary).filter(|(_, replica)| replica.health != NodeHealth::Failed).count()
        };
        let counts: Vec<(NodeNumber, usize)> =
            self.peers.keys().filter(|number| is_fine(**number)).map(|number| (*number, working(*number))).collect();
        let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(0);
        let is_orphan = |(number, count): &(NodeNumber, usize)| {
            *count == 0 && self.peers.get(number).is_some_and(|peer| !peer.slots.is_empty() && peer.takes_replicas)
        };
        let orphans: Vec<NodeNumber> =
            counts.iter().filter(|pair| is_orphan(pair)).map(|(number, _)| *number).collect();
        let answering =
            self.replicas_of(own).filter(|(_, replica)| replica.health == NodeHealth::Online).count() as u64;
        let may_go = self.policy.may_migrate
            && !self.policy.has_no_failover
            && self.service.is_ok(true)
            && most >= 2
            && counts.contains(&(own, most))
            && answering > self.policy.migration_barrier;
        let id = |number: NodeNumber| ids.get(number);
        let candidates =
            counts.iter().filter(|(_, count)| *count == most).flat_map(|(primary, _)| self.replicas_of(*primary));
        let is_first = candidates.map(|(number, _)| number).min_by_key(|number| id(*number)) == Some(self.number);
        for (number, peer) in &mut self.peers {
            let is_waiting = may_go && orphans.contains(number);
            let since_ms = peer.orphaned_since_ms.unwrap_or(now_ms);
            peer.orphaned_since_ms = is_waiting.then_some(since_ms);
        }
        let target = *orphans.first().filter(|_| may_go && is_first)?;
        let since_ms = self.peers.get(&target)?.orphaned_since_ms?;
        (now_ms.saturating_sub(since_ms) >= MIGRATION_DELAY_MS).then_some(target)
    }

    /// Returns the next time at which a primary has been without replicas for long enough.
    pub(super) fn migration_due_ms(&self, now_ms: u64) -> Option<u64> {
        let since = self.peers.values().filter_map(|peer| peer.orphaned_since_ms);
        since.map(|since_ms| since_ms + MIGRATION_DELAY_MS).filter(|due_ms| *due_ms > now_ms).min()
    }
}
