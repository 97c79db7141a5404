//! Clients that watch keys of a shard or are blocked on them, and locks among these: what becomes of a lock when its key
//! changes, and the queue for it.

use std::collections::VecDeque;

use crate::store::changes::ChangeCx;
use crate::store::cx::Cx;
use crate::store::entry::Entry;
use crate::store::event;
use crate::store::interest::{ReadyKeys, WatchFlag};
use crate::store::key::Key;
use crate::store::lock::{LockRecord, LockWaiter, Loss, LostLock};
use crate::store::queues::Waiter;
use crate::store::shard::Keys;
use crate::store::shard::keys::is_expired;
use crate::store::value::Str;
use crate::time::clock::Deadline;

impl Keys {
    /// Returns what is known of the lock that a key is.
    pub(crate) fn lock(&self, key: Key<'_>) -> Option<&LockRecord> {
        self.interests.lock(key)
    }

    /// Changes what is known of the lock that a key is, or begins to know it.
    pub(crate) fn change_lock<T>(&mut self, key: Key<'_>, change: impl FnOnce(&mut Option<LockRecord>) -> T) -> T {
        self.before_remark(key);
        self.unfinished += 1;
        let result = self.interests.change_record(key, change);
        self.record_lock(key);
        self.unfinished -= 1;
        result
    }

    /// Ends a lock: forgets what was known of it, and returns that. The key is removed or overwritten by the caller.
    pub(crate) fn end_lock(&mut self, key: Key<'_>) -> Option<LockRecord> {
        self.lock(key)?;
        let record = self.change_lock(key, Option::take)?;
        if let Some(session) = &record.session {
            session.unbind_lock(self.db(), key.bytes);
        }
        Some(record)
    }

    /// Lets a key be a lock of which this is known, or none, without announcing anything.
    pub(crate) fn adopt_lock(&mut self, key: Key<'_>, record: Option<LockRecord>) {
        self.end_lock(key);
        let Some(record) = record else { return };
        record.session.iter().for_each(|session| session.bind_lock(self.db(), key.bytes));
        self.change_lock(key, |known| *known = Some(record));
    }

    /// Sets the queue for a lock.
    pub(crate) fn set_lock_queue(&mut self, key: Key<'_>, queue: impl IntoIterator<Item = LockWaiter>) {
        self.interests.clear_queue(key);
        queue.into_iter().for_each(|waiter| self.interests.join_queue(key, waiter));
    }

    /// Lets the log know what is known of a lock now.
    fn record_lock(&self, key: Key<'_>) {
        self.events.record_lock(self.db(), key.bytes, self.lock(key));
    }

    /// Ends a lock that its holder has not released, if the key is one, and announces the loss.
    pub(crate) fn lose_lock(&mut self, key: Key<'_>, loss: Loss, cx: &Cx) {
        if let Some(record) = self.end_lock(key) {
            self.events.emit_lost_lock(&LostLock { key: key.bytes, record: &record, loss, at_us: cx.now.mono_us() });
        }
    }

    /// Releases a lock whose holder's connection has closed, if it is still bound to that; logs the deletion.
    pub(crate) fn end_session_lock(&mut self, key: Key<'_>, client: u64, cx: &mut ChangeCx) {
        self.peek(key, cx);
        if self.lock(key).is_some_and(|record| record.is_bound_to(client)) {
            self.lose_lock(key, Loss::Released, cx);
            self.delete(key, event::RELEASED, cx);
        }
    }

    /// Handles the change of a key, which may be a lock: the lock is lost unless the key still has its token, and one
    /// that is free is marked as ready for the clients queued for it. `loss` tells why a missing key is missing.
    pub(super) fn follow_lock(&mut self, key: Key<'_>, loss: Loss, cx: &Cx) {
        let entry = self.find_undeleted(key).filter(|entry| !is_expired(entry, cx));
        let is_free = entry.is_none();
        if let Some(record) = self.lock(key)
            && !entry.is_some_and(|entry| is_token(entry, &record.token))
        {
            self.lose_lock(key, if is_free { loss } else { Loss::Overwritten }, cx);
        }
        if is_free && self.interests.lock_queue(key).is_some() {
            self.interests.mark_ready(key);
        }
    }

    /// Raises `flag` when the key changes from now on.
    pub(crate) fn watch(&mut self, key: Key<'_>, flag: &WatchFlag, cx: &Cx) {
        self.peek(key, cx);
        self.interests.watch(key, flag);
    }

