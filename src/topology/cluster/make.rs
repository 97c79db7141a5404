//! Making clusters, and the ids of nodes and shards.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::topology::cluster::changes::PendingChanges;
use crate::topology::cluster::node::{ClusterNode, NodeRole, SeenNode};
use crate::topology::cluster::slots::SlotSet;
use crate::topology::cluster::{NodeNumber, TopologyCluster};
use crate::topology::{SLOT_COUNT, Slot};

/// The shape of a cluster that is made ready for use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterPlan {
    pub(crate) primaries: usize,
    /// The number of replicas of each primary.
    pub(crate) replicas: usize,
    /// The time after which a node that does not answer is suspected.
    pub(crate) node_timeout_ms: u64,
}

impl TopologyCluster {
    /// Makes a cluster as `redis-cli --cluster create` leaves it: slots dealt out evenly to the primaries, a configuration
    /// epoch for each node, replicas dealt out in turn, and all nodes known to each other.
    pub(crate) fn new(name: &str, plan: ClusterPlan, now_ms: u64) -> Self {
        let count = plan.primaries.saturating_mul(plan.replicas.saturating_add(1));
        let mut cluster = TopologyCluster::empty(name, count, plan.node_timeout_ms, now_ms);
        let dealt = deal(plan.primaries);
        let peer_of = |number: NodeNumber| SeenNode {
            role: role_of(number, plan.primaries),
            config_epoch: epoch_of(number),
            slots: dealt.get(number).cloned().unwrap_or_default(),
            shard: number % plan.primaries.max(1),
            reached_since_ms: now_ms,
            ..SeenNode::default()
        };
        let peers: BTreeMap<NodeNumber, SeenNode> = (0..count).map(|number| (number, peer_of(number))).collect();
        for node in &mut cluster.nodes {
            node.peers = peers.clone();
            node.own = node.peers.remove(&node.number).unwrap_or_default();
            node.current_epoch = epoch_of(count.saturating_sub(1));
            node.update_state();
        }
        cluster
    }

    /// Makes nodes that know only themselves.
    pub(crate) fn empty(name: &str, count: usize, node_timeout_ms: u64, now_ms: u64) -> Self {
        let (nodes, changes) = (Vec::new(), PendingChanges::default());
        let mut cluster = TopologyCluster {
            name: name.to_owned(),
            node_timeout_ms,
            now_ms,
            nodes,
            shards: 0,
            changes,
            is_held: false,
        };
        for _ in 0..count {
            cluster.create();
        }
        cluster
    }

    /// Creates a node that knows only itself.
    pub(super) fn create(&mut self) -> NodeNumber {
        let (number, shard) = (self.nodes.len(), self.new_shard());
        self.nodes.push(ClusterNode::new(number, self.derive_id("node", number, 0), shard));
        number
    }

    pub(super) fn new_shard(&mut self) -> usize {
        self.shards += 1;
        self.shards - 1
    }

    /// Returns the id of a shard.
    pub(super) fn shard_id(&self, shard: usize) -> String {
        self.derive_id("shard", shard, 0)
    }

    /// Gives a node another id.
    pub(super) fn rename(&mut self, number: NodeNumber) {
        let former_ids = self.nodes[number].former_ids + 1;
        let id = self.derive_id("node", number, former_ids);
        let node = &mut self.nodes[number];
        (node.id, node.former_ids) = (id, former_ids);
    }

    /// Derives forty hexadecimal digits.
    pub(super) fn derive_id(&self, kind: &str, number: usize, variant: usize) -> String {
        let text = format!("{}/{kind}/{number}/{variant}", self.name);
        let seed = text.bytes().fold(0xcbf2_9ce4_8422_2325, fnv_1a);
        let [first, second, third] = [1, 2, 3].map(|step: u64| mix(step.wrapping_mul(GOLDEN).wrapping_add(seed)));
        format!("{first:016x}{second:016x}{:08x}", third >> 32)
    }
}

/// The fractional part of the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn fnv_1a(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
}

/// Mixes the bits of a number, as SplitMix64 does.
fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn role_of(number: NodeNumber, primaries: usize) -> NodeRole {
    if number < primaries { NodeRole::Primary } else { NodeRole::Replica { of: Some(number % primaries.max(1)) } }
}

/// Returns the configuration epoch that redis-cli gives the node.
fn epoch_of(number: NodeNumber) -> u64 {
    u64::try_from(number).map_or(u64::MAX, |number| number.saturating_add(1))
}

/// Deals all slots out to primaries, by the floating-point arithmetic of redis-cli.
fn deal(primaries: usize) -> Vec<Arc<SlotSet>> {
    let share = f32::from(SLOT_COUNT) / primaries as f32;
    let (mut first, mut cursor) = (0, 0.0f32);
    let mut deal_one = |number: usize| {
        let is_last = number + 1 == primaries;
        let last = if is_last { SLOT_COUNT - 1 } else { (cursor + share - 1.0).round() as Slot };
        let range = SlotSet::range(first, last.min(SLOT_COUNT - 1));
        (first, cursor) = (last.saturating_add(1), cursor + share);
        Arc::new(range)
    };
    (0..primaries).map(&mut deal_one).collect()
}
