//! The queues for locks on a stage: clients join and leave them, and are handed locks.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use crate::engine::locks::{Given, Granted, LockState, PLACE};
use crate::engine::stored::{StoredWait, StoredWaiter};
use crate::store::KeyName;

/// The queues for the locks among the keys of a stage.
#[derive(Default)]
pub(in crate::engine) struct LockQueues {
    queues: BTreeMap<KeyName, StageQueue>,
    /// The hand-overs of present locks, by the tokens of the holders.
    granted: HashMap<KeyName, HashMap<Vec<u8>, Granted>>,
    /// The locks with a changed queue, or changed waits that they were handed over to.
    changed: HashSet<KeyName>,
}

/// The queue for a lock: the clients, each with its number in the store of the stage, in ascending order.
#[derive(Default)]
struct StageQueue {
    waiters: VecDeque<(u64, StoredWaiter)>,
    /// Number of clients that have been in the queue.
    count: u64,
}

impl StageQueue {
    fn push(&mut self, waiter: StoredWaiter) -> u64 {
        let number = PLACE + self.count;
        self.count += 1;
        self.waiters.push_back((number, waiter));
        number
    }
}

impl LockQueues {
    /// Adds the lock state of a key in the cluster; `token` is that of an exclusive lock.
    pub(in crate::engine) fn load(&mut self, key: &KeyName, token: Option<&[u8]>, state: LockState) {
        let exclusive = state.lock.zip(token).map(|(lock, token)| (token.to_vec(), lock));
        let holders = state.holders.into_iter().flat_map(|holders| holders.holders);
        let shared = holders.map(|holder| (holder.token, holder.lock));
        for (token, lock) in exclusive.into_iter().chain(shared) {
            let is_kept = lock.is_kept || lock.granted.is_empty();
            let granted = Granted { waits: lock.granted, is_kept, given: None };
            self.granted.entry(key.clone()).or_default().insert(token, granted);
        }
        if !state.queue.is_empty() {
            let queue = self.queues.entry(key.clone()).or_default();
            state.queue.into_iter().for_each(|waiter| _ = queue.push(waiter));
        }
    }

    /// Appends a client to the queue for a lock; returns its number.
    pub(in crate::engine) fn join(&mut self, key: KeyName, waiter: StoredWaiter) -> u64 {
        self.changed.insert(key.clone());
        self.queues.entry(key).or_default().push(waiter)
    }

    /// Ends the hand-over of a lock to a wait. Returns the token of the holder if the lock was handed over to this wait
    /// alone, and is to be given back.
    pub(in crate::engine) fn end_grant(&mut self, key: &KeyName, wait: StoredWait) -> Option<Vec<u8>> {
        let of_key = self.granted.get_mut(key)?;
        let (token, granted) = of_key.iter_mut().find(|(_, granted)| granted.waits.contains(&wait))?;
        granted.waits.retain(|known| *known != wait);
        self.changed.insert(key.clone());
        let is_over = granted.waits.is_empty() && !granted.is_kept;
        let token = token.clone();
        is_over.then(|| {
            of_key.remove(&token);
            token
        })
    }

    /// Removes the clients that meet a condition from the queue for a lock; returns their numbers.
    pub(in crate::engine) fn remove(&mut self, key: &KeyName, is_it: impl Fn(&StoredWaiter) -> bool) -> Vec<u64> {
        let Some(queue) = self.queues.get_mut(key) else { return Vec::new() };
        let mut removed = Vec::new();
        // Most often it is the first one, after which the others need not move.
        while queue.waiters.front().is_some_and(|(_, waiter)| is_it(waiter)) {
            removed.extend(queue.waiters.pop_front().map(|(number, _)| number));
        }
        queue.waiters.retain(|(number, waiter)| {
            let is_removed = is_it(waiter);
            removed.extend(is_removed.then_some(*number));
            !is_removed
        });
        if !removed.is_empty() {
            self.changed.insert(key.clone());
        }
        removed
    }

    /// Records a wait that a lock was handed over to for a token, which held the lock before if `is_held`.
    pub(in crate::engine) fn grant(
        &mut self,
        key: &KeyName,
        token: &[u8],
        wait: StoredWait,
        (given, is_held): (Given, bool),
    ) {
        let granted = self.granted.entry(key.clone()).or_default().entry(token.to_vec()).or_default();
        if !is_held {
            *granted = Granted::default();
        }
        granted.waits.push(wait);
        granted.given = Some(given);
    }

    /// Records that a client has acquired or renewed a lock by itself; returns true if the present transaction has handed
    /// the lock over before.
    pub(in crate::engine) fn keep(&mut self, key: &KeyName, token: &[u8]) -> bool {
        let granted = Granted { is_kept: true, ..Granted::default() };
        let former = self.granted.entry(key.clone()).or_default().insert(token.to_vec(), granted).unwrap_or_default();
        if !former.waits.is_empty() {
            self.changed.insert(key.clone());
        }
        former.given.is_some()
    }

    /// Iterates over the hand-overs that the present transaction makes, each with the key and the token of the holder.
    pub(in crate::engine) fn given(&self) -> impl Iterator<Item = (&KeyName, &[u8], Given)> {
        self.granted.iter().flat_map(|(key, granted)| {
            granted.iter().filter_map(move |(token, granted)| Some((key, token.as_slice(), granted.given?)))
        })
    }

    /// Returns the locks that clients are queued for.
    pub(in crate::engine) fn locks(&self) -> Vec<KeyName> {
        self.queues.iter().filter(|(_, queue)| !queue.waiters.is_empty()).map(|(key, _)| key.clone()).collect()
    }

    /// Returns the locks with changes.
    pub(in crate::engine) fn changed(&self) -> impl Iterator<Item = &KeyName> {
        self.changed.iter()
    }

    /// Returns the clients in the queue for a lock.
    pub(in crate::engine) fn queue(&self, key: &KeyName) -> impl Iterator<Item = &StoredWaiter> {
        self.queues.get(key).into_iter().flat_map(|queue| &queue.waiters).map(|(_, waiter)| waiter)
    }

    /// Returns a client in the queue for a lock, by its number.
    pub(in crate::engine) fn waiter(&self, key: &KeyName, number: u64) -> Option<&StoredWaiter> {
        let waiters = &self.queues.get(key)?.waiters;
        let at = waiters.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(&waiters[at].1)
    }

    /// Returns the hand-over of a lock to the holder with a token.
    pub(in crate::engine) fn granted(&self, key: &KeyName, token: &[u8]) -> Granted {
        self.granted.get(key).and_then(|granted| granted.get(token)).cloned().unwrap_or_default()
    }
}
