//! Removal of keys by the server: expired keys, found by their deadlines, and evicted keys.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parking_lot::Mutex;

use crate::store::changes::ChangeCx;
use crate::store::entry::Entry;
use crate::store::event;
use crate::store::expire::{DeadlineTree, NEVER};
use crate::store::key::Key;
use crate::store::shard::{Shard, nearest_deadline, wall_ms};
use crate::time::clock::{Deadline, Now};

/// Size of the bounds, in bytes, that is kept for later deadlines when no key has a TTL any more.
const DEADLINES_KEEP_MAX: usize = 4096;

/// Minimum number of fields of a hash that the sweep removes at once: they are one event, as in Redis.
const FIELDS_AT_ONCE: usize = 64;

/// Time for which a key is skipped after its deletion has panicked, in milliseconds.
pub(super) const STEPPED_OVER_MS: u64 = 60_000;

/// The keys whose deletion has panicked: sweeps skip them for a while.
#[derive(Default)]
pub(super) struct SkippedKeys(Mutex<Vec<(u64, u64)>>);

impl SkippedKeys {
    /// Returns true if sweeps skip the key with this hash.
    fn has(&self, hash: u64, now: Now) -> bool {
        let mut skipped = self.0.lock();
        if !skipped.is_empty() {
            skipped.retain(|(_, until_ms)| now.mono_ms() < *until_ms);
        }
        skipped.iter().any(|(other, _)| *other == hash)
    }

    fn add(&self, hash: u64, now: Now) {
        self.0.lock().push((hash, now.mono_ms() + STEPPED_OVER_MS));
    }
}

/// Handling of panics in a sweep.
#[derive(Clone, Copy)]
pub(crate) struct PanicHandling<'a> {
    /// Receives panics.
    pub(super) report: &'a dyn Fn(&(dyn Any + Send)),
    pub(super) skipped: &'a SkippedKeys,
}

impl Shard {
    /// Deletes up to `max_count` expired keys. Returns the time when the next key may expire, a time in the past if
    /// more keys have expired already. A key whose deletion panics is skipped for [`STEPPED_OVER_MS`].
    pub(crate) fn sweep(&mut self, cx: &mut ChangeCx<'_>, max_count: usize, care: PanicHandling<'_>) -> u64 {
        let now = cx.now;
        self.keys.recover(cx);
        self.keys.forget_retired_fences(now);
        self.keys.follow_wall_clock(now);
        let mut removed = 0;
        while let Some(bucket) = self.keys.deadlines.due(now.mono_ms()) {
            if removed >= max_count {
                break;
            }
            let expired = self.take_due_keys(bucket, now);
            removed += expired.len().max(1);
            for bytes in &expired {
                let key = self.keys.key(bytes);
                match self.guard(care, cx, key, |shard, cx| shard.keys.expire(key, cx)) {
                    Some(()) => self.count_removed(|removed| removed.swept += 1),
                    None => self.postpone(key, now),
                }
            }
        }
        if self.keys.with_ttl == 0 && removed > 0 && self.keys.deadlines.memory() > DEADLINES_KEEP_MAX {
            self.keys.deadlines = DeadlineTree::default();
        }
        let next_field_ms = self.sweep_fields(max_count.saturating_sub(removed), cx, care);
        let next_end_ms = self.sweep_holders(max_count.saturating_sub(removed).max(1), cx, care);
        self.keys.deadlines.earliest().min(next_field_ms).min(next_end_ms)
    }

    /// Deletes all expired keys and fields, for a call after which they would have other places than those that the log of
    /// their removal names. A panic is that of the call.
    pub(super) fn expire_all(&mut self, cx: &mut ChangeCx<'_>) {
        let (now, now_ms) = (cx.now, wall_ms(cx.now));
        while let Some(bucket) = self.keys.deadlines.due(now.mono_ms()) {
            for bytes in self.take_due_keys(bucket, now) {
                self.keys.expire(self.keys.key(&bytes), cx);
            }
        }
        while let Some(bucket) = self.keys.fields.as_ref().and_then(|fields| fields.bounds.due(now_ms)) {
            for bytes in self.take_due_fields(bucket, now_ms) {
                self.keys.expire_fields_of(self.keys.key(&bytes), usize::MAX, cx);
            }
        }
    }

