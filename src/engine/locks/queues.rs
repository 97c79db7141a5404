//! The queues for locks on a stage: clients join and leave them, and are handed locks.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::engine::locks::LockState;
use crate::engine::stored::{StoredWait, StoredWaiter};
use crate::store::KeyName;

/// The queues for the locks among the keys of a stage.
#[derive(Default)]
pub(in crate::engine) struct LockQueues {
    queues: BTreeMap<KeyName, Vec<StoredWaiter>>,
    /// The queues that are not empty in the cluster.
    stored: HashSet<KeyName>,
    /// The waits that present locks were handed over to.
    granted: HashMap<KeyName, Vec<StoredWait>>,
    /// The locks with a changed queue, or changed waits that they were handed over to.
    changed: HashSet<KeyName>,
}

impl LockQueues {
    /// Adds the lock state of a key in the cluster.
    pub(in crate::engine) fn load(&mut self, key: &KeyName, state: LockState) {
        if !state.queue.is_empty() {
            self.stored.insert(key.clone());
            self.queues.insert(key.clone(), state.queue);
        }
        if let Some(granted) = state.lock.map(|lock| lock.granted).filter(|granted| !granted.is_empty()) {
            self.granted.insert(key.clone(), granted);
        }
    }

    /// Appends a client to the queue for a lock.
    pub(in crate::engine) fn join(&mut self, key: KeyName, waiter: StoredWaiter) {
        self.changed.insert(key.clone());
        self.queues.entry(key).or_default().push(waiter);
    }

    /// Ends a wait. Returns true if the lock was handed over to it alone, and is to be given back.
    pub(in crate::engine) fn leave(&mut self, key: &KeyName, wait: StoredWait) -> bool {
        let removed = self.queues.get_mut(key).is_some_and(|queue| remove(queue, |waiter| waiter.wait == wait));
        let taken = self.granted.get_mut(key).is_some_and(|granted| remove(granted, |known| *known == wait));
        if removed || taken {
            self.changed.insert(key.clone());
        }
        taken && self.granted.get(key).is_some_and(Vec::is_empty)
    }

    /// Removes waits of dead processes from the queue for a lock.
    pub(in crate::engine) fn remove_dead(&mut self, key: &KeyName, is_dead: impl Fn(u64) -> bool) {
        if self.queues.get_mut(key).is_some_and(|queue| remove(queue, |waiter| is_dead(waiter.wait.process))) {
            self.changed.insert(key.clone());
        }
    }

    /// Takes the waits to which a free lock is handed over: the first one whose process is alive, and others with the
    /// same token. Dead ones are skipped.
    pub(in crate::engine) fn take_next(&mut self, key: &KeyName, is_dead: impl Fn(u64) -> bool) -> Vec<StoredWaiter> {
        let Some(queue) = self.queues.get_mut(key).filter(|queue| !queue.is_empty()) else { return Vec::new() };
        self.changed.insert(key.clone());
        queue.retain(|waiter| !is_dead(waiter.wait.process));
        let Some(token) = queue.first().map(|first| first.token.clone()) else { return Vec::new() };
        queue.extract_if(.., |waiter| waiter.token == token).collect()
    }

    /// Records the waits that a lock was handed over to.
    pub(in crate::engine) fn grant(&mut self, key: &KeyName, waits: Vec<StoredWait>) {
        self.granted.insert(key.clone(), waits);
    }

    pub(in crate::engine) fn locks(&self) -> Vec<KeyName> {
        self.queues.iter().filter(|(_, queue)| !queue.is_empty()).map(|(key, _)| key.clone()).collect()
    }

    /// Returns true if the queue for a lock is known, even an empty one.
    pub(in crate::engine) fn has(&self, key: &KeyName) -> bool {
        self.queues.contains_key(key)
    }

    /// Returns the locks with changes.
    pub(in crate::engine) fn changed(&self) -> impl Iterator<Item = &KeyName> {
        self.changed.iter()
    }

    /// Returns true if there is a queue for a lock that has none in the cluster.
    pub(in crate::engine) fn has_begun(&self) -> bool {
        self.queues.iter().any(|(key, queue)| !queue.is_empty() && !self.stored.contains(key))
    }

    pub(in crate::engine) fn queue(&self, key: &KeyName) -> Vec<StoredWaiter> {
        self.queues.get(key).cloned().unwrap_or_default()
    }

    /// Returns the waits that a lock was handed over to.
    pub(in crate::engine) fn granted(&self, key: &KeyName) -> Vec<StoredWait> {
        self.granted.get(key).cloned().unwrap_or_default()
    }
}

/// Removes the elements that meet a condition; returns true if there was any.
fn remove<T>(list: &mut Vec<T>, is_it: impl Fn(&T) -> bool) -> bool {
    let before = list.len();
    list.retain(|element| !is_it(element));
    list.len() < before
}
