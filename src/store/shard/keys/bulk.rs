//! The bulk version of the funnel: changes of all keys at once, and keys that are loaded from a file, which have no
//! watchers and are not logged.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::store::changes::ChangeCx;
use crate::store::cx::Removal;
use crate::store::entry::Entry;
use crate::store::key::Key;
use crate::store::reclaim::Contents;
use crate::store::shard::field_deadlines::{FieldDeadlines, nearest_deadline};
use crate::store::shard::keys::{Keys, is_expired};
use crate::store::table::Table;

impl Keys {
    /// The bulk version of the funnel: removes every key and returns the former contents.
    pub(crate) fn clear(&mut self, cx: &mut ChangeCx<'_>) -> Contents {
        self.before_all_change(Removal::Flushed, cx);
        let empty = Table::new(self.table.hasher().clone());
        let old = Contents {
            table: std::mem::replace(&mut self.table, empty),
            memory: std::mem::take(&mut self.memory),
            deadlines: std::mem::take(&mut self.deadlines),
            field_deadlines: self.fields.as_mut().map(|fields| fields.take_bounds()),
            fences: self.interests.take_fences(),
            walk: self.walk.take(),
        };
        self.changes += old.keys() as u64;
        self.with_ttl = 0;
        self.report();
        self.all_changed(&old.table, Removal::Flushed, cx);
        self.unfinished -= 1;
        old
    }

    /// The bulk version of the funnel: swaps all keys with the keys of another shard. Watchers stay with their
    /// databases.
    pub(crate) fn swap(&mut self, other: &mut Keys, cx: &mut ChangeCx<'_>) {
        self.before_all_change(Removal::Swapped, cx);
        other.before_all_change(Removal::Swapped, cx);
        std::mem::swap(&mut self.table, &mut other.table);
        std::mem::swap(&mut self.deadlines, &mut other.deadlines);
        FieldDeadlines::swap(&mut self.fields, &mut other.fields);
        std::mem::swap(&mut self.walk, &mut other.walk);
        std::mem::swap(&mut self.wall_offset_ms, &mut other.wall_offset_ms);
        std::mem::swap(&mut self.with_ttl, &mut other.with_ttl);
        std::mem::swap(&mut self.memory, &mut other.memory);
        std::mem::swap(&mut self.reported_memory, &mut other.reported_memory);
        std::mem::swap(&mut self.reported, &mut other.reported);
        self.sidecars_on_swap(other);
        self.all_changed(&other.table, Removal::Swapped, cx);
        other.all_changed(&self.table, Removal::Swapped, cx);
        self.delete_expired_watched(cx);
        other.delete_expired_watched(cx);
        self.unfinished -= 1;
        other.unfinished -= 1;
    }

    /// Begins the change of all keys, by which locks are lost. A walk of a snapshot stays with the keys.
    fn before_all_change(&mut self, cause: Removal, cx: &mut ChangeCx<'_>) {
        self.unfinished += 1;
        self.sidecars_before_bulk_change(cause, cx);
        cx.changes_mut().add();
        if self.events.is_logged() {
            cx.record_all(self.events.record_pool());
        }
    }

    /// Handles the change of all keys: the keys of `old`, and the present keys. An expired key from elsewhere is no
    /// change for its watchers: for them it was missing before and is missing now.
    fn all_changed(&mut self, old: &Table<Entry>, cause: Removal, cx: &mut ChangeCx<'_>) {
        let Keys { table, interests, .. } = &*self;
        let has_changed = |key: &Key<'_>| {
            let appears = || table.find(key.hash, key.bytes).is_some_and(|entry| !is_expired(entry, cx));
            old.find(key.hash, key.bytes).is_some() || appears()
        };
        let changed = interests.keys().filter(has_changed).map(|key| (key.hash, Box::from(key.bytes)));
        let changed: Vec<(u64, Box<[u8]>)> = changed.collect();
        for (hash, bytes) in &changed {
            let key = Key { bytes, hash: *hash };
            self.sidecars_on_bulk_change(key, cause, cx);
        }
    }

    /// Deletes watched keys that had expired in the other shard, without raising the flags of their watchers.
    fn delete_expired_watched(&mut self, cx: &mut ChangeCx<'_>) {
        let expired = |key: &Key<'_>| self.find_undeleted(*key).is_some_and(|entry| is_expired(entry, cx));
        let keys: Vec<(u64, Box<[u8]>)> =
            self.interests.keys().filter(expired).map(|key| (key.hash, key.bytes.into())).collect();
        if keys.is_empty() {
            return;
        }
        let interests = self.interests.take_all();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for (hash, bytes) in &keys {
                self.peek(Key { bytes, hash: *hash }, cx);
            }
        }));
        self.interests.put_back(interests);
        outcome.unwrap_or_else(|panic| resume_unwind(panic));
    }

    /// Adds a key from a file, with its fence; returns its name if it existed already.
    pub(crate) fn load(&mut self, key: Key<'_>, entry: Entry, fence: i64, cx: &mut ChangeCx<'_>) -> Option<Box<[u8]>> {
        self.unfinished += 1;
        let is_there = self.find_undeleted(key).is_some();
        if is_there {
            self.displace(key, cx);
        }
        let (of, nearest) = (entry.kind(), nearest_deadline(&entry));
        self.attach(key, entry, cx);
        self.record_fields(key, of, false, nearest, cx);
        match fence {
            0 => self.sidecars_forget_value(key), // a retired fence
            fence => self.set_fence(key, fence),
        }
        self.unfinished -= 1;
        is_there.then(|| key.bytes.into())
    }
}
