//! The gate: look up, check, queue, lock, call, take note of what happened.
//!
//! Invariant: every command of every client passes [`Turn::execute`], and EXEC re-enters `run`: there is
//! no second way to carry out a command.

use tracing::warn;

use super::migrate::Migration;
use super::registry::{Hashes, Registered, table};
use super::renames::Renames;
use super::{
    ADMIN, ALLOW_BUSY, AT_ONCE, Args, EXCLUSIVE, MAY_REPLICATE, NO_AUTH, NO_MULTI, WRITE, acl, aftermath, limits,
    unknown,
};
use crate::clock::Now;
use crate::config::{Allowance, Config};
use crate::error::{Error, Result};
use crate::mailbox::MAIL;
use crate::namespace::Namespace;
use crate::observe::Gauge;
use crate::pause::Held;
use crate::resp::{Batch, Output, Reply, Request};
use crate::session::{Replies, Session};
use crate::store::{Hold, Relief, View};
use crate::tracking::{Acting, CACHING};

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
    /// Measures this turn.
    pub gauge: &'a Gauge<'a>,
    deferred: Option<&'a mut Deferred>,
}

/// Holds what is left to do, by the connection, after a request and before the next.
pub type Deferred = Option<Later>;

/// Says what is left to do.
pub enum Later {
    /// The rest of a long command after its first slice.
    Slices(Box<dyn Sliced>),
    /// To go on in another turn, because what is asked once in a turn has changed.
    NewTurn,
    /// To come back to the same request, which was not carried out, when the server is no longer paused.
    Pause,
    /// To wait, and then to reply.
    Wait(Wait),
    /// To take keys to another server, and then to reply.
    Move(Box<Migration>),
}

/// Describes a wait for what does not come: only time, or CLIENT UNBLOCK, ends it.
pub struct Wait {
    /// Until when, in monotonic milliseconds.
    pub until_ms: u64,
    /// What is replied then.
    pub reply: fn(&mut Reply<'_>),
}

/// Cuts a long command into slices, between which other clients are served.
pub trait Sliced: Send {
    /// Does about a millisecond's worth of work. Returns whether it has finished, having written the reply then.
    fn step(&mut self, view: &mut View<'_>, reply: &mut Reply<'_>) -> bool;

    /// Returns why the command has failed, if it has, and no reply was written.
    fn failure(&self) -> Option<&Error> {
        None
    }
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

    /// Checks that this client may call DEBUG or MODULE, of which the settings say who may.
    ///
    /// # Errors
    /// [`Error::NotAllowed`] with the name.
    pub fn check_allowed(&self, command: &'static str, who: Allowance) -> Result<()> {
        match who.allows(self.session.info.is_local()) {
            true => Ok(()),
            false => Err(Error::NotAllowed(command)),
        }
    }

    /// Returns whether EXEC carries out this command; only for commands that do not hold the whole store themselves.
    pub fn is_inside_exec(&self) -> bool {
        self.deferred.is_none()
    }

    /// Runs a long task in slices: the first at once, the rest after this call with the gate released in between.
    /// Inside EXEC, which is atomic, all slices run at once.
    pub fn run_sliced(&mut self, mut task: impl Sliced + 'static) {
        while !task.step(&mut self.view, &mut self.reply) {
            if let Some(deferred) = &mut self.deferred {
                **deferred = Some(Later::Slices(Box::new(task)));
                return;
            }
        }
    }

    /// Lets the next request begin another turn: this call changes what is asked once in a turn, see
    /// [`Session::is_restrained`].
    pub fn end_turn(&mut self) {
        match &mut self.deferred {
            Some(deferred) => **deferred = Some(Later::NewTurn),
            None => self.session.turn_is_over = true,
        }
    }

    /// Blocks the client until a time, and replies then; inside EXEC, which does not wait, it replies at once.
    pub fn wait(&mut self, wait: Wait) {
        match &mut self.deferred {
            Some(deferred) => **deferred = Some(Later::Wait(wait)),
            None => (wait.reply)(&mut self.reply),
        }
    }

