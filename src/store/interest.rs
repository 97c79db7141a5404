//! Interest in keys, existing or not: transactions and migrations that watch a key, clients that are blocked on it, the
//! holders of a lock and the clients queued for it. The [fences](crate::store::fences) of keys are kept here, too, so
//! that a change has to look in one place only.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;

use crate::memory::heap::{allocation_len, list_len};
use crate::memory::ordered_map::OrderedMap;
use crate::store::expire::NEVER;
use crate::store::fences::{Fences, Retired};
use crate::store::held_lock::{HeldLock, Lock, LockIndex, SeenLock};
use crate::store::holders::Holders;
use crate::store::key::{Key, SHARDS, shard_of};
use crate::store::lock::{LockMode, LockRecord, LockWaiter, lock_position};
use crate::store::memory_account::{MemoryAccount, Share};
use crate::store::queues::{Queues, Waiter};
use crate::store::value::Type;

/// A flag that is raised when a watched key changes. Shared by a session and the shards of the keys that it watches.
#[derive(Clone, Default)]
pub struct WatchFlag(Arc<AtomicBool>);

impl WatchFlag {
    /// Returns true if a watched key has changed since the flag was created.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Work for the tail of a call: clients to serve, the log to write, or a wait until values are freed.
pub(crate) struct TailWork {
    /// All the work in one word, so that a call pays one load for the check. Almost always zero.
    pending: AtomicU64,
    /// Number of clients queued for locks, by the shard of the lock in any database: they concern only calls that write
    /// in that shard.
    queued: [AtomicU32; SHARDS],
    /// Number of changes of keys with blocked clients: it numbers the changes of all shards in their order.
    ready_keys: AtomicU64,
}

/// Unit of the count of clients queued for locks, in the upper half of the word: it concerns the beginning of a call.
const QUEUED: u64 = 1 << 32;
/// Set while changes are logged.
const LOGGED: u64 = 1 << 31;
/// Set while so much is queued to be freed that clients which add more should wait.
const BEHIND: u64 = 1 << 30;
/// The bits that count the changed keys with blocked clients, until those clients are served.
const READY: u64 = BEHIND - 1;

impl Default for TailWork {
    fn default() -> Self {
        TailWork {
            pending: AtomicU64::new(0),
            queued: [const { AtomicU32::new(0) }; SHARDS],
            ready_keys: AtomicU64::new(0),
        }
    }
}

impl TailWork {
    /// Returns true if there is any work at the end of a call.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.pending.load(Ordering::Relaxed) & (QUEUED - 1) != 0
    }

    /// Returns true if keys with blocked clients have changed.
    #[inline]
    pub(crate) fn has_ready_keys(&self) -> bool {
        self.pending.load(Ordering::Relaxed) & READY != 0
    }

    /// Returns true if clients are queued for locks.
    #[inline]
    pub(crate) fn has_lock_queues(&self) -> bool {
        self.pending.load(Ordering::Relaxed) >= QUEUED
    }

    /// Returns true if clients are queued for locks in the shards of the keys with these hashes.
    #[inline]
    pub(crate) fn has_lock_queues_beside(&self, hashes: &[u64]) -> bool {
        hashes.iter().any(|hash| self.queued[shard_of(*hash)].load(Ordering::Relaxed) != 0)
    }

    /// Adds to the number of clients queued for locks of a shard; the difference may be negative.
    fn add_queued(&self, shard: usize, difference: isize) {
        self.queued[shard].fetch_add(difference as u32, Ordering::Relaxed);
        self.pending.fetch_add(QUEUED.wrapping_mul(difference as u64), Ordering::Relaxed);
    }

    /// Returns true if changes are logged.
    #[inline]
    pub(crate) fn is_logged(&self) -> bool {
        self.pending.load(Ordering::Relaxed) & LOGGED != 0
    }

    /// Sets or clears the flag that changes are logged.
    pub(crate) fn set_logged(&self, is_logged: bool) {
        self.set(LOGGED, is_logged);
    }