    /// Reverts [`Keys::watch`].
    pub(crate) fn unwatch(&mut self, key: Key<'_>, flag: &WatchFlag) {
        self.interests.unwatch(key, flag);
    }

    /// Handles the change of a key: raises the flags of its watchers, and marks it as ready if a client is blocked that
    /// waits for what it holds now.
    pub(super) fn notify_interested(&mut self, key: Key<'_>) {
        self.interests.raise_flags(key);
        if self.interests.has_waiters(key) {
            let of = self.find_undeleted(key).map(Entry::kind);
            self.interests.mark_awaited(key, of);
        }
    }

    /// Appends a client to the queue of a key, to be served from it.
    pub(crate) fn enqueue(&mut self, key: Key<'_>, waiter: Waiter) {
        self.interests.enqueue(key, waiter);
    }

    /// Reverts [`Keys::enqueue`] and [`Keys::join_queue`].
    pub(crate) fn dequeue(&mut self, key: Key<'_>, number: u64) {
        self.interests.dequeue(key, number);
    }

    /// Returns the first client blocked on a key, after the one with a number, that waits for what the key holds now.
    pub(crate) fn next_waiter(&mut self, key: Key<'_>, after: u64, cx: &Cx) -> Option<Waiter> {
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

    /// Releases a lock that a client has acquired and was not told of; logs the deletion.
    pub(crate) fn return_lock(&mut self, key: Key<'_>, token: &[u8], client: u64, cx: &mut ChangeCx) {
        self.peek(key, cx);
        if self.lock(key).is_some_and(|record| record.is_held_by(client, token)) {
            self.end_lock(key);
            self.delete(key, event::RELEASED, cx);
        }
    }

    /// Appends a client to the queue for a lock.
    pub(crate) fn join_queue(&mut self, key: Key<'_>, waiter: LockWaiter) {
        self.interests.join_queue(key, waiter);
    }

    /// Returns the queue for a lock, unless it is empty.
    pub(crate) fn lock_queue(&self, key: Key<'_>) -> Option<&VecDeque<LockWaiter>> {
        self.interests.lock_queue(key)
    }

    /// Deletes the expired ones of the keys that clients are queued for, as locks.
    pub(crate) fn expire_awaited_locks(&mut self, cx: &Cx) {
        let is_any_due = self.deadlines.earliest() <= cx.now.mono_ms();
        if is_any_due && self.interests.counts().queued > 0 {
            let awaited = self.interests.locks().filter(|(_, _, queue)| !queue.is_empty());
            let keys: Vec<(u64, Box<[u8]>)> = awaited.map(|(key, ..)| (key.hash, key.bytes.into())).collect();
            for (hash, bytes) in &keys {
                self.peek(Key { bytes, hash: *hash }, cx);
            }
        }
    }

    /// Visits the locks of this shard that have a record, from a position on, each with its position and in their order,
    /// until `visit` returns false; returns whether it never did.
    pub(crate) fn visit_locks(
        &self,
        position: u64,
        mut visit: impl FnMut(u64, Key<'_>, Option<Deadline>, &LockRecord, &VecDeque<LockWaiter>) -> bool,
    ) -> bool {
        self.interests.locks_from(position).all(|(position, key, record, queue)| {
            let deadline = self.find_undeleted(key).and_then(Entry::deadline);
            visit(position, key, deadline, record, queue)
        })
    }

    /// Visits the locks of this shard that have a record, or are waited for, in no order.
    pub(crate) fn for_each_lock(&self, mut visit: impl LockVisitor) {
        self.interests.locks().for_each(|(key, record, queue)| {
            let deadline = self.find_undeleted(key).and_then(Entry::deadline);
            visit(key, deadline, record, queue);
        });
    }
}

/// Visits a lock: its key, its deadline, what is known of it, and its queue.
pub(crate) trait LockVisitor:
    FnMut(Key<'_>, Option<Deadline>, Option<&LockRecord>, &VecDeque<LockWaiter>)
{
}

impl<F: FnMut(Key<'_>, Option<Deadline>, Option<&LockRecord>, &VecDeque<LockWaiter>)> LockVisitor for F {}

/// Returns whether an entry has a token for its value.
pub(super) fn is_token(entry: &Entry, token: &[u8]) -> bool {
    entry.get::<Str>().is_ok_and(|text| *text.as_slice() == *token)
}
