//! A call: what a handler may use, what it may leave for later, and calls nested in it.

use std::sync::Arc;

use crate::acl::Context;
use crate::client::caller::Caller;
use crate::client::outbox::PUSHED;
use crate::client::registry::{Blocked, BlockedCall, Blocking, Unblocked};
use crate::client::session::{Replies, Session};
use crate::config::{Allowance, Config};
use crate::dispatch::gate::{
    Admission, EXEC_CHECKS, Obstacle, SCRIPT_CHECKS, ScriptLimits, closed_in_exec, closed_to_script, is_open,
};
use crate::dispatch::{Args, Continuation, Env, Halted, Handlers, Next, Wait, denials, effects, post_call};
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::observe::CallTimer;
use crate::resp::{Output, OwnedRequest, Reply, Request};
use crate::spec::registry::Hashes;
use crate::spec::{CommandSpec, INSERT, KeyFlags, Names};
use crate::store::value::{Kind, Type};
use crate::store::{Cx, Key, LockWaiter, Lookup, NEVER, Str, View};
use crate::time::clock::Now;

/// The access of a handler to its call.
pub struct Call<'a> {
    /// The arguments after the command's name.
    pub args: Args<'a>,
    /// The locked keys.
    pub view: View<'a>,
    /// The writer of the reply.
    pub reply: Reply<'a>,
    /// The caller.
    pub caller: &'a mut Caller,
    /// The namespace whose data is accessed.
    pub namespace: &'a Namespace,
    /// The handlers of nested calls.
    pub(crate) handlers: &'static Handlers,
    /// The settings in force.
    pub config: &'a Config,
    /// The command being executed.
    pub command: &'static CommandSpec,
    /// Measures the calls of this batch.
    pub timer: &'a CallTimer<'a>,
    /// The value of the counter when the time of this call was read; 0 if that is that of another call.
    read_at: u64,
    mode: Mode<'a>,
}

