//! Work for the tails of calls, in one word, so that a call without any pays one load.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::store::key::{SHARDS, shard_of};

/// Unit of the count of clients queued for locks, in the upper half of the word: it concerns the beginning of a call.
const QUEUED: u64 = 1 << 32;
/// Set while changes are logged.
const LOGGED: u64 = 1 << 31;
/// Set while so much is queued to be freed that clients which add more should wait.
const BEHIND: u64 = 1 << 30;
/// The bits that count the changed keys with blocked clients, until those clients are served.
const READY: u64 = BEHIND - 1;

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
    pub(super) fn add_queued(&self, shard: usize, difference: isize) {
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

    /// Counts a changed key with blocked clients; returns its number.
    pub(super) fn add_ready_key(&self) -> u64 {
        self.pending.fetch_add(1, Ordering::Relaxed);
        self.ready_keys.fetch_add(1, Ordering::Relaxed)
    }

    /// Removes changed keys, whose clients are served now, from the count.
    pub(super) fn remove_ready_keys(&self, count: usize) {
        self.pending.fetch_sub(count as u64, Ordering::Relaxed);
    }

    fn set(&self, bit: u64, is_set: bool) {
        if is_set {
            self.pending.fetch_or(bit, Ordering::Relaxed)
        } else {
            self.pending.fetch_and(!bit, Ordering::Relaxed)
        };
    }
}
