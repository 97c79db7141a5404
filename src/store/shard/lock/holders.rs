//! Locks with several holders: each holder has its own deadline, and the key has the latest of them.

use crate::store::changes::ChangeCx;
use crate::store::cx::Cx;
use crate::store::entry::Entry;
use crate::store::event::{self, ChangedPart, Classes, Event};
use crate::store::expire::NEVER;
use crate::store::key::Key;
use crate::store::lock::{Holder, Holders, LockRecord, LossReason};
use crate::store::shard::Keys;
use crate::time::clock::Deadline;

/// The latest deadline of a lock's holders has changed.
const HELD_UNTIL: &Event = &Event::one(Classes::GENERIC, "expire").of_sidecar();
/// Some holders of a lock hold it without a deadline.
const HELD_ON: &Event = &Event::one(Classes::GENERIC, "persist").of_sidecar();

impl Keys {
    /// Returns the holders of a shared lock or a semaphore.
    pub(crate) fn holders(&self, key: Key<'_>) -> Option<&Holders> {
        self.interests.holders(key)
    }

    /// Changes, adds or removes the holders of a shared lock or a semaphore. The key's deadline must be updated
    /// afterwards, see [`Keys::follow_holders`].
    pub(crate) fn change_holders<T>(
        &mut self,
        key: Key<'_>,
        cx: &mut ChangeCx<'_>,
        change: impl FnOnce(&mut Option<Box<Holders>>) -> T,
    ) -> T {
        self.before_remark(key);
        self.unfinished += 1;
        let result = self.interests.change_holders(key, change);
        self.record_lock(key, cx);
        self.sweep_timer.lower(self.interests.next_end_ms());
        self.unfinished -= 1;
        result
    }

    /// Changes the record of the holder with this token, if there is one, and logs the change.
    pub(crate) fn change_held(
        &mut self,
        key: Key<'_>,
        token: &[u8],
        cx: &mut ChangeCx<'_>,
        change: impl FnOnce(&mut LockRecord),
    ) {
        cx.aside(|cx| {
            let hash = self.key(token).hash;
            if let Some(number) = self.holders(key).and_then(|holders| holders.find(hash, token)) {
                self.change_holders(key, cx, |holders| {
                    holders.as_mut().and_then(|holders| holders.change(number, change))
                });
            } else if self.lock(key).is_some_and(|record| *record.token == *token) {
                self.change_lock(key, cx, |record| record.as_mut().map(change));
            }
            self.log_lock(key, cx);
        });
    }

    /// Removes the holders of a lock and returns them.
    pub(in crate::store) fn take_holders(&mut self, key: Key<'_>, cx: &mut ChangeCx<'_>) -> Vec<Holder> {
        if self.holders(key).is_none() {
            return Vec::new();
        }
        let holders = self.change_holders(key, cx, Option::take);
        let holders: Vec<Holder> = holders.into_iter().flat_map(|holders| holders.into_holders()).collect();
        holders.iter().for_each(|holder| holder.record.unbind(self.db(), key.bytes));
        holders
    }

    /// Makes a key a lock with these holders, without announcing anything.
    pub(in crate::store) fn adopt_holders(&mut self, key: Key<'_>, holders: Holders, cx: &mut ChangeCx<'_>) {
        self.adopt_lock(key, None, cx);
        holders.iter().for_each(|(_, holder)| holder.record.bind(self.db(), key.bytes));
        if !holders.is_empty() {
            self.change_holders(key, cx, |known| *known = Some(Box::new(holders)));
        }
    }

    /// Ends one of several holders: with a loss that is announced, or because it has released the lock. With the last
    /// holder the key is deleted.
    pub(crate) fn end_holder(
        &mut self,
        key: Key<'_>,
        number: u64,
        loss: Option<LossReason>,
        cx: &mut ChangeCx<'_>,
    ) -> Option<Holder> {
        let holder = self.change_holders(key, cx, |holders| {
            let holder = holders.as_mut()?.remove(number);
            holders.take_if(|holders| holders.is_empty());
            holder
        })?;
        holder.record.unbind(self.db(), key.bytes);
        if let Some(loss) = loss {
            self.announce_loss(key, &holder.record, (loss, cx.is_repeated()), cx);
        }
        if self.holders(key).is_some() {
            self.follow_holders(key, cx);
            self.interests.mark_ready(key);
        } else {
            self.delete(key, last_holder_event(loss), cx);
        }
        Some(holder)
    }

