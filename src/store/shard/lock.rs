//! Locks among the keys of a shard: the fate of a lock when its key changes, and the queue for it.

mod holders;

use std::collections::VecDeque;

use crate::store::changes::ChangeCx;
use crate::store::cx::{Cx, Removal};
use crate::store::entry::Entry;
use crate::store::event::{self, Event};
use crate::store::key::Key;
use crate::store::lock::{
    self, HeldLock, Holder, HolderImage, Holders, LockHolder, LockImage, LockMode, LockRecord, LockWaiter, LossReason,
    LostLock, SeenLock,
};
use crate::store::shard::Keys;
use crate::store::shard::keys::is_expired;
use crate::store::shard::sidecar::Sidecar;
use crate::store::side_record::SideRecord;
use crate::store::value::Str;

/// The sidecar of locks.
pub(super) struct LockSidecar;

impl Sidecar for LockSidecar {
    fn on_change(keys: &mut Keys, key: Key<'_>, event: &'static Event, cx: &mut ChangeCx<'_>) {
        if keys.interests.has_locks() {
            keys.pass_to_holders(key, event, cx);
            keys.follow_lock(key, event.removal(), cx);
        }
    }

    fn on_removal(keys: &mut Keys, key: Key<'_>, cause: Removal, cx: &mut ChangeCx<'_>) {
        keys.lose_lock(key, cause.into(), cx);
    }

    fn before_bulk_change(keys: &mut Keys, cause: Removal, cx: &mut ChangeCx<'_>) {
        keys.lose_all_locks(cause.into(), cx);
    }

    fn on_bulk_change(keys: &mut Keys, key: Key<'_>, cause: Removal, cx: &mut ChangeCx<'_>) {
        keys.follow_lock(key, cause, cx);
    }
}

impl Keys {
    /// Returns the record of the holder of an exclusive lock.
    pub(crate) fn lock(&self, key: Key<'_>) -> Option<&LockRecord> {
        self.interests.lock(key)
    }

