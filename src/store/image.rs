//! Images of keys: copies of a key's value, TTL, fence and lock, from which the key can be restored.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::store::entry::Entry;
use crate::store::lock::LockImage;

/// Former state of a key.
pub(crate) struct Image {
    /// Value and deadline.
    pub(super) entry: Entry,
    /// Fence; 0 if there was none.
    pub(super) fence: i64,
    /// Lock, if the key was one.
    pub(crate) lock: Option<LockImage>,
}

/// Error: an image would be too large.
pub(crate) struct TooLarge;

/// Remaining allowance for copying images, by effort and by size.
pub(crate) struct CopyLimit {
    /// Effort in allocations and pages.
    effort: usize,
    bytes: usize,
}

impl CopyLimit {
    /// Returns the limit for images that no client has asked for: some ten milliseconds of work.
    pub(crate) fn of_checkpoint() -> Self {
        CopyLimit { effort: 100_000, bytes: 16 << 20 }
    }

    /// Returns a limit that admits everything.
    pub(crate) fn none() -> Self {
        CopyLimit { effort: usize::MAX, bytes: usize::MAX }
    }

    /// Returns true if an entry may be copied, and counts the copy.
    pub(super) fn admits(&mut self, entry: &Entry) -> bool {
        let left = (self.effort.checked_sub(entry.effort()), self.bytes.checked_sub(entry.memory()));
        let (Some(effort), Some(bytes)) = left else { return false };
        *self = CopyLimit { effort, bytes };
        true
    }
}

/// A map by database and key.
#[derive(Clone)]
pub(crate) struct ByKey<V>(BTreeMap<usize, HashMap<Arc<[u8]>, V, ahash::RandomState>>);

impl<V> Default for ByKey<V> {
    fn default() -> Self {
        ByKey(BTreeMap::new())
    }
}

impl<V> ByKey<V> {
    pub(crate) fn get(&self, db: usize, key: &[u8]) -> Option<&V> {
        self.0.get(&db)?.get(key)
    }

    /// Sets the value of a key; returns the former value.
    pub(crate) fn insert(&mut self, db: usize, key: Arc<[u8]>, value: V) -> Option<V> {
        self.0.entry(db).or_default().insert(key, value)
    }

    /// Removes a key; returns its value.
    pub(crate) fn remove(&mut self, db: usize, key: &[u8]) -> Option<V> {
        self.0.get_mut(&db)?.remove(key)
    }

    /// Iterates over the keys, each with its database and value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Arc<[u8]>, &V)> {
        self.0.iter().flat_map(|(db, keys)| keys.iter().map(|(key, value)| (*db, key, value)))
    }

    /// Adds the keys of another map, with default values.
    pub(crate) fn add_keys<U>(&mut self, other: &ByKey<U>)
    where
        V: Default,
    {
        other.iter().for_each(|(db, key, _)| _ = self.insert(db, key.clone(), V::default()));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.values().map(HashMap::len).sum()
    }
}
