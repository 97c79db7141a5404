//! Latest hand-overs of locks to clients that had waited for them: previous holder, new holder, and times.
//!
//! A hand-over is recorded only where a client waits: a lock without waiters costs nothing here.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::client::info::RemoteClient;
use crate::store::{HoldGuard, LockHolder, LockRecord};
use crate::time::clock::Now;

/// Number of hand-overs kept.
const KEPT: usize = 50;
/// Number of ended holds kept whose lock was not handed over yet.
const ENDS_KEPT: usize = 256;
/// Time from the first hand-over on, in microseconds, in which several clients get a lock from the same holder.
const TOGETHER_US: u64 = 50_000;
/// Number of bytes of a key kept.
const KEY_KEPT: usize = 128;

/// Hand-over of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handover {
    pub(crate) db: usize,
    /// The key, truncated to [`KEY_KEPT`] bytes.
    pub(crate) key: Vec<u8>,
    /// Number of bytes of the key left out.
    pub(crate) key_rest: usize,
    /// Previous holder, if it is known.
    pub(crate) from: Option<RemoteClient>,
    /// Duration of the previous hold, in microseconds; may be known where the holder is not.
    pub(crate) held_us: Option<u64>,
    /// New holder.
    pub(crate) to: RemoteClient,
    /// Time for which the new holder had waited, in microseconds.
    pub(crate) waited_us: u64,
    /// Time of the hand-over, in milliseconds since 1970.
    pub(crate) unix_ms: i64,
}

/// End of a hold of a lock that other clients are queued for.
#[derive(Clone)]
struct End {
    client: Option<Arc<dyn LockHolder>>,
    held_us: u64,
    /// Time at which the first client got the lock afterwards, in monotonic microseconds.
    used_us: Option<u64>,
}

/// The last hand-overs, and the ends of holds that lead to the next ones.
#[derive(Default)]
pub(crate) struct Handovers(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    last: VecDeque<Handover>,
    /// Ends of holds, by the database and the hash of the key.
    ends: BTreeMap<(usize, u64), End>,
}

impl Handovers {
    /// Records that a hold has ended of a lock that other clients are queued for.
    pub(crate) fn record_end(&self, lock: (usize, u64), record: &LockRecord, at_us: u64) {
        let held_us = record.held_us(at_us);
        let end = End { client: record.hold.as_ref().map(HoldGuard::share), held_us, used_us: None };
        let mut kept = self.0.lock();
        if kept.ends.len() >= ENDS_KEPT && !kept.ends.contains_key(&lock) {
            kept.ends.pop_first();
        }
        kept.ends.insert(lock, end);
    }

    /// Records that a client has acquired a lock after a wait.
    pub(crate) fn record(&self, (db, hash, key): (usize, u64, &[u8]), to: RemoteClient, waited_us: u64, now: Now) {
        let mut kept = self.0.lock();
        let end = kept.take_end((db, hash), now.mono_us());
        let (from, held_us) = end.map_or((None, None), |end| {
            (end.client.and_then(|client| RemoteClient::of_holder(&*client)), Some(end.held_us))
        });
        if kept.last.len() == KEPT {
            kept.last.pop_front();
        }
        let shown = &key[..key.len().min(KEY_KEPT)];
        kept.last.push_back(Handover {
            db,
            key: shown.to_vec(),
            key_rest: key.len() - shown.len(),
            from,
            held_us,
            to,
            waited_us,
            unix_ms: now.wall_ms(),
        });
    }

    /// Returns the last hand-overs, the latest first.
    #[cfg(feature = "metrics")]
    pub(crate) fn latest(&self) -> Vec<Handover> {
        self.0.lock().last.iter().rev().cloned().collect()
    }

    pub(super) fn clear(&self) {
        *self.0.lock() = Kept::default();
    }
}

impl Kept {
    /// Returns the end of the previous hold for a client that acquires a lock: the first client, and those that share
    /// the lock with it from then on. An end that was used longer than [`TOGETHER_US`] ago is out of date, and removed.
    fn take_end(&mut self, lock: (usize, u64), now_us: u64) -> Option<End> {
        let end = self.ends.get_mut(&lock)?;
        let since_us = *end.used_us.get_or_insert(now_us);
        if now_us.saturating_sub(since_us) > TOGETHER_US {
            self.ends.remove(&lock);
            return None;
        }
        Some(end.clone())
    }
}
