//! The clients that are queued for locks in a cluster: those of this process, and those of others that serve the same data.
//!
//! They are here as the cluster has them at the revision of the mirror. So of the clients of a cycle exactly one finds that
//! it closes it, in whatever processes they are.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::client::info::{ClientCopy, LockName};

/// Such a client.
pub(super) struct MirroredWaiter {
    pub(super) client: ClientCopy,
    pub(super) lock: LockName,
    /// The hash of its token.
    pub(super) token: u64,
}

/// These clients, by the ids that this process tells them by, and the numbers of their waits: of a client that was told that
/// the outcome of a call is not known, a place may still be there beside that of its next call.
#[derive(Default)]
pub(super) struct MirroredWaiters(Mutex<BTreeMap<(u64, u64), MirroredWaiter>>);

impl MirroredWaiters {
    /// Adds a client.
    pub(super) fn insert(&self, id: u64, wait: u64, waiter: MirroredWaiter) {
        self.0.lock().insert((id, wait), waiter);
    }

    /// Removes a client; returns the hash of its token, unless it waits with that elsewhere, too.
    pub(super) fn remove(&self, id: u64, wait: u64) -> Option<u64> {
        let mut waiters = self.0.lock();
        let token = waiters.remove(&(id, wait))?.token;
        let waits_on = waiters.range((id, 0)..=(id, u64::MAX)).any(|(_, other)| other.token == token);
        (!waits_on).then_some(token)
    }

    /// Returns what is shown of a client.
    pub(super) fn client(&self, id: u64) -> Option<ClientCopy> {
        self.last(id, |waiter| waiter.client.clone())
    }

    /// Returns the lock that a client is queued for.
    pub(super) fn lock(&self, id: u64) -> Option<LockName> {
        self.last(id, |waiter| waiter.lock.clone())
    }

    fn last<T>(&self, id: u64, read: impl FnOnce(&MirroredWaiter) -> T) -> Option<T> {
        self.0.lock().range((id, 0)..=(id, u64::MAX)).next_back().map(|(_, waiter)| read(waiter))
    }
}
