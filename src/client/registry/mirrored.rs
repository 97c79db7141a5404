//! Clients that are queued for locks in a cluster: those of this process, and of other processes that serve the same
//! data.
//!
//! The state is that of the cluster at the revision of the mirror. So exactly one of the clients of a cycle finds that
//! it closes the cycle, in whichever processes they are.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::client::info::RemoteClient;
use crate::store::KeyName;

/// A client queued for locks in a cluster.
pub(super) struct MirroredWaiter {
    pub(super) client: RemoteClient,
    /// The locks that the client asks for, in the order named.
    pub(super) locks: Vec<KeyName>,
    /// Hash of the client's token.
    pub(super) token: u64,
}

/// Clients queued in a cluster, by their ids in this process and the numbers of their waits: after a call whose outcome
/// was not known, a client may still have the place of that call besides the one of its next call.
#[derive(Default)]
pub(super) struct MirroredWaiters(Mutex<BTreeMap<(u64, u64), MirroredWaiter>>);

impl MirroredWaiters {
    /// Adds a client; returns false if its wait is known already.
    pub(super) fn insert(&self, id: u64, wait: u64, waiter: MirroredWaiter) -> bool {
        self.0.lock().insert((id, wait), waiter).is_none()
    }

    /// Removes a client; returns the hash of its token, unless the client waits elsewhere with the same token.
    pub(super) fn remove(&self, id: u64, wait: u64) -> Option<u64> {
        let mut waiters = self.0.lock();
        let token = waiters.remove(&(id, wait))?.token;
        let waits_on = waiters.range((id, 0)..=(id, u64::MAX)).any(|(_, other)| other.token == token);
        (!waits_on).then_some(token)
    }

    pub(super) fn client(&self, id: u64) -> Option<RemoteClient> {
        self.last(id, |waiter| waiter.client.clone())
    }

    /// Returns the locks that a client is queued for.
    pub(super) fn locks(&self, id: u64) -> Vec<KeyName> {
        self.last(id, |waiter| waiter.locks.clone()).unwrap_or_default()
    }

    fn last<T>(&self, id: u64, read: impl FnOnce(&MirroredWaiter) -> T) -> Option<T> {
        self.0.lock().range((id, 0)..=(id, u64::MAX)).next_back().map(|(_, waiter)| read(waiter))
    }
}