    /// Leaves the rest, and the reply, to the connection; not for calls that are nested.
    pub fn leave(&mut self, later: Later) {
        if let Some(deferred) = &mut self.deferred {
            **deferred = Some(later);
        }
    }

    /// Writes what others have left for the client so far before the reply. Inside EXEC, whose reply must stay one, it
    /// comes after that.
    pub fn take_mail(&mut self) {
        if !self.is_nested() {
            self.take_mail_first();
        }
    }

    /// Does what [`Call::take_mail`] does, before the reply of a call that others are nested in.
    pub fn take_mail_first(&mut self) {
        let mailbox = &self.session.info.mailbox;
        if self.session.replies == Replies::On && mailbox.signals() & MAIL != 0 {
            mailbox.take_into(self.reply.output(), usize::MAX);
        }
    }

    /// Returns whether the call is one of several whose replies are one, as inside EXEC.
    pub fn is_nested(&self) -> bool {
        self.deferred.is_none()
    }

    /// Carries out another command with the same powers; only for calls that hold the whole store.
    pub fn nested(&mut self, command: &'static Registered, request: Request<'_>) {
        let Call { view, reply, session, server, config, gauge, .. } = self;
        nested(view, session, (server, config, gauge), command, request, reply.output());
    }

    /// Carries out another command, whose reply goes elsewhere; only for calls that hold the whole store.
    #[cfg(feature = "lua")]
    pub fn nested_into(&mut self, command: &'static Registered, request: Request<'_>, out: &mut Output) {
        let Call { view, session, server, config, gauge, .. } = self;
        nested(view, session, (server, config, gauge), command, request, out);
    }

    /// Has it looked at anew which calls somebody wants to know of, this one included.
    pub fn note_interest(&self) {
        self.gauge.set_interest(0, self.config.latency_tracking);
    }
}

fn nested(
    view: &mut View<'_>,
    session: &mut Session,
    (server, config, gauge): (&Namespace, &Config, &Gauge<'_>),
    command: &'static Registered,
    request: Request<'_>,
    out: &mut Output,
) {
    let (db, protocol) = (session.db, session.protocol);
    let mut hashes = Hashes::new();
    command.hash_keys(request, &server.store, &mut hashes);
    run(&mut Call {
        args: Args::new(request, command.name_words, &hashes),
        view: view.whole_again(db).silent(session.info.is_silent()),
        reply: Reply::new(out, protocol),
        session,
        server,
        config,
        command,
        gauge,
        deferred: None,
    });
}

/// From how many keys in a batch on it pays to start loading them ahead.
const PREFETCH_MIN: usize = 2;

/// Holds what could be found out about the requests of a batch ahead of their turn.
#[derive(Default)]
pub struct Plan {
    steps: Vec<Step>,
    /// The hashes of all keys, request after request.
    hashes: Vec<u64>,
}

struct Step {
    /// `None` for a word that is no command.
    command: Option<&'static Registered>,
    /// Where this request's hashes end among the plan's; they begin where those of the request before end.
    hashes_end: usize,
}

impl Plan {
    /// Returns how many requests there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    fn hashes_of(&self, index: usize) -> &[u64] {
        let start = index.checked_sub(1).map_or(0, |before| self.steps[before].hashes_end);
        &self.hashes[start..self.steps[index].hashes_end]
    }
}

/// Executes the requests of one batch: the time is read once, the gate taken once and kept.
pub struct Turn<'n> {
    server: &'n Namespace,
    config: &'n Config,
    hold: Option<Hold<'n>>,
    now: Now,
    /// Whether there is a limit for memory, or replicas are asked for, which is then looked at before each command.
    is_limited: bool,
    /// Whether the client's commands do not count as uses of keys.
    is_silent: bool,
    gauge: Gauge<'n>,
}

impl<'n> Turn<'n> {
    /// Starts a turn of the client with this number at the present time.
    pub fn new(server: &'n Namespace, config: &'n Config, client: u64) -> Self {
        let (now, is_limited) = (server.clock.now(), server.is_limited());
        server.store.pressure().follow_clock(now);
        if is_limited {
            server.note_shortage(now);
        }
        let gauge = Gauge::new(&server.observed.meters, &server.clock, client);
        gauge.set_interest(server.observed.notable_ns(config), config.latency_tracking);
        Turn { server, config, hold: None, now, is_limited, is_silent: false, gauge }
    }

