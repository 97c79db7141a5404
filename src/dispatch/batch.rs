//! Executes the requests of one batch of a client.

use tracing::warn;

use crate::acl::Context;
use crate::client::caller::Caller;
use crate::client::registry::Unblocked;
use crate::client::session::Client;
use crate::client::tracking::CACHING;
use crate::config::Config;
use crate::dispatch::call::{Call, refuse, run};
use crate::dispatch::gate::{Admission, CHECKS, Obstacle, busy};
use crate::dispatch::plan::Plan;
use crate::dispatch::serve::{Means, Postponed, serve, serve_leftover, serve_postponed};
use crate::dispatch::{Args, Continuation, Handlers, Next, denials, effects, post_call, unknown};
use crate::error::Error;
use crate::namespace::Namespace;
use crate::observe::CallTimer;
use crate::resp::{Batch, Output, Reply, Request};
use crate::spec::{ALLOW_BUSY, CONTROL, CommandSpec, EVERY, EXCLUSIVE, Flags, NO_QUEUE};
use crate::store::{Cx, Eviction, GateGuard, Lookup, Origin, Store};
use crate::time::clock::Now;

/// For how long calls share one reading of the time, in nanoseconds. A key may be found for so long after its deadline.
const TIME_KEPT_NS: u32 = 100_000;

/// From how many keys in a batch on it pays to start loading them ahead.
const PREFETCH_MIN: usize = 2;

/// Executes the requests of one batch: the gate of the store is taken once and kept, and the time is read once for as long
/// as it is true.
pub(crate) struct BatchRun<'n> {
    namespace: &'n Namespace,
    handlers: &'static Handlers,
    config: &'n Config,
    guard: Option<GateGuard<'n>>,
    now: Now,
    /// What the counter stood at when the time was read.
    read_at: u64,
    /// What the counter stands at when the time is to be read again.
    stale_at: u64,
    /// The flags of commands that the gate has to look at; [`EVERY`] stands for all.
    closed: Flags,
    /// Whether there is a limit for memory, which is then looked at before each command.
    has_limit: bool,
    /// The client.
    origin: Origin,
    /// What its look-ups may do.
    lookup: Lookup,
    /// Whether what was pushed to the client stands between its replies, and other care is taken of each call.
    is_attended: bool,
    timer: CallTimer<'n>,
}

impl<'n> BatchRun<'n> {
    /// Starts a batch of a client at the present time.
    #[inline]
    pub(crate) fn new(
        namespace: &'n Namespace,
        handlers: &'static Handlers,
        config: &'n Config,
        client: &Client,
    ) -> Self {
        let timer = CallTimer::new(&namespace.observed.meters, &namespace.clock, client.caller.info.id);
        // Read behind the counter: what has passed since is counted too long rather than too short.
        let (read_at, now) = (timer.begin(), namespace.clock.now());
        namespace.store.memory_account().follow_clock(now);
        timer.set_interest(namespace.observed.notable_ns(config), config.latency_tracking);
        let stale_at = timer.ticks_after(read_at, TIME_KEPT_NS);
        let has_limit = namespace.store.memory_account().has_limit();
        if has_limit {
            namespace.note_shortage(now);
        }
        let is_attended = client.needs_attention();
        // Built where it stays: a run is long, and to move it costs as much as a look-up.
        BatchRun {
            namespace,
            handlers,
            config,
            guard: None,
            now,
            read_at,
            stale_at,
            closed: closed(namespace, client, is_attended),
            has_limit,
            origin: Origin::Client(client.caller.info.id),
            lookup: Lookup::ALL,
            is_attended,
            timer,
        }
    }

    /// Prepares for what few clients need: that calls do not count as uses of keys, and, where it tracks keys, that every
    /// call is recorded.
    #[inline]
    pub(crate) fn attend(&mut self, client: &Client) {
        if self.is_attended {
            self.attend_closely(client);
        }
    }

    #[cold]
    fn attend_closely(&mut self, client: &Client) {
        self.lookup = Lookup::allowed(!client.caller.info.is_silent());
        let notable_ns = post_call::notable_ns(self.namespace, &client.caller, self.config);
        self.timer.set_interest(notable_ns, self.config.latency_tracking);
    }

    /// Returns what the store is told about the calls of this batch.
    #[inline]
    fn cx(&self) -> Cx {
        Cx { now: self.now, origin: self.origin, lookup: self.lookup }
    }

    /// Reads the time again: others were waited for, or calls took long.
    #[cold]
    fn read_time(&mut self) {
        self.read_at = self.namespace.clock.ticks();
        self.stale_at = self.timer.ticks_after(self.read_at, TIME_KEPT_NS);
        self.now = self.namespace.clock.now();
        self.namespace.store.memory_account().follow_clock(self.now);
    }

