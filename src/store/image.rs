//! Images of keys: copies of a key's value, TTL, fence and lock, from which the key can be restored.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::store::entry::Entry;
use crate::store::expire::NEVER;
use crate::store::held_lock::HeldLock;
use crate::store::holders::Sharing;
use crate::store::lock::{HoldGuard, LockHolder, LockRecord};

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

/// Former state of a lock.
#[derive(Clone)]
pub(crate) struct LockImage {
    /// Kind of sharing, and the time since which there was a holder; `None` for an exclusive lock, which had one
    /// holder.
    pub(super) shared: Option<(Sharing, i64)>,
    pub(super) holders: Arc<[HolderImage]>,
}

/// Former state of a holder of a lock. The client does not count as a holder because of it.
#[derive(Clone)]
pub(super) struct HolderImage {
    pub(super) token: Box<[u8]>,
    pub(super) fence: i64,
    pub(super) since_us: i64,
    pub(super) holder: Option<Arc<dyn LockHolder>>,
    pub(super) session: Option<Arc<dyn LockHolder>>,
    pub(super) is_announced: bool,
    pub(super) meta: Option<Box<[u8]>>,
    /// Number of permits; 0 for a holder of any other lock than a semaphore.
    pub(super) permits: u32,
    pub(super) until_ms: u64,
}

impl HolderImage {
    pub(super) fn of(record: &LockRecord, permits: u32, until_ms: u64) -> Self {
        HolderImage {
            token: record.token.clone(),
            fence: record.fence,
            since_us: record.since_us,
            holder: record.hold.as_ref().map(HoldGuard::share),
            session: record.session.clone(),
            is_announced: record.is_announced,
            meta: record.meta.clone(),
            permits,
            until_ms,
        }
    }

    /// Returns a record of the holder, which counts as one again; `token` is the hash of its token.
    pub(super) fn record(&self, token: u64) -> LockRecord {
        LockRecord {
            token: self.token.clone(),
            fence: self.fence,
            since_us: self.since_us,
            hold: self.holder.clone().map(|holder| HoldGuard::new(holder, token)),
            session: self.session.clone(),
            is_announced: self.is_announced,
            meta: self.meta.clone(),
        }
    }
}

impl LockImage {
    /// Creates the image of a lock with these holders; `shared` as in [`LockImage`].
    pub(super) fn new(shared: Option<(Sharing, i64)>, holders: Vec<HolderImage>) -> Self {
        LockImage { shared, holders: holders.into() }
    }

    /// Returns the largest fencing token of the holders.
    pub(crate) fn last_fence(&self) -> i64 {
        self.holders.iter().map(|holder| holder.fence).max().unwrap_or_default()
    }

    /// Creates the image of a lock.
    pub(crate) fn of(lock: HeldLock<'_>) -> Self {
        match lock {
            HeldLock::Exclusive(record) => {
                LockImage { shared: None, holders: [HolderImage::of(record, 0, NEVER)].into() }
            }
            HeldLock::Shared(holders) => LockImage {
                shared: Some((holders.sharing(), holders.since_us)),
                holders: holders
                    .iter()
                    .map(|(_, holder)| HolderImage::of(&holder.record, holder.permits, holder.until_ms))
                    .collect(),
            },
        }
    }

    /// Returns true if the image contains this holder.
    pub(super) fn has(&self, record: &LockRecord) -> bool {
        self.holders.iter().any(|holder| holder.fence == record.fence && holder.token == record.token)
    }

    /// Returns the value of the lock's key.
    pub(super) fn value(&self) -> Vec<u8> {
        match self.shared {
            Some((sharing, _)) => sharing.value(),
            None => self.holders.first().map_or_else(Vec::new, |holder| holder.token.to_vec()),
        }
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
