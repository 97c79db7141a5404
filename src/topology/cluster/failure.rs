//! Suspicion, failure and elections, all in the instant in which Redis' timeout is reached.

use std::cmp::Reverse;

use crate::topology::NodeHealth;
use crate::topology::cluster::node::{ClusterNode, SeenNode};
use crate::topology::cluster::{Moment, NodeNumber, TopologyCluster};

impl TopologyCluster {
    /// Makes every node notice who is reached and who has not been for the timeout, complete or give up handshakes, and
    /// remember what it was to forget for a time; returns true if a view has changed.
    pub(super) fn observe_links(&mut self) -> bool {
        let mut is_news = false;
        for node in 0..self.nodes.len() {
            let reached: Vec<bool> = self.nodes.iter().map(|other| self.nodes[node].reaches(other)).collect();
            if !self.nodes[node].is_running() {
                continue;
            }
            is_news |= self.meet_reached(node, &reached);
            let (now_ms, timeout_ms) = (self.now_ms, self.node_timeout_ms);
            let observer = &mut self.nodes[node];
            observer.forgotten.retain(|_, until_ms| now_ms < *until_ms);
            for (number, peer) in &mut observer.peers {
                let is_reached = reached.get(*number).copied().unwrap_or(false);
                is_news |= peer.observe(is_reached, now_ms, timeout_ms);
            }
        }
        is_news
    }

    /// Completes the handshakes with nodes that are reached, and gives up those that have lasted too long.
    fn meet_reached(&mut self, node: NodeNumber, reached: &[bool]) -> bool {
        let is_reached = |other: NodeNumber| reached.get(other).copied().unwrap_or(false);
        let met: Vec<NodeNumber> =
            self.nodes[node].handshakes.keys().copied().filter(|other| is_reached(*other)).collect();
        for other in &met {
            self.introduce(node, *other);
            self.introduce(*other, node);
        }
        let now_ms = self.now_ms;
        self.nodes[node].handshakes.retain(|other, until_ms| !is_reached(*other) && now_ms < *until_ms);
        !met.is_empty()
    }

    /// Makes a node known to another one.
    pub(super) fn introduce(&mut self, node: NodeNumber, to: NodeNumber) {
        let stranger = &self.nodes[node].own;
        let peer = SeenNode { shard: stranger.shard, reached_since_ms: self.now_ms, ..SeenNode::default() };
        if node != to {
            self.nodes[to].peers.entry(node).or_insert(peer);
        }
    }

    /// Marks as failed the nodes that a majority suspects, at all that those who see it reach; returns true if there is one.
    pub(super) fn mark_failed(&mut self) -> bool {
        let mut is_news = false;
        for node in 0..self.nodes.len() {
            let seer = &self.nodes[node];
            let suspects = seer.peers.iter().filter(|(_, peer)| peer.health == NodeHealth::Suspected);
            let failed = suspects.map(|(suspect, _)| *suspect).filter(|suspect| self.has_failed(seer, *suspect));
            for failed in failed.collect::<Vec<_>>() {
                is_news = true;
                self.announce_failure(node, failed);
            }
        }
        is_news
    }

    fn has_failed(&self, seer: &ClusterNode, suspect: NodeNumber) -> bool {
        let votes = self.failure_reports(seer, suspect).count() + usize::from(seer.own.is_voter());
        seer.is_running() && votes >= seer.quorum()
    }

    /// Returns the primaries with slots that report a node as failing to the given one.
    pub(super) fn failure_reports(&self, to: &ClusterNode, suspect: NodeNumber) -> impl Iterator<Item = NodeNumber> {
        let voters = to.peers.iter().filter(|(_, peer)| peer.is_voter());
        voters.map(|(number, _)| *number).filter(move |number| {
            let reporter = &self.nodes[*number];
            let belief = reporter.peers.get(&suspect).map(|peer| peer.health);
            reporter.reaches(to) && belief.is_some_and(|health| health != NodeHealth::Online)
        })
    }

    /// Marks a node as failed at the node that has found it out, and at those that hear it from there.
    fn announce_failure(&mut self, node: NodeNumber, failed: NodeNumber) {
        let hears = |listener: &ClusterNode| listener.reaches(&self.nodes[node]) && listener.peers.contains_key(&node);
        let listeners: Vec<NodeNumber> =
            self.nodes.iter().filter(|other| other.number == node || hears(other)).map(|other| other.number).collect();
        for listener in listeners {
            if let Some(peer) = self.nodes[listener].peers.get_mut(&failed) {
                peer.health = NodeHealth::Failed;
            }
        }
    }

    /// Promotes the best replica of the first failed primary that has one which a majority votes for; returns true if there
    /// is one.
    pub(super) fn elect(&mut self, moment: Moment<'_>) -> bool {
        let candidates = self.nodes.iter().filter(|node| {
            let primary = node.own.role.primary().and_then(|primary| node.peers.get(&primary));
            let has_failed = |primary: &SeenNode| primary.health == NodeHealth::Failed && !primary.slots.is_empty();
            !node.policy.has_no_failover && primary.is_some_and(has_failed) && self.wins(node, Ballot::OfFailed)
        });
        let rank = |node: &&ClusterNode| (node.own.role.primary(), Reverse(moment.offset(node.number)), node.number);
        let Some(elected) = candidates.min_by_key(rank).map(|node| node.number) else { return false };
        self.promote(elected, Ballot::OfFailed);
        true
    }

