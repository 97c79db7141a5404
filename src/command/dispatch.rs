//! The gate: look up, check, queue, lock, call, take note of what happened.
//!
//! Invariant: every command of every client passes [`Turn::execute`], and EXEC re-enters `run`: there is
//! no second way to carry out a command.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tracing::warn;

use super::registry::{Keys, Registered, table};
use super::{AT_ONCE, Args, EXCLUSIVE, NO_AUTH, NO_MULTI};
use crate::clock::Now;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::resp::{Output, Reply, Request};
use crate::session::Session;
use crate::store::{Key, Shared, View};

/// How much of an unknown command is quoted back, in bytes.
const QUOTED_MAX: usize = 128;

/// Gives a handler all it may use.
pub struct Call<'a> {
    /// The words after the command's name.
    pub args: Args<'a>,
    /// The locked keys.
    pub view: View<'a>,
    /// Where the reply goes.
    pub reply: Reply<'a>,
    /// The client's state.
    pub session: &'a mut Session,
    /// The instance.
    pub server: &'a Namespace,
    /// The settings in force.
    pub config: &'a Config,
    /// The command being carried out.
    pub command: &'static Registered,
    deferred: Option<&'a mut Deferred>,
}

/// Holds what is left of a long command after its first slice.
pub type Deferred = Option<Box<dyn Sliced>>;

/// Cuts a long command into slices, between which other clients are served.
pub trait Sliced: Send {
    /// Does about a millisecond's worth of work. Returns whether it has finished, having written the reply then.
    fn step(&mut self, view: &mut View<'_>, reply: &mut Reply<'_>) -> bool;
}

impl Call<'_> {
    /// Returns the time of this call.
    pub fn now(&self) -> Now {
        self.view.now()
    }

    /// Returns the command's lower-case name, for error texts.
    pub fn name(&self) -> &'static str {
        &self.command.name
    }

    /// Returns the longest string a client may make, in bytes.
    pub fn bulk_len_max(&self) -> usize {
        self.config.proto_max_bulk_len
    }

    /// Runs a long task in slices: the first at once, the rest after this call with the gate released in between.
    /// Inside EXEC, which is atomic, all slices run at once.
    pub fn run_sliced(&mut self, mut task: impl Sliced + 'static) {
        while !task.step(&mut self.view, &mut self.reply) {
            if let Some(deferred) = &mut self.deferred {
                **deferred = Some(Box::new(task));
                return;
            }
        }
    }

    /// Carries out another command with the same powers; only for calls that hold the whole store.
    pub fn nested(&mut self, command: &'static Registered, request: Request<'_>) {
        let (db, protocol) = (self.session.db, self.session.protocol);
        let mut keys = Keys::new();
        command.keys_of(request, &self.server.store, &mut keys);
        run(Call {
            args: Args::new(request, words_before_args(command), &keys),
            view: self.view.whole_again(db),
            reply: Reply::new(self.reply.output(), protocol),
            session: self.session,
            server: self.server,
            config: self.config,
            command,
            deferred: None,
        });
    }
}

/// From how many keys in a batch on it pays to start loading them ahead.
const PREFETCH_MIN: usize = 2;

/// Holds the requests of a batch with what could be found out ahead of their turn.
pub struct Plan<'b> {
    steps: Vec<Step<'b>>,
    keys: Vec<Key<'b>>,
}

struct Step<'b> {
    request: Request<'b>,
    command: Result<&'static Registered>,
    /// Where this request's keys end among the plan's; they begin where those of the request before end.
    keys_end: usize,
}

impl<'b> Plan<'b> {
    /// Returns how many requests there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    fn keys_of(&self, index: usize) -> &[Key<'b>] {
        let start = index.checked_sub(1).map_or(0, |before| self.steps[before].keys_end);
        &self.keys[start..self.steps[index].keys_end]
    }
}

/// Executes the requests of one batch: the time is read once, the gate taken once and kept.
pub struct Turn<'n> {
    server: &'n Namespace,
    config: Arc<Config>,
    shared: Option<Shared<'n>>,
    now: Now,
}

