//! The last locks that were handed over to clients that had waited for them: from whom, to whom, and after which times.
//!
//! Something is recorded only where a client waits: a lock that nobody waits for costs nothing here.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::client::info::ClientCopy;
use crate::store::{Hold, LockHolder, LockRecord};
use crate::time::clock::Now;

/// How many hand-overs are kept.
const KEPT: usize = 50;
/// How many locks are remembered that have ended and were not handed over yet.
const ENDS_KEPT: usize = 256;
/// For how many microseconds several clients get a lock from the same holder, from the first one on.
const TOGETHER_US: u64 = 50_000;
/// How many bytes of a key are kept.
const KEY_KEPT: usize = 128;

/// A lock that was handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handover {
    /// The database of its key.
    pub(crate) db: usize,
    /// The key, or the first bytes of it.
    pub(crate) key: Vec<u8>,
    /// How many bytes of the key are left out.
    pub(crate) key_rest: usize,
    /// The client that held it before, if it is known.
    pub(crate) from: Option<ClientCopy>,
    /// For how many microseconds that one held it, if it is known who it was or that there was one.
    pub(crate) held_us: Option<u64>,
    /// The client that has it now.
    pub(crate) to: ClientCopy,
    /// For how many microseconds that one had waited.
    pub(crate) waited_us: u64,
    /// When, in milliseconds since 1970.
    pub(crate) unix_ms: i64,
}

/// The end of a lock that others are queued for.
#[derive(Clone)]
struct End {
    client: Option<Arc<dyn LockHolder>>,
    held_us: u64,
    /// When the first client got the lock after it, in monotonic microseconds.
    used_us: Option<u64>,
}

/// The last hand-overs, and the ends that lead to the next ones.
#[derive(Default)]
pub(crate) struct Handovers(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    last: VecDeque<Handover>,
    /// By the database and the hash of the key.
    ends: BTreeMap<(usize, u64), End>,
}

impl Handovers {
    /// Records who has held a lock that others are queued for, and that has just ended.
    pub(crate) fn record_end(&self, lock: (usize, u64), record: &LockRecord, at_us: u64) {
        let held_us = record.held_us(at_us);
        let end = End { client: record.hold.as_ref().map(Hold::share), held_us, used_us: None };
        let mut kept = self.0.lock();
        if kept.ends.len() >= ENDS_KEPT && !kept.ends.contains_key(&lock) {
            kept.ends.pop_first();
        }
        kept.ends.insert(lock, end);
    }

    /// Records that a client has acquired a lock after a wait.
    pub(crate) fn record(&self, (db, hash, key): (usize, u64, &[u8]), to: ClientCopy, waited_us: u64, now: Now) {
        let mut kept = self.0.lock();
        let end = kept.take_end((db, hash), now.mono_us());
        let (from, held_us) = end.map_or((None, None), |end| {
            (end.client.and_then(|client| ClientCopy::of_holder(&*client)), Some(end.held_us))
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

    /// Forgets all of them.
    pub(super) fn clear(&self) {
        *self.0.lock() = Kept::default();
    }
}

impl Kept {
    /// Returns the end after which a lock is acquired: that of the holder before for the first client, and for those who
    /// share the lock with it from then on. One that has gone to others is out of date.
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
