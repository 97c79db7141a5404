//! The mirror's lock state besides the store: locks as stored in the cluster, the sessions that own them, and the
//! processes known to be dead.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::client::registry::Clients;
use crate::engine::cluster::Revision;
use crate::engine::flushes::Cleared;
use crate::engine::lease::Lease;
use crate::engine::locks::{ClusterHolders, LockState};
use crate::engine::stored::{StoredLock, StoredLoss, StoredRefusal, StoredWait, StoredWaiter};
use crate::engine::ttl::KeyTtls;
use crate::store::{KeyName, LockHolder as _, LossReason, LostLock, Store, View};
use crate::time::clock::{Now, us_between};

/// An ID that no client has.
pub(in crate::engine) const NOBODY: u64 = 0;

/// Locks that were handed over to a client of this process.
#[derive(Clone)]
pub(in crate::engine) struct LocalHandover {
    /// Number of the client's wait.
    pub(in crate::engine) wait: u64,
    /// The locks, each with its fencing token.
    pub(in crate::engine) locks: Vec<(KeyName, i64)>,
    /// Duration of the wait, in microseconds.
    pub(in crate::engine) waited_us: u64,
}

/// Changes of locks that concern clients of this process.
#[derive(Default)]
pub(in crate::engine) struct LockNews {
    /// Waits that were handed locks.
    pub(in crate::engine) granted: Vec<LocalHandover>,
    /// Locks with queues.
    pub(in crate::engine) awaited: Vec<KeyName>,
    /// Waits that have ended with an error, by their numbers.
    pub(in crate::engine) refused: Vec<(u64, Vec<u8>)>,
    /// Waits that have begun.
    pub(in crate::engine) queued: Vec<(StoredWait, KeyName)>,
    /// Sessions that have ended, each with a lock that is bound to it or that its process waits for: the process, the
    /// client's ID there, and the key.
    pub(in crate::engine) ended: Vec<(u64, u64, KeyName)>,
}

/// The lock state of the mirror.
pub(in crate::engine) struct KnownLocks {
    clients: Arc<Clients>,
    /// The lease of this process, with which its sessions end.
    pub(in crate::engine) lease: Arc<Lease>,
    pub(in crate::engine) holders: Arc<ClusterHolders>,
    locks: HashMap<KeyName, LockState, ahash::RandomState>,
    /// Locks bound to sessions, by the process and ID of the client.
    sessions: BTreeSet<(u64, u64, KeyName)>,
    /// The processes known to be dead.
    dead: HashSet<u64>,
    /// The fence base, and the revision of its last change.
    pub(in crate::engine) fence_base: (i64, Revision),
    news: LockNews,
}

impl KnownLocks {
    /// Creates the state before the first load.
    pub(in crate::engine) fn new(clients: Arc<Clients>) -> Self {
        KnownLocks {
            lease: Arc::new(Lease::new(clients.clone())),
            holders: Arc::new(ClusterHolders::new(clients.clone())),
            clients,
            locks: HashMap::default(),
            sessions: BTreeSet::new(),
            dead: HashSet::new(),
            fence_base: (0, 0),
            news: LockNews::default(),
        }
    }

    /// Returns the lock state of a key.
    pub(in crate::engine) fn state(&self, key: &KeyName) -> LockState {
        self.locks.get(key).cloned().unwrap_or_default()
    }

    /// Returns true if clients are queued for a lock.
    pub(in crate::engine) fn has_queue(&self, key: &KeyName) -> bool {
        self.locks.get(key).is_some_and(|state| !state.queue.is_empty())
    }

    /// Returns true if the wait of this process with a number is in the queue for a lock, or was handed it.
    pub(in crate::engine) fn has_wait(&self, key: &KeyName, number: u64) -> bool {
        let is_it = |process: u64, other: u64| other == number && self.holders.is_own(process);
        self.locks.get(key).is_some_and(|state| {
            let granted = state.records().flat_map(|record| &record.granted);
            let queued = state.queue.iter().map(|waiter| &waiter.wait);
            granted.chain(queued).any(|wait| is_it(wait.process, wait.number))
        })
    }

    /// Returns the wait of this process with a number.
    pub(in crate::engine) fn own_wait(&self, number: u64) -> StoredWait {
        StoredWait { process: self.holders.process, number }
    }

