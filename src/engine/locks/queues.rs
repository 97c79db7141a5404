//! The queues for locks on a stage: clients join and leave them, and are handed locks.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::engine::locks::{Granted, LockState};
use crate::engine::stored::{StoredWait, StoredWaiter};
use crate::store::KeyName;

/// The queues for the locks among the keys of a stage.
#[derive(Default)]
pub(in crate::engine) struct LockQueues {
    queues: BTreeMap<KeyName, Vec<StoredWaiter>>,
    /// The queues that are not empty in the cluster.
    stored: HashSet<KeyName>,
    /// The waits that present locks were handed over to, by the tokens of the holders.
    granted: HashMap<KeyName, HashMap<Vec<u8>, Granted>>,
    /// The locks with a changed queue, or changed waits that they were handed over to.
    changed: HashSet<KeyName>,
}

impl LockQueues {
    /// Adds the lock state of a key in the cluster; `token` is that of an exclusive lock.
    pub(in crate::engine) fn load(&mut self, key: &KeyName, token: Option<&[u8]>, state: LockState) {
        let exclusive = state.lock.zip(token).map(|(lock, token)| (token.to_vec(), lock));
        let holders = state.holders.into_iter().flat_map(|holders| holders.holders);
        let shared = holders.map(|holder| (holder.token, holder.lock));
        for (token, lock) in exclusive.into_iter().chain(shared) {
            let is_kept = lock.is_kept || lock.granted.is_empty();
            let granted = Granted { waits: lock.granted, is_kept };
            self.granted.entry(key.clone()).or_default().insert(token, granted);
        }
        if !state.queue.is_empty() {
            self.stored.insert(key.clone());
            self.queues.insert(key.clone(), state.queue);
        }
    }

    /// Appends a client to the queue for a lock.
    pub(in crate::engine) fn join(&mut self, key: KeyName, waiter: StoredWaiter) {
        self.changed.insert(key.clone());
        self.queues.entry(key).or_default().push(waiter);
    }

    /// Ends a wait. Returns the token of the holder if the lock was handed over to this wait alone, and is to be given
    /// back.
    pub(in crate::engine) fn leave(&mut self, key: &KeyName, wait: StoredWait) -> Option<Vec<u8>> {
        let removed = self.queues.get_mut(key).is_some_and(|queue| remove(queue, |waiter| waiter.wait == wait));
        let taken = self.granted.get_mut(key).and_then(|granted| {
            let (token, granted) = granted.iter_mut().find(|(_, granted)| granted.waits.contains(&wait))?;
            remove(&mut granted.waits, |known| *known == wait);
            Some((token.clone(), granted.waits.is_empty() && !granted.is_kept))
        });
        if removed || taken.is_some() {
            self.changed.insert(key.clone());
        }
        taken.filter(|(_, is_alone)| *is_alone).map(|(token, _)| token)
    }

    /// Removes waits of dead processes from the queue for a lock.
    pub(in crate::engine) fn remove_dead(&mut self, key: &KeyName, is_dead: impl Fn(u64) -> bool) {
        if self.queues.get_mut(key).is_some_and(|queue| remove(queue, |waiter| is_dead(waiter.wait.process))) {
            self.changed.insert(key.clone());
        }
    }

    /// Takes a client out of the queue for a lock.
    pub(in crate::engine) fn take(&mut self, key: &KeyName, wait: StoredWait) {
        if self.queues.get_mut(key).is_some_and(|queue| remove(queue, |waiter| waiter.wait == wait)) {
            self.changed.insert(key.clone());
        }
    }

    /// Records a wait that a lock was handed over to for a token, which held the lock before if `is_held`.
    pub(in crate::engine) fn grant(&mut self, key: &KeyName, token: &[u8], (wait, is_held): (StoredWait, bool)) {
        let granted = self.granted.entry(key.clone()).or_default().entry(token.to_vec()).or_default();
        if !is_held {
            *granted = Granted::default();
        }
        granted.waits.push(wait);
    }

    /// Records that a client has acquired or renewed a lock by itself.
    pub(in crate::engine) fn keep(&mut self, key: &KeyName, token: &[u8]) {
        let granted = Granted { waits: Vec::new(), is_kept: true };
        let former = self.granted.entry(key.clone()).or_default().insert(token.to_vec(), granted);
        if former.is_some_and(|former| !former.waits.is_empty()) {
            self.changed.insert(key.clone());
        }
    }

    /// Returns the locks that clients are queued for.
    pub(in crate::engine) fn locks(&self) -> Vec<KeyName> {
        self.queues.iter().filter(|(_, queue)| !queue.is_empty()).map(|(key, _)| key.clone()).collect()
    }

    /// Returns the locks with changes.
    pub(in crate::engine) fn changed(&self) -> impl Iterator<Item = &KeyName> {
        self.changed.iter()
    }

    /// Returns true if there is a queue for a lock that has none in the cluster.
    pub(in crate::engine) fn has_begun(&self) -> bool {
        self.queues.iter().any(|(key, queue)| !queue.is_empty() && !self.stored.contains(key))
    }

    /// Returns the queue for a lock.
    pub(in crate::engine) fn queue(&self, key: &KeyName) -> &[StoredWaiter] {
        self.queues.get(key).map_or(&[], Vec::as_slice)
    }

    /// Returns the waits that a lock was handed over to for a token.
    pub(in crate::engine) fn granted(&self, key: &KeyName, token: &[u8]) -> Granted {
        self.granted.get(key).and_then(|granted| granted.get(token)).cloned().unwrap_or_default()
    }
}

/// Removes the elements that meet a condition; returns true if there was any.
fn remove<T>(list: &mut Vec<T>, is_it: impl Fn(&T) -> bool) -> bool {
    let before = list.len();
    list.retain(|element| !is_it(element));
    list.len() < before
}
