//! The engine `etcd`: the data is in an etcd cluster, which any number of processes serve together.
//!
//! ```text
//!  clients of this process                     thread "engine"                              etcd
//! +-----------------------+  reads: barrier  +------------------------------------+  Range  +------+
//! | connection tasks      | ---------------> | core: queue of calls, stage,       | ------> |      |
//! |  GET: the mirror      |  writes: calls   |  lanes, barriers, expiry           |   Txn   | Raft |
//! |  SET: the engine      | ---------------> | mirror: the namespace's store,     | ------> | log  |
//! +-----------------------+                  |  changed by what the watch brings  | <------ |      |
//!                                            +------------------------------------+  Watch  +------+
//! ```
//!
//! The thread "lease" renews the lease of the process, and ends sessions before the lease is over; it waits for no
//! call.
//!
//! A read waits until the mirror has everything acknowledged before the read. A write is executed on copies of its
//! keys, and its changes are one transaction, which tests that no other process has changed these keys meanwhile.
//!
//! Invariant: no reply shows data that the cluster has not confirmed.

mod api;
mod barrier;
mod cluster;
mod core;
mod driver;
mod etcd;
mod execution;
mod flushes;
mod group;
mod guard;
mod keeper;
mod lanes;
mod lease;
mod load;
mod locks;
mod mirror;
#[cfg(test)]
mod model;
mod names;
mod nodes;
mod pending;
mod queue;
mod reads;
mod stage;
mod start;
mod stored;
mod ttl;
mod turns;
mod value;
mod watch;

pub(crate) use start::{Ready, RunningEngine, begin};