    /// Takes the gate of the store, unless it is held.
    #[inline]
    fn take_gate(&mut self, take: impl FnOnce(&'n Store) -> GateGuard<'n>) {
        if self.guard.is_none() {
            // Made where it stays: a guard is long, and to move it costs as much as to take it.
            let has_waited = self.guard.get_or_insert_with(|| take(&self.namespace.store)).has_waited();
            if has_waited {
                self.read_time();
            }
        }
    }

    /// Returns the time of this batch.
    pub(crate) fn now(&self) -> Now {
        self.now
    }

    /// Looks up the commands of a batch from request `first` on, hashes their keys and starts to load what they will touch.
    #[inline]
    pub(crate) fn plan(&mut self, batch: &Batch, first: usize, db: usize, plan: &mut Plan) {
        plan.make(batch, first, self.namespace.names(self.config), &self.namespace.store);
        if plan.hashes().len() >= PREFETCH_MIN {
            self.take_gate(|store| store.hold(plan.len()));
            self.guard.iter_mut().for_each(|guard| guard.prefetch(db, plan.hashes()));
        }
        self.timer.note_requests(plan.len());
        if plan.len() > 1 {
            self.timer.begin_anew();
        }
    }

    /// Executes, queues or refuses request `index` of a plan. Returns what is left to do before the next request.
    #[inline]
    pub(crate) fn execute(
        &mut self,
        client: &mut Client,
        request: Request<'_>,
        plan: &Plan,
        index: usize,
        out: &mut Output,
    ) -> Next {
        if let Some(command) = plan.command(index)
            && command.flags & self.closed == 0
            && command.accepts(request.len())
            && !(self.has_limit && self.namespace.store.memory_account().is_over())
        {
            client.caller.called = Some(command);
            return self.call(client, command, request, plan.hashes_of(index), out);
        }
        self.examine(client, request, plan, index, out)
    }

    /// Does what [`BatchRun::execute`] does with a request that the gate has to look at, or for a client whose calls need
    /// more than an answer.
    #[cold]
    fn examine(
        &mut self,
        client: &mut Client,
        request: Request<'_>,
        plan: &Plan,
        index: usize,
        out: &mut Output,
    ) -> Next {
        self.make_room(client, out);
        let before = out.mark();
        let command = plan.command(index);
        let mut answered = None;
        let next = match self.admit(client, request, command) {
            Ok(command) => {
                client.caller.called = Some(command);
                client.session.replies.begin_request();
                answered = Some(command);
                match client.session.transaction.is_some() && command.flags & NO_QUEUE == 0 {
                    true => queue(client, command, request, out),
                    false => self.call(client, command, request, plan.hashes_of(index), out),
                }
            }
            Err(Obstacle::Paused) => {
                client.caller.called = command;
                Next::Retry
            }
            Err(Obstacle::Refused(error, _)) => {
                client.session.replies.begin_request();
                self.reject(client, request, command, &error, out);
                Next::Done
            }
        };
        client.caller.is_short_of_memory = false;
        if !next.is_unfinished() {
            client.session.replies.end_request(out, before, answered);
            self.follow_reply(client, command, out);
        }
        next
    }

    /// Writes what was pushed to the client by its own call, which belongs right behind the reply.
    fn follow_reply(&mut self, client: &mut Client, command: Option<&'static CommandSpec>, out: &mut Output) {
        if !self.is_attended {
            return;
        }
        let is_about_client = command.is_some_and(|command| command.name.starts_with("client"));
        if client.session.transaction.is_none() && !is_about_client {
            client.caller.info.tracking.lower(CACHING);
        }
        client.take_pushes(out);
    }

    /// Evicts keys if more memory is used than may be, and notes whether that was in vain. It holds for what a script calls,
    /// too: by then other threads may have used up what was freed.
    fn make_room(&mut self, client: &mut Client, out: &mut Output) {
        if self.has_limit && self.namespace.store.memory_account().is_over() {
            client.caller.is_short_of_memory = self.evict_to_fit() == Eviction::None;
            if self.is_attended {
                client.take_pushes(out); // of keys that go before the command is even looked at
            }
        }
    }

    fn evict_to_fit(&mut self) -> Eviction {
        let cx = self.cx();
        let guard = self.guard.get_or_insert_with(|| self.namespace.store.hold(1));
        self.namespace.evict_to_fit(guard, cx)
    }

    /// Lets a request pass the gate, or says what stands in its way; and records that.
    fn admit(
        &self,
        client: &Client,
        request: Request<'_>,
        command: Option<&'static CommandSpec>,
    ) -> Result<&'static CommandSpec, Obstacle> {
        let (namespace, config, Client { caller, session }) = (self.namespace, self.config, client);
        let names = namespace.names(config);
        let Some(command) = command else {
            unknown::note(namespace, names, request, &caller.info.addr);
            return Err(unknown::unknown_command(request, names).into());
        };
        let (session, now) = (Some(session), self.now);
        let admission = Admission { namespace, config, caller, session, command, request, now, script: None };
        let Some(obstacle) = admission.obstacle(&CHECKS) else { return Ok(command) };
        if let Obstacle::Refused(_, Some(denial)) = obstacle {
            let context = if client.session.transaction.is_some() { Context::Multi } else { Context::TopLevel };
            caller.info.set_last_command(command);
            denials::record_denial(&admission, denial, context);
        }
        Err(obstacle)
    }

