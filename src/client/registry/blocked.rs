//! Clients blocked by CLIENT PAUSE or by a blocking command.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::client::caller::Caller;
use crate::client::outbox::NUDGE;
use crate::client::pause::Pause;
use crate::client::registry::{ClientInfo, Clients, LockName};
use crate::client::ticket::Ticket;
use crate::memory::heap::{COUNTED_LEN, allocation_len, list_len};
use crate::resp::{Output, OwnedRequest};
use crate::spec::CommandSpec;
use crate::spec::registry::Hashes;
use crate::store::value::Type;
use crate::store::{NEVER, Waiter};
use crate::time::clock::Now;

/// What a blocked client waits for.
pub enum Blocking {
    /// The end of a pause; CLIENT UNBLOCK has no effect.
    Pause,
    /// Its timeout, or CLIENT UNBLOCK.
    Time,
    /// Keys: when one of them changes, the client that changed it executes the call again.
    Keys(Box<BlockedCall>),
}

/// The size of a blocked client's wait and of its place among the others, whose nodes are half full, in bytes.
const WAIT_LEN: usize = allocation_len(COUNTED_LEN + size_of::<Wait>()) + 2 * size_of::<(u64, Arc<Wait>)>();
/// The measured memory of the task of a blocked client beyond that of an idle one, in bytes.
const TASK_LEN: usize = 672;

impl Blocking {
    /// Returns the bytes allocated for a client that is blocked so.
    fn memory(&self) -> usize {
        let of_call = match self {
            Blocking::Keys(call) => call.memory(),
            Blocking::Pause | Blocking::Time => 0,
        };
        TASK_LEN + WAIT_LEN + of_call
    }
}

/// A call that could not be served with the present content of its keys.
pub struct BlockedCall {
    /// The command.
    pub command: &'static CommandSpec,
    /// The request that is made again.
    pub request: Arc<OwnedRequest>,
    /// The request as the client sent it.
    pub shown: Arc<OwnedRequest>,
    /// The caller.
    pub caller: Caller,
    /// The hashes of the keys, in the order of the grammar.
    pub hashes: Hashes,
    /// Whether the call is made again also when a key was deleted.
    pub heeds_absence: bool,
    /// The hash of the token of a client in line for a lock.
    pub token: Option<u64>,
    /// When the call is made again even if no key has changed, in monotonic milliseconds, or [`NEVER`].
    pub retry_at_ms: u64,
    /// The time it has taken so far, in nanoseconds.
    pub spent_ns: u64,
}

/// Blocked clients that were answered.
pub(crate) struct Answered(Vec<(u64, Arc<Wait>)>);

impl BlockedCall {
    /// Returns the keys, each with its database.
    pub(crate) fn keys(&self) -> Vec<(usize, Box<[u8]>)> {
        let request = self.request.as_request();
        let key_of = |(position, _)| (self.caller.db, Box::from(request.arg(position)));
        self.command.keys_of(request).map(key_of).collect()
    }

    /// Returns the bytes allocated: for itself, for the requests, and for the keys that its client leaves when it
    /// continues.
    fn memory(&self) -> usize {
        const REQUEST_LEN: usize = allocation_len(COUNTED_LEN + size_of::<OwnedRequest>());
        let request = self.request.as_request();
        let keys = self.command.keys_of(request);
        let of_keys: usize = keys.map(|(position, _)| allocation_len(request.arg(position).len())).sum();
        let places = list_len::<(u64, Box<[u8]>)>(self.hashes.len().max(4));
        let other = if Arc::ptr_eq(&self.request, &self.shown) { 0 } else { REQUEST_LEN + self.shown.memory() };
        allocation_len(size_of::<BlockedCall>()) + REQUEST_LEN + self.request.memory() + other + of_keys + places
    }

    /// Returns the lock that it is in line for.
    pub(crate) fn awaited_lock(&self) -> Option<LockName> {
        self.token?;
        self.keys().pop()
    }
}

/// The outcome of a wait.
#[derive(Debug)]
pub enum Unblocked {
    /// The awaited event has happened, or the timeout has passed.
    InTime,
    /// CLIENT UNBLOCK ... ERROR: the command fails.
    WithError,
    /// The call was executed; this is its reply.
    Served(Output),
    /// The call was executed and panicked: the client gets an error and is closed.
    Panicked,
}

/// The wait of a blocked client, as other tasks see it.
pub(crate) struct Wait {
    /// Larger than the numbers of all waits that began before.
    number: u64,
    ticket: Ticket<Blocking, Unblocked>,
    info: Arc<ClientInfo>,
    /// The timeout in monotonic milliseconds, or [`NEVER`].
    until_ms: u64,
}

