//! Blocking calls: the client waits until a time, for a change of keys, or for its turn in the queue for a lock.

use std::sync::Arc;

use crate::client::registry::{
    AwaitedGroup, BlockedCall, BlockedOn, Blocking, ClientWait, Grant, OnTimeout, QueuePlace, Suspended, Unblocked,
};
use crate::dispatch::call::CallMode;
use crate::dispatch::serve::{held_lock, token_at};
use crate::dispatch::{BlockedRequest, Call, Continuation, Env, Next, Wait};
use crate::error::{Error, Result};
use crate::namespace::ReservedSlot;
use crate::resp::{OwnedRequest, Reply};
use crate::spec::{INSERT, KeyFlags};
use crate::store::value::{DataType, Type};
use crate::store::{NEVER, Str, View};

impl Call<'_> {
    /// Blocks the client until a time, in monotonic milliseconds, and then calls `on_timeout` for its reply. A nested
    /// call replies at once.
    pub fn wait_until(&mut self, until_ms: u64, on_timeout: impl Fn(&mut Reply<'_>) + Send + 'static) {
        self.block(until_ms, Box::new(on_timeout), None);
    }

    /// Blocks the client like [`Call::wait_until`], and returns the wait, for another task to answer; `None` for a nested
    /// call.
    pub(crate) fn wait_for_answer(
        &mut self,
        until_ms: u64,
        on_timeout: impl Fn(&mut Reply<'_>) + Send + 'static,
    ) -> Option<Arc<ClientWait>> {
        if self.is_nested() {
            return None;
        }
        let suspended = self.suspend(until_ms, Box::new(on_timeout), None);
        let wait = suspended.blocked.shared_wait();
        self.timer.report_next();
        self.mode.leave(Next::Continue(Box::new(suspended)));
        Some(wait)
    }

    /// Blocks the client on the keys of its request, except on keys with the flag INSERT. When one of them has changed
    /// and holds a value of type `K`, the handler is called again, and replies if it can. At `until_ms`, in monotonic
    /// milliseconds, and at once in a nested call, `on_timeout` writes the reply.
    pub fn block_on_keys<K: DataType>(&mut self, until_ms: u64, on_timeout: fn(&mut Reply<'_>)) {
        self.block(until_ms, Box::new(on_timeout), Some(BlockedRetry::new(K::TYPE)));
    }

    /// Blocks the client like [`Call::block_on_keys`]; `retry` says when and with which request its call is made
    /// again.
    pub(crate) fn block_and_repeat(&mut self, retry: BlockedRetry, until_ms: u64, on_timeout: fn(&mut Reply<'_>)) {
        self.block(until_ms, Box::new(on_timeout), Some(retry));
    }

    /// Queues the client for the locks that its keys are, at a reserved place or, with the number 0, at the end. The
    /// handler is called again when it may be the client's turn, or when another client has acquired one of the locks
    /// with the same token.
    pub(crate) fn block_in_queue(
        &mut self,
        place: QueuePlace,
        until_ms: u64,
        on_timeout: impl Fn(&mut Reply<'_>) + Send + 'static,
    ) {
        let retry = BlockedRetry { lock: Some(place), ..BlockedRetry::new(Str::TYPE) };
        self.block(until_ms, Box::new(on_timeout), Some(retry));
    }

    fn block(&mut self, until_ms: u64, on_timeout: OnTimeout, retry: Option<BlockedRetry>) {
        if self.is_retry() {
            let retry_at_ms = retry.map_or(NEVER, |retry| retry.retry_at_ms);
            return self.mode.leave(Next::StayBlocked { retry_at_ms });
        }
        if !self.mode.may_block() {
            return on_timeout(&mut self.reply);
        }
        let suspended = self.suspend(until_ms, on_timeout, retry);
        self.timer.report_next();
        match &mut self.mode {
            // The keys are copies: a change of the real ones does not reach their queues.
            CallMode::Staged { suspended: place, .. } => **place = Some(Box::new(suspended)),
            mode => {
                suspended.join_queues(&mut self.view);
                mode.leave(Next::Continue(Box::new(suspended)));
            }
        }
    }

    /// Blocks the client. It is to join the queues of its keys under the same lock under which the keys were read, so
    /// that no change is missed.
    fn suspend(&mut self, until_ms: u64, on_timeout: OnTimeout, retry: Option<BlockedRetry>) -> Suspended {
        let (command, request) = (self.command, self.args.request());
        let spent_ns = self.timer.ns_since(self.timer.begin());
        let shown = Arc::new(request.to_owned());
        let store = &self.namespace.store;
        let keys: Box<[(u64, usize)]> = if retry.is_some() {
            let is_awaited = |(_, flags): &(usize, KeyFlags)| flags & INSERT == 0;
            let awaited = command.keys_of(request).filter(is_awaited);
            awaited.map(|(position, _)| (store.hash(request.arg(position)), position)).collect()
        } else {
            Box::default()
        };
        let mut place = retry.as_ref().map(|BlockedRetry { awaited, wake_on_delete, lock, .. }| match lock {
            Some(place) => BlockedOn::LockQueue(*place),
            None => BlockedOn::Queue { awaited: *awaited, wake_on_delete: *wake_on_delete },
        });
        let mut caller = self.caller.clone();
        caller.staged = None; // the repeated call is staged anew
        let blocking = match retry {
            Some(BlockedRetry { request: other, wake_on_delete, lock, retry_at_ms, group, .. }) => {
                Blocking::Keys(Box::new(BlockedCall {
                    command,
                    request: other.map_or_else(|| shown.clone(), Arc::new),
                    shown: shown.clone(),
                    caller,
                    hashes: command.keys_of(request).map(|(position, _)| store.hash(request.arg(position))).collect(),
                    wake_on_delete,
                    // A staged call is queued once the cluster has it.
                    token: lock.filter(|_| self.caller.staged.is_none()).map(|place| place.token),
                    retry_at_ms,
                    group,
                    spent_ns,
                    is_committing: false,
                }))
            }
            None => Blocking::Time,
        };
        let blocked = self.namespace.clients.block(&self.caller.info, blocking, until_ms);
        if let Some(BlockedOn::LockQueue(place)) = &mut place
            && place.number == 0
        {
            place.number = blocked.number();
        }
        let (db, client) = (self.caller.db, self.caller.info.id);
        Suspended { blocked, place, keys, db, client, on_timeout, shown, spent_ns }
    }
}

/// Conditions and request for making a blocked call again.
pub(crate) struct BlockedRetry {
    /// Request to be made instead of the present one; it names the same keys.
    pub(crate) request: Option<OwnedRequest>,
    /// Type of the value that a key must hold.
    pub(crate) awaited: Type,
    /// True if the call is also made again when a key was deleted or holds another type.
    pub(crate) wake_on_delete: bool,
    /// Time at which the call is made again even if no key has changed, in monotonic milliseconds.
    pub(crate) retry_at_ms: u64,
    /// Consumer group whose entries the call waits for.
    pub(crate) group: Option<AwaitedGroup>,
    /// Place in the queues for locks.
    pub(crate) lock: Option<QueuePlace>,
}

impl BlockedRetry {
    /// Creates the retry of a call that is made again when one of its keys has changed and holds a value of this
    /// type.
    pub(crate) fn new(awaited: Type) -> Self {
        BlockedRetry { request: None, awaited, wake_on_delete: false, retry_at_ms: NEVER, group: None, lock: None }
    }
}

impl Suspended {
    /// Makes an engine repeat the calls of other clients blocked on the keys whose queues this client has left.
    fn pass_on(&self, env: Env<'_>) {
        if let (Some(engine), Some(BlockedOn::Queue { .. })) = (env.namespace.engine(), self.place) {
            engine.pass_on(self.keys().map(|key| (self.db, key.bytes.into())).collect());
        }
    }

    /// Checks whether the client still holds the locks that it was given, if they may have expired because this task
    /// was held up. Returns how its wait ends; `None` if it continues to wait, at its former place. A lock that another
    /// client has released or deleted in the meantime stays granted: the client is told of the loss, and a second grant
    /// would contradict the order that the clients see.
    fn confirm(
        &mut self,
        Grant { reply, fences, until_ms, call }: Grant,
        view: &mut View<'_>,
        env: Env<'_>,
    ) -> Option<Unblocked> {
        let Some(BlockedOn::LockQueue(place)) = self.place else { return Some(Unblocked::Served(reply)) };
        // On a steered clock, tasks take no time.
        if view.now().mono_ms() < until_ms || env.namespace.clock.is_steered() {
            return Some(Unblocked::Served(reply));
        }
        let token = self.shown.as_request().arg(token_at(place.mode, self.keys.len()));
        let mut fence_of = |key| held_lock(view, (self.db, key), token, env).map(|(fence, _)| fence);
        if self.keys().zip(fences).all(|(key, fence)| fence_of(key) == Some(fence)) {
            return Some(Unblocked::Served(reply)); // the lock was renewed
        }
        let Some(call) = call else { return Some(Unblocked::InTime) };
        self.take_back_locks(place, view, env); // of several locks, those that are left
        if view.now().mono_ms() >= self.blocked.until_ms() {
            return Some(Unblocked::InTime);
        }
        self.blocked.begin_again(call);
        for key in self.keys() {
            view.locks().rejoin_queue(self.db, key, self.lock_waiter(place));
        }
        None
    }

    /// Releases the locks that were given to the client but not reported to it.
    fn take_back_locks(&self, place: QueuePlace, view: &mut View<'_>, env: Env<'_>) {
        let token = self.shown.as_request().arg(token_at(place.mode, self.keys.len()));
        for key in self.keys() {
            env.namespace.take_back_lock((self.db, key), token, (self.client, place.since_us), view);
        }
    }
}

impl Continuation for Suspended {
    fn wait(&mut self) -> Wait<'_> {
        Wait::Blocked(&self.blocked)
    }

    fn step(&mut self, env: Env<'_>, view: &mut View<'_>, reply: &mut Reply<'_>, woken: Unblocked) -> Result<bool> {
        self.leave_queues(view);
        self.pass_on(env);
        let woken = match woken {
            Unblocked::Granted(grant) => match self.confirm(*grant, view, env) {
                None => return Ok(false),
                Some(woken) => woken,
            },
            woken => woken,
        };
        match woken {
            Unblocked::InTime => (self.on_timeout)(reply),
            Unblocked::WithError => return Err(Error::Unblocked),
            Unblocked::RoleChanged => return Err(Error::RoleChanged),
            Unblocked::Panicked => return Err(Error::Internal),
            Unblocked::Served(served) => reply.output().append(served),
            Unblocked::Granted(_) => {} // `confirm` has replaced it
        }
        Ok(true)
    }

    fn abandon(&mut self, env: Env<'_>, view: &mut View<'_>) {
        let Some(BlockedOn::LockQueue(place)) = self.place else {
            self.leave_queues(view);
            return self.pass_on(env);
        };
        let was_served = self.blocked.was_served_in_vain();
        let has_grace = place.is_session && env.config.session_grace_ms > 0 && env.namespace.engine().is_none();
        if has_grace && !was_served {
            let QueuePlace { number, token, mode, .. } = place;
            let keys = self.keys().map(|key| key.bytes.into()).collect();
            return env.namespace.reserve_slot(
                self.client,
                ReservedSlot { number, token, mode, db: self.db, keys },
                view,
            );
        }
        self.leave_queues(view);
        // The reply is lost, and so is an element that was popped. A lock would stay without a client for its whole
        // TTL; a session lock ends with its session.
        if was_served && !has_grace {
            self.take_back_locks(place, view, env);
        }
    }

    fn blocked_call(&self) -> Option<BlockedRequest<'_>> {
        Some(BlockedRequest { request: self.shown.as_request(), spent_ns: self.spent_ns })
    }
}
