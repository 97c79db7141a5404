//! A stage: a small store with copies of the keys of some calls, on which these are executed before the cluster knows
//! of them.

mod handover;
mod recorder;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::engine::cluster::Revision;
use crate::engine::flushes::Cleared;
use crate::engine::locks::{ClusterHolders, LockQueues, LockState};
use crate::engine::stored::{StoredEvent, StoredHolder, StoredKey, StoredLoss, StoredRefusal, StoredWaiter};
use crate::engine::ttl::{CountedTtl, KeyTtls};
use crate::engine::value::encode;
use crate::store::entry::Entry;
use crate::store::{
    Classes, Cx, EventSink, ExclusiveHold, HeldLock, Holder, Holders, KeyName, NEVER, Origin, Store, Str,
};
use crate::time::clock::{Deadline, Now};

use recorder::{Recorded, StageRecorder};

pub(super) use handover::HandOver;
pub(super) use recorder::StageCx;

#[derive(Default)]
pub(super) struct Copy {
    /// Revision of the last change; 0 for a missing key.
    pub(super) mod_revision: Revision,
    /// Revision of the last change of the value.
    pub(super) value_revision: Revision,
    /// The value with its fence, unless the key is missing.
    pub(super) value: Option<(Entry, i64)>,
    pub(super) ttls: KeyTtls,
    /// Lock state of the key.
    pub(super) lock: LockState,
    /// True if the key was deleted with all others of its database, and only the queue for a lock is left.
    pub(super) is_flushed: bool,
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
    /// The queued clients that were refused.
    pub(super) refusals: Vec<StoredRefusal>,
}

/// A key that was changed on a stage.
pub(super) struct ChangedKey {
    pub(super) key: KeyName,
    /// The new value, with its TTLs; `None` if the key was deleted.
    pub(super) value: Option<(StoredKey, KeyTtls)>,
}

/// The deadlines of a key's holders, in monotonic milliseconds, and their TTLs, by the tokens of the holders.
type HolderTtls = HashMap<Box<[u8]>, (u64, CountedTtl)>;

pub(super) struct Stage {
    store: Store,
    recorder: StageRecorder,
    /// The keys whose state on the stage is known.
    loaded: HashSet<KeyName>,
    /// The locks with queues that are due, that have a due holder, or whose databases were emptied.
    pub(super) due: Vec<KeyName>,
    /// The TTLs of the copied keys, and the revisions of their values.
    ttls: HashMap<KeyName, CountedTtl>,
    value_revisions: HashMap<KeyName, Revision>,
    /// The TTLs of the copied holders of shared locks and semaphores.
    holder_ttls: HashMap<KeyName, HolderTtls>,
    queues: LockQueues,
    /// Number of fencing tokens given.
    pub(super) given_fences: u32,
    /// True if a call has acquired or renewed a lock that was handed over on this stage.
    has_lost_hand_over: bool,
    refusals: Vec<StoredRefusal>,
    cx: StageCx,
}

impl Stage {
    /// Creates an empty stage beside the store that mirrors the cluster.
    pub(super) fn new(mirror: &Store, cx: StageCx) -> Self {
        let recorder = StageRecorder { recorded: Arc::default(), cx: cx.clone() };
        let events = EventSink::new(recorder.clone(), Arc::new(recorder.clone()));
        events.set_classes(Classes::EVENTS);
        Stage {
            store: mirror.stage(events),
            recorder,
            loaded: HashSet::new(),
            due: Vec::new(),
            ttls: HashMap::new(),
            value_revisions: HashMap::new(),
            holder_ttls: HashMap::new(),
            queues: LockQueues::default(),
            given_fences: 0,
            has_lost_hand_over: false,
            refusals: Vec::new(),
            cx,
        }
    }

