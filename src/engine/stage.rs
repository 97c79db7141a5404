//! A stage: a small store with copies of the keys of some calls, on which these are executed before the cluster knows
//! of them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::client::info::{ClientInfo, RemoteClient};
use crate::client::registry::Suspended;
use crate::client::staged::{LockDemand, NewFence};
use crate::command::string::{SET, SET_EX};
use crate::engine::cluster::Revision;
use crate::engine::locks::LockQueues;
use crate::engine::locks::{ClusterHolders, LockState};
use crate::engine::names::Cleared;
use crate::engine::stored::{StoredEvent, StoredKey, StoredLock, StoredLoss, StoredWait, StoredWaiter};
use crate::engine::ttl::CountedTtl;
use crate::engine::value::encode;
use crate::store::entry::Entry;
use crate::store::{
    self, ChangeLog, Classes, Cx, EventSink, ExclusiveHold, HeldLock, HoldGuard, KeyName, KeyspaceObserver, LockRecord,
    LossReason, LostLock, Origin, SideRecord, Store, Str,
};
use crate::time::clock::{Deadline, Now};

/// Changes by the calls on a stage.
#[derive(Default)]
struct Recorded {
    /// The databases that were emptied.
    cleared: BTreeSet<usize>,
    /// True if all databases were emptied.
    is_all_cleared: bool,
    /// The keys that were changed since, in the order of their first changes.
    keys: Vec<KeyName>,
    known: HashSet<KeyName>,
    events: Vec<StoredEvent>,
    /// The keys of `known` whose values were changed: of the others only the lock state was.
    values: HashSet<KeyName>,
    /// The locks that clients with the token have acquired or renewed.
    locks: HashSet<KeyName>,
    losses: Vec<StoredLoss>,
}

impl Recorded {
    fn cleared(&self) -> Cleared {
        if self.is_all_cleared {
            Cleared::All
        } else if self.cleared.is_empty() {
            Cleared::Nothing
        } else {
            Cleared::Databases(self.cleared.iter().copied().collect())
        }
    }

    fn add(&mut self, key: KeyName) {
        if self.known.insert(key.clone()) {
            self.keys.push(key);
        }
    }
}

/// Recorder of the calls' changes.
#[derive(Clone)]
struct Recorder {
    recorded: Arc<Mutex<Recorded>>,
    cx: StageCx,
}

#[derive(Clone)]
pub(super) struct StageCx {
    pub(super) holders: Arc<ClusterHolders>,
    /// The base of new fencing tokens.
    pub(super) fence_base: i64,
    pub(super) now: Now,
}

impl StageCx {
    fn stored(&self, record: &LockRecord, granted: Vec<StoredWait>) -> StoredLock {
        self.holders.write(record, granted, (self.fence_base, self.now))
    }
}

impl Recorder {
    /// Removes a key from the changes that was only copied.
    fn forget(&self, key: &KeyName) {
        let mut recorded = self.recorded.lock();
        recorded.keys.retain(|changed| changed != key);
        recorded.known.remove(key);
        recorded.locks.remove(key);
    }
}

impl KeyspaceObserver for Recorder {
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
        let lock = self.cx.stored(lost.record, Vec::new());
        let (key, token, reason) = (lost.key.to_vec(), lost.record.token.to_vec(), lost.loss.as_str().to_owned());
        self.recorded.lock().losses.push(StoredLoss { key, token, lock, reason });
    }
}

impl ChangeLog for Recorder {
    fn append_removal(&self, db: usize, key: &[u8]) {
        self.record_change(db, key);
    }

    fn append_deadline(&self, db: usize, key: &[u8], _: Option<i64>) {
        self.record_change(db, key);
    }

    fn append_side_record(&self, _: usize, _: SideRecord<'_>) {}

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
        recorded.locks.retain(stays);
    }

    fn record_lock(&self, db: usize, key: &[u8], _: Option<HeldLock<'_>>) {
        let (mut recorded, key) = (self.recorded.lock(), (db, Box::from(key)));
        recorded.locks.insert(key.clone());
        recorded.add(key);
    }
}

#[derive(Default)]
pub(super) struct Copy {
    /// Revision of the last change; 0 for a missing key.
    pub(super) mod_revision: Revision,
    /// Revision of the last change of the value.
    pub(super) value_revision: Revision,
    /// The value with its fence, unless the key is missing.
    pub(super) value: Option<(Entry, i64)>,
    pub(super) ttl: Option<CountedTtl>,
    /// Lock state of the key.
    pub(super) lock: LockState,
}

