//! Fragmentation: memory that the allocator holds beyond the requested bytes, in partly empty pages and in pages not
//! yet returned to the system.
//!
//! `maxmemory` is compared with the requested memory, as in Redis. If values of many sizes come and go, the process
//! takes far more. So with a limit and a policy that evicts keys, the allocator's statistics are read whenever a small
//! part of the limit has been evicted, and three measures are taken against fragmentation:
//!
//! - From a twenty-fourth of the limit on, entries are defragmented ([`Store::compact`](crate::store::Store::compact)),
//!   moving a few times as many bytes as are evicted.
//! - Losses in partly empty pages beyond a twelfth of the limit are compensated by evicting more keys.
//! - Unused pages beyond a thirty-second of the limit are returned at once by a background thread, and beyond a
//!   sixteenth by the evicting thread, so that they do not grow faster than they are returned.

use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering::AcqRel, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, OnceLock};
use std::thread;

use tracing::warn;

use crate::memory::AllocatorStats;
use crate::store::MemoryAccount;

/// Part of the limit after whose eviction the allocator's statistics are read.
const LOOK_SHARE: usize = 64;
/// Part of the limit that partly empty pages may lose, or [`LOSS_MIN`] if larger, before more keys are evicted.
const LOSS_SHARE: usize = 12;
/// Part of the limit that partly empty pages may lose, or half of [`LOSS_MIN`] if larger, before entries are moved.
const SCATTER_SHARE: usize = 24;
/// Smallest loss, in bytes, that causes extra eviction: the allocator needs some memory for itself.
const LOSS_MIN: usize = 8 << 20;
/// Part of the limit that unused pages may be, or [`UNUSED_MIN`] if larger, before they are returned.
const UNUSED_SHARE: usize = 32;
/// Number of unused bytes left to the allocator, which returns them after ten seconds.
const UNUSED_MIN: usize = 2 << 20;
/// Bytes of entries moved per evicted byte.
const MOVES_PER_EVICTION: usize = 4;
/// The maximum number of bytes moved at once: about half a millisecond's work.
const MOVES_AT_ONCE: isize = 256 << 10;
/// Multiple of the limit after which moving entries has not helped, if as much is lost as before.
const MOVES_MAX: usize = 4;

/// Tracks the fragmentation of the allocator.
#[derive(Default)]
pub(crate) struct Fragmentation {
    /// Bytes evicted since the statistics were last read.
    evicted: AtomicUsize,
    is_purging: Arc<AtomicBool>,
    /// True while entries should be moved.
    is_scattered: AtomicBool,
    /// Number of bytes to move now, if positive.
    due: AtomicIsize,
    /// Number of bytes moved since moving began.
    moved: AtomicUsize,
    /// Loss that moving entries has failed to reduce.
    unrecoverable: AtomicUsize,
    /// Function of the allocator that runs a closure without its cache, once its statistics were read.
    without_cache: OnceLock<fn(&mut dyn FnMut())>,
}

impl Fragmentation {
    /// Records evicted bytes, and reads the allocator's statistics after enough of them.
    pub(crate) fn record_evicted(
        &self,
        bytes: usize,
        memory_account: &MemoryAccount,
        allocator: Option<fn() -> AllocatorStats>,
    ) {
        let (Some(allocator), Some(limit)) = (allocator, memory_account.limit()) else { return };
        if self.is_scattered.load(Relaxed) {
            let due = self.due.load(Relaxed) + (bytes * MOVES_PER_EVICTION) as isize;
            self.due.store(due.min(MOVES_AT_ONCE), Relaxed);
        }
        if self.evicted.fetch_add(bytes, Relaxed).saturating_add(bytes) >= limit / LOOK_SHARE {
            self.evicted.store(0, Relaxed);
            self.look(memory_account, limit, allocator());
        }
    }

    /// Moves entries if necessary; `step` moves some and returns their number of bytes. Moving a few at a time does not
    /// pay, so after a step nothing is moved until enough bytes were evicted to balance it.
    pub(crate) fn compact(&self, memory_account: &MemoryAccount, mut step: impl FnMut() -> usize) {
        let is_due = || self.is_scattered.load(Relaxed) && self.due.load(Relaxed) > 0;
        if let Some(without_cache) = self.without_cache.get().filter(|_| is_due()) {
            without_cache(&mut || {
                while is_due() {
                    self.record_moved(step(), memory_account);
                }
            });
        }
    }

