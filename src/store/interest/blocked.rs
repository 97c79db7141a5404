//! Clients that are blocked on keys, and the changed keys that are ready for them.

use crate::store::interest::{Interests, ReadyKey, ReadyKeys, WAITER_LEN};
use crate::store::key::Key;
use crate::store::queues::Waiter;
use crate::store::value::Type;

impl Interests {
    /// Appends a blocked client to the queue of a key.
    pub(in crate::store) fn enqueue(&mut self, key: Key<'_>, waiter: Waiter) {
        let interest = self.interest_mut(key);
        let is_first = interest.waiters.is_empty();
        if !interest.waiters.push(waiter) {
            return; // a call may name a key twice
        }
        self.counts.blocking += u32::from(is_first);
        self.bytes += WAITER_LEN;
        self.report();
    }

    /// Removes a client, by the number of its wait, from the queue of a key and from the queue for its lock; returns
    /// true if it was the first in the latter.
    pub(in crate::store) fn dequeue(&mut self, key: Key<'_>, number: u64) -> bool {
        let Some(interest) = self.find_mut(key) else { return false };
        if interest.waiters.remove(number) {
            let is_last = interest.waiters.is_empty();
            self.counts.blocking -= u32::from(is_last);
            self.bytes -= WAITER_LEN;
        }
        let was_first = self.leave_queue(key, number);
        self.forget_unless_wanted(key);
        was_first
    }

    /// Returns true if clients are blocked on a key.
    pub(in crate::store) fn has_waiters(&self, key: Key<'_>) -> bool {
        self.find(key).is_some_and(|interest| !interest.waiters.is_empty())
    }

    /// Returns the first client blocked on a key, after the wait `after`, that a value of type `of`, or none, serves.
    pub(in crate::store) fn next_waiter(&self, key: Key<'_>, of: Option<Type>, after: u64) -> Option<&Waiter> {
        self.find(key)?.waiters.next(of, after)
    }

    /// Marks a key as ready if a value of type `of`, or none, serves any of its blocked clients.
    pub(in crate::store) fn mark_awaited(&mut self, key: Key<'_>, of: Option<Type>) {
        if self.find(key).is_some_and(|interest| interest.waiters.wait_for(of)) {
            self.mark_ready(key);
        }
    }

    /// Marks a key as ready for its blocked clients, if there are any.
    pub(in crate::store) fn mark_ready(&mut self, key: Key<'_>) {
        let has_queue = self.lock_queue(key).is_some();
        let Some(interest) = self.find_mut(key) else { return };
        if interest.is_ready || interest.waiters.is_empty() && !has_queue {
            return;
        }
        interest.is_ready = true;
        let number = self.tail_work.add_ready_key();
        self.ready.push(ReadyKey { number, hash: key.hash, bytes: key.bytes.into() });
    }

    /// Takes the changed keys with blocked clients of this shard, which belongs to database `db`.
    pub(in crate::store) fn take_ready(&mut self, db: usize, taken: &mut ReadyKeys) {
        self.tail_work.remove_ready_keys(self.ready.len());
        for ready in std::mem::take(&mut self.ready) {
            if let Some(interest) = self.find_mut(Key { bytes: &ready.bytes, hash: ready.hash }) {
                interest.is_ready = false;
            }
            taken.0.push((db, ready));
        }
    }
}