/// Who makes a call, and what it may leave for later.
pub(super) enum Mode<'a> {
    /// The connection of its client, which does what the call leaves in `next`.
    Client { session: &'a mut Session, next: &'a mut Next },
    /// The same with the whole store locked: the call leaves no work, because it blocks all other clients.
    Exclusive { session: &'a mut Session },
    /// Another call, such as EXEC or a script, or the server itself: it leaves no work.
    Nested { session: Option<&'a mut Session> },
    /// A task that has changed a key of the call of a blocked client, which is made again.
    Retry { next: &'a mut Next },
    /// The replay of a log: relative times count from the time of the record.
    Replay,
}

impl Mode<'_> {
    /// Returns where the call leaves its remaining work; `None` if it may leave none.
    fn next(&mut self) -> Option<&mut Next> {
        match self {
            Mode::Client { next, .. } | Mode::Retry { next } => Some(next),
            Mode::Exclusive { .. } | Mode::Nested { .. } | Mode::Replay => None,
        }
    }

    /// Returns the state of the caller's connection, if it makes the call or another call in which this is nested.
    fn session(&mut self) -> Option<&mut Session> {
        match self {
            Mode::Client { session, .. } | Mode::Exclusive { session } => Some(session),
            Mode::Nested { session } => session.as_deref_mut(),
            Mode::Retry { .. } | Mode::Replay => None,
        }
    }

    /// Does what [`Mode::session`] does, to read it.
    fn seen_session(&self) -> Option<&Session> {
        match self {
            Mode::Client { session, .. } | Mode::Exclusive { session } => Some(session),
            Mode::Nested { session } => session.as_deref(),
            Mode::Retry { .. } | Mode::Replay => None,
        }
    }
}

fn no_connection() -> Error {
    Error::other("This command is about a connection, and there is none")
}

impl<'a> Call<'a> {
    /// Makes a call of a command, whose keys have these hashes. Every call of the program is made here.
    #[inline(always)] // built in place: a view is large, and moving it costs as much as a look-up
    pub(super) fn new(
        env: Env<'a>,
        caller: &'a mut Caller,
        view: View<'a>,
        (command, request, hashes): (&'static CommandSpec, Request<'a>, &'a [u64]),
        mode: Mode<'a>,
        out: &'a mut Output,
    ) -> Self {
        let Env { namespace, handlers, config, timer } = env;
        let (args, reply) = (Args::new(request, command.name_args, hashes), Reply::new(out, caller.protocol));
        Call { args, view, reply, caller, namespace, handlers, config, command, timer, read_at: 0, mode }
    }

    /// Returns what the call is made with.
    pub(crate) fn env(&self) -> Env<'a> {
        let Call { namespace, handlers, config, timer, .. } = *self;
        Env { namespace, handlers, config, timer }
    }
}

impl Call<'_> {
    /// Sets when, by the counter, the time of the call was read.
    pub(super) fn set_read_at(&mut self, ticks: u64) {
        self.read_at = ticks;
    }

    /// Returns the state of the caller's connection.
    ///
    /// # Errors
    /// When the call is not made by a connection.
    pub fn session(&mut self) -> Result<&mut Session> {
        self.mode.session().ok_or_else(no_connection)
    }

    /// Returns the caller and the state of its connection.
    ///
    /// # Errors
    /// Those of [`Call::session`].
    pub fn connection(&mut self) -> Result<(&mut Caller, &mut Session)> {
        match self.mode.session() {
            Some(session) => Ok((self.caller, session)),
            None => Err(no_connection()),
        }
    }

    /// Returns the time of this call.
    pub fn now(&self) -> Now {
        self.view.now()
    }

    /// Returns the present time, from which relative TTLs count. The time of the call is up to a tenth of a millisecond
    /// old, and does not advance inside EXEC and scripts. A write that is replayed has only that.
    pub fn present(&self) -> Now {
        match self.mode {
            Mode::Client { .. } => self.now().later_by_us(self.timer.ns_since(self.read_at).saturating_add(999) / 1000),
            Mode::Replay => self.now(),
            Mode::Exclusive { .. } | Mode::Nested { .. } | Mode::Retry { .. } => self.namespace.clock.now(),
        }
    }

    /// Returns the command's lower-case name, for error texts.
    pub fn name(&self) -> &'static str {
        &self.command.name
    }

    /// Returns the present names of commands.
    pub fn names(&self) -> Names<'_> {
        self.namespace.names(self.config)
    }

    /// Returns the maximum length of a string, in bytes.
    pub fn bulk_len_max(&self) -> usize {
        self.config.proto_max_bulk_len
    }

    /// Checks that this client may call DEBUG or MODULE, by the setting for that.
    ///
    /// # Errors
    /// [`Error::NotAllowed`] with the name.
    pub fn check_allowed(&self, command: &'static str, who: Allowance) -> Result<()> {
        match who.allows(self.caller.info.is_local()) {
            true => Ok(()),
            false => Err(Error::NotAllowed(command)),
        }
    }

    /// Leaves the rest of the command, and its reply, to a continuation. A nested call, which must not wait, is
    /// finished at once, as if every wait had timed out.
    ///
    /// # Errors
    /// Those of the continuation.
    pub fn continue_with(&mut self, mut rest: impl Continuation + 'static) -> Result<()> {
        match self.mode.next() {
            Some(next) => *next = Next::Continue(Box::new(rest)),
            None => while !self.step(&mut rest)? {},
        }
        Ok(())
    }

    /// Executes a long command in steps: the first at once, the rest after this call with the gate released between
    /// them. Inside EXEC, which is atomic, all steps are executed at once.
    ///
    /// # Errors
    /// Those of the command.
    pub fn run_incrementally(&mut self, mut rest: impl Continuation + 'static) -> Result<()> {
        match self.step(&mut rest)? {
            true => Ok(()),
            false => self.continue_with(rest),
        }
    }

    /// Executes a step of a continuation as part of this call.
    fn step(&mut self, rest: &mut impl Continuation) -> Result<bool> {
        rest.step(self.env(), &mut self.view, &mut self.reply, Unblocked::InTime)
    }

    /// Lets the next request begin another batch: this call changes what is checked once per batch, see
    /// [`Client::needs_attention`](crate::client::session::Client::needs_attention).
    pub fn end_batch(&mut self) {
        if let Some(next) = self.mode.next() {
            *next = Next::EndBatch;
        } else if let Some(session) = self.mode.session() {
            session.batch_is_over = true;
        }
    }

    /// Blocks the client until a time, in monotonic milliseconds, and then replies; a nested call replies at once.
    pub fn wait_until(&mut self, until_ms: u64, on_timeout: fn(&mut Reply<'_>)) {
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

    /// Lets the call, which has changed nothing and not replied, be made again with the whole store locked; for calls
    /// that may block.
    pub(crate) fn put_off(&mut self) {
        if let Some(next) = self.mode.next() {
            *next = Next::Exclusively;
            self.timer.report_next();
        }
    }

    /// Returns whether the call is made again with the whole store locked.
    pub(super) fn is_put_off(&self) -> bool {
        matches!(self.mode, Mode::Client { next: Next::Exclusively, .. })
    }

    /// Returns whether the call was blocked on keys, and is executed again because one of them has changed.
    pub fn is_retry(&self) -> bool {
        matches!(self.mode, Mode::Retry { .. })
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
        let rest = Standstill { blocked, queues, db, client, is_in_lock_queue, on_timeout, shown, spent_ns };
        *next = Next::Continue(Box::new(rest));
    }

    /// Removes the watches of the caller.
    ///
    /// # Errors
    /// Those of [`Call::session`].
    pub fn stop_watching(&mut self) -> Result<()> {
        let Call { view, caller, mode, namespace, .. } = self;
        if let Some(session) = mode.session() {
            session.stop_watching(caller, view, &namespace.store);
        }
        Ok(())
    }

    /// Writes pushed frames before the reply. Inside EXEC, whose reply must not be interrupted, they come after it.
    pub fn take_pushed(&mut self) {
        if !self.is_nested() {
            self.take_pushed_first();
        }
    }

    /// Does the same as [`Call::take_pushed`], before the reply of a call with nested calls.
    pub fn take_pushed_first(&mut self) {
        let outbox = &self.caller.info.outbox;
        let has_replies = self.mode.seen_session().is_none_or(|session| session.replies == Replies::On);
        if has_replies && outbox.signals() & PUSHED != 0 {
            outbox.take_into(self.reply.output(), usize::MAX);
        }
    }

    /// Returns whether the call is one of several with a common reply, as inside EXEC.
    pub fn is_nested(&self) -> bool {
        !matches!(self.mode, Mode::Client { .. } | Mode::Retry { .. })
    }

    /// Executes a queued command for EXEC, if its user still has permission, which may have changed since it was
    /// queued, even by a command of the same transaction.
    pub fn execute_queued(&mut self, command: &'static CommandSpec, request: Request<'_>) {
        let obstacle = match command.flags & closed_in_exec(self.caller) == 0 {
            true => None,
            false => self.obstacle(command, request, None),
        };
        let env = self.env();
        match obstacle {
            None => {
                let mode = Mode::Nested { session: self.mode.session() };
                let (view, out) = (&mut self.view, self.reply.output());
                nested(env, self.caller, view, (command, request), mode, out);
            }
            Some(error) => refuse(self.namespace, &mut self.reply, &error),
        }
    }

    /// Checks whether a script may call a command.
    ///
    /// # Errors
    /// The reason why not.
    #[cfg(feature = "lua")]
    pub(crate) fn check_for_script(
        &self,
        command: &'static CommandSpec,
        request: Request<'_>,
        limits: ScriptLimits,
    ) -> Result<()> {
        let closed = closed_to_script(self.namespace, self.caller, limits);
        match is_open(closed, command, request) {
            true => Ok(()),
            false => self.obstacle(command, request, Some(limits)).map_or(Ok(()), Err),
        }
    }

    /// Executes a command for a script, which has been checked, and writes the reply to `out`.
    #[cfg(feature = "lua")]
    pub(crate) fn execute_for_script(&mut self, command: &'static CommandSpec, request: Request<'_>, out: &mut Output) {
        let (env, mode) = (self.env(), Mode::Nested { session: self.mode.session() });
        nested(env, self.caller, &mut self.view, (command, request), mode, out);
    }

    /// Returns why EXEC or a script must not execute a command, and records missing permissions.
    fn obstacle(
        &self,
        command: &'static CommandSpec,
        request: Request<'_>,
        script: Option<ScriptLimits>,
    ) -> Option<Error> {
        let (checks, context) = match script {
            None => (&EXEC_CHECKS[..], Context::Multi),
            Some(_) => (&SCRIPT_CHECKS[..], Context::Lua),
        };
        let Call { namespace, config, caller, mode, .. } = self;
        let session = mode.seen_session();
        let now = self.view.now();
        let admission = Admission { namespace, config, caller, session, command, request, now, script };
        match admission.obstacle(checks)? {
            Obstacle::Refused(error, denial) => {
                if let Some(denial) = denial {
                    caller.show_command();
                    denials::record_denial(&admission, denial, context);
                }
                Some(error)
            }
            Obstacle::Paused | Obstacle::Struck(_) => None,
        }
    }

    /// Determines again which calls are recorded, including this one.
    pub fn update_recording(&self) {
        self.timer.set_recording(0, self.config.latency_tracking);
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
    /// In line for a lock, with the hash of the token to acquire it with.
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
    /// In the line for a lock.
    LockQueue { token: u64 },
    /// Among those that wait for a value of a type.
    Queue { awaited: Type, heeds_absence: bool },
}

/// Replies on timeout.
type OnTimeout = Box<dyn Fn(&mut Reply<'_>) + Send>;

/// A call that is blocked.
struct Standstill {
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

impl Standstill {
    fn leave_queues(&self, view: &mut View<'_>) {
        for (hash, bytes) in &self.queues {
            view.waiting().dequeue(self.db, Key { bytes, hash: *hash }, self.blocked.number());
        }
    }
}

impl Continuation for Standstill {
    fn wait(&mut self) -> Wait<'_> {
        Wait::Blocked(&self.blocked)
    }

    fn step(&mut self, _: Env<'_>, view: &mut View<'_>, reply: &mut Reply<'_>, woken: Unblocked) -> Result<bool> {
        self.leave_queues(view);
        match woken {
            Unblocked::InTime => (self.on_timeout)(reply),
            Unblocked::WithError => return Err(Error::Unblocked),
            Unblocked::Panicked => return Err(Error::Internal),
            Unblocked::Served(served) => reply.output().append(served),
        }
        Ok(true)
    }

    fn abandon(&mut self, view: &mut View<'_>) {
        self.leave_queues(view);
        // The reply is lost, and so is an element that was popped. A lock would stay with nobody for its whole TTL.
        if self.is_in_lock_queue && self.blocked.was_served_in_vain() {
            let token = self.shown.as_request().arg(2);
            for (hash, bytes) in &self.queues {
                view.locks().take_back(self.db, Key { bytes, hash: *hash }, token, self.client);
            }
        }
    }

    fn blocked_call(&self) -> Option<Halted<'_>> {
        Some(Halted { request: self.shown.as_request(), spent_ns: self.spent_ns })
    }
}

/// Calls the handler of a blocked call again; returns how long that took, in nanoseconds.
pub(super) fn run_again(call: &mut Call<'_>) -> u64 {
    call.timer.begin_now();
    let mark = call.reply.mark();
    if let Err(error) = call.handlers.of(call.command)(call) {
        call.reply.rollback(mark);
        fail(call, &error);
    }
    call.timer.ns_since(call.timer.begin())
}

/// Calls the handler; when it fails, its partial reply is removed.
#[inline]
pub(super) fn run(call: &mut Call<'_>) {
    let begun = call.timer.begin();
    let mark = call.reply.mark();
    if let Err(error) = call.handlers.of(call.command)(call) {
        call.reply.rollback(mark);
        fail(call, &error);
    }
    call.caller.commands += 1;
    if let Some(ns) = call.timer.end(call.command, begun, call.view.lookups()) {
        post_call::record(call, ns);
    }
}

#[cold]
fn fail(call: &mut Call<'_>, error: &Error) {
    call.timer.fail(call.command);
    refuse(call.namespace, &mut call.reply, error);
}

/// Rejects a container called without a subcommand; its arity has rejected it before.
pub(crate) fn no_subcommand(call: &mut Call<'_>) -> Result<()> {
    Err(Error::WrongArity(call.name().into()))
}

/// Writes an error reply and counts it.
pub(crate) fn refuse(namespace: &Namespace, reply: &mut Reply<'_>, error: &Error) {
    let line = error.wire_text();
    namespace.observed.errors.count(&line);
    reply.error(&line);
}

/// Executes a command that is nested in a call, or in the replay of the log, and collects its effects.
pub(super) fn nested(
    env: Env<'_>,
    caller: &mut Caller,
    view: &mut View<'_>,
    (command, request): (&'static CommandSpec, Request<'_>),
    mode: Mode<'_>,
    out: &mut Output,
) {
    let mut hashes = Hashes::new();
    command.hash_keys(request, &env.namespace.store, &mut hashes);
    let cx = Cx { lookup: Lookup::allowed(!caller.info.is_no_touch()), ..view.cx() };
    let mut call = Call::new(env, caller, view.nested(caller.db, cx), (command, request, &hashes), mode, out);
    run(&mut call);
    if env.namespace.store.is_logged() {
        effects::collect(&mut call);
        let changes = call.view.changes();
        drop(call);
        view.changes_mut().add_nested(changes);
    }
}
