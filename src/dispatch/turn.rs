//! The gate: look up, check, queue, lock, call, take note of what happened.
//!
//! Invariant: every command of every client passes [`Turn::execute`], and EXEC re-enters `run`: there is
//! no second way to carry out a command.

use tracing::warn;

use crate::client::pause::Held;
use crate::client::session::Session;
use crate::client::tracking::CACHING;
use crate::command::server::acl;
use crate::config::Config;
use crate::dispatch::call::{Call, Deferred, Incremental, Later};
use crate::dispatch::{Args, Handlers, limits, post_call, unknown};
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::observe::CallTimer;
use crate::push::tracking::Acting;
use crate::resp::{Batch, Output, Reply, Request};
use crate::spec::{
    ADMIN, ALLOW_BUSY, CommandSpec, EXCLUSIVE, MAY_REPLICATE, NO_AUTH, NO_MULTI, NO_QUEUE, Names, WRITE,
};
use crate::store::{Eviction, GateGuard, Store};
use crate::time::clock::Now;

/// For how long calls share one reading of the time, in nanoseconds. A key may be found for so long after its deadline.
const TIME_KEPT_NS: u32 = 100_000;

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
    command: Option<&'static CommandSpec>,
    /// Where this request's hashes end among the plan's; they begin where those of the request before end.
    hashes_end: usize,
}

impl Plan {
    /// Returns how many requests there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    fn hashes_of(&self, index: usize) -> &[u64] {
        let start = index.checked_sub(1).map_or(0, |before| self.steps[before].hashes_end);
        &self.hashes[start..self.steps[index].hashes_end]
    }
}

/// Executes the requests of one batch: the gate is taken once and kept, and the time is read once as long as it is true.
pub(crate) struct Turn<'n> {
    namespace: &'n Namespace,
    handlers: &'static Handlers,
    config: &'n Config,
    hold: Option<GateGuard<'n>>,
    now: Now,
    /// What the counter stood at when the time was read.
    read_at: u64,
    /// What the counter stands at when the time is to be read again.
    stale_at: u64,
    /// Whether there is a limit for memory, or replicas are asked for, which is then looked at before each command.
    is_limited: bool,
    /// Whether the client's commands do not count as uses of keys.
    is_silent: bool,
    timer: CallTimer<'n>,
}

impl<'n> Turn<'n> {
    /// Starts a turn of the client with this number at the present time.
    pub(crate) fn new(namespace: &'n Namespace, handlers: &'static Handlers, config: &'n Config, client: u64) -> Self {
        let timer = CallTimer::new(&namespace.observed.meters, &namespace.clock, client);
        // Read behind the counter: what has passed since is counted too long rather than too short.
        let (read_at, now) = (timer.begin(), namespace.clock.now());
        let is_limited = namespace.is_limited();
        namespace.store.memory_account().follow_clock(now);
        if is_limited {
            namespace.note_shortage(now);
        }
        timer.set_interest(namespace.observed.notable_ns(config), config.latency_tracking);
        let stale_at = timer.ticks_after(read_at, TIME_KEPT_NS);
        Turn { namespace, handlers, config, hold: None, now, read_at, stale_at, is_limited, is_silent: false, timer }
    }

    /// Reads the time again: others were waited for, or calls took long.
    #[cold]
    fn read_time(&mut self) {
        self.read_at = self.namespace.clock.ticks();
        self.stale_at = self.timer.ticks_after(self.read_at, TIME_KEPT_NS);
        self.now = self.namespace.clock.now();
        self.namespace.store.memory_account().follow_clock(self.now);
    }

