//! Blocking and unblocking of clients, for CLIENT PAUSE and blocking commands.

use std::sync::Arc;

use crate::client::info::{ClientInfo, RemoteClient};
use crate::client::outbox::NUDGE;
use crate::client::pause::Pause;
use crate::client::registry::Clients;
use crate::client::registry::mirrored::MirroredWaiter;
use crate::client::registry::wait::{Answered, BlockedCall, Blocking, ClientWait, Unblocked};
use crate::store::value::Type;
use crate::store::{KeyName, LockHolder as _, NEVER, Waiter};
use crate::time::clock::Now;

/// Guard of a blocked client, whose wait ends when the guard is dropped.
pub struct Blocked {
    clients: Arc<Clients>,
    wait: Arc<ClientWait>,
    is_timed: bool,
    /// Bytes reported for the wait.
    counted: usize,
    /// The hash of the token of a client queued for a lock.
    token: Option<u64>,
}

impl Blocked {
    pub(crate) fn number(&self) -> u64 {
        self.wait.number
    }

    /// Returns the wait, shared with other tasks.
    pub(crate) fn shared_wait(&self) -> Arc<ClientWait> {
        self.wait.clone()
    }

    /// Returns the client's entry for the queues of its keys.
    pub(crate) fn waiter(&self, wanted: Type, wake_on_delete: bool) -> Waiter {
        Waiter { number: self.wait.number, wanted, wake_on_delete, ticket: self.wait.clone() }
    }

    /// Returns true if another party has answered the call. Waits for a party that is executing it.
    pub fn is_answered(&self) -> bool {
        self.wait.ticket.is_answered()
    }

    /// Returns the outcome of the wait if the call was answered, or, with `heeds_timeout`, if its timeout has passed.
    pub fn ended(&self, now: Now, heeds_timeout: bool) -> Option<Unblocked> {
        let ClientWait { ticket, until_ms, .. } = &*self.wait;
        // A concurrent UNBLOCK comes first or has no effect.
        let is_over = || {
            let is_late = heeds_timeout && now.mono_ms() >= *until_ms;
            is_late && ticket.take_if(|blocking| !blocking.is_committing()).is_some()
        };
        ticket.fetch().or_else(|| is_over().then_some(Unblocked::InTime))
    }

    /// Ends the wait: no other party answers the call any more.
    pub fn end(&self) {
        let ClientWait { ticket, info, .. } = &*self.wait;
        ticket.take();
        if self.clients.waits.end(&self.wait) {
            if let Some(token) = self.token {
                self.clients.queued.leave(info, token);
            }
            if self.is_timed {
                self.clients.waits.remove_timed();
            }
            self.clients.memory_account.report_outside(self.counted, 0);
            info.buffers.add_kept_len(-(self.counted as isize));
        }
    }

    /// Begins another wait for the same client, until the same time.
    pub(crate) fn begin_again(&mut self, call: Box<BlockedCall>) {
        self.end();
        let (info, until_ms) = (self.wait.info.clone(), self.wait.until_ms);
        *self = self.clients.clone().block(&info, Blocking::Keys(call), until_ms);
    }

    /// Returns the time at which the wait ends at the latest, in monotonic milliseconds.
    pub(crate) fn until_ms(&self) -> u64 {
        self.wait.until_ms
    }

    /// Returns true if the call was executed for a client that disconnected before it got the reply.
    pub(crate) fn was_served_in_vain(&self) -> bool {
        self.wait.ticket.fetch().is_some_and(|answer| answer.is_reply())
    }

    /// Returns the time at which the client has something to do, in monotonic milliseconds: its wait ends, or its call
    /// is made again, which a pause delays.
    pub fn due_ms(&self, pause: &Pause, now: Now) -> u64 {
        if self.call(|call| call.is_committing) == Some(true) {
            return NEVER; // the client is nudged afterwards
        }
        let retry_at_ms = self.call(|call| call.retry_at_ms).unwrap_or(NEVER);
        let paused_until_ms = if retry_at_ms == NEVER { None } else { pause.in_force(now) };
        self.wait.until_ms.min(paused_until_ms.map_or(retry_at_ms, |(_, end_ms)| retry_at_ms.max(end_ms)))
    }

