//! Locks with their holders, and the queues for them.

use std::collections::VecDeque;

use hashbrown::HashTable;

use crate::memory::heap::allocation_len;
use crate::store::expire::NEVER;
use crate::store::interest::{InterestedKey, Interests};
use crate::store::key::{Key, shard_of};
use crate::store::lock::{HeldLock, Holders, Lock, LockMode, LockRecord, LockWaiter, SeenLock, lock_position};

impl Interests {
    /// Returns true if there are locks with known holders or queued clients.
    pub(in crate::store) fn has_locks(&self) -> bool {
        self.counts.held + self.counts.queued > 0
    }

    /// Iterates over the keys that have a lock with known holders or queued clients.
    pub(in crate::store) fn locks(&self) -> impl Iterator<Item = SeenLock<'_>> {
        self.subjects.iter().filter_map(seen)
    }

    /// Returns the record of the holder of an exclusive lock.
    pub(in crate::store) fn lock(&self, key: Key<'_>) -> Option<&LockRecord> {
        self.find(key)?.lock.as_ref()?.record.as_ref()
    }

    /// Returns the holders of a shared lock or a semaphore.
    pub(in crate::store) fn holders(&self, key: Key<'_>) -> Option<&Holders> {
        self.find(key)?.lock.as_ref()?.holders.as_deref()
    }

    /// Returns the known holders of a lock.
    pub(in crate::store) fn held_lock(&self, key: Key<'_>) -> Option<HeldLock<'_>> {
        self.find(key)?.lock.as_ref()?.held()
    }

    /// Changes, adds or removes the record of the holder of an exclusive lock.
    pub(in crate::store) fn change_record<T>(
        &mut self,
        key: Key<'_>,
        change: impl FnOnce(&mut Option<LockRecord>) -> T,
    ) -> T {
        self.interest_mut(key);
        let result = self.change_lock(key, |lock| change(&mut lock.record));
        self.forget_unless_wanted(key);
        result
    }

    /// Changes, adds or removes the holders of a shared lock or a semaphore.
    pub(in crate::store) fn change_holders<T>(
        &mut self,
        key: Key<'_>,
        change: impl FnOnce(&mut Option<Box<Holders>>) -> T,
    ) -> T {
        self.interest_mut(key);
        let before_ms = self.first_end_ms(key);
        let result = self.change_lock(key, |lock| change(&mut lock.holders));
        let after_ms = self.first_end_ms(key);
        if before_ms != after_ms {
            let ends = &mut self.index.get_or_insert_default().ends;
            if before_ms != NEVER {
                ends.remove(&(before_ms, key.hash, Box::from(key.bytes)));
                self.bytes -= allocation_len(key.bytes.len());
            }
            if after_ms != NEVER {
                ends.insert((after_ms, key.hash, key.bytes.into()), ());
                self.bytes += allocation_len(key.bytes.len());
            }
            self.index.take_if(|index| index.is_empty());
        }
        self.forget_unless_wanted(key);
        result
    }

    fn first_end_ms(&self, key: Key<'_>) -> u64 {
        self.find(key).and_then(|interest| interest.lock.as_ref()).map_or(NEVER, |lock| lock.first_end_ms())
    }

    /// Returns the time when the first of several holders of a lock ends, in monotonic milliseconds, or [`NEVER`].
    pub(in crate::store) fn next_end_ms(&self) -> u64 {
        self.index.as_ref().and_then(|index| index.ends.keys().next()).map_or(NEVER, |(at_ms, ..)| *at_ms)
    }

    /// Returns up to `max_count` locks with a holder, among several, that has ended by `now_ms`, each with its hash.
    pub(in crate::store) fn ended(&self, now_ms: u64, max_count: usize) -> Vec<(u64, Box<[u8]>)> {
        let ends = self.index.iter().flat_map(|index| index.ends.keys());
        let due = ends.take_while(|(at_ms, ..)| *at_ms <= now_ms).take(max_count);
        due.map(|(_, hash, key)| (*hash, key.clone())).collect()
    }

    /// Adds a lock to the index of positions.
    fn list(&mut self, key: Key<'_>) {
        self.index.get_or_insert_default().positions.insert(lock_position(key.hash), key.hash);
    }

    /// Removes a lock from the index of positions.
    fn unlist(&mut self, key: Key<'_>) {
        let Some(index) = &mut self.index else { return };
        if locks_of(&self.subjects, key.hash).next().is_none() {
            index.positions.remove(&lock_position(key.hash));
        }
        self.index.take_if(|index| index.is_empty());
    }

    /// Iterates over the locks from a position on, in the order of their positions, each with its position.
    pub(in crate::store) fn locks_from(&self, position: u64) -> impl Iterator<Item = (u64, SeenLock<'_>)> {
        let listed = self.index.iter().flat_map(move |index| index.positions.range(position..));
        listed.flat_map(|(position, hash)| locks_of(&self.subjects, *hash).map(|lock| (*position, lock)))
    }

    /// Appends a client to the queue for a lock.
    pub(in crate::store) fn join_queue(&mut self, key: Key<'_>, waiter: LockWaiter) {
        self.interest_mut(key);
        self.change_lock(key, |lock| lock.queue.push(waiter));
        self.counts.queued += 1;
        self.tail_work.add_queued(shard_of(key.hash), 1);
        self.report();
    }

    /// Removes all clients from the queue for a lock.
    pub(in crate::store) fn clear_queue(&mut self, key: Key<'_>) {
        let Some(queued) = self.lock_queue(key).map(VecDeque::len) else { return };
        self.change_lock(key, |lock| lock.queue.clear());
        self.counts.queued -= queued as u32;
        self.tail_work.add_queued(shard_of(key.hash), -(queued as isize));
        self.forget_unless_wanted(key);
    }

    pub(super) fn leave_queue(&mut self, key: Key<'_>, number: u64) -> bool {
        let Some(was_first) = self.change_lock(key, |lock| lock.queue.remove(number)) else { return false };
        self.counts.queued -= 1;
        self.tail_work.add_queued(shard_of(key.hash), -1);
        was_first
    }

    /// Reserves the position of a disconnected client in the queue for a lock, by the number of its wait; returns true
    /// if the client was the first there.
    pub(in crate::store) fn reserve_slot(&mut self, key: Key<'_>, number: u64) -> bool {
        let leave = |lock: &mut Lock| lock.queue.reserve_slot(number);
        self.lock_queue(key).is_some() && self.change_lock(key, leave).unwrap_or_default()
    }

    /// Gives a client its reserved position in the queue for a lock, found by the number of the wait; returns false if
    /// there is none.
    pub(in crate::store) fn claim_slot(&mut self, key: Key<'_>, waiter: LockWaiter) -> bool {
        self.lock_queue(key).is_some() && self.change_lock(key, |lock| lock.queue.claim_slot(waiter))
    }

    /// Returns the queue for a lock.
    pub(in crate::store) fn lock_queue(&self, key: Key<'_>) -> Option<&VecDeque<LockWaiter>> {
        self.find(key)?.lock.as_ref().map(|lock| &*lock.queue).filter(|queue| !queue.is_empty())
    }

    /// Iterates over the clients in the queue for a lock that ask for other locks at the same time.
    pub(in crate::store) fn queued_for_several(&self, key: Key<'_>) -> impl Iterator<Item = &LockWaiter> {
        let lock = self.find(key).and_then(|interest| interest.lock.as_ref());
        let queue = lock.map(|lock| &lock.queue).filter(|queue| queue.has_several());
        queue.into_iter().flat_map(|queue| queue.iter()).filter(|waiter| waiter.mode == LockMode::Several)
    }

    /// Changes a lock of a known key. The lock is created for that and dropped if it is empty afterwards.
    fn change_lock<T>(&mut self, key: Key<'_>, change: impl FnOnce(&mut Lock) -> T) -> T {
        let slot = self.subjects.find_mut(key.hash, |subject| *subject.key == *key.bytes);
        let mut none = None;
        let lock = slot.map_or(&mut none, |subject| &mut subject.interest.lock);
        let counted =
            |lock: &Option<Box<Lock>>| lock.as_ref().map_or((0, false), |lock| (lock.memory(), lock.is_held()));
        let (was_there, (memory, was_held)) = (lock.is_some(), counted(lock));
        let result = change(lock.get_or_insert_default());
        lock.take_if(|lock| lock.is_none());
        let (is_there, after) = (lock.is_some(), counted(lock));
        self.bytes = self.bytes + after.0 - memory;
        self.counts.held = self.counts.held + u32::from(after.1) - u32::from(was_held);
        match (was_there, is_there) {
            (false, true) => self.list(key),
            (true, false) => self.unlist(key),
            _ => {}
        }
        result
    }
}

fn seen(subject: &InterestedKey) -> Option<SeenLock<'_>> {
    let lock = subject.interest.lock.as_ref()?;
    let key = Key { bytes: &subject.key, hash: subject.hash };
    Some(SeenLock { key, held: lock.held(), queue: &lock.queue })
}

/// Iterates over the locks of the keys with a hash.
fn locks_of(subjects: &HashTable<InterestedKey>, hash: u64) -> impl Iterator<Item = SeenLock<'_>> {
    subjects.iter_hash(hash).filter(move |subject| subject.hash == hash).filter_map(seen)
}