    /// Returns the time of this turn.
    pub fn now(&self) -> Now {
        self.now
    }

    /// Looks up the commands of a batch from request `first` on, hashes their keys and starts to load what they will touch.
    #[inline]
    pub fn plan(&mut self, batch: &Batch, first: usize, db: usize, plan: &mut Plan) {
        plan.steps.clear();
        plan.hashes.clear();
        // Pipelines mostly repeat a command, in the same spelling.
        let mut before: (&[u8], Option<&'static Registered>) = (b"", None);
        for request in batch.iter_from(first) {
            let name = request.name();
            let command = match before.1.is_some() && name == before.0 {
                true => before.1,
                false => find(request, &self.config.special.renames),
            };
            // A container's name alone does not tell what is called.
            before = (name, command.filter(|command| command.name_words == 1 && command.subcommands.is_empty()));
            if let Some(command) = command
                && command.accepts(request.len())
            {
                command.hash_keys(request, &self.server.store, &mut plan.hashes);
            }
            plan.steps.push(Step { command, hashes_end: plan.hashes.len() });
        }
        if plan.hashes.len() >= PREFETCH_MIN {
            let hold = self.hold.get_or_insert_with(|| self.server.store.hold(plan.len()));
            hold.prefetch(db, &plan.hashes);
        }
        self.gauge.note_requests(plan.len());
        if plan.len() > 1 {
            self.gauge.begin_anew();
        }
    }

    /// Carries out, queues or refuses request `index` of a plan. Returns what is left to do of a long command, which
    /// the caller finishes with [`Turn::resume`] before the next request.
    #[inline]
    pub fn execute(
        &mut self,
        session: &mut Session,
        request: Request<'_>,
        plan: &Plan,
        index: usize,
        out: &mut Output,
    ) -> Deferred {
        let mut deferred = None;
        match plan.steps[index].command {
            Some(command) if is_admitted(session, command, request) => {
                if self.is_limited
                    && let Some(error) = self.limit_reached(session, command, request)
                {
                    self.turn_away(session, request, Some(command), &error, out);
                    return None;
                }
                session.last_command = Some(command);
                if session.transaction.is_some() && command.command.flags & AT_ONCE == 0 {
                    if self.server.store.seat().is_occupied() && command.command.flags & ALLOW_BUSY == 0 {
                        self.turn_away(session, request, Some(command), &busy(self.server), out);
                        return None;
                    }
                    queue(session, command, request, out);
                } else {
                    self.call(session, command, request, plan.hashes_of(index), out, &mut deferred);
                }
            }
            command => self.refuse_request(session, request, command, out),
        }
        deferred
    }

    /// Pays attention to what few clients need: that its calls do not count as uses of keys, and, for one that tracks keys,
    /// to every call, and to who makes it until what is returned is dropped.
    #[cold]
    pub fn attend(&mut self, session: &Session) -> Option<Acting<'n>> {
        self.is_silent = session.info.is_silent();
        self.gauge.set_interest(aftermath::notable_ns(self.server, session, self.config), self.config.latency_tracking);
        self.server.tracking.act_for(&session.info)
    }

    /// Does what [`Turn::execute`] does while the server is paused, or for a client that is restrained: one that listens
    /// to channels, tracks keys, wants no replies, or does not count as a user of keys.
    #[cold]
    pub fn execute_restrained(
        &mut self,
        session: &mut Session,
        request: Request<'_>,
        plan: &Plan,
        index: usize,
        out: &mut Output,
    ) -> Deferred {
        if self.is_limited && self.server.store.pressure().is_over() && session.is_pushed_to() {
            self.relieve();
            session.take_pushes(out); // of keys that go before the command is even looked at
        }
        let deferred = self.execute_watched(session, request, plan, index, out);
        if matches!(deferred, Some(Later::Slices(_) | Later::Wait(_) | Later::Move(_) | Later::Pause)) {
            return deferred;
        }
        let is_about_client = plan.steps[index].command.is_some_and(|command| command.name.starts_with("client"));
        if session.transaction.is_none() && !is_about_client {
            session.info.tracking.lower(CACHING);
        }
        session.take_pushes(out); // of its own doings, which belong right behind the reply
        deferred
    }