/// Effects of the calls on a stage.
pub(super) struct StageOutcome {
    /// The databases that were emptied, before any of the other changes.
    pub(super) cleared: Cleared,
    pub(super) changed: Vec<ChangedKey>,
    /// The keyspace events, in order.
    pub(super) events: Vec<StoredEvent>,
    /// The locks that were lost.
    pub(super) losses: Vec<StoredLoss>,
    pub(super) has_begun_queue: bool,
}

/// A key that was changed on a stage.
pub(super) struct ChangedKey {
    pub(super) key: KeyName,
    /// The new value, with its TTL; `None` if the key was deleted.
    pub(super) value: Option<(StoredKey, Option<CountedTtl>)>,
    /// True for a hash with a field that has a TTL of its own.
    pub(super) has_field_ttl: bool,
}

pub(super) struct Stage {
    store: Store,
    recorder: Recorder,
    /// The TTLs of the copied keys, and the revisions of their values.
    ttls: HashMap<KeyName, CountedTtl>,
    value_revisions: HashMap<KeyName, Revision>,
    pub(super) queues: LockQueues,
    /// Number of fencing tokens given.
    pub(super) given_fences: u32,
    handed_over: Vec<HandedOver>,
    cx: StageCx,
}

struct HandedOver {
    key: KeyName,
    /// Placeholder of the lock's fencing token.
    fence: i64,
    /// The deadline that the lock was given, and the TTL in milliseconds.
    ttl: Option<(Deadline, u64)>,
}

impl Stage {
    /// Creates an empty stage beside the store that mirrors the cluster.
    pub(super) fn new(mirror: &Store, cx: StageCx) -> Self {
        let recorder = Recorder { recorded: Arc::default(), cx: cx.clone() };
        let events = EventSink::new(recorder.clone(), Arc::new(recorder.clone()));
        events.set_classes(Classes::EVENTS);
        let (ttls, value_revisions, queues, handed_over) = Default::default();
        Stage { store: mirror.stage(events), recorder, ttls, value_revisions, queues, given_fences: 0, handed_over, cx }
    }

    /// Adds the copy of a key. A due key has expired on the stage: its deletion is one of the changes.
    pub(super) fn load(&mut self, key: &KeyName, copy: Copy) {
        let ((db, bytes), now) = (key, self.cx.now);
        self.value_revisions.insert(key.clone(), copy.value_revision);
        let Some((mut entry, fence)) = copy.value else { return };
        let token = copy.lock.lock.as_ref().and_then(|_| Some(entry.get::<Str>().ok()?.as_slice().to_vec()));
        if let Some(ttl) = copy.ttl {
            let is_due = ttl.is_due(now);
            entry.set_deadline(Some(if is_due { Deadline::at_wall_ms(0) } else { ttl.deadline() }));
            self.ttls.insert(key.clone(), ttl);
        }
        let name = self.store.key(bytes);
        let mut hold = self.store.exclusive();
        let mut view = hold.view(*db, Cx::new(now, Origin::Replay));
        view.load(*db, name.hash, entry, fence);
        if let (Some(lock), Some(token)) = (&copy.lock.lock, token) {
            let record = ClusterHolders::read(lock, &token, |client| self.cx.holders.copied(client), now);
            view.locks().adopt(*db, name, Some(record), []);
            self.recorder.forget(key);
        }
        drop(view);
        drop(hold);
        self.queues.load(key, copy.lock);
    }

    /// Adds the queue for a lock whose key the calls have deleted with all others of its database.
    pub(super) fn load_queue(&mut self, key: &KeyName, copy: Copy) {
        self.queues.load(key, LockState { lock: None, ..copy.lock });
    }

