//! The mirror: the store of the namespace as a copy of the keys in the cluster, at one revision, and the engine's state
//! of each key besides it; the keyspace events of other processes, as this process emits them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

use prost::Message as _;
use tracing::warn;

use crate::dispatch::serve::may_have;
use crate::dispatch::texts::accept_libraries;
use crate::engine::cluster::{NamedValue, ReportedChange, Revision, RevisionChanges};
use crate::engine::flushes::{Cleared, Flushes, HiddenKeys};
use crate::engine::locks::KnownLocks;
use crate::engine::locks::LockState;
use crate::engine::names::{EtcdName, NamePrefix};
use crate::engine::nodes::KnownNodes;
use crate::engine::stage::Copy;
use crate::engine::stored::{ABSENT, StoredEvent, StoredKey, StoredLibraries, StoredRecord};
use crate::engine::ttl::{CountedTtl, KeyTtls};
use crate::engine::turns::KeyTurns;
use crate::engine::value::decode;
use crate::namespace::Namespace;
use crate::push::hub::Message;
use crate::store::entry::Entry;
use crate::store::{Classes, Cx, Event, GateGuard, KeyName, Origin, Str, View, nearest_deadline};
use crate::time::clock::{Deadline, Now};

/// Time for which other processes leave the deletion of a due key to the process that has written it last, in
/// milliseconds.
const OTHERS_WAIT_MS: u64 = 50;

/// Time for which other processes leave the deletion of hidden keys to the process that has emptied their databases, in
/// milliseconds.
const OTHERS_DELETE_MS: u64 = 10_000;

/// The revision of libraries that this process could not load.
const UNKNOWN: Revision = -1;

/// Number of deadlines that are kept beyond two for each key.
const DUE_SPARE_MAX: usize = 1024;

/// State of a key besides its value.
struct Known {
    mod_revision: Revision,
    /// Revision of the last change of the value.
    value_revision: Revision,
    ttls: KeyTtls,
    /// Time from which on a field of the hash or a member of the set may be removed, in monotonic milliseconds.
    element_due_ms: Option<u64>,
}

impl Known {
    /// Returns the time from which on the key, or a part of it that has a TTL, may be removed, in monotonic milliseconds.
    fn due_ms(&self) -> Option<u64> {
        self.ttls.due_ms().into_iter().chain(self.element_due_ms).min()
    }
}

/// Source of a key's new state.
struct Learned {
    /// The process that has written the key, if it is known.
    writer: Option<u64>,
    /// The largest difference of wall clocks, if the TTL is to be counted from its date.
    skew_max_ms: Option<u64>,
    now: Now,
}

pub(super) struct Mirror {
    namespace: Arc<Namespace>,
    prefix: NamePrefix,
    /// The revision up to which everything is in the mirror.
    revision: Revision,
    keys: HashMap<KeyName, Known, ahash::RandomState>,
    /// Deadlines of keys, in monotonic milliseconds. The deadline of a key that was changed since is void.
    due: BinaryHeap<Reverse<(u64, KeyName)>>,
    events: KnownEvents,
    flushes: Flushes,
    /// Revision of the last change of the libraries of functions; 0 if there were never any.
    pub(super) libraries: Revision,
    pub(super) hidden: HiddenKeys,
    pub(super) locks: KnownLocks,
    pub(super) turns: KeyTurns,
    pub(super) nodes: Arc<KnownNodes>,
}

impl Mirror {
    /// Creates an empty mirror.
    pub(super) fn new(namespace: Arc<Namespace>, prefix: NamePrefix) -> Self {
        namespace.store.keep_elements();
        Mirror {
            locks: KnownLocks::new(namespace.clients.clone()),
            turns: KeyTurns::default(),
            nodes: Arc::new(KnownNodes::new(namespace.node().cloned())),
            namespace,
            prefix,
            revision: 0,
            keys: HashMap::default(),
            due: BinaryHeap::new(),
            events: KnownEvents::default(),
            flushes: Flushes::default(),
            libraries: 0,
            hidden: HiddenKeys::default(),
        }
    }

