//! Interest in keys, existing or not: transactions and migrations that watch a key, clients that are blocked on it, the
//! holders of a lock and the clients queued for it. The [fences](crate::store::fences) of keys are kept here, too, so
//! that a change has to look in one place only.

mod blocked;
mod fences;
mod locks;
mod watchers;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;

use crate::memory::heap::{allocation_len, list_len};
use crate::memory::ordered_map::OrderedMap;
use crate::store::expire::NEVER;
use crate::store::fences::Fences;
use crate::store::key::{Key, KeyName};
use crate::store::lock::{Lock, LockIndex, lock_position};
use crate::store::memory_account::{MemoryAccount, ReportedMemory};
use crate::store::queues::{Queues, Waiter};
use crate::store::tail_work::TailWork;

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
    pub(super) fn in_order(mut self) -> Vec<KeyName> {
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
    share: ReportedMemory,
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
            share: ReportedMemory::new(memory_account),
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

    pub(super) fn counts(&self) -> InterestCounts {
        self.counts
    }

    /// Iterates over the keys with interest in them.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key<'_>> {
        self.subjects.iter().map(|subject| Key { bytes: &subject.key, hash: subject.hash })
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
    allocation_len(key.len()) + OrderedMap::<KeyName, ()>::entry_len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::value::Type;

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
