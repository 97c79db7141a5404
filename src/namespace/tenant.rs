//! The tenant of a namespace: its name, the ID of its data set, and its time of service.

use tokio_util::sync::CancellationToken;

use crate::namespace::history::History;
use crate::time::clock::Now;

/// The tenant of a namespace.
pub struct Tenant {
    /// The name of a private namespace, which is that of its user; `None` for the main namespace.
    name: Option<Box<[u8]>>,
    /// The history of its data.
    pub(crate) history: History,
    /// The time of its creation.
    pub started: Now,
    /// Cancelled when the namespace must stop: with the server, or when a private one is not needed any more.
    pub(crate) stop: CancellationToken,
}

impl Tenant {
    /// Creates the tenant of a private namespace, or that of the main namespace, with a new history.
    pub(super) fn new(name: Option<Box<[u8]>>, started: Now, stop: CancellationToken) -> Self {
        Tenant { name, history: History::default(), started, stop }
    }

    pub(crate) fn name(&self) -> Option<&[u8]> {
        self.name.as_deref()
    }

    pub(crate) fn is_private(&self) -> bool {
        self.name.is_some()
    }

    /// Returns the replication ID of the data set.
    pub fn replication_id(&self) -> String {
        self.history.ids().id
    }
}
