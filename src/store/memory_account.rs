//! How much memory is in use, how much may be, and how the use of keys is noted: what every shard looks at.
//!
//! What counts as used memory is what the store has asked the allocator for, size classes included, and what others
//! report: clients' buffers, and what the process held when it started. It is counted, not asked of the allocator, whose
//! statistics cost microseconds; it leaves out what the allocator loses between pages.
//!
//! A shard reports by the step. Without a limit that is coarse, so that reporting costs nothing; with a limit of `l`
//! bytes it is a millionth of `l`, so that all shards together are off by less than a ten-thousandth.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::store::usage::UsageRule;
use crate::time::clock::Now;

/// The coarsest step, in bytes.
const STEP_MAX: usize = 64 * 1024;
/// A step is the limit divided by this power of two.
const STEP_SHIFT: u32 = 20;
/// Stands for no limit.
const NONE: usize = usize::MAX;

/// Holds the numbers that limit a store. Shared by the store, its shards and who reports memory.
pub struct MemoryAccount {
    limit: AtomicUsize,
    step: AtomicUsize,
    /// What the shards have reported. Together with `outside` it never passes the address space.
    held: AtomicUsize,
    outside: AtomicUsize,
    /// What of `outside` does not count for eviction: messages about keys that were evicted.
    exempt: AtomicUsize,
    loss: AtomicUsize,
    /// How many threads are evicting keys right now.
    evicting: AtomicUsize,
    rule: AtomicU64,
    /// What a look-up compares the usage of a key with to see whether there is anything to note.
    stamp: AtomicU32,
    /// Set when the shards report more finely than they have so far.
    is_coarse: AtomicBool,
}

/// Is no key's usage, which has 24 bits.
const NO_STAMP: u32 = u32::MAX;

impl Default for MemoryAccount {
    /// Returns the numbers of a store without limit that notes when keys were last used.
    fn default() -> Self {
        MemoryAccount {
            limit: AtomicUsize::new(NONE),
            step: AtomicUsize::new(STEP_MAX),
            held: AtomicUsize::new(0),
            outside: AtomicUsize::new(0),
            exempt: AtomicUsize::new(0),
            loss: AtomicUsize::new(0),
            evicting: AtomicUsize::new(0),
            rule: AtomicU64::new(UsageRule::RECENCY.to_bits()),
            stamp: AtomicU32::new(NO_STAMP),
            is_coarse: AtomicBool::new(false),
        }
    }
}

impl MemoryAccount {
    /// Sets how many bytes may be used; 0 is no limit.
    pub fn set_limit(&self, bytes: u64) {
        let limit = if bytes == 0 { NONE } else { usize::try_from(bytes).unwrap_or(NONE) };
        self.step.store((limit >> STEP_SHIFT).min(STEP_MAX), Relaxed);
        self.limit.store(limit, Relaxed);
        self.is_coarse.store(limit != NONE, Relaxed);
        self.loss.store(0, Relaxed);
    }

    /// Returns whether the shards have to report again because of a new limit; true once for each.
    pub fn take_coarse(&self) -> bool {
        self.is_coarse.load(Relaxed) && self.is_coarse.swap(false, Relaxed)
    }

    /// Returns whether there is a limit.
    #[inline]
    pub fn has_limit(&self) -> bool {
        self.limit.load(Relaxed) != NONE
    }