impl Wait {
    /// Returns the wait of a client in the queue of a key.
    pub(crate) fn of(waiter: &Waiter) -> Option<&Self> {
        waiter.ticket.downcast_ref()
    }

    /// Lets `answer` try to end the wait; returns whether it did. A client that is about to be closed is given nothing any
    /// more.
    pub(crate) fn answer(&self, answer: impl FnOnce(&mut Blocking) -> Option<Unblocked>) -> bool {
        let is_over = !self.info.outbox.is_ending() && self.ticket.serve(answer);
        if is_over {
            self.info.outbox.signal(NUDGE);
        }
        is_over
    }

    /// Reads the call, if the client is still blocked on keys.
    pub(crate) fn call<R>(&self, read: impl FnOnce(&BlockedCall) -> R) -> Option<R> {
        let mut found = None;
        self.ticket.serve(|blocking| {
            if let Blocking::Keys(call) = blocking {
                found = Some(read(call));
            }
            None
        });
        found
    }
}

/// A client that is blocked until this is dropped.
pub struct Blocked {
    clients: Arc<Clients>,
    wait: Arc<Wait>,
    is_timed: bool,
    /// The bytes that were reported for it.
    counted: usize,
    /// The hash of the token of a client in line for a lock.
    token: Option<u64>,
}

impl Blocked {
    /// Returns the number of the wait.
    pub(crate) fn number(&self) -> u64 {
        self.wait.number
    }

    /// Returns the client as it stands in the queues of its keys.
    pub(crate) fn waiter(&self, wanted: Type, heeds_absence: bool) -> Waiter {
        Waiter { number: self.wait.number, wanted, heeds_absence, ticket: self.wait.clone() }
    }

    /// Returns whether another party has answered the call. Waits for one that is executing it.
    pub fn is_answered(&self) -> bool {
        self.wait.ticket.is_answered()
    }

    /// Returns the outcome of the wait if the call was answered, or if `heeds_timeout` and its timeout has passed.
    pub fn ended(&self, now: Now, heeds_timeout: bool) -> Option<Unblocked> {
        let Wait { ticket, until_ms, .. } = &*self.wait;
        // A concurrent UNBLOCK comes first or has no effect.
        let is_over = || heeds_timeout && now.mono_ms() >= *until_ms && ticket.take().is_some();
        ticket.fetch().or_else(|| is_over().then_some(Unblocked::InTime))
    }

    /// Ends the wait of a client that is gone: nobody answers its call any more.
    pub fn end(&self) {
        let Wait { ticket, info, .. } = &*self.wait;
        ticket.take();
        if self.clients.waits.lock().remove(&info.id).is_some() {
            info.is_blocked.store(false, Relaxed);
            self.token.iter().for_each(|token| self.clients.leave_line(info, *token));
            self.clients.timed.fetch_sub(usize::from(self.is_timed), Relaxed);
            self.clients.memory_account.report_outside(self.counted, 0);
            info.add_kept_len(-(self.counted as isize));
        }
    }

    /// Returns whether the call was executed for a client that was gone before it was told.
    pub(crate) fn was_served_in_vain(&self) -> bool {
        matches!(self.wait.ticket.fetch(), Some(Unblocked::Served(_)))
    }