    fn record_moved(&self, bytes: usize, memory_account: &MemoryAccount) {
        self.due.fetch_sub(bytes as isize, Relaxed);
        let moved = self.moved.fetch_add(bytes, Relaxed) + bytes;
        let max = memory_account.limit().unwrap_or(0).saturating_mul(MOVES_MAX);
        if bytes == 0 || moved > max {
            self.is_scattered.store(false, Relaxed);
        }
    }

    /// Reads the allocator's statistics, if keys are being evicted or a loss is being compensated.
    pub(crate) fn refresh(&self, memory_account: &MemoryAccount, allocator: Option<fn() -> AllocatorStats>) {
        if let (Some(allocator), Some(limit)) = (allocator, memory_account.limit())
            && (memory_account.loss() > 0 || self.evicted.swap(0, Relaxed) > 0)
        {
            self.look(memory_account, limit, allocator());
        }
    }

    fn look(&self, memory_account: &MemoryAccount, limit: usize, stats: AllocatorStats) {
        let lost = stats.active.saturating_sub(stats.allocated);
        memory_account.set_loss(lost.saturating_sub(LOSS_MIN.max(limit / LOSS_SHARE)));
        self.without_cache.get_or_init(|| stats.without_cache);
        self.decide(lost, limit);
        let unused = stats.resident.saturating_sub(stats.active);
        let max = UNUSED_MIN.max(limit / UNUSED_SHARE);
        if unused > 2 * max {
            (stats.purge)();
        } else if unused > max && !self.is_purging.swap(true, AcqRel) {
            let is_purging = self.is_purging.clone();
            let purge = move || {
                (stats.purge)();
                is_purging.store(false, Release);
            };
            if let Err(error) = thread::Builder::new().name("purge".into()).spawn(purge) {
                warn!(cause = %error, "failed to return unused memory to the system");
                self.is_purging.store(false, Release);
            }
        }
    }

    /// Decides to move entries, or not: they are moved while much is lost, unless moving all of them several times has
    /// not reduced the loss.
    fn decide(&self, lost: usize, limit: usize) {
        let max = (LOSS_MIN / 2).max(limit / SCATTER_SHARE);
        if self.moved.load(Relaxed) > limit.saturating_mul(MOVES_MAX) {
            self.unrecoverable.store(lost, Relaxed);
            self.moved.store(0, Relaxed);
        }
        let unrecoverable = self.unrecoverable.fetch_min(lost, Relaxed).min(lost);
        let is_scattered = lost > max && (unrecoverable < max || lost > unrecoverable + max / 4);
        if is_scattered != self.is_scattered.swap(is_scattered, Relaxed) {
            self.due.store(0, Relaxed);
        }
        if !is_scattered {
            self.moved.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats() -> AllocatorStats {
        const MB: usize = 1 << 20;
        let (purge, report) = (|| true, String::new);
        let without_cache = |act: &mut dyn FnMut()| act();
        let (allocated, active, resident) = (100 * MB, 130 * MB, 130 * MB);
        AllocatorStats { name: "", allocated, active, resident, muzzy: 0, purge, without_cache, report }
    }

    #[test]
    fn what_pages_lose_is_made_up_for_once_enough_was_evicted_and_never_without_a_limit() {
        let (resident, memory_account) = (Fragmentation::default(), MemoryAccount::default());
        resident.record_evicted(1 << 30, &memory_account, Some(stats));
        assert_eq!(memory_account.loss(), 0);
        memory_account.set_limit(100 << 20);
        resident.record_evicted(1 << 20, &memory_account, Some(stats));
        assert_eq!(memory_account.loss(), 0);
        resident.record_evicted(2 << 20, &memory_account, Some(stats));
        assert_eq!(memory_account.loss(), (30 << 20) - (100 << 20) / LOSS_SHARE);
        memory_account.report_outside(0, 90 << 20);
        assert!(memory_account.is_over());
        memory_account.set_loss(0);
        assert!(!memory_account.is_over());
    }
}
