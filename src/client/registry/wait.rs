//! Waits of blocked clients.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::client::caller::Caller;
use crate::client::info::ClientInfo;
use crate::client::outbox::NUDGE;
use crate::client::ticket::Ticket;
use crate::memory::heap::{COUNTED_LEN, allocation_len, list_len};
use crate::resp::{Output, OwnedRequest};
use crate::runtime::executor::record_answer;
use crate::spec::CommandSpec;
use crate::spec::registry::Hashes;
use crate::store::{KeyName, Waiter};

/// Event that a blocked client waits for.
pub enum Blocking {
    /// The end of a pause; CLIENT UNBLOCK has no effect.
    Pause,
    /// The timeout, or CLIENT UNBLOCK.
    Time,
    /// Keys: when one of them changes, the client that changed it executes the call again.
    Keys(Box<BlockedCall>),
}

/// Size of a blocked client's wait and of its entry in [`Waits`], whose nodes are half full, in bytes.
const WAIT_LEN: usize = allocation_len(COUNTED_LEN + size_of::<ClientWait>()) + 2 * size_of::<(u64, Arc<ClientWait>)>();
/// Measured memory of the task of a blocked client beyond that of an idle one, in bytes.
const TASK_LEN: usize = 672;

impl Blocking {
    /// Returns true while the cluster has not confirmed the call, which an engine has executed.
    pub(super) fn is_committing(&self) -> bool {
        matches!(self, Blocking::Keys(call) if call.is_committing)
    }

    /// Returns the bytes allocated for a client that is blocked in this way.
    pub(super) fn memory(&self) -> usize {
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
    /// True if the call is also made again when a key was deleted or holds another type.
    pub wake_on_delete: bool,
    /// The hash of the token of a client queued for a lock, unless an engine queues it.
    pub token: Option<u64>,
    /// Time at which the call is made again even if no key has changed, in monotonic milliseconds, or
    /// [`NEVER`](crate::store::NEVER).
    pub retry_at_ms: u64,
    /// Consumer group whose entries the call waits for, where an engine repeats it.
    pub(crate) group: Option<AwaitedGroup>,
    /// Time spent on the call so far, in nanoseconds.
    pub spent_ns: u64,
    /// True while an engine, which has executed the call, waits for the cluster: neither the timeout nor CLIENT UNBLOCK
    /// ends the wait then.
    pub(crate) is_committing: bool,
}

impl BlockedCall {
    /// Returns the keys, each with its database.
    pub(crate) fn keys(&self) -> Vec<KeyName> {
        let request = self.request.as_request();
        let key_of = |(position, _)| (self.caller.db, Box::from(request.arg(position)));
        self.command.keys_of(request).map(key_of).collect()
    }

    /// Returns the bytes allocated for the call, for its requests, and for the keys whose queues its client leaves when
    /// it continues.
    fn memory(&self) -> usize {
        const REQUEST_LEN: usize = allocation_len(COUNTED_LEN + size_of::<OwnedRequest>());
        let places = list_len::<(u64, usize)>(self.hashes.len());
        let group = self.group.as_ref().map_or(0, |group| allocation_len(COUNTED_LEN + group.name.len()));
        let other = if Arc::ptr_eq(&self.request, &self.shown) { 0 } else { REQUEST_LEN + self.shown.memory() };
        allocation_len(size_of::<BlockedCall>()) + REQUEST_LEN + self.request.memory() + other + places + group
    }

    /// Returns the locks that the client is queued for.
    pub(crate) fn awaited_locks(&self) -> Vec<KeyName> {
        if self.token.is_some() { self.keys() } else { Vec::new() }
    }
}

/// The consumer group whose entries a blocked call waits for.
#[derive(Clone, Debug)]
pub(crate) struct AwaitedGroup {
    /// The name of the group.
    pub(crate) name: Arc<[u8]>,
    /// True if the call also takes entries that were delivered to other consumers.
    pub(crate) claims: bool,
}

/// The outcome of a wait.
pub enum Unblocked {
    /// The awaited event has happened, or the timeout has passed.
    InTime,
    /// CLIENT UNBLOCK ... ERROR: the command fails.
    WithError,
    /// The server has become a replica: the command fails, and the client is closed.
    RoleChanged,
    /// The call was executed; this is its reply.
    Served(Output),
    /// The call was executed, and has acquired locks, which may expire before the client gets the reply.
    Granted(Box<Grant>),
    /// The call was executed and panicked: the client gets an error and is closed.
    Panicked,
}

/// Locks that were granted to a client queued for them.
pub struct Grant {
    pub(crate) reply: Output,
    /// The fencing tokens, in the order of the keys.
    pub(crate) fences: Vec<i64>,
    /// Time at which the first of the locks expires, in monotonic milliseconds, or [`NEVER`](crate::store::NEVER).
    pub(crate) until_ms: u64,
    /// Call to make again if a lock has expired; `None` where an engine has executed it.
    pub(crate) call: Option<Box<BlockedCall>>,
}

impl Unblocked {
    /// Returns true if the call was executed for the client, and has replied.
    pub(crate) fn is_reply(&self) -> bool {
        matches!(self, Unblocked::Served(_) | Unblocked::Granted(_))
    }
}

/// The wait of a blocked client, as other tasks see it.
pub(crate) struct ClientWait {
    /// Number of the wait, larger than those of all waits that began before.
    pub(super) number: u64,
    pub(super) ticket: Ticket<Blocking, Unblocked>,
    pub(super) info: Arc<ClientInfo>,
    /// The timeout in monotonic milliseconds, or [`NEVER`](crate::store::NEVER).
    pub(super) until_ms: u64,
}

impl ClientWait {
    /// Returns the wait of a client in the queue of a key.
    pub(crate) fn of(waiter: &Waiter) -> Option<&Self> {
        waiter.ticket.downcast_ref()
    }

