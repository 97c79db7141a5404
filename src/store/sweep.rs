//! Removal of keys by the server: expired ones, found by their deadlines, and evicted ones.

use crate::store::cx::Cx;
use crate::store::entry::Entry;
use crate::store::event;
use crate::store::expire::{DeadlineTree, NEVER};
use crate::store::shard::{Key, Shard};
use crate::time::clock::Now;

/// How many bytes of bounds are kept for later deadlines when no key has a TTL any more.
const DEADLINES_KEEP_MAX: usize = 4096;

impl Shard {
    /// Deletes an expired key; such a key is invisible, deleted or not.
    #[cold]
    pub(super) fn expire(&mut self, key: Key<'_>, cx: &Cx) {
        self.expired += 1;
        self.delete(key, event::EXPIRED, cx);
    }

    /// Deletes up to `most` expired keys. Returns when the next one may expire; a time in the past when more have
    /// expired already.
    pub(crate) fn sweep(&mut self, cx: &Cx, most: usize) -> u64 {
        let now = cx.now;
        self.follow_wall_clock(now);
        let mut removed = 0;
        while let Some(bucket) = self.deadlines.due(now.mono_ms()) {
            if removed >= most {
                break;
            }
            let mut expired = Vec::new();
            let mut bound = NEVER;
            self.table().for_each_in(bucket, |entry| match entry.deadline() {
                Some(deadline) if deadline.is_due(now) => expired.push(entry.key().to_vec()),
                Some(deadline) => bound = bound.min(deadline.mono_ms(now)),
                None => {}
            });
            self.deadlines.set(bucket, bound);
            removed += expired.len().max(1);
            self.swept += expired.len() as u64;
            for bytes in &expired {
                self.expire(self.key(bytes), cx);
            }
        }
        if self.with_ttl == 0 && removed > 0 && self.deadlines.memory() > DEADLINES_KEEP_MAX {
            self.deadlines = DeadlineTree::default();
        }
        let next_field_ms = self.sweep_fields(most.saturating_sub(removed), cx);
        self.deadlines.earliest().min(next_field_ms)
    }

    /// Calls `visit` for the keys, those with a time to live if `volatile`, of whole buckets from a random one on,
    /// until `most` keys or all were visited. Returns how many were visited.
    pub(crate) fn sample(&mut self, most: usize, volatile: bool, mut visit: impl FnMut(&Entry)) -> usize {
        let (buckets, keys) = (self.table().buckets(), if volatile { self.with_ttl } else { self.table().count() });
        let most = most.min(keys);
        let (mut found, mut bucket) = (0, if keys == 0 { 0 } else { self.dice.below(buckets) });
        while found < most {
            // The buckets that may hold a deadline are known, so few keys with a TTL among many without are found, too.
            if volatile {
                bucket = self.deadlines.bounded_from(bucket).or(self.deadlines.bounded_from(0)).unwrap_or(0);
            }
            self.table().for_each_in(bucket, |entry| {
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
        self.follow_wall_clock(now);
        if self.with_ttl == 0 { NEVER } else { self.deadlines.earliest() }
    }

    /// Returns the key with the earliest deadline if that is at the bound [`Shard::earliest`]; otherwise it corrects a
    /// bound.
    pub(crate) fn nearest_ttl(&mut self, now: Now) -> Option<Box<[u8]>> {
        let bound = self.deadlines.earliest();
        let bucket = self.deadlines.due(bound)?;
        let mut first: Option<(u64, Box<[u8]>)> = None;
        self.table().for_each_in(bucket, |entry| {
            if let Some(at_ms) = entry.deadline().map(|deadline| deadline.mono_ms(now))
                && first.as_ref().is_none_or(|(first_ms, _)| at_ms < *first_ms)
            {
                first = Some((at_ms, entry.key().into()));
            }
        });
        let earliest_ms = first.as_ref().map_or(NEVER, |(at_ms, _)| *at_ms);
        self.deadlines.set(bucket, earliest_ms);
        first.filter(|_| earliest_ms <= bound).map(|(_, key)| key)
    }

    /// Evicts a key, unless its usage has changed from the one given; returns whether the key existed.
    pub(crate) fn evict(&mut self, key: Key<'_>, usage: Option<u32>, cx: &Cx) -> bool {
        let found = self.leftover(key);
        if found.is_none_or(|entry| usage.is_some_and(|usage| usage != entry.usage())) {
            return false;
        }
        self.evicted += 1;
        self.delete(key, event::EVICTED, cx);
        self.report();
        true
    }
}
