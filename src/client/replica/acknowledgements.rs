//! Clients that wait until replicas have acknowledged their changes.

use std::sync::Arc;

use crate::client::registry::{Clients, Unblocked};
use crate::client::replica::AwaitedReplicas;
use crate::client::replica::list::Replicas;

/// Wait of a client for acknowledgements of replicas, which ends when it is dropped.
pub(crate) struct WaitingForReplicas {
    replicas: Arc<Replicas>,
    client: u64,
    awaited: AwaitedReplicas,
}

impl WaitingForReplicas {
    /// Returns how many replicas have acknowledged what the client waits for.
    pub(crate) fn count(&self) -> usize {
        self.replicas.count(&self.awaited)
    }

    /// Returns true if enough replicas have acknowledged what the client waits for.
    pub(crate) fn is_over(&self) -> bool {
        self.count() >= self.awaited.count
    }
}

impl Drop for WaitingForReplicas {
    fn drop(&mut self) {
        self.replicas.waiters.lock().remove(&self.client);
    }
}

impl Replicas {
    /// Begins the wait of a client, which the caller then blocks.
    pub(crate) fn wait(self: &Arc<Self>, client: u64, awaited: AwaitedReplicas) -> WaitingForReplicas {
        self.waiters.lock().insert(client, awaited);
        WaitingForReplicas { replicas: self.clone(), client, awaited }
    }

    /// Unblocks the clients for which enough replicas have acknowledged by now.
    pub(crate) fn unblock_waiters(&self, clients: &Clients) {
        self.note_acknowledgement();
        let waiters = self.waiters.lock().clone();
        for (client, awaited) in waiters {
            if self.count(&awaited) >= awaited.count {
                clients.unblock(client, Unblocked::InTime);
            }
        }
    }
}