    /// Records the waits to which a transaction has replied with errors.
    pub(in crate::engine) fn record_refusals(&mut self, refusals: Vec<StoredRefusal>) {
        let own = refusals.into_iter().filter(|refusal| self.holders.is_own(refusal.wait.process));
        self.news.refused.extend(own.map(|refusal| (refusal.wait.number, refusal.error)));
    }

    /// Returns the locks that are bound to the session of a client of this process.
    pub(in crate::engine) fn bound_to(&self, client: u64) -> Vec<(u64, KeyName)> {
        let of = |process: u64| {
            let all = self.sessions.range((process, client, KeyName::default())..);
            all.take_while(move |(of, id, _)| (*of, *id) == (process, client))
        };
        self.holders.own().flat_map(of).map(|(process, _, key)| (*process, key.clone())).collect()
    }

    /// Takes the changes of locks.
    pub(in crate::engine) fn take_news(&mut self) -> LockNews {
        std::mem::take(&mut self.news)
    }

    /// Returns the first living client in the queue for a lock, if it is one of this process. Clients that upgrade the
    /// lock come before the others.
    pub(in crate::engine) fn own_first(&self, key: &KeyName) -> Option<&StoredWaiter> {
        let living = self.locks.get(key)?.queue.iter().filter(|waiter| !self.is_dead(waiter.wait.process));
        let first = living.min_by_key(|waiter| !waiter.is_upgrade)?;
        self.holders.is_own(first.wait.process).then_some(first)
    }

    /// Returns the index of the holder, among several, that a lock was handed over to as the end of a wait.
    pub(in crate::engine) fn holder_granted_to(&self, key: &KeyName, wait: StoredWait) -> Option<usize> {
        let holders = &self.locks.get(key)?.holders.as_ref()?.holders;
        holders.iter().position(|holder| holder.lock.granted.contains(&wait))
    }

    /// Returns true if a lock with this fencing token was handed over as the end of a wait.
    pub(in crate::engine) fn was_granted(&self, key: &KeyName, wait: StoredWait, fence: i64) -> bool {
        let records = self.locks.get(key).into_iter().flat_map(LockState::records);
        records.into_iter().any(|record| record.fence == fence && record.granted.contains(&wait))
    }

    /// Returns true if a process is known to be dead.
    pub(in crate::engine) fn is_dead(&self, process: u64) -> bool {
        self.dead.contains(&process)
    }

    /// Records the death of a process: its sessions and its waits have ended.
    pub(in crate::engine) fn record_gone(&mut self, process: u64) {
        if self.dead.insert(process) {
            let ended = self.sessions.range((process, 0, KeyName::default())..).take_while(|(of, ..)| *of == process);
            self.news.ended.extend(ended.cloned());
            let waits =
                |(_, state): &(&KeyName, &LockState)| state.queue.iter().any(|waiter| waiter.wait.process == process);
            self.news.ended.extend(self.locks.iter().filter(waits).map(|(key, _)| (process, NOBODY, key.clone())));
        }
    }

    /// Records the list of live processes: all other known processes are dead.
    pub(in crate::engine) fn record_living(&mut self, living: &HashSet<u64>) {
        let waiting = self.locks.values().flat_map(|state| state.queue.iter().map(|waiter| waiter.wait.process));
        let holding = self.sessions.iter().map(|(process, ..)| *process);
        let known: HashSet<u64> = waiting.chain(holding).filter(|process| !living.contains(process)).collect();
        known.into_iter().for_each(|process| self.record_gone(process));
    }

