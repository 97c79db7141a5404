//! The index of deadlines: finds expired keys without a record per key.
//!
//! The table's buckets are the leaves of a tournament tree: each leaf holds a lower bound of the deadlines in its
//! bucket, each inner node the minimum of 64 children. Setting a deadline lowers a path of the tree; the sweep descends
//! to the leaves that may be due, checks the handful of entries there and raises the bound to the earliest deadline
//! found. A bound may be too early, which costs one needless check, and is never too late, which would miss an expiry.
//! So removing a key or extending its TTL touches nothing here, and a lock that is acquired and released a million
//! times leaves nothing behind.
//!
//! Cost: 8 bytes per bucket, which is about 2 bytes per key, and only in shards where a TTL was ever set.

use crate::store::sync::{AtomicBool, AtomicU64, Ordering};

/// The bound of a bucket or shard without deadlines.
pub(crate) const NEVER: u64 = u64::MAX;

const FANOUT: usize = 64;

/// Tournament tree of the deadlines of a table: a lower bound for each bucket, in monotonic milliseconds.
#[derive(Default)]
pub(crate) struct DeadlineTree {
    /// `levels[0]` has one bound per bucket, every further level one per 64 of the level below, the last exactly one.
    levels: Vec<Vec<u64>>,
}

impl DeadlineTree {
    /// Returns true if no deadline has been set since the tree was created.
    pub(crate) fn is_unused(&self) -> bool {
        self.levels.is_empty()
    }

    pub(crate) fn memory(&self) -> usize {
        self.levels.iter().map(|level| level.capacity() * size_of::<u64>()).sum()
    }

    /// Returns a lower bound of all deadlines, or [`NEVER`].
    pub(crate) fn earliest(&self) -> u64 {
        self.levels.last().and_then(|top| top.first()).copied().unwrap_or(NEVER)
    }

    pub(crate) fn bound(&self, bucket: usize) -> u64 {
        self.levels.first().and_then(|leaves| leaves.get(bucket)).copied().unwrap_or(NEVER)
    }

    /// Records that a key in `bucket` expires at `at_ms`.
    pub(crate) fn lower(&mut self, bucket: usize, at_ms: u64) {
        self.cover(bucket);
        let mut index = bucket;
        for level in &mut self.levels {
            if level[index] <= at_ms {
                return;
            }
            level[index] = at_ms;
            index /= FANOUT;
        }
    }

    /// Replaces the bound of a bucket with the earliest deadline found among its entries.
    pub(crate) fn set(&mut self, bucket: usize, at_ms: u64) {
        if self.bound(bucket) == at_ms {
            return;
        }
        self.cover(bucket);
        self.levels[0][bucket] = at_ms;
        let mut index = bucket / FANOUT;
        for below in 0..self.levels.len() - 1 {
            let children = &self.levels[below];
            let last = children.len().min((index + 1) * FANOUT);
            let min = children[index * FANOUT..last].iter().copied().min().unwrap_or(NEVER);
            if self.levels[below + 1][index] == min {
                return;
            }
            self.levels[below + 1][index] = min;
            index /= FANOUT;
        }
    }

    /// Finds a bucket whose bound has passed.
    pub(crate) fn due(&self, now_ms: u64) -> Option<usize> {
        if self.earliest() > now_ms {
            return None;
        }
        let mut index = 0;
        for level in self.levels.iter().rev().skip(1) {
            let first = index * FANOUT;
            let last = level.len().min(first + FANOUT);
            index = first + level[first..last].iter().position(|&bound| bound <= now_ms)?;
        }
        Some(index)
    }

