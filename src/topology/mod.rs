//! Clusters as clients see them: the slots of keys, their distribution, and the identity of a node.
//!
//! Pure functions: no sockets, no files, no clock.

pub(crate) mod cluster;
#[cfg(feature = "etcd")]
mod deal;
mod node;
pub(crate) mod sentinel;
mod slot;
mod view;

#[cfg(feature = "etcd")]
pub(crate) use deal::deal;
pub(crate) use node::{NodeIdentity, bus_port_of};
pub(crate) use slot::{NodeNumber, SLOT_COUNT, Slot, SlotsDiffer, hash_tag, same_slot, slot_of, tag_of};
pub(crate) use view::{ClusterView, NodeAddress, NodeHealth, NodeView};
