//! Blocking: the client of a call waits for a time, for a change of keys, or for its turn in the queue for a lock.

use std::sync::Arc;

use crate::client::registry::{Blocked, BlockedCall, Blocking, Unblocked};
use crate::dispatch::{BlockedRequest, Call, Continuation, Env, Next, Wait};
use crate::error::{Error, Result};
use crate::resp::{OwnedRequest, Reply};
use crate::spec::{INSERT, KeyFlags};
use crate::store::value::{Kind, Type};
use crate::store::{Key, LockWaiter, NEVER, Str, View};

impl Call<'_> {
    /// Blocks the client until a time, in monotonic milliseconds, and then replies; a nested call replies at once.
    pub fn wait_until(&mut self, until_ms: u64, on_timeout: impl Fn(&mut Reply<'_>) + Send + 'static) {
        self.block(until_ms, Box::new(on_timeout), None);
    }

    /// Blocks the client on the keys of its request, except those that it only adds to: when one of them has changed
    /// and holds a value of type `K`, the handler is called again, and replies if it can. At a time, in monotonic
    /// milliseconds, and at once in a nested call, `on_timeout` replies.
    pub fn block_on_keys<K: Kind>(&mut self, until_ms: u64, on_timeout: fn(&mut Reply<'_>)) {
        self.block(until_ms, Box::new(on_timeout), Some(Repetition::new(K::TYPE)));
    }

    /// Blocks the client like [`Call::block_on_keys`], to be called again as `repetition` says.
    pub(crate) fn block_and_repeat(&mut self, repetition: Repetition, until_ms: u64, on_timeout: fn(&mut Reply<'_>)) {
        self.block(until_ms, Box::new(on_timeout), Some(repetition));
    }

    /// Queues the client for a lock, its key: the handler is called again when the key is missing and nobody is
    /// before the client, or when another one has acquired the lock with the same token.
    pub(crate) fn block_in_queue(
        &mut self,
        token: &[u8],
        until_ms: u64,
        on_timeout: impl Fn(&mut Reply<'_>) + Send + 'static,
    ) {
        let token = Some(self.namespace.store.hash(token));
        let repetition = Repetition { token, ..Repetition::new(Str::TYPE) };
        self.block(until_ms, Box::new(on_timeout), Some(repetition));
    }

    fn block(&mut self, until_ms: u64, on_timeout: OnTimeout, repetition: Option<Repetition>) {
        let is_retry = self.is_retry();
        let retry_at_ms = repetition.as_ref().map_or(NEVER, |repetition| repetition.retry_at_ms);
        let Some(next) = self.mode.next() else { return on_timeout(&mut self.reply) };
        if is_retry {
            *next = Next::StayBlocked { retry_at_ms };
            return;
        }
        let (command, request) = (self.command, self.args.request());
        let spent_ns = self.timer.ns_since(self.timer.begin());
        let shown = Arc::new(request.to_owned());
        let keys: Vec<Box<[u8]>> = match repetition.is_some() {
            true => {
                let is_awaited = |(_, flags): &(usize, KeyFlags)| flags & INSERT == 0;
                let awaited = command.keys_of(request).filter(is_awaited);
                awaited.map(|(position, _)| request.arg(position).into()).collect()
            }
            false => Vec::new(),
        };
        let store = &self.namespace.store;
        let place = repetition.as_ref().map(|Repetition { awaited, heeds_absence, token, .. }| match token {
            Some(token) => Place::LockQueue { token: *token },
            None => Place::Queue { awaited: *awaited, heeds_absence: *heeds_absence },
        });
        let blocking = match repetition {
            Some(Repetition { request: other, heeds_absence, token, .. }) => Blocking::Keys(Box::new(BlockedCall {
                command,
                request: other.map_or_else(|| shown.clone(), Arc::new),
                shown: shown.clone(),
                caller: self.caller.clone(),
                hashes: command.keys_of(request).map(|(position, _)| store.hash(request.arg(position))).collect(),
                heeds_absence,
                token,
                retry_at_ms,
                spent_ns,
            })),
            None => Blocking::Time,
        };
        // Under the lock under which the keys were read: no change of them is missed.
        let blocked = self.namespace.clients.block(&self.caller.info, blocking, until_ms);
        let (client, since_us) = (self.caller.info.id, self.namespace.clock.now().mono_us());
        let number = blocked.number();
        keys.iter().map(|key| store.key(key)).for_each(|key| match place {
            Some(Place::LockQueue { token }) => {
                self.view.locks().join_queue(key, LockWaiter { client, number, token, since_us })
            }
            Some(Place::Queue { awaited, heeds_absence }) => {
                self.view.waiting().enqueue(key, blocked.waiter(awaited, heeds_absence));
            }
            None => {}
        });
        self.timer.report_next();
        let queues = keys.into_iter().map(|key| (store.hash(&key), key)).collect();
        let (db, is_in_lock_queue) = (self.caller.db, matches!(place, Some(Place::LockQueue { .. })));
        let rest = BlockedRest { blocked, queues, db, client, is_in_lock_queue, on_timeout, shown, spent_ns };
        *next = Next::Continue(Box::new(rest));
    }
}

/// How a blocked call is made again.
pub(crate) struct Repetition {
    /// With this request, which names the same keys, instead of the present one.
    pub(crate) request: Option<OwnedRequest>,
    /// When a key holds a value of this type.
    pub(crate) awaited: Type,
    /// Also when a key was deleted.
    pub(crate) heeds_absence: bool,
    /// Even if no key has changed, at this time in monotonic milliseconds.
    pub(crate) retry_at_ms: u64,
    /// Queued for a lock, with the hash of the token to acquire it with.
    pub(crate) token: Option<u64>,
}

impl Repetition {
    /// Returns that of a call which is made again when one of its keys has changed and has a value of a type.
    pub(crate) fn new(awaited: Type) -> Self {
        Repetition { request: None, awaited, heeds_absence: false, retry_at_ms: NEVER, token: None }
    }
}

/// Where a blocked client waits for a key.
enum Place {
    /// In the queue for a lock.
    LockQueue { token: u64 },
    /// Among those that wait for a value of a type.
    Queue { awaited: Type, heeds_absence: bool },
}

/// Replies on timeout.
type OnTimeout = Box<dyn Fn(&mut Reply<'_>) + Send>;

/// A call that is blocked.
struct BlockedRest {
    blocked: Blocked,
    /// The keys in whose queues the client is, with their hashes.
    queues: Vec<(u64, Box<[u8]>)>,
    db: usize,
    client: u64,
    /// Whether it is queued for a lock, its only key.
    is_in_lock_queue: bool,
    on_timeout: OnTimeout,
    shown: Arc<OwnedRequest>,
    spent_ns: u64,
}

impl BlockedRest {
    fn leave_queues(&self, view: &mut View<'_>) {
        for (hash, bytes) in &self.queues {
            view.waiting().dequeue(self.db, Key { bytes, hash: *hash }, self.blocked.number());
        }
    }
}

impl Continuation for BlockedRest {
    fn wait(&mut self) -> Wait<'_> {
        Wait::Blocked(&self.blocked)
    }

    fn step(&mut self, _: Env<'_>, view: &mut View<'_>, reply: &mut Reply<'_>, woken: Unblocked) -> Result<bool> {
        self.leave_queues(view);
        match woken {
            Unblocked::InTime => (self.on_timeout)(reply),
            Unblocked::WithError => return Err(Error::Unblocked),
            Unblocked::RoleChanged => return Err(Error::RoleChanged),
            Unblocked::Panicked => return Err(Error::Internal),
            Unblocked::Served(served) => reply.output().append(served),
        }
        Ok(true)
    }

    fn abandon(&mut self, env: Env<'_>, view: &mut View<'_>) {
        self.leave_queues(view);
        // The reply is lost, and so is an element that was popped. A lock would stay with nobody for its whole TTL.
        if self.is_in_lock_queue && self.blocked.was_served_in_vain() {
            let token = self.shown.as_request().arg(2);
            for (hash, bytes) in &self.queues {
                env.namespace.take_back_lock((self.db, Key { bytes, hash: *hash }), token, self.client, view);
            }
        }
    }

    fn blocked_call(&self) -> Option<BlockedRequest<'_>> {
        Some(BlockedRequest { request: self.shown.as_request(), spent_ns: self.spent_ns })
    }
}
