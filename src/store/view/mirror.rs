//! A store that mirrors a cluster: its keys become what they are there.

use crate::store::entry::Entry;
use crate::store::event::Event;
use crate::store::key::{Key, shard_of};
use crate::store::view::View;

impl View<'_> {
    /// Sets a key of any database to what it is in the cluster, with its fence, or removes it. Its events are emitted
    /// separately, by [`View::emit_in`]. For calls that declare no keys.
    pub(crate) fn adopt(&mut self, db: usize, key: Key<'_>, entry: Option<Entry>, fence: i64) {
        let View { access, cx, .. } = self;
        access.with_shard(Some(db), shard_of(key.hash), |shard| match entry {
            Some(entry) => {
                shard.keys.replace(key, entry, false, Event::NONE, 1, cx);
                shard.keys.set_fence(key, fence);
            }
            None => _ = shard.keys.delete(key, Event::NONE, cx),
        });
    }

    /// Emits an event of a key of any database. For calls that declare no keys.
    pub(crate) fn emit_in(&mut self, db: usize, key: Key<'_>, event: &'static Event) {
        self.access.with_shard(Some(db), shard_of(key.hash), |shard| shard.keys.emit(key, event));
    }

    /// Returns a copy of a key of any database, with its fence. For calls that declare no keys.
    pub(crate) fn copy_of(&mut self, db: usize, key: Key<'_>) -> Option<(Entry, i64)> {
        self.access.with_shard(Some(db), shard_of(key.hash), |shard| {
            let entry = shard.keys.find_undeleted(key)?.copy(key.bytes);
            Some((entry, shard.keys.fence(key)))
        })
    }
}
