//! The deadlines of fields of hashes: an index of their own beside that of keys, and the removal of expired fields.
//!
//! The index is a second tournament tree over the buckets of the shard's table: a lower bound of the nearest deadline
//! of any field of the hashes in a bucket. A hash knows its nearest deadline itself, packed or not. So the path of keys
//! does not know of fields, eviction by TTL neither, and a shard without such a hash pays for one pointer.
//!
//! Invariants: a bound may be too early, never too late; `hashes` is the number of hashes in the table one of whose
//! fields has a deadline. Both are kept by the funnel: after an edit, where an entry comes or goes, and where a bucket
//! is split or merged. Deadlines of fields are wall-clock times, so these bounds need no correction when that is set.

use crate::memory::heap::allocation_len;
use crate::store::cx::Cx;
use crate::store::entry::Entry;
use crate::store::event;
use crate::store::event::Event;
use crate::store::expire::{DeadlineTree, NEVER};
use crate::store::shard::{Key, Shard, is_expired};
use crate::store::sweep::{Care, STEPPED_OVER_MS};
use crate::store::value::{Hash, Kind, Type};
use crate::time::clock::{Deadline, Now};

/// How many fields of a hash the sweep removes at once at least: they are one event, as they are in Redis.
const FIELDS_AT_ONCE: usize = 64;

/// The deadlines of fields in a shard.
#[derive(Default)]
pub(super) struct FieldDeadlines {
    /// Bounds in milliseconds since 1970.
    bounds: DeadlineTree,
    /// Hashes with a field that has a deadline.
    pub(super) hashes: usize,
    /// Fields that have expired since the store was created.
    pub(super) expired: u64,
    /// Of `expired`, those that the sweeper removed.
    pub(super) swept: u64,
}

impl FieldDeadlines {
    /// Forgets all deadlines, because the table has become empty; returns their bounds.
    pub(super) fn take_bounds(&mut self) -> DeadlineTree {
        self.hashes = 0;
        std::mem::take(&mut self.bounds)
    }

    /// Returns the bytes allocated.
    pub(super) fn memory(&self) -> usize {
        allocation_len(size_of::<Self>()) + self.bounds.memory()
    }

    /// After entries moved between buckets, the receiving bucket gets the bound of the giving one.
    pub(super) fn inherit_bound(&mut self, from: usize, to: usize) {
        if self.bounds.bound(from) != NEVER {
            self.bounds.lower(to, self.bounds.bound(from));
        }
    }
}

/// Returns a lower bound of the deadlines of an entry's fields.
#[inline]
pub(super) fn nearest_deadline(entry: &Entry) -> Option<i64> {
    if entry.is_of(Type::Hash) { Hash::nearest_deadline(entry) } else { None }
}

fn wall_ms(now: Now) -> u64 {
    u64::try_from(now.wall_ms()).unwrap_or(0)
}

impl Shard {
    /// Records that a value has had deadlines of fields or not, and the nearest one that it has now.
    #[inline]
    pub(super) fn note_fields(&mut self, key: Key<'_>, had_any: bool, nearest: Option<i64>, cx: &Cx) {
        if had_any || nearest.is_some() {
            self.note_field_deadline(key, had_any, nearest, cx);
        }
    }

    #[cold]
    fn note_field_deadline(&mut self, key: Key<'_>, had_any: bool, nearest: Option<i64>, cx: &Cx) {
        let fields = self.fields.get_or_insert_default();
        fields.hashes = fields.hashes + usize::from(nearest.is_some()) - usize::from(had_any);
        if let (Some(at_ms), Some(bucket)) = (nearest, self.table.bucket_of(key.hash)) {
            fields.bounds.lower(bucket, at_ms.unsigned_abs());
            self.sweep_timer.lower(Deadline::at_wall_ms(at_ms).mono_ms(cx.now));
        }
    }

    /// Records that an entry has gone, and the buckets that were merged then.
    #[cold]
    pub(super) fn forget_fields(&mut self, entry: &Entry, merged: Option<(usize, usize)>) {
        let Some(fields) = &mut self.fields else { return };
        fields.hashes -= usize::from(nearest_deadline(entry).is_some());
        if let Some((from, into)) = merged {
            fields.inherit_bound(from, into);
            fields.bounds.set(from, NEVER);
        }
    }

    /// Records that the value of a key, if it has one, is about to be overwritten by a string.
    #[cold]
    pub(super) fn forget_overwritten(&mut self, key: Key<'_>) {
        let had_any = self.table.find(key.hash, key.bytes).is_some_and(|entry| nearest_deadline(entry).is_some());
        self.fields.iter_mut().for_each(|fields| fields.hashes -= usize::from(had_any));
    }

