//! How much more the allocator holds than was asked of it: pages that are partly empty, and pages not given back yet.
//!
//! `maxmemory` is compared with what was asked of the allocator, as in Redis. Where values of many sizes come and go, the
//! process takes far more than that. So with a limit and a policy that evicts keys, the allocator is asked whenever a small
//! part of the limit has been evicted, and three things are done about what it loses:
//!
//! - From a twenty-fourth of the limit on, entries are moved together ([`Store::compact`](crate::store::Store::compact)), a
//!   few times as many bytes as are evicted.
//! - What partly empty pages lose beyond a twelfth of the limit is made up for by evicting more keys.
//! - Unused pages beyond a thirty-second part are given back at once, on a thread of its own, and beyond a sixteenth by
//!   the thread that evicts, so that they do not grow faster than they are given back.

use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering::AcqRel, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, OnceLock};
use std::thread;

use tracing::warn;

use crate::memory::allocator::AllocatorStats;
use crate::store::MemoryAccount;

/// The allocator is asked when this part of the limit has been evicted.
const LOOK_SHARE: usize = 64;
/// Partly empty pages may lose this part of the limit, or [`LOSS_MIN`], before more keys are evicted.
const LOSS_SHARE: usize = 12;
/// They may lose this part of the limit, or half of [`LOSS_MIN`], before entries are moved.
const SCATTER_SHARE: usize = 24;
/// Less loss than this is not made up for, in bytes: the allocator needs some for itself.
const LOSS_MIN: usize = 8 << 20;
/// Unused pages may be this part of the limit before they are given back, or [`UNUSED_MIN`].
const UNUSED_SHARE: usize = 32;
/// Fewer unused pages are left to the allocator, which gives them back after ten seconds, in bytes.
const UNUSED_MIN: usize = 2 << 20;
/// So many bytes of entries are moved for each that is evicted.
const MOVES_PER_EVICTION: usize = 4;
/// No more bytes than these are moved at once: about half a millisecond's work.
const MOVES_AT_ONCE: isize = 256 << 10;
/// When this many times the limit was moved and as much is lost as before, it is not for entries that it is lost.
const MOVES_MAX: usize = 4;

/// Watches what the allocator holds.
#[derive(Default)]
pub(crate) struct Resident {
    /// Bytes evicted since the allocator was asked.
    evicted: AtomicUsize,
    is_purging: Arc<AtomicBool>,
    /// Whether entries are to be moved.
    is_scattered: AtomicBool,
    /// How many bytes of them, once that is more than none.
    due: AtomicIsize,
    /// How many bytes were moved since that began.
    moved: AtomicUsize,
    /// What stays lost however many entries are moved.
    hopeless: AtomicUsize,
    /// The allocator's, once it was asked.
    without_cache: OnceLock<fn(&mut dyn FnMut())>,
}

impl Resident {
    /// Takes note that keys were evicted, and asks the allocator when they were many.
    pub(crate) fn note_evicted(
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

    /// Has entries moved if that is due; `step` moves some and returns how many bytes. A few at a time would not be worth
    /// while, so the next ones wait until as much was evicted as makes up for those that were moved.
    pub(crate) fn compact(&self, memory_account: &MemoryAccount, mut step: impl FnMut() -> usize) {
        let is_due = || self.is_scattered.load(Relaxed) && self.due.load(Relaxed) > 0;
        if let Some(without_cache) = self.without_cache.get().filter(|_| is_due()) {
            without_cache(&mut || {
                while is_due() {
                    self.note_moved(step(), memory_account);
                }
            });
        }
    }

    fn note_moved(&self, bytes: usize, memory_account: &MemoryAccount) {
        self.due.fetch_sub(bytes as isize, Relaxed);
        let moved = self.moved.fetch_add(bytes, Relaxed) + bytes;
        let most = memory_account.limit().unwrap_or(0).saturating_mul(MOVES_MAX);
        if bytes == 0 || moved > most {
            self.is_scattered.store(false, Relaxed);
        }
    }

    /// Looks at what the allocator holds, if keys are evicted or what it loses is made up for.
    pub(crate) fn look_again(&self, memory_account: &MemoryAccount, allocator: Option<fn() -> AllocatorStats>) {
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
        self.judge(lost, limit);
        let unused = stats.resident.saturating_sub(stats.active);
        let most = UNUSED_MIN.max(limit / UNUSED_SHARE);
        if unused > 2 * most {
            (stats.purge)();
        } else if unused > most && !self.is_purging.swap(true, AcqRel) {
            let is_purging = self.is_purging.clone();
            let purge = move || {
                (stats.purge)();
                is_purging.store(false, Release);
            };
            if let Err(error) = thread::Builder::new().name("purge".into()).spawn(purge) {
                warn!(cause = %error, "failed to give unused memory back");
                self.is_purging.store(false, Release);
            }
        }
    }

    /// Decides whether to move entries: when much is lost, unless moving them all several times has not helped and no more
    /// is lost than then.
    fn judge(&self, lost: usize, limit: usize) {
        let most = (LOSS_MIN / 2).max(limit / SCATTER_SHARE);
        if self.moved.load(Relaxed) > limit.saturating_mul(MOVES_MAX) {
            self.hopeless.store(lost, Relaxed);
            self.moved.store(0, Relaxed);
        }
        let hopeless = self.hopeless.fetch_min(lost, Relaxed).min(lost);
        let is_scattered = lost > most && (hopeless < most || lost > hopeless + most / 4);
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
        let (resident, memory_account) = (Resident::default(), MemoryAccount::default());
        resident.note_evicted(1 << 30, &memory_account, Some(stats));
        assert_eq!(memory_account.loss(), 0);
        memory_account.set_limit(100 << 20);
        resident.note_evicted(1 << 20, &memory_account, Some(stats));
        assert_eq!(memory_account.loss(), 0);
        resident.note_evicted(2 << 20, &memory_account, Some(stats));
        assert_eq!(memory_account.loss(), (30 << 20) - (100 << 20) / LOSS_SHARE);
        memory_account.report_outside(0, 90 << 20);
        assert!(memory_account.is_over());
        memory_account.set_loss(0);
        assert!(!memory_account.is_over());
    }
}
