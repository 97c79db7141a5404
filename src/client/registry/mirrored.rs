//! The clients that are queued for locks in a cluster: those of this process, and those of others that serve the same data.
//!
//! They are here as the cluster has them at the revision of the mirror. So of the clients of a cycle exactly one finds that
//! it closes it, in whatever processes they are.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::client::info::{ClientCopy, LockName};

/// Such a client.
pub(super) struct MirroredWaiter {
    pub(super) client: ClientCopy,
    pub(super) lock: LockName,
    /// The hash of its token.
    pub(super) token: u64,
}

/// These clients, by the ids that this process tells them by.
#[derive(Default)]
pub(super) struct MirroredWaiters(Mutex<HashMap<u64, MirroredWaiter>>);

impl MirroredWaiters {
    /// Adds a client.
    pub(super) fn insert(&self, id: u64, waiter: MirroredWaiter) {
        self.0.lock().insert(id, waiter);
    }

    /// Removes a client that is queued for a lock.
    pub(super) fn remove(&self, id: u64, lock: &LockName) -> Option<MirroredWaiter> {
        let mut waiters = self.0.lock();
        waiters.get(&id).is_some_and(|waiter| waiter.lock == *lock).then(|| waiters.remove(&id)).flatten()
    }

    /// Returns what is shown of a client.
    pub(super) fn client(&self, id: u64) -> Option<ClientCopy> {
        self.0.lock().get(&id).map(|waiter| waiter.client.clone())
    }

    /// Returns the lock that a client is queued for.
    pub(super) fn lock(&self, id: u64) -> Option<LockName> {
        self.0.lock().get(&id).map(|waiter| waiter.lock.clone())
    }
}