    /// Sets or clears the flag that so much is queued to be freed that clients which add more should wait.
    pub(super) fn set_behind(&self, is_behind: bool) {
        self.set(BEHIND, is_behind);
    }

    fn set(&self, bit: u64, is_set: bool) {
        if is_set {
            self.pending.fetch_or(bit, Ordering::Relaxed)
        } else {
            self.pending.fetch_and(!bit, Ordering::Relaxed)
        };
    }
}

/// A changed key with blocked clients.
struct ReadyKey {
    number: u64,
    hash: u64,
    bytes: Box<[u8]>,
}

/// Changed keys with blocked clients, of several shards.
#[derive(Default)]
pub(crate) struct ReadyKeys(Vec<(usize, ReadyKey)>);

impl ReadyKeys {
    /// Returns the keys, each with the number of its database, in the order in which they became ready.
    pub(super) fn in_order(mut self) -> Vec<(usize, Box<[u8]>)> {
        self.0.sort_unstable_by_key(|(_, key)| key.number);
        self.0.into_iter().map(|(db, key)| (db, key.bytes)).collect()
    }
}

/// The interest in one key.
#[derive(Default)]
struct Interest {
    /// Flags that are raised when the key changes.
    flags: Vec<WatchFlag>,
    /// Clients that are blocked on the key until it changes.
    waiters: Queues,
    /// True while the key is queued in [`Interests::ready`].
    is_ready: bool,
    /// Lock of the key, or what remains of it while clients are queued for it.
    lock: Option<Box<Lock>>,
}

impl Interest {
    fn is_none(&self) -> bool {
        self.flags.is_empty() && self.waiters.is_empty() && self.lock.is_none()
    }
}

/// A key with interest in it.
struct InterestedKey {
    hash: u64,
    key: Box<[u8]>,
    interest: Interest,
}

/// Numbers of keys and clients, by kind of interest.
#[derive(Clone, Copy, Default)]
pub(super) struct InterestCounts {
    /// Watched keys.
    pub(super) watched: u32,
    /// Keys with blocked clients.
    pub(super) blocking: u32,
    /// Locks with a known holder.
    pub(super) held: u32,
    /// Clients queued for locks.
    pub(super) queued: u32,
}

/// The interests of all keys of a shard.
pub(super) struct Interests {
    /// Keys with interest in them, by the hash, which every change has at hand.
    subjects: HashTable<InterestedKey>,
    counts: InterestCounts,
    /// Indexes of the locks. Boxed, because every shard has this field and few have locks.
    index: Option<Box<LockIndex>>,
    fences: Fences,
    /// True while there are neither interests nor fences.
    is_empty: bool,
    /// Keys with blocked clients that have changed since the last [`Interests::take_ready`].
    ready: Vec<ReadyKey>,
    tail_work: Arc<TailWork>,
    /// Memory of the keys, here and in the sessions that watch them.
    bytes: usize,
    share: Share,
}

impl Interests {
    /// Creates an empty collection that reports its memory.
    pub(super) fn new(memory_account: Arc<MemoryAccount>, tail_work: Arc<TailWork>) -> Self {
        Interests {
            subjects: HashTable::new(),
            counts: InterestCounts::default(),
            index: None,
            fences: Fences::default(),
            is_empty: true,
            ready: Vec::new(),
            tail_work,
            bytes: 0,
            share: Share::new(memory_account),
        }
    }

    /// Takes all interests out, to be put back later: changes in between notify no client. The fences stay.
    pub(super) fn take_all(&mut self) -> Interests {
        let empty = Interests::new(self.share.account(), self.tail_work.clone());
        let mut taken = std::mem::replace(self, empty);
        self.swap_fences(&mut taken);
        taken
    }

    /// Reverts [`Interests::take_all`].
    pub(super) fn put_back(&mut self, mut taken: Interests) {
        self.swap_fences(&mut taken);
        *self = taken;
    }