    fn execute_watched(
        &mut self,
        session: &mut Session,
        request: Request<'_>,
        plan: &Plan,
        index: usize,
        out: &mut Output,
    ) -> Deferred {
        let before = out.mark();
        let command = plan.steps[index].command;
        let admitted = command.filter(|command| is_admitted(session, command, request));
        if let Some(command) = admitted.filter(|command| session.allows(command)) {
            if self.is_held_back(session, command, request) {
                session.last_command = Some(command);
                return Some(Later::Pause);
            }
            session.replies.begin_request();
            let deferred = self.execute(session, request, plan, index, out);
            if !matches!(deferred, Some(Later::Slices(_) | Later::Wait(_) | Later::Move(_))) {
                session.replies.end_request(out, before, Some(command));
            }
            return deferred;
        }
        session.replies.begin_request();
        self.refuse_request(session, request, command, out);
        session.replies.end_request(out, before, None);
        None
    }

    /// Returns whether CLIENT PAUSE holds a request back.
    fn is_held_back(&self, session: &Session, command: &Registered, request: Request<'_>) -> bool {
        match self.server.pause.in_force(self.now) {
            None => false,
            Some((Held::Everything, _)) => true,
            Some((Held::Writes, _)) => match &session.transaction {
                Some(transaction) if command.command.name == "EXEC" => {
                    transaction.queue.iter().any(|(queued, request)| self.may_write(queued, request.as_request()))
                }
                _ => self.may_write(command, request),
            },
        }
    }

    /// Returns whether a request may change keys or reach other servers. A script says so itself, if it says anything.
    fn may_write(&self, command: &Registered, request: Request<'_>) -> bool {
        #[cfg(feature = "lua")]
        if let Some(flags) = super::scripting::declared_flags(self.server, command, request) {
            return flags & crate::script::NO_WRITES == 0;
        }
        let _ = request;
        command.command.flags & (WRITE | MAY_REPLICATE) != 0
    }

    /// Frees memory if too much is used. Returns an error if that was in vain and the command needs some, or if the command
    /// may write and there are too few replicas.
    #[inline]
    fn limit_reached(&mut self, session: &Session, command: &Registered, request: Request<'_>) -> Option<Error> {
        let (is_over, server) = (self.server.store.pressure().is_over(), self.server);
        if is_over && self.relieve() == Relief::None && limits::needs_memory(session, command) {
            return Some(Error::OutOfMemory);
        }
        (server.lacks_replicas() && limits::writes(server, session, command, request)).then_some(Error::NoReplicas)
    }

    #[cold]
    fn relieve(&mut self) -> Relief {
        let hold = self.hold.get_or_insert_with(|| self.server.store.hold(1));
        self.server.relieve(hold, self.now)
    }

    /// Finds out why a request is not admitted, and tells the client.
    #[cold]
    fn refuse_request(
        &mut self,
        session: &mut Session,
        request: Request<'_>,
        command: Option<&'static Registered>,
        out: &mut Output,
    ) {
        let error = refusal(session, request, command, &self.config.special.renames);
        if let (Error::NoPerm(denial, _), Some(command)) = (&error, command) {
            acl::note_denial(self.server, self.config, session, (command, request), *denial);
        }
        self.turn_away(session, request, command, &error, out);
    }

