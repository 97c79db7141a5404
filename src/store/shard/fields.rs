//! The deadlines of fields of hashes and of members of sets, all called fields here: an index beside the index of keys'
//! deadlines, and the removal of expired fields.
//!
//! The index is a second tournament tree over the buckets of the shard's table: a lower bound of the nearest deadline
//! of any field of the hashes and sets in a bucket. A hash or a set knows its nearest deadline itself, packed or not. So
//! the path of keys does not know of fields, nor does eviction by TTL, and a shard without them pays for one pointer.
//!
//! Invariants: a bound may be too early, never too late; `hashes` and `sets` are the numbers of those in the table with a
//! deadline on a field. Both are maintained by the funnel: after an edit, when an entry comes or goes, and when a bucket is
//! split or merged. Deadlines of fields are wall-clock times, so these bounds need no correction when the wall clock is
//! set.

use crate::store::changes::ChangeCx;
use crate::store::cx::Cx;
use crate::store::entry::Entry;
use crate::store::event;
use crate::store::event::Event;
use crate::store::expire::NEVER;
use crate::store::key::Key;
use crate::store::shard::Keys;
use crate::store::shard::field_deadlines::{FieldDeadlines, nearest_deadline, remove_expired, wall_ms};
use crate::store::shard::keys::is_due;
use crate::store::value::Type;
use crate::time::clock::Deadline;

impl Keys {
    /// Records the change of a value's field deadlines: `had_any` before, and the nearest deadline after it.
    #[inline]
    pub(super) fn record_fields(&mut self, key: Key<'_>, of: Type, had_any: bool, nearest: Option<i64>, cx: &Cx) {
        if had_any || nearest.is_some() {
            self.record_field_deadline(key, of, had_any, nearest, cx);
        }
    }

    #[cold]
    fn record_field_deadline(&mut self, key: Key<'_>, of: Type, had_any: bool, nearest: Option<i64>, cx: &Cx) {
        let bucket = self.table().bucket_of(key.hash);
        let fields = self.fields.get_or_insert_default();
        let count = fields.count_mut(of);
        *count = *count + usize::from(nearest.is_some()) - usize::from(had_any);
        if let (Some(at_ms), Some(bucket)) = (nearest, bucket) {
            fields.bounds.lower(bucket, at_ms.unsigned_abs());
            self.sweep_timer.lower(Deadline::at_wall_ms(at_ms).mono_ms(cx.now));
        }
    }

    /// Records the removal of an entry, and of the buckets that were merged then.
    #[cold]
    pub(super) fn forget_fields(&mut self, entry: &Entry, merged: Option<(usize, usize)>) {
        let Some(fields) = &mut self.fields else { return };
        *fields.count_mut(entry.kind()) -= usize::from(nearest_deadline(entry).is_some());
        if let Some((from, into)) = merged {
            fields.inherit_bound(from, into);
            fields.bounds.set(from, NEVER);
        }
    }

    /// Records that the value of a key, if there is one, is about to be overwritten by a string.
    #[cold]
    pub(super) fn forget_overwritten(&mut self, key: Key<'_>) {
        let overwritten = self.table().find(key.hash, key.bytes).filter(|entry| nearest_deadline(entry).is_some());
        if let (Some(of), Some(fields)) = (overwritten.map(Entry::kind), &mut self.fields) {
            *fields.count_mut(of) -= 1;
        }
    }

    /// Removes the expired fields of a hash or a set, so that the call that follows does not find them. If expired fields have
    /// to stay, a reader does not see them ([`VisibleHash`](crate::store::value::VisibleHash),
    /// [`seen_by`](crate::store::value::SetRef::seen_by)), but for a call that
    /// `writes` they are removed all the same: only a replica that clients may write to executes such a call, and it
    /// logs nothing of its own.
    #[inline]
    pub(crate) fn expire_fields(&mut self, key: Key<'_>, writes: bool, cx: &mut ChangeCx<'_>) {
        let is_due = |fields: &FieldDeadlines| fields.bounds.earliest() <= wall_ms(cx.now);
        if self.fields.as_ref().is_some_and(|fields| is_due(fields)) && (writes || !self.keeps_expired(cx)) {
            self.remove_expired_fields(key, usize::MAX, cx);
        }
    }

    fn keeps_expired(&self, cx: &Cx) -> bool {
        self.sweep_timer.keeps_elements(cx.now.mono_ms())
    }

    /// Removes up to `max` expired fields of a key, unless they have to stay; returns their number.
    #[cold]
    pub(in crate::store) fn expire_fields_of(&mut self, key: Key<'_>, max: usize, cx: &mut ChangeCx<'_>) -> usize {
        if self.keeps_expired(cx) { 0 } else { self.remove_expired_fields(key, max, cx) }
    }

    /// The funnel: removes up to `max` expired fields of a key; returns their number. Each of them is logged as HDEL or
    /// SREM, and a key that becomes empty is deleted, as in a replay of these commands.
    #[cold]
    fn remove_expired_fields(&mut self, key: Key<'_>, max: usize, cx: &mut ChangeCx<'_>) -> usize {
        let may_expire = |entry: &&Entry| !is_due(entry, cx) && nearest_deadline(entry).is_some();
        if !cx.expires_keys() || self.find_undeleted(key).filter(may_expire).is_none() {
            return 0;
        }
        cx.aside(|cx| self.take_expired_fields(key, max, cx))
    }

    fn take_expired_fields(&mut self, key: Key<'_>, max: usize, cx: &mut ChangeCx<'_>) -> usize {
        self.unfinished += 1;
        let Some(entry) = self.lend(key, cx) else { return 0 };
        let (of, before) = (entry.kind(), entry.memory());
        let expired = remove_expired(entry, cx.now.wall_ms(), max);
        let growth = entry.memory() as isize - before as isize;
        let (nearest, is_empty) = (nearest_deadline(entry), entry.is_empty());
        self.record_fields(key, of, true, nearest, cx);
        if expired.is_empty() {
            self.unfinished -= 1;
            return 0;
        }
        self.events.pass_half_way(key.hash);
        self.resized(growth);
        if let Some(fields) = &mut self.fields {
            fields.expired += expired.len() as u64;
        }
        let (command, event) = match of {
            Type::Set => (&b"SREM"[..], event::MEMBERS_EXPIRED),
            _ => (&b"HDEL"[..], event::FIELDS_EXPIRED),
        };
        expired.iter().for_each(|field| self.events.log_field_removal(self.db(), [command, key.bytes, field]));
        if is_empty && let Some(emptied) = self.detach(key, cx) {
            self.reclaimer.free(emptied);
        }
        self.changed(key, event, 1, cx);
        if is_empty {
            self.emit(key, Event::DEL);
        }
        self.unfinished -= 1;
        expired.len()
    }
}
