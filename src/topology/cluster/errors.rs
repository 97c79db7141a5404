//! Reasons why a fault, an operator's command or a node's command is refused.

use std::fmt;

use crate::topology::Slot;
use crate::topology::cluster::NodeNumber;

/// The reason why a fault or an operator's command is impossible, one sentence for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TopologyError {
    /// No node has the number, or it has left.
    NoNode(NodeNumber),
    /// The node is neither stopped nor paused.
    IsUp(NodeNumber),
    IsStopped(NodeNumber),
    IsPaused(NodeNumber),
    IsPrimary(NodeNumber),
    IsReplica(NodeNumber),
    /// The node is a replica, and does not know its primary.
    PrimaryUnknown(NodeNumber),
    /// A partition has no node on one side.
    OneSided,
    /// The node does not reach a majority of the primaries that have slots.
    NoMajority(NodeNumber),
    /// A partition is between the nodes.
    CutOff(NodeNumber, NodeNumber),
    /// A node does not know the other.
    NeverMet(NodeNumber, NodeNumber),
    /// No node is up that a new one could meet.
    NoneUp,
    /// The node is the only one.
    IsLast(NodeNumber),
    HasSlots(NodeNumber),
    HasReplicas(NodeNumber),
    /// A number is no slot, or the last of a range is before its first.
    NoSlots,
    /// The slot is the node's already.
    OwnsSlot(NodeNumber, Slot),
    NoOwner(Slot),
    /// The slot is being moved to the node.
    IsMoving(Slot, NodeNumber),
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopologyError::NoNode(node) => write!(f, "there is no node {node}"),
            TopologyError::IsUp(node) => write!(f, "node {node} is up"),
            TopologyError::IsStopped(node) => write!(f, "node {node} is stopped"),
            TopologyError::IsPaused(node) => write!(f, "node {node} is paused"),
            TopologyError::IsPrimary(node) => write!(f, "node {node} is a primary"),
            TopologyError::IsReplica(node) => write!(f, "node {node} is a replica"),
            TopologyError::PrimaryUnknown(node) => write!(f, "node {node} does not know its primary"),
            TopologyError::OneSided => f.write_str("a partition has a node on each side"),
            TopologyError::NoMajority(node) => write!(f, "node {node} does not reach a majority of the primaries"),
            TopologyError::CutOff(one, other) => write!(f, "nodes {one} and {other} are cut off from each other"),
            TopologyError::NeverMet(one, other) => write!(f, "nodes {one} and {other} have not met"),
            TopologyError::NoneUp => f.write_str("no node is up that a new one could meet"),
            TopologyError::IsLast(node) => write!(f, "node {node} is the only one"),
            TopologyError::HasSlots(node) => write!(f, "node {node} has slots"),
            TopologyError::HasReplicas(node) => write!(f, "node {node} has replicas"),
            TopologyError::NoSlots => f.write_str("slots are from 0 to 16383, the first before the last"),
            TopologyError::OwnsSlot(node, slot) => write!(f, "node {node} has slot {slot} already"),
            TopologyError::NoOwner(slot) => write!(f, "slot {slot} has no owner"),
            TopologyError::IsMoving(slot, node) => write!(f, "slot {slot} is on its way to node {node}"),
        }
    }
}

/// The reason why a node refuses a command, with the text of Redis 7.0 that follows `ERR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeCommandError {
    SlotBusy(Slot),
    SlotUnassigned(Slot),
    SlotTwice(Slot),
    FlushWithKeys,
    SetSlotAtReplica,
    NotOwner(Slot),
    OwnerAlready(Slot),
    /// The node of MIGRATING or IMPORTING is unknown.
    StrangeNode(String),
    UnknownNode(String),
    TargetIsReplica,
    /// The slot is to be another node's, and has keys.
    SlotHasKeys(Slot),
    ForgetSelf,
    ForgetPrimary,
    ReplicateSelf,
    ReplicateReplica,
    /// The node is to be a replica, and has keys or slots.
    ReplicateWithData,
    FailoverAtPrimary,
    PrimaryUnknown,
    PrimaryDown,
    ResetWithKeys,
    InvalidEpoch(i64),
    EpochAmongNodes,
    EpochSet,
}

impl fmt::Display for NodeCommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeCommandError::SlotBusy(slot) => write!(f, "Slot {slot} is already busy"),
            NodeCommandError::SlotUnassigned(slot) => write!(f, "Slot {slot} is already unassigned"),
            NodeCommandError::SlotTwice(slot) => write!(f, "Slot {slot} specified multiple times"),
            NodeCommandError::NotOwner(slot) => write!(f, "I'm not the owner of hash slot {slot}"),
            NodeCommandError::OwnerAlready(slot) => write!(f, "I'm already the owner of hash slot {slot}"),
            NodeCommandError::StrangeNode(id) => write!(f, "I don't know about node {id}"),
            NodeCommandError::UnknownNode(id) => write!(f, "Unknown node {id}"),
            NodeCommandError::SlotHasKeys(slot) => write!(
                f,
                "Can't assign hashslot {slot} to a different node while I still hold keys for this hash slot."
            ),
            NodeCommandError::InvalidEpoch(epoch) => write!(f, "Invalid config epoch specified: {epoch}"),
            error => f.write_str(error.fixed_text()),
        }
    }
}

impl NodeCommandError {
    /// Returns the text of an error that has no arguments.
    fn fixed_text(&self) -> &'static str {
        match self {
            NodeCommandError::FlushWithKeys => "DB must be empty to perform CLUSTER FLUSHSLOTS.",
            NodeCommandError::SetSlotAtReplica => "Please use SETSLOT only with masters.",
            NodeCommandError::TargetIsReplica => "Target node is not a master",
            NodeCommandError::ForgetSelf => "I tried hard but I can't forget myself...",
            NodeCommandError::ForgetPrimary => "Can't forget my master!",
            NodeCommandError::ReplicateSelf => "Can't replicate myself",
            NodeCommandError::ReplicateReplica => "I can only replicate a master, not a replica.",
            NodeCommandError::ReplicateWithData => "To set a master the node must be empty and without assigned slots.",
            NodeCommandError::FailoverAtPrimary => "You should send CLUSTER FAILOVER to a replica",
            NodeCommandError::PrimaryUnknown => "I'm a replica but my master is unknown to me",
            NodeCommandError::PrimaryDown => "Master is down or failed, please use CLUSTER FAILOVER FORCE",
            NodeCommandError::ResetWithKeys => "CLUSTER RESET can't be called with master nodes containing keys",
            NodeCommandError::EpochAmongNodes => {
                "The user can assign a config epoch only when the node does not know any other node."
            }
            NodeCommandError::EpochSet => "Node config epoch is already non-zero",
            _ => "",
        }
    }
}
