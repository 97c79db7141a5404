//! Keyspace events: the names of changes, and the sink that passes them on.
//!
//! An event is data, declared beside the rows of the commands that cause it; the store itself defines only the events
//! that no command causes: new keys, key misses, expired and evicted keys. Every change of a key passes
//! `Keys::changed`, which emits its event while the shard is locked, so that the order of events is the order of
//! changes.
//!
//! Invariant: without a subscriber, an event costs one load of a word of the [`EventSink`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::store::change_records::{ChangeRecords, RecordPool};
use crate::store::cx::{Cx, Origin, Removal};
use crate::store::lock::{HeldLock, LostLock};
use crate::store::side_record::SideRecord;

/// A set of classes of events, and of the two kinds of channels that events are published to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes(u32);

impl Classes {
    /// The letters of the classes, in the order of the bits, which is the order in which `notify-keyspace-events` is
    /// printed.
    pub const LETTERS: &'static [u8] = b"g$lshzxetdnocKEm";
    /// Number of classes that the letter `A` stands for: the first ones.
    pub const ALL_COUNT: usize = 10;
    /// The bits of `n`, `o` and `c`.
    const NOT_PRINTED_WITH_ALL: u32 = 0b111 << Self::ALL_COUNT;
    /// Changes of keys of any type.
    pub const GENERIC: Classes = Classes(1);
    /// Changes of strings.
    pub const STRING: Classes = Classes(1 << 1);
    /// Changes of lists.
    pub const LIST: Classes = Classes(1 << 2);
    /// Changes of sets.
    pub const SET: Classes = Classes(1 << 3);
    /// Changes of hashes.
    pub const HASH: Classes = Classes(1 << 4);
    /// Changes of sorted sets.
    pub const ZSET: Classes = Classes(1 << 5);
    /// Keys that have expired.
    pub const EXPIRED: Classes = Classes(1 << 6);
    /// Keys that were evicted.
    pub const EVICTED: Classes = Classes(1 << 7);
    /// Changes of streams.
    pub const STREAM: Classes = Classes(1 << 8);
    /// Changes of module types.
    pub const MODULE: Classes = Classes(1 << 9);
    /// Keys that did not exist before.
    pub const NEW: Classes = Classes(1 << 10);
    /// Values that were replaced as a whole.
    pub const OVERWRITTEN: Classes = Classes(1 << 11);
    /// Values that were replaced by one of another type.
    pub const TYPE_CHANGED: Classes = Classes(1 << 12);
    /// Flag beside the classes: events are published to keyspace channels.
    pub const KEYSPACE: Classes = Classes(1 << 13);
    /// Flag beside the classes: events are published to keyevent channels.
    pub const KEYEVENT: Classes = Classes(1 << 14);
    /// Missing keys that a client tried to read.
    pub const MISSED: Classes = Classes(1 << 15);

    /// All classes of events, without the flags of the channels.
    pub(crate) const EVENTS: Classes = Classes(!(Self::KEYSPACE.0 | Self::KEYEVENT.0) & ((1 << 16) - 1));

    /// Returns the bits of the set.
    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    /// Returns the set with these bits; unknown bits are ignored.
    pub(crate) fn from_bits(bits: u32) -> Self {
        Classes(bits & ((1 << 16) - 1))
    }

    /// Parses letters, all of which are known; `A` stands for the first ten classes.
    pub fn from_letters(text: &[u8]) -> Self {
        let bit = |letter: &u8| match Self::LETTERS.iter().position(|known| known == letter) {
            Some(at) => 1 << at,
            None => (1 << Self::ALL_COUNT) - 1,
        };
        Classes(text.iter().map(bit).fold(0, |bits, bit| bits | bit))
    }

    /// Formats the letters as Redis does. If the letter `A` is printed, `n`, `o` and `c` are not, even if they are set.
    pub fn to_letters(self) -> Vec<u8> {
        let all = (1 << Self::ALL_COUNT) - 1;
        let (abbreviated, rest): (&[u8], _) = if self.0 & all == all {
            (b"A", Classes(self.0 & !all & !Self::NOT_PRINTED_WITH_ALL))
        } else {
            (b"", self)
        };
        let letters = (0..).zip(Self::LETTERS).filter(|(at, _)| rest.0 >> at & 1 != 0).map(|(_, letter)| *letter);
        abbreviated.iter().copied().chain(letters).collect()
    }

    /// Returns true if any of the others is in this set.
    pub fn has_any(self, others: Classes) -> bool {
        self.0 & others.0 != 0
    }
}