    /// Finds the first bucket, from `bucket` on, that may hold a deadline.
    pub(crate) fn bounded_from(&self, bucket: usize) -> Option<usize> {
        let (mut index, mut depth) = (bucket, 0);
        // Upwards, until a node to the right has a bound; then down to the first leaf with a bound below that node.
        loop {
            let level = self.levels.get(depth)?;
            let family_end = (index / FANOUT * FANOUT + FANOUT).min(level.len());
            if let Some(found) = (index..family_end).find(|index| level[*index] != NEVER) {
                index = found;
                break;
            }
            (index, depth) = (index / FANOUT + 1, depth + 1);
        }
        for level in self.levels[..depth].iter().rev() {
            let first = index * FANOUT;
            let last = level.len().min(first + FANOUT);
            index = first + level[first..last].iter().position(|bound| *bound != NEVER)?;
        }
        Some(index)
    }

    /// Moves every bound `by_ms` earlier: the wall clock jumped forward, so absolute deadlines came closer.
    pub(crate) fn shift_earlier(&mut self, by_ms: u64) {
        for bound in self.levels.iter_mut().flatten().filter(|bound| **bound != NEVER) {
            *bound = bound.saturating_sub(by_ms);
        }
    }

    /// Extends the levels to include a bucket.
    fn cover(&mut self, bucket: usize) {
        if self.levels.first().is_some_and(|leaves| bucket < leaves.len()) {
            return;
        }
        let mut len = bucket + 1;
        let mut depth = 0;
        loop {
            if depth == self.levels.len() {
                // A new top level summarises the one below, which had a single node until now.
                let carried = depth
                    .checked_sub(1)
                    .map_or(NEVER, |below| self.levels[below].iter().copied().min().unwrap_or(NEVER));
                self.levels.push(vec![carried]);
            }
            if self.levels[depth].len() < len {
                self.levels[depth].resize(len, NEVER);
            }
            if len == 1 && depth + 1 == self.levels.len() {
                return;
            }
            len = len.div_ceil(FANOUT);
            depth += 1;
        }
    }
}

