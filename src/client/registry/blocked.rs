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
use crate::store::NEVER;
use crate::store::value::Type;
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

/// The size of a blocked client's ticket and of its place among the others, whose nodes are half full, in bytes.
const TICKET_LEN: usize = allocation_len(COUNTED_LEN + size_of::<BlockedTicket>()) + 2 * size_of::<(u64, Wait)>();
/// The measured memory of the task of a blocked client beyond that of an idle one, in bytes.
const TASK_LEN: usize = 672;

impl Blocking {
    /// Returns the bytes allocated for a client that is blocked so.
    fn memory(&self) -> usize {
        let of_call = match self {
            Blocking::Keys(call) => call.memory(),
            Blocking::Pause | Blocking::Time => 0,
        };
        TASK_LEN + TICKET_LEN + of_call
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
    /// The type of value that the call waits for.
    pub awaited: Type,
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
pub(crate) struct Answered(Vec<(u64, Wait)>);

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

/// The ticket of a blocked client.
pub(crate) type BlockedTicket = Ticket<Blocking, Unblocked>;

/// The wait of a blocked client, as other tasks see it.
#[derive(Clone)]
pub(super) struct Wait {
    ticket: Arc<BlockedTicket>,
    /// The timeout in monotonic milliseconds, or [`NEVER`].
    until_ms: u64,
}

/// A client that is blocked until this is dropped.
pub struct Blocked {
    clients: Arc<Clients>,
    info: Arc<ClientInfo>,
    ticket: Arc<BlockedTicket>,
    /// The timeout in monotonic milliseconds, or [`NEVER`].
    pub until_ms: u64,
    is_timed: bool,
    /// The bytes that were reported for it.
    counted: usize,
    /// The hash of the token of a client in line for a lock.
    token: Option<u64>,
}

impl Blocked {
    /// Returns whether another party has answered the call. Waits for one that is executing it.
    pub fn is_answered(&self) -> bool {
        self.ticket.is_answered()
    }

    /// Returns the outcome of the wait if the call was answered, or if `heeds_timeout` and its timeout has passed.
    pub fn ended(&self, now: Now, heeds_timeout: bool) -> Option<Unblocked> {
        // A concurrent UNBLOCK comes first or has no effect.
        let is_over = || heeds_timeout && now.mono_ms() >= self.until_ms && self.ticket.take().is_some();
        self.ticket.fetch().or_else(|| is_over().then_some(Unblocked::InTime))
    }

    /// Returns when the client has something to do, in monotonic milliseconds: its wait is over, or its call is made
    /// again, which a pause delays.
    pub fn due_ms(&self, pause: &Pause, now: Now) -> u64 {
        let retry_at_ms = self.call(|call| call.retry_at_ms).unwrap_or(NEVER);
        let paused_until_ms = if retry_at_ms == NEVER { None } else { pause.in_force(now) };
        self.until_ms.min(paused_until_ms.map_or(retry_at_ms, |(_, end_ms)| retry_at_ms.max(end_ms)))
    }

    /// Reads the call, if the client is still blocked on keys.
    pub(crate) fn call<R>(&self, read: impl FnOnce(&BlockedCall) -> R) -> Option<R> {
        read_call(&self.ticket, read)
    }
}

/// Reads the call of a ticket, if it is blocked on keys.
fn read_call<R>(ticket: &BlockedTicket, read: impl FnOnce(&BlockedCall) -> R) -> Option<R> {
    let mut found = None;
    ticket.serve(|blocking| {
        if let Blocking::Keys(call) = blocking {
            found = Some(read(call));
        }
        None
    });
    found
}

impl Drop for Blocked {
    fn drop(&mut self) {
        self.ticket.take();
        self.clients.waits.lock().remove(&self.info.id);
        self.info.is_blocked.store(false, Relaxed);
        self.token.iter().for_each(|token| self.clients.leave_line(&self.info, *token));
        self.clients.timed.fetch_sub(usize::from(self.is_timed), Relaxed);
        self.clients.memory_account.report_outside(self.counted, 0);
        self.info.add_kept_len(-(self.counted as isize));
    }
}

impl Clients {
    /// Blocks a client until a time, in monotonic milliseconds, or until it is unblocked.
    pub fn block(self: &Arc<Self>, info: &Arc<ClientInfo>, blocking: Blocking, until_ms: u64) -> Blocked {
        let is_timed = !matches!(blocking, Blocking::Pause) && until_ms != NEVER;
        self.timed.fetch_add(usize::from(is_timed), Relaxed);
        let token = if let Blocking::Keys(call) = &blocking { call.token } else { None };
        token.iter().for_each(|token| self.enter_line(info, *token));
        let counted = blocking.memory();
        self.memory_account.report_outside(0, counted);
        info.add_kept_len(counted as isize);
        let ticket = Arc::new(Ticket::new(blocking));
        self.waits.lock().insert(info.id, Wait { ticket: ticket.clone(), until_ms });
        info.is_blocked.store(true, Relaxed);
        Blocked { clients: self.clone(), info: info.clone(), ticket, until_ms, is_timed, counted, token }
    }

    /// Ends a client's wait as if it had timed out, or with an error; returns whether it was blocked.
    pub fn unblock(&self, id: u64, unblocked: Unblocked) -> bool {
        self.answer(id, |blocking| (!matches!(blocking, Blocking::Pause)).then_some(unblocked))
    }

    /// Ends the waits of all clients that are blocked on keys, with an error.
    pub(crate) fn unblock_keys(&self) {
        for id in self.all_waits().into_keys() {
            self.answer(id, |blocking| matches!(blocking, Blocking::Keys(_)).then_some(Unblocked::WithError));
        }
    }

    /// Unblocks all clients that wait for the end of a pause; the others check what the pause has delayed.
    pub fn end_pause(&self) {
        let blocked: Vec<u64> = self.waits.lock().keys().copied().collect();
        for id in blocked {
            if !self.answer(id, |blocking| matches!(blocking, Blocking::Pause).then_some(Unblocked::InTime)) {
                self.find(id).iter().for_each(|client| client.outbox.signal(NUDGE));
            }
        }
    }

    /// Lets `answer` try to end a client's wait; returns whether it did.
    pub(crate) fn answer(&self, id: u64, answer: impl FnOnce(&mut Blocking) -> Option<Unblocked>) -> bool {
        let wait = self.waits.lock().get(&id).cloned();
        let (Some(client), Some(wait)) = (self.find(id), wait) else { return false };
        let is_over = wait.ticket.serve(answer);
        if is_over {
            client.outbox.signal(NUDGE);
        }
        is_over
    }

    /// Returns the lock that a client is in line for.
    pub(crate) fn awaited_lock(&self, id: u64) -> Option<LockName> {
        let wait = self.waits.lock().get(&id).cloned()?;
        read_call(&wait.ticket, BlockedCall::awaited_lock).flatten()
    }

    /// Makes every blocked client check its timeout: a steered clock was moved, stopped or started.
    pub fn nudge_blocked(&self) {
        self.all().iter().filter(|client| client.is_blocked()).for_each(|client| client.outbox.signal(NUDGE));
    }

    /// Calls `look` with each call that is blocked on keys.
    pub(crate) fn each_blocked_call(&self, mut look: impl FnMut(&BlockedCall)) {
        for wait in self.all_waits().values() {
            read_call(&wait.ticket, &mut look);
        }
    }

    fn all_waits(&self) -> BTreeMap<u64, Wait> {
        self.waits.lock().clone()
    }

    /// Ends the waits whose timeout has passed, as the clients do themselves while the clock runs.
    pub(crate) fn end_overdue(&self, now: Now) {
        for (id, wait) in self.all_waits() {
            if wait.until_ms <= now.mono_ms() {
                self.answer(id, |_| Some(Unblocked::InTime));
            }
        }
    }

    /// Returns when the next wait ends or the next blocked call is to be made again after `now`, in monotonic
    /// milliseconds, or [`NEVER`].
    pub(crate) fn next_due_ms(&self, now: Now) -> u64 {
        let due_ms = |wait: &Wait| {
            let retry_at_ms = read_call(&wait.ticket, |call| call.retry_at_ms).unwrap_or(NEVER);
            [wait.until_ms, retry_at_ms].into_iter().filter(|at_ms| *at_ms > now.mono_ms()).min()
        };
        self.all_waits().values().filter_map(due_ms).min().unwrap_or(NEVER)
    }

    /// Returns the keys, with their databases, of the blocked calls that are to be made again by now.
    pub(crate) fn due_keys(&self, now: Now) -> Vec<(usize, Box<[u8]>)> {
        let due = |wait: &Wait| {
            read_call(&wait.ticket, |call| (call.retry_at_ms <= now.mono_ms()).then(|| call.keys())).flatten()
        };
        self.all_waits().values().filter_map(due).flatten().collect()
    }

    /// Returns the clients that were answered and whose own tasks have not noticed yet.
    pub(crate) fn answered(&self) -> Answered {
        Answered(self.all_waits().into_iter().filter(|(_, wait)| wait.ticket.is_answered()).collect())
    }

    /// Returns whether the tasks of all these clients have fetched their answers.
    pub(crate) fn have_noticed(&self, answered: &Answered) -> bool {
        let waits = self.waits.lock();
        let is_same = |id: &u64, wait: &Wait| waits.get(id).is_some_and(|now| Arc::ptr_eq(&now.ticket, &wait.ticket));
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
