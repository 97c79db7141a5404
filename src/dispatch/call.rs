//! One call of a command: what its handler may use, and the work that it may leave for later.
//!
//! A handler takes a call; a call refers to the handlers of nested calls and to a continuation; a continuation makes
//! calls. So [`Call`], [`Handlers`], [`Env`], [`Next`] and [`Continuation`] name each other, and are defined here
//! together.

use std::borrow::Cow;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::client::backlog::SHARE_MIN;
use crate::client::caller::Caller;
use crate::client::outbox::{LATE, PUSHED};
use crate::client::registry::{Suspended, Unblocked};
use crate::client::session::{DelayedReply, Replies, Session};
use crate::client::staged::NewFence;
use crate::config::{Allowance, Config};
use crate::dispatch::{Args, BlockedRequest, Wait};
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::namespace::member::{Operation, Topology};
use crate::observe::CallTimer;
use crate::resp::{Output, Protocol, Reply, Request};
use crate::spec::{BLOCKING, CommandSpec, CommandTable, Declaration, Names, Row};
use crate::store::{Origin, View};
use crate::time::clock::Now;

/// Access of a handler to its call.
pub struct Call<'a> {
    /// The arguments after the command's name.
    pub args: Args<'a>,
    /// View of the locked keys.
    pub view: View<'a>,
    /// Writer of the reply.
    pub reply: Reply<'a>,
    /// The caller.
    pub caller: &'a mut Caller,
    /// Namespace whose data is accessed.
    pub namespace: &'a Namespace,
    pub(crate) handlers: &'static Handlers,
    /// The settings in force.
    pub config: &'a Config,
    /// The command being executed.
    pub command: &'static CommandSpec,
    /// Timer that measures the calls of this batch.
    pub timer: &'a CallTimer<'a>,
    /// Tick counter when the time of this call was read; 0 if the time is that of another call.
    read_at: u64,
    /// True if the call has done nothing, and is to be made again with the whole store locked.
    pub(super) needs_whole_store: bool,
    pub(super) mode: CallMode<'a>,
}

/// An operation on a topology that a command of a transaction has begun.
pub(crate) type PostponedOperation = (Arc<dyn Topology>, Operation);

