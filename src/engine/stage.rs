//! A stage: a small store with copies of the keys of some calls, on which these are executed before the cluster knows of
//! them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::names::KeyName;
use crate::engine::stored::{StoredEvent, StoredKey};
use crate::engine::ttl::Ttl;
use crate::engine::value::encode;
use crate::store::entry::Entry;
use crate::store::{
    self, ChangeLog, Classes, Cx, EventSink, Exclusive, Key, KeyspaceObserver, LockRecord, LostLock, Origin, Store,
};
use crate::time::clock::{Deadline, Now};

/// What the calls on a stage have changed.
#[derive(Default)]
struct Recorded {
    /// The databases that were emptied.
    cleared: BTreeSet<usize>,
    /// Whether all were.
    is_all_cleared: bool,
    /// The keys that were changed since, in the order of their first changes.
    keys: Vec<KeyName>,
    known: HashSet<KeyName>,
    events: Vec<StoredEvent>,
}

/// Records what the calls change.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Recorded>>);

impl KeyspaceObserver for Recorder {
    fn on_event(&self, db: usize, key: &[u8], event: &'static str, class: Classes) {
        let event = StoredEvent { db: db as u64, key: key.to_vec(), class: class.bits(), name: event.to_owned() };
        self.0.lock().events.push(event);
    }

    fn on_change(&self, _: &[u8], _: Origin, _: Origin) {}

    fn on_flush(&self) {}

    fn on_lost_lock(&self, _: &LostLock<'_>) {}
}

impl ChangeLog for Recorder {
    fn append_removal(&self, db: usize, key: &[u8]) {
        self.record_change(db, key);
    }

    fn append_field_removal(&self, db: usize, key: &[u8], _: &[u8]) {
        self.record_change(db, key);
    }

    fn record_change(&self, db: usize, key: &[u8]) {
        let (mut recorded, key) = (self.0.lock(), (db, Box::from(key)));
        if recorded.known.insert(key.clone()) {
            recorded.keys.push(key);
        }
    }

    fn record_all(&self, db: Option<usize>) {
        let mut recorded = self.0.lock();
        match db {
            Some(db) => _ = recorded.cleared.insert(db),
            None => recorded.is_all_cleared = true,
        }
        recorded.keys.retain(|(changed, _)| db.is_some_and(|db| db != *changed));
        recorded.known.retain(|(changed, _)| db.is_some_and(|db| db != *changed));
    }

    fn record_lock(&self, db: usize, key: &[u8], _: Option<&LockRecord>) {
        self.record_change(db, key);
    }
}

/// A copy of a key.
pub(super) struct Copy {
    /// When it was last changed; 0 if it is missing.
    pub(super) mod_revision: i64,
    /// Its value with its fence, unless it is missing.
    pub(super) value: Option<(Entry, i64)>,
    /// Its TTL.
    pub(super) ttl: Option<Ttl>,
}

/// What the calls on a stage have done.
pub(super) struct Outcome {
    /// The databases that were emptied, before any of the other changes.
    pub(super) cleared: Cleared,
    /// The keys that were changed.
    pub(super) changed: Vec<Changed>,
    /// The keyspace events, in order.
    pub(super) events: Vec<StoredEvent>,
}

/// The databases that were emptied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Cleared {
    /// None of them.
    #[default]
    Nothing,
    /// Some.
    Databases(Vec<usize>),
    /// All.
    All,
}

impl Cleared {
    /// Returns whether the keys of a database were deleted.
    pub(super) fn has(&self, db: usize) -> bool {
        match self {
            Cleared::Nothing => false,
            Cleared::Databases(databases) => databases.contains(&db),
            Cleared::All => true,
        }
    }
}

/// A key that was changed on a stage.
pub(super) struct Changed {
    /// Its name.
    pub(super) key: KeyName,
    /// What it is now, with its TTL; `None` if it was deleted.
    pub(super) value: Option<(StoredKey, Option<Ttl>)>,
    /// Whether it is a hash with a field that has a TTL of its own.
    pub(super) has_field_ttl: bool,
}

/// A stage.
pub(super) struct Stage {
    store: Store,
    recorder: Recorder,
    /// The TTLs of the copied keys.
    ttls: HashMap<KeyName, Ttl>,
    now: Now,
}

impl Stage {
    /// Creates an empty stage beside the store that mirrors the cluster.
    pub(super) fn new(mirror: &Store, now: Now) -> Self {
        let recorder = Recorder::default();
        let events = EventSink::new(recorder.clone(), Arc::new(recorder.clone()));
        events.set_classes(Classes::EVENTS);
        Stage { store: mirror.stage(events), recorder, ttls: HashMap::new(), now }
    }

    /// Adds the copy of a key. One that is due has expired on the stage: its deletion is one of the changes.
    pub(super) fn load(&mut self, key: &KeyName, copy: Copy) {
        let (db, bytes) = key;
        let Some((mut entry, fence)) = copy.value else { return };
        if let Some(ttl) = copy.ttl {
            let is_due = ttl.is_due(self.now);
            entry.set_deadline(Some(if is_due { Deadline::at_wall_ms(0) } else { ttl.deadline() }));
            self.ttls.insert(key.clone(), ttl);
        }
        let hash = self.store.hash(bytes);
        let mut hold = self.store.exclusive();
        hold.view(*db, Cx::new(self.now, Origin::Replay)).load(*db, hash, entry, fence);
    }

    /// Returns access to the keys.
    pub(super) fn hold(&self) -> Exclusive<'_> {
        self.store.exclusive()
    }

    /// Returns whether a key was changed so far.
    pub(super) fn has_changed(&self, key: &KeyName) -> bool {
        let recorded = self.recorder.0.lock();
        recorded.is_all_cleared || recorded.cleared.contains(&key.0) || recorded.known.contains(key)
    }

    /// Ends the stage.
    pub(super) fn end(self) -> Outcome {
        self.store.forget_unlogged();
        let Recorded { cleared, is_all_cleared, keys, events, .. } = std::mem::take(&mut *self.recorder.0.lock());
        let cleared = match cleared.is_empty() {
            _ if is_all_cleared => Cleared::All,
            true => Cleared::Nothing,
            false => Cleared::Databases(cleared.into_iter().collect()),
        };
        let mut hold = self.store.exclusive();
        let changed = keys.into_iter().map(|key| {
            let mut has_field_ttl = false;
            let name = Key { bytes: &key.1, hash: self.store.hash(&key.1) };
            let copy = hold.view(key.0, Cx::new(self.now, Origin::Replay)).copy_of(key.0, name);
            let value = copy.map(|(entry, fence)| {
                let ttl = entry.deadline().map(|deadline| self.ttl_of(&key, deadline));
                has_field_ttl = store::has_field_ttl(&entry);
                (encode(&entry, fence, ttl, self.now), ttl)
            });
            Changed { key, value, has_field_ttl }
        });
        let changed = changed.collect();
        drop(hold);
        Outcome { cleared, changed, events }
    }

    /// Returns the TTL of a changed key: its former one, if that was kept, that of a key which was copied or renamed to it,
    /// or a new one.
    fn ttl_of(&self, key: &KeyName, deadline: Deadline) -> Ttl {
        let is_it = |ttl: &&Ttl| ttl.deadline() == deadline;
        let kept = self.ttls.get(key).filter(is_it).or_else(|| self.ttls.values().find(is_it));
        kept.copied().unwrap_or_else(|| Ttl::new(deadline, self.now))
    }
}
