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
use crate::engine::stored::{
    StoredClient, StoredHolder, StoredHolders, StoredKey, StoredLock, StoredWait, StoredWaiter,
};
use crate::engine::ttl::{CountedTtl, KeyTtls};
use crate::store::{
    AdoptedLock, HoldGuard, Holder, Holders, LockHolder, LockRecord, LockWaiter, NEVER, Sharing, Store,
};
use crate::time::clock::Now;

pub(super) use known::{KnownLocks, LocalHandover, LockNews, NOBODY};
pub(super) use queues::LockQueues;

/// Number of the first client in a queue in a mirror or on a stage; it differs from all numbers of waits.
const PLACE: u64 = 1 << 63;

/// Difference between the fencing tokens of two revisions: more than a transaction gives.
pub(super) const FENCES_OF_A_REVISION: i64 = 128;

/// Returns a fencing token given by a transaction, from its revision.
pub(super) fn fence_of(base: i64, revision: Revision, new: NewFence) -> i64 {
    base.saturating_add(revision.saturating_mul(FENCES_OF_A_REVISION)).saturating_add(new.0.into())
}

#[derive(Clone, Default)]
pub(super) struct LockState {
    /// The record of an exclusive lock, with its fencing token.
    pub(super) lock: Option<StoredLock>,
    /// The holders of a shared lock or a semaphore, with their fencing tokens.
    pub(super) holders: Option<StoredHolders>,
    /// The clients queued for the lock.
    pub(super) queue: Vec<StoredWaiter>,
}

impl LockState {
    /// Returns the lock state of a key that was written at a revision.
    pub(super) fn of(stored: &StoredKey, revision: Revision) -> Self {
        LockState {
            lock: stored.lock.as_ref().map(|lock| lock.at(revision)),
            holders: stored.holders.as_ref().map(|holders| holders.at(revision)),
            queue: stored.queue.clone(),
        }
    }

    /// Returns true if there is neither a lock nor a queue.
    pub(super) fn is_none(&self) -> bool {
        self.lock.is_none() && self.holders.is_none() && self.queue.is_empty()
    }

    /// Returns the records of the holders.
    pub(super) fn records(&self) -> impl Iterator<Item = &StoredLock> {
        self.lock.iter().chain(self.holders.iter().flat_map(|holders| &holders.holders).map(|holder| &holder.lock))
    }
}

/// The hand-over of a lock to one holder.
#[derive(Clone, Default)]
pub(super) struct Granted {
    /// The waits that have ended so.
    pub(super) waits: Vec<StoredWait>,
    /// True if a client with the token has acquired or renewed the lock by itself: it is not given back when the waits
    /// turn out to be over.
    pub(super) is_kept: bool,
    /// The hand-over, if the present transaction makes it.
    pub(super) given: Option<Given>,
}

/// A hand-over that the present transaction makes.
#[derive(Clone, Copy)]
pub(super) struct Given {
    /// Placeholder of the fencing token.
    pub(super) fence: i64,
    /// End of the TTL, in monotonic milliseconds, and the TTL in milliseconds.
    pub(super) ttl: Option<(u64, u64)>,
}

impl StoredHolders {
    /// Returns the holders with their final fencing tokens, after they were written at a revision.
    fn at(&self, revision: Revision) -> Self {
        let fence = match self.fence_index {
            0 => self.fence,
            index => fence_of(self.fence, revision, NewFence(index)),
        };
        let holders =
            self.holders.iter().map(|holder| StoredHolder { lock: holder.lock.at(revision), ..holder.clone() });
        StoredHolders { size: self.size, fence, fence_index: 0, since_us: self.since_us, holders: holders.collect() }
    }