    /// Returns the known holders of a lock.
    pub(crate) fn held_lock(&self, key: Key<'_>) -> Option<HeldLock<'_>> {
        self.interests.held_lock(key)
    }

    /// Changes, adds or removes the record of the holder of an exclusive lock.
    pub(crate) fn change_lock<T>(
        &mut self,
        key: Key<'_>,
        cx: &mut ChangeCx<'_>,
        change: impl FnOnce(&mut Option<LockRecord>) -> T,
    ) -> T {
        self.before_remark(key);
        self.unfinished += 1;
        let result = self.interests.change_record(key, change);
        self.record_lock(key, cx);
        self.unfinished -= 1;
        result
    }

    /// Ends a lock: removes its record and returns it. The caller removes or overwrites the key.
    pub(crate) fn end_lock(&mut self, key: Key<'_>, cx: &mut ChangeCx<'_>) -> Option<LockRecord> {
        self.lock(key)?;
        let record = self.change_lock(key, cx, Option::take)?;
        record.unbind(self.db(), key.bytes);
        Some(record)
    }

    /// Makes a key a lock with this record, or no lock, without announcing anything.
    pub(crate) fn adopt_lock(&mut self, key: Key<'_>, record: Option<LockRecord>, cx: &mut ChangeCx<'_>) {
        self.end_lock(key, cx);
        self.take_holders(key, cx);
        let Some(record) = record else { return };
        record.bind(self.db(), key.bytes);
        self.change_lock(key, cx, |known| *known = Some(record));
    }

    /// Sets the queue for a lock.
    pub(crate) fn set_lock_queue(&mut self, key: Key<'_>, queue: impl IntoIterator<Item = LockWaiter>) {
        self.interests.clear_queue(key);
        queue.into_iter().for_each(|waiter| self.interests.join_queue(key, waiter));
    }

    /// Passes the present state of a lock to the log, and adds its change to the records of the call.
    fn record_lock(&self, key: Key<'_>, cx: &mut ChangeCx<'_>) {
        if self.events.is_logged() {
            let held = self.held_lock(key);
            self.events.record_lock(self.db(), key.bytes, held);
            if held.is_some() {
                cx.record_lock((self.db(), key), self.events.record_pool());
            }
        }
    }

    /// Logs the state of a lock, where no call has changed it, if the key is a lock and there is a log.
    fn log_lock(&self, key: Key<'_>, cx: &Cx) {
        if self.events.is_logged()
            && let Some(lock) = self.held_lock(key)
        {
            let text = lock::encode(lock, cx.now);
            self.events.log_side_record(self.db(), SideRecord::Lock { key: key.bytes, text: &text });
        }
    }

    /// Ends a lock that its holders have not released, if the key is a lock, and announces the loss.
    pub(crate) fn lose_lock(&mut self, key: Key<'_>, loss: LossReason, cx: &mut ChangeCx<'_>) {
        self.lose_holders_unless(key, (loss, cx.is_repeated()), |_| false, cx);
    }

    /// Ends all locks before their keys are removed. A walk of a snapshot still gets the keys unchanged.
    fn lose_all_locks(&mut self, loss: LossReason, cx: &mut ChangeCx<'_>) {
        if self.interests.has_locks() {
            let held = self.interests.locks().filter(|lock| lock.held.is_some());
            let held: Vec<(u64, Box<[u8]>)> = held.map(|lock| (lock.key.hash, lock.key.bytes.into())).collect();
            held.iter().for_each(|(hash, bytes)| self.lose_lock(Key { bytes, hash: *hash }, loss, cx));
        }
    }

    /// Ends a lock as [`Keys::lose_lock`] does; the loss is announced to all holders for which `is_kept` returns false,
    /// unless it is repeated.
    fn lose_holders_unless(
        &mut self,
        key: Key<'_>,
        loss: (LossReason, bool),
        is_kept: impl Fn(&LockRecord) -> bool,
        cx: &mut ChangeCx<'_>,
    ) {
        if self.lock(key).is_some_and(|record| !is_kept(record))
            && let Some(record) = self.end_lock(key, cx)
        {
            self.announce_loss(key, &record, loss, cx);
        }
        for holder in self.take_holders(key, cx).iter().filter(|holder| !is_kept(&holder.record)) {
            self.announce_loss(key, &holder.record, loss, cx);
        }
    }

    /// Announces a loss, unless it is a repeated one. Replicas are told here, since the commands that they repeat do not
    /// have its reason.
    fn announce_loss(&self, key: Key<'_>, record: &LockRecord, (loss, is_repeated): (LossReason, bool), cx: &Cx) {
        let is_awaited = self.interests.counts().queued > 0 && self.interests.lock_queue(key).is_some();
        let awaited = is_awaited.then(|| (self.db(), key.hash));
        let lost = LostLock { key: key.bytes, record, loss, at_us: cx.now.mono_us(), awaited, is_repeated };
        self.events.emit_lost_lock(&lost);
        if record.is_announced && !is_repeated {
            let (channel, payload) = lost.message();
            self.events.log_message(&channel, payload.as_bytes());
        }
    }

    /// Releases a lock as far as it is still bound to the closed connection of a client; logs the change.
    pub(crate) fn end_session_lock(&mut self, key: Key<'_>, client: u64, cx: &mut ChangeCx<'_>) {
        self.peek(key, cx);
        cx.aside(|cx| {
            if self.lock(key).is_some_and(|record| record.is_bound_to(client)) {
                self.lose_lock(key, LossReason::Session, cx);
                self.delete(key, event::RELEASED, cx);
            }
            self.end_session_holders(key, client, cx);
        });
    }

    /// Handles the change of a key that may be a lock: the lock is lost unless the key still has its value, and a free
    /// lock is marked as ready for the clients queued for it. `cause` is that of the absence of a missing key.
    fn follow_lock(&mut self, key: Key<'_>, cause: Removal, cx: &mut ChangeCx<'_>) {
        let entry = self.find_undeleted(key).filter(|entry| !is_expired(entry, cx));
        let is_free = entry.is_none();
        if self.held_lock(key).is_some_and(|lock| !entry.is_some_and(|entry| lock.is_value(entry))) {
            self.lose_lock(key, if is_free { cause.into() } else { LossReason::Overwritten }, cx);
        }
        let Some(queue) = self.interests.lock_queue(key) else { return };
        // Without the shared lock there is nothing to wait for.
        let is_upgrade = || lock::first_of(queue).is_some_and(|first| first.mode == LockMode::Upgrade);
        let is_settled = self.holders(key).is_none() && is_upgrade();
        if is_free || is_settled || !self.queued_holders(key).is_empty() {
            self.interests.mark_ready(key);
        }
    }

    /// Returns true if clients are queued for the lock that ask for other locks at the same time.
    pub(crate) fn has_queued_for_several(&self, key: Key<'_>) -> bool {
        self.interests.queued_for_several(key).next().is_some()
    }

    /// Returns the connected clients queued for the lock that ask for other locks at the same time.
    pub(crate) fn queued_for_several(&self, key: Key<'_>) -> Vec<LockWaiter> {
        self.interests.queued_for_several(key).filter(|waiter| !waiter.is_away).copied().collect()
    }

    /// Returns the clients queued for several locks whose token holds this lock already.
    pub(crate) fn queued_holders(&self, key: Key<'_>) -> Vec<LockWaiter> {
        let mut several = self.interests.queued_for_several(key).filter(|waiter| !waiter.is_away).peekable();
        if several.peek().is_none() {
            return Vec::new(); // before the value is hashed
        }
        let value = self.find_undeleted(key).and_then(|entry| entry.get::<Str>().ok());
        let value = value.map(|value| self.key(value.as_slice()).hash);
        let is_holder = |waiter: &&LockWaiter| match self.holders(key) {
            Some(holders) => holders.has_token(waiter.token),
            None => value == Some(waiter.token),
        };
        several.filter(is_holder).copied().collect()
    }

    pub(super) fn follow_first(&mut self, key: Key<'_>, was_first: bool) {
        if was_first && (self.find_undeleted(key).is_none() || self.holders(key).is_some()) {
            self.interests.mark_ready(key);
        }
    }

    /// Reserves the position of a disconnected client in the queue for a lock, by the number of its wait.
    pub(crate) fn leave_for_now(&mut self, key: Key<'_>, number: u64) {
        let was_first = self.interests.reserve_slot(key, number);
        self.follow_first(key, was_first);
    }

    /// Removes a client that was served from the queue for a lock.
    pub(crate) fn leave_queue(&mut self, key: Key<'_>, number: u64) {
        self.interests.dequeue(key, number);
    }

    /// Releases a lock that a client has acquired at `since_us` (monotonic microseconds) or later without being told;
    /// logs the change.
    pub(crate) fn return_lock(
        &mut self,
        key: Key<'_>,
        token: &[u8],
        (client, since_us): (u64, u64),
        cx: &mut ChangeCx<'_>,
    ) {
        self.peek(key, cx);
        cx.aside(|cx| self.return_held_lock(key, token, (client, since_us), cx));
    }

    fn return_held_lock(&mut self, key: Key<'_>, token: &[u8], (client, since_us): (u64, u64), cx: &mut ChangeCx<'_>) {
        // A lock of a cluster may have been acquired before the start of this server, which then counts as its start.
        let acquired_us = |record: &LockRecord| record.since_us.max(0).cast_unsigned();
        let is_it = |record: &LockRecord| record.is_held_by(client, token) && acquired_us(record) >= since_us;
        if self.lock(key).is_some_and(is_it) {
            self.end_lock(key, cx);
            self.delete(key, event::RELEASED, cx);
        }
        let Some(holders) = self.holders(key) else { return };
        let number = holders.find(self.key(token).hash, token);
        let number = number.filter(|number| holders.get(*number).is_some_and(|holder| is_it(&holder.record)));
        match number {
            None => {}
            // No call logs the deletion of the key.
            Some(_) if holders.len() == 1 => {
                self.take_holders(key, cx);
                self.delete(key, event::RELEASED, cx);
            }
            Some(number) => {
                self.end_holder(key, number, None, cx);
                self.log_holders(key, cx);
            }
        }
    }

    /// Marks a lock as ready for the clients queued for it, to be served if possible.
    pub(crate) fn mark_lock_ready(&mut self, key: Key<'_>) {
        self.interests.mark_ready(key);
    }

    /// Adds a client to the queue for a lock: at its reserved position, found by the number of the wait, or else at the
    /// end.
    pub(crate) fn join_queue(&mut self, key: Key<'_>, waiter: LockWaiter) {
        if !self.interests.claim_slot(key, waiter) {
            self.interests.join_queue(key, waiter);
        }
    }

    /// Returns the queue for a lock, unless it is empty.
    pub(crate) fn lock_queue(&self, key: Key<'_>) -> Option<&VecDeque<LockWaiter>> {
        self.interests.lock_queue(key)
    }

    /// Deletes the expired locks that clients are queued for, and ends holders, among several, whose time is over.
    pub(crate) fn expire_awaited_locks(&mut self, cx: &mut ChangeCx<'_>) {
        let is_any_due = self.deadlines.earliest().min(self.interests.next_end_ms()) <= cx.now.mono_ms();
        if is_any_due && self.interests.counts().queued > 0 {
            let awaited = self.interests.locks().filter(|lock| !lock.queue.is_empty());
            let keys: Vec<(u64, Box<[u8]>)> = awaited.map(|lock| (lock.key.hash, lock.key.bytes.into())).collect();
            for (hash, bytes) in &keys {
                let key = Key { bytes, hash: *hash };
                self.peek(key, cx);
                self.end_due_holders(key, cx);
            }
        }
    }

    /// Visits the locks of this shard from a position on, in the order of their positions and each with its position,
    /// until `visit` returns false; returns true if it never did.
    pub(crate) fn visit_locks(
        &self,
        position: u64,
        mut visit: impl FnMut(u64, &SeenLock<'_>, Option<&Entry>) -> bool,
    ) -> bool {
        self.interests
            .locks_from(position)
            .all(|(position, lock)| visit(position, &lock, self.find_undeleted(lock.key)))
    }

    /// Visits the locks of this shard, each with its entry, in no particular order.
    pub(crate) fn for_each_lock(&self, mut visit: impl FnMut(&SeenLock<'_>, Option<&Entry>)) {
        self.interests.locks().for_each(|lock| visit(&lock, self.find_undeleted(lock.key)));
    }

    /// Returns the image of a lock; `None` if the key is not a lock.
    pub(super) fn lock_image(&self, key: Key<'_>) -> Option<LockImage> {
        self.held_lock(key).map(LockImage::of)
    }

    /// Ends the lock of a key before the key is restored with this lock, or none: the holders that it does not have
    /// lose theirs.
    pub(super) fn lose_other_lock(&mut self, key: Key<'_>, lock: Option<&LockImage>, cx: &mut ChangeCx<'_>) {
        self.lose_holders_unless(
            key,
            (LossReason::Flushed, false),
            |record| lock.is_some_and(|lock| lock.has(record)),
            cx,
        );
    }

    /// Restores the lock of a key from an image, if the key still has the lock's value. Holders bound to a session that
    /// is over are released. Returns true if all holders were restored.
    pub(crate) fn restore_lock(
        &mut self,
        key: Key<'_>,
        lock: &LockImage,
        is_connected: impl Fn(&dyn LockHolder) -> bool,
        cx: &mut ChangeCx<'_>,
    ) -> bool {
        if !self.unexpired(key, cx).is_some_and(|entry| is_text(entry, &lock.value())) {
            return false;
        }
        let is_over = |holder: &&HolderImage| holder.session.as_ref().is_some_and(|session| !is_connected(&**session));
        let (over, left): (Vec<_>, Vec<_>) = lock.holders.iter().partition(is_over);
        match lock.shared {
            None => {
                let record = left.first().map(|holder| holder.record(self.key(&holder.token).hash));
                self.adopt_lock(key, record, cx);
            }
            Some((sharing, since_us)) => {
                let mut holders = Holders::new(sharing, since_us);
                for image in &left {
                    let token = self.key(&image.token).hash;
                    holders.add(Holder::new(image.record(token), token, image.permits, image.until_ms));
                }
                self.adopt_holders(key, holders, cx);
                self.end_due_holders(key, cx);
            }
        }
        if left.is_empty() {
            self.drop_entry(key, cx);
        }
        over.is_empty()
    }
}

impl HeldLock<'_> {
    /// Returns true if an entry has the value of such a lock.
    fn is_value(self, entry: &Entry) -> bool {
        match self {
            HeldLock::Exclusive(record) => is_text(entry, &record.token),
            HeldLock::Shared(holders) => is_text(entry, &holders.sharing().value()),
        }
    }
}

/// Returns true if an entry is a string with this value.
fn is_text(entry: &Entry, value: &[u8]) -> bool {
    entry.get::<Str>().is_ok_and(|text| *text.as_slice() == *value)
}
