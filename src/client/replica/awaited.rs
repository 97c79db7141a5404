//! What clients wait for.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// What a client waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    /// How many replicas.
    pub(crate) count: usize,
    /// Up to where in the log they are to have executed everything.
    pub(crate) position: u64,
    /// Whether they must have it in an fsynced file.
    pub(crate) must_be_synced: bool,
}

/// The clients that wait, by their ids.
pub(super) type Waiters = Mutex<BTreeMap<u64, Awaited>>;
