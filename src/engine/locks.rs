//! Locks in the format of etcd, read and written, and their holders.
//!
//! The queue for a lock is in the value of its key. So a transaction that ends or takes a lock has tested that no
//! client was queued meanwhile, and hands it over at once; and many clients can be queued by one transaction.

mod known;
mod queues;

use std::collections::HashSet;
use std::sync::Arc;

use crate::client::info::RemoteClient;
use crate::client::registry::Clients;
use crate::client::staged::NewFence;
use crate::engine::cluster::Revision;
use crate::engine::stored::{StoredClient, StoredKey, StoredLock, StoredWait, StoredWaiter};
use crate::store::{HoldGuard, LockHolder, LockRecord};
use crate::time::clock::Now;

pub(super) use known::{KnownLocks, LocalHandover, LockNews};
pub(super) use queues::LockQueues;

/// Difference between the fencing tokens of two revisions: more than a transaction gives.
pub(super) const FENCES_OF_A_REVISION: i64 = 128;

/// Returns a fencing token given by a transaction, from its revision.
pub(super) fn fence_of(base: i64, revision: Revision, new: NewFence) -> i64 {
    base.saturating_add(revision.saturating_mul(FENCES_OF_A_REVISION)).saturating_add(new.0.into())
}

#[derive(Clone, Default)]
pub(super) struct LockState {
    /// The lock record, with its fencing token.
    pub(super) lock: Option<StoredLock>,
    /// The clients queued for the lock.
    pub(super) queue: Vec<StoredWaiter>,
}

impl LockState {
    /// Returns the lock state of a key that was written at a revision.
    pub(super) fn of(stored: &StoredKey, revision: Revision) -> Self {
        LockState { lock: stored.lock.as_ref().map(|lock| lock.at(revision)), queue: stored.queue.clone() }
    }

    /// Returns true if there is neither a lock nor a queue.
    pub(super) fn is_none(&self) -> bool {
        self.lock.is_none() && self.queue.is_empty()
    }
}

impl StoredLock {
    /// Returns the lock with its final fencing token, after it was written at a revision.
    pub(super) fn at(&self, revision: Revision) -> Self {
        match self.fence_index {
            0 => self.clone(),
            index => {
                let fence = fence_of(self.fence, revision, NewFence(index));
                StoredLock { fence, fence_index: 0, ..self.clone() }
            }
        }
    }
}

/// Converter between stored clients and lock holders, which knows the clients of this process.
#[derive(Clone)]
pub(super) struct ClusterHolders {
    clients: Arc<Clients>,
    /// The number of this process; 0 until it has one.
    pub(super) process: u64,
    /// All numbers that this process has had.
    own: HashSet<u64>,
}

impl ClusterHolders {
    /// Creates the state for a process that has no number yet.
    pub(super) fn new(clients: Arc<Clients>) -> Self {
        ClusterHolders { clients, process: 0, own: HashSet::new() }
    }

    pub(super) fn set_process(&mut self, process: u64) {
        self.process = process;
        self.own.insert(process);
    }

    pub(super) fn own(&self) -> impl Iterator<Item = u64> {
        self.own.iter().copied()
    }

    /// Returns true if a number is one of this process.
    pub(super) fn is_own(&self, process: u64) -> bool {
        self.own.contains(&process)
    }

    pub(super) fn copy(&self, client: &StoredClient) -> RemoteClient {
        let StoredClient { process, id, addr, name, lib, user } = client.clone();
        RemoteClient { process: (!self.is_own(process)).then_some(process), id, addr, name, lib, user }
    }

    /// Returns a client as the holder of locks: the client itself if it is one of this process.
    pub(super) fn holder(&self, client: &StoredClient) -> Arc<dyn LockHolder> {
        let own = if self.is_own(client.process) { self.clients.find(client.id) } else { None };
        own.map_or_else(|| self.copied(client), |own| own.as_lock_holder())
    }

    /// Returns a copy of a client as the holder of locks.
    pub(super) fn copied(&self, client: &StoredClient) -> Arc<dyn LockHolder> {
        Arc::new(self.copy(client))
    }

    /// Converts a client to its stored form.
    pub(super) fn stored(&self, client: RemoteClient) -> StoredClient {
        let RemoteClient { process, id, addr, name, lib, user } = client;
        StoredClient { process: process.unwrap_or(self.process), id, addr, name, lib, user }
    }

    /// Converts a lock record to its stored form; the base of new fencing tokens is `base`.
    pub(super) fn write(&self, record: &LockRecord, granted: Vec<StoredWait>, (base, now): (i64, Now)) -> StoredLock {
        let new = NewFence::of(record.fence);
        let stored = |holder: &dyn LockHolder| RemoteClient::of_holder(holder).map(|copy| self.stored(copy));
        StoredLock {
            fence: if new.is_some() { base } else { record.fence },
            fence_index: new.map_or(0, |new| new.0),
            since_us: now.wall_us().saturating_sub_unsigned(record.held_us(now.mono_us())),
            holder: record.hold.as_ref().and_then(|hold| stored(hold.holder())),
            session: record.session.as_deref().and_then(stored),
            is_announced: record.is_announced,
            meta: record.meta.as_ref().map(|meta| meta.to_vec()),
            granted,
        }
    }

    /// Converts a stored lock to a lock record, with its holders as `holder` returns them.
    pub(super) fn read(
        lock: &StoredLock,
        token: &[u8],
        holder: impl Fn(&StoredClient) -> Arc<dyn LockHolder>,
        now: Now,
    ) -> LockRecord {
        LockRecord {
            token: token.into(),
            fence: lock.fence,
            since_us: now.mono_us_at(lock.since_us),
            hold: lock.holder.as_ref().map(|client| HoldGuard::new(holder(client), 0)),
            session: lock.session.as_ref().map(holder),
            is_announced: lock.is_announced,
            meta: lock.meta.as_deref().map(Into::into),
        }
    }
}
