//! Accounting of used memory, its limit, and the rule by which the usage of keys is recorded.
//!
//! Used memory is the sum of the store's allocations, rounded to size classes, and of the memory that other parts
//! report: clients' buffers, and the memory of the process at startup. It is counted, because the allocator's
//! statistics cost microseconds; fragmentation is not included.
//!
//! A shard reports in steps. Without a limit a step is coarse, so that reporting costs nothing; with a limit of `l`
//! bytes it is a millionth of `l`, so that the error of all shards together is below a ten-thousandth.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::store::usage::UsageRule;
use crate::time::clock::Now;

/// The largest step, in bytes.
const STEP_MAX: usize = 64 * 1024;
/// Power of two by which the limit, if there is one, is divided to give the step.
const STEP_SHIFT: u32 = 20;
/// Value of `limit` without a limit.
const NONE: usize = usize::MAX;

/// The memory usage of a store and its limit. Shared by the store, its shards and all other parts that report memory.
pub struct MemoryAccount {
    limit: AtomicUsize,
    step: AtomicUsize,
    /// The memory reported by the shards. Together with `outside` it never exceeds the address space.
    held: AtomicUsize,
    outside: AtomicUsize,
    /// Part of `outside` that does not count for eviction: notifications about evicted keys, and memory that is about
    /// to be freed.
    exempt: AtomicUsize,
    loss: AtomicUsize,
    /// Number of threads that are evicting keys right now.
    evicting: AtomicUsize,
    rule: AtomicU64,
    /// The present usage stamp: a look-up writes the usage of a key only if it differs.
    stamp: AtomicU32,
    /// Set when the shards must report in finer steps than before.
    is_coarse: AtomicBool,
    /// Set when a fence of a removed key is remembered, which takes memory that keys may need.
    has_retired_fences: AtomicBool,
}

/// A stamp that no key's usage equals, because a usage has 24 bits.
const NO_STAMP: u32 = u32::MAX;

impl Default for MemoryAccount {
    /// Creates the account of a store without a limit, which records the time of the last use of keys.
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
            has_retired_fences: AtomicBool::new(false),
        }
    }
}

impl MemoryAccount {
    /// Sets the limit in bytes; 0 is no limit.
    pub fn set_limit(&self, bytes: u64) {
        let limit = if bytes == 0 { NONE } else { usize::try_from(bytes).unwrap_or(NONE) };
        self.step.store((limit >> STEP_SHIFT).min(STEP_MAX), Relaxed);
        self.limit.store(limit, Relaxed);
        self.is_coarse.store(limit != NONE, Relaxed);
        self.loss.store(0, Relaxed);
    }

    /// Returns true if the shards must report again because of a new limit; once for each limit.
    pub fn take_coarse(&self) -> bool {
        self.is_coarse.load(Relaxed) && self.is_coarse.swap(false, Relaxed)
    }

    /// Returns true if there is a limit.
    #[inline]
    pub fn has_limit(&self) -> bool {
        self.limit.load(Relaxed) != NONE
    }