/// Caller of a call, with the places for the work that the call may leave.
pub(super) enum CallMode<'a> {
    /// The connection of the client; it does the work that the call leaves in `next`.
    Client { session: &'a mut Session, next: &'a mut Next },
    /// The connection, with everything locked that the call may need: the call leaves no work that it can do itself.
    Exclusive { session: &'a mut Session, next: &'a mut Next },
    /// Another call, such as a script, or the server itself: the call leaves no work.
    Nested { session: Option<&'a mut Session> },
    /// EXEC: the call leaves no work but the operation that must wait until the transaction is over.
    Queued { session: Option<&'a mut Session>, postponed: &'a mut Option<PostponedOperation> },
    /// A task that has changed a key of a blocked client, whose call it repeats.
    Retry { next: &'a mut Next },
    /// The replay of a log: relative times count from the time of the record.
    Replay,
    /// An engine, on copies of the keys. The call leaves no work, but its client may be blocked afterwards, or stay
    /// blocked if the call is a repetition (`again`).
    Staged { session: Option<&'a mut Session>, suspended: &'a mut Option<Box<Suspended>>, again: Option<&'a mut Next> },
}

impl CallMode<'_> {
    /// Returns the place for the call's remaining work; `None` if it may leave none.
    pub(super) fn next(&mut self) -> Option<&mut Next> {
        match self {
            CallMode::Client { next, .. } | CallMode::Retry { next } => Some(next),
            CallMode::Exclusive { .. } | CallMode::Nested { .. } | CallMode::Queued { .. } => None,
            CallMode::Replay | CallMode::Staged { .. } => None,
        }
    }

    /// Returns whether the client itself has made the call, and gets its reply.
    fn is_of_client(&self) -> bool {
        matches!(self, CallMode::Client { .. } | CallMode::Exclusive { .. } | CallMode::Retry { .. })
    }

    pub(super) fn may_block(&self) -> bool {
        matches!(self, CallMode::Client { .. } | CallMode::Retry { .. } | CallMode::Staged { .. })
    }

    /// Leaves the rest of a call that blocks its client.
    pub(super) fn leave(&mut self, rest: Next) {
        match self {
            CallMode::Client { next, .. } | CallMode::Retry { next } | CallMode::Staged { again: Some(next), .. } => {
                **next = rest
            }
            CallMode::Exclusive { .. } | CallMode::Nested { .. } | CallMode::Queued { .. } => {}
            CallMode::Replay | CallMode::Staged { .. } => {}
        }
    }

    /// Returns the state of the caller's connection, if the connection makes the call or a call in which this one is
    /// nested.
    pub(super) fn session(&mut self) -> Option<&mut Session> {
        match self {
            CallMode::Client { session, .. } | CallMode::Exclusive { session, .. } => Some(session),
            CallMode::Nested { session } | CallMode::Queued { session, .. } | CallMode::Staged { session, .. } => {
                session.as_deref_mut()
            }
            CallMode::Retry { .. } | CallMode::Replay => None,
        }
    }

    /// Returns the same as [`CallMode::session`], for reading.
    pub(super) fn seen_session(&self) -> Option<&Session> {
        match self {
            CallMode::Client { session, .. } | CallMode::Exclusive { session, .. } => Some(session),
            CallMode::Nested { session } | CallMode::Queued { session, .. } | CallMode::Staged { session, .. } => {
                session.as_deref()
            }
            CallMode::Retry { .. } | CallMode::Replay => None,
        }
    }
}

const NOT_IN_EXEC: Error = Error::Other(Cow::Borrowed("This command waits for a file and is not supported in MULTI"));

fn no_connection() -> Error {
    Error::other("This command is about a connection, and there is none")
}

impl<'a> Call<'a> {
    /// Makes a call of a command with the hashes of its keys. Every call of the program is made here.
    #[inline(always)] // built in place: a view is large, and moving it costs as much as a look-up
    pub(super) fn new(
        env: Env<'a>,
        caller: &'a mut Caller,
        view: View<'a>,
        (command, request, hashes): (&'static CommandSpec, Request<'a>, &'a [u64]),
        mode: CallMode<'a>,
        out: &'a mut Output,
    ) -> Self {
        let Env { namespace, handlers, config, timer } = env;
        let (args, reply) = (Args::new(request, command.name_args, hashes), Reply::new(out, caller.protocol));
        let (read_at, needs_whole_store) = (0, false);
        Call {
            args,
            view,
            reply,
            caller,
            namespace,
            handlers,
            config,
            command,
            timer,
            read_at,
            needs_whole_store,
            mode,
        }
    }

    /// Turns it into the call of another request of the same command. The view has moved on to that request's keys.
    #[inline]
    pub(super) fn renew(&mut self, request: Request<'a>, hashes: &'a [u64]) {
        self.args = Args::new(request, self.command.name_args, hashes);
    }

    /// Returns the environment that the call was made with.
    pub(crate) fn env(&self) -> Env<'a> {
        let Call { namespace, handlers, config, timer, .. } = *self;
        Env { namespace, handlers, config, timer }
    }
}

impl Call<'_> {
    /// Sets the tick counter at which the time of the call was read.
    pub(super) fn set_read_at(&mut self, ticks: u64) {
        self.read_at = ticks;
    }

    /// Returns whether the next request of the same command may follow directly after this call, which is over: no
    /// other work is due, and the tick counter is below `stale_at`.
    #[inline]
    pub(super) fn may_go_on(&mut self, stale_at: u64) -> bool {
        matches!(self.mode, CallMode::Client { next: Next::Done, .. })
            && !self.caller.closing
            && self.timer.begin() < stale_at
            && self.reply.pending_len() < SHARE_MIN
    }

    /// Returns the state of the caller's connection.
    ///
    /// # Errors
    /// An error when the call is not made by a connection.
    pub fn session(&mut self) -> Result<&mut Session> {
        self.mode.session().ok_or_else(no_connection)
    }

    /// Returns the caller and the state of its connection.
    ///
    /// # Errors
    /// See [`Call::session`].
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

    /// Returns the present time, which relative TTLs count from. The time of the call is up to a tenth of a millisecond
    /// old, and does not advance inside EXEC and scripts. A replayed write has only the time of the call.
    pub fn present(&self) -> Now {
        match self.mode {
            CallMode::Client { .. } => {
                self.now().later_by_us(self.timer.ns_since(self.read_at).saturating_add(999) / 1000)
            }
            CallMode::Replay => self.now(),
            CallMode::Exclusive { .. }
            | CallMode::Nested { .. }
            | CallMode::Queued { .. }
            | CallMode::Retry { .. }
            | CallMode::Staged { .. } => self.namespace.clock.now(),
        }
    }

    /// Returns the command's lower-case name, for error texts.
    pub fn name(&self) -> &'static str {
        &self.command.name
    }

    /// Returns the present names of commands, after renaming.
    pub fn names(&self) -> Names<'_> {
        self.namespace.names(self.config)
    }

    /// Returns the maximum length of a string, in bytes.
    pub fn bulk_len_max(&self) -> usize {
        self.config.proto_max_bulk_len
    }

    /// Checks that this client may call `command`, DEBUG or MODULE, by the setting for that command.
    ///
    /// # Errors
    /// [`Error::NotAllowed`] with the command's name.
    pub fn check_allowed(&self, command: &'static str, who: Allowance) -> Result<()> {
        if who.allows(self.caller.info.peer.is_local()) { Ok(()) } else { Err(Error::NotAllowed(command)) }
    }

    /// Returns whether the call has to keep to what a node of a cluster can do: the log of a server that was none is replayed.
    pub(crate) fn is_in_cluster(&self) -> bool {
        self.namespace.restrictions.is_in_cluster() && self.view.cx().origin != Origin::Replay
    }

    /// Fails with this text where the server is a node of a cluster.
    ///
    /// # Errors
    /// The text.
    pub(crate) fn require_standalone(&self, refusal: &'static str) -> Result<()> {
        if self.is_in_cluster() { Err(Error::other(refusal)) } else { Ok(()) }
    }

    /// Leaves the rest of the command, and its reply, to a continuation. A nested call, which must not wait, is
    /// finished at once, as if every wait had timed out.
    ///
    /// # Errors
    /// The errors of the continuation.
    pub fn continue_with(&mut self, mut rest: impl Continuation + 'static) -> Result<()> {
        match self.mode.next() {
            Some(next) => *next = Next::Continue(Box::new(rest)),
            None => while !self.step(&mut rest)? {},
        }
        Ok(())
    }

    /// Leaves the rest of a command as [`Call::continue_with`] does, also where the call needs the whole store: that is free then.
    ///
    /// # Errors
    /// The errors of the continuation.
    pub(crate) fn continue_freely(&mut self, rest: impl Continuation + 'static) -> Result<()> {
        match &mut self.mode {
            CallMode::Exclusive { next, .. } => {
                **next = Next::Continue(Box::new(rest));
                Ok(())
            }
            _ => self.continue_with(rest),
        }
    }

    /// Leaves an operation on a topology to EXEC, which has it performed after the transaction; returns it where there is none.
    pub(crate) fn postpone(&mut self, operation: PostponedOperation) -> Option<PostponedOperation> {
        match &mut self.mode {
            CallMode::Queued { postponed, .. } => {
                **postponed = Some(operation);
                None
            }
            _ => Some(operation),
        }
    }

    /// Returns the continuation that the call has left, and removes it.
    pub(crate) fn take_rest(&mut self) -> Option<Box<dyn Continuation>> {
        let next = self.mode.next()?;
        match std::mem::take(next) {
            Next::Continue(rest) => Some(rest),
            other => {
                *next = other;
                None
            }
        }
    }

    /// Starts work that a call needing the whole store waits for; the continuation is executed afterwards.
    ///
    /// # Errors
    /// An error inside EXEC, which cannot wait; the errors of `begin`.
    pub(crate) fn await_rest<R: Continuation + 'static>(&mut self, begin: impl FnOnce() -> Result<R>) -> Result<()> {
        let CallMode::Exclusive { next, .. } = &mut self.mode else { return Err(NOT_IN_EXEC) };
        **next = Next::Continue(Box::new(begin()?));
        Ok(())
    }

    /// Executes a long command in steps: the first at once, the rest after this call with the gate released between
    /// them. Inside EXEC, which is atomic, all steps are executed at once.
    ///
    /// # Errors
    /// The errors of the command.
    pub fn run_incrementally(&mut self, mut rest: impl Continuation + 'static) -> Result<()> {
        if self.step(&mut rest)? { Ok(()) } else { self.continue_with(rest) }
    }

    /// Executes a step of a continuation as part of this call.
    fn step(&mut self, rest: &mut impl Continuation) -> Result<bool> {
        rest.step(self.env(), &mut self.view, &mut self.reply, Unblocked::InTime)
    }

    /// Ends the batch after this call, because it changes state that is checked once per batch, see
    /// [`Client::needs_attention`](crate::client::session::Client::needs_attention).
    pub fn end_batch(&mut self) {
        if let Some(next) = self.mode.next() {
            *next = Next::EndBatch;
        } else if let Some(session) = self.mode.session() {
            session.batch_is_over = true;
        }
    }

    /// Puts the call off: it is made again with the whole store locked. It must have changed nothing and not have
    /// replied. For calls that may block.
    pub(crate) fn retry_exclusive(&mut self) {
        if let CallMode::Client { .. } = self.mode {
            debug_assert!(self.command.flags & BLOCKING != 0, "calls that may be followed by others of their command");
            self.needs_whole_store = true;
            self.timer.report_next();
        }
    }

    /// Returns whether the call was blocked on keys, and is executed again because one of them has changed.
    pub fn is_retry(&self) -> bool {
        matches!(self.mode, CallMode::Retry { .. } | CallMode::Staged { again: Some(_), .. })
    }

    /// Removes the caller's watches.
    ///
    /// # Errors
    /// See [`Call::session`].
    pub fn stop_watching(&mut self) -> Result<()> {
        let Call { view, caller, mode, namespace, .. } = self;
        if let Some(session) = mode.session() {
            session.stop_watching(caller, view, &namespace.store);
        }
        Ok(())
    }

    /// Writes pending push messages before the reply, also delayed ones. Inside EXEC, whose reply must not be
    /// interrupted, they come after it, and where the reply is suppressed, when the call is over.
    pub fn take_pushed(&mut self) {
        if self.caller.info.outbox.signals() & (PUSHED | LATE) == 0 {
            return;
        }
        if self.pushes_go_first() {
            self.caller.info.outbox.take_all_into(self.reply.output());
        } else {
            self.caller.info.outbox.release_all_late();
        }
    }

    /// Writes pending push messages before the reply of EXEC; delayed ones, too, if a queued command takes them.
    pub fn take_pushed_first(&mut self, takes_late: bool) {
        if takes_late {
            self.take_pushed();
        } else if self.caller.info.outbox.signals() & PUSHED != 0 && self.pushes_go_first() {
            self.caller.info.outbox.take_into(self.reply.output(), usize::MAX);
        }
    }

    /// Switches the caller's protocol, also for the rest of the reply. Messages pushed before keep the previous one.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        let out = self.pushes_go_first().then(|| self.reply.output());
        self.caller.set_protocol(protocol, out);
        self.reply.set_protocol(protocol);
    }

    /// Returns whether push messages can be written before the reply. Inside EXEC they would be part of its reply, a
    /// suppressed reply is taken back, and an engine may execute the call more than once.
    fn pushes_go_first(&self) -> bool {
        let is_kept = |session: &Session| session.replies == Replies::On || self.command.replies_with_pushes();
        self.mode.is_of_client() && self.caller.staged.is_none() && self.mode.seen_session().is_none_or(is_kept)
    }

    /// Returns whether the call is one of several with a common reply, as inside EXEC.
    pub fn is_nested(&self) -> bool {
        !self.mode.may_block()
    }

    /// Returns the fencing token of a new lock, or a placeholder where an engine executes the call, until the cluster
    /// has the transaction.
    pub(crate) fn give_fence(caller: &mut Caller, namespace: &Namespace) -> i64 {
        match &mut caller.staged {
            Some(staged) => {
                staged.given_fences += 1;
                NewFence(staged.given_fences).placeholder()
            }
            None => namespace.give_fence(),
        }
    }

    /// Replies with a fencing token, or leaves its place in the reply for the token of a placeholder. A script, which
    /// cannot wait for that one, gets 0.
    pub(crate) fn reply_fence(&mut self, fence: i64) {
        match (&mut self.caller.staged, NewFence::of(fence)) {
            (Some(_), Some(_)) if self.caller.is_in_script => self.reply.int(0),
            (Some(staged), Some(new)) => staged.fence_replies.push((self.reply.mark(), new)),
            _ => self.reply.int(fence),
        }
    }

    /// Determines again which calls are recorded, including this one.
    pub fn update_recording(&self) {
        self.timer.set_recording(0, self.config.latency_tracking);
    }
}