    /// Reads the call, if the client is still blocked on keys.
    pub(crate) fn call<R>(&self, read: impl FnOnce(&BlockedCall) -> R) -> Option<R> {
        self.wait.call(read)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        self.end();
    }
}

impl Clients {
    /// Blocks a client until a time, in monotonic milliseconds, or until it is unblocked. If it is blocked on keys,
    /// their shards are locked, so that the numbers of the waits ascend in the queue of each key.
    pub fn block(self: &Arc<Self>, info: &Arc<ClientInfo>, blocking: Blocking, until_ms: u64) -> Blocked {
        let is_timed = !matches!(blocking, Blocking::Pause) && until_ms != NEVER;
        if is_timed {
            self.waits.add_timed();
        }
        let token = if let Blocking::Keys(call) = &blocking { call.token } else { None };
        if let Some(token) = token {
            self.queued.enter(info, token);
        }
        let counted = blocking.memory();
        self.memory_account.report_outside(0, counted);
        info.buffers.add_kept_len(counted as isize);
        let wait = self.waits.begin(info, blocking, until_ms);
        Blocked { clients: self.clone(), wait, is_timed, counted, token }
    }

    /// Ends a client's wait as if it had timed out, or with an error; returns true if the client was blocked.
    pub fn unblock(&self, id: u64, unblocked: Unblocked) -> bool {
        let may_end = |blocking: &Blocking| !matches!(blocking, Blocking::Pause) && !blocking.is_committing();
        self.answer(id, |blocking| may_end(blocking).then_some(unblocked))
    }

    /// Ends the waits of all clients that are blocked on keys, with an error.
    pub(crate) fn unblock_keys(&self) {
        for wait in self.waits.all().values() {
            wait.answer(|blocking| matches!(blocking, Blocking::Keys(_)).then_some(Unblocked::WithError));
        }
    }

    /// Ends the waits of all clients but for those that wait for the end of a pause: the server has become a replica.
    pub(crate) fn end_waits(&self) {
        for wait in self.waits.all().values() {
            wait.answer(|blocking| (!matches!(blocking, Blocking::Pause)).then_some(Unblocked::RoleChanged));
        }
    }

    /// Unblocks all clients that wait for the end of a pause; the others check what the pause has delayed.
    pub fn end_pause(&self) {
        for wait in self.waits.all().values() {
            if !wait.answer(|blocking| matches!(blocking, Blocking::Pause).then_some(Unblocked::InTime)) {
                wait.info.outbox.signal(NUDGE);
            }
        }
    }

    /// Calls `answer` to end a client's wait; returns true if it did.
    pub(crate) fn answer(&self, id: u64, answer: impl FnOnce(&mut Blocking) -> Option<Unblocked>) -> bool {
        let wait = self.waits.of(id);
        wait.is_some_and(|wait| wait.answer(answer))
    }

    /// Returns the locks that a client is queued for.
    pub(crate) fn awaited_locks(&self, id: u64) -> Vec<KeyName> {
        let here = self.waits.of(id).and_then(|wait| wait.call(BlockedCall::awaited_locks)).unwrap_or_default();
        if here.is_empty() { self.mirrored.locks(id) } else { here }
    }

    /// Returns a copy of a client, also of a client of another process that is queued for a lock.
    pub(crate) fn shown(&self, id: u64) -> Option<RemoteClient> {
        self.find(id).map(|client| RemoteClient::of(&client)).or_else(|| self.mirrored.client(id))
    }

    /// Adds a client that is queued for locks in a cluster, with the number of its wait and the hash of its token.
    pub(crate) fn enter_mirrored(&self, client: RemoteClient, wait: u64, (locks, token): (Vec<KeyName>, u64)) {
        let id = client.id();
        if !self.mirrored.insert(id, wait, MirroredWaiter { client, locks, token }) {
            return; // one that asks for several locks is in each of their queues
        }
        match self.find(id) {
            Some(own) => self.queued.enter(&own, token),
            None => self.queued.enter_id(id, token),
        }
    }

    /// Removes a client that was queued for a lock in a cluster.
    pub(crate) fn leave_mirrored(&self, id: u64, wait: u64) {
        let Some(token) = self.mirrored.remove(id, wait) else { return };
        match self.find(id) {
            Some(own) => self.queued.leave(&own, token),
            None => self.queued.leave_id(id, token),
        }
    }