/// Alarm of the sweeper: wakes it when a deadline is set that is earlier than the time it waits for.
pub struct SweepTimer {
    due_ms: AtomicU64,
    /// Time until which expired keys are kept (invisibly), in monotonic milliseconds.
    frozen_until_ms: AtomicU64,
    /// Set while expired keys are kept (invisibly) until a primary reports their deletion.
    is_following: AtomicBool,
    /// Set if expired fields of hashes and members of sets are kept (invisibly) until a cluster reports their deletion.
    keeps_elements: AtomicBool,
    /// Time for which the fences of removed keys are remembered, in milliseconds.
    fence_memory_ms: AtomicU64,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl SweepTimer {
    /// Creates a timer that calls `wake` when its time is moved earlier.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        SweepTimer {
            due_ms: AtomicU64::new(NEVER),
            frozen_until_ms: AtomicU64::new(0),
            is_following: AtomicBool::new(false),
            keeps_elements: AtomicBool::new(false),
            fence_memory_ms: AtomicU64::new(0),
            wake: Box::new(wake),
        }
    }

    /// Prevents the deletion of expired keys until `until_ms` (monotonic milliseconds); they are invisible all the
    /// same.
    pub fn freeze(&self, until_ms: u64) {
        self.frozen_until_ms.store(until_ms, Ordering::Release);
    }

    /// Begins or ends keeping expired keys until a primary reports their deletion.
    pub fn follow(&self, is_following: bool) {
        self.is_following.store(is_following, Ordering::Release);
        (self.wake)(); // keys that have expired meanwhile are due
    }

    /// Begins keeping expired fields of hashes and members of sets until a cluster reports their deletion.
    pub(super) fn keep_elements(&self) {
        self.keeps_elements.store(true, Ordering::Release);
    }

    /// Returns true if expired fields and members must not be deleted now.
    pub(super) fn keeps_elements(&self, now_ms: u64) -> bool {
        self.keeps_elements.load(Ordering::Acquire) || self.frozen_until_ms(now_ms).is_some()
    }

    /// Returns the time before which expired keys must not be deleted, if it is after `now_ms`.
    pub fn frozen_until_ms(&self, now_ms: u64) -> Option<u64> {
        let is_following = self.is_following.load(Ordering::Acquire);
        let until_ms = if is_following { NEVER } else { self.frozen_until_ms.load(Ordering::Acquire) };
        (now_ms < until_ms).then_some(until_ms)
    }

    /// Sets the time for which the fences of removed keys are remembered, in milliseconds.
    pub fn remember_fences(&self, memory_ms: u64) {
        self.fence_memory_ms.store(memory_ms, Ordering::Relaxed);
    }

    /// Returns the time for which the fences of removed keys are remembered, in milliseconds.
    pub fn fence_memory_ms(&self) -> u64 {
        self.fence_memory_ms.load(Ordering::Relaxed)
    }

    /// Moves the timer earlier, to `at_ms` (monotonic milliseconds); a later time changes nothing.
    pub fn lower(&self, at_ms: u64) {
        if at_ms < self.due_ms.load(Ordering::Relaxed) && at_ms < self.due_ms.fetch_min(at_ms, Ordering::AcqRel) {
            (self.wake)();
        }
    }

    /// Returns the time of the next sweep, in monotonic milliseconds, or [`NEVER`].
    pub fn due_ms(&self) -> u64 {
        self.due_ms.load(Ordering::Acquire)
    }

    /// Wakes the sweeper immediately.
    pub fn wake(&self) {
        (self.wake)();
    }

    /// Resets the timer, calls `sweep` and sets the time of the next sweep that it returns. Returns that time, or an
    /// earlier one that was set meanwhile. Does not wake the sweeper, which is the caller and would sweep again without
    /// end.
    ///
    /// The order keeps deadlines from being lost. A deadline is set under the shard's lock: either before the sweep
    /// reaches the shard, which then finds the deadline, or after the timer was reset, so that [`SweepTimer::lower`]
    /// moves it earlier.
    pub fn rearm(&self, sweep: impl FnOnce() -> u64) -> u64 {
        self.due_ms.store(NEVER, Ordering::Release);
        let at_ms = sweep();
        self.due_ms.fetch_min(at_ms, Ordering::AcqRel).min(at_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_bucket_is_found_at_any_size() {
        let mut tree = DeadlineTree::default();
        assert_eq!(tree.earliest(), NEVER);
        for bucket in 0..10_000usize {
            tree.lower(bucket, 1_000_000 - bucket as u64);
        }
        assert_eq!(tree.earliest(), 1_000_000 - 9_999);
        assert_eq!(tree.due(1_000_000 - 9_999), Some(9_999));
        assert_eq!(tree.due(1_000_000 - 10_000), None);
    }

    #[test]
    fn raising_a_bound_raises_every_level_above_it() {
        let mut tree = DeadlineTree::default();
        for bucket in [0, 63, 64, 4095, 4096, 300_000] {
            tree.lower(bucket, 10);
        }
        let mut found = Vec::new();
        while let Some(bucket) = tree.due(10) {
            found.push(bucket);
            tree.set(bucket, NEVER);
        }
        assert_eq!(found, [0, 63, 64, 4095, 4096, 300_000]);
        assert_eq!(tree.earliest(), NEVER);
    }

    #[test]
    fn the_next_bucket_with_a_bound_is_found_at_any_size() {
        let mut tree = DeadlineTree::default();
        assert_eq!(tree.bounded_from(0), None);
        let bounded = [0, 63, 64, 4095, 4096, 4097, 300_000];
        bounded.iter().for_each(|bucket| tree.lower(*bucket, 10));
        for from in (0..5000).chain(299_000..301_000) {
            let next = bounded.into_iter().find(|bucket| *bucket >= from);
            assert_eq!(tree.bounded_from(from), next, "from {from}");
        }
        bounded.iter().for_each(|bucket| tree.set(*bucket, NEVER));
        assert_eq!(tree.bounded_from(0), None);
    }

    #[test]
    fn a_wall_clock_jump_brings_bounds_forward_but_not_never() {
        let mut tree = DeadlineTree::default();
        tree.lower(3, 5_000);
        tree.shift_earlier(4_000);
        assert_eq!((tree.earliest(), tree.bound(3), tree.bound(0)), (1_000, 1_000, NEVER));
    }
}