impl<'n> Turn<'n> {
    /// Starts a turn at the present time.
    pub fn new(server: &'n Namespace, config: Arc<Config>) -> Self {
        Turn { server, config, shared: None, now: server.clock.now() }
    }

    /// Returns the time of this turn.
    pub fn now(&self) -> Now {
        self.now
    }

    /// Looks up the commands of a batch, hashes its keys and starts to load what they will touch.
    #[inline]
    pub fn plan<'b>(&mut self, requests: impl ExactSizeIterator<Item = Request<'b>>, db: usize) -> Plan<'b> {
        let mut plan = Plan { steps: Vec::with_capacity(requests.len()), keys: Vec::with_capacity(requests.len()) };
        for request in requests {
            let command = resolve(request);
            if let Ok(command) = command
                && command.accepts(request.len())
            {
                command.keys_of(request, &self.server.store, &mut plan.keys);
            }
            plan.steps.push(Step { request, command, keys_end: plan.keys.len() });
        }
        if plan.keys.len() >= PREFETCH_MIN {
            self.shared.get_or_insert_with(|| self.server.store.share()).prefetch(db, &plan.keys);
        }
        plan
    }

    /// Carries out, queues or refuses one request. Returns what is left to do of a long command, which
    /// the caller finishes with [`Turn::resume`] before the next request.
    #[inline]
    pub fn execute(&mut self, session: &mut Session, plan: &Plan<'_>, index: usize, out: &mut Output) -> Deferred {
        let mut deferred = None;
        let Step { request, ref command, .. } = plan.steps[index];
        match admit(session, request, command) {
            Err(error) => self.turn_away(session, request, &error, out),
            Ok(command) => {
                session.last_command = Some(command);
                if session.transaction.is_some() && command.command.flags & AT_ONCE == 0 {
                    queue(session, command, request, out);
                } else {
                    self.call(session, command, request, plan.keys_of(index), out, &mut deferred);
                }
            }
        }
        deferred
    }

    /// Tells a client why its request was not admitted. A transaction is off then; with EXEC itself it also ends.
    #[cold]
    fn turn_away(&mut self, session: &mut Session, request: Request<'_>, error: &Error, out: &mut Output) {
        let is_named = |name: &[u8]| request.name().eq_ignore_ascii_case(name);
        if is_named(b"POST") || is_named(b"Host:") {
            // A web page makes a browser send this; not even the replies so far are for its eyes.
            warn!(client = session.info.id, "possible attack: closing a client that speaks HTTP");
            session.closing = true;
            *out = Output::new();
            return;
        }
        session.fail_transaction();
        if !is_named(b"EXEC") {
            return refuse(self.server, &mut Reply::new(out, session.protocol), error);
        }
        session.transaction = None;
        session.info.set_queued(None);
        let server = self.server;
        let shared = self.shared.get_or_insert_with(|| server.store.share());
        session.stop_watching(&mut shared.view(session.db, &[], self.now), &server.store);
        let text = error.wire_text();
        let reason = text.strip_prefix(b"ERR ").unwrap_or(&text);
        refuse(server, &mut Reply::new(out, session.protocol), &Error::ExecRefused(reason.to_vec()));
    }

    /// Does the next slice of a long command; returns whether it has finished. The gate is free between slices.
    pub fn resume(&mut self, task: &mut dyn Sliced, session: &Session, out: &mut Output) -> bool {
        self.shared = None;
        self.now = self.server.clock.now();
        let shared = self.server.store.share();
        let mut view = shared.view(session.db, &[], self.now);
        task.step(&mut view, &mut Reply::new(out, session.protocol))
    }

    #[inline]
    fn call(
        &mut self,
        session: &mut Session,
        command: &'static Registered,
        request: Request<'_>,
        keys: &[Key<'_>],
        out: &mut Output,
        deferred: &mut Deferred,
    ) {
        let args = Args::new(request, words_before_args(command), keys);
        let (server, config, now, db) = (self.server, &*self.config, self.now, session.db);
        let reply = Reply::new(out, session.protocol);
        if command.command.flags & EXCLUSIVE == 0 {
            let shared = self.shared.get_or_insert_with(|| server.store.share());
            let view = shared.view(db, keys, now);
            run(Call { args, view, reply, session, server, config, command, deferred: Some(deferred) });
        } else {
            self.shared = None; // the gate is not reentrant
            let mut exclusive = server.store.exclusive();
            let view = exclusive.view(db, now);
            run(Call { args, view, reply, session, server, config, command, deferred: None });
        }
    }
}

