//! Clients that watch keys of a shard, or are blocked on them.

use crate::store::changes::ChangeCx;
use crate::store::cx::Removal;
use crate::store::entry::Entry;
use crate::store::event::Event;
use crate::store::interest::{ReadyKeys, WatchFlag};
use crate::store::key::Key;
use crate::store::queues::Waiter;
use crate::store::shard::Keys;
use crate::store::shard::sidecar::Sidecar;

/// The sidecar of watchers and blocked clients.
pub(super) struct WaiterSidecar;

impl Sidecar for WaiterSidecar {
    fn on_change(keys: &mut Keys, key: Key<'_>, _: &'static Event, _: &mut ChangeCx<'_>) {
        keys.notify_waiters(key);
    }

    fn on_bulk_change(keys: &mut Keys, key: Key<'_>, _: Removal, _: &mut ChangeCx<'_>) {
        keys.notify_waiters(key);
    }
}

impl Keys {
    /// Raises `flag` when the key changes from now on.
    pub(crate) fn watch(&mut self, key: Key<'_>, flag: &WatchFlag, cx: &mut ChangeCx<'_>) {
        self.peek(key, cx);
        self.interests.watch(key, flag);
    }

    /// Reverts [`Keys::watch`].
    pub(crate) fn unwatch(&mut self, key: Key<'_>, flag: &WatchFlag) {
        self.interests.unwatch(key, flag);
    }

    /// Handles the change of a key: raises the flags of its watchers, and marks it as ready if its present value, or
    /// none, serves a blocked client.
    pub(super) fn notify_waiters(&mut self, key: Key<'_>) {
        self.interests.raise_flags(key);
        if self.interests.has_waiters(key) {
            let of = self.find_undeleted(key).map(Entry::kind);
            self.interests.mark_awaited(key, of);
        }
    }

    /// Appends a client to the queue of a key, to be served when the key changes.
    pub(crate) fn enqueue(&mut self, key: Key<'_>, waiter: Waiter) {
        self.interests.enqueue(key, waiter);
    }

    /// Reverts [`Keys::enqueue`] and [`Keys::join_queue`]. Clients that were queued for a lock behind this client, and
    /// not only because the lock was held, may be served now.
    pub(crate) fn dequeue(&mut self, key: Key<'_>, number: u64) {
        let was_first = self.interests.dequeue(key, number);
        self.follow_first(key, was_first);
    }

    /// Returns the first client blocked on a key, after the wait `after`, that its present value, or none, serves.
    pub(crate) fn next_waiter(&mut self, key: Key<'_>, after: u64, cx: &mut ChangeCx<'_>) -> Option<Waiter> {
        if !self.interests.has_waiters(key) {
            return None;
        }
        let of = self.peek(key, cx).map(Entry::kind);
        self.interests.next_waiter(key, of, after).cloned()
    }

    /// Takes the changed keys with blocked clients.
    pub(crate) fn take_ready(&mut self, ready: &mut ReadyKeys) {
        self.interests.take_ready(self.db(), ready);
    }
}