/// The names of a change: one event, two in a row, or none. Declared as a constant and passed by reference, so that an
/// event costs nothing without a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Names, each with its class; an unused name has no class.
    names: [(Classes, &'static str); 2],
    /// Set if setting a string with this event replaces the value, which emits a further event.
    replaces: bool,
    /// Set if the event is a deletion that is logged on its own, because no call logs it.
    is_record: bool,
    part: ChangedPart,
}

/// Part of a key that an event changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangedPart {
    /// The value, or the whole key.
    Value,
    /// Only the deadline.
    Deadline,
    /// The state beside the key: value and deadline only follow from it.
    Beside,
}

/// Filler for an unused name.
const UNNAMED: (Classes, &str) = (Classes(0), "");

/// A key did not exist before; emitted before the event of the command that creates it.
pub(super) const NEW: &Event = &Event::one(Classes::NEW, "new");
/// A value was replaced; emitted in addition to the event of the command.
pub(super) const OVERWRITTEN: &Event = &Event::one(Classes::OVERWRITTEN, "overwritten");
/// A value was replaced by one of another type.
pub(super) const RETYPED: &Event =
    &Event::one(Classes::OVERWRITTEN, "overwritten").then(Classes::TYPE_CHANGED, "type_changed");
/// A client tried to read a missing key.
pub(super) const MISSED: &Event = &Event::one(Classes::MISSED, "keymiss");
/// A key has expired.
pub(super) const EXPIRED: &Event = &Event::one(Classes::EXPIRED, "expired").recorded();
/// Fields of a hash have expired; each field is logged when it is removed.
pub(super) const FIELDS_EXPIRED: &Event = &Event::one(Classes::HASH, "hexpired");
/// Members of a set have expired; each of them is logged when it is removed.
pub(super) const MEMBERS_EXPIRED: &Event = &Event::one(Classes::SET, "sexpired");
/// A key was deleted by something that no call logs: the end of a session, or a MIGRATE.
pub(super) const RELEASED: &Event = &Event::one(Classes::GENERIC, "del").recorded();
/// A key was evicted.
pub(super) const EVICTED: &Event = &Event::one(Classes::EVICTED, "evicted").recorded();

impl Event {
    /// A change without an event: part of a larger one, or one that Redis does not publish.
    pub const NONE: &'static Event =
        &Event { names: [UNNAMED; 2], replaces: false, is_record: false, part: ChangedPart::Value };
    /// A key was deleted: by a command, or because its value has become empty.
    pub const DEL: &'static Event = &Event::one(Classes::GENERIC, "del");

    /// Creates an event with one name.
    pub const fn one(class: Classes, name: &'static str) -> Self {
        Event { names: [(class, name), UNNAMED], replaces: false, is_record: false, part: ChangedPart::Value }
    }

    /// Adds a second name, which is published after the first.
    pub const fn then(self, class: Classes, name: &'static str) -> Self {
        Event { names: [self.names[0], (class, name)], ..self }
    }

    /// Declares that setting a string with this event replaces the value, instead of changing it.
    pub const fn replacing(self) -> Self {
        Event { replaces: true, ..self }
    }

    /// Declares that only the deadline changes.
    pub(crate) const fn of_deadline(self) -> Self {
        Event { part: ChangedPart::Deadline, ..self }
    }

    /// Declares that the change follows from a change of the state beside the key.
    pub(crate) const fn of_sidecar(self) -> Self {
        Event { part: ChangedPart::Beside, ..self }
    }

    /// Returns the part of the key that changes.
    pub(super) fn part(&self) -> ChangedPart {
        self.part
    }

    /// Returns true if setting a string with this event replaces the value.
    pub(super) fn replaces(&self) -> bool {
        self.replaces
    }

    /// Declares that the event is a deletion which no call logs.
    const fn recorded(self) -> Self {
        Event { is_record: true, ..self }
    }

    /// Returns the cause of the removal of a key that is missing after this event.
    pub(super) fn removal(&self) -> Removal {
        match self.names[0].0 {
            Classes::EXPIRED => Removal::Expired,
            Classes::EVICTED => Removal::Evicted,
            _ => Removal::Deleted,
        }
    }

    /// Returns the origin of the event in a call of `caller`: expiry and eviction are origins of their own.
    fn origin(&self, caller: Origin) -> Origin {
        match self.names[0].0 {
            Classes::EXPIRED => Origin::Expiry,
            Classes::EVICTED => Origin::Eviction,
            _ => caller,
        }
    }
}