    /// Adds the copy of a key. A due key has expired on the stage: its deletion is one of the changes.
    pub(super) fn load(&mut self, key: &KeyName, copy: Copy) {
        let ((db, bytes), now) = (key, self.cx.now);
        self.loaded.insert(key.clone());
        self.value_revisions.insert(key.clone(), copy.value_revision);
        let is_due = copy.is_flushed || copy.ttls.due_ms().is_some_and(|due_ms| due_ms <= now.mono_ms());
        if is_due && !copy.lock.queue.is_empty() {
            self.due.push(key.clone());
        }
        let mut value = None;
        let name = self.store.key(bytes);
        let mut hold = self.store.exclusive();
        let mut view = hold.view(*db, Cx::new(now, Origin::Replay));
        if let Some((mut entry, fence)) = copy.value {
            value = entry.get::<Str>().ok().map(|text| text.as_slice().to_vec());
            if let Some(ttl) = copy.ttls.key {
                let is_due = ttl.is_due(now) && copy.lock.holders.is_none(); // the last holder takes the key along
                entry.set_deadline(Some(if is_due { Deadline::at_wall_ms(0) } else { ttl.deadline() }));
                self.ttls.insert(key.clone(), ttl);
            }
            view.load(*db, name.hash, entry, fence);
        }
        let copied = |client: &_| self.cx.holders.copied(client);
        let state = (&copy.lock, value.as_deref(), &copy.ttls);
        let lock = ClusterHolders::read_lock(state, copied, |ttl| ttl.is_due(now), (&self.store, now));
        if lock.is_some() || !copy.lock.queue.is_empty() {
            let queue = self.cx.holders.read_queue(&copy.lock.queue, (&self.store, now));
            view.locks().adopt(*db, name, lock, queue);
            self.recorder.forget(key);
        }
        if let Some(stored) = &copy.lock.holders {
            let counted = |(holder, ttl): (&StoredHolder, &Option<CountedTtl>)| {
                ttl.map(|ttl| (holder.token.as_slice().into(), (ttl.shown_ms(now), ttl)))
            };
            let counted = stored.holders.iter().zip(&copy.ttls.holders).filter_map(counted).collect();
            self.holder_ttls.insert(key.clone(), counted);
        }
        drop(view);
        if copy.lock.holders.is_some() {
            hold.view(*db, Cx::new(now, Origin::Expiry)).locks().holders(name); // ends due ones
        }
        drop(hold);
        self.queues.load(key, value.as_deref(), copy.lock);
    }

    /// Returns true if the state of a key on the stage is known.
    pub(super) fn has_loaded(&self, key: &KeyName) -> bool {
        self.loaded.contains(key)
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
        let Recorded { keys, events, values, losses, .. } = recorded;
        let changed = keys.into_iter().map(|key| self.changed_key(key, &values));
        let changed = changed.collect();
        StageOutcome { cleared, changed, events, losses, refusals: self.refusals }
    }

    /// Returns the present state of a key, which has changed.
    fn changed_key(&self, key: KeyName, values: &HashSet<KeyName>) -> ChangedKey {
        let (now, name) = (self.cx.now, self.store.key(&key.1));
        let mut hold = self.store.exclusive();
        let mut view = hold.view(key.0, Cx::new(now, Origin::Replay));
        let queue: Vec<StoredWaiter> = self.queues.queue(&key).cloned().collect();
        let Some((entry, fence)) = view.copy_of(key.0, name) else {
            let is_awaited = !queue.is_empty();
            let value = is_awaited.then(|| (StoredKey::absent(queue), KeyTtls::default()));
            return ChangedKey { key, value };
        };
        let mut ttls = KeyTtls::default();
        let (mut lock, mut holders) = (None, None);
        let granted = |token: &[u8]| self.queues.granted(&key, token);
        view.locks().look_at(key.0, name, |held| match held {
            HeldLock::Exclusive(record) => lock = Some(self.cx.stored(record, granted(&record.token))),
            HeldLock::Shared(held) => {
                ttls.holders = held.iter().map(|(_, holder)| self.ttl_of_holder(&key, holder)).collect();
                ttls.key = longest(held, &ttls.holders);
                holders = Some(self.cx.stored_holders((held, &ttls.holders), granted));
            }
        });
        if holders.is_none() {
            let token = lock.as_ref().and_then(|_| entry.get::<Str>().ok()).map(|text| text.as_slice().to_vec());
            ttls.key = entry.deadline().map(|deadline| self.ttl_of(&key, token.as_deref(), deadline));
        }
        let mut stored = encode(&entry, fence, ttls.key, now);
        (stored.lock, stored.holders, stored.queue) = (lock, holders, queue);
        // The TTL of a holder that comes or goes is that of the key, perhaps.
        if !values.contains(&key) && ttls.key == self.ttls.get(&key).copied() {
            stored.value_revision = self.value_revisions.get(&key).copied().unwrap_or(0);
        }
        drop(view);
        drop(hold);
        ChangedKey { key, value: Some((stored, ttls)) }
    }

