//! The rules by table, one test a rule, and histories by chance.

mod commands;
mod histories;
mod operators;
mod rules;

use crate::topology::cluster::{ClusterPlan, Moment, NodeChange, NodeNumber, NodeRole, TopologyCluster};

pub(super) const TIMEOUT_MS: u64 = 15_000;

/// A cluster that is ready, made at time 0.
pub(super) fn made(primaries: usize, replicas: usize) -> TopologyCluster {
    TopologyCluster::new("c", ClusterPlan { primaries, replicas, node_timeout_ms: TIMEOUT_MS }, 0)
}

/// A time at which no node has data.
pub(super) fn at(now_ms: u64) -> Moment<'static> {
    Moment { now_ms, offsets: &[] }
}

/// The changes other than of routes.
pub(super) fn deeds(cluster: &mut TopologyCluster) -> Vec<NodeChange> {
    let changes = cluster.take_changes();
    changes.into_iter().filter(|change| !matches!(change, NodeChange::Routes { .. })).collect()
}

/// The nodes that are up and say that the cluster is down.
pub(super) fn down(cluster: &TopologyCluster) -> Vec<NodeNumber> {
    cluster.numbers().filter(|node| cluster.nodes[*node].is_running() && !cluster.service(*node).is_ok(true)).collect()
}

pub(super) fn replica_of(primary: NodeNumber) -> NodeRole {
    NodeRole::Replica { of: Some(primary) }
}