    /// Tells a client why its request was not admitted. A transaction is off then; with EXEC itself it also ends.
    #[cold]
    fn turn_away(
        &mut self,
        session: &mut Session,
        request: Request<'_>,
        command: Option<&'static Registered>,
        error: &Error,
        out: &mut Output,
    ) {
        let is_named = |name: &[u8]| request.name().eq_ignore_ascii_case(name);
        if is_named(b"POST") || is_named(b"Host:") {
            // A web page makes a browser send this; not even the replies so far are for its eyes.
            warn!(client = session.info.id, "possible attack: closing a client that speaks HTTP");
            session.closing = true;
            *out = Output::new();
            return;
        }
        if let Some(command) = command {
            self.server.observed.meters.reject(command);
        }
        session.fail_transaction();
        if command.is_none_or(|command| command.name != "exec") {
            return refuse(self.server, &mut Reply::new(out, session.protocol), error);
        }
        session.transaction = None;
        session.info.set_queued(None);
        let server = self.server;
        let hold = self.hold.get_or_insert_with(|| server.store.hold(1));
        session.stop_watching(&mut hold.view(session.db, &[], self.now), &server.store);
        let text = error.wire_text();
        let reason = text.strip_prefix(b"ERR ").unwrap_or(&text);
        refuse(server, &mut Reply::new(out, session.protocol), &Error::ExecRefused(reason.to_vec()));
    }

    /// Does the next slice of a long command; returns whether it has finished. The gate is free between slices.
    pub fn resume(&mut self, task: &mut dyn Sliced, session: &Session, out: &mut Output) -> bool {
        self.hold = None;
        self.now = self.server.clock.now();
        let mut hold = self.server.store.hold(1);
        if matches!(hold, Hold::Refused) {
            return false;
        }
        let mut view = hold.view(session.db, &[], self.now);
        let mut reply = Reply::new(out, session.protocol);
        let is_done = task.step(&mut view, &mut reply);
        if let Some(command) = session.last_command {
            self.gauge.go_on(command);
            task.failure().iter().for_each(|_| self.gauge.fail(command));
        }
        task.failure().iter().for_each(|error| refuse(self.server, &mut reply, error));
        is_done
    }

    #[inline]
    fn call(
        &mut self,
        session: &mut Session,
        command: &'static Registered,
        request: Request<'_>,
        hashes: &[u64],
        out: &mut Output,
        deferred: &mut Deferred,
    ) {
        let (server, config, now) = (self.server, self.config, self.now);
        let is_exclusive = command.command.flags & EXCLUSIVE != 0;
        let is_special = command.command.flags & (EXCLUSIVE | ADMIN) != 0;
        if is_exclusive && !matches!(self.hold, Some(Hold::Exclusive(_))) {
            self.hold = None; // the gate is not reentrant
            self.hold = Some(server.store.hold_exclusively());
        }
        let hold = self.hold.get_or_insert_with(|| server.store.hold(1));
        let is_refused = matches!(hold, Hold::Refused);
        // Few commands are served while a script runs for too long, and none that touches a key.
        if is_refused && (command.command.flags & ALLOW_BUSY == 0 || !hashes.is_empty()) {
            self.hold = None;
            return self.turn_away(session, request, Some(command), &busy(self.server), out);
        }
        run(&mut Call {
            args: Args::new(request, command.name_words, hashes),
            view: hold.view(session.db, hashes, now).silent(self.is_silent),
            reply: Reply::new(out, session.protocol),
            session: &mut *session,
            server,
            config,
            command,
            gauge: &self.gauge,
            deferred: (!is_exclusive).then_some(&mut *deferred),
        });
        if is_special {
            self.follow_limit(); // it may have been CONFIG SET
        }
        if is_exclusive {
            self.now = server.clock.now();
        }
        if is_exclusive && !server.store.is_alone() || is_refused {
            self.hold = None; // others have waited long enough, or the script has ended by now
        }
        if is_exclusive && std::mem::take(&mut session.turn_is_over) {
            *deferred = Some(Later::NewTurn);
        }
    }

    #[cold]
    fn follow_limit(&mut self) {
        let pressure = self.server.store.pressure();
        self.is_limited = self.server.is_limited();
        if let Some(hold) = self.hold.as_mut().filter(|_| pressure.take_coarse()) {
            hold.report();
            self.server.sweep_wanted.notify_one(); // who removes what is too much even if nobody asks for anything
        }
    }
}

