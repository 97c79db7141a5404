//! Images of locks: copies of a lock's state, from which the lock can be restored.

use std::sync::Arc;

use crate::store::expire::NEVER;
use crate::store::lock::held::HeldLock;
use crate::store::lock::holders::Sharing;
use crate::store::lock::{HoldGuard, LockHolder, LockRecord};

/// Former state of a lock.
#[derive(Clone)]
pub(crate) struct LockImage {
    /// Kind of sharing, and the time since which there was a holder; `None` for an exclusive lock, which had one
    /// holder.
    pub(in crate::store) shared: Option<(Sharing, i64)>,
    pub(in crate::store) holders: Arc<[HolderImage]>,
}

/// Former state of a holder of a lock. The client does not count as a holder because of it.
#[derive(Clone)]
pub(in crate::store) struct HolderImage {
    pub(in crate::store) token: Box<[u8]>,
    pub(in crate::store) fence: i64,
    pub(in crate::store) since_us: i64,
    pub(in crate::store) holder: Option<Arc<dyn LockHolder>>,
    pub(in crate::store) session: Option<Arc<dyn LockHolder>>,
    pub(in crate::store) is_announced: bool,
    pub(in crate::store) meta: Option<Box<[u8]>>,
    /// Number of permits; 0 for a holder of any other lock than a semaphore.
    pub(in crate::store) permits: u32,
    pub(in crate::store) until_ms: u64,
}

impl HolderImage {
    pub(in crate::store) fn of(record: &LockRecord, permits: u32, until_ms: u64) -> Self {
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
    pub(in crate::store) fn record(&self, token: u64) -> LockRecord {
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
    pub(in crate::store) fn new(shared: Option<(Sharing, i64)>, holders: Vec<HolderImage>) -> Self {
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
    pub(in crate::store) fn has(&self, record: &LockRecord) -> bool {
        self.holders.iter().any(|holder| holder.fence == record.fence && holder.token == record.token)
    }

    /// Returns the value of the lock's key.
    pub(in crate::store) fn value(&self) -> Vec<u8> {
        match self.shared {
            Some((sharing, _)) => sharing.value(),
            None => self.holders.first().map_or_else(Vec::new, |holder| holder.token.to_vec()),
        }
    }
}
