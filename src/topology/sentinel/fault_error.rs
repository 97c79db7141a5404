//! Reasons why a fault or an operator's command is impossible.

use std::fmt;

use crate::topology::sentinel::place::NodeNumber;
use crate::topology::sentinel::world::NodeState;

/// The reason why a fault or an operator's command is impossible, one sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FaultError {
    NoNode(NodeNumber),
    /// The node is not in a state in which it can be treated so.
    Is(NodeNumber, NodeState),
    IsMaster(NodeNumber),
    IsSentinel(NodeNumber),
    /// The node is to be its own replica.
    FollowsItself(NodeNumber),
    /// A partition has no node on one side.
    OneSided,
    /// No sentinel is up that monitors the master and reaches the replica.
    NotReached(NodeNumber),
    /// No sentinel is up that monitors a master of this name.
    NotMonitored(String),
    /// No replica is up that may be promoted.
    NoGoodReplica(String),
    /// A failover of the master is in progress, which a sentinel cannot end now.
    InProgress(String),
}

impl fmt::Display for FaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultError::NoNode(node) => write!(f, "there is no node {node}"),
            FaultError::Is(node, state) => write!(f, "node {node} is {}", state.name()),
            FaultError::IsMaster(node) => write!(f, "node {node} is a master"),
            FaultError::IsSentinel(node) => write!(f, "node {node} is a sentinel"),
            FaultError::FollowsItself(node) => write!(f, "node {node} cannot follow itself"),
            FaultError::OneSided => f.write_str("a partition has a node on each side"),
            FaultError::NotReached(node) => write!(f, "no sentinel that is up reaches node {node}"),
            FaultError::NotMonitored(name) => write!(f, "no sentinel that is up monitors {name}"),
            FaultError::NoGoodReplica(name) => write!(f, "{name} has no replica that can be promoted"),
            FaultError::InProgress(name) => write!(f, "a failover of {name} is in progress"),
        }
    }
}
