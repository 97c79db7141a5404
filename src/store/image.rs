//! Images of keys: copies of what a key is, with its TTL, fence and lock, to which it can be set back.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::store::entry::Entry;
use crate::store::expire::NEVER;
use crate::store::held_lock::HeldLock;
use crate::store::holders::Sharing;
use crate::store::lock::{Hold, LockHolder, LockRecord};

/// What a key was.
pub(crate) struct Image {
    /// Its value and deadline.
    pub(super) entry: Entry,
    /// Its fence; 0 without one.
    pub(super) fence: i64,
    /// The lock that it was.
    pub(crate) lock: Option<LockImage>,
}

/// An image that would be too large.
pub(crate) struct TooLarge;

/// How much may still be copied for images, by the time that it takes and by its size.
pub(crate) struct CopyLimit {
    /// In allocations and pages.
    effort: usize,
    bytes: usize,
}

impl CopyLimit {
    /// Returns the limit where no client has asked for the images: some ten milliseconds of work.
    pub(crate) fn of_checkpoint() -> Self {
        CopyLimit { effort: 100_000, bytes: 16 << 20 }
    }

    /// Returns no limit.
    pub(crate) fn none() -> Self {
        CopyLimit { effort: usize::MAX, bytes: usize::MAX }
    }

    /// Returns whether an entry may be copied, and counts it then.
    pub(super) fn admits(&mut self, entry: &Entry) -> bool {
        let left = (self.effort.checked_sub(entry.effort()), self.bytes.checked_sub(entry.memory()));
        let (Some(effort), Some(bytes)) = left else { return false };
        *self = CopyLimit { effort, bytes };
        true
    }
}

/// What was known of a lock.
#[derive(Clone)]
pub(crate) struct LockImage {
    /// How it was shared, and since when; `None` of an exclusive one, which had one holder.
    pub(super) shared: Option<(Sharing, i64)>,
    pub(super) holders: Arc<[HolderImage]>,
}

/// What was known of a holder of a lock, without counting as one.
#[derive(Clone)]
pub(super) struct HolderImage {
    pub(super) token: Box<[u8]>,
    pub(super) fence: i64,
    pub(super) since_us: i64,
    pub(super) holder: Option<Arc<dyn LockHolder>>,
    pub(super) session: Option<Arc<dyn LockHolder>>,
    pub(super) is_announced: bool,
    pub(super) meta: Option<Box<[u8]>>,
    /// Of a holder of several.
    pub(super) permits: u32,
    pub(super) until_ms: u64,
}

impl HolderImage {
    pub(super) fn of(record: &LockRecord, permits: u32, until_ms: u64) -> Self {
        HolderImage {
            token: record.token.clone(),
            fence: record.fence,
            since_us: record.since_us,
            holder: record.hold.as_ref().map(Hold::share),
            session: record.session.clone(),
            is_announced: record.is_announced,
            meta: record.meta.clone(),
            permits,
            until_ms,
        }
    }

    /// Returns what is to be known of the holder again; its token has this hash.
    pub(super) fn record(&self, token: u64) -> LockRecord {
        LockRecord {
            token: self.token.clone(),
            fence: self.fence,
            since_us: self.since_us,
            hold: self.holder.clone().map(|holder| Hold::new(holder, token)),
            session: self.session.clone(),
            is_announced: self.is_announced,
            meta: self.meta.clone(),
        }
    }
}

impl LockImage {
    /// Returns that of a lock with these holders; `shared` as in [`LockImage`].
    pub(super) fn new(shared: Option<(Sharing, i64)>, holders: Vec<HolderImage>) -> Self {
        LockImage { shared, holders: holders.into() }
    }

    /// Returns the largest fencing token of its holders.
    pub(crate) fn last_fence(&self) -> i64 {
        self.holders.iter().map(|holder| holder.fence).max().unwrap_or_default()
    }

    /// Returns that of a lock.
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

    /// Returns whether a holder is one of those of the image.
    pub(super) fn has(&self, record: &LockRecord) -> bool {
        self.holders.iter().any(|holder| holder.fence == record.fence && holder.token == record.token)
    }

    /// Returns what the value of the key was.
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
    /// Returns the value of a key.
    pub(crate) fn get(&self, db: usize, key: &[u8]) -> Option<&V> {
        self.0.get(&db)?.get(key)
    }

    /// Sets the value of a key; returns the former one.
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

    /// Adds the keys of another map.
    pub(crate) fn add_keys<U>(&mut self, other: &ByKey<U>)
    where
        V: Default,
    {
        other.iter().for_each(|(db, key, _)| _ = self.insert(db, key.clone(), V::default()));
    }

    /// Returns how many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.0.values().map(HashMap::len).sum()
    }
}