    /// Returns the TTL of a changed key: the former TTL, if it was kept; the TTL of a key that was copied or renamed to
    /// this one; or a new one. `token` is that of an exclusive lock.
    fn ttl_of(&self, key: &KeyName, token: Option<&[u8]>, deadline: Deadline) -> CountedTtl {
        let is_it = |ttl: &&CountedTtl| ttl.deadline() == deadline;
        let kept = self.ttls.get(key).filter(is_it).or_else(|| self.ttls.values().find(is_it));
        kept.copied().unwrap_or_else(|| {
            let until_ms = deadline.mono_ms(self.cx.now);
            let given_ms = token.and_then(|token| self.handed_over_ttl(key, token, until_ms));
            self.new_ttl(deadline, given_ms)
        })
    }

    /// Returns the TTL of a holder of a shared lock or a semaphore: the former TTL, if it was kept, or a new one.
    fn ttl_of_holder(&self, key: &KeyName, holder: &Holder) -> Option<CountedTtl> {
        let (token, until_ms) = (&holder.record.token, holder.until_ms);
        let copied = self.holder_ttls.get(key).and_then(|copied| copied.get(token));
        if let Some((_, ttl)) = copied.filter(|(copied_ms, _)| *copied_ms == until_ms) {
            return Some(*ttl);
        }
        let given_ms = self.handed_over_ttl(key, token, until_ms);
        holder.deadline().map(|deadline| self.new_ttl(deadline, given_ms))
    }

    /// Creates a TTL that was set as a deadline, or as `given_ms` milliseconds from the reply to the client on.
    fn new_ttl(&self, deadline: Deadline, given_ms: Option<u64>) -> CountedTtl {
        let as_of_end = given_ms.map(|ttl_ms| Deadline::after(self.cx.now, ttl_ms));
        CountedTtl::new(as_of_end.unwrap_or(deadline), self.cx.now)
    }
}

/// Returns the TTL of the holder that lasts longest; `None` if it has no TTL.
fn longest(holders: &Holders, ttls: &[Option<CountedTtl>]) -> Option<CountedTtl> {
    let longest = holders.iter().zip(ttls).max_by_key(|((_, holder), _)| holder.until_ms);
    longest.and_then(|((_, holder), ttl)| ttl.filter(|_| holder.until_ms != NEVER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::staged::HeldToken;
    use crate::command::handlers;
    use crate::config::Config;
    use crate::engine::stored::{StoredClient, StoredLock, StoredWait};
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
            let lock = LockState { lock: Some(lock), ..LockState::default() };
            stage.load(&key, Copy { mod_revision: 5, value_revision: 5, value, lock, ..Copy::default() });
            if is_acquired_again {
                stage.record_held(vec![HeldToken { key: key.clone(), token: b"token"[..].into() }]);
            }
            stage.leave_queue(&key, wait);
            let changed = stage.end(now).changed;
            let is_held = changed.iter().map(|changed| changed.value.is_some()).collect::<Vec<_>>();
            assert_eq!(is_held, [is_acquired_again]);
        }
    }
}
