//! A lock as a shard keeps it, beside the other [interests](crate::store::interest) in its key.

use std::collections::VecDeque;

use crate::memory::heap::allocation_len;
use crate::memory::ordered_map::OrderedMap;
use crate::store::expire::NEVER;
use crate::store::holders::Holders;
use crate::store::key::Key;
use crate::store::lock::{LockRecord, LockWaiter};
use crate::store::lock_queue::LockQueue;

/// What is known of a lock that is held.
#[derive(Clone, Copy)]
pub enum HeldLock<'a> {
    /// By one client.
    Exclusive(&'a LockRecord),
    /// By several.
    Shared(&'a Holders),
}

/// A lock, as it is shown to others.
pub(crate) struct SeenLock<'a> {
    pub(crate) key: Key<'a>,
    /// Its holders, as far as they are known.
    pub(crate) held: Option<HeldLock<'a>>,
    pub(crate) queue: &'a VecDeque<LockWaiter>,
}

/// The locks of a shard in an order.
#[derive(Default)]
pub(super) struct LockIndex {
    /// Their hashes, by their positions.
    pub(super) positions: OrderedMap<u64, u64>,
    /// When the first of several holders of a lock ends, in monotonic milliseconds, with the hash of the key, and the key.
    pub(super) ends: OrderedMap<(u64, u64, Box<[u8]>), ()>,
}

impl LockIndex {
    /// Returns whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.positions.is_empty() && self.ends.is_empty()
    }
}

/// A lock: who holds it, as far as it is known, and its queue.
#[derive(Default)]
pub(super) struct Lock {
    /// The one holder of an exclusive lock.
    pub(super) record: Option<LockRecord>,
    /// The holders of any other one. There is not both.
    pub(super) holders: Option<Box<Holders>>,
    pub(super) queue: LockQueue,
}

impl Lock {
    pub(super) fn is_none(&self) -> bool {
        self.record.is_none() && self.holders.is_none() && self.queue.is_empty()
    }

    /// Returns what is known of its holders.
    pub(super) fn held(&self) -> Option<HeldLock<'_>> {
        let shared = self.holders.as_deref().map(HeldLock::Shared);
        self.record.as_ref().map(HeldLock::Exclusive).or(shared)
    }

    /// Returns whether a holder is known.
    pub(super) fn is_held(&self) -> bool {
        self.record.is_some() || self.holders.as_ref().is_some_and(|holders| !holders.is_empty())
    }

    /// Returns when the first of several holders ends, in monotonic milliseconds, or [`NEVER`].
    pub(super) fn first_end_ms(&self) -> u64 {
        self.holders.as_ref().and_then(|holders| holders.first_to_end()).map_or(NEVER, |(until_ms, _)| until_ms)
    }

    /// Returns the memory that it takes.
    pub(super) fn memory(&self) -> usize {
        allocation_len(size_of::<Lock>())
            + self.queue.memory()
            + self.record.as_ref().map_or(0, LockRecord::heap_len)
            + self.holders.as_ref().map_or(0, |holders| holders.memory())
    }
}