    /// Returns the revision up to which everything is in the mirror.
    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    /// Records that there are no further changes up to a revision.
    pub(super) fn advance(&mut self, revision: Revision) {
        self.revision = self.revision.max(revision);
    }

    pub(super) fn set_process(&mut self, process: u64) {
        Arc::make_mut(&mut self.locks.holders).set_process(process);
    }

    /// Returns the revision of a key's last change; 0 for a missing key.
    pub(super) fn mod_revision(&self, key: &KeyName) -> Revision {
        self.keys.get(key).map_or(0, |known| known.mod_revision)
    }

    /// Returns when which databases were emptied.
    pub(super) fn flushes(&self) -> &Flushes {
        &self.flushes
    }

    /// Returns true if a key that was last changed at a revision was deleted with all others of its database.
    fn is_flushed(&self, key: &KeyName, mod_revision: Revision) -> bool {
        mod_revision < self.flushes.at(key.0)
    }

    /// Returns true if a key is missing, or was deleted with all others of its database.
    pub(super) fn is_deleted(&self, key: &KeyName) -> bool {
        let mod_revision = self.mod_revision(key);
        mod_revision == 0 || self.is_flushed(key, mod_revision)
    }

    /// Returns the TTL of a key as this process counts it.
    pub(super) fn ttl(&self, key: &KeyName) -> Option<CountedTtl> {
        self.keys.get(key).and_then(|known| known.ttls.key)
    }

    /// Returns true if the first living client in the queue for a lock is one of this process, and may have the lock: the
    /// transaction that has freed the lock has not handed it over, because it has handed over many others.
    pub(super) fn is_servable(&self, key: &KeyName, now: Now) -> bool {
        let (store, Some(first)) = (&self.namespace.store, self.locks.own_first(key)) else { return false };
        let waiter = self.locks.holders.read_waiter(0, first, (store, now));
        let mut hold = store.hold_patiently();
        first.awaited(key).iter().all(|key| {
            let name = store.key(&key.1);
            may_have(&mut hold.view(key.0, &[name.hash], Cx::new(now, Origin::Replay)), name, waiter)
        })
    }

    /// Returns the TTL of a lock that was handed over as the end of a wait of this process.
    pub(super) fn granted_ttl(&self, key: &KeyName, number: u64) -> Option<CountedTtl> {
        let wait = self.locks.own_wait(number);
        match self.locks.holder_granted_to(key, wait) {
            Some(at) => self.keys.get(key)?.ttls.holders.get(at).copied().flatten(),
            None => self.ttl(key),
        }
    }

    pub(super) fn copy(&self, key: &KeyName, now: Now) -> Copy {
        let Some(known) = self.keys.get(key) else { return Copy::default() };
        let mut hold = self.namespace.store.hold_patiently();
        let mut view = hold.view(0, &[], Cx::new(now, Origin::Replay));
        let value = view.copy_of(key.0, self.namespace.store.key(&key.1));
        let Known { mod_revision, value_revision, ttls, .. } = known;
        let (mod_revision, value_revision, ttls) = (*mod_revision, *value_revision, ttls.clone());
        let is_flushed = self.is_flushed(key, mod_revision);
        Copy { mod_revision, value_revision, value, ttls, lock: self.locks.state(key), is_flushed }
    }

    /// Returns the time from which on a key, or a part of it that has a TTL, may be removed, in monotonic milliseconds.
    pub(super) fn due_ms(&self, key: &KeyName) -> Option<u64> {
        self.keys.get(key)?.due_ms()
    }