    /// Makes every blocked client check its timeout: a steered clock was moved, stopped or started.
    pub fn nudge_blocked(&self) {
        self.all().iter().filter(|client| client.flags.is_blocked()).for_each(|client| client.outbox.signal(NUDGE));
    }

    /// Calls `look` with each call that is blocked on keys.
    pub(crate) fn each_blocked_call(&self, mut look: impl FnMut(&BlockedCall)) {
        for wait in self.waits.all().values() {
            wait.call(&mut look);
        }
    }

    /// Ends the waits whose timeout has passed, as the clients do themselves while the clock runs.
    pub(crate) fn end_overdue(&self, now: Now) {
        let overdue = self.waits.all().into_values().filter(|wait| wait.until_ms <= now.mono_ms());
        let in_time = |blocking: &mut Blocking| (!blocking.is_committing()).then_some(Unblocked::InTime);
        let ended: Vec<Arc<ClientWait>> = overdue.filter(|wait| wait.answer_quietly(in_time)).collect();
        // Woken only now: what one of these clients frees is not for another one whose wait is over, too.
        ended.iter().for_each(|wait| wait.info.outbox.signal(NUDGE));
    }

    /// Returns the time after `now` at which the next wait ends or the next blocked call is to be made again, in
    /// monotonic milliseconds, or [`NEVER`].
    pub(crate) fn next_due_ms(&self, now: Now) -> u64 {
        let due_ms = |wait: &Arc<ClientWait>| {
            let retry_at_ms = wait.call(|call| call.retry_at_ms).unwrap_or(NEVER);
            [wait.until_ms, retry_at_ms].into_iter().filter(|at_ms| *at_ms > now.mono_ms()).min()
        };
        self.waits.all().values().filter_map(due_ms).min().unwrap_or(NEVER)
    }

    /// Returns the keys, with their databases, of the blocked calls that are to be made again by now.
    pub(crate) fn due_keys(&self, now: Now) -> Vec<KeyName> {
        let due = |wait: &Arc<ClientWait>| {
            wait.call(|call| (call.retry_at_ms <= now.mono_ms()).then(|| call.keys())).flatten()
        };
        self.waits.all().values().filter_map(due).flatten().collect()
    }

    /// Returns the waits of all blocked clients, by their ids.
    pub(crate) fn all_waits(&self) -> Vec<Arc<ClientWait>> {
        self.waits.all().into_values().collect()
    }

    /// Returns the clients that were answered and whose own tasks have not ended the wait yet.
    pub(crate) fn answered(&self) -> Answered {
        self.waits.answered()
    }

    /// Returns true if the tasks of all these clients have ended these waits.
    pub(crate) fn have_noticed(&self, answered: &Answered) -> bool {
        self.waits.have_noticed(answered)
    }

    /// Returns how many clients are blocked.
    pub fn blocked(&self) -> usize {
        self.waits.len()
    }

    /// Returns how many clients are blocked with a timeout.
    pub fn timed(&self) -> usize {
        self.waits.timed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::info::Peer;
    use crate::time::clock::Clock;

    #[test]
    fn a_client_has_noticed_its_answer_only_once_it_is_not_blocked_any_more() {
        let (clients, clock) = (Arc::new(Clients::default()), Clock::manual());
        let peer = Peer { addr: "test:0".into(), laddr: "test:0".into(), fd: -1, is_unix: true };
        let client = clients.admit(peer, clock.now(), usize::MAX).expect("there is room");
        let blocked = clients.block(&client, Blocking::Time, clock.now().mono_ms() + 250);
        assert!(clients.have_noticed(&clients.answered()));
        assert!(clients.unblock(client.id, Unblocked::InTime));
        assert!(!clients.have_noticed(&clients.answered()));
        assert!(blocked.ended(clock.now(), true).is_some());
        assert!(client.flags.is_blocked() && !clients.have_noticed(&clients.answered()));
        let answered = clients.answered();
        drop(blocked);
        assert!(!client.flags.is_blocked() && clients.have_noticed(&answered));
    }
}
