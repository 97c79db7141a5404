//! Whole databases: scans, totals, and changes of all keys at once.

use crate::store::entry::Entry;
use crate::store::key::SHARDS;
use crate::store::shard::{Shard, Totals};
use crate::store::table::SCAN_POSITIONS;
use crate::store::view::View;

/// Number of buckets that are sampled for keys with a TTL.
const MEAN_TTL_STEPS: usize = 1000;

impl View<'_> {
    /// Visits the unexpired keys of one bucket at a cursor; returns the next cursor, or 0 at the end.
    ///
    /// Every key that exists from cursor 0 to the end is visited at least once.
    pub fn scan(&mut self, cursor: u64, mut visit: impl FnMut(&Entry)) -> u64 {
        self.scan_undeleted(cursor, |entry, is_expired| {
            if !is_expired {
                visit(entry);
            }
            false
        })
    }

    /// Visits keys as [`View::scan`] does, including expired keys that are not deleted yet; the second argument of
    /// `visit` is true for these. Deletes the expired keys for which `visit` returns true.
    pub(crate) fn scan_undeleted(&mut self, cursor: u64, mut visit: impl FnMut(&Entry, bool) -> bool) -> u64 {
        let (mut index, mut position) = ((cursor / SCAN_POSITIONS) as usize, cursor % SCAN_POSITIONS);
        if index >= SHARDS {
            return 0;
        }
        loop {
            let mut empty = true;
            let View { access, cx, .. } = self;
            let next = access.with_shard(None, index, |shard| {
                empty = shard.keys.is_empty();
                if empty { None } else { shard.scan(position, cx, &mut visit) }
            });
            match next {
                Some(next) => return index as u64 * SCAN_POSITIONS + next,
                None if index + 1 == SHARDS => return 0,
                None => (index, position) = (index + 1, 0),
            }
            if !empty {
                return index as u64 * SCAN_POSITIONS;
            }
        }
    }

    /// Returns the number of keys in the database, including expired ones that are not deleted yet.
    pub fn key_count(&mut self) -> usize {
        self.sum(|shard| shard.keys.len())
    }

    /// Estimates the mean remaining TTL in milliseconds, from a sample of keys.
    pub fn mean_ttl_ms(&mut self) -> i64 {
        const SAMPLES: i64 = 64;
        let (now, mut cursor, mut count, mut sum) = (self.cx.now, 0, 0, 0i64);
        for _ in 0..MEAN_TTL_STEPS {
            cursor = self.scan(cursor, |entry| {
                if let Some(deadline) = entry.deadline() {
                    count += 1;
                    sum = sum.saturating_add(deadline.remaining_ms(now));
                }
            });
            if cursor == 0 || count >= SAMPLES {
                break;
            }
        }
        sum / count.max(1)
    }

    /// Deletes every key of this database, or of all databases. Their memory is freed in the background.
    pub fn clear(&mut self, all_databases: bool) {
        let View { access, cx, .. } = self;
        let (databases, db) = access.whole();
        let mut old = Vec::new();
        let mut clear = |shard: &mut Shard| old.push(shard.keys.clear(cx));
        if all_databases {
            databases.each_shard_mut(clear);
        } else {
            databases.at_mut(db).shards_mut().iter_mut().for_each(|shard| clear(shard.get_mut()));
        }
        let services = databases.services();
        self.cx.changes_mut().add();
        services.events.emit_flush();
        services.events.record_all((!all_databases).then_some(db));
        services.reclaimer.free_shards(old);
    }

    /// Deletes all that has expired in a database, unless expired keys have to stay. The log of a removal names the key and
    /// the database, and stands before the whole transaction, so it has to be made before these change.
    pub(crate) fn expire_all(&mut self, db: usize) {
        let View { access, cx, .. } = self;
        let (databases, _) = access.whole();
        let has_to_stay = databases.services().sweep_timer.frozen_until_ms(cx.now.mono_ms()).is_some();
        if cx.expires_keys() && !has_to_stay {
            databases.at_mut(db).shards_mut().iter_mut().for_each(|shard| shard.get_mut().expire_all(cx));
        }
    }

    /// Swaps all keys of two databases.
    pub fn swap(&mut self, one: usize, other: usize) {
        let View { access, cx, .. } = self;
        let (databases, _) = access.whole();
        // A database swapped with itself stays the same.
        if one != other {
            databases.swap(one, other, |one, other| one.keys.swap(&mut other.keys, cx));
            databases.services().events.record_all(None);
        }
        cx.changes_mut().add();
    }

    /// Swaps the keys of all databases with the keys of a store [beside](crate::store::Store::beside) this one, given
    /// by its view. It counts as a change.
    pub(crate) fn exchange(&mut self, other: &mut View<'_>) {
        let View { access, cx, .. } = self;
        let ((databases, _), (others, _)) = (access.whole(), other.access.whole());
        databases.exchange(others, |one, other| one.keys.swap(&mut other.keys, cx));
        databases.at_mut(0).shard_mut(0).keys.count_change();
        let services = databases.services();
        services.events.emit_flush();
        services.events.record_all(None);
        services.sweep_timer.lower(0); // the sweeper does not know the new deadlines
    }

    /// Returns the numbers of the databases that were ever used, in ascending order; for calls declared EXCLUSIVE, and
    /// calls without keys.
    pub fn used_databases(&self) -> Vec<usize> {
        self.access.used_databases()
    }

    /// Returns the memory of this database besides its entries.
    pub fn overhead(&mut self) -> usize {
        self.sum(|shard| shard.keys.overhead())
    }

    /// Returns the totals of this database.
    pub fn totals(&mut self) -> Totals {
        let mut totals = Totals::default();
        (0..SHARDS).for_each(|index| totals += self.access.with_shard(None, index, |shard| shard.totals()));
        totals
    }

    fn sum(&mut self, mut count: impl FnMut(&mut Shard) -> usize) -> usize {
        (0..SHARDS).map(|index| self.access.with_shard(None, index, &mut count)).sum()
    }
}