    fn sharing(&self) -> Sharing {
        match self.size {
            0 => Sharing::Readers { fence: self.fence },
            size => Sharing::Permits { size },
        }
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

    /// Returns the ID of a client in this process.
    pub(super) fn id_of(&self, client: &StoredClient) -> u64 {
        RemoteClient::id_in((!self.is_own(client.process)).then_some(client.process), client.id)
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
    pub(super) fn write(&self, record: &LockRecord, granted: Granted, (base, now): (i64, Now)) -> StoredLock {
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
            is_kept: granted.is_kept && !granted.waits.is_empty(),
            granted: granted.waits,
        }
    }

    /// Converts the holders of a shared lock or a semaphore, with their TTLs, to their stored form; `granted` returns the
    /// waits that the lock was handed over to for a token.
    pub(super) fn write_all(
        &self,
        (holders, ttls): (&Holders, &[Option<CountedTtl>]),
        granted: impl Fn(&[u8]) -> Granted,
        (base, now): (i64, Now),
    ) -> StoredHolders {
        let (size, fence) = match holders.sharing() {
            Sharing::Readers { fence } => (0, fence),
            Sharing::Permits { size } => (size, 0),
        };
        let new = NewFence::of(fence);
        let stored = |((_, holder), ttl): ((u64, &Holder), &Option<CountedTtl>)| StoredHolder {
            token: holder.record.token.to_vec(),
            lock: self.write(&holder.record, granted(&holder.record.token), (base, now)),
            permits: holder.permits,
            ttl: ttl.map(|ttl| ttl.stored(now)),
        };
        StoredHolders {
            size,
            fence: if new.is_some() { base } else { fence },
            fence_index: new.map_or(0, |new| new.0),
            since_us: now.wall_us().saturating_sub_unsigned(holders.held_us(now.mono_us())),
            holders: holders.iter().zip(ttls).map(stored).collect(),
        }
    }

    /// Converts a stored lock, with the value of its key, to the lock of a key, with the clients as `holder` returns
    /// them. A deadline of a holder is reached only if its TTL is due.
    pub(super) fn read_lock(
        (state, value, ttls): (&LockState, Option<&[u8]>, &KeyTtls),
        holder: impl Fn(&StoredClient) -> Arc<dyn LockHolder>,
        is_due: impl Fn(&CountedTtl) -> bool,
        (store, now): (&Store, Now),
    ) -> Option<AdoptedLock> {
        let value = value?;
        if let Some(lock) = &state.lock {
            return Some(AdoptedLock::Exclusive(ClusterHolders::read(lock, value, holder, now)));
        }
        let stored = state.holders.as_ref()?;
        let sharing = stored.sharing();
        if value != sharing.value() {
            return None;
        }
        let mut holders = Holders::new(sharing, now.mono_us_at(stored.since_us)).kept();
        for (at, StoredHolder { token, lock, permits, .. }) in stored.holders.iter().enumerate() {
            let until_ms = match ttls.holders.get(at).copied().flatten() {
                Some(ttl) if is_due(&ttl) => 0,
                Some(ttl) => ttl.shown_ms(now),
                None => NEVER,
            };
            let record = ClusterHolders::read(lock, token, &holder, now);
            holders.add(Holder::new(record, store.hash(token), *permits, until_ms));
        }
        Some(AdoptedLock::Shared(holders))
    }

    /// Converts the queue for a lock to that of a store.
    pub(super) fn read_queue(
        &self,
        queue: &[StoredWaiter],
        (store, now): (&Store, Now),
    ) -> impl Iterator<Item = LockWaiter> {
        (PLACE..).zip(queue).map(move |(number, waiter)| self.read_waiter(number, waiter, (store, now)))
    }

    /// Converts a queued client to that of a store, with a number.
    pub(super) fn read_waiter(&self, number: u64, waiter: &StoredWaiter, (store, now): (&Store, Now)) -> LockWaiter {
        LockWaiter {
            client: self.id_of(&waiter.client),
            number,
            mode: waiter.mode(),
            is_away: false,
            token: store.hash(&waiter.token),
            since_us: now.mono_us_at(waiter.since_us).max(0).cast_unsigned(),
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