    /// Returns access to the keys.
    pub(super) fn hold(&self) -> ExclusiveHold<'_> {
        self.store.exclusive()
    }

    /// Returns true if the value of a key was changed so far.
    pub(super) fn has_changed(&self, key: &KeyName) -> bool {
        let recorded = self.recorder.recorded.lock();
        recorded.is_all_cleared || recorded.cleared.contains(&key.0) || recorded.values.contains(key)
    }

    /// Returns the databases that were emptied so far.
    pub(super) fn cleared(&self) -> Cleared {
        self.recorder.recorded.lock().cleared()
    }

    /// Hands over the free locks that have queues, at the present time; returns the processes of their new holders.
    pub(super) fn hand_over(&mut self, now: Now, is_dead: impl Fn(u64) -> bool) -> Vec<u64> {
        let mut processes = Vec::new();
        for key in self.free_locks() {
            let waiters = self.queues.take_next(&key, &is_dead);
            processes.extend(waiters.iter().map(|waiter| waiter.wait.process));
            self.grant(&key, &waiters, now);
        }
        processes
    }

    /// Returns the free locks that have queues.
    pub(super) fn free_locks(&self) -> Vec<KeyName> {
        self.queues.locks().into_iter().filter(|key| !self.has(key)).collect()
    }

    /// Returns true if a lock that was handed over on this stage was changed afterwards.
    pub(super) fn has_lost_hand_over(&self) -> bool {
        self.handed_over.iter().any(|HandedOver { key, fence, .. }| {
            let name = self.store.key(&key.1);
            let mut hold = self.store.exclusive();
            let mut view = hold.view(key.0, Cx::new(self.cx.now, Origin::Replay));
            let present = view.locks().look_at(key.0, name, |record| record.fence);
            present != Some(*fence) || self.recorder.recorded.lock().locks.contains(key)
        })
    }

    fn has(&self, key: &KeyName) -> bool {
        let name = self.store.key(&key.1);
        self.store.exclusive().view(key.0, Cx::new(self.cx.now, Origin::Expiry)).exists(name)
    }

    /// Gives a free lock to clients that wait with the same token, as LOCK.ACQUIRE does for one after the other.
    fn grant(&mut self, key: &KeyName, waiters: &[StoredWaiter], now: Now) {
        let Some(first) = waiters.first() else { return };
        let holders = self.cx.holders.clone();
        self.given_fences += 1;
        let mut record = LockRecord {
            token: first.token.as_slice().into(),
            fence: NewFence(self.given_fences).placeholder(),
            since_us: now.mono_us().cast_signed(),
            hold: None,
            session: None,
            is_announced: false,
            meta: None,
        };
        let mut ttl = None;
        for waiter in waiters {
            let holder = holders.copied(&waiter.client);
            if waiter.ttl_ms > 0 {
                ttl = Some(waiter.ttl_ms);
            }
            if waiter.is_session {
                record.session = Some(holder.clone());
            }
            record.hold = Some(HoldGuard::new(holder, 0));
            record.is_announced |= waiter.is_announced;
            record.meta = waiter.meta.as_deref().map(Into::into).or(record.meta);
        }
        let name = self.store.key(&key.1);
        let given = ttl.map(|ttl_ms| (Deadline::after(now, ttl_ms), ttl_ms));
        let (ttl, event) = given.map_or((store::Ttl::Clear, SET), |(deadline, _)| (store::Ttl::At(deadline), SET_EX));
        let mut hold = self.store.exclusive();
        let mut view = hold.view(key.0, Cx::new(now, Origin::HOST));
        view.set(name, &first.token, ttl, event);
        view.locks().change(name, |known| *known = Some(record));
        drop(view);
        drop(hold);
        self.recorder.recorded.lock().locks.remove(key);
        let fence = NewFence(self.given_fences).placeholder();
        self.handed_over.push(HandedOver { key: key.clone(), fence, ttl: given });
        self.queues.grant(key, waiters.iter().map(|waiter| waiter.wait).collect());
    }

    /// Appends a client to the queue for a lock.
    pub(super) fn queue(&mut self, suspended: &Suspended, demand: LockDemand, client: &ClientInfo) {
        let Some(key) = suspended.awaited_lock() else { return };
        let LockDemand { token, ttl_ms, is_session, is_announced, meta } = demand;
        let holders = &self.cx.holders;
        let waiter = StoredWaiter {
            client: holders.stored(RemoteClient::of(client)),
            wait: StoredWait { process: holders.process, number: suspended.blocked.number() },
            token: token.into(),
            ttl_ms,
            is_session,
            is_announced,
            meta: meta.map(Into::into),
            since_us: self.cx.now.wall_us(),
        };
        self.queues.join(key, waiter);
    }

    /// Ends the wait of a client for a lock: it leaves the queue, or gives the lock back.
    pub(super) fn leave_queue(&mut self, key: &KeyName, wait: StoredWait) {
        let is_untouched = !self.recorder.recorded.lock().locks.contains(key);
        if self.queues.leave(key, wait) && is_untouched {
            self.handed_over.retain(|lock| lock.key != *key);
            let name = self.store.key(&key.1);
            let mut hold = self.store.exclusive();
            let mut view = hold.view(key.0, Cx::new(self.cx.now, Origin::HOST));
            let holder = |record: &LockRecord| Some((record.token.clone(), record.hold.as_ref()?.holder().id()));
            if let Some((token, client)) = view.locks().look_at(key.0, name, holder).flatten() {
                view.locks().take_back(key.0, name, &token, (client, 0));
            }
        }
    }

    /// Ends the session of a client, if the lock is bound to it.
    pub(super) fn end_session(&self, key: &KeyName, client: u64) {
        let name = self.store.key(&key.1);
        let mut hold = self.store.exclusive();
        hold.view(key.0, Cx::new(self.cx.now, Origin::HOST)).locks().end_of_session(key.0, name, client);
    }

    /// Ends the stage at the present time: the rest of a TTL is written as of the last call, not of the first. A script
    /// may take long, and its TTLs count from the time when it has set them.
    pub(super) fn end(mut self, now: Now) -> StageOutcome {
        self.cx.now = now;
        let mut recorded = std::mem::take(&mut *self.recorder.recorded.lock());
        self.queues.changed().for_each(|key| recorded.add(key.clone()));
        let cleared = recorded.cleared();
        let Recorded { keys, events, values, locks, losses, .. } = recorded;
        let mut hold = self.store.exclusive();
        let changed = keys.into_iter().map(|key| {
            let mut has_field_ttl = false;
            let name = self.store.key(&key.1);
            let mut view = hold.view(key.0, Cx::new(now, Origin::Replay));
            let copy = view.copy_of(key.0, name);
            let granted = if locks.contains(&key) { Vec::new() } else { self.queues.granted(&key) };
            let lock = view.locks().look_at(key.0, name, |record| self.cx.stored(record, granted));
            let value = copy.map(|(entry, fence)| {
                let ttl = entry.deadline().map(|deadline| self.ttl_of(&key, deadline));
                has_field_ttl = store::has_field_ttl(&entry);
                let mut stored = encode(&entry, fence, ttl, now);
                (stored.lock, stored.queue) = (lock, self.queues.queue(&key));
                if !values.contains(&key) {
                    stored.value_revision = self.value_revisions.get(&key).copied().unwrap_or(0);
                }
                (stored, ttl)
            });
            ChangedKey { key, value, has_field_ttl }
        });
        let changed = changed.collect();
        drop(hold);
        let has_begun_queue = self.queues.has_begun();
        StageOutcome { cleared, changed, events, losses, has_begun_queue }
    }

    /// Returns the TTL of a changed key: the former TTL, if it was kept; the TTL of a key that was copied or renamed to
    /// this one; or a new one.
    fn ttl_of(&self, key: &KeyName, deadline: Deadline) -> CountedTtl {
        let is_it = |ttl: &&CountedTtl| ttl.deadline() == deadline;
        let kept = self.ttls.get(key).filter(is_it).or_else(|| self.ttls.values().find(is_it));
        kept.copied().unwrap_or_else(|| {
            let given = self.handed_over.iter().filter(|lock| lock.key == *key).filter_map(|lock| lock.ttl);
            // The TTL of a queued client counts from the time when the client is told.
            let as_of_end =
                given.filter(|(given, _)| *given == deadline).map(|(_, ms)| Deadline::after(self.cx.now, ms));
            CountedTtl::new(as_of_end.last().unwrap_or(deadline), self.cx.now)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::handlers;
    use crate::config::Config;
    use crate::engine::stored::StoredClient;
    use crate::namespace::Namespace;
    use crate::time::clock::Clock;

    #[test]
    fn who_leaves_gives_a_lock_back_unless_it_was_acquired_again_since_it_was_handed_over() {
        let namespace = Namespace::for_test(&handlers().commands, Config::default(), Clock::manual());
        let (key, now) = ((0, Box::from(&b"k"[..])), namespace.clock.now());
        let wait = StoredWait { process: 1, number: 7 };
        for is_acquired_again in [false, true] {
            let holders = Arc::new(ClusterHolders::new(namespace.clients.clone()));
            let mut stage = Stage::new(&namespace.store, StageCx { holders, fence_base: 0, now });
            let holder = Some(StoredClient { process: 1, id: 3, ..StoredClient::default() });
            let lock = StoredLock { fence: 5, holder, granted: vec![wait], ..StoredLock::default() };
            let value = Some((Entry::text(b"k", &b"token"[..], None), 5));
            let lock = LockState { lock: Some(lock), queue: Vec::new() };
            stage.load(&key, Copy { mod_revision: 5, value_revision: 5, value, lock, ..Copy::default() });
            if is_acquired_again {
                stage.recorder.record_lock(0, b"k", None);
            }
            stage.leave_queue(&key, wait);
            let changed = stage.end(now).changed;
            let is_held = changed.iter().map(|changed| changed.value.is_some()).collect::<Vec<_>>();
            assert_eq!(is_held, [is_acquired_again]);
        }
    }
}