    /// Returns the expired keys of a bucket, whose bound becomes that of the others.
    fn take_due_keys(&mut self, bucket: usize, now: Now) -> Vec<Vec<u8>> {
        let (mut due, mut bound) = (Vec::new(), NEVER);
        self.keys.table().for_each_in(bucket, |entry| match entry.deadline() {
            Some(deadline) if deadline.is_due(now) => due.push(entry.key().to_vec()),
            Some(deadline) => bound = bound.min(deadline.mono_ms(now)),
            None => {}
        });
        self.keys.deadlines.set(bucket, bound);
        due
    }

    /// Returns the keys of a bucket with expired fields; the bound of the bucket becomes that of the others.
    fn take_due_fields(&mut self, bucket: usize, now_ms: u64) -> Vec<Vec<u8>> {
        let (mut due, mut bound) = (Vec::new(), NEVER);
        self.keys.table().for_each_in(bucket, |entry| match nearest_deadline(entry) {
            Some(at_ms) if at_ms.unsigned_abs() <= now_ms => due.push(entry.key().to_vec()),
            Some(at_ms) => bound = bound.min(at_ms.unsigned_abs()),
            None => {}
        });
        if let Some(fields) = &mut self.keys.fields {
            fields.bounds.set(bucket, bound);
        }
        due
    }