    /// Returns true if a majority of the primaries votes for a replica.
    pub(super) fn wins(&self, replica: &ClusterNode, ballot: Ballot) -> bool {
        replica.is_running() && self.voters(replica, ballot).count() >= replica.quorum()
    }

    /// Returns the primaries with slots that vote for a replica. Redis: `clusterSendFailoverAuthIfNeeded`.
    fn voters(&self, replica: &ClusterNode, ballot: Ballot) -> impl Iterator<Item = NodeNumber> {
        let asked = replica.peers.iter().filter(|(_, peer)| peer.is_voter()).map(|(number, _)| &self.nodes[*number]);
        let voters = asked.filter(move |voter| voter.reaches(replica) && voter.grants_vote(replica, ballot));
        voters.map(|voter| voter.number)
    }

    /// Makes a replica that has won a ballot a primary, in an epoch of its own.
    pub(super) fn promote(&mut self, replica: NodeNumber, ballot: Ballot) {
        let voters: Vec<NodeNumber> = self.voters(&self.nodes[replica], ballot).collect();
        let TopologyCluster { nodes, changes, .. } = self;
        let elected = &mut nodes[replica];
        elected.current_epoch += 1;
        let epoch = elected.current_epoch;
        elected.own.config_epoch = epoch.max(elected.own.config_epoch);
        elected.replace_primary(changes);
        for voter in voters {
            let voter = &mut nodes[voter];
            voter.current_epoch = epoch.max(voter.current_epoch);
            voter.last_vote_epoch = voter.current_epoch;
        }
    }

    /// Returns true if a node reaches a majority of the primaries that have slots, as it knows them.
    pub(super) fn reaches_majority(&self, node: &ClusterNode) -> bool {
        let voters = node.known().filter(|(_, peer)| peer.is_voter());
        voters.filter(|(number, _)| self.nodes[*number].reaches(node)).count() >= node.quorum()
    }

    /// Computes of every running node whether it serves keys.
    pub(super) fn update_states(&mut self) {
        let TopologyCluster { nodes, changes, .. } = self;
        for node in nodes.iter_mut().filter(|node| node.is_running()) {
            if node.update_state() {
                changes.reroute(node.number);
            }
        }
    }

    /// Returns the next time at which something happens by itself: a node is suspected, a handshake is given up, a node that
    /// was to be forgotten may be known again, or a replica moves.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        let running = self.nodes.iter().filter(|node| node.is_running());
        running.filter_map(|node| node.next_due_ms(self.node_timeout_ms, self.now_ms)).min()
    }
}

/// The reason of an election.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ballot {
    /// The primary has failed.
    OfFailed,
    /// An operator asks for it, whether the primary has failed or not.
    Manual,
}

impl ClusterNode {
    fn grants_vote(&self, replica: &ClusterNode, ballot: Ballot) -> bool {
        let Some(primary) = self.peers.get(&replica.number).and_then(|peer| self.peer(peer.role.primary()?)) else {
            return false;
        };
        let (claims, epoch) = (&replica.leader().slots, replica.leader().config_epoch);
        let has_newer =
            |peer: &SeenNode| peer.config_epoch > epoch && !peer.slots.and(claims).without(&self.unclaimed).is_empty();
        self.own.is_voter()
            && self.current_epoch.max(self.last_vote_epoch + 1) <= replica.current_epoch + 1
            && (ballot == Ballot::Manual || primary.health == NodeHealth::Failed)
            && !self.known().any(|(_, peer)| has_newer(peer))
    }

    fn next_due_ms(&self, timeout_ms: u64, now_ms: u64) -> Option<u64> {
        let trusted = self.peers.values().filter(|peer| peer.health == NodeHealth::Online);
        let suspicions =
            trusted.filter_map(|peer| peer.unreachable_since_ms).map(|since| since.saturating_add(timeout_ms));
        let untils = self.forgotten.values().chain(self.handshakes.values()).copied();
        suspicions.chain(untils).chain(self.migration_due_ms(now_ms)).min()
    }
}

impl SeenNode {
    /// Notes if the node is reached; returns true if what is believed of it has changed.
    fn observe(&mut self, is_reached: bool, now_ms: u64, timeout_ms: u64) -> bool {
        if is_reached && self.unreachable_since_ms.take().is_some() {
            self.reached_since_ms = now_ms;
        }
        let since_ms = (!is_reached).then(|| *self.unreachable_since_ms.get_or_insert(now_ms));
        let health = match since_ms {
            None => NodeHealth::Online,
            Some(since_ms) if self.health == NodeHealth::Online && now_ms.saturating_sub(since_ms) >= timeout_ms => {
                NodeHealth::Suspected
            }
            Some(_) => self.health,
        };
        std::mem::replace(&mut self.health, health) != health
    }
}