/// Calls the handler; what it wrote before an error is taken back.
#[inline]
fn run(mut call: Call<'_>) {
    call.session.calls += 1;
    let handler = call.command.command.handler.unwrap_or(no_subcommand);
    let mark = call.reply.mark();
    if let Err(error) = handler(&mut call) {
        call.reply.rollback(mark);
        refuse(call.server, &mut call.reply, &error);
    }
}

/// Refuses a container called without a subcommand, which its arity has refused before.
pub(super) fn no_subcommand(call: &mut Call<'_>) -> Result<()> {
    Err(Error::WrongArity(call.name().into()))
}

/// Decides whether a client may call a command now. The checks are Redis', in Redis' order.
#[inline]
fn admit(
    session: &Session,
    request: Request<'_>,
    command: &Result<&'static Registered>,
) -> Result<&'static Registered> {
    let command = *command.as_ref().map_err(Clone::clone)?;
    if !command.accepts(request.len()) {
        return Err(Error::WrongArity(command.name.as_str().into()));
    }
    if !session.authenticated && command.command.flags & NO_AUTH == 0 {
        return Err(Error::NoAuth);
    }
    if session.transaction.is_some() && command.command.flags & NO_MULTI != 0 {
        return Err(Error::NotInMulti);
    }
    Ok(command)
}

#[inline]
fn resolve(request: Request<'_>) -> Result<&'static Registered> {
    let command = table().find(request.name()).ok_or_else(|| unknown(request))?;
    if command.subcommands.is_empty() || request.len() == 1 {
        return Ok(command);
    }
    command.subcommand(request.arg(1)).ok_or_else(|| {
        let word = clip(request.arg(1), QUOTED_MAX);
        Error::UnknownSubcommand(word.to_vec(), command.command.name)
    })
}

/// Quotes the name and the first arguments of an unknown command.
fn unknown(request: Request<'_>) -> Error {
    let mut args = Vec::new();
    for arg in request.args().skip(1) {
        if args.len() >= QUOTED_MAX {
            break;
        }
        let room = QUOTED_MAX - args.len();
        args.push(b'\'');
        args.extend_from_slice(clip(arg, room));
        args.extend_from_slice(b"' ");
    }
    let name = clip(request.name(), QUOTED_MAX);
    Error::UnknownCommand([b"'", name, b"', with args beginning with: ", &args].concat())
}

/// Cuts a word where C's `%.*s` would: after `most` bytes or before a NUL.
fn clip(word: &[u8], most: usize) -> &[u8] {
    let word = &word[..word.len().min(most)];
    word.split(|byte| *byte == 0).next().unwrap_or(word)
}

/// Keeps a request for EXEC.
fn queue(session: &mut Session, command: &'static Registered, request: Request<'_>, out: &mut Output) {
    let Some(transaction) = &mut session.transaction else { return };
    transaction.queue.push((command, request.to_owned()));
    session.info.set_queued(Some(transaction.queue.len()));
    Reply::new(out, session.protocol).simple("QUEUED");
}

fn refuse(server: &Namespace, reply: &mut Reply<'_>, error: &Error) {
    server.stats.errors.fetch_add(1, Relaxed);
    reply.error(&error.wire_text());
}

/// Returns how many words name the command: two for a subcommand.
fn words_before_args(command: &Registered) -> usize {
    if command.name.contains('|') { 2 } else { 1 }
}
