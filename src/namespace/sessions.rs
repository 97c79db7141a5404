//! The sessions that own locks of a namespace: their ends, and the restored holders of locks from before the start.

use crate::client::info::ClientInfo;
use crate::namespace::Namespace;
use crate::namespace::lock_holders::{DepartedClient, ReservedSlot};
use crate::store::{Cx, Key, KeyName, LockHolder as _, Origin, View};
use crate::time::clock::Now;

/// Pause before the next attempt after a busy script, in milliseconds.
const BUSY_RETRY_MS: u64 = 20;

impl Namespace {
    /// Releases the locks that are bound to a connection which has ended: at once with `is_farewell`, otherwise after
    /// `session-grace-ms`, or by the sweeper while a script keeps keys locked. The caller must then serve the queues
    /// for them. The view is one without declared keys.
    pub(crate) fn end_session(&self, client: &ClientInfo, view: &mut View<'_>, is_farewell: bool) {
        let grace_ms =
            if is_farewell || client.flags.has_quit() { 0 } else { self.settings.current().session_grace_ms };
        if let Some(engine) = self.engine() {
            return engine.end_session(client.id, grace_ms); // the engine knows locks unknown to the client
        }
        if !client.has_bound_locks() {
            return;
        }
        let names = client.bound_locks();
        if grace_ms == 0 && !view.is_closed() {
            self.release(client.id, &names, view);
        } else {
            self.remember(DepartedClient { client: client.id, locks: names, place: None }, grace_ms);
        }
    }

    /// Retains the queue position of a client whose connection has ended, for the grace time. The view is one without
    /// declared keys.
    pub(crate) fn reserve_slot(&self, client: u64, place: ReservedSlot, view: &mut View<'_>) {
        for key in &place.keys {
            view.locks().leave_for_now(place.db, self.store.key(key), place.number);
        }
        let departed = DepartedClient { client, locks: Vec::new(), place: Some(place) };
        self.remember(departed, self.settings.current().session_grace_ms);
        self.lock_holders.give_up_places().iter().for_each(|place| self.leave_place(place, view));
    }

    /// Removes a kept position from the queues. The view is one without declared keys.
    fn leave_place(&self, place: &ReservedSlot, view: &mut View<'_>) {
        for key in &place.keys {
            view.waiting().dequeue(place.db, self.store.key(key), place.number);
        }
    }

    /// Makes a key a lock by the text of a lock record, from a file or from the primary. The view is one of the whole
    /// store, or without declared keys.
    pub(crate) fn adopt_lock(&self, (db, key): (usize, Key<'_>), text: &[u8], view: &mut View<'_>) {
        let former =
            |user: &[u8]| self.lock_holders.former(user, self.store.memory_account(), &self.clients.held_tokens);
        let fence = view.locks().adopt_text(db, key, text, |user| former(user));
        fence.into_iter().for_each(|fence| self.lock_holders.continue_after(fence));
    }

    /// Ends the sessions from before the start: after the grace time, or before this returns. The caller holds no part
    /// of the store.
    pub(crate) fn end_former_sessions(&self) {
        if self.role.is_replica() || self.settings.current().session_grace_ms > 0 {
            return self.end_former_sessions_later();
        }
        // Not retained first: the sweeper would take them, and may be slower.
        if self.end_sessions(self.former_sessions(), self.clock.now()).is_some() {
            self.upkeep.sweep_notify.notify_one();
        }
    }

    /// Has the sweeper end the sessions from before the start, or of the former primary, after the grace time.
    pub(crate) fn end_former_sessions_later(&self) {
        if !self.role.is_replica() {
            let grace_ms = self.settings.current().session_grace_ms;
            self.former_sessions().into_iter().for_each(|departed| self.remember(departed, grace_ms));
        }
    }

    fn former_sessions(&self) -> Vec<DepartedClient> {
        let former = self.lock_holders.all_former().into_iter();
        former.map(|former| DepartedClient { client: former.id(), locks: former.bound_locks(), place: None }).collect()
    }

    /// Retains the state of a departed client for the grace time.
    fn remember(&self, departed: DepartedClient, grace_ms: u64) {
        let until_ms = self.clock.now().ms_later(grace_ms);
        self.lock_holders.remember(departed, until_ms);
        self.upkeep.sweep_notify.notify_one();
    }

    /// Ends the sessions whose time is over; returns the end of the next one, in monotonic milliseconds, or
    /// [`NEVER`](crate::store::NEVER).
    pub(crate) fn end_departed_sessions(&self, now: Now) -> u64 {
        let departed = self.lock_holders.take_departed(now.mono_ms());
        self.end_sessions(departed, now).unwrap_or_else(|| self.lock_holders.next_end_ms())
    }

    /// Ends sessions; returns the time for another attempt, in monotonic milliseconds, if a script prevents it.
    fn end_sessions(&self, departed: Vec<DepartedClient>, now: Now) -> Option<u64> {
        if departed.is_empty() {
            return None;
        }
        let mut guard = self.store.hold(1);
        let mut view = guard.view(0, &[], Cx::new(now, Origin::HOST));
        if view.is_closed() {
            let later_ms = now.mono_ms() + BUSY_RETRY_MS;
            departed.into_iter().for_each(|departed| self.lock_holders.remember(departed, later_ms));
            return Some(later_ms);
        }
        for DepartedClient { client, locks, place } in &departed {
            self.release(*client, locks, &mut view);
            if let Some(place) = place {
                self.leave_place(place, &mut view);
            }
        }
        None
    }

    /// Releases locks of a client; on a replica they are those of the primary, and stay.
    fn release(&self, client: u64, names: &[KeyName], view: &mut View<'_>) {
        if self.role.is_replica() {
            return;
        }
        for (db, key) in names {
            // A lock that cannot be released ends by its TTL; the others are released all the same.
            let release = || view.locks().end_of_session(*db, self.store.key(key), client);
            if self.instance.panics.catch("release of a lock", release).is_none() {
                self.instance.panics.catch("recovery", || view.recover());
            }
        }
    }

    /// Releases a lock that a client has acquired since a time, in monotonic microseconds, without being told; on a
    /// replica the lock is one of the primary, and stays. The view is one without declared keys.
    pub(crate) fn take_back_lock(
        &self,
        (db, key): (usize, Key<'_>),
        token: &[u8],
        acquired: (u64, u64),
        view: &mut View<'_>,
    ) {
        if !self.role.is_replica() {
            view.locks().take_back(db, key, token, acquired);
        }
    }
}
