//! Clients that watch keys, or are blocked on them; see [`store::interest`](crate::store::interest).

use crate::store::event;
use crate::store::interest::{ReadyKeys, WatchFlag};
use crate::store::key::{Key, KeyName, shard_of};
use crate::store::queues::Waiter;
use crate::store::view::View;

/// Access to the clients that wait for changes of the keys of a view.
pub(crate) struct KeyWaiters<'v, 'a>(&'v mut View<'a>);

impl<'a> View<'a> {
    /// Returns access to the clients that wait for changes of keys.
    pub(crate) fn waiting(&mut self) -> KeyWaiters<'_, 'a> {
        KeyWaiters(self)
    }
}

impl KeyWaiters<'_, '_> {
    /// Raises `flag` when the key changes from now on.
    pub(crate) fn watch(&mut self, key: Key<'_>, flag: &WatchFlag) {
        let (keys, cx) = self.0.keys(key);
        keys.watch(key, flag, cx);
    }

    /// Reverts [`KeyWaiters::watch`] for a key of any database; for calls that declare no keys, or have locked this key.
    pub(crate) fn unwatch(&mut self, db: usize, key: Key<'_>, flag: &WatchFlag) {
        self.0.access.with_any(db, key, |shard| shard.keys.unwatch(key, flag));
    }

    /// Reverts [`KeyWaiters::watch`] for a key of this database; for calls that declare no keys.
    pub(crate) fn forget(&mut self, key: Key<'_>, flag: &WatchFlag) {
        self.0.access.with_shard(None, shard_of(key.hash), |shard| shard.keys.unwatch(key, flag));
    }

    /// Deletes a key that has not changed since [`KeyWaiters::watch`]; for the end of a call, when its keys are no longer
    /// locked, and nothing else logs the deletion.
    pub(crate) fn remove_unchanged(&mut self, key: Key<'_>, flag: &WatchFlag) {
        let View { access, cx, .. } = &mut *self.0;
        access.with_shard(None, shard_of(key.hash), |shard| {
            // A look-up deletes an expired key, which counts as a change.
            if shard.keys.peek(key, cx).is_some() && !flag.is_raised() {
                shard.keys.delete(key, event::RELEASED, cx);
            }
        });
    }

    /// Appends a client to the queue of a key, to be served when it has changed.
    pub(crate) fn enqueue(&mut self, key: Key<'_>, waiter: Waiter) {
        self.0.keys(key).0.enqueue(key, waiter);
    }

    /// Reverts [`KeyWaiters::enqueue`], and the joining of a lock's queue, for a key of any database, by the number of the
    /// wait; for calls that declare no keys, or have locked this key.
    pub(crate) fn dequeue(&mut self, db: usize, key: Key<'_>, number: u64) {
        self.0.access.with_any(db, key, |shard| shard.keys.dequeue(key, number));
    }

    /// Returns the first client blocked on a key, after the wait `after`, that its present value, or none, serves.
    pub(crate) fn next(&mut self, key: Key<'_>, after: u64) -> Option<Waiter> {
        let (keys, cx) = self.0.keys(key);
        keys.next_waiter(key, after, cx)
    }

    /// Takes the changed keys with blocked clients of the locked shards, or of all shards if no keys were declared,
    /// each with the number of its database and in the order of their changes; see also
    /// [`GateGuard::take_ready`](crate::store::GateGuard::take_ready).
    pub(crate) fn take_ready(&mut self) -> Vec<KeyName> {
        let mut ready = ReadyKeys::default();
        self.0.access.each_shard(|shard| shard.keys.take_ready(&mut ready));
        ready.in_order()
    }
}