    /// Returns when the client has something to do, in monotonic milliseconds: its wait is over, or its call is made
    /// again, which a pause delays.
    pub fn due_ms(&self, pause: &Pause, now: Now) -> u64 {
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
    /// Blocks a client until a time, in monotonic milliseconds, or until it is unblocked. If it is blocked on keys, these are
    /// locked: in the queue of each, the numbers of the waits ascend.
    pub fn block(self: &Arc<Self>, info: &Arc<ClientInfo>, blocking: Blocking, until_ms: u64) -> Blocked {
        let is_timed = !matches!(blocking, Blocking::Pause) && until_ms != NEVER;
        self.timed.fetch_add(usize::from(is_timed), Relaxed);
        let token = if let Blocking::Keys(call) = &blocking { call.token } else { None };
        token.iter().for_each(|token| self.enter_line(info, *token));
        let counted = blocking.memory();
        self.memory_account.report_outside(0, counted);
        info.add_kept_len(counted as isize);
        let number = self.last_wait.fetch_add(1, Relaxed) + 1;
        let wait = Arc::new(Wait { number, ticket: Ticket::new(blocking), info: info.clone(), until_ms });
        self.waits.lock().insert(info.id, wait.clone());
        info.is_blocked.store(true, Relaxed);
        Blocked { clients: self.clone(), wait, is_timed, counted, token }
    }

    /// Ends a client's wait as if it had timed out, or with an error; returns whether it was blocked.
    pub fn unblock(&self, id: u64, unblocked: Unblocked) -> bool {
        self.answer(id, |blocking| (!matches!(blocking, Blocking::Pause)).then_some(unblocked))
    }

    /// Ends the waits of all clients that are blocked on keys, with an error.
    pub(crate) fn unblock_keys(&self) {
        for wait in self.all_waits().values() {
            wait.answer(|blocking| matches!(blocking, Blocking::Keys(_)).then_some(Unblocked::WithError));
        }
    }

    /// Unblocks all clients that wait for the end of a pause; the others check what the pause has delayed.
    pub fn end_pause(&self) {
        for wait in self.all_waits().values() {
            if !wait.answer(|blocking| matches!(blocking, Blocking::Pause).then_some(Unblocked::InTime)) {
                wait.info.outbox.signal(NUDGE);
            }
        }
    }

    /// Lets `answer` try to end a client's wait; returns whether it did.
    pub(crate) fn answer(&self, id: u64, answer: impl FnOnce(&mut Blocking) -> Option<Unblocked>) -> bool {
        let wait = self.waits.lock().get(&id).cloned();
        wait.is_some_and(|wait| wait.answer(answer))
    }

    /// Returns the lock that a client is in line for.
    pub(crate) fn awaited_lock(&self, id: u64) -> Option<LockName> {
        let wait = self.waits.lock().get(&id).cloned()?;
        wait.call(BlockedCall::awaited_lock).flatten()
    }

    /// Makes every blocked client check its timeout: a steered clock was moved, stopped or started.
    pub fn nudge_blocked(&self) {
        self.all().iter().filter(|client| client.is_blocked()).for_each(|client| client.outbox.signal(NUDGE));
    }

    /// Calls `look` with each call that is blocked on keys.
    pub(crate) fn each_blocked_call(&self, mut look: impl FnMut(&BlockedCall)) {
        for wait in self.all_waits().values() {
            wait.call(&mut look);
        }
    }

    fn all_waits(&self) -> BTreeMap<u64, Arc<Wait>> {
        self.waits.lock().clone()
    }

    /// Ends the waits whose timeout has passed, as the clients do themselves while the clock runs.
    pub(crate) fn end_overdue(&self, now: Now) {
        for wait in self.all_waits().into_values().filter(|wait| wait.until_ms <= now.mono_ms()) {
            wait.answer(|_| Some(Unblocked::InTime));
        }
    }

    /// Returns when the next wait ends or the next blocked call is to be made again after `now`, in monotonic
    /// milliseconds, or [`NEVER`].
    pub(crate) fn next_due_ms(&self, now: Now) -> u64 {
        let due_ms = |wait: &Arc<Wait>| {
            let retry_at_ms = wait.call(|call| call.retry_at_ms).unwrap_or(NEVER);
            [wait.until_ms, retry_at_ms].into_iter().filter(|at_ms| *at_ms > now.mono_ms()).min()
        };
        self.all_waits().values().filter_map(due_ms).min().unwrap_or(NEVER)
    }

    /// Returns the keys, with their databases, of the blocked calls that are to be made again by now.
    pub(crate) fn due_keys(&self, now: Now) -> Vec<(usize, Box<[u8]>)> {
        let due =
            |wait: &Arc<Wait>| wait.call(|call| (call.retry_at_ms <= now.mono_ms()).then(|| call.keys())).flatten();
        self.all_waits().values().filter_map(due).flatten().collect()
    }

    /// Returns the clients that were answered and whose own tasks have not noticed yet.
    pub(crate) fn answered(&self) -> Answered {
        Answered(self.all_waits().into_iter().filter(|(_, wait)| wait.ticket.is_answered()).collect())
    }

    /// Returns whether the tasks of all these clients have fetched their answers.
    pub(crate) fn have_noticed(&self, answered: &Answered) -> bool {
        let waits = self.waits.lock();
        let is_same = |id: &u64, wait: &Arc<Wait>| waits.get(id).is_some_and(|now| Arc::ptr_eq(now, wait));
        !answered.0.iter().any(|(id, wait)| is_same(id, wait))
    }

    /// Returns how many clients are blocked.
    pub fn blocked(&self) -> usize {
        self.waits.lock().len()
    }

    /// Returns how many clients are blocked with a timeout.
    pub fn timed(&self) -> usize {
        self.timed.load(Relaxed)
    }
}