    /// Returns true if no key has any interest or fence.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.is_empty
    }

    pub(super) fn has_fences(&self) -> bool {
        !self.fences.is_empty()
    }

    /// Returns the fence of a key; 0 if there is none.
    pub(super) fn fence(&self, key: Key<'_>) -> i64 {
        self.fences.get(key)
    }

    pub(super) fn set_fence(&mut self, key: Key<'_>, fence: i64) {
        self.fences.set(key, fence);
        self.report();
    }

    pub(super) fn fences(&self) -> &Fences {
        &self.fences
    }

    /// Adds the retired fence of a key that an earlier process has removed.
    pub(super) fn load_retired(&mut self, key: Key<'_>, retired: Retired) {
        self.fences.load_retired(key, retired);
        self.share.note_retired_fence();
        self.report();
    }

    /// Returns the fence of a key, or its retired fence if it was removed at `since_ms` or later; 0 if there is none.
    pub(super) fn fence_since(&self, key: Key<'_>, since_ms: i64) -> i64 {
        self.fences.get_since(key, since_ms)
    }

    /// Updates the fence after a change of a key: retires the fence of a removed key, forgets the retired fence of a
    /// key that exists without a fence.
    pub(super) fn follow_fence(&mut self, key: Key<'_>, is_there: bool, now_ms: i64) {
        if !is_there {
            self.fences.retire(key, now_ms);
        } else if self.fences.get(key) == 0 {
            self.fences.forget(key);
        } else {
            return;
        }
        self.share.note_retired_fence();
        self.report();
    }

    /// Forgets the fences of keys that were removed at `until_ms` or before.
    pub(super) fn forget_retired_fences(&mut self, until_ms: i64) {
        if self.has_fences() {
            self.fences.forget_retired(until_ms);
            self.report();
        }
    }

    pub(super) fn forget_fence(&mut self, key: Key<'_>) {
        if self.has_fences() {
            self.fences.forget(key);
            self.report();
        }
    }

    /// Forgets all fences and returns them.
    pub(super) fn take_fences(&mut self) -> Fences {
        let fences = std::mem::take(&mut self.fences);
        self.report();
        fences
    }

    /// Swaps the fences with the fences of another shard.
    pub(super) fn swap_fences(&mut self, other: &mut Interests) {
        std::mem::swap(&mut self.fences, &mut other.fences);
        self.report();
        other.report();
    }

    pub(super) fn counts(&self) -> InterestCounts {
        self.counts
    }

    /// Returns true if there are locks with known holders or queued clients.
    pub(super) fn has_locks(&self) -> bool {
        self.counts.held + self.counts.queued > 0
    }

    /// Iterates over the keys with interest in them.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key<'_>> {
        self.subjects.iter().map(|subject| Key { bytes: &subject.key, hash: subject.hash })
    }

    /// Iterates over the keys that have a lock with known holders or queued clients.
    pub(super) fn locks(&self) -> impl Iterator<Item = SeenLock<'_>> {
        self.subjects.iter().filter_map(seen)
    }

    /// Adds a flag that is raised when the key changes.
    pub(super) fn watch(&mut self, key: Key<'_>, flag: &WatchFlag) {
        let interest = self.interest_mut(key);
        let before = flags_len(&interest.flags);
        interest.flags.push(flag.clone());
        let (is_first, grown) = (interest.flags.len() == 1, flags_len(&interest.flags) - before);
        self.counts.watched += u32::from(is_first);
        self.bytes += watch_len(key.bytes) + grown;
        self.report();
    }

    /// Removes a flag from a key.
    pub(super) fn unwatch(&mut self, key: Key<'_>, flag: &WatchFlag) {
        let Some(interest) = self.find_mut(key) else { return };
        let (before, len) = (interest.flags.len(), flags_len(&interest.flags));
        interest.flags.retain(|other| !Arc::ptr_eq(&other.0, &flag.0));
        let (removed, is_last) = (before - interest.flags.len(), interest.flags.is_empty());
        if is_last {
            interest.flags = Vec::new();
        }
        let shrunk = len - flags_len(&interest.flags);
        self.counts.watched -= u32::from(removed > 0 && is_last);
        self.bytes -= removed * watch_len(key.bytes) + shrunk;
        self.forget_unless_wanted(key);
    }

    /// Appends a blocked client to the queue of a key.
    pub(super) fn enqueue(&mut self, key: Key<'_>, waiter: Waiter) {
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
    pub(super) fn dequeue(&mut self, key: Key<'_>, number: u64) -> bool {
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

    /// Removes all clients from the queue for a lock.
    pub(super) fn clear_queue(&mut self, key: Key<'_>) {
        let Some(queued) = self.lock_queue(key).map(VecDeque::len) else { return };
        self.change_lock(key, |lock| lock.queue.clear());
        self.counts.queued -= queued as u32;
        self.tail_work.add_queued(shard_of(key.hash), -(queued as isize));
        self.forget_unless_wanted(key);
    }

    fn leave_queue(&mut self, key: Key<'_>, number: u64) -> bool {
        let Some(was_first) = self.change_lock(key, |lock| lock.queue.remove(number)) else { return false };
        self.counts.queued -= 1;
        self.tail_work.add_queued(shard_of(key.hash), -1);
        was_first
    }

    /// Reserves the position of a disconnected client in the queue for a lock, by the number of its wait; returns true
    /// if the client was the first there.
    pub(super) fn reserve_slot(&mut self, key: Key<'_>, number: u64) -> bool {
        let leave = |lock: &mut Lock| lock.queue.reserve_slot(number);
        self.lock_queue(key).is_some() && self.change_lock(key, leave).unwrap_or_default()
    }

    /// Gives a client its reserved position in the queue for a lock, found by the number of the wait; returns false if
    /// there is none.
    pub(super) fn claim_slot(&mut self, key: Key<'_>, waiter: LockWaiter) -> bool {
        self.lock_queue(key).is_some() && self.change_lock(key, |lock| lock.queue.claim_slot(waiter))
    }

    /// Returns true if clients are blocked on a key.
    pub(super) fn has_waiters(&self, key: Key<'_>) -> bool {
        self.find(key).is_some_and(|interest| !interest.waiters.is_empty())
    }

    /// Returns the first client blocked on a key, after the wait `after`, that a value of type `of`, or none, serves.
    pub(super) fn next_waiter(&self, key: Key<'_>, of: Option<Type>, after: u64) -> Option<&Waiter> {
        self.find(key)?.waiters.next(of, after)
    }

    /// Returns the record of the holder of an exclusive lock.
    pub(super) fn lock(&self, key: Key<'_>) -> Option<&LockRecord> {
        self.find(key)?.lock.as_ref()?.record.as_ref()
    }

    /// Returns the holders of a shared lock or a semaphore.
    pub(super) fn holders(&self, key: Key<'_>) -> Option<&Holders> {
        self.find(key)?.lock.as_ref()?.holders.as_deref()
    }

    /// Returns the known holders of a lock.
    pub(super) fn held_lock(&self, key: Key<'_>) -> Option<HeldLock<'_>> {
        self.find(key)?.lock.as_ref()?.held()
    }

    /// Changes, adds or removes the record of the holder of an exclusive lock.
    pub(super) fn change_record<T>(&mut self, key: Key<'_>, change: impl FnOnce(&mut Option<LockRecord>) -> T) -> T {
        self.interest_mut(key);
        let result = self.change_lock(key, |lock| change(&mut lock.record));
        self.forget_unless_wanted(key);
        result
    }

    /// Changes, adds or removes the holders of a shared lock or a semaphore.
    pub(super) fn change_holders<T>(&mut self, key: Key<'_>, change: impl FnOnce(&mut Option<Box<Holders>>) -> T) -> T {
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
    pub(super) fn next_end_ms(&self) -> u64 {
        self.index.as_ref().and_then(|index| index.ends.keys().next()).map_or(NEVER, |(at_ms, ..)| *at_ms)
    }

    /// Returns up to `max_count` locks with a holder, among several, that has ended by `now_ms`, each with its hash.
    pub(super) fn ended(&self, now_ms: u64, max_count: usize) -> Vec<(u64, Box<[u8]>)> {
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
    pub(super) fn locks_from(&self, position: u64) -> impl Iterator<Item = (u64, SeenLock<'_>)> {
        let listed = self.index.iter().flat_map(move |index| index.positions.range(position..));
        listed.flat_map(|(position, hash)| locks_of(&self.subjects, *hash).map(|lock| (*position, lock)))
    }

    /// Appends a client to the queue for a lock.
    pub(super) fn join_queue(&mut self, key: Key<'_>, waiter: LockWaiter) {
        self.interest_mut(key);
        self.change_lock(key, |lock| lock.queue.push(waiter));
        self.counts.queued += 1;
        self.tail_work.add_queued(shard_of(key.hash), 1);
        self.report();
    }

    /// Returns the queue for a lock.
    pub(super) fn lock_queue(&self, key: Key<'_>) -> Option<&VecDeque<LockWaiter>> {
        self.find(key)?.lock.as_ref().map(|lock| &*lock.queue).filter(|queue| !queue.is_empty())
    }

    /// Iterates over the clients in the queue for a lock that ask for other locks at the same time.
    pub(super) fn queued_for_several(&self, key: Key<'_>) -> impl Iterator<Item = &LockWaiter> {
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

    /// Raises the flags of the watchers of a changed key.
    pub(super) fn raise_flags(&self, key: Key<'_>) {
        self.find(key).iter().flat_map(|interest| &interest.flags).for_each(WatchFlag::raise);
    }

    /// Marks a key as ready if a value of type `of`, or none, serves any of its blocked clients.
    pub(super) fn mark_awaited(&mut self, key: Key<'_>, of: Option<Type>) {
        if self.find(key).is_some_and(|interest| interest.waiters.wait_for(of)) {
            self.mark_ready(key);
        }
    }

    /// Marks a key as ready for its blocked clients, if there are any.
    pub(super) fn mark_ready(&mut self, key: Key<'_>) {
        let has_queue = self.lock_queue(key).is_some();
        let Some(interest) = self.find_mut(key) else { return };
        if interest.is_ready || interest.waiters.is_empty() && !has_queue {
            return;
        }
        interest.is_ready = true;
        let number = self.tail_work.ready_keys.fetch_add(1, Ordering::Relaxed);
        self.ready.push(ReadyKey { number, hash: key.hash, bytes: key.bytes.into() });
        self.tail_work.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the changed keys with blocked clients of this shard, which belongs to database `db`.
    pub(super) fn take_ready(&mut self, db: usize, taken: &mut ReadyKeys) {
        self.tail_work.pending.fetch_sub(self.ready.len() as u64, Ordering::Relaxed);
        for ready in std::mem::take(&mut self.ready) {
            if let Some(interest) = self.find_mut(Key { bytes: &ready.bytes, hash: ready.hash }) {
                interest.is_ready = false;
            }
            taken.0.push((db, ready));
        }
    }

    /// Counts all interests of the shard again, after a change that may not have been completed.
    pub(super) fn recount(&mut self, shard: usize) {
        let before = self.counts.queued;
        (self.counts, self.bytes, self.index) = (InterestCounts::default(), 0, None);
        for InterestedKey { hash, key, interest: Interest { flags, waiters, lock, .. } } in &self.subjects {
            let (is_held, queued) = lock.as_ref().map_or((false, 0), |lock| (lock.is_held(), lock.queue.len()));
            self.counts.watched += u32::from(!flags.is_empty());
            self.counts.blocking += u32::from(!waiters.is_empty());
            self.counts.held += u32::from(is_held);
            self.counts.queued += queued as u32;
            self.bytes +=
                interest_len(key) + flags_len(flags) + flags.len() * watch_len(key) + waiters.len() * WAITER_LEN;
            self.bytes += lock.as_ref().map_or(0, |lock| lock.memory());
            if let Some(lock) = lock {
                let index = self.index.get_or_insert_default();
                index.positions.insert(lock_position(*hash), *hash);
                if lock.first_end_ms() != NEVER {
                    index.ends.insert((lock.first_end_ms(), *hash, key.clone()), ());
                    self.bytes += allocation_len(key.len());
                }
            }
        }
        self.tail_work.add_queued(shard, self.counts.queued as isize - before as isize);
        self.report();
    }

    #[inline]
    fn find(&self, key: Key<'_>) -> Option<&Interest> {
        let subject = self.subjects.find(key.hash, |subject| *subject.key == *key.bytes);
        subject.map(|subject| &subject.interest)
    }

    fn find_mut(&mut self, key: Key<'_>) -> Option<&mut Interest> {
        let subject = self.subjects.find_mut(key.hash, |subject| *subject.key == *key.bytes);
        subject.map(|subject| &mut subject.interest)
    }

    /// Returns the interest in a key. The caller must forget the key again if it adds nothing.
    fn interest_mut(&mut self, key: Key<'_>) -> &mut Interest {
        let is_same = |subject: &InterestedKey| *subject.key == *key.bytes;
        match self.subjects.entry(key.hash, is_same, |subject| subject.hash) {
            Slot::Occupied(slot) => &mut slot.into_mut().interest,
            Slot::Vacant(slot) => {
                self.bytes += interest_len(key.bytes);
                let subject = InterestedKey { hash: key.hash, key: key.bytes.into(), interest: Interest::default() };
                &mut slot.insert(subject).into_mut().interest
            }
        }
    }

    fn forget_unless_wanted(&mut self, key: Key<'_>) {
        if let Ok(slot) = self.subjects.find_entry(key.hash, |subject| *subject.key == *key.bytes)
            && slot.get().interest.is_none()
        {
            slot.remove();
            self.bytes -= interest_len(key.bytes);
        }
        if self.subjects.is_empty() {
            self.subjects = HashTable::new();
        }
        self.report();
    }

    fn report(&mut self) {
        self.is_empty = self.subjects.is_empty() && self.fences.is_empty();
        let of_subjects = if self.subjects.is_empty() { 0 } else { self.bytes + self.subjects.allocation_size() };
        let of_index = self.index.as_ref().map_or(0, |index| index.positions.memory() + index.ends.memory());
        self.share.set(of_subjects + of_index + self.fences.memory());
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

/// Memory of one entry in a queue, in bytes; the capacity doubles.
const WAITER_LEN: usize = 2 * size_of::<Waiter>();

/// Returns the memory of a key in this collection, without its flags and queue.
fn interest_len(key: &[u8]) -> usize {
    allocation_len(key.len())
}

/// Returns the memory of the list of a key's flags, without the flags themselves.
fn flags_len(flags: &Vec<WatchFlag>) -> usize {
    list_len::<WatchFlag>(flags.capacity())
}

/// Returns the memory that a session needs to record a watched key.
fn watch_len(key: &[u8]) -> usize {
    allocation_len(key.len()) + OrderedMap::<(usize, Box<[u8]>), ()>::entry_len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_changes_often_is_ready_once_until_it_is_taken() {
        let mut interests = Interests::new(Arc::default(), Arc::default());
        let key = Key { bytes: b"k", hash: 1 };
        let waiter = Waiter { number: 1, wanted: Type::List, wake_on_delete: false, ticket: Arc::new(()) };
        interests.enqueue(key, waiter);
        for _ in 0..2 {
            interests.mark_awaited(key, Some(Type::String));
            interests.mark_awaited(key, None);
            assert!(!interests.tail_work.has_ready_keys());
            (0..3).for_each(|_| interests.mark_awaited(key, Some(Type::List)));
            let mut ready = ReadyKeys::default();
            interests.take_ready(0, &mut ready);
            assert_eq!(ready.in_order(), [(0, Box::from(&b"k"[..]))]);
            assert!(!interests.tail_work.has_ready_keys());
        }
    }
}
