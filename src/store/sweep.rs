//! Removal of keys by the server: expired ones, found by their deadlines, and evicted ones.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parking_lot::Mutex;

use crate::store::cx::Cx;
use crate::store::entry::Entry;
use crate::store::event;
use crate::store::expire::{DeadlineTree, NEVER};
use crate::store::shard::{Key, Shard};
use crate::time::clock::Now;

/// How many bytes of bounds are kept for later deadlines when no key has a TTL any more.
const DEADLINES_KEEP_MAX: usize = 4096;

/// How long a key is left whose deletion has panicked, in milliseconds.
pub(super) const STEPPED_OVER_MS: u64 = 60_000;

/// The keys whose deletion has panicked: a sweep steps over them for a while.
#[derive(Default)]
pub(super) struct Stumbles(Mutex<Vec<(u64, u64)>>);

impl Stumbles {
    /// Returns whether the key with this hash is left for now.
    fn has(&self, hash: u64, now: Now) -> bool {
        let mut stumbles = self.0.lock();
        if !stumbles.is_empty() {
            stumbles.retain(|(_, until_ms)| now.mono_ms() < *until_ms);
        }
        stumbles.iter().any(|(other, _)| *other == hash)
    }

    fn add(&self, hash: u64, now: Now) {
        self.0.lock().push((hash, now.mono_ms() + STEPPED_OVER_MS));
    }
}

/// How a sweep goes on after a panic.
#[derive(Clone, Copy)]
pub(crate) struct Care<'a> {
    /// Is told of panics.
    pub(super) report: &'a dyn Fn(&(dyn Any + Send)),
    pub(super) stumbles: &'a Stumbles,
}

impl Shard {
    /// Deletes an expired key; such a key is invisible, deleted or not.
    #[cold]
    pub(super) fn expire(&mut self, key: Key<'_>, cx: &Cx) {
        self.delete(key, event::EXPIRED, cx);
        self.expired += 1;
    }

    /// Deletes up to `most` expired keys. Returns when the next one may expire; a time in the past when more have
    /// expired already. One whose deletion panics is left for [`STEPPED_OVER_MS`].
    pub(crate) fn sweep(&mut self, cx: &Cx, most: usize, care: Care<'_>) -> u64 {
        let now = cx.now;
        self.recover(cx);
        self.forget_retired_fences(now);
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
            for bytes in &expired {
                let key = self.key(bytes);
                match self.guard(care, cx, key, |shard| shard.expire(key, cx)) {
                    Some(()) => self.swept += 1,
                    None => self.step_over(key, now),
                }
            }
        }
        if self.with_ttl == 0 && removed > 0 && self.deadlines.memory() > DEADLINES_KEEP_MAX {
            self.deadlines = DeadlineTree::default();
        }
        let next_field_ms = self.sweep_fields(most.saturating_sub(removed), cx, care);
        self.deadlines.earliest().min(next_field_ms)
    }

    /// Removes what has expired of a key; after a panic, the shard recovers, and the key is left for a while, as long as
    /// `None` is returned.
    pub(super) fn guard<T>(
        &mut self,
        care: Care<'_>,
        cx: &Cx,
        key: Key<'_>,
        expire: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        if care.stumbles.has(key.hash, cx.now) {
            return None;
        }
        let expired = self.catch(care, cx, expire);
        if expired.is_none() {
            care.stumbles.add(key.hash, cx.now);
        }
        expired
    }

    /// Does something to the shard; after a panic, which is reported, the shard recovers.
    pub(super) fn catch<T>(&mut self, care: Care<'_>, cx: &Cx, act: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let outcome = catch_unwind(AssertUnwindSafe(|| act(self)));
        outcome.inspect_err(|panic| (care.report)(&**panic)).inspect_err(|_| self.recover(cx)).ok()
    }

    /// Leaves the keys that are due and in the bucket of this one for later, so that they keep no others from expiring.
    fn step_over(&mut self, key: Key<'_>, now: Now) {
        let Some(bucket) = self.table().bucket_of(key.hash) else { return };
        let mut bound = NEVER;
        self.table().for_each_in(bucket, |entry| match entry.deadline() {
            Some(deadline) if deadline.is_due(now) => bound = bound.min(now.mono_ms() + STEPPED_OVER_MS),
            Some(deadline) => bound = bound.min(deadline.mono_ms(now)),
            None => {}
        });
        self.deadlines.set(bucket, bound);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use crate::store::event::{ChangeLog, EventSink, KeyspaceObserver};
    use crate::store::expire::SweepTimer;
    use crate::store::{Cx, Event, LockRecord, LostLock, Origin, Store, Ttl};
    use crate::time::clock::{Deadline, Now};

    /// Records the keys that are removed, in order.
    #[derive(Default)]
    struct Recorder(Mutex<Vec<Vec<u8>>>);

    impl ChangeLog for Recorder {
        fn append_removal(&self, _: usize, key: &[u8]) {
            self.0.lock().push(key.to_vec());
        }

        fn append_field_removal(&self, _: usize, _: &[u8], _: &[u8]) {}

        fn note_change(&self, _: usize, _: &[u8]) {}

        fn note_all(&self) {}

        fn note_lock(&self, _: usize, _: &[u8], _: Option<&LockRecord>) {}
    }

    struct Nobody;

    impl KeyspaceObserver for Nobody {
        fn on_event(&self, _: usize, _: &[u8], _: &'static str) {}

        fn on_change(&self, _: &[u8], _: Origin, _: Origin) {}

        fn on_flush(&self) {}

        fn on_lost_lock(&self, _: &LostLock<'_>) {}
    }

    /// Sweeps 2,000 keys that are due at once; returns the calls that this took, and the keys in order.
    fn swept(store: &Store, recorder: &Recorder, is_time_up: bool) -> (usize, Vec<Vec<u8>>) {
        let (before, due) = (Cx::new(Now::at_ms(0, 0), Origin::HOST), Now::at_ms(10, 10));
        for key in 0..2_000_u32 {
            let name = key.to_le_bytes();
            let key = store.key(&name);
            let deadline = Ttl::At(Deadline::at_wall_ms(5));
            store.hold(1).view(0, &[key.hash], before).set(key, b"value", deadline, Event::NONE);
        }
        let mut calls = 1;
        while store.sweep(Cx::new(due, Origin::Expiry), || is_time_up, &|_| {}) <= due.mono_ms() {
            calls += 1;
        }
        (calls, std::mem::take(&mut recorder.0.lock()))
    }

    #[test]
    fn a_sweep_stops_when_its_time_is_up_and_the_next_goes_on_in_the_same_order() {
        let recorder = Arc::<Recorder>::default();
        let events = EventSink::new(Nobody, recorder.clone());
        let store = Store::new((1, false), 1, Arc::new(SweepTimer::new(|| {})), Arc::default(), events);
        store.set_logged(true);
        let (whole_calls, whole) = swept(&store, &recorder, false);
        let (sliced_calls, sliced) = swept(&store, &recorder, true);
        assert_eq!((whole.len(), &whole), (2_000, &sliced));
        assert!(whole_calls < 20 && sliced_calls > 200, "{whole_calls} calls, {sliced_calls} with a slice each");
    }
}