    /// Tells a client why its request was not admitted. A transaction has failed then; with EXEC itself it also ends.
    #[cold]
    fn reject(
        &mut self,
        client: &mut Client,
        request: Request<'_>,
        command: Option<&'static CommandSpec>,
        error: &Error,
        out: &mut Output,
    ) {
        let Client { caller, session } = client;
        let is_named = |name: &[u8]| request.name().eq_ignore_ascii_case(name);
        if is_named(b"POST") || is_named(b"Host:") {
            // A web page makes a browser send this; not even the replies so far are for its eyes.
            warn!(client = caller.info.id, "possible attack: closing a client that speaks HTTP");
            caller.closing = true;
            *out = Output::new();
            return;
        }
        let namespace = self.namespace;
        command.iter().for_each(|command| namespace.observed.meters.reject(command));
        session.fail_transaction();
        if command.is_none_or(|command| command.name != "exec") {
            return refuse(namespace, &mut Reply::new(out, caller.protocol), error);
        }
        session.transaction = None;
        caller.info.set_queued(None);
        let cx = self.cx();
        let guard = self.guard.get_or_insert_with(|| namespace.store.hold(1));
        session.stop_watching(caller, &mut guard.view(caller.db, &[], cx), &namespace.store);
        let text = error.wire_text();
        let reason = text.strip_prefix(b"ERR ").unwrap_or(&text);
        refuse(namespace, &mut Reply::new(out, caller.protocol), &Error::ExecRefused(reason.to_vec()));
        self.closed = closed(self.namespace, client, self.is_attended);
    }

    /// Does the next step of a command that was not finished; returns whether it is finished now. The gate is free between
    /// steps; while a script keeps it for too long, nothing is done.
    pub(crate) fn resume(
        &mut self,
        rest: &mut dyn Continuation,
        caller: &Caller,
        woken: Unblocked,
        out: &mut Output,
    ) -> bool {
        self.guard = None;
        let mut guard = self.namespace.store.hold(1);
        self.now = self.namespace.clock.now();
        if matches!(guard, GateGuard::Refused) {
            return false;
        }
        let mut view = guard.view(caller.db, &[], self.cx());
        let mut reply = Reply::new(out, caller.protocol);
        let result = rest.step(&mut view, &mut reply, woken);
        drop(view);
        if self.namespace.store.has_ready_keys() {
            let BatchRun { namespace, handlers, config, ref timer, .. } = *self;
            serve_leftover(&mut guard, self.cx(), Means { namespace, handlers, config, timer });
        }
        let command = caller.called;
        command.iter().for_each(|command| self.timer.go_on(command));
        result.unwrap_or_else(|error| {
            command.iter().for_each(|command| self.timer.fail(command));
            refuse(self.namespace, &mut reply, &error);
            true
        })
    }

    /// Undoes what a command has left in the store whose client has left; returns whether that could be done: not while a
    /// script keeps the gate for too long.
    pub(crate) fn abandon(&self, rest: &mut dyn Continuation, caller: &Caller) -> bool {
        let mut guard = self.namespace.store.hold(1);
        let mut view = guard.view(caller.db, &[], self.cx());
        if view.is_closed() {
            return false;
        }
        rest.abandon(&mut view);
        true
    }

