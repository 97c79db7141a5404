//! Mirroring a cluster: keys are set to their state in the cluster. For calls that declare no keys.

use crate::store::entry::Entry;
use crate::store::event::Event;
use crate::store::key::{Key, shard_of};
use crate::store::view::View;

impl View<'_> {
    /// Sets a key of any database to its entry and fence in the cluster, or removes it. It is no lock afterwards, and
    /// has no queue. The key's events are emitted separately, by [`View::emit_in`].
    pub(crate) fn adopt(&mut self, db: usize, key: Key<'_>, entry: Option<Entry>, fence: i64) {
        self.locks().adopt(db, key, None, []);
        let View { access, cx, .. } = self;
        access.with_shard(Some(db), shard_of(key.hash), |shard| match entry {
            Some(entry) => {
                shard.keys.replace(key, entry, false, Event::NONE, 1, cx);
                shard.keys.set_fence(key, fence);
            }
            None => _ = shard.keys.delete(key, Event::NONE, cx),
        });
    }

    /// Deletes a key that has expired, or its fields or members that have.
    pub(crate) fn expire(&mut self, key: Key<'_>) {
        if self.exists(key) {
            self.expire_fields(key, true);
        }
    }

    /// Emits an event of a key of any database.
    pub(crate) fn emit_in(&mut self, db: usize, key: Key<'_>, event: &'static Event) {
        self.access.with_shard(Some(db), shard_of(key.hash), |shard| shard.keys.emit(key, event));
    }

    /// Returns a copy of a key of any database, with its fence.
    pub(crate) fn copy_of(&mut self, db: usize, key: Key<'_>) -> Option<(Entry, i64)> {
        self.access.with_shard(Some(db), shard_of(key.hash), |shard| {
            let entry = shard.keys.find_undeleted(key)?.copy(key.bytes);
            Some((entry, shard.keys.fence(key)))
        })
    }
}
