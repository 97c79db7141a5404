//! Locks and fences; see [`store::lock`](crate::store::lock) and [`store::fences`](crate::store::fences).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::store::entry::Entry;
use crate::store::event::Event;
use crate::store::key::{Key, SHARDS, shard_of};
use crate::store::lock::{
    self, HeldLock, Holder, Holders, LockHolder, LockImage, LockMode, LockRecord, LockWaiter, LossReason, SeenLock,
    Sharing, shard_at,
};
use crate::store::view::{Ttl, View};
use crate::time::clock::Deadline;

/// A lock in a cluster, which a key is given.
pub(crate) enum AdoptedLock {
    Exclusive(LockRecord),
    /// A shared lock or a semaphore.
    Shared(Holders),
}

/// Access to the locks among the keys of a view.
pub(crate) struct Locks<'v, 'a>(&'v mut View<'a>);

impl<'a> View<'a> {
    /// Returns access to the locks among the keys.
    pub(crate) fn locks(&mut self) -> Locks<'_, 'a> {
        Locks(self)
    }
}

impl<'v> Locks<'v, '_> {
    /// Returns the record of the holder of an exclusive lock.
    pub(crate) fn record(self, key: Key<'_>) -> Option<&'v LockRecord> {
        self.0.keys(key).0.lock(key)
    }

    /// Returns the holders of a shared lock or a semaphore.
    pub(crate) fn holders(self, key: Key<'_>) -> Option<&'v Holders> {
        let (keys, cx) = self.0.keys(key);
        keys.end_due_holders(key, cx);
        keys.holders(key)
    }

    /// Changes, adds or removes the holders of a shared lock or a semaphore; the key's deadline follows.
    pub(crate) fn change_holders<T>(&mut self, key: Key<'_>, change: impl FnOnce(&mut Option<Box<Holders>>) -> T) -> T {
        let (keys, cx) = self.0.keys(key);
        let result = keys.change_holders(key, cx, change);
        keys.follow_holders(key, cx);
        result
    }

    /// Sets the size of a semaphore.
    pub(crate) fn resize(&mut self, key: Key<'_>, size: u32, event: &'static Event) {
        let (keys, cx) = self.0.keys(key);
        keys.change_holders(key, cx, |holders| holders.iter_mut().for_each(|holders| holders.resize(size)));
        self.0.set(key, &Sharing::Permits { size }.value(), Ttl::Keep, event);
        self.mark_ready(key);
    }

    /// Returns the clients queued for more permits than a semaphore has, if it has become smaller since the last call.
    pub(crate) fn take_excessive(&mut self, key: Key<'_>) -> Vec<LockWaiter> {
        let (keys, cx) = self.0.keys(key);
        let Some((size, _)) = keys.holders(key).filter(|holders| holders.is_reduced()).and_then(Holders::permits)
        else {
            return Vec::new();
        };
        keys.change_holders(key, cx, |holders| holders.iter_mut().for_each(|holders| holders.forget_reduction()));
        let is_excessive =
            |waiter: &&LockWaiter| matches!(waiter.mode, LockMode::Permits { count, .. } if count > size);
        keys.lock_queue(key).into_iter().flatten().filter(is_excessive).copied().collect()
    }

    /// Returns the clients queued for several locks whose token holds this lock already.
    pub(crate) fn queued_holders(&mut self, key: Key<'_>) -> Vec<LockWaiter> {
        self.0.keys(key).0.queued_holders(key)
    }

    /// Returns true if clients are queued for the lock that ask for other locks at the same time.
    pub(crate) fn has_queued_for_several(&mut self, key: Key<'_>) -> bool {
        self.0.keys(key).0.has_queued_for_several(key)
    }

    /// Returns the clients queued for a lock of any database that ask for other locks at the same time; for calls that
    /// need the whole store.
    pub(crate) fn queued_for_several(&mut self, db: usize, key: Key<'_>) -> Vec<u64> {
        let queued = self.0.access.with_shard(Some(db), shard_of(key.hash), |shard| shard.keys.queued_for_several(key));
        queued.into_iter().map(|waiter| waiter.client).collect()
    }

    /// Marks a lock as ready: its queued clients are served at the end of the call, if possible then.
    pub(crate) fn mark_ready(&mut self, key: Key<'_>) {
        self.0.keys(key).0.mark_lock_ready(key);
    }

    /// Changes the record of the holder with this token, if there is one, of a lock of any database; for calls that
    /// declare no keys.
    pub(crate) fn change_held(&mut self, db: usize, key: Key<'_>, token: &[u8], change: impl FnOnce(&mut LockRecord)) {
        let View { access, cx, .. } = &mut *self.0;
        access.with_any(db, key, |shard| {
            shard.keys.peek(key, cx);
            shard.keys.end_due_holders(key, cx);
            shard.keys.change_held(key, token, cx, change);
        });
    }

    /// Removes a client that was served from the queue for a lock, by the number of its wait.
    pub(crate) fn leave_queue(&mut self, key: Key<'_>, number: u64) {
        self.0.keys(key).0.leave_queue(key, number);
    }

    /// Ends one of several holders, by its number: with a loss that is announced, or because it has released the lock.
    pub(crate) fn end_holder(&mut self, key: Key<'_>, number: u64, loss: Option<LossReason>) -> Option<Holder> {
        let (keys, cx) = self.0.keys(key);
        keys.end_holder(key, number, loss, cx)
    }

    /// Calls `look` with the known holders of a lock of any database, and its deadline, unless it has expired; for
    /// calls that need the whole store, calls that declare no keys, and calls that have locked this key.
    pub(crate) fn inspect<T>(
        &mut self,
        db: usize,
        key: Key<'_>,
        look: impl FnOnce(HeldLock<'_>, Option<Deadline>) -> T,
    ) -> Option<T> {
        let View { access, cx, .. } = &mut *self.0;
        let mut seen = None;
        access.with_any(db, key, |shard| {
            let deadline = shard.keys.peek(key, cx).and_then(Entry::deadline); // an expired key is deleted
            shard.keys.end_due_holders(key, cx);
            seen = shard.keys.held_lock(key).map(|held| look(held, deadline));
        });
        seen
    }

    /// Changes, adds or removes the record of the holder of an exclusive lock.
    pub(crate) fn change<T>(&mut self, key: Key<'_>, change: impl FnOnce(&mut Option<LockRecord>) -> T) -> T {
        let (keys, cx) = self.0.keys(key);
        keys.change_lock(key, cx, change)
    }

    /// Ends a lock that its holder releases; the caller must delete the key afterwards.
    pub(crate) fn end(&mut self, key: Key<'_>) -> Option<LockRecord> {
        let (keys, cx) = self.0.keys(key);
        keys.end_lock(key, cx)
    }

    /// Ends a lock with several holders that becomes another one; the caller must change the key's value afterwards.
    pub(crate) fn end_shared(&mut self, key: Key<'_>) -> Vec<Holder> {
        let (keys, cx) = self.0.keys(key);
        keys.take_holders(key, cx)
    }

    /// Ends a lock that its holder has not released, if the key is a lock, and announces the loss.
    pub(crate) fn lose(&mut self, key: Key<'_>, loss: LossReason) {
        let (keys, cx) = self.0.keys(key);
        keys.lose_lock(key, loss, cx);
    }

    /// Releases a lock of any database as far as it is bound to a closed connection; for calls that declare no keys.
    pub(crate) fn end_of_session(&mut self, db: usize, key: Key<'_>, client: u64) {
        let View { access, cx, .. } = &mut *self.0;
        access.with_any(db, key, |shard| shard.keys.end_session_lock(key, client, cx));
    }

    /// Releases a lock of any database that a client has acquired without being told; `acquired` is the client's id and
    /// the earliest time of the acquisition, in monotonic microseconds. For calls that declare no keys.
    pub(crate) fn take_back(&mut self, db: usize, key: Key<'_>, token: &[u8], acquired: (u64, u64)) {
        let View { access, cx, .. } = &mut *self.0;
        access.with_any(db, key, |shard| shard.keys.return_lock(key, token, acquired, cx));
    }

    /// Reserves the position of a disconnected client in the queue for a lock of any database; for calls that declare
    /// no keys.
    pub(crate) fn leave_for_now(&mut self, db: usize, key: Key<'_>, number: u64) {
        self.0.access.with_any(db, key, |shard| shard.keys.leave_for_now(key, number));
    }

    /// Adds a client to the queue for a lock, at its reserved position if there is one with its number. It is served
    /// when it can have the lock.
    pub(crate) fn join_queue(&mut self, key: Key<'_>, waiter: LockWaiter) {
        self.0.keys(key).0.join_queue(key, waiter);
    }

    /// Puts a client that was served back into the queue for a lock of any database, at its former position. It is
    /// served if the lock is free. For calls that declare no keys.
    pub(crate) fn rejoin_queue(&mut self, db: usize, key: Key<'_>, waiter: LockWaiter) {
        self.0.access.with_any(db, key, |shard| {
            shard.keys.join_queue(key, waiter);
            shard.keys.mark_lock_ready(key);
        });
    }

    /// Returns the queue for a lock, unless it is empty.
    pub(crate) fn queue(self, key: Key<'_>) -> Option<&'v VecDeque<LockWaiter>> {
        self.0.keys(key).0.lock_queue(key)
    }

    /// Returns the queue for a lock of any database; for calls that need the whole store, and calls that declare no
    /// keys.
    pub(crate) fn queue_in(&mut self, db: usize, key: Key<'_>) -> Vec<LockWaiter> {
        self.0.access.with_shard(Some(db), shard_of(key.hash), |shard| {
            shard.keys.lock_queue(key).map_or_else(Vec::new, |queue| queue.iter().copied().collect())
        })
    }

    /// Deletes the expired keys that have a queue, in all databases, and ends holders whose time is over; for calls
    /// declared EXCLUSIVE.
    pub(crate) fn expire_awaited(&mut self) {
        let View { access, cx, .. } = &mut *self.0;
        access.whole().0.each_shard_mut(|shard| shard.keys.expire_awaited_locks(cx));
    }

    /// Returns the fence of a key; 0 if there is none.
    pub(crate) fn fence(&mut self, key: Key<'_>) -> i64 {
        self.0.keys(key).0.fence(key)
    }

    /// Returns the fence of a key, or its retired fence while it is remembered; 0 if there is none.
    pub(crate) fn fence_or_memory(&mut self, key: Key<'_>) -> i64 {
        let (keys, cx) = self.0.keys(key);
        keys.fence_or_memory(key, cx)
    }

    /// Sets the fence of an existing key; 0 is none.
    pub(crate) fn set_fence(&mut self, key: Key<'_>, fence: i64) {
        self.0.keys(key).0.set_fence(key, fence);
    }

    /// Moves the deadlines of a lock's holders by `by_ms` milliseconds; for calls that need the whole store.
    pub(crate) fn move_holders(&mut self, key: Key<'_>, by_ms: i64) {
        let (keys, cx) = self.0.keys(key);
        keys.change_holders(key, cx, |holders| holders.iter_mut().for_each(|holders| holders.move_all(by_ms)));
        keys.follow_holders(key, cx);
    }

    /// Returns the text of a lock of any database, if the key is a lock, and is locked by this view or no keys are
    /// declared.
    pub(crate) fn text(&mut self, db: usize, key: Key<'_>) -> Option<Vec<u8>> {
        let View { access, cx, .. } = &mut *self.0;
        let (mut text, now) = (None, cx.now);
        if access.covers(&[key.hash]) || access.is_open() {
            access.with_any(db, key, |shard| text = shard.keys.held_lock(key).map(|lock| lock::encode(lock, now)));
        }
        text
    }

    /// Returns the locks of this database with several holders, each with its text; for calls that declare no keys.
    pub(crate) fn texts_of_shared(&mut self) -> Vec<(Box<[u8]>, Vec<u8>)> {
        let (mut texts, now) = (Vec::new(), self.0.cx.now);
        self.for_each(|lock, _| {
            if let Some(held @ HeldLock::Shared(_)) = lock.held {
                texts.push((lock.key.bytes.into(), lock::encode(held, now)));
            }
        });
        texts
    }

    /// Restores the lock of a key of any database from a text, if the key has its value, and returns its largest
    /// fencing token; `former` returns the stand-in holder for the clients of a user. For calls that need the whole
    /// store, and calls that declare no keys.
    pub(crate) fn adopt_text(
        &mut self,
        db: usize,
        key: Key<'_>,
        text: &[u8],
        former: impl Fn(&[u8]) -> Arc<dyn LockHolder>,
    ) -> Option<i64> {
        let image = lock::decode(text, self.0.cx.now, former)?;
        self.restore(db, key, &image, |_| true);
        Some(image.last_fence())
    }

    /// Restores the lock of a key of any database from an image; returns true if all holders were restored. The caller
    /// logs the lock if it is to be logged. For calls that need the whole store, and calls that declare no keys.
    pub(crate) fn restore(
        &mut self,
        db: usize,
        key: Key<'_>,
        lock: &LockImage,
        is_connected: impl Fn(&dyn LockHolder) -> bool,
    ) -> bool {
        let View { access, cx, .. } = &mut *self.0;
        cx.aside(|cx| {
            access
                .with_shard(Some(db), shard_of(key.hash), |shard| shard.keys.restore_lock(key, lock, is_connected, cx))
        })
    }

    /// Gives a key of any database its lock in a cluster, with the queue for it, or no lock; for calls that declare no
    /// keys.
    pub(crate) fn adopt(
        &mut self,
        db: usize,
        key: Key<'_>,
        lock: Option<AdoptedLock>,
        queue: impl IntoIterator<Item = LockWaiter>,
    ) {
        let View { access, cx, .. } = &mut *self.0;
        access.with_shard(Some(db), shard_of(key.hash), |shard| {
            match lock {
                Some(AdoptedLock::Shared(holders)) => shard.keys.adopt_holders(key, holders, cx),
                Some(AdoptedLock::Exclusive(record)) => shard.keys.adopt_lock(key, Some(record), cx),
                None => shard.keys.adopt_lock(key, None, cx),
            }
            shard.keys.set_lock_queue(key, queue);
        });
    }

    /// Sets the queue for a lock of any database; for calls that declare no keys.
    pub(crate) fn set_queue(&mut self, db: usize, key: Key<'_>, queue: impl IntoIterator<Item = LockWaiter>) {
        self.0.access.with_shard(Some(db), shard_of(key.hash), |shard| shard.keys.set_lock_queue(key, queue));
    }

    /// Calls `look` with the known holders of a lock of any database; for calls that declare no keys. Ends no holder.
    pub(crate) fn look_at<T>(&mut self, db: usize, key: Key<'_>, look: impl FnOnce(HeldLock<'_>) -> T) -> Option<T> {
        self.0.access.with_shard(Some(db), shard_of(key.hash), |shard| shard.keys.held_lock(key).map(look))
    }

    /// Visits the locks of this database, each with its entry, shard by shard; for calls that declare no keys.
    pub(crate) fn for_each(&mut self, mut visit: impl FnMut(&SeenLock<'_>, Option<&Entry>)) {
        (0..SHARDS).for_each(|shard| self.for_each_of(shard, &mut visit));
    }

    /// Visits the locks of the shard with this number, as [`Locks::for_each`] does.
    pub(crate) fn for_each_of(&mut self, shard: usize, visit: impl FnMut(&SeenLock<'_>, Option<&Entry>)) {
        self.0.access.with_shard(None, shard, |shard| shard.keys.for_each_lock(visit));
    }

    /// Visits the locks of this database from a position on, in the order of their positions and each with its position
    /// and entry, until `visit` returns false; for calls that declare no keys.
    pub(crate) fn visit(&mut self, position: u64, mut visit: impl FnMut(u64, &SeenLock<'_>, Option<&Entry>) -> bool) {
        for shard in shard_at(position)..SHARDS {
            if !self.0.access.with_shard(None, shard, |shard| shard.keys.visit_locks(position, &mut visit)) {
                return;
            }
        }
    }
}