    /// Returns true if more memory is used than the limit allows.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.counted_for_eviction() > self.limit.load(Relaxed)
    }

    /// Returns the bytes that are compared with the limit: with excess fragmentation, without the exempt bytes.
    #[inline]
    fn counted_for_eviction(&self) -> usize {
        self.used().saturating_add(self.loss()).saturating_sub(self.exempt())
    }

    /// Returns the bytes lost to fragmentation beyond the tolerated share.
    pub fn loss(&self) -> usize {
        self.loss.load(Relaxed)
    }

    /// Sets the bytes lost to fragmentation beyond the tolerated share.
    pub fn set_loss(&self, bytes: usize) {
        self.loss.store(bytes, Relaxed);
    }

    /// Returns the limit in bytes, if there is one.
    pub fn limit(&self) -> Option<usize> {
        Some(self.limit.load(Relaxed)).filter(|limit| *limit != NONE)
    }

    /// Returns the bytes that do not count for eviction.
    pub fn exempt(&self) -> usize {
        self.exempt.load(Relaxed)
    }

    /// Marks that keys are being evicted, until the guard is dropped. Messages written meanwhile do not count for
    /// eviction: otherwise they would cause more evictions, with more messages, and so on.
    pub fn evicting(&self) -> Evicting<'_> {
        self.evicting.fetch_add(1, Relaxed);
        Evicting(self)
    }

    /// Returns the used memory in bytes.
    #[inline]
    pub fn used(&self) -> usize {
        self.held.load(Relaxed).saturating_add(self.outside.load(Relaxed))
    }

    /// Returns the number of bytes to which the shards must shrink to stay within the limit, if they hold more now;
    /// negative if even an empty store would not be enough.
    pub(super) fn relief_goal(&self) -> Option<isize> {
        let too_many = self.counted_for_eviction().checked_sub(self.limit.load(Relaxed)).filter(|bytes| *bytes > 0)?;
        Some(self.held().saturating_sub_unsigned(too_many))
    }

    /// Returns true if retired fences may have been added since the last call: they are to be forgotten then.
    pub(super) fn take_retired_fences(&self) -> bool {
        self.has_retired_fences.load(Relaxed) && self.has_retired_fences.swap(false, Relaxed)
    }

    /// Returns the bytes that the shards hold, by their last reports.
    pub fn held(&self) -> isize {
        self.held.load(Relaxed) as isize
    }

    /// Returns the bytes used outside of the store.
    pub fn outside(&self) -> usize {
        self.outside.load(Relaxed)
    }

    /// Reports bytes outside of the store; `before` is the previous report of the same reporter.
    pub fn report_outside(&self, before: usize, bytes: usize) {
        self.outside.fetch_add(bytes.wrapping_sub(before), Relaxed);
    }

    /// Reports bytes that are about to be freed; `before` is the previous report. They count as used until then, but
    /// eviction must not remove other keys for them.
    pub(super) fn report_garbage(&self, before: usize, bytes: usize) {
        self.exempt.fetch_add(bytes.wrapping_sub(before), Relaxed);
        self.report_outside(before, bytes);
    }

    /// Returns the rule by which the usage of keys is recorded.
    #[inline]
    pub fn rule(&self) -> UsageRule {
        UsageRule::from_bits(self.rule.load(Relaxed))
    }

    /// Sets the rule by which the usage of keys is recorded.
    pub fn set_rule(&self, rule: UsageRule) {
        self.rule.store(rule.to_bits(), Relaxed);
        self.stamp.store(NO_STAMP, Relaxed);
    }

    /// Updates the current usage stamp; called once for many look-ups.
    #[inline]
    pub fn follow_clock(&self, now: Now) {
        let rule = self.rule();
        let stamp = if rule.counts() || rule.is_of_changes() { NO_STAMP } else { rule.fresh(now) };
        if stamp != self.stamp.load(Relaxed) {
            self.stamp.store(stamp, Relaxed);
        }
    }

    /// Returns the usage of a key that needs no update.
    #[inline]
    pub(super) fn stamp(&self) -> u32 {
        self.stamp.load(Relaxed)
    }

    /// Returns the number of bytes by which a shard's last report may be off.
    #[inline]
    pub(super) fn step(&self) -> usize {
        self.step.load(Relaxed)
    }

    /// Updates the report of a shard; `before` is its previous report.
    pub(super) fn report(&self, before: usize, bytes: usize) {
        self.held.fetch_add(bytes.wrapping_sub(before), Relaxed);
    }
}

/// A guard that lives while keys are evicted.
pub struct Evicting<'a>(&'a MemoryAccount);

impl Drop for Evicting<'_> {
    fn drop(&mut self) {
        self.0.evicting.fetch_sub(1, Relaxed);
    }
}

/// The reported memory of something outside of the store, until it is dropped.
#[derive(Default)]
pub(crate) struct ReportedMemory {
    memory_account: Arc<MemoryAccount>,
    bytes: usize,
    is_exempt: bool,
}

impl ReportedMemory {
    /// The smallest change that is reported, in bytes.
    const STEP: usize = 1024;

    /// Creates a share of 0 bytes.
    pub(crate) fn new(memory_account: Arc<MemoryAccount>) -> Self {
        ReportedMemory { memory_account, bytes: 0, is_exempt: false }
    }

    /// Creates the share of a message, which does not count for eviction if keys are being evicted right now.
    pub(crate) fn of_message(memory_account: Arc<MemoryAccount>, bytes: usize) -> Self {
        let is_exempt = memory_account.evicting.load(Relaxed) > 0;
        memory_account.report_outside(0, bytes);
        if is_exempt {
            memory_account.exempt.fetch_add(bytes, Relaxed);
        }
        ReportedMemory { memory_account, bytes, is_exempt }
    }

    pub(crate) fn account(&self) -> Arc<MemoryAccount> {
        self.memory_account.clone()
    }

    /// Notes that a retired fence was added.
    pub(super) fn note_retired_fence(&self) {
        self.memory_account.has_retired_fences.store(true, Relaxed);
    }

    /// Reports the present size, unless it differs too little from the last report.
    pub(crate) fn set(&mut self, bytes: usize) {
        if self.bytes.abs_diff(bytes) >= Self::STEP || bytes == 0 {
            self.memory_account.report_outside(self.bytes, bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for ReportedMemory {
    fn drop(&mut self) {
        self.memory_account.report_outside(self.bytes, 0);
        if self.is_exempt {
            self.memory_account.exempt.fetch_sub(self.bytes, Relaxed);
        }
    }
}
