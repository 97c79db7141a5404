//! Replicas of this server: clients that are sent a snapshot of the data, and from its cut on the log.

mod acknowledgements;
mod awaited;
pub(crate) mod feed;
mod list;
mod one;
mod part;

pub(crate) use acknowledgements::WaitingForReplicas;
pub(crate) use awaited::AwaitedReplicas;
pub(crate) use list::{Behind, Replicas, WaitingReplica};
pub(crate) use one::{Replica, ReplicaState, WantedData};
pub(crate) use part::SyncPart;
