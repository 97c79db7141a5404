//! Mirroring a cluster: keys are set to their state in the cluster. For calls that declare no keys.

use crate::store::entry::Entry;
use crate::store::event::Event;
use crate::store::key::{Key, shard_of};
use crate::store::lock::{LockRecord, LockWaiter};
use crate::store::view::View;

impl View<'_> {
    /// Sets a key of any database to its entry and fence in the cluster, or removes it. It is no lock afterwards, and
    /// has no queue. The key's events are emitted separately, by [`View::emit_in`].
    pub(crate) fn adopt(&mut self, db: usize, key: Key<'_>, entry: Option<Entry>, fence: i64) {
        self.adopt_lock(db, key, None, []);
        let View { access, cx, .. } = self;
        access.with_shard(Some(db), shard_of(key.hash), |shard| match entry {
            Some(entry) => {
                shard.keys.replace(key, entry, false, Event::NONE, 1, cx);
                shard.keys.set_fence(key, fence);
            }
            None => _ = shard.keys.delete(key, Event::NONE, cx),
        });
    }

    /// Gives a key of any database its lock in the cluster, with the queue for it, or no lock.
    pub(crate) fn adopt_lock(
        &mut self,
        db: usize,
        key: Key<'_>,
        record: Option<LockRecord>,
        queue: impl IntoIterator<Item = LockWaiter>,
    ) {
        let View { access, cx, .. } = self;
        access.with_shard(Some(db), shard_of(key.hash), |shard| {
            shard.keys.adopt_lock(key, record, cx);
            shard.keys.set_lock_queue(key, queue);
        });
    }

    /// Removes all clients from the queue for a lock of any database.
    pub(crate) fn clear_lock_queue(&mut self, db: usize, key: Key<'_>) {
        self.access.with_shard(Some(db), shard_of(key.hash), |shard| shard.keys.set_lock_queue(key, []));
    }

    /// Emits an event of a key of any database.
    pub(crate) fn emit_in(&mut self, db: usize, key: Key<'_>, event: &'static Event) {
        self.access.with_shard(Some(db), shard_of(key.hash), |shard| shard.keys.emit(key, event));
    }

    /// Calls `look` with the record of the exclusive lock of a key of any database, if it is one.
    pub(crate) fn look_at_lock<T>(
        &mut self,
        db: usize,
        key: Key<'_>,
        look: impl FnOnce(&LockRecord) -> T,
    ) -> Option<T> {
        self.access.with_shard(Some(db), shard_of(key.hash), |shard| shard.keys.lock(key).map(look))
    }

    /// Returns a copy of a key of any database, with its fence.
    pub(crate) fn copy_of(&mut self, db: usize, key: Key<'_>) -> Option<(Entry, i64)> {
        self.access.with_shard(Some(db), shard_of(key.hash), |shard| {
            let entry = shard.keys.find_undeleted(key)?.copy(key.bytes);
            Some((entry, shard.keys.fence(key)))
        })
    }
}
