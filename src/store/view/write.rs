//! Changes of keys by handlers: setting, editing, moving and deleting.

use bytes::Bytes;
use smallvec::SmallVec;

use crate::store::cx::{Lookup, Removal};
use crate::store::entry::Entry;
use crate::store::event::Event;
use crate::store::fences::Retired;
use crate::store::key::{Key, SHARDS, shard_of};
use crate::store::shard::Edit;
use crate::store::value::{DataType, SHARED_MIN, Str, StringHint, Type, Value, WrongType};
use crate::store::view::{Ttl, View};
use crate::time::clock::Deadline;

impl<'a> View<'a> {
    /// Opens the value of a key to change it in place, or to create it; the look-up is a use of the key.
    ///
    /// # Errors
    /// [`WrongType`] when the key holds something else.
    #[inline(always)] // a guard is long, as a view is
    pub fn edit<'v, K: DataType>(
        &'v mut self,
        key: Key<'v>,
        event: &'static Event,
    ) -> Result<Edit<'v, 'a, K>, WrongType> {
        let (keys, cx) = self.keys(key);
        keys.open(key, event, cx)
    }

    /// Removes the expired fields of a hash, or members of a set; for the start of a call that reads it, or `writes` to it.
    #[inline]
    pub(crate) fn expire_fields(&mut self, key: Key<'_>, writes: bool) {
        let (keys, cx) = self.keys(key);
        keys.expire_fields(key, writes, cx);
    }

    /// Sets the usage of a key.
    pub fn set_usage(&mut self, key: Key<'_>, usage: u32) {
        self.keys(key).0.set_usage(key, usage);
    }

    /// Sets the hint about the encoding of a string; it is not a change, because the value stays the same.
    pub fn set_hint(&mut self, key: Key<'_>, hint: StringHint) {
        self.keys(key).0.set_hint(key, hint);
    }

    /// Sets a key to a string, replacing any value, without a copy of long shared bytes; `event` names the change.
    pub fn set<'v>(&mut self, key: Key<'_>, value: impl Into<Str<'v>>, ttl: Ttl, event: &'static Event) {
        self.set_text(key, value.into(), ttl, event);
    }

    fn set_text(&mut self, key: Key<'_>, value: Str<'_>, ttl: Ttl, event: &'static Event) {
        let deadline = self.deadline_after(key, ttl);
        if Lookup::WRITE.is_use(self.cx.lookup) {
            let (keys, cx) = self.keys(key);
            keys.set_text(key, value, deadline, event, cx);
        } else {
            self.set_without_use(key, value, deadline, event);
        }
        if deadline.is_some_and(|deadline| self.cx.has_expired(deadline)) {
            self.exists(key); // deletes the key if the new deadline has passed
        }
    }

    /// Returns the deadline of a key after a write.
    #[inline(always)] // as it was in each of the two callers
    fn deadline_after(&mut self, key: Key<'_>, ttl: Ttl) -> Option<Deadline> {
        match ttl {
            Ttl::Clear => None,
            Ttl::At(deadline) => Some(deadline),
            Ttl::Keep => self.deadline(key).flatten(),
        }
    }

    /// Sets a key without counting this as a use of it.
    #[cold]
    fn set_without_use(&mut self, key: Key<'_>, value: Str<'_>, deadline: Option<Deadline>, event: &'static Event) {
        let (keys, cx) = self.keys(key);
        let before = keys.counted_usage(key, cx);
        keys.set_text(key, value, deadline, event, cx);
        if let Some(usage) = before {
            keys.set_usage(key, usage);
        }
    }

    /// Sets a key to a string that the caller has created; a long one is taken over without a copy. Its hint is
    /// [`StringHint::Raw`].
    pub fn set_bytes(&mut self, key: Key<'_>, value: Bytes, ttl: Ttl, event: &'static Event) {
        if value.len() < SHARED_MIN {
            self.set(key, &value[..], ttl, event);
            return self.set_hint(key, StringHint::Raw);
        }
        let deadline = self.deadline_after(key, ttl);
        let is_new = !self.exists(key); // a look-up deletes an expired key, so that it counts as new
        let entry = Entry::boxed(key.bytes, Type::String, Box::new(Value::Text(value.into())), deadline);
        let (keys, cx) = self.keys(key);
        if let Some(before) = keys.observed_type(key, cx).filter(|_| event.replaces()) {
            keys.emit_overwritten(key, before == Type::String);
        }
        if is_new || event.replaces() {
            keys.replace(key, entry, is_new, event, 1, cx);
        } else {
            keys.rebuild(key, entry, event, cx);
        }
        self.exists(key); // deletes the key if the new deadline has passed
    }

    /// Sets or removes the deadline of an existing key.
    pub fn set_deadline(&mut self, key: Key<'_>, deadline: Option<Deadline>, event: &'static Event) {
        let (keys, cx) = self.keys(key);
        keys.set_deadline(key, deadline, event, cx);
    }

    /// Reserves space for `keys` keys in the empty shards of a database. For views without declared keys.
    pub(crate) fn reserve(&mut self, db: usize, keys: usize) {
        for shard in 0..SHARDS {
            self.access.with_shard(Some(db), shard, |shard| shard.keys.reserve(keys / SHARDS));
        }
    }

    /// Adds a key from a file, with its fence, in a database; returns its name if it existed already and was replaced.
    /// For views without declared keys.
    pub(crate) fn load(&mut self, db: usize, hash: u64, entry: Entry, fence: i64) -> Option<Box<[u8]>> {
        let bytes: SmallVec<[u8; 64]> = entry.key().into();
        let View { access, cx, .. } = self;
        let key = Key { bytes: &bytes, hash };
        access.with_shard(Some(db), shard_of(hash), |shard| shard.keys.load(key, entry, fence, cx))
    }

    /// Adds the retired fence of a key that an earlier process has removed from a database. For views without declared
    /// keys.
    pub(crate) fn load_retired_fence(&mut self, db: usize, key: Key<'_>, retired: Retired) {
        let View { access, cx, .. } = self;
        access.with_shard(Some(db), shard_of(key.hash), |shard| shard.keys.load_retired_fence(key, retired, cx));
    }

    /// Deletes a key; returns true if it existed.
    #[inline]
    pub fn remove(&mut self, key: Key<'_>) -> bool {
        let (keys, cx) = self.keys(key);
        keys.delete_existing(key, Event::DEL, cx)
    }

    /// Deletes a key, including an expired one that is not deleted yet; returns true if it was there.
    pub fn discard(&mut self, key: Key<'_>) -> bool {
        let (keys, cx) = self.keys(key);
        keys.delete(key, Event::DEL, cx)
    }

    /// Removes a key and returns its entry; `event` names the change.
    pub fn take(&mut self, key: Key<'_>, event: &'static Event) -> Option<Entry> {
        if !self.exists(key) {
            return None;
        }
        let (keys, cx) = self.keys(key);
        keys.remove(key, event, cx)
    }

    /// Removes a key that gets another name or database, and returns its entry. The event is emitted later.
    pub(crate) fn take_for_move(&mut self, key: Key<'_>, cause: Removal) -> Option<Entry> {
        if !self.exists(key) {
            return None;
        }
        let (keys, cx) = self.keys(key);
        keys.sidecars_on_removal(key, cause, cx);
        keys.remove(key, Event::NONE, cx)
    }

    /// Sets the entry of a key, replacing an existing one; `key` is the entry's key, and counts as new in any case.
    pub fn put(&mut self, key: Key<'_>, entry: Entry, event: &'static Event) {
        if let Some(is_same_type) = self.put_untold(key, entry, event) {
            self.keys(key).0.emit_overwritten(key, is_same_type);
        }
    }

    /// Sets the entry of a key without the event that a value was replaced. If there was a value and there is an
    /// observer, returns true if the types are the same.
    fn put_untold(&mut self, key: Key<'_>, entry: Entry, event: &'static Event) -> Option<bool> {
        let (keys, cx) = self.keys(key);
        let (before, after) = (keys.observed_type(key, cx), entry.kind());
        keys.replace(key, entry, true, event, 1, cx);
        before.map(|before| before == after)
    }

    /// Sets the entry of a key, replacing any value. The key counts as new only if it was missing, and the whole call
    /// as `count` changes.
    pub(crate) fn overwrite(&mut self, key: Key<'_>, entry: Entry, event: &'static Event, count: u64) {
        let is_new = !self.exists(key); // a look-up deletes an expired key, so that it counts as new
        let (keys, cx) = self.keys(key);
        if let Some(before) = keys.observed_type(key, cx) {
            keys.emit_overwritten(key, before == entry.kind());
        }
        keys.replace(key, entry, is_new, event, count, cx);
    }

    /// Sets the entry of an existing key to one with the same value.
    pub(crate) fn renew(&mut self, key: Key<'_>, entry: Entry) {
        let (keys, cx) = self.keys(key);
        keys.rebuild(key, entry, Event::NONE, cx);
    }

    /// Emits an event in addition to a change, or an event that summarises several unnamed ones.
    #[inline]
    pub fn emit(&mut self, key: Key<'_>, event: &'static Event) {
        self.keys(key).0.emit(key, event);
    }

    /// Moves a value, with its deadline, from one key to another, overwriting it; returns true if there was a value.
    /// The events, of the old name and of the new, are emitted when both keys have changed.
    pub fn rename(&mut self, (from, to): (Key<'_>, Key<'_>), events: [&'static Event; 2]) -> bool {
        let Some(entry) = self.take_for_move(from, Removal::Renamed) else { return false };
        self.exists(to); // a look-up deletes an expired key, so that it counts as new
        let overwritten = self.put_untold(to, entry.with_key(to.bytes), Event::NONE);
        self.emit(from, events[0]);
        self.emit(to, events[1]);
        if let Some(is_same_type) = overwritten {
            self.keys(to).0.emit_overwritten(to, is_same_type);
        }
        true
    }
}
