//! Prefetching for the commands of a batch: every pass starts all its loads before the next pass needs them, so that
//! the cache misses of many commands overlap.
//!
//! A key is looked up in two passes, bucket and entry. If commands look elements up in large collections, two more
//! passes do the same in the collections' tables. The shards themselves are few enough to be cached.

use smallvec::SmallVec;

use crate::store::entry::Entry;
use crate::store::hold::GateGuard;
use crate::store::key::shard_of;
use crate::store::table::{Table, prefetch};
use crate::store::value::Value;

/// An element that a command looks up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefetchElement<'a> {
    /// The hash of the collection's key.
    pub(crate) key: u64,
    /// Field or member.
    pub(crate) text: &'a [u8],
}

impl GateGuard<'_> {
    /// Prefetches the memory accessed by look-ups of keys with these hashes.
    pub(crate) fn prefetch(&mut self, db: usize, hashes: &[u64]) {
        match hashes {
            // Commands on one collection: its key is prefetched once.
            [first, second, ..] if first == second => {
                let runs: SmallVec<[u64; 16]> = hashes.chunk_by(u64::eq).map(|run| run[0]).collect();
                self.prefetch_all(db, &runs);
            }
            _ => self.prefetch_all(db, hashes),
        }
    }

    /// Prefetches entries, given with their hashes, and the memory accessed by their insertion.
    pub(crate) fn prefetch_insertions<'e>(&mut self, db: usize, entries: impl Iterator<Item = (u64, &'e Entry)>) {
        let hashes = entries.map(|(hash, entry)| {
            prefetch(entry.address());
            hash
        });
        let hashes: SmallVec<[u64; 64]> = hashes.collect();
        self.prefetch_all(db, &hashes);
    }

    #[inline]
    fn prefetch_all(&mut self, db: usize, hashes: &[u64]) {
        let Some(mut store) = self.gate.whole() else { return };
        store.each_of(db, hashes, |hash, shard| shard.keys.table().prefetch_bucket(hash));
        store.each_of(db, hashes, |hash, shard| shard.keys.table().prefetch_entry(hash));
    }

    /// Prefetches the memory accessed by look-ups of elements, if their collections are large; the keys should have
    /// been prefetched.
    pub(crate) fn prefetch_elements<'e>(&mut self, db: usize, elements: impl Iterator<Item = PrefetchElement<'e>>) {
        let mut found: SmallVec<[(u64, u64); 64]> = SmallVec::new();
        elements.for_each(|PrefetchElement { key, text }| {
            let prefetch = |table: &Table<Entry>| large(table, key)?.prefetch_bucket_of(text);
            found.extend(self.with_table(db, key, prefetch).flatten().map(|hash| (key, hash)));
        });
        for (key, hash) in found {
            self.with_table(db, key, |table| large(table, key).map(|value| value.prefetch_item(hash)));
        }
    }

    #[inline]
    fn with_table<R>(&mut self, db: usize, key: u64, read: impl FnOnce(&Table<Entry>) -> R) -> Option<R> {
        Some(self.gate.whole()?.with_shard(db, shard_of(key), |shard| read(shard.keys.table())))
    }
}

/// Returns the large value of the key with this hash, if there is one.
#[inline]
fn large(table: &Table<Entry>, key: u64) -> Option<&Value> {
    table.candidate(key).and_then(Entry::value)
}

impl Value {
    /// Prefetches the bucket of an element, and returns the element's hash; `None` if the type has no table of
    /// elements.
    #[inline]
    fn prefetch_bucket_of(&self, text: &[u8]) -> Option<u64> {
        match self {
            Value::Hash(hash) => Some(hash.prefetch_bucket(text)),
            Value::Set(set) => Some(set.prefetch_bucket(text)),
            Value::TimedSet(timed) => Some(timed.set().prefetch_bucket(text)),
            Value::SortedSet(set) => Some(set.prefetch_bucket(text)),
            _ => None,
        }
    }

    /// Prefetches the element with this hash, whose bucket should be in the cache by now.
    #[inline]
    fn prefetch_item(&self, hash: u64) {
        match self {
            Value::Hash(fields) => fields.prefetch_field(hash),
            Value::Set(set) => set.prefetch_member(hash),
            Value::TimedSet(timed) => timed.set().prefetch_member(hash),
            Value::SortedSet(set) => set.prefetch_member(hash),
            _ => {}
        }
    }
}