/// Observer of changes of keys. It is called while shards are locked, so it must not read keys or block.
pub trait KeyspaceObserver: Send + Sync {
    /// Publishes an event of a class that has subscribers: the number of the database, the key, and the event's name.
    fn on_event(&self, db: usize, key: &[u8], event: &'static str, class: Classes);

    /// Handles a change of a key, with its origin, during a call of `caller`.
    fn on_change(&self, key: &[u8], origin: Origin, caller: Origin);

    /// Handles the deletion of all keys of a database, or of all.
    fn on_flush(&self);

    /// Handles the loss of a lock, which its holder has not released.
    fn on_lost_lock(&self, lost: &LostLock<'_>);
}

/// Log of the deletions that no command causes, so that a replay of the log repeats them, and of the names of all
/// changed keys.
pub trait ChangeLog: Send + Sync {
    /// Logs the deletion of a key that has expired, was evicted, or was deleted by a command that is not logged itself.
    /// The key's shard is locked.
    fn append_removal(&self, db: usize, key: &[u8]);

    /// Logs the deadline of a key, in milliseconds since 1970, or its absence, where no call has changed it. The key's
    /// shard is locked.
    fn append_deadline(&self, db: usize, key: &[u8], unix_ms: Option<i64>);

    /// Logs the state beside a key, where no call has changed it. The key's shard is locked.
    fn append_side_record(&self, db: usize, record: SideRecord<'_>);

    /// Logs a message to the subscribers of a channel, for replicas alone.
    fn append_message(&self, channel: &[u8], payload: &[u8]);

    /// Logs the removal of an expired field of a hash, or member of a set, as a command on the key. The key's shard is
    /// locked.
    fn append_field_removal(&self, db: usize, removal: [&[u8]; 3]);

    /// Notes the change of a key. The key's shard is locked.
    fn record_change(&self, db: usize, key: &[u8]);

    /// Notes that any keys of a database, or of all databases, may have changed. The whole store is locked.
    fn record_all(&self, db: Option<usize>);

    /// Notes the present state of the lock of a key; `None` if the key is not a lock.
    fn record_lock(&self, db: usize, key: &[u8], lock: Option<HeldLock<'_>>);
}

/// An observer and log that does nothing.
pub(super) struct NullObserver;

impl KeyspaceObserver for NullObserver {
    fn on_event(&self, _: usize, _: &[u8], _: &'static str, _: Classes) {}

    fn on_change(&self, _: &[u8], _: Origin, _: Origin) {}

    fn on_flush(&self) {}

    fn on_lost_lock(&self, _: &LostLock<'_>) {}
}

impl ChangeLog for NullObserver {
    fn append_removal(&self, _: usize, _: &[u8]) {}

    fn append_deadline(&self, _: usize, _: &[u8], _: Option<i64>) {}

    fn append_side_record(&self, _: usize, _: SideRecord<'_>) {}

    fn append_message(&self, _: &[u8], _: &[u8]) {}

    fn append_field_removal(&self, _: usize, _: [&[u8]; 3]) {}

    fn record_change(&self, _: usize, _: &[u8]) {}

    fn record_all(&self, _: Option<usize>) {}

    fn record_lock(&self, _: usize, _: &[u8], _: Option<HeldLock<'_>>) {}
}

/// Flag beside the classes: the observer gets every change.
const CHANGES: u32 = 1 << 31;
/// Flag beside the classes: deletions that no command causes are logged.
const LOG: u32 = 1 << 30;
/// Flag beside the classes: a snapshot walks over the keys, and is given each key that changes before the walk reaches
/// it.
const WALKED: u32 = 1 << 29;
/// Flag beside the classes: the time of each change is recorded in the entry of its key.
const TIMED: u32 = 1 << 28;

/// Passes the events of the subscribed classes on to the observer. Shared by a store and its shards.
pub struct EventSink {
    subscribed: AtomicU32,
    observer: Box<dyn KeyspaceObserver>,
    log: Arc<dyn ChangeLog>,
    interrupted: Mutex<Option<ChangeRecords>>,
    record_pool: RecordPool,
    /// Hash of the key whose next changes panic half-way, for tests; 0 for none.
    #[cfg(feature = "internals")]
    armed: std::sync::atomic::AtomicU64,
    /// Hash of the key whose next creation panics, once.
    #[cfg(feature = "internals")]
    armed_once: std::sync::atomic::AtomicU64,
}

impl EventSink {
    /// Creates a sink without subscribed classes and without a log.
    pub fn new(observer: impl KeyspaceObserver + 'static, log: Arc<dyn ChangeLog>) -> Self {
        EventSink {
            subscribed: AtomicU32::new(0),
            observer: Box::new(observer),
            log,
            interrupted: Mutex::default(),
            record_pool: RecordPool::default(),
            #[cfg(feature = "internals")]
            armed: Default::default(),
            #[cfg(feature = "internals")]
            armed_once: Default::default(),
        }
    }

    /// Creates a sink without observer and log.
    pub(super) fn silent() -> Self {
        EventSink::new(NullObserver, Arc::new(NullObserver))
    }

    /// Subscribes to the events of these classes and no others.
    pub fn set_classes(&self, classes: Classes) {
        // Never fails, because the closure always returns a value.
        let _ = self.subscribed.fetch_update(Relaxed, Relaxed, |subscribed| {
            Some(subscribed & (CHANGES | LOG | WALKED | TIMED) | classes.0)
        });
    }

    /// Sets or clears the flag that the observer gets every change, whatever its event.
    pub fn set_tracked(&self, is_tracked: bool) {
        self.choose(CHANGES, is_tracked);
    }

    /// Sets or clears the flag that deletions which no command causes are logged.
    pub(super) fn set_logged(&self, is_logged: bool) {
        self.choose(LOG, is_logged);
    }

    /// Sets or clears the flag that the time of each change is recorded.
    pub(super) fn set_timed(&self, is_timed: bool) {
        self.choose(TIMED, is_timed);
    }

    fn choose(&self, bit: u32, is_set: bool) {
        if is_set {
            self.subscribed.fetch_or(bit, Relaxed)
        } else {
            self.subscribed.fetch_and(!bit, Relaxed)
        };
    }

    /// Makes changes of the key with this hash panic half-way from now on; of no key with 0.
    #[cfg(feature = "internals")]
    pub fn arm(&self, hash: u64) {
        self.armed.store(hash, Relaxed);
    }

    /// Makes the next creation of the key with this hash panic.
    #[cfg(feature = "internals")]
    pub fn arm_once(&self, hash: u64) {
        self.armed_once.store(hash, Relaxed);
    }

    /// Marks a point where a key is created, see [`EventSink::pass_half_way`].
    #[inline(always)]
    pub(super) fn pass_creation(&self, hash: u64) {
        #[cfg(feature = "internals")]
        if self.armed_once.compare_exchange(hash, 0, Relaxed, Relaxed).is_ok() {
            panic!("injected by DEBUG INJECT-PANIC");
        }
        self.pass_half_way(hash);
    }

    /// Marks a point where the change of a key is half done: tests make it panic here.
    #[inline(always)]
    pub(super) fn pass_half_way(&self, _hash: u64) {
        #[cfg(feature = "internals")]
        if self.armed.load(Relaxed) == _hash {
            panic!("injected by DEBUG INJECT-PANIC");
        }
    }

    /// Returns true if the observer has subscribed to anything.
    #[inline]
    pub(super) fn is_observed(&self) -> bool {
        self.subscribed.load(Relaxed) != 0
    }

    /// Emits a change of a key, and its event.
    #[cold]
    pub(super) fn emit_change(&self, db: usize, key: &[u8], event: &'static Event, cx: &Cx) {
        let (subscribed, origin) = (self.subscribed.load(Relaxed), event.origin(cx.origin));
        if subscribed & CHANGES != 0 {
            self.observer.on_change(key, origin, cx.origin);
        }
        self.emit_names(db, key, event);
    }

    /// Returns true if changes are logged.
    #[inline]
    pub(super) fn is_logged(&self) -> bool {
        self.subscribed.load(Relaxed) & LOG != 0
    }

    /// Returns true if a snapshot walks over the keys.
    #[inline]
    pub(super) fn is_walked(&self) -> bool {
        self.subscribed.load(Relaxed) & WALKED != 0
    }

    /// Returns true if the time of each change is recorded.
    #[inline]
    pub(super) fn is_timed(&self) -> bool {
        self.subscribed.load(Relaxed) & TIMED != 0
    }

    /// Sets or clears the flag that a snapshot walks over the keys.
    pub(super) fn set_walked(&self, is_walked: bool) {
        self.choose(WALKED, is_walked);
    }

    /// Logs a change of a key if its event is a record; notes the key's name in any case.
    pub(super) fn log_change(&self, db: usize, key: &[u8], event: &'static Event) {
        if event.is_record {
            self.log.append_removal(db, key);
        }
        self.log.record_change(db, key);
    }

    /// Remembers the changes of calls that have panicked, and so will not log them.
    #[cold]
    pub(super) fn interrupt(&self, changed: &ChangeRecords) {
        if !changed.is_empty() {
            self.interrupted.lock().get_or_insert_default().append(changed);
        }
    }

    /// Returns the pool for the records of calls.
    #[inline]
    pub(super) fn record_pool(&self) -> &RecordPool {
        &self.record_pool
    }

    /// Takes the changes of calls that have panicked.
    pub(super) fn take_interrupted(&self) -> Option<ChangeRecords> {
        self.interrupted.lock().take()
    }

    /// Logs the deletion of a key, if there is a log.
    pub(super) fn log_removal(&self, db: usize, key: &[u8]) {
        if self.subscribed.load(Relaxed) & LOG != 0 {
            self.log.append_removal(db, key);
        }
    }

    /// Logs the deadline of a key, in milliseconds since 1970, or its absence, if there is a log.
    pub(super) fn log_deadline(&self, db: usize, key: &[u8], unix_ms: Option<i64>) {
        if self.is_logged() {
            self.log.append_deadline(db, key, unix_ms);
        }
    }

    /// Logs the state beside a key.
    pub(super) fn log_side_record(&self, db: usize, record: SideRecord<'_>) {
        self.log.append_side_record(db, record);
    }

    /// Logs a message to the subscribers of a channel, for replicas alone, if there is a log.
    pub(super) fn log_message(&self, channel: &[u8], payload: &[u8]) {
        if self.is_logged() {
            self.log.append_message(channel, payload);
        }
    }

    /// Logs the removal of an expired field, as a command on a key, if there is a log.
    pub(super) fn log_field_removal(&self, db: usize, removal: [&[u8]; 3]) {
        if self.subscribed.load(Relaxed) & LOG != 0 {
            self.log.append_field_removal(db, removal);
        }
    }

    /// Notes that any keys of a database, or of all databases, may have changed, if there is a log.
    pub(super) fn record_all(&self, db: Option<usize>) {
        if self.subscribed.load(Relaxed) & LOG != 0 {
            self.log.record_all(db);
        }
    }

    /// Notes the present state of the lock of a key, or that the key is not a lock.
    pub(super) fn record_lock(&self, db: usize, key: &[u8], lock: Option<HeldLock<'_>>) {
        self.log.record_lock(db, key, lock);
    }

    /// Emits an event that is not a change itself.
    #[inline]
    pub(super) fn emit(&self, db: usize, key: &[u8], event: &'static Event) {
        if self.is_observed() {
            self.emit_names(db, key, event);
        }
    }

    /// Announces the loss of a lock, which its holder has not released.
    pub(crate) fn emit_lost_lock(&self, lost: &LostLock<'_>) {
        self.observer.on_lost_lock(lost);
    }

    /// Emits the deletion of all keys of a database, or of all databases.
    pub(super) fn emit_flush(&self) {
        if self.subscribed.load(Relaxed) & CHANGES != 0 {
            self.observer.on_flush();
        }
    }

    #[cold]
    fn emit_names(&self, db: usize, key: &[u8], event: &'static Event) {
        let subscribed = Classes(self.subscribed.load(Relaxed));
        for (class, name) in event.names.iter().filter(|(class, _)| subscribed.has_any(*class)) {
            self.observer.on_event(db, key, name, *class);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_printed_in_a_fixed_order_and_all_of_them_as_one() {
        for (given, printed) in [
            ("", ""),
            ("xKE", "xKE"),
            ("mEK$g", "g$KEm"),
            ("nKA", "AK"),
            ("dtexzhsl$gn", "A"),
            ("mEcKon", "nocKEm"),
            ("cKoA", "AK"),
        ] {
            let letters = Classes::from_letters(given.as_bytes()).to_letters();
            assert_eq!(String::from_utf8_lossy(&letters), printed, "{given}");
        }
    }

    #[test]
    fn a_class_that_is_not_printed_is_subscribed_to_all_the_same() {
        assert!(Classes::from_letters(b"AnKE").has_any(Classes::NEW));
        assert!(!Classes::from_letters(b"AKE").has_any(Classes::NEW));
    }

    #[test]
    fn only_what_a_client_does_has_the_client_for_its_origin() {
        let caller = Origin::Client(7);
        assert_eq!(Event::one(Classes::STRING, "set").then(Classes::GENERIC, "expire").origin(caller), caller);
        assert_eq!((EXPIRED.origin(caller), EVICTED.origin(caller)), (Origin::Expiry, Origin::Eviction));
        assert_eq!(Event::NONE.origin(Origin::Replay), Origin::Replay);
    }
}