    /// Removes the expired fields of a hash, so that a call that follows does not find them.
    #[inline]
    pub(crate) fn expire_fields(&mut self, key: Key<'_>, cx: &Cx) {
        let is_due = |fields: &FieldDeadlines| fields.bounds.earliest() <= wall_ms(cx.now);
        if self.fields.as_ref().is_some_and(|fields| is_due(fields)) {
            self.expire_fields_of(key, usize::MAX, cx);
        }
    }

    /// The funnel: removes up to `most` expired fields of a hash; returns how many. Each of them is logged as HDEL, and
    /// a hash that becomes empty is deleted, as it is in a replay of these.
    #[cold]
    fn expire_fields_of(&mut self, key: Key<'_>, most: usize, cx: &Cx) -> usize {
        let is_frozen = self.sweep_timer.frozen_until_ms(cx.now.mono_ms()).is_some();
        let Some(entry) = self.table.find_mut(key.hash, key.bytes) else { return 0 };
        if is_frozen || !cx.expires_keys() || is_expired(entry, cx) || nearest_deadline(entry).is_none() {
            return 0;
        }
        self.unfinished += 1;
        let before = entry.memory();
        let expired = Hash::write(entry).remove_expired(cx.now.wall_ms(), most);
        let growth = entry.memory() as isize - before as isize;
        let (nearest, is_empty) = (nearest_deadline(entry), Hash::is_empty(entry));
        self.note_fields(key, true, nearest, cx);
        if expired.is_empty() {
            self.unfinished -= 1;
            return 0;
        }
        self.events.pass_half_way(key.hash);
        self.resized(growth);
        self.fields.iter_mut().for_each(|fields| fields.expired += expired.len() as u64);
        expired.iter().for_each(|field| self.events.log_field_removal(self.db(), key.bytes, field));
        if is_empty && let Some(emptied) = self.detach(key) {
            self.reclaimer.free(emptied);
        }
        self.changed(key, event::FIELDS_EXPIRED, cx);
        if is_empty {
            self.emit(key, Event::DEL);
        }
        self.unfinished -= 1;
        expired.len()
    }

    /// Removes up to `most` expired fields. Returns when the next one may expire, in monotonic milliseconds; a time in
    /// the past when more have expired already.
    pub(in crate::store) fn sweep_fields(&mut self, most: usize, cx: &Cx, care: Care<'_>) -> u64 {
        let (now_ms, mut left) = (wall_ms(cx.now), most);
        while left > 0
            && let Some(fields) = &mut self.fields
            && let Some(bucket) = fields.bounds.due(now_ms)
        {
            let (mut due, mut bound) = (Vec::new(), NEVER);
            self.table.for_each_in(bucket, |entry| match nearest_deadline(entry) {
                Some(at_ms) if at_ms.unsigned_abs() <= now_ms => due.push(entry.key().to_vec()),
                Some(at_ms) => bound = bound.min(at_ms.unsigned_abs()),
                None => {}
            });
            fields.bounds.set(bucket, bound);
            for bytes in &due {
                let most = left.max(FIELDS_AT_ONCE);
                let key = self.key(bytes);
                let removed = self.guard(care, cx, key, |shard| shard.expire_fields_of(key, most, cx));
                let removed = removed.unwrap_or_else(|| self.step_over_fields(bytes, now_ms));
                left = left.saturating_sub(removed.max(1));
                self.fields.iter_mut().for_each(|fields| fields.swept += removed as u64);
            }
        }
        match self.fields.as_ref().map(|fields| fields.bounds.earliest()) {
            None | Some(NEVER) => NEVER,
            Some(at_ms) => Deadline::at_wall_ms(i64::try_from(at_ms).unwrap_or(i64::MAX)).mono_ms(cx.now),
        }
    }

    /// Leaves the fields that are due in the bucket of a key for later, like [`Shard::step_over`]; returns 0.
    fn step_over_fields(&mut self, bytes: &[u8], now_ms: u64) -> usize {
        let Some(bucket) = self.table.bucket_of(self.key(bytes).hash) else { return 0 };
        let mut bound = NEVER;
        self.table.for_each_in(bucket, |entry| {
            let due_ms = nearest_deadline(entry).map_or(NEVER, i64::unsigned_abs);
            bound = bound.min(if due_ms <= now_ms { now_ms + STEPPED_OVER_MS } else { due_ms });
        });
        self.fields.iter_mut().for_each(|fields| fields.bounds.set(bucket, bound));
        0
    }
}