    /// Returns the next deadline of a key, in monotonic milliseconds.
    pub(super) fn next_due_ms(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((due_ms, _))| *due_ms)
    }

    /// Takes the keys that are due.
    pub(super) fn take_due(&mut self, now: Now) -> Vec<KeyName> {
        let mut due = Vec::new();
        while self.next_due_ms().is_some_and(|due_ms| due_ms <= now.mono_ms()) {
            let Some(Reverse((_, key))) = self.due.pop() else { break };
            if self.due_ms(&key).is_some_and(|due_ms| due_ms <= now.mono_ms()) {
                due.push(key);
            }
        }
        due
    }

    /// Schedules another attempt at the deletion of a key, in monotonic milliseconds.
    pub(super) fn delay_due(&mut self, key: KeyName, at_ms: u64) {
        self.due.push(Reverse((at_ms, key)));
    }

    /// Replaces the mirror by the cluster's state at a revision: at once, for clients that read it.
    pub(super) fn replace(&mut self, pairs: Vec<NamedValue>, revision: Revision) {
        let (namespace, now) = (self.namespace.clone(), self.namespace.clock.now());
        let (skew_max_ms, is_start) = (namespace.settings.current().etcd_clock_skew_max_ms, self.revision == 0);
        let mut hold = GateGuard::from(namespace.store.exclusive());
        let flushes = self.prefix.name(&EtcdName::Flushes);
        if let Some(pair) = pairs.iter().find(|pair| pair.name == flushes) {
            self.flush(&mut hold, pair, (Cx::new(now, Origin::HOST), now.ms_later(OTHERS_DELETE_MS)));
        }
        let mut view = hold.view(0, &[], Cx::new(now, Origin::HOST));
        self.turns.clear();
        let mut found = HashSet::new();
        let mut living = BTreeMap::new();
        for pair in pairs {
            let key = match self.prefix.parse(&pair.name) {
                Some(EtcdName::Key(key)) => key,
                Some(EtcdName::Process(process)) => {
                    living.insert(process, pair);
                    continue;
                }
                Some(name) => {
                    self.follow(&name, &pair);
                    continue;
                }
                None => continue,
            };
            if self.mod_revision(&key) != pair.mod_revision {
                let skew_max_ms = u64::try_from(skew_max_ms).ok().filter(|_| is_start);
                self.put(&mut view, key.clone(), &pair, Learned { writer: None, skew_max_ms, now });
            }
            found.insert(key);
        }
        let gone: Vec<KeyName> = self.keys.keys().filter(|key| !found.contains(*key)).cloned().collect();
        gone.into_iter().for_each(|key| self.delete(&mut view, key));
        self.nodes.replace(&living, revision, now);
        self.locks.record_living(&living.into_keys().collect());
        self.advance(revision);
    }

    /// Applies the changes of a revision, and notifies the clients that are interested in the keys; returns the number
    /// of the transaction, if it is one of this process.
    pub(super) fn apply(&mut self, step: RevisionChanges, now: Now) -> Option<u64> {
        if step.revision <= self.revision {
            return None;
        }
        let (mut changes, mut record, mut writer, mut dead) = (Vec::new(), None, None, None);
        let (mut flushes, mut libraries) = (None, None);
        for news in step.news {
            let name = match &news {
                ReportedChange::Put(pair) => self.prefix.parse(&pair.name),
                ReportedChange::Deleted(name) => self.prefix.parse(name),
            };
            match (name, news) {
                (Some(EtcdName::Key(key)), ReportedChange::Put(pair)) => changes.push((key, Some(pair))),
                (Some(EtcdName::Key(key)), ReportedChange::Deleted(_)) => changes.push((key, None)),
                (Some(EtcdName::Lane(process, _)), ReportedChange::Put(pair)) => {
                    writer = Some(process);
                    record = StoredRecord::decode(&pair.value[..]).inspect_err(|error| warn!("{error}")).ok();
                }
                (Some(EtcdName::Process(process)), ReportedChange::Deleted(_)) => dead = Some(process),
                (Some(EtcdName::Turn(process, key)), ReportedChange::Deleted(_)) => {
                    self.turns.remove(process, &key, now.mono_ms())
                }
                (Some(EtcdName::Flushes), ReportedChange::Put(pair)) => flushes = Some(pair),
                (Some(EtcdName::Libraries), ReportedChange::Put(pair)) => libraries = Some(pair),
                (Some(name), ReportedChange::Put(pair)) => self.follow(&name, &pair),
                _ => {}
            }
        }
        let record = record.unwrap_or_default();
        let is_own = self.is_own(writer);
        let origin = if is_own { Origin::Client(record.client) } else { Origin::HOST };
        let namespace = self.namespace.clone();
        // Clients that read several keys see all changes of a revision, or none.
        let is_alone = changes.len() > 1 || flushes.is_some() || libraries.is_some();
        let mut hold =
            if is_alone { GateGuard::from(namespace.store.exclusive()) } else { namespace.store.hold_patiently() };
        self.locks.announce(&record.losses, &namespace.store, (step.revision, now));
        if let Some(pair) = flushes {
            let delete_ms = if is_own { now.mono_ms() } else { now.ms_later(OTHERS_DELETE_MS) };
            self.flush(&mut hold, &pair, (Cx::new(now, origin), delete_ms));
        }
        libraries.iter().for_each(|pair| self.set_libraries(pair));
        let mut view = hold.view(0, &[], Cx::new(now, origin));
        for (key, pair) in changes {
            match pair {
                Some(pair) => self.put(&mut view, key, &pair, Learned { writer, skew_max_ms: None, now }),
                None => self.delete(&mut view, key),
            }
        }
        self.emit(&mut view, &record.events);
        drop(view);
        drop(hold);
        if let Some(process) = dead {
            self.nodes.remove(process, step.revision);
            self.locks.record_gone(process);
        }
        self.deliver(&record, now);
        self.revision = step.revision;
        self.locks.record_refusals(record.refusals);
        is_own.then_some(record.number)
    }

    fn is_own(&self, process: Option<u64>) -> bool {
        process.is_some_and(|process| process == self.locks.holders.process)
    }

    /// Applies a name that is no key.
    fn follow(&mut self, name: &EtcdName, pair: &NamedValue) {
        match name {
            EtcdName::Fence => {
                let base = std::str::from_utf8(&pair.value).ok().and_then(|base| base.parse().ok());
                self.locks.fence_base = (base.unwrap_or(0), pair.mod_revision);
            }
            EtcdName::Process(process) => self.nodes.put(*process, pair, self.namespace.clock.now()),
            EtcdName::Turn(process, key) => {
                let now_ms = self.namespace.clock.now().mono_ms();
                self.turns.add(*process, key.clone(), (pair.mod_revision, now_ms));
            }
            EtcdName::Libraries => self.set_libraries(pair),
            _ => {}
        }
    }

    /// Replaces the libraries of functions, while no script runs.
    fn set_libraries(&mut self, pair: &NamedValue) {
        let stored = StoredLibraries::decode(&pair.value[..]).inspect_err(|error| warn!("{error}")).unwrap_or_default();
        let libraries: Vec<_> = stored.libraries.into_iter().map(|library| (library.id, library.text)).collect();
        if let Err(error) = accept_libraries(&self.namespace, &libraries) {
            warn!("the libraries of functions: {}", String::from_utf8_lossy(&error.wire_text()));
            _ = accept_libraries(&self.namespace, &[]); // rather none than former ones
            self.libraries = UNKNOWN; // so that this process cannot change them
        } else {
            self.libraries = pair.mod_revision;
        }
    }

    /// Emits the events of calls that have changed nothing.
    pub(super) fn emit_alone(&mut self, events: &[StoredEvent], now: Now) {
        let namespace = self.namespace.clone();
        let mut hold = namespace.store.hold_patiently();
        self.emit(&mut hold.view(0, &[], Cx::new(now, Origin::HOST)), events);
    }

    fn emit(&mut self, view: &mut View<'_>, events: &[StoredEvent]) {
        for event in events {
            if let (Some(known), Ok(db)) = (self.events.get(event.class, &event.name), usize::try_from(event.db)) {
                view.emit_in(db, self.namespace.store.key(&event.key), known);
            }
        }
    }

    /// Empties databases that were emptied in the cluster: their keys are missing from then on, and are deleted from a time
    /// on, in monotonic milliseconds.
    fn flush(&mut self, hold: &mut GateGuard<'_>, pair: &NamedValue, (cx, delete_ms): (Cx, u64)) {
        let flushes = Flushes::of(pair);
        let cleared = flushes.since(&self.flushes);
        self.flushes = flushes;
        let namespace = self.namespace.clone();
        let store = &namespace.store;
        let queued = self.locks.clear(&cleared, &mut hold.view(0, &[], cx), store);
        match &cleared {
            Cleared::Nothing => {}
            Cleared::Databases(databases) => databases.iter().for_each(|db| hold.view(*db, &[], cx).clear(false)),
            Cleared::All => hold.view(0, &[], cx).clear(true),
        }
        for (key, known) in self.keys.iter_mut().filter(|(key, _)| cleared.has(key.0)) {
            (known.value_revision, known.ttls, known.element_due_ms) = (0, KeyTtls::default(), None);
            self.hidden.add(key.clone(), self.locks.has_queue(key));
        }
        self.hidden.delete_from(delete_ms);
        let mut view = hold.view(0, &[], cx);
        for key in queued {
            let state = LockState { queue: self.locks.state(&key).queue, ..LockState::default() };
            self.locks.adopt((&mut view, store), &key, (None, &KeyTtls::default(), state), cx.now);
        }
    }

    /// Sends the messages of a transaction to the subscribers of this process.
    fn deliver(&self, record: &StoredRecord, now: Now) {
        let config = self.namespace.settings.current();
        for message in &record.messages {
            let (hub, sent) =
                (&self.namespace.push.hub, Message { channel: &message.channel, payload: &message.payload });
            if message.is_sharded {
                hub.publish_to_shard(sent, &config, now);
            } else {
                hub.publish(sent, &config, now);
            }
        }
    }

    fn put(&mut self, view: &mut View<'_>, key: KeyName, pair: &NamedValue, learned: Learned) {
        let Learned { writer, skew_max_ms, now } = learned;
        let stored = self.decode(&key, pair);
        let ttls = match skew_max_ms {
            Some(skew_max_ms) => KeyTtls::found(&stored, skew_max_ms, now),
            None => KeyTtls::learned(&stored, self.keys.get(&key).map(|known| &known.ttls), now),
        };
        let (namespace, state) = (self.namespace.clone(), LockState::of(&stored, pair.mod_revision));
        let value_revision = if stored.value_revision == 0 { pair.mod_revision } else { stored.value_revision };
        let entry = self.read(&stored, &key, ttls.key);
        if entry.is_none() && stored.kind != ABSENT {
            warn!("the value of the key '{}' is damaged: it counts as missing", key.1.escape_ascii());
        }
        let element_deadline = entry.as_ref().and_then(nearest_deadline);
        let value = entry.as_ref().and_then(|entry| Some(entry.get::<Str>().ok()?.as_slice().to_vec()));
        if self.keys.get(&key).is_none_or(|known| known.value_revision != value_revision) {
            view.adopt(key.0, namespace.store.key(&key.1), entry, stored.fence);
        }
        let element_due_ms = element_deadline.map(|at_ms| Deadline::at_wall_ms(at_ms).mono_ms(now));
        let known = Known { mod_revision: pair.mod_revision, value_revision, ttls, element_due_ms };
        if let Some(due_ms) = known.due_ms().filter(|due_ms| self.due_ms(&key) != Some(*due_ms)) {
            // The process that has written the key deletes it first.
            let wait_ms = if self.is_own(writer) { 0 } else { OTHERS_WAIT_MS };
            self.due.push(Reverse((due_ms + wait_ms, key.clone())));
        }
        if self.is_flushed(&key, pair.mod_revision) {
            self.hidden.add(key.clone(), !state.queue.is_empty());
        } else {
            self.hidden.remove(&key);
        }
        self.locks.adopt((view, &namespace.store), &key, (value.as_deref(), &known.ttls, state), now);
        self.keys.insert(key, known);
        if self.due.len() > DUE_SPARE_MAX + 2 * self.keys.len() {
            self.forget_former_ttls();
        }
    }

    /// Removes void deadlines, whose TTLs were set again.
    fn forget_former_ttls(&mut self) {
        let due = |(key, known): (&KeyName, &Known)| Some(Reverse((known.due_ms()? + OTHERS_WAIT_MS, key.clone())));
        self.due = self.keys.iter().filter_map(due).collect();
    }

    fn read(&self, stored: &StoredKey, key: &KeyName, ttl: Option<CountedTtl>) -> Option<Entry> {
        let limits = self.namespace.settings.current().limits();
        decode(stored, &key.1, ttl.map(|ttl| ttl.deadline()), limits, self.namespace.store.hasher())
    }

    /// Reads the state of a key in the cluster; a damaged one counts as missing.
    fn decode(&self, key: &KeyName, pair: &NamedValue) -> StoredKey {
        let stored = StoredKey::decode(&pair.value[..]);
        let stored =
            stored.inspect_err(|error| warn!("the key '{}': {error}", key.1.escape_ascii())).unwrap_or_default();
        if self.is_flushed(key, pair.mod_revision) { StoredKey::absent(stored.queue) } else { stored }
    }

    fn delete(&mut self, view: &mut View<'_>, key: KeyName) {
        self.hidden.remove(&key);
        self.locks.forget(&key);
        view.adopt(key.0, self.namespace.store.key(&key.1), None, 0);
        self.keys.remove(&key);
    }

    /// Returns the state of a key in the cluster that the mirror does not have yet.
    pub(super) fn learn(&self, key: &KeyName, pair: &NamedValue) -> (StoredKey, KeyTtls) {
        let stored = self.decode(key, pair);
        let known = self.keys.get(key).map(|known| &known.ttls);
        let ttls = KeyTtls::learned(&stored, known, self.namespace.clock.now());
        (stored, ttls)
    }

    /// Returns a copy of a key that is not in the mirror yet.
    pub(super) fn copy_of(&self, key: &KeyName, mod_revision: Revision, value: Option<&(StoredKey, KeyTtls)>) -> Copy {
        let Some((stored, ttls)) = value else { return Copy { mod_revision, ..Copy::default() } };
        Copy {
            mod_revision,
            value_revision: if stored.value_revision == 0 { mod_revision } else { stored.value_revision },
            value: self.read(stored, key, ttls.key).map(|entry| (entry, stored.fence)),
            ttls: ttls.clone(),
            lock: LockState::of(stored, mod_revision),
            is_flushed: self.is_flushed(key, mod_revision),
        }
    }
}

/// Largest number of different events: several times as many as the commands of all versions cause.
const EVENTS_MAX: usize = 1024;

/// The events received so far, each kept for ever, like those of this process' commands.
#[derive(Default)]
pub(super) struct KnownEvents(HashMap<(u32, Box<str>), &'static Event>);

impl KnownEvents {
    /// Returns the event of a class with a name; `None` beyond the largest number.
    pub(super) fn get(&mut self, class: u32, name: &str) -> Option<&'static Event> {
        if let Some(known) = self.0.get(&(class, name.into())) {
            return Some(known);
        }
        if self.0.len() >= EVENTS_MAX {
            return None;
        }
        let class_of = Classes::from_bits(class);
        let event: &'static Event = Box::leak(Box::new(Event::one(class_of, Box::leak(name.into()))));
        self.0.insert((class, name.into()), event);
        Some(event)
    }
}
