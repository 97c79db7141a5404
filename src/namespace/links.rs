//! Namespaces of one process that replicate each other, as test mode lets them: what a primary knows of such replicas, a
//! replica of the link to its primary, and all of them of those whose clock they share.
//!
//! All that are linked share one clock, so that a deadline means the same at both ends. A command that steers it lets
//! everything happen that is due in any of them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::time::clock::Now;

/// The link from a primary to a replica in the same process.
pub(crate) trait LocalLink: Send + Sync {
    /// Takes what the primary has written by now, and lets the replica execute what has arrived; returns whether there was
    /// anything. Nobody may hold the stores.
    fn deliver(&self, now: Now) -> bool;

    /// Returns when the next change arrives, in monotonic milliseconds; [`NEVER`](crate::store::NEVER) if none is on the way.
    fn next_arrival_ms(&self) -> u64;

    /// Lets nothing arrive until [`LocalLink::release`]; returns up to where in the primary's log the replica has executed
    /// everything, unless it has no data of the primary.
    fn hold(&self) -> Option<u64>;

    /// Ends that. With `join`, all that the primary has written by now arrives at once.
    fn release(&self, join: bool);

    /// Lets the link look again at everything that it goes by.
    fn wake(&self);
}

/// The links of a namespace.
pub(crate) struct Links<N> {
    /// To its replicas.
    pub(super) replicas: Mutex<Vec<Arc<dyn LocalLink>>>,
    /// How many replicas there ever were.
    numbered: AtomicU64,
    /// To its primary.
    pub(super) primary: Mutex<Option<Arc<dyn LocalLink>>>,
    /// Those that it shares its clock with, and itself, once there is another one.
    pub(super) kin: Arc<Mutex<Vec<Weak<N>>>>,
}

impl<N> Default for Links<N> {
    fn default() -> Self {
        Links {
            replicas: Mutex::default(),
            numbered: AtomicU64::default(),
            primary: Mutex::default(),
            kin: Arc::default(),
        }
    }
}

impl<N> Links<N> {
    /// Returns the links of a namespace that shares its clock with the owner of these.
    pub(super) fn of_kin(&self) -> Self {
        Links { kin: self.kin.clone(), ..Links::default() }
    }

    /// Returns what stands for the id of a client for a replica that has no connection; no client and no other replica has it.
    pub(crate) fn next_id(&self) -> u64 {
        u64::MAX - 1 - self.numbered.fetch_add(1, Relaxed)
    }

    /// Returns the links to replicas.
    pub(crate) fn to_replicas(&self) -> Vec<Arc<dyn LocalLink>> {
        self.replicas.lock().clone()
    }

    /// Returns the link to the primary.
    pub(crate) fn to_primary(&self) -> Option<Arc<dyn LocalLink>> {
        self.primary.lock().clone()
    }
}
