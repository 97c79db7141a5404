//! The recorder of the changes that calls make on a stage.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::flushes::Cleared;
use crate::engine::locks::{ClusterHolders, Granted};
use crate::engine::stored::{StoredEvent, StoredHolders, StoredLock, StoredLoss};
use crate::engine::ttl::CountedTtl;
use crate::store::{
    ChangeLog, Classes, HeldLock, Holders, KeyName, KeyspaceObserver, LockRecord, LossReason, LostLock, Origin,
    SideRecord,
};
use crate::time::clock::Now;

/// Changes by the calls on a stage.
#[derive(Default)]
pub(super) struct Recorded {
    /// The databases that were emptied.
    pub(super) cleared: BTreeSet<usize>,
    /// True if all databases were emptied.
    pub(super) is_all_cleared: bool,
    /// The keys that were changed since, in the order of their first changes.
    pub(super) keys: Vec<KeyName>,
    known: HashSet<KeyName>,
    pub(super) events: Vec<StoredEvent>,
    /// The keys of `known` whose values were changed: of the others only the lock state was.
    pub(super) values: HashSet<KeyName>,
    pub(super) losses: Vec<StoredLoss>,
}

impl Recorded {
    pub(super) fn cleared(&self) -> Cleared {
        if self.is_all_cleared {
            Cleared::All
        } else if self.cleared.is_empty() {
            Cleared::Nothing
        } else {
            Cleared::Databases(self.cleared.iter().copied().collect())
        }
    }

    pub(super) fn add(&mut self, key: KeyName) {
        if self.known.insert(key.clone()) {
            self.keys.push(key);
        }
    }
}

/// Recorder of the calls' changes.
#[derive(Clone)]
pub(super) struct StageRecorder {
    pub(super) recorded: Arc<Mutex<Recorded>>,
    pub(super) cx: StageCx,
}

/// The context of a stage.
#[derive(Clone)]
pub(in crate::engine) struct StageCx {
    pub(in crate::engine) holders: Arc<ClusterHolders>,
    /// The base of new fencing tokens.
    pub(in crate::engine) fence_base: i64,
    pub(in crate::engine) now: Now,
}

impl StageCx {
    pub(super) fn stored(&self, record: &LockRecord, granted: Granted) -> StoredLock {
        self.holders.write(record, granted, (self.fence_base, self.now))
    }

    pub(super) fn stored_holders(
        &self,
        holders: (&Holders, &[Option<CountedTtl>]),
        granted: impl Fn(&[u8]) -> Granted,
    ) -> StoredHolders {
        self.holders.write_all(holders, granted, (self.fence_base, self.now))
    }
}

impl StageRecorder {
    /// Removes a key from the changes that was only copied.
    pub(super) fn forget(&self, key: &KeyName) {
        let mut recorded = self.recorded.lock();
        recorded.keys.retain(|changed| changed != key);
        recorded.known.remove(key);
    }
}

impl KeyspaceObserver for StageRecorder {
    fn on_event(&self, db: usize, key: &[u8], event: &'static str, class: Classes) {
        let event = StoredEvent { db: db as u64, key: key.to_vec(), class: class.bits(), name: event.to_owned() };
        self.recorded.lock().events.push(event);
    }

    fn on_change(&self, _: &[u8], _: Origin, _: Origin) {}

    fn on_flush(&self) {}

    fn on_lost_lock(&self, lost: &LostLock<'_>) {
        if lost.loss == LossReason::Flushed {
            return; // each mirror announces its own locks in databases that are emptied
        }
        let lock = self.cx.stored(lost.record, Granted::default());
        let (key, token, reason) = (lost.key.to_vec(), lost.record.token.to_vec(), lost.loss.as_str().to_owned());
        self.recorded.lock().losses.push(StoredLoss { key, token, lock, reason });
    }
}

impl ChangeLog for StageRecorder {
    fn append_removal(&self, db: usize, key: &[u8]) {
        self.record_change(db, key);
    }

    fn append_deadline(&self, db: usize, key: &[u8], _: Option<i64>) {
        self.record_change(db, key);
    }

    fn append_side_record(&self, _: usize, _: SideRecord<'_>) {}

    fn append_message(&self, _: &[u8], _: &[u8]) {}

    fn append_field_removal(&self, db: usize, [_, key, _]: [&[u8]; 3]) {
        self.record_change(db, key);
    }

    fn record_change(&self, db: usize, key: &[u8]) {
        let (mut recorded, key) = (self.recorded.lock(), (db, Box::from(key)));
        recorded.values.insert(key.clone());
        recorded.add(key);
    }

    fn record_all(&self, db: Option<usize>) {
        let mut recorded = self.recorded.lock();
        match db {
            Some(db) => _ = recorded.cleared.insert(db),
            None => recorded.is_all_cleared = true,
        }
        let stays = |(changed, _): &KeyName| db.is_some_and(|db| db != *changed);
        recorded.keys.retain(stays);
        recorded.known.retain(stays);
        recorded.values.retain(stays);
    }

    fn record_lock(&self, db: usize, key: &[u8], _: Option<HeldLock<'_>>) {
        self.recorded.lock().add((db, Box::from(key)));
    }
}
