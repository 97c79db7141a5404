//! The sessions that locks of a namespace belong to: their ends, and what is known of the holders of before the start.

use crate::client::info::{ClientInfo, LockName};
use crate::namespace::Namespace;
use crate::namespace::lock_holders::{Departed, KeptPlace};
use crate::store::{Cx, Key, LockHolder as _, Origin, View};
use crate::time::clock::Now;

/// When to try again what a busy script has prevented, in milliseconds.
const BUSY_RETRY_MS: u64 = 20;

impl Namespace {
    /// Has the locks released that are bound to a connection, which has ended: at once with `is_farewell`, else after
    /// `session-grace-ms`, or by the sweeper while a script keeps keys locked. Those in the queues for them must be served then.
    /// The view is one without declared keys.
    pub(crate) fn end_session(&self, client: &ClientInfo, view: &mut View<'_>, is_farewell: bool) {
        if let Some(engine) = self.engine() {
            return engine.end_session(client.id); // it knows the locks that the cluster has and the client does not
        }
        if !client.has_bound_locks() {
            return;
        }
        let names = client.bound_locks();
        let grace_ms =
            if is_farewell || client.flags.has_quit() { 0 } else { self.settings.current().session_grace_ms };
        match grace_ms == 0 && !view.is_closed() {
            true => self.release(client.id, &names, view),
            false => self.remember(Departed { client: client.id, locks: names, place: None }, grace_ms),
        }
    }

    /// Keeps the place of a client in the queues for locks whose connection has ended, for the grace. The view is one without
    /// declared keys.
    pub(crate) fn keep_place(&self, client: u64, place: KeptPlace, view: &mut View<'_>) {
        for key in &place.keys {
            view.locks().leave_for_now(place.db, self.store.key(key), place.number);
        }
        let departed = Departed { client, locks: Vec::new(), place: Some(place) };
        self.remember(departed, self.settings.current().session_grace_ms);
        self.lock_holders.give_up_places().iter().for_each(|place| self.leave_place(place, view));
    }

    /// Lets nobody have a place any more that was kept. The view is one without declared keys.
    fn leave_place(&self, place: &KeptPlace, view: &mut View<'_>) {
        for key in &place.keys {
            view.waiting().dequeue(place.db, self.store.key(key), place.number);
        }
    }

    /// Lets a key of a database be the lock that a text says, which is that of a file or of the primary. The view is one of the
    /// whole store, or without declared keys.
    pub(crate) fn adopt_lock(&self, (db, key): (usize, Key<'_>), text: &[u8], view: &mut View<'_>) {
        let former =
            |user: &[u8]| self.lock_holders.former(user, self.store.memory_account(), &self.clients.held_tokens);
        let fence = view.locks().adopt_text(db, key, text, |user| former(user));
        fence.into_iter().for_each(|fence| self.lock_holders.continue_after(fence));
    }

    /// Lets the sessions of before the start end: after the grace, or before this returns. The caller holds nothing of the
    /// store.
    pub(crate) fn end_former_sessions(&self) {
        if self.role.is_replica() || self.settings.current().session_grace_ms > 0 {
            return self.end_former_sessions_later();
        }
        // Not remembered first: the sweeper would take them, and may be slower.
        if self.end_sessions(self.former_sessions(), self.clock.now()).is_some() {
            self.upkeep.sweep_notify.notify_one();
        }
    }

    /// Lets the sweeper end the sessions of before the start, or of the former primary, after the grace.
    pub(crate) fn end_former_sessions_later(&self) {
        if !self.role.is_replica() {
            let grace_ms = self.settings.current().session_grace_ms;
            self.former_sessions().into_iter().for_each(|departed| self.remember(departed, grace_ms));
        }
    }

    fn former_sessions(&self) -> Vec<Departed> {
        let former = self.lock_holders.all_former().into_iter();
        former.map(|former| Departed { client: former.id(), locks: former.bound_locks(), place: None }).collect()
    }

    /// Remembers what is left of a client for the grace.
    fn remember(&self, departed: Departed, grace_ms: u64) {
        let until_ms = self.clock.now().ms_later(grace_ms);
        self.lock_holders.remember(departed, until_ms);
        self.upkeep.sweep_notify.notify_one();
    }

    /// Ends the sessions whose time is over; returns when the next one ends, in monotonic milliseconds, or
    /// [`NEVER`](crate::store::NEVER).
    pub(crate) fn end_departed_sessions(&self, now: Now) -> u64 {
        let departed = self.lock_holders.take_departed(now.mono_ms());
        self.end_sessions(departed, now).unwrap_or_else(|| self.lock_holders.next_end_ms())
    }

    /// Ends sessions; returns when to try it again, in monotonic milliseconds, if a script prevents it.
    fn end_sessions(&self, departed: Vec<Departed>, now: Now) -> Option<u64> {
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
        for Departed { client, locks, place } in &departed {
            self.release(*client, locks, &mut view);
            place.iter().for_each(|place| self.leave_place(place, &mut view));
        }
        None
    }

    /// Releases locks of a client; on a replica they are those of the primary, and stay.
    fn release(&self, client: u64, names: &[LockName], view: &mut View<'_>) {
        if self.role.is_replica() {
            return;
        }
        for (db, key) in names {
            // One that cannot be released ends by its TTL; the others are released all the same.
            let release = || view.locks().end_of_session(*db, self.store.key(key), client);
            if self.instance.panics.catch("release of a lock", release).is_none() {
                self.instance.panics.catch("recovery", || view.recover());
            }
        }
    }

    /// Releases a lock of a database that a client has acquired since a time, in monotonic microseconds, and was not told of; on
    /// a replica it is one of the primary, and stays. The view is one without declared keys.
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