    /// Updates the lock of a key in the mirror to the cluster's state, with its value and TTLs.
    pub(in crate::engine) fn adopt(
        &mut self,
        (view, store): (&mut View<'_>, &Store),
        key: &KeyName,
        (value, ttls, state): (Option<&[u8]>, &KeyTtls, LockState),
        now: Now,
    ) {
        let before = self.forget(key);
        if before.is_none() && state.is_none() {
            return;
        }
        let holder = |client: &_| self.holders.holder(client);
        let lock = ClusterHolders::read_lock((&state, value, ttls), holder, |_| false, (store, now));
        let queue = self.holders.read_queue(&state.queue, (store, now));
        view.locks().adopt(key.0, store.key(&key.1), lock, queue);
        for waiter in &state.queue {
            let place = (waiter.awaited(key), store.hash(&waiter.token));
            self.clients.enter_mirrored(self.holders.copy(&waiter.client), waiter.wait.number, place);
        }
        self.note_news(key, &before, &state, now);
        for (process, client) in sessions_of(&state) {
            self.sessions.insert((process, client, key.clone()));
            if self.holders.is_own(process) {
                self.lease.bind(process, client);
            }
        }
        if !state.is_none() {
            self.locks.insert(key.clone(), state);
        }
    }

    fn note_news(&mut self, key: &KeyName, before: &LockState, state: &LockState, now: Now) {
        let is_own = |process: u64| self.holders.is_own(process);
        let known: HashSet<&StoredWait> = before.records().flat_map(|record| &record.granted).collect();
        let queued: HashMap<StoredWait, i64> =
            before.queue.iter().map(|waiter| (waiter.wait, waiter.since_us)).collect();
        for record in state.records() {
            let new = record.granted.iter().filter(|wait| is_own(wait.process) && !known.contains(wait));
            for wait in new {
                let waited_us = |since_us: &i64| us_between(now.mono_us_at(*since_us), now.mono_us());
                let waited_us = queued.get(wait).map_or(0, waited_us);
                let lock = (key.clone(), record.fence);
                // The locks that a client has asked for together are handed over together.
                match self.news.granted.iter_mut().rfind(|handover| handover.wait == wait.number) {
                    Some(handover) => handover.locks.push(lock),
                    None => {
                        self.news.granted.push(LocalHandover { wait: wait.number, locks: vec![lock], waited_us });
                    }
                }
            }
        }
        let former = sessions_of(before);
        for (process, client) in sessions_of(state).into_iter().filter(|session| former.binary_search(session).is_err())
        {
            let is_gone = is_own(process) && self.clients.find(client).is_none();
            if is_gone || self.dead.contains(&process) {
                self.news.ended.push((process, client, key.clone()));
            }
        }
        let own = state.queue.iter().map(|waiter| waiter.wait).filter(|wait| is_own(wait.process));
        let new = own.filter(|wait| !queued.contains_key(wait));
        self.news.queued.extend(new.map(|wait| (wait, key.clone())));
        if !state.queue.is_empty() {
            self.news.awaited.push(key.clone());
        }
    }

    /// Removes the lock state of a key, and returns it.
    pub(in crate::engine) fn forget(&mut self, key: &KeyName) -> LockState {
        let Some(state) = self.locks.remove(key) else { return LockState::default() };
        for (process, client) in sessions_of(&state) {
            self.sessions.remove(&(process, client, key.clone()));
            if self.holders.is_own(process) {
                self.lease.unbind(client);
            }
        }
        for waiter in &state.queue {
            self.clients.leave_mirrored(self.holders.copy(&waiter.client).id(), waiter.wait.number);
        }
        state
    }

    /// Removes the locks of databases, before these are emptied; returns those with queues, which outlive their keys.
    /// They are known until they are adopted: clients that go on to wait do not begin to.
    pub(in crate::engine) fn clear(&mut self, of: &Cleared, view: &mut View<'_>, store: &Store) -> Vec<KeyName> {
        let of_databases: Vec<KeyName> = self.locks.keys().filter(|key| of.has(key.0)).cloned().collect();
        let (queued, gone): (Vec<_>, Vec<_>) = of_databases.into_iter().partition(|key| self.has_queue(key));
        for key in &queued {
            view.locks().set_queue(key.0, store.key(&key.1), []); // so that no client is served by the mirror's queue
        }
        gone.iter().for_each(|key| _ = self.forget(key));
        queued
    }

    /// Announces the locks that a transaction has lost.
    pub(in crate::engine) fn announce(&self, losses: &[StoredLoss], store: &Store, (revision, now): (Revision, Now)) {
        for StoredLoss { key, token, lock, reason } in losses {
            let Some(loss) = LossReason::of(reason) else { continue };
            let lock: StoredLock = lock.at(revision);
            let record = ClusterHolders::read(&lock, token, |client| self.holders.holder(client), now);
            store.events().emit_lost_lock(&LostLock {
                key,
                record: &record,
                loss,
                at_us: now.mono_us(),
                awaited: None,
                is_repeated: false,
            });
        }
    }
}

/// Returns the sessions that a lock is bound to, each once and in order: the process, and the client's ID there.
fn sessions_of(state: &LockState) -> Vec<(u64, u64)> {
    let sessions = state.records().filter_map(|record| record.session.as_ref());
    let mut sessions: Vec<_> = sessions.map(|session| (session.process, session.id)).collect();
    sessions.sort_unstable();
    sessions.dedup();
    sessions
}