    #[inline]
    fn call(
        &mut self,
        client: &mut Client,
        command: &'static CommandSpec,
        request: Request<'_>,
        hashes: &[u64],
        out: &mut Output,
    ) -> Next {
        let (namespace, config) = (self.namespace, self.config);
        if self.timer.begin() >= self.stale_at {
            self.read_time();
        }
        if command.flags & EXCLUSIVE != 0 && !matches!(self.guard, Some(GateGuard::Exclusive(_))) {
            self.guard = None; // the gate is not reentrant
            self.take_gate(Store::lock_exclusive);
        }
        self.take_gate(|store| store.hold(1));
        let (cx, mut next, mut postponed) = (self.cx(), Next::Done, None);
        let Some(guard) = &mut self.guard else { return next };
        let is_shared = matches!(guard, GateGuard::Shared(_));
        // Few commands are served while a script runs for too long, and none that touches a key.
        if matches!(guard, GateGuard::Refused) && (command.flags & ALLOW_BUSY == 0 || !hashes.is_empty()) {
            self.guard = None;
            self.reject(client, request, Some(command), &busy(self.namespace), out);
            return next;
        }
        {
            // Built and dropped where it stays: a view is long, and to move it costs as much as a look-up.
            let mut call = Call {
                args: Args::new(request, command.name_words, hashes),
                view: guard.view(client.caller.db, hashes, cx),
                reply: Reply::new(out, client.caller.protocol),
                caller: &mut client.caller,
                session: Some(&mut client.session),
                namespace,
                handlers: self.handlers,
                config,
                command,
                timer: &self.timer,
                read_at: self.read_at,
                // An exclusive call is nested in nothing, and yet must not leave anything to do: others are held up.
                next: (command.flags & EXCLUSIVE == 0).then_some(&mut next),
                is_blocked: false,
            };
            // A shard may have been waited for; where one thread executes everything, or holds the gate alone, it was not.
            if is_shared && namespace.clock.ticks() >= self.stale_at {
                (self.read_at, self.now) = (namespace.clock.ticks(), namespace.clock.now());
                call.read_at = self.read_at;
                call.view.set_now(self.now);
            }
            run(&mut call);
            if namespace.store.has_tail_work() {
                postponed = end_call(&mut call);
            }
        }
        if let Some(postponed) = postponed {
            self.serve_postponed(*postponed);
        }
        if command.flags & CONTROL != 0 {
            self.follow_up(client, command, &mut next);
        }
        next
    }

    /// Serves blocked clients that need other keys than those that the last call has locked.
    #[cold]
    fn serve_postponed(&mut self, postponed: Vec<Postponed>) {
        let cx = self.cx();
        let Some(guard) = &mut self.guard else { return };
        let BatchRun { namespace, handlers, config, ref timer, .. } = *self;
        serve_postponed(guard, cx, postponed, Means { namespace, handlers, config, timer });
    }

    /// Does what is to be done after a call that may have changed how the gate stands, or that held the store alone.
    fn follow_up(&mut self, client: &mut Client, command: &CommandSpec, next: &mut Next) {
        self.closed = closed(self.namespace, client, self.is_attended);
        self.follow_limit(); // it may have been CONFIG SET
        if command.flags & EXCLUSIVE == 0 {
            return;
        }
        self.read_time();
        if !self.namespace.store.is_alone() {
            self.guard = None; // others have waited long enough
        }
        if std::mem::take(&mut client.session.batch_is_over) {
            *next = Next::EndBatch;
        }
    }

    fn follow_limit(&mut self) {
        let memory_account = self.namespace.store.memory_account();
        self.has_limit = memory_account.has_limit();
        if let Some(guard) = self.guard.as_mut().filter(|_| memory_account.take_coarse()) {
            guard.report();
            self.namespace.sweep_wanted.notify_one(); // which evicts what is too much even if nobody asks for anything
        }
    }
}

/// Finds out which commands the gate has to look at: for a plain client of a server that is not paused, none.
#[inline]
fn closed(namespace: &Namespace, client: &Client, needs_attention: bool) -> Flags {
    let is_open = !namespace.pause.may_be_on() && !namespace.lacks_replicas();
    if is_open { client.closed(needs_attention) } else { EVERY }
}

/// Does what is to be done while the keys of a call are still locked: logs what it has changed, and serves the clients that
/// are blocked on these keys. Returns those that need other keys; boxed, because there are hardly ever any.
#[cold]
#[inline(never)]
#[allow(clippy::box_collection, reason = "hardly ever there, and every call has room for it")]
fn end_call(call: &mut Call<'_>) -> Option<Box<Vec<Postponed>>> {
    if call.namespace.store.is_logged() {
        effects::collect(call);
        effects::append(call.namespace, call.caller);
    }
    let Call { view, namespace, handlers, config, timer, .. } = call;
    let postponed = serve(view, Means { namespace, handlers, config, timer });
    (!postponed.is_empty()).then(|| Box::new(postponed))
}

/// Keeps a request for EXEC.
fn queue(client: &mut Client, command: &'static CommandSpec, request: Request<'_>, out: &mut Output) -> Next {
    let Client { caller, session } = client;
    if let Some(transaction) = &mut session.transaction {
        transaction.push(command, request);
        caller.info.set_queued(Some(transaction.queue.len()));
        caller.info.add_queued_bytes(request.bytes_len() + request.len() * size_of::<usize>());
        Reply::new(out, caller.protocol).simple("QUEUED");
    }
    Next::Done
}
