//! Clusters as clients see them: the slots of keys, and the identity of a node.
//!
//! Pure functions: no sockets, no files, no clock.

mod node;
mod slot;

pub(crate) use node::{NodeIdentity, bus_port_of};
pub(crate) use slot::{SLOT_COUNT, Slot, SlotsDiffer, hash_tag, same_slot, slot_of, tag_of};
