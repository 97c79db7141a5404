//! The mirror's lock state besides the store: locks as stored in the cluster, the sessions that own them, and the
//! processes known to be dead.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::client::registry::Clients;
use crate::engine::cluster::Revision;
use crate::engine::lease::Lease;
use crate::engine::locks::{ClusterHolders, LockState};
use crate::engine::names::Cleared;
use crate::engine::stored::{StoredLock, StoredLoss, StoredWait, StoredWaiter};
use crate::store::{KeyName, LockHolder as _, LockMode, LockWaiter, LossReason, LostLock, Store, View};
use crate::time::clock::{Now, us_between};

/// Bit in the numbers of queued clients in the mirror, which makes them differ from all numbers of waits.
const PLACE: u64 = 1 << 63;

/// An ID that no client has.
const NOBODY: u64 = 0;

/// A lock that was handed over to a client of this process.
#[derive(Clone)]
pub(in crate::engine) struct LocalHandover {
    /// Number of the client's wait.
    pub(in crate::engine) wait: u64,
    pub(in crate::engine) key: KeyName,
    pub(in crate::engine) fence: i64,
    /// Duration of the wait, in microseconds.
    pub(in crate::engine) waited_us: u64,
}

/// Changes of locks that concern clients of this process.
#[derive(Default)]
pub(in crate::engine) struct LockNews {
    /// Waits that were handed a lock.
    pub(in crate::engine) granted: Vec<LocalHandover>,
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
    /// Revision at which a queue for a lock has last begun.
    pub(in crate::engine) queues_revision: Revision,
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
            queues_revision: 0,
            news: LockNews::default(),
        }
    }

    /// Returns the lock state of a key.
    pub(in crate::engine) fn state(&self, key: &KeyName) -> LockState {
        self.locks.get(key).cloned().unwrap_or_default()
    }

    /// Returns true if the wait of this process with a number is in the queue for a lock, or was handed it.
    pub(in crate::engine) fn has_wait(&self, key: &KeyName, number: u64) -> bool {
        let is_it = |process: u64, other: u64| other == number && self.holders.is_own(process);
        self.locks.get(key).is_some_and(|state| {
            let granted = state.lock.iter().flat_map(|lock| &lock.granted);
            let queued = state.queue.iter().map(|waiter| &waiter.wait);
            granted.chain(queued).any(|wait| is_it(wait.process, wait.number))
        })
    }

    /// Returns the locks with queues in some databases.
    pub(in crate::engine) fn with_queues(&self, of: &Cleared) -> Vec<KeyName> {
        let is_wanted = |(key, state): &(&KeyName, &LockState)| of.has(key.0) && !state.queue.is_empty();
        self.locks.iter().filter(is_wanted).map(|(key, _)| key.clone()).collect()
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

    /// Updates the lock of a key in the mirror to the cluster's state, with a value that may be a token.
    pub(in crate::engine) fn adopt(
        &mut self,
        (view, store): (&mut View<'_>, &Store),
        key: &KeyName,
        (token, state): (Option<&[u8]>, LockState),
        now: Now,
    ) {
        let before = self.forget(key);
        if before.is_none() && state.is_none() {
            return;
        }
        let record = state.lock.as_ref().zip(token);
        let record =
            record.map(|(lock, token)| ClusterHolders::read(lock, token, |client| self.holders.holder(client), now));
        let queued = |(at, waiter): (usize, &StoredWaiter)| LockWaiter {
            client: self.holders.copy(&waiter.client).id(),
            number: PLACE | at as u64,
            mode: LockMode::Exclusive,
            is_away: false,
            token: store.hash(&waiter.token),
            since_us: now.mono_us_at(waiter.since_us).max(0).cast_unsigned(),
        };
        view.locks().adopt(key.0, store.key(&key.1), record, state.queue.iter().enumerate().map(queued));
        for waiter in &state.queue {
            let place = (key.clone(), store.hash(&waiter.token));
            self.clients.enter_mirrored(self.holders.copy(&waiter.client), waiter.wait.number, place);
        }
        self.note_news(key, &before, &state, now);
        if let Some(session) = state.lock.as_ref().and_then(|lock| lock.session.as_ref()) {
            self.sessions.insert((session.process, session.id, key.clone()));
            if self.holders.is_own(session.process) {
                self.lease.bind(session.process, session.id);
            }
        }
        if !state.is_none() {
            self.locks.insert(key.clone(), state);
        }
    }

    fn note_news(&mut self, key: &KeyName, before: &LockState, state: &LockState, now: Now) {
        let is_own = |process: u64| self.holders.is_own(process);
        let known = before.lock.as_ref().map(|lock| lock.fence);
        if let Some(lock) = state.lock.as_ref().filter(|lock| known != Some(lock.fence)) {
            for wait in lock.granted.iter().filter(|wait| is_own(wait.process)) {
                let waiter = before.queue.iter().find(|waiter| waiter.wait == *wait);
                let waited_us = waiter.map_or(0, |waiter| us_between(now.mono_us_at(waiter.since_us), now.mono_us()));
                let (wait, key, fence) = (wait.number, key.clone(), lock.fence);
                self.news.granted.push(LocalHandover { wait, key, fence, waited_us });
            }
        }
        let session_of = |state: &LockState| {
            let session = state.lock.as_ref()?.session.as_ref()?;
            Some((session.process, session.id))
        };
        if let Some((process, client)) = session_of(state).filter(|session| session_of(before) != Some(*session)) {
            let is_gone = is_own(process) && self.clients.find(client).is_none();
            if is_gone || self.dead.contains(&process) {
                self.news.ended.push((process, client, key.clone()));
            }
        }
        let own = state.queue.iter().map(|waiter| waiter.wait).filter(|wait| is_own(wait.process));
        let new = own.filter(|wait| before.queue.iter().all(|waiter| waiter.wait != *wait));
        self.news.queued.extend(new.map(|wait| (wait, key.clone())));
    }

    /// Removes the lock state of a key, and returns it.
    pub(in crate::engine) fn forget(&mut self, key: &KeyName) -> LockState {
        let Some(state) = self.locks.remove(key) else { return LockState::default() };
        if let Some(session) = state.lock.as_ref().and_then(|lock| lock.session.as_ref()) {
            self.sessions.remove(&(session.process, session.id, key.clone()));
            if self.holders.is_own(session.process) {
                self.lease.unbind(session.id);
            }
        }
        for waiter in &state.queue {
            self.clients.leave_mirrored(self.holders.copy(&waiter.client).id(), waiter.wait.number);
        }
        state
    }

    /// Removes the locks of databases, before these are emptied.
    pub(in crate::engine) fn clear(&mut self, of: &Cleared, view: &mut View<'_>, store: &Store) {
        let gone: Vec<KeyName> = self.locks.keys().filter(|key| of.has(key.0)).cloned().collect();
        for key in gone {
            self.forget(&key);
            view.locks().clear_queue(key.0, store.key(&key.1)); // so that no client is served by the mirror's queue
        }
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
            });
        }
    }
}