    /// Runs a closure that removes expired data of a key. After a panic, the shard recovers, the key is skipped for a
    /// while, and `None` is returned meanwhile.
    pub(super) fn guard<T>(
        &mut self,
        care: PanicHandling<'_>,
        cx: &mut ChangeCx<'_>,
        key: Key<'_>,
        expire: impl FnOnce(&mut Self, &mut ChangeCx<'_>) -> T,
    ) -> Option<T> {
        if care.skipped.has(key.hash, cx.now) {
            return None;
        }
        let expired = self.catch(care, cx, expire);
        if expired.is_none() {
            care.skipped.add(key.hash, cx.now);
        }
        expired
    }

    /// Runs a closure on the shard. After a panic, which is reported, the shard recovers.
    pub(super) fn catch<T>(
        &mut self,
        care: PanicHandling<'_>,
        cx: &mut ChangeCx<'_>,
        act: impl FnOnce(&mut Self, &mut ChangeCx<'_>) -> T,
    ) -> Option<T> {
        let outcome = catch_unwind(AssertUnwindSafe(|| act(self, cx)));
        outcome.inspect_err(|panic| (care.report)(&**panic)).inspect_err(|_| self.recover(cx)).ok()
    }

    /// Postpones the due keys in the bucket of this key, so that they do not prevent others from expiring.
    fn postpone(&mut self, key: Key<'_>, now: Now) {
        let Some(bucket) = self.keys.table().bucket_of(key.hash) else { return };
        let mut bound = NEVER;
        self.keys.table().for_each_in(bucket, |entry| match entry.deadline() {
            Some(deadline) if deadline.is_due(now) => bound = bound.min(now.mono_ms() + STEPPED_OVER_MS),
            Some(deadline) => bound = bound.min(deadline.mono_ms(now)),
            None => {}
        });
        self.keys.deadlines.set(bucket, bound);
    }

    /// Removes up to `max` expired fields. Returns the time when the next field may expire, in monotonic milliseconds,
    /// a time in the past if more fields have expired already.
    fn sweep_fields(&mut self, max: usize, cx: &mut ChangeCx<'_>, care: PanicHandling<'_>) -> u64 {
        let (now_ms, mut left) = (wall_ms(cx.now), max);
        while left > 0
            && let Some(bucket) = self.keys.fields.as_ref().and_then(|fields| fields.bounds.due(now_ms))
        {
            for bytes in &self.take_due_fields(bucket, now_ms) {
                let max = left.max(FIELDS_AT_ONCE);
                let key = self.keys.key(bytes);
                let removed = self.guard(care, cx, key, |shard, cx| shard.keys.expire_fields_of(key, max, cx));
                let removed = removed.unwrap_or_else(|| self.step_over_fields(bytes, now_ms));
                left = left.saturating_sub(removed.max(1));
                if let Some(fields) = &mut self.keys.fields {
                    fields.swept += removed as u64;
                }
            }
        }
        match self.keys.fields.as_ref().map(|fields| fields.bounds.earliest()) {
            None | Some(NEVER) => NEVER,
            Some(at_ms) => Deadline::at_wall_ms(i64::try_from(at_ms).unwrap_or(i64::MAX)).mono_ms(cx.now),
        }
    }

    /// Removes up to `max_count` holders whose time is over, of locks with several holders. Returns the time when the
    /// next one ends, in monotonic milliseconds, a time in the past if more have ended already.
    fn sweep_holders(&mut self, max_count: usize, cx: &mut ChangeCx<'_>, care: PanicHandling<'_>) -> u64 {
        for (hash, bytes) in self.keys.ended_holders(cx.now.mono_ms(), max_count) {
            let key = Key { bytes: &bytes, hash };
            self.guard(care, cx, key, |shard, cx| {
                shard.keys.peek(key, cx);
                shard.keys.end_due_holders(key, cx);
            });
        }
        self.keys.next_holder_end_ms()
    }

    /// Postpones the due fields in the bucket of a key, like [`Shard::postpone`]; returns 0.
    fn step_over_fields(&mut self, bytes: &[u8], now_ms: u64) -> usize {
        let Some(bucket) = self.keys.table().bucket_of(self.keys.key(bytes).hash) else { return 0 };
        let mut bound = NEVER;
        self.keys.table().for_each_in(bucket, |entry| {
            let due_ms = nearest_deadline(entry).map_or(NEVER, i64::unsigned_abs);
            bound = bound.min(if due_ms <= now_ms { now_ms + STEPPED_OVER_MS } else { due_ms });
        });
        if let Some(fields) = &mut self.keys.fields {
            fields.bounds.set(bucket, bound);
        }
        0
    }

    /// Calls `visit` for the keys of whole buckets, from a random bucket on, until `max_count` keys or all were
    /// visited; only for keys with a TTL if `volatile`. Returns the number of keys visited.
    pub(crate) fn sample(&mut self, max_count: usize, volatile: bool, mut visit: impl FnMut(&Entry)) -> usize {
        let (buckets, keys) =
            (self.keys.table().buckets(), if volatile { self.keys.with_ttl } else { self.keys.table().count() });
        let max_count = max_count.min(keys);
        let (mut found, mut bucket) = (0, if keys == 0 { 0 } else { self.keys.dice.below(buckets) });
        while found < max_count {
            // The buckets that may hold a deadline are known: so a few keys with a TTL are found among many without.
            if volatile {
                bucket = self.keys.deadlines.bounded_from(bucket).or(self.keys.deadlines.bounded_from(0)).unwrap_or(0);
            }
            self.keys.table().for_each_in(bucket, |entry| {
                if !volatile || entry.deadline().is_some() {
                    found += 1;
                    visit(entry);
                }
            });
            bucket = (bucket + 1) % buckets;
        }
        found
    }

    /// Returns a lower bound of the earliest deadline, or [`NEVER`].
    pub(crate) fn earliest(&mut self, now: Now) -> u64 {
        self.keys.follow_wall_clock(now);
        if self.keys.with_ttl == 0 { NEVER } else { self.keys.deadlines.earliest() }
    }

    /// Returns the key with the earliest deadline if the bound [`Shard::earliest`] is exact; otherwise corrects a
    /// bound.
    pub(crate) fn nearest_ttl(&mut self, now: Now) -> Option<Box<[u8]>> {
        let bound = self.keys.deadlines.earliest();
        let bucket = self.keys.deadlines.due(bound)?;
        let mut first: Option<(u64, Box<[u8]>)> = None;
        self.keys.table().for_each_in(bucket, |entry| {
            if let Some(at_ms) = entry.deadline().map(|deadline| deadline.mono_ms(now))
                && first.as_ref().is_none_or(|(first_ms, _)| at_ms < *first_ms)
            {
                first = Some((at_ms, entry.key().into()));
            }
        });
        let earliest_ms = first.as_ref().map_or(NEVER, |(at_ms, _)| *at_ms);
        self.keys.deadlines.set(bucket, earliest_ms);
        first.filter(|_| earliest_ms <= bound).map(|(_, key)| key)
    }

    /// Forgets the fences of all removed keys, for want of memory; returns true if there were any.
    pub(crate) fn forget_retired_fences(&mut self) -> bool {
        self.keys.forget_all_retired_fences()
    }

    /// Evicts a key, unless its usage differs from `usage`; returns true if it was evicted.
    pub(crate) fn evict(&mut self, key: Key<'_>, usage: Option<u32>, cx: &mut ChangeCx<'_>) -> bool {
        let found = self.keys.find_undeleted(key);
        if found.is_none_or(|entry| usage.is_some_and(|usage| usage != entry.usage())) {
            return false;
        }
        self.count_removed(|removed| removed.evicted += 1);
        cx.aside(|cx| self.keys.delete(key, event::EVICTED, cx));
        self.keys.report();
        true
    }
}