    /// Ends the holders whose time is over; not in a replay, which contains the ends.
    pub(crate) fn end_due_holders(&mut self, key: Key<'_>, cx: &mut ChangeCx<'_>) {
        if !cx.expires_keys() || self.sweep_timer.frozen_until_ms(cx.now.mono_ms()).is_some() {
            return;
        }
        cx.aside(|cx| {
            let mut has_any = false;
            while let Some((until_ms, number)) = self.holders(key).and_then(Holders::first_to_end)
                && until_ms <= cx.now.mono_ms()
            {
                has_any = self.end_holder(key, number, Some(LossReason::Expired), cx).is_some();
            }
            if has_any {
                self.log_lock(key, cx);
            }
        });
    }

    /// Returns up to `max_count` locks with a holder, among several, that has ended by `now_ms`, each with its hash.
    pub(in crate::store) fn ended_holders(&self, now_ms: u64, max_count: usize) -> Vec<(u64, Box<[u8]>)> {
        self.interests.ended(now_ms, max_count)
    }

    /// Returns the time when the first of several holders of a lock ends, in monotonic milliseconds, or [`NEVER`].
    pub(in crate::store) fn next_holder_end_ms(&self) -> u64 {
        self.interests.next_end_ms()
    }

    /// Ends the holders that are bound to the closed connection of a client; logs the change.
    pub(super) fn end_session_holders(&mut self, key: Key<'_>, client: u64, cx: &mut ChangeCx<'_>) {
        let Some(holders) = self.holders(key) else { return };
        let bound = holders.of_session(client);
        for number in &bound {
            self.end_holder(key, *number, Some(LossReason::Session), cx);
        }
        if !bound.is_empty() {
            self.log_holders(key, cx);
        }
    }

    /// Sets the key's deadline to the latest deadline of a holder.
    pub(crate) fn follow_holders(&mut self, key: Key<'_>, cx: &mut ChangeCx<'_>) {
        let Some(holders) = self.holders(key) else { return };
        let deadline = holders.deadline();
        let known = self.find_undeleted(key).and_then(Entry::deadline);
        if known.map(|known| known.mono_ms(cx.now)) != deadline.map(|deadline| deadline.mono_ms(cx.now)) {
            self.set_deadline(key, deadline, if deadline.is_some() { HELD_UNTIL } else { HELD_ON }, cx);
        }
    }

    /// Logs the deadline and the holders of a lock with several holders, where no call has changed it.
    pub(super) fn log_holders(&self, key: Key<'_>, cx: &Cx) {
        if let Some(entry) = self.find_undeleted(key).filter(|_| self.holders(key).is_some()) {
            let unix_ms = entry.deadline().map(|deadline| deadline.wall_ms(cx.now));
            self.events.log_deadline(self.db(), key.bytes, unix_ms);
            self.log_lock(key, cx);
        }
    }

    /// Handles the change of the key of a lock with several holders: another value ends all of them, another deadline
    /// becomes the deadline of each.
    pub(super) fn pass_to_holders(&mut self, key: Key<'_>, event: &'static Event, cx: &mut ChangeCx<'_>) {
        if self.holders(key).is_none() {
            return;
        }
        match (self.find_undeleted(key), event.part()) {
            (None, _) => {} // `follow_lock` ends them
            (Some(_), ChangedPart::Beside) => {}
            (Some(_), ChangedPart::Value) => self.lose_lock(key, LossReason::Overwritten, cx),
            (Some(entry), ChangedPart::Deadline) => {
                let until_ms = entry.deadline().map_or(NEVER, |deadline: Deadline| deadline.mono_ms(cx.now));
                self.change_holders(key, cx, |holders| {
                    holders.iter_mut().for_each(|held| held.set_all_until(until_ms))
                });
            }
        }
    }
}

/// Returns the event of a lock's deletion after its last holder has ended.
fn last_holder_event(loss: Option<LossReason>) -> &'static Event {
    match loss {
        Some(LossReason::Expired) => event::EXPIRED,
        Some(LossReason::Session) => event::RELEASED,
        _ => Event::DEL,
    }
}
