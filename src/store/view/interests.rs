//! Blocked clients and locks as a call sees them; see [`store::interest`](crate::store::interest) and
//! [`store::lock`](crate::store::lock).

use std::collections::VecDeque;

use crate::store::SHARDS;
use crate::store::cx::Cx;
use crate::store::entry::Entry;
use crate::store::event::Event;
use crate::store::interest::ReadyKeys;
use crate::store::lock::{LockRecord, LockWaiter, Loss, shard_at};
use crate::store::queues::Waiter;
use crate::store::shard::{Key, LockVisitor, Shard};
use crate::store::view::{Access, NO_KEYS, NOT_EXCLUSIVE, View, shard_of};
use crate::time::clock::Deadline;

impl View<'_> {
    /// Appends a client to the queue of a key, to be served when it has changed.
    pub(crate) fn enqueue(&mut self, key: Key<'_>, waiter: Waiter) {
        self.shard_mut(key, |shard, _| shard.enqueue(key, waiter));
    }

    /// Reverts [`View::enqueue`] and [`View::line_up`] of a key of any database, for the wait with a number; for calls that
    /// declare no keys, or have locked this one.
    pub(crate) fn dequeue(&mut self, db: usize, key: Key<'_>, number: u64) {
        self.in_any_db(db, key, |shard, _| shard.dequeue(key, number));
    }

    /// Returns the first client blocked on a key, after the one with a number, that waits for what the key holds now.
    pub(crate) fn next_waiter(&mut self, key: Key<'_>, after: u64) -> Option<Waiter> {
        self.shard_mut(key, |shard, cx| shard.next_waiter(key, after, cx))
    }

    /// Takes the changed keys with blocked clients of the locked shards, or of all if no keys were declared, each with the
    /// number of its database and in the order of their changes; see also
    /// [`GateGuard::take_ready`](crate::store::GateGuard::take_ready).
    pub fn take_ready(&mut self) -> Vec<(usize, Box<[u8]>)> {
        let mut ready = ReadyKeys::default();
        match &mut self.access {
            Access::One(shard) => shard.take_ready(&mut ready),
            Access::Few(shards) => shards.iter_mut().for_each(|(_, shard)| shard.take_ready(&mut ready)),
            Access::Borrowed(shards) => shards.iter_mut().for_each(|(_, shard)| shard.take_ready(&mut ready)),
            Access::Whole(databases, _) => databases.each_shard_mut(|shard| shard.take_ready(&mut ready)),
            Access::Gate(databases, _) => databases.each_shard(|shard| shard.take_ready(&mut ready)),
            Access::Closed => {}
        }
        ready.in_order()
    }

    /// Calls `act` with the shard of a key of any database, unless this is a view of nothing.
    fn in_any_db(&mut self, db: usize, key: Key<'_>, act: impl FnOnce(&mut Shard, &Cx)) {
        let index = shard_of(key.hash);
        match &mut self.access {
            Access::Gate(databases, _) => act(&mut databases.at(db).shards()[index].lock(), &self.cx),
            Access::Whole(databases, _) => act(databases.at_mut(db).shard_mut(index), &self.cx),
            Access::One(_) | Access::Few(_) | Access::Borrowed(_) => self.shard_mut(key, act),
            Access::Closed => {}
        }
    }

    /// Lets the locked shards count again in which a panic has interrupted a change.
    pub(crate) fn recover(&mut self) {
        let View { access, cx, .. } = self;
        let recover = |shard: &mut Shard| shard.recover(cx);
        match access {
            Access::One(shard) => recover(shard),
            Access::Few(shards) => shards.iter_mut().for_each(|(_, shard)| recover(shard)),
            Access::Borrowed(shards) => shards.iter_mut().for_each(|(_, shard)| recover(shard)),
            Access::Whole(databases, _) => databases.each_shard_mut(recover),
            Access::Gate(databases, _) => databases.each_shard(recover),
            Access::Closed => {}
        }
    }

    /// Returns what is known of the lock that a key is.
    pub(crate) fn lock(&mut self, key: Key<'_>) -> Option<&LockRecord> {
        self.access.shard(key).lock(key)
    }

    /// Lets `look` see what is known of a lock of any database, unless it has expired; for calls that need the whole
    /// store, and those that declare no keys.
    pub(crate) fn inspect_lock<T>(
        &mut self,
        db: usize,
        key: Key<'_>,
        look: impl FnOnce(&LockRecord) -> T,
    ) -> Option<T> {
        let (index, cx) = (shard_of(key.hash), &self.cx);
        let look = |shard: &mut Shard| {
            shard.peek(key, cx); // which deletes an expired key
            shard.lock(key).map(look)
        };
        match &mut self.access {
            Access::Gate(databases, _) => look(&mut databases.at(db).shards()[index].lock()),
            Access::Whole(databases, _) => look(databases.at_mut(db).shard_mut(index)),
            Access::One(_) | Access::Few(_) | Access::Borrowed(_) | Access::Closed => unreachable!("{NO_KEYS}"),
        }
    }

    /// Changes what is known of the lock that a key is, or begins to know it.
    pub(crate) fn change_lock<T>(&mut self, key: Key<'_>, change: impl FnOnce(&mut Option<LockRecord>) -> T) -> T {
        self.shard_mut(key, |shard, _| shard.change_lock(key, change))
    }

    /// Ends a lock that its holder releases; the key is to be deleted then.
    pub(crate) fn end_lock(&mut self, key: Key<'_>) -> Option<LockRecord> {
        self.shard_mut(key, |shard, _| shard.end_lock(key))
    }

    /// Ends a lock that its holder has not released, if the key is one, and announces the loss.
    pub(crate) fn lose_lock(&mut self, key: Key<'_>, loss: Loss) {
        self.shard_mut(key, |shard, cx| shard.lose_lock(key, loss, cx));
    }

    /// Releases a lock of any database whose holder's connection has closed; for calls that declare no keys.
    pub(crate) fn end_session_lock(&mut self, db: usize, key: Key<'_>, client: u64) {
        self.in_any_db(db, key, |shard, cx| shard.end_session_lock(key, client, cx));
    }

    /// Releases a lock of any database that was handed to a client which was gone before it was told; for calls that
    /// declare no keys.
    pub(crate) fn return_lock(&mut self, db: usize, key: Key<'_>, token: &[u8], client: u64) {
        self.in_any_db(db, key, |shard, cx| shard.return_lock(key, token, client, cx));
    }

    /// Appends a client to the line for a lock, to be served when the key is missing.
    pub(crate) fn line_up(&mut self, key: Key<'_>, waiter: LockWaiter) {
        self.shard_mut(key, |shard, _| shard.line_up(key, waiter));
    }

    /// Returns the line for a lock, unless it is empty.
    pub(crate) fn line(&mut self, key: Key<'_>) -> Option<&VecDeque<LockWaiter>> {
        self.access.shard(key).line(key)
    }

    /// Deletes the expired ones of the keys that clients are in line for, in all databases; for calls declared
    /// EXCLUSIVE.
    pub(crate) fn expire_locks_in_line(&mut self) {
        let Access::Whole(databases, _) = &mut self.access else { unreachable!("{NOT_EXCLUSIVE}") };
        databases.each_shard_mut(|shard| shard.expire_locks_in_line(&self.cx));
    }

    /// Returns the fence of a key; 0 without one.
    pub(crate) fn fence(&mut self, key: Key<'_>) -> i64 {
        self.access.shard(key).fence(key)
    }

    /// Returns the fence of a key, or that of a removed one while it is remembered; 0 without one.
    pub(crate) fn fence_or_memory(&mut self, key: Key<'_>) -> i64 {
        self.shard_mut(key, |shard, cx| shard.fence_or_memory(key, cx))
    }

    /// Sets the fence of an existing key; 0 is none.
    pub(crate) fn set_fence(&mut self, key: Key<'_>, fence: i64) {
        self.shard_mut(key, |shard, _| shard.set_fence(key, fence));
    }

    /// Visits the locks of this database that have a record, or are waited for, shard by shard; for calls that declare no
    /// keys.
    pub(crate) fn for_each_lock(&mut self, mut visit: impl LockVisitor) {
        (0..SHARDS).for_each(|shard| self.for_each_lock_of(shard, &mut visit));
    }

    /// Does the same for the locks of the shard with this number.
    pub(crate) fn for_each_lock_of(&mut self, shard: usize, visit: impl LockVisitor) {
        self.shard_at(shard, |shard, _| shard.for_each_lock(visit));
    }

    /// Visits the locks of this database that have a record, from a position on, each with its position and in their
    /// order, until `visit` returns false; for calls that declare no keys.
    pub(crate) fn visit_locks(
        &mut self,
        position: u64,
        mut visit: impl FnMut(u64, Key<'_>, Option<Deadline>, &LockRecord, &VecDeque<LockWaiter>) -> bool,
    ) {
        for shard in shard_at(position)..SHARDS {
            if !self.shard_at(shard, |shard, _| shard.visit_locks(position, &mut visit)) {
                return;
            }
        }
    }

    /// Removes a key that gets another name or database, and returns its entry. The event is emitted later. A lock that
    /// the key is does not follow it, and is lost for this reason.
    pub(crate) fn take_away(&mut self, key: Key<'_>, loss: Loss) -> Option<Entry> {
        if !self.exists(key) {
            return None;
        }
        self.lose_lock(key, loss);
        self.take(key, Event::NONE)
    }
}
