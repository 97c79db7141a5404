//! Acknowledgements that clients wait for.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Acknowledgements that a client waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AwaitedReplicas {
    /// Number of replicas.
    pub(crate) count: usize,
    /// Position up to which the replicas must have executed the log.
    pub(crate) position: u64,
    /// True if the replicas must have the log up to there in an fsynced file.
    pub(crate) must_be_synced: bool,
}

/// The clients that wait, by their ids.
pub(super) type Waiters = Mutex<BTreeMap<u64, AwaitedReplicas>>;
