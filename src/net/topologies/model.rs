//! The state machine of a topology, whichever kind it is: what the host of the nodes asks of it.

use crate::config::Config;
use crate::error::{Error, Result};
use crate::topology::Slot;
use crate::topology::cluster::{self, Moment, NodeNumber, ReplicaPolicy, TopologyCluster, TopologyError};
use crate::topology::sentinel::{self, Sentinels, TopologyRole};

/// State machine of a topology.
#[derive(Clone)]
pub(super) enum Model {
    Cluster(TopologyCluster),
    Sentinels(Sentinels),
}

/// HostChange that the host applies to the nodes.
pub(super) enum HostChange {
    Promoted {
        node: NodeNumber,
    },
    Follows {
        node: NodeNumber,
        primary: NodeNumber,
    },
    LostSlots {
        node: NodeNumber,
        slots: Vec<(Slot, Slot)>,
    },
    Reset {
        node: NodeNumber,
    },
    Routes {
        node: NodeNumber,
    },
    /// A sentinel publishes an event.
    Event {
        node: NodeNumber,
        channel: &'static str,
        message: String,
    },
    /// A sentinel ends itself.
    Crashed {
        node: NodeNumber,
    },
}

/// NodeFault of nodes, or its end.
#[derive(Clone, Copy)]
pub(super) enum NodeFault<'a> {
    Stop(NodeNumber),
    Start(NodeNumber),
    Pause(NodeNumber),
    Resume(NodeNumber),
    Partition(&'a [NodeNumber]),
    Heal,
}

impl Model {
    /// Returns the numbers of the nodes that have not left.
    pub(super) fn numbers(&self) -> Vec<NodeNumber> {
        match self {
            Model::Cluster(cluster) => cluster.numbers().collect(),
            Model::Sentinels(sentinels) => (0..sentinels.node_count()).collect(),
        }
    }

    /// Returns the number of nodes that there have been.
    pub(super) fn count(&self) -> usize {
        match self {
            Model::Cluster(cluster) => cluster.count(),
            Model::Sentinels(sentinels) => sentinels.node_count(),
        }
    }

    /// Returns the id of a node.
    pub(super) fn id(&self, node: NodeNumber) -> &str {
        match self {
            Model::Cluster(cluster) => cluster.id(node),
            Model::Sentinels(sentinels) => sentinels.run_id(node).unwrap_or_default(),
        }
    }

    pub(super) fn is_sentinel(&self, node: NodeNumber) -> bool {
        matches!(self, Model::Sentinels(sentinels) if sentinels.role(node) == Some(TopologyRole::Sentinel))
    }

    /// Returns the primary of a replica.
    pub(super) fn primary_of(&self, node: NodeNumber) -> Option<NodeNumber> {
        match self {
            Model::Cluster(cluster) => cluster.primary_of(node),
            Model::Sentinels(sentinels) => match sentinels.role(node) {
                Some(TopologyRole::Replica { of }) => Some(of),
                _ => None,
            },
        }
    }

    /// Returns the primary of a replica that an operator names.
    ///
    /// # Errors
    /// If there is no such node, or it is no replica.
    pub(super) fn expect_replica(&self, node: NodeNumber) -> Result<Option<NodeNumber>> {
        let refused = |error: TopologyError| Err(Error::other(error.to_string()));
        if !self.numbers().contains(&node) {
            return refused(TopologyError::NoNode(node));
        }
        let is_primary = match self {
            Model::Cluster(cluster) => cluster.role(node).is_primary(),
            Model::Sentinels(sentinels) => match sentinels.role(node) {
                Some(TopologyRole::Sentinel) => return Err(Error::other(format!("node {node} is a sentinel"))),
                role => role == Some(TopologyRole::Master),
            },
        };
        if is_primary { refused(TopologyError::IsPrimary(node)) } else { Ok(self.primary_of(node)) }
    }