    /// Returns the wait of a client in the queue of a key, shared.
    pub(crate) fn shared(waiter: &Waiter) -> Option<Arc<Self>> {
        waiter.ticket.clone().downcast().ok()
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns true until the client is answered or unblocked.
    pub(crate) fn is_blocked(&self) -> bool {
        self.ticket.is_blocked()
    }

    /// Reserves the answer for an engine from now on; returns false if the client is not blocked any more.
    pub(crate) fn begin_commit(&self) -> bool {
        self.set_committing(true)
    }

    /// Reverts [`ClientWait::begin_commit`].
    pub(crate) fn end_commit(&self) {
        if self.set_committing(false) {
            self.info.outbox.signal(NUDGE); // the timeout may have passed meanwhile
        }
    }

    fn set_committing(&self, is_committing: bool) -> bool {
        let mut is_blocked = false;
        self.ticket.serve(|blocking| {
            if let Blocking::Keys(call) = blocking {
                (is_blocked, call.is_committing) = (true, is_committing);
            }
            None
        });
        is_blocked
    }

    /// Sets the time at which the call is made again, in monotonic milliseconds, and wakes the client if that is
    /// earlier than before.
    pub(crate) fn stay_blocked(&self, retry_at_ms: u64) {
        let mut is_earlier = false;
        self.ticket.serve(|blocking| {
            if let Blocking::Keys(call) = blocking {
                is_earlier = retry_at_ms < call.retry_at_ms;
                (call.retry_at_ms, call.is_committing) = (retry_at_ms, false);
            }
            None
        });
        if is_earlier {
            self.info.outbox.signal(NUDGE);
        }
    }

    /// Calls `answer` to end the wait; returns true if it did. A client that is about to be closed is given nothing any
    /// more.
    pub(crate) fn answer(&self, answer: impl FnOnce(&mut Blocking) -> Option<Unblocked>) -> bool {
        let is_over = self.answer_quietly(answer);
        if is_over {
            record_answer();
            self.info.outbox.signal(NUDGE);
        }
        is_over
    }

    /// Answers the client as [`ClientWait::answer`] does, without waking its task.
    pub(super) fn answer_quietly(&self, answer: impl FnOnce(&mut Blocking) -> Option<Unblocked>) -> bool {
        !self.info.outbox.is_ending() && self.ticket.serve(answer)
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

/// The waits of the blocked clients.
#[derive(Default)]
pub(super) struct Waits {
    /// Number of the wait that began last.
    last: AtomicU64,
    by_client: Mutex<BTreeMap<u64, Arc<ClientWait>>>,
    /// Number of waits with a timeout.
    timed: AtomicUsize,
}

/// Waits that were answered.
pub(crate) struct Answered(Vec<(u64, Arc<ClientWait>)>);

impl Waits {
    pub(super) fn begin(&self, info: &Arc<ClientInfo>, blocking: Blocking, until_ms: u64) -> Arc<ClientWait> {
        let number = self.last.fetch_add(1, Relaxed) + 1;
        let wait = Arc::new(ClientWait { number, ticket: Ticket::new(blocking), info: info.clone(), until_ms });
        let mut by_client = self.by_client.lock();
        by_client.insert(info.id, wait.clone());
        info.flags.set_blocked(true); // under the lock: a wait that is found has its flag
        drop(by_client);
        wait
    }

    /// Ends the wait of a client; returns true if it had not ended before. The client may have begun another one since.
    pub(super) fn end(&self, wait: &Arc<ClientWait>) -> bool {
        let mut by_client = self.by_client.lock();
        let was_waiting = by_client.get(&wait.info.id).is_some_and(|present| Arc::ptr_eq(present, wait));
        if was_waiting {
            by_client.remove(&wait.info.id);
            wait.info.flags.set_blocked(false); // under the lock, as in `begin`
        }
        was_waiting
    }

    pub(super) fn of(&self, client: u64) -> Option<Arc<ClientWait>> {
        self.by_client.lock().get(&client).cloned()
    }

    /// Returns the waits, by the clients' ids.
    pub(super) fn all(&self) -> BTreeMap<u64, Arc<ClientWait>> {
        self.by_client.lock().clone()
    }

    pub(super) fn len(&self) -> usize {
        self.by_client.lock().len()
    }

    /// Counts a wait with a timeout.
    pub(super) fn add_timed(&self) {
        self.timed.fetch_add(1, Relaxed);
    }

    /// Reverts [`Waits::add_timed`].
    pub(super) fn remove_timed(&self) {
        self.timed.fetch_sub(1, Relaxed);
    }

    pub(super) fn timed(&self) -> usize {
        self.timed.load(Relaxed)
    }

    /// Returns the waits that are over and whose clients' own tasks have not ended them yet: they may have fetched the
    /// answer and be about to.
    pub(super) fn answered(&self) -> Answered {
        Answered(self.all().into_iter().filter(|(_, wait)| !wait.ticket.is_blocked()).collect())
    }

    /// Returns true if the tasks of all these clients have ended these waits.
    pub(super) fn have_noticed(&self, answered: &Answered) -> bool {
        let waits = self.by_client.lock();
        let is_same = |id: &u64, wait: &Arc<ClientWait>| waits.get(id).is_some_and(|now| Arc::ptr_eq(now, wait));
        !answered.0.iter().any(|(id, wait)| is_same(id, wait))
    }
}