/// Handler of a command: reads `call.args`, acts on `call.view`, writes `call.reply`.
pub(crate) type Handler = fn(&mut Call<'_>) -> Result<()>;

/// Row of a family's table of commands.
pub(crate) type Command = Row<Handler>;

/// The table of commands with their handlers. Modules below use only the declarations, which do not know the handler's
/// type.
pub(crate) struct Handlers {
    /// Table of commands.
    pub commands: CommandTable,
    /// Handlers by [`CommandSpec::number`].
    by_number: Box<[Handler]>,
}

impl Handlers {
    /// Registers the rows of all families.
    pub(crate) fn new(families: &[&'static [Command]], help: fn(&Declaration) -> Command) -> Self {
        let (commands, by_number) = CommandTable::register(families, help, no_subcommand);
        Handlers { commands, by_number }
    }

    /// Returns the handler of a command; the handler of a container returns an error.
    #[inline]
    pub(crate) fn of(&self, command: &CommandSpec) -> Handler {
        self.by_number[command.number]
    }
}

/// Rejects a container called without a subcommand. Its arity has rejected such a call before.
fn no_subcommand(call: &mut Call<'_>) -> Result<()> {
    Err(Error::WrongArity(call.name().into()))
}

/// Environment of calls, shared by all calls of a batch, the calls nested in them, and the calls of blocked clients
/// that they serve.
#[derive(Clone, Copy)]
pub struct Env<'n> {
    /// Namespace whose data is accessed.
    pub(crate) namespace: &'n Namespace,
    pub(crate) handlers: &'static Handlers,
    /// Settings in force.
    pub(crate) config: &'n Config,
    /// Timer that measures the calls.
    pub(crate) timer: &'n CallTimer<'n>,
}

impl Env<'_> {
    /// Calls `work` with the environment of calls that no connection makes: it has the present settings, and measures
    /// the calls as those of the client with this id, or 0.
    pub(crate) fn with_present<T>(
        namespace: &Namespace,
        handlers: &'static Handlers,
        client: u64,
        work: impl FnOnce(Env<'_>) -> T,
    ) -> T {
        let config = namespace.settings.current();
        let timer = namespace.call_timer(client);
        work(Env { namespace, handlers, config: &config, timer: &timer })
    }
}

/// Work to be done after a request and before the next one.
#[derive(Default)]
pub(crate) enum Next {
    /// None.
    #[default]
    Done,
    /// Start another batch, because state that is checked once per batch has changed.
    EndBatch,
    /// Start another batch with the same request, which was not executed: the admission state has changed since this
    /// batch began.
    Again,
    /// Retry the same request, which was not executed, when the pause of the server is over.
    Retry,
    /// Execute the same request, which was not executed, when an engine has brought the mirror up to date.
    Refresh(oneshot::Receiver<Result<()>>),
    /// Write the reply when an engine has reported that it carries out no more calls admitted under the former
    /// admission state.
    Settle(oneshot::Receiver<()>),
    /// None: a blocked call was repeated and stays blocked. It is repeated again at a monotonic time at the latest.
    StayBlocked { retry_at_ms: u64 },
    /// Continue the command, whose reply is not written yet.
    Continue(Box<dyn Continuation>),
    /// Send a reply later, because a fault delays it.
    Delay(Box<DelayedReply>),
}

impl Next {
    /// Returns true if the request is executed again from the start.
    pub(super) fn is_repeated(&self) -> bool {
        matches!(self, Next::Again | Next::Retry)
    }

    /// Returns whether the reply of the request is not written yet.
    pub(crate) fn is_unfinished(&self) -> bool {
        use Next::{Continue, Delay, Refresh, Retry, StayBlocked};
        matches!(self, Retry | Refresh(_) | StayBlocked { .. } | Continue(_) | Delay(_))
    }
}

/// The rest of a command that cannot be executed at once because it takes long or has to wait. The connection
/// alternates between [`Continuation::wait`] and [`Continuation::step`]; other clients are served in between.
///
/// If the client disconnects during a wait, [`Continuation::abandon`] is called instead of the next step.
pub trait Continuation: Send {
    /// Returns the condition that the next step waits for.
    fn wait(&mut self) -> Wait<'_> {
        Wait::Turn
    }

    /// Performs about a millisecond's worth of work, with no key locked beforehand. Returns true if the command is
    /// finished and its reply written.
    ///
    /// # Errors
    /// The error of the command, which is finished then too.
    fn step(&mut self, env: Env<'_>, view: &mut View<'_>, reply: &mut Reply<'_>, woken: Unblocked) -> Result<bool>;

    /// Returns whether the step accesses no keys, so that it can be executed even while a busy script has locked them.
    fn needs_no_keys(&self) -> bool {
        false
    }

    /// Returns whether no other call may be in progress during the step.
    fn needs_whole_store(&self) -> bool {
        false
    }

    /// Updates the caller's state once the command is finished.
    fn finish(&mut self, _caller: &mut Caller) {}

    /// Undoes the command's changes to the store after its client has disconnected. No key is locked beforehand.
    fn abandon(&mut self, _env: Env<'_>, _view: &mut View<'_>) {}

    /// Returns the call if it has blocked its client. Such a call is counted when it ends, not when it blocks.
    fn blocked_call(&self) -> Option<BlockedRequest<'_>> {
        None
    }
}