    /// Returns the name of a node's role in TEST.CLUSTER and TEST.SENTINEL.
    pub(super) fn role_name(&self, node: NodeNumber) -> &'static str {
        match self {
            Model::Cluster(cluster) if cluster.role(node).is_primary() => "primary",
            Model::Cluster(_) => "replica",
            Model::Sentinels(sentinels) => sentinels.role(node).map_or("", TopologyRole::name),
        }
    }

    /// Returns the slots of a node, in ranges of first and last.
    pub(super) fn slots_of(&self, node: NodeNumber) -> Vec<(Slot, Slot)> {
        match self {
            Model::Cluster(cluster) => cluster.slots_of(node),
            Model::Sentinels(_) => Vec::new(),
        }
    }

    /// Returns the name of a node's state.
    pub(super) fn state_name(&self, node: NodeNumber) -> &'static str {
        match self {
            Model::Cluster(cluster) => cluster.state(node).name(),
            Model::Sentinels(sentinels) => match sentinels.state(node) {
                Some(sentinel::NodeState::Up) if sentinels.is_believed_down(node) => "failed",
                state => state.map_or("stopped", sentinel::NodeState::name),
            },
        }
    }

    /// Returns the nodes that a node believes to be dead.
    pub(super) fn believed_dead(&self, node: NodeNumber) -> Vec<NodeNumber> {
        match self {
            Model::Cluster(cluster) => cluster.believed_dead(node),
            Model::Sentinels(sentinels) => sentinels.believed_down(node),
        }
    }

    /// Returns true if two nodes are up and no partition is between them.
    pub(super) fn reaches(&self, one: NodeNumber, other: NodeNumber) -> bool {
        match self {
            Model::Cluster(cluster) => cluster.reaches(one, other),
            Model::Sentinels(sentinels) => sentinels.reaches(one, other),
        }
    }

    /// Returns the next time at which something happens by itself, in monotonic milliseconds.
    pub(super) fn next_due_ms(&self) -> Option<u64> {
        match self {
            Model::Cluster(cluster) => cluster.next_due_ms(),
            Model::Sentinels(sentinels) => sentinels.next_due_ms(),
        }
    }

    /// Triggers what is due.
    pub(super) fn tick(&mut self, moment: Moment<'_>) {
        match self {
            Model::Cluster(cluster) => cluster.tick(moment),
            Model::Sentinels(sentinels) => sentinels.tick(moment.now_ms, moment.offsets),
        }
    }

    /// Makes a fault, or ends one.
    ///
    /// # Errors
    /// The reason why that is impossible.
    pub(super) fn make_fault(&mut self, fault: NodeFault<'_>, moment: Moment<'_>) -> Result<()> {
        match self {
            Model::Cluster(cluster) => {
                let made = match fault {
                    NodeFault::Stop(node) => cluster.stop(node, moment),
                    NodeFault::Start(node) => cluster.start(node, moment),
                    NodeFault::Pause(node) => cluster.pause(node, moment),
                    NodeFault::Resume(node) => cluster.resume(node, moment),
                    NodeFault::Partition(nodes) => cluster.partition(nodes, moment),
                    NodeFault::Heal => cluster.heal(moment),
                };
                made.map_err(|error| Error::other(error.to_string()))
            }
            Model::Sentinels(sentinels) => {
                sentinels.tick(moment.now_ms, moment.offsets);
                let made = match fault {
                    NodeFault::Stop(node) => sentinels.stop(node, moment.now_ms),
                    NodeFault::Start(node) => sentinels.start(node, moment.now_ms),
                    NodeFault::Pause(node) => sentinels.pause(node, moment.now_ms),
                    NodeFault::Resume(node) => sentinels.resume(node, moment.now_ms),
                    NodeFault::Partition(nodes) => sentinels.partition(nodes, moment.now_ms),
                    NodeFault::Heal => {
                        sentinels.heal(moment.now_ms);
                        Ok(())
                    }
                };
                made.map_err(|error| Error::other(error.to_string()))
            }
        }
    }

    /// Makes a replica the primary: in a cluster the given one, with sentinels perhaps the best one.
    ///
    /// # Errors
    /// The reason why that is impossible.
    pub(super) fn fail_over(&mut self, node: Option<NodeNumber>, moment: Moment<'_>) -> Result<()> {
        let text = match self {
            Model::Cluster(cluster) => {
                let node = node.ok_or(Error::Syntax)?;
                cluster.failover(node, moment).err().map(|error| error.to_string())
            }
            Model::Sentinels(sentinels) => {
                sentinels.tick(moment.now_ms, moment.offsets);
                sentinels.failover(node, moment.now_ms).err().map(|error| error.to_string())
            }
        };
        text.map_or(Ok(()), |text| Err(Error::other(text)))
    }

    /// Returns the changes since the last call, with the addresses of nodes in texts.
    pub(super) fn take_changes(&mut self, addresses: &dyn sentinel::Addresses) -> Vec<HostChange> {
        match self {
            Model::Cluster(cluster) => cluster.take_changes().into_iter().map(HostChange::from).collect(),
            Model::Sentinels(sentinels) => {
                let change = |change| match change {
                    sentinel::SentinelChange::Promoted { node } => HostChange::Promoted { node },
                    sentinel::SentinelChange::Follows { node, primary } => HostChange::Follows { node, primary },
                    sentinel::SentinelChange::Crashed { sentinel } => HostChange::Crashed { node: sentinel },
                    sentinel::SentinelChange::SentinelEvent(event) => HostChange::Event {
                        node: event.sentinel,
                        channel: event.channel,
                        message: event.message(addresses),
                    },
                };
                sentinels.take_changes().into_iter().map(change).collect()
            }
        }
    }

    /// Makes a data node of a Sentinel deployment the replica of another one, or a master, as a client has told it.
    ///
    /// # Errors
    /// The reason why that is impossible.
    pub(super) fn replicate(&mut self, at: NodeNumber, primary: Option<NodeNumber>, now_ms: u64) -> Result<()> {
        match self {
            Model::Cluster(_) => Err(Error::other("REPLICAOF not allowed in cluster mode.")),
            Model::Sentinels(sentinels) => {
                let set = sentinels.set_primary(at, primary, now_ms);
                set.map_err(|error| Error::other(error.to_string()))
            }
        }
    }

    /// Returns true if a cluster has been told these settings of its nodes, by number.
    pub(super) fn has_followed(&self, settings: &[NodeSettings]) -> bool {
        match self {
            Model::Cluster(cluster) => cluster.has_policies(settings.iter().map(|settings| settings.policy)),
            Model::Sentinels(_) => true,
        }
    }

    /// Tells the state machine the settings of the nodes, by number.
    pub(super) fn follow_settings(&mut self, settings: &[NodeSettings], now_ms: u64) {
        match self {
            Model::Cluster(cluster) => {
                let policies: Vec<ReplicaPolicy> = settings.iter().map(|settings| settings.policy).collect();
                cluster.follow_policies(&policies);
            }
            Model::Sentinels(sentinels) => {
                for (node, settings) in settings.iter().enumerate() {
                    let _ = sentinels.set_priority(node, settings.priority, now_ms); // sentinels have none
                }
            }
        }
    }

    /// Returns the cluster.
    ///
    /// # Errors
    /// If it is none.
    pub(super) fn cluster(&mut self) -> Result<&mut TopologyCluster> {
        match self {
            Model::Cluster(cluster) => Ok(cluster),
            Model::Sentinels(_) => Err(Error::other("this topology is no cluster")),
        }
    }
}

/// Settings of a node on which a state machine depends.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeSettings {
    /// Rank among those that sentinels may promote: `replica-priority`.
    priority: u32,
    /// Policy of a replica in a cluster.
    policy: ReplicaPolicy,
}

impl NodeSettings {
    pub(super) fn of(config: &Config) -> Self {
        let policy = ReplicaPolicy {
            has_no_failover: config.cluster_replica_no_failover,
            may_migrate: config.cluster_allow_replica_migration,
            migration_barrier: config.cluster_migration_barrier.into(),
        };
        NodeSettings { priority: config.replica_priority, policy }
    }
}

impl From<cluster::NodeChange> for HostChange {
    fn from(change: cluster::NodeChange) -> Self {
        match change {
            cluster::NodeChange::Promoted { node } => HostChange::Promoted { node },
            cluster::NodeChange::Follows { node, primary } => HostChange::Follows { node, primary },
            cluster::NodeChange::LostSlots { node, slots } => HostChange::LostSlots { node, slots },
            cluster::NodeChange::Reset { node } => HostChange::Reset { node },
            cluster::NodeChange::Routes { node } => HostChange::Routes { node },
        }
    }
}
