//! Replication between namespaces of one process, for test mode: a primary's links to such replicas, a replica's link
//! to its primary, and the namespaces that share a clock.
//!
//! All linked namespaces share one clock, so that a deadline means the same at both ends. A command that steers the
//! clock triggers everything that is due in any of them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::namespace::member::Topology;
use crate::time::clock::Now;

/// The link from a primary to a replica in the same process.
pub(crate) trait LocalLink: Send + Sync {
    /// Takes the primary's new records, and has the replica execute those that have arrived; returns true if there were
    /// any. The caller must not hold a store.
    fn deliver(&self, now: Now) -> bool;

    /// Returns the time at which the next record arrives, in monotonic milliseconds; [`NEVER`](crate::store::NEVER) if
    /// none is on the way.
    fn next_arrival_ms(&self) -> u64;

    /// Holds all records back until [`LocalLink::release`]; returns the position in the primary's log up to which the
    /// replica has executed everything, unless it has no data of the primary.
    fn hold(&self) -> Option<u64>;

    /// Ends [`LocalLink::hold`]. With `join`, all records that the primary has written by now arrive at once.
    fn release(&self, join: bool);

    /// Ends the link, and removes it from the two namespaces.
    fn finish(self: Arc<Self>);

    /// Makes the link check its faults, clock and records again.
    fn wake(&self);
}

pub(crate) struct Links<N> {
    /// Links to replicas.
    pub(super) replicas: Mutex<Vec<Arc<dyn LocalLink>>>,
    /// Number of replicas ever linked.
    numbered: AtomicU64,
    /// Link to the primary.
    pub(super) primary: Mutex<Option<Arc<dyn LocalLink>>>,
    /// The namespaces that share the clock, including the owner, once there is another one.
    pub(super) clock_group: Arc<Mutex<Vec<Weak<N>>>>,
    /// The topologies whose nodes are among them.
    pub(super) topologies: Arc<Mutex<Vec<Weak<dyn Topology>>>>,
}

impl<N> Default for Links<N> {
    fn default() -> Self {
        Links {
            replicas: Mutex::default(),
            numbered: AtomicU64::default(),
            primary: Mutex::default(),
            clock_group: Arc::default(),
            topologies: Arc::default(),
        }
    }
}

impl<N> Links<N> {
    /// Returns the links of a namespace that shares its clock with the owner of these.
    pub(super) fn of_kin(&self) -> Self {
        let (clock_group, topologies) = (self.clock_group.clone(), self.topologies.clone());
        Links { clock_group, topologies, ..Links::default() }
    }

    /// Returns a stand-in for a client ID, for a replica without a connection; no client and no other replica has it.
    pub(crate) fn next_id(&self) -> u64 {
        u64::MAX - 1 - self.numbered.fetch_add(1, Relaxed)
    }

    pub(crate) fn to_replicas(&self) -> Vec<Arc<dyn LocalLink>> {
        self.replicas.lock().clone()
    }

    pub(crate) fn to_primary(&self) -> Option<Arc<dyn LocalLink>> {
        self.primary.lock().clone()
    }
}