    /// Takes the gate, unless it is held.
    #[inline]
    fn take_gate(&mut self, take: impl FnOnce(&'n Store) -> GateGuard<'n>) {
        if self.hold.is_none() {
            // Made where it stays: a hold is long, and to move it costs as much as to take it.
            let has_waited = self.hold.get_or_insert_with(|| take(&self.namespace.store)).has_waited();
            if has_waited {
                self.read_time();
            }
        }
    }

    /// Returns the time of this turn.
    pub(crate) fn now(&self) -> Now {
        self.now
    }

    /// Looks up the commands of a batch from request `first` on, hashes their keys and starts to load what they will touch.
    #[inline]
    pub(crate) fn plan(&mut self, batch: &Batch, first: usize, db: usize, plan: &mut Plan) {
        plan.steps.clear();
        plan.hashes.clear();
        let names = self.namespace.names(self.config);
        // Pipelines mostly repeat a command, in the same spelling.
        let mut before: (&[u8], Option<&'static CommandSpec>) = (b"", None);
        for request in batch.iter_from(first) {
            let name = request.name();
            let command = match before.1.is_some() && name == before.0 {
                true => before.1,
                false => find(request, names),
            };
            // A container's name alone does not tell what is called.
            before = (name, command.filter(|command| command.name_words == 1 && command.subcommands.is_empty()));
            if let Some(command) = command
                && command.accepts(request.len())
            {
                command.hash_keys(request, &self.namespace.store, &mut plan.hashes);
            }
            plan.steps.push(Step { command, hashes_end: plan.hashes.len() });
        }
        if plan.hashes.len() >= PREFETCH_MIN {
            self.take_gate(|store| store.hold(plan.len()));
            self.hold.iter_mut().for_each(|hold| hold.prefetch(db, &plan.hashes));
        }
        self.timer.note_requests(plan.len());
        if plan.len() > 1 {
            self.timer.begin_anew();
        }
    }

    /// Carries out, queues or refuses request `index` of a plan. What is left to do of a long command is put into
    /// `deferred`; the caller finishes it with [`Turn::resume`] before the next request.
    #[inline]
    pub(crate) fn execute(
        &mut self,
        session: &mut Session,
        request: Request<'_>,
        plan: &Plan,
        index: usize,
        out: &mut Output,
        deferred: &mut Deferred,
    ) {
        match plan.steps[index].command {
            Some(command) if is_admitted(session, command, request) => {
                if self.is_limited
                    && let Some(error) = self.limit_reached(session, command, request)
                {
                    return self.reject(session, request, Some(command), &error, out);
                }
                session.last_command = Some(command);
                if session.transaction.is_some() && command.command.flags & NO_QUEUE == 0 {
                    if self.namespace.store.busy_flag().is_occupied() && command.command.flags & ALLOW_BUSY == 0 {
                        return self.reject(session, request, Some(command), &busy(self.namespace), out);
                    }
                    queue(session, command, request, out);
                } else {
                    self.call(session, command, request, plan.hashes_of(index), out, deferred);
                }
            }
            command => self.refuse_request(session, request, command, out),
        }
    }

    /// Pays attention to what few clients need: that its calls do not count as uses of keys, and, for one that tracks keys,
    /// to every call, and to who makes it until what is returned is dropped.
    #[cold]
    pub(crate) fn attend(&mut self, session: &Session) -> Option<Acting<'n>> {
        self.is_silent = session.info.is_silent();
        self.timer
            .set_interest(post_call::notable_ns(self.namespace, session, self.config), self.config.latency_tracking);
        self.namespace.tracking.act_for(&session.info)
    }

    /// Does what [`Turn::execute`] does while the server is paused, or for a client that is restrained: one that listens
    /// to channels, tracks keys, wants no replies, or does not count as a user of keys.
    #[cold]
    pub(crate) fn execute_restrained(
        &mut self,
        session: &mut Session,
        request: Request<'_>,
        plan: &Plan,
        index: usize,
        out: &mut Output,
        deferred: &mut Deferred,
    ) {
        if self.is_limited && self.namespace.store.memory_account().is_over() && session.is_pushed_to() {
            self.evict_to_fit();
            session.take_pushes(out); // of keys that go before the command is even looked at
        }
        self.execute_watched(session, request, plan, index, out, deferred);
        if matches!(deferred, Some(Later::Slices(_) | Later::Wait(_) | Later::Move(_) | Later::Pause)) {
            return;
        }
        let is_about_client = plan.steps[index].command.is_some_and(|command| command.name.starts_with("client"));
        if session.transaction.is_none() && !is_about_client {
            session.info.tracking.lower(CACHING);
        }
        session.take_pushes(out); // of its own doings, which belong right behind the reply
    }

    fn execute_watched(
        &mut self,
        session: &mut Session,
        request: Request<'_>,
        plan: &Plan,
        index: usize,
        out: &mut Output,
        deferred: &mut Deferred,
    ) {
        let before = out.mark();
        let command = plan.steps[index].command;
        let admitted = command.filter(|command| is_admitted(session, command, request));
        if let Some(command) = admitted.filter(|command| session.allows(command)) {
            if self.is_held_back(session, command, request) {
                session.last_command = Some(command);
                *deferred = Some(Later::Pause);
                return;
            }
            session.replies.begin_request();
            self.execute(session, request, plan, index, out, deferred);
            if !matches!(deferred, Some(Later::Slices(_) | Later::Wait(_) | Later::Move(_))) {
                session.replies.end_request(out, before, Some(command));
            }
            return;
        }
        session.replies.begin_request();
        self.refuse_request(session, request, command, out);
        session.replies.end_request(out, before, None);
    }

    /// Returns whether CLIENT PAUSE holds a request back.
    fn is_held_back(&self, session: &Session, command: &CommandSpec, request: Request<'_>) -> bool {
        match self.namespace.pause.in_force(self.now) {
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
    fn may_write(&self, command: &CommandSpec, request: Request<'_>) -> bool {
        #[cfg(feature = "lua")]
        if let Some(flags) = crate::command::scripting::declared_flags(self.namespace, command, request) {
            return flags & crate::script::NO_WRITES == 0;
        }
        let _ = request;
        command.command.flags & (WRITE | MAY_REPLICATE) != 0
    }

    /// Frees memory if too much is used. Returns an error if that was in vain and the command needs some, or if the command
    /// may write and there are too few replicas. What was found out holds for what a script calls, too: by then other
    /// threads may have used up what was freed.
    #[inline]
    fn limit_reached(&mut self, session: &mut Session, command: &CommandSpec, request: Request<'_>) -> Option<Error> {
        let (is_over, namespace) = (self.namespace.store.memory_account().is_over(), self.namespace);
        session.is_short_of_memory = is_over && self.evict_to_fit() == Eviction::None;
        if session.is_short_of_memory && limits::needs_memory(session, command) {
            return Some(Error::OutOfMemory);
        }
        (namespace.lacks_replicas() && limits::writes(namespace, session, command, request))
            .then_some(Error::NoReplicas)
    }

    #[cold]
    fn evict_to_fit(&mut self) -> Eviction {
        let hold = self.hold.get_or_insert_with(|| self.namespace.store.hold(1));
        self.namespace.evict_to_fit(hold, self.now)
    }

    /// Finds out why a request is not admitted, and tells the client.
    #[cold]
    fn refuse_request(
        &mut self,
        session: &mut Session,
        request: Request<'_>,
        command: Option<&'static CommandSpec>,
        out: &mut Output,
    ) {
        let names = self.namespace.names(self.config);
        let error = refusal(session, request, command, names);
        if let (Error::NoPerm(denial, _), Some(command)) = (&error, command) {
            acl::note_denial(self.namespace, self.config, session, (command, request), *denial);
        }
        if command.is_none() {
            unknown::note(self.namespace, names, request, &session.info.addr);
        }
        self.reject(session, request, command, &error, out);
    }

    /// Tells a client why its request was not admitted. A transaction is off then; with EXEC itself it also ends.
    #[cold]
    fn reject(
        &mut self,
        session: &mut Session,
        request: Request<'_>,
        command: Option<&'static CommandSpec>,
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
            self.namespace.observed.meters.reject(command);
        }
        session.fail_transaction();
        if command.is_none_or(|command| command.name != "exec") {
            return refuse(self.namespace, &mut Reply::new(out, session.protocol), error);
        }
        session.transaction = None;
        session.info.set_queued(None);
        let namespace = self.namespace;
        let hold = self.hold.get_or_insert_with(|| namespace.store.hold(1));
        session.stop_watching(&mut hold.view(session.db, &[], self.now), &namespace.store);
        let text = error.wire_text();
        let reason = text.strip_prefix(b"ERR ").unwrap_or(&text);
        refuse(namespace, &mut Reply::new(out, session.protocol), &Error::ExecRefused(reason.to_vec()));
    }

    /// Does the next slice of a long command; returns whether it has finished. The gate is free between slices.
    pub(crate) fn resume(&mut self, task: &mut dyn Incremental, session: &Session, out: &mut Output) -> bool {
        self.hold = None;
        let mut hold = self.namespace.store.hold(1);
        self.now = self.namespace.clock.now();
        if matches!(hold, GateGuard::Refused) {
            return false;
        }
        let mut view = hold.view(session.db, &[], self.now);
        let mut reply = Reply::new(out, session.protocol);
        let is_done = task.step(&mut view, &mut reply);
        if let Some(command) = session.last_command {
            self.timer.go_on(command);
            task.failure().iter().for_each(|_| self.timer.fail(command));
        }
        task.failure().iter().for_each(|error| refuse(self.namespace, &mut reply, error));
        is_done
    }

    #[inline]
    fn call(
        &mut self,
        session: &mut Session,
        command: &'static CommandSpec,
        request: Request<'_>,
        hashes: &[u64],
        out: &mut Output,
        deferred: &mut Deferred,
    ) {
        let (namespace, config) = (self.namespace, self.config);
        let is_exclusive = command.command.flags & EXCLUSIVE != 0;
        if self.timer.begin() >= self.stale_at {
            self.read_time();
        }
        if is_exclusive && !matches!(self.hold, Some(GateGuard::Exclusive(_))) {
            self.hold = None; // the gate is not reentrant
            self.take_gate(Store::lock_exclusive);
        }
        self.take_gate(|store| store.hold(1));
        let Some(hold) = &mut self.hold else { return };
        let is_shared = matches!(hold, GateGuard::Shared(_));
        // Few commands are served while a script runs for too long, and none that touches a key.
        if matches!(hold, GateGuard::Refused) && (command.command.flags & ALLOW_BUSY == 0 || !hashes.is_empty()) {
            self.hold = None;
            return self.reject(session, request, Some(command), &busy(self.namespace), out);
        }
        {
            // Built and dropped where it stays: a view is long, and to move it costs as much as a look-up.
            let mut call = Call {
                args: Args::new(request, command.name_words, hashes),
                view: hold.view(session.db, hashes, self.now),
                reply: Reply::new(out, session.protocol),
                session: &mut *session,
                namespace,
                handlers: self.handlers,
                config,
                command,
                timer: &self.timer,
                read_at: self.read_at,
                deferred: (!is_exclusive).then_some(&mut *deferred),
            };
            if self.is_silent {
                call.view.set_silent();
            }
            // A shard may have been waited for; where one thread executes everything, or holds the gate alone, it was not.
            if is_shared && namespace.clock.ticks() >= self.stale_at {
                (self.read_at, self.now) = (namespace.clock.ticks(), namespace.clock.now());
                call.read_at = self.read_at;
                call.view.set_now(self.now);
            }
            run(&mut call);
        }
        if command.command.flags & (EXCLUSIVE | ADMIN) != 0 {
            self.follow_up(session, is_exclusive, deferred);
        }
    }

    /// Does what is to be done after a call of the few commands that hold the store alone or change settings.
    fn follow_up(&mut self, session: &mut Session, is_exclusive: bool, deferred: &mut Deferred) {
        self.follow_limit(); // it may have been CONFIG SET
        if !is_exclusive {
            return;
        }
        self.read_time();
        if !self.namespace.store.is_alone() {
            self.hold = None; // others have waited long enough
        }
        if std::mem::take(&mut session.turn_is_over) {
            *deferred = Some(Later::NewTurn);
        }
    }

    fn follow_limit(&mut self) {
        let memory_account = self.namespace.store.memory_account();
        self.is_limited = self.namespace.is_limited();
        if let Some(hold) = self.hold.as_mut().filter(|_| memory_account.take_coarse()) {
            hold.report();
            self.namespace.sweep_wanted.notify_one(); // who removes what is too much even if nobody asks for anything
        }
    }
}

/// Calls the handler; what it wrote before an error is taken back.
#[inline]
pub(crate) fn run(call: &mut Call<'_>) {
    let begun = call.timer.begin();
    let mark = call.reply.mark();
    if let Err(error) = call.handlers.of(call.command)(call) {
        call.reply.rollback(mark);
        fail(call, &error);
    }
    call.session.commands += 1;
    if let Some(ns) = call.timer.end(call.command, begun, call.view.lookups()) {
        post_call::note(call, ns);
    }
}

#[cold]
fn fail(call: &mut Call<'_>, error: &Error) {
    call.timer.fail(call.command);
    refuse(call.namespace, &mut call.reply, error);
}

/// Refuses a container called without a subcommand, which its arity has refused before.
pub(crate) fn no_subcommand(call: &mut Call<'_>) -> Result<()> {
    Err(Error::WrongArity(call.name().into()))
}

/// Decides whether a client may make a request now.
#[inline]
fn is_admitted(session: &Session, command: &CommandSpec, request: Request<'_>) -> bool {
    command.accepts(request.len())
        && (session.access.is_free() || is_permitted(session, command, request))
        && (session.transaction.is_none() || command.command.flags & NO_MULTI == 0)
        && command.command.flags & session.barred == 0
}

/// Says that a script runs for too long.
#[cold]
pub(crate) fn busy(namespace: &Namespace) -> Error {
    #[cfg(feature = "lua")]
    return namespace.scripts.control.busy_error();
    #[cfg(not(feature = "lua"))]
    return {
        let _ = namespace;
        Error::Busy(Default::default(), "SCRIPT")
    };
}

/// Decides for a client that is not free to do everything whether it may make this request.
#[cold]
fn is_permitted(session: &Session, command: &CommandSpec, request: Request<'_>) -> bool {
    !needs_authentication(session, command) && session.access.denial(command, request).is_none()
}

fn needs_authentication(session: &Session, command: &CommandSpec) -> bool {
    session.access.needs_authentication() && command.command.flags & NO_AUTH == 0
}

/// Says why a client may not make a request now: the first of the reasons, in Redis' order.
#[cold]
fn refusal(session: &Session, request: Request<'_>, command: Option<&'static CommandSpec>, names: Names<'_>) -> Error {
    let Some(command) = command else { return unknown::complain(request, names) };
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
pub(crate) fn find(request: Request<'_>, names: Names<'_>) -> Option<&'static CommandSpec> {
    let command = names.find(request.name())?;
    match command.subcommands.is_empty() || request.len() == 1 {
        true => Some(command),
        false => command.subcommand(request.arg(1)),
    }
}

/// Keeps a request for EXEC.
fn queue(session: &mut Session, command: &'static CommandSpec, request: Request<'_>, out: &mut Output) {
    let Some(transaction) = &mut session.transaction else { return };
    transaction.push(command, request);
    session.info.set_queued(Some(transaction.queue.len()));
    session.info.add_queued_bytes(request.bytes_len() + request.len() * size_of::<usize>());
    Reply::new(out, session.protocol).simple("QUEUED");
}

/// Writes an error reply and counts it.
pub(crate) fn refuse(namespace: &Namespace, reply: &mut Reply<'_>, error: &Error) {
    let line = error.wire_text();
    namespace.observed.errors.count(&line);
    reply.error(&line);
}