    /// Returns whether more is used than may be.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.counted_for_eviction() > self.limit.load(Relaxed)
    }

    /// Returns how many bytes are used, with those lost to fragmentation and without those that evicting keys takes.
    #[inline]
    fn counted_for_eviction(&self) -> usize {
        self.used().saturating_add(self.loss()).saturating_sub(self.exempt())
    }

    /// Returns how many bytes are lost to fragmentation beyond what may be.
    pub fn loss(&self) -> usize {
        self.loss.load(Relaxed)
    }

    /// Sets how many bytes are lost to fragmentation beyond what may be.
    pub fn set_loss(&self, bytes: usize) {
        self.loss.store(bytes, Relaxed);
    }

    /// Returns how many bytes may be used, if there is a limit.
    pub fn limit(&self) -> Option<usize> {
        Some(self.limit.load(Relaxed)).filter(|limit| *limit != NONE)
    }

    /// Returns how many bytes do not count for eviction.
    pub fn exempt(&self) -> usize {
        self.exempt.load(Relaxed)
    }

    /// Takes note that keys are evicted until what is returned is dropped. Messages that are written meanwhile do not
    /// count for eviction: if they did, more keys would be evicted on account of them, with more messages, and so on.
    pub fn evicting(&self) -> Evicting<'_> {
        self.evicting.fetch_add(1, Relaxed);
        Evicting(self)
    }

    /// Returns how many bytes are used.
    #[inline]
    pub fn used(&self) -> usize {
        self.held.load(Relaxed).saturating_add(self.outside.load(Relaxed))
    }

    /// Returns how many bytes the shards may hold for no more to be used than may be, if it is more now; less than none
    /// where even that is too much.
    pub(super) fn relief_goal(&self) -> Option<isize> {
        let too_many = self.counted_for_eviction().checked_sub(self.limit.load(Relaxed)).filter(|bytes| *bytes > 0)?;
        Some(self.held().saturating_sub_unsigned(too_many))
    }

    /// Returns how many bytes the shards hold by their last reports.
    pub fn held(&self) -> isize {
        self.held.load(Relaxed) as isize
    }

    /// Returns how many bytes are used outside of the store.
    pub fn outside(&self) -> usize {
        self.outside.load(Relaxed)
    }

    /// Takes note of bytes outside of the store, instead of those reported by the same one before.
    pub fn report_outside(&self, before: usize, bytes: usize) {
        self.outside.fetch_add(bytes.wrapping_sub(before), Relaxed);
    }

    /// Returns how the use of keys is noted.
    #[inline]
    pub fn rule(&self) -> UsageRule {
        UsageRule::from_bits(self.rule.load(Relaxed))
    }

    /// Sets how the use of keys is noted.
    pub fn set_rule(&self, rule: UsageRule) {
        self.rule.store(rule.to_bits(), Relaxed);
        self.stamp.store(NO_STAMP, Relaxed);
    }

    /// Takes note of the time; to be called once for many look-ups.
    #[inline]
    pub fn follow_clock(&self, now: Now) {
        let rule = self.rule();
        let stamp = if rule.counts() { NO_STAMP } else { rule.fresh(now) };
        if stamp != self.stamp.load(Relaxed) {
            self.stamp.store(stamp, Relaxed);
        }
    }

    /// Returns the usage of a key that needs no note.
    #[inline]
    pub(super) fn stamp(&self) -> u32 {
        self.stamp.load(Relaxed)
    }

    /// Returns by how many bytes a shard may be off before it reports.
    #[inline]
    pub(super) fn step(&self) -> usize {
        self.step.load(Relaxed)
    }

    /// Takes note of a shard's bytes, instead of those it reported before.
    pub(super) fn report(&self, before: usize, bytes: usize) {
        self.held.fetch_add(bytes.wrapping_sub(before), Relaxed);
    }
}

/// Lasts as long as keys are evicted.
pub struct Evicting<'a>(&'a MemoryAccount);

impl Drop for Evicting<'_> {
    fn drop(&mut self) {
        self.0.evicting.fetch_sub(1, Relaxed);
    }
}

/// Reports what something outside of the store takes, until it is dropped.
#[derive(Default)]
pub(crate) struct Share {
    memory_account: Arc<MemoryAccount>,
    bytes: usize,
    is_exempt: bool,
}

impl Share {
    /// By how many bytes a share has to change to be reported.
    const STEP: usize = 1024;

    /// Creates the share of something that takes nothing yet.
    pub(crate) fn new(memory_account: Arc<MemoryAccount>) -> Self {
        Share { memory_account, bytes: 0, is_exempt: false }
    }

    /// Creates the share of a message, which does not count for eviction if keys are evicted just now.
    pub(crate) fn of_message(memory_account: Arc<MemoryAccount>, bytes: usize) -> Self {
        let is_exempt = memory_account.evicting.load(Relaxed) > 0;
        memory_account.report_outside(0, bytes);
        if is_exempt {
            memory_account.exempt.fetch_add(bytes, Relaxed);
        }
        Share { memory_account, bytes, is_exempt }
    }

    /// Returns where it is reported.
    pub(crate) fn account(&self) -> Arc<MemoryAccount> {
        self.memory_account.clone()
    }

    /// Takes note of what is taken now.
    pub(crate) fn set(&mut self, bytes: usize) {
        if self.bytes.abs_diff(bytes) >= Self::STEP || bytes == 0 {
            self.memory_account.report_outside(self.bytes, bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory_account.report_outside(self.bytes, 0);
        if self.is_exempt {
            self.memory_account.exempt.fetch_sub(self.bytes, Relaxed);
        }
    }
}