/// Calls the handler; what it wrote before an error is taken back.
#[inline]
fn run(call: &mut Call<'_>) {
    let begun = call.gauge.begin();
    let mark = call.reply.mark();
    if let Err(error) = (call.command.handler)(call) {
        call.reply.rollback(mark);
        fail(call, &error);
    }
    call.session.commands += 1;
    if let Some(ns) = call.gauge.end(call.command, begun, call.view.lookups()) {
        aftermath::note(call, ns);
    }
}

#[cold]
fn fail(call: &mut Call<'_>, error: &Error) {
    call.gauge.fail(call.command);
    refuse(call.server, &mut call.reply, error);
}

/// Refuses a container called without a subcommand, which its arity has refused before.
pub(super) fn no_subcommand(call: &mut Call<'_>) -> Result<()> {
    Err(Error::WrongArity(call.name().into()))
}

/// Decides whether a client may make a request now.
#[inline]
fn is_admitted(session: &Session, command: &Registered, request: Request<'_>) -> bool {
    command.accepts(request.len())
        && (session.access.is_free() || is_permitted(session, command, request))
        && (session.transaction.is_none() || command.command.flags & NO_MULTI == 0)
        && command.command.flags & session.barred == 0
}

/// Says that a script runs for too long.
#[cold]
fn busy(server: &Namespace) -> Error {
    #[cfg(feature = "lua")]
    return server.scripts.control.busy_error();
    #[cfg(not(feature = "lua"))]
    return {
        let _ = server;
        Error::Busy("SCRIPT")
    };
}

/// Decides for a client that is not free to do everything whether it may make this request.
#[cold]
fn is_permitted(session: &Session, command: &Registered, request: Request<'_>) -> bool {
    !needs_authentication(session, command) && session.access.denial(command, request).is_none()
}

fn needs_authentication(session: &Session, command: &Registered) -> bool {
    session.access.needs_authentication() && command.command.flags & NO_AUTH == 0
}

/// Says why a client may not make a request now: the first of the reasons, in Redis' order.
#[cold]
fn refusal(session: &Session, request: Request<'_>, command: Option<&'static Registered>, renames: &Renames) -> Error {
    let Some(command) = command else { return unknown::complain(request, renames) };
    if !command.accepts(request.len()) {
        return Error::WrongArity(command.name.clone().into());
    }
    if needs_authentication(session, command) {
        return Error::NoAuth;
    }
    if session.transaction.is_some() && command.command.flags & NO_MULTI != 0 {
        return Error::NotInMulti;
    }
    match session.access.denial(command, request) {
        Some(denial) => Error::NoPerm(denial, &command.name),
        // Redis takes a client that watches others by MONITOR for a kind of replica.
        None if command.command.flags & session.barred != 0 => Error::other("Replica can't interact with the keyspace"),
        // Nothing else refuses a request.
        None => Error::NotWhileListening(command.name.clone()),
    }
}

/// Finds the command, or the subcommand, that a request is for.
#[inline]
pub(super) fn find(request: Request<'_>, renames: &Renames) -> Option<&'static Registered> {
    let command = match renames.is_empty() {
        true => table().find(request.name())?,
        false => renames.find(request.name())?,
    };
    match command.subcommands.is_empty() || request.len() == 1 {
        true => Some(command),
        false => command.subcommand(request.arg(1)),
    }
}

/// Keeps a request for EXEC.
fn queue(session: &mut Session, command: &'static Registered, request: Request<'_>, out: &mut Output) {
    let Some(transaction) = &mut session.transaction else { return };
    transaction.queue.push((command, request.to_owned()));
    session.info.set_queued(Some(transaction.queue.len()));
    session.info.add_queued_bytes(request.bytes_len() + request.len() * size_of::<usize>());
    Reply::new(out, session.protocol).simple("QUEUED");
}

/// Writes an error reply and counts it.
pub(super) fn refuse(server: &Namespace, reply: &mut Reply<'_>, error: &Error) {
    let line = error.wire_text();
    server.observed.errors.count(&line);
    reply.error(&line);
}
