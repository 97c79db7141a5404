//! The lock of a key as its shard stores it, beside the other [interests](crate::store::interest) in the key.

use std::collections::VecDeque;

use crate::memory::heap::allocation_len;
use crate::memory::ordered_map::OrderedMap;
use crate::store::expire::NEVER;
use crate::store::key::Key;
use crate::store::lock::holders::Holders;
use crate::store::lock::queue::LockQueue;
use crate::store::lock::{LockRecord, LockWaiter};

/// Holders of a lock that is held.
#[derive(Clone, Copy)]
pub enum HeldLock<'a> {
    /// One client holds the lock exclusively.
    Exclusive(&'a LockRecord),
    /// Several clients hold the lock together.
    Shared(&'a Holders),
}

impl<'a> HeldLock<'a> {
    /// Returns the record of the holder with a token and the token's hash.
    pub(crate) fn record(self, hash: u64, token: &[u8]) -> Option<&'a LockRecord> {
        match self {
            HeldLock::Exclusive(record) => (*record.token == *token).then_some(record),
            HeldLock::Shared(holders) => Some(&holders.get(holders.find(hash, token)?)?.record),
        }
    }
}

/// View of a lock, for reports.
pub(crate) struct SeenLock<'a> {
    pub(crate) key: Key<'a>,
    /// Holders of the lock, as far as they are known.
    pub(crate) held: Option<HeldLock<'a>>,
    pub(crate) queue: &'a VecDeque<LockWaiter>,
}

/// Ordered indexes of the locks of a shard.
#[derive(Default)]
pub(in crate::store) struct LockIndex {
    /// Hashes of the locks' keys, by their positions.
    pub(in crate::store) positions: OrderedMap<u64, u64>,
    /// Time when the first of several holders of a lock ends, in monotonic milliseconds, with the hash of the key, and
    /// the key.
    pub(in crate::store) ends: OrderedMap<(u64, u64, Box<[u8]>), ()>,
}

impl LockIndex {
    pub(in crate::store) fn is_empty(&self) -> bool {
        self.positions.is_empty() && self.ends.is_empty()
    }
}

/// A lock: its holders, as far as they are known, and its queue.
#[derive(Default)]
pub(in crate::store) struct Lock {
    /// Holder of an exclusive lock.
    pub(in crate::store) record: Option<LockRecord>,
    /// Holders of any other lock. Never set together with `record`.
    pub(in crate::store) holders: Option<Box<Holders>>,
    pub(in crate::store) queue: LockQueue,
}

impl Lock {
    pub(in crate::store) fn is_none(&self) -> bool {
        self.record.is_none() && self.holders.is_none() && self.queue.is_empty()
    }

    /// Returns the known holders.
    pub(in crate::store) fn held(&self) -> Option<HeldLock<'_>> {
        let shared = self.holders.as_deref().map(HeldLock::Shared);
        self.record.as_ref().map(HeldLock::Exclusive).or(shared)
    }

    /// Returns true if a holder is known.
    pub(in crate::store) fn is_held(&self) -> bool {
        self.record.is_some() || self.holders.as_ref().is_some_and(|holders| !holders.is_empty())
    }

    /// Returns the time when the first of several holders ends, in monotonic milliseconds, or [`NEVER`].
    pub(in crate::store) fn first_end_ms(&self) -> u64 {
        self.holders.as_ref().and_then(|holders| holders.first_to_end()).map_or(NEVER, |(until_ms, _)| until_ms)
    }

    /// Returns the memory of the lock.
    pub(in crate::store) fn memory(&self) -> usize {
        allocation_len(size_of::<Lock>())
            + self.queue.memory()
            + self.record.as_ref().map_or(0, LockRecord::heap_len)
            + self.holders.as_ref().map_or(0, |holders| holders.memory())
    }
}
