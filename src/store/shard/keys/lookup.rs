//! Look-ups of keys, by which expired ones are deleted and uses are recorded.

use crate::store::changes::ChangeCx;
use crate::store::cx::{Cx, Lookup};
use crate::store::entry::Entry;
use crate::store::event;
use crate::store::key::Key;
use crate::store::shard::keys::{Keys, is_due, is_expired, record_use};
use crate::store::value::StringHint;
use crate::time::clock::Now;

impl Keys {
    /// Returns the entry of a key that has not expired; an expired one is deleted.
    #[inline(always)] // see View::lookup
    pub(crate) fn peek(&mut self, key: Key<'_>, cx: &mut ChangeCx<'_>) -> Option<&Entry> {
        let (place, entry) = self.table.locate(key.hash, key.bytes)?;
        if is_expired(entry, cx) {
            return self.delete_expired(key, cx);
        }
        self.table.at(place)
    }

    /// Returns the entry of a key like [`Keys::peek`], with the other effects of a look-up except counting it.
    #[inline(always)] // see View::lookup
    pub(crate) fn lookup(&mut self, key: Key<'_>, how: Lookup, cx: &mut ChangeCx<'_>) -> Option<&Entry> {
        let Some((place, entry)) = self.table.locate(key.hash, key.bytes) else {
            if how.reports_miss(cx.lookup) {
                self.emit(key, event::MISSED);
            }
            return None;
        };
        if is_expired(entry, cx) {
            self.delete_expired(key, cx);
            if how.reports_miss(cx.lookup) {
                self.emit(key, event::MISSED);
            }
            return None;
        }
        if how.is_use(cx.lookup) {
            record_use(entry, &self.memory_account, &mut self.dice, cx.now);
        }
        self.table.at(place)
    }

    /// Returns the entry of a key, including an expired one that is not deleted yet.
    pub(crate) fn find_undeleted(&self, key: Key<'_>) -> Option<&Entry> {
        self.table.find(key.hash, key.bytes)
    }

    /// Returns the entry of a key that has not expired; the look-up has no effects.
    pub(crate) fn unexpired(&self, key: Key<'_>, cx: &Cx) -> Option<&Entry> {
        self.find_undeleted(key).filter(|entry| !is_expired(entry, cx))
    }

    /// Returns the usage of a key with an LFU policy, for a write that does not count as a use.
    #[cold]
    pub(crate) fn counted_usage(&mut self, key: Key<'_>, cx: &mut ChangeCx<'_>) -> Option<u32> {
        let counts = self.memory_account.rule().counts();
        self.peek(key, cx).filter(|_| counts).map(Entry::usage)
    }

    /// Sets the usage of an existing key.
    pub(crate) fn set_usage(&mut self, key: Key<'_>, usage: u32) {
        if let Some(entry) = self.table.find(key.hash, key.bytes) {
            entry.set_usage(usage);
        }
    }

    /// Records the time of a change as the usage of the key, if the eviction policy needs it.
    pub(in crate::store::shard) fn record_time(&mut self, key: Key<'_>, now: Now) {
        if self.events.is_timed() {
            self.set_usage(key, self.memory_account.rule().fresh(now));
        }
    }

    /// Sets the hint about the encoding of a string. This is not a change, because the value stays the same.
    pub(crate) fn set_hint(&mut self, key: Key<'_>, hint: StringHint) {
        self.before_remark(key);
        if let Some(entry) = self.table.find_mut(key.hash, key.bytes) {
            entry.set_hint(hint);
        }
    }

    /// Deletes an expired key, unless that is disabled for now; returns `None` in either case.
    #[cold]
    pub(in crate::store::shard) fn delete_expired(&mut self, key: Key<'_>, cx: &mut ChangeCx<'_>) -> Option<&Entry> {
        if self.sweep_timer.frozen_until_ms(cx.now.mono_ms()).is_some() {
            return None;
        }
        if self.find_undeleted(key).is_some_and(|entry| is_due(entry, cx)) {
            self.expire(key, cx);
        } else {
            self.expire_fields_of(key, usize::MAX, cx);
        }
        None
    }

    /// Deletes an expired key; such a key is invisible, deleted or not.
    #[cold]
    pub(in crate::store) fn expire(&mut self, key: Key<'_>, cx: &mut ChangeCx<'_>) {
        cx.aside(|cx| self.delete(key, event::EXPIRED, cx));
        self.expired += 1;
    }
}
