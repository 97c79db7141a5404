//! Execution of one batch of requests of a client.

mod engine;
mod entry;
#[cfg(test)]
pub(crate) mod probe;
mod transaction;

use std::sync::atomic::Ordering::Relaxed;

use tracing::warn;

use crate::acl::Context;
use crate::client::caller::Caller;
use crate::client::registry::Unblocked;
use crate::client::session::Client;
use crate::client::tracking::CACHING;
use crate::dispatch::call::{Call, CallMode};
use crate::dispatch::gate::{Admission, CHECKS, FAULTS, Obstacle, busy, closed_to_client, is_open};
use crate::dispatch::plan::{Plan, PlannedRequests, RequestRun};
use crate::dispatch::run::{refuse, run};
use crate::dispatch::serve::{DeferredWake, hand_over_expired, pass_on, serve, wake_deferred, wake_remaining};
use crate::dispatch::{Continuation, Env, Next, denials, effects, history, post_call, unknown};
use crate::error::Error;
use crate::resp::{Batch, Output, Reply, Request};
use crate::spec::marks::{EXECUTES_QUEUE, KEEPS_CACHING};
use crate::spec::{ALLOW_BUSY, BLOCKING, CONTROL, CommandSpec, EXCLUSIVE, Flags, Group, NO_QUEUE, WRITE};
use crate::store::{Cx, Eviction, GateGuard, Lookup, Origin};
use crate::test_mode::{FaultKind, ReceivedCall};
use crate::time::clock::Now;

/// Time for which calls share one reading of the clock, in ns: a key may be found for that long after its deadline.
const TIME_KEPT_NS: u32 = 100_000;

/// Number of keys in a batch from which prefetching pays.
const PREFETCH_MIN: usize = 2;

/// Execution of one batch of requests. The store's gate is acquired once and held until other threads have waited for
/// it long enough; the time is read once for as long as it is accurate.
///
/// Invariant: no call is made with an admission state that was outdated when the gate was acquired, see
/// [`Store::generation`](crate::store::Store::generation).
pub(crate) struct BatchRun<'n> {
    env: Env<'n>,
    guard: Option<GateGuard<'n>>,
    /// Generation of the admission state that the client's requests are checked against.
    generation: u64,
    now: Now,
    /// Tick counter when the time was read.
    read_at: u64,
    /// Tick counter from which the time must be read again.
    stale_at: u64,
    /// Tick counter since which this batch has not let another thread pass at the gate.
    held_from: u64,
    /// Flags of the commands that must run through the gate's checks.
    closed: Flags,
    /// True if there is a memory limit, which is then checked before each command.
    has_limit: bool,
    origin: Origin,
    lookup: Lookup,
    /// True if the client's calls need extra work, such as writing push messages between replies.
    has_extra_work: bool,
    /// Position in the log that the replies so far depend on.
    dependence: u64,
}

impl<'n> BatchRun<'n> {
    /// Starts a batch of a client at the present time. `generation` was read before the settings, the client's user and
    /// its close flag.
    #[inline(always)] // for a single request the call would cost a hundredth of all instructions
    pub(crate) fn new(env: Env<'n>, generation: u64, client: &Client) -> Self {
        let Env { namespace, config, timer, .. } = env;
        // Read after the counter: the time since then is overestimated rather than underestimated.
        let (read_at, now) = (timer.begin(), namespace.clock.now());
        namespace.store.memory_account().follow_clock(now);
        timer.set_recording(namespace.observed.record_from_ns(config), config.latency_tracking);
        let stale_at = timer.ticks_after(read_at, TIME_KEPT_NS);
        let has_limit = namespace.store.memory_account().has_limit();
        if has_limit {
            namespace.record_shortage(now);
        }
        let has_extra_work = client.needs_attention();
        // Built in place: the struct is large, and moving it costs as much as a look-up.
        BatchRun {
            env,
            guard: None,
            generation,
            now,
            read_at,
            stale_at,
            held_from: read_at,
            closed: closed_to_client(namespace, client, has_extra_work),
            has_limit,
            origin: Origin::Client(client.caller.info.id),
            lookup: Lookup::ALL,
            has_extra_work,
            dependence: 0,
        }
    }

    /// Sets up a client with [`Client::needs_attention`]: look-ups that do not count as accesses (CLIENT NO-TOUCH), and
    /// the recording of every call for tracking.
    #[inline]
    pub(crate) fn set_up_extra_work(&mut self, client: &Client) {
        if self.has_extra_work {
            self.set_up_attention(client);
        }
    }

    #[cold]
    fn set_up_attention(&mut self, client: &Client) {
        self.lookup = Lookup::allowed(!client.caller.info.flags.is_no_touch());
        let record_from_ns = post_call::record_from_ns(self.env.namespace, &client.caller, self.env.config);
        self.env.timer.set_recording(record_from_ns, self.env.config.latency_tracking);
    }

    #[inline]
    fn cx(&self) -> Cx {
        Cx { now: self.now, origin: self.origin, lookup: self.lookup }
    }

    /// Reads the time again after a wait or a slow call.
    #[cold]
    fn read_time(&mut self) {
        self.read_at = self.env.namespace.clock.ticks();
        self.stale_at = self.env.timer.ticks_after(self.read_at, TIME_KEPT_NS);
        self.now = self.env.namespace.clock.now();
        self.env.namespace.store.memory_account().follow_clock(self.now);
    }

    /// Returns the position in the log that the replies depend on. Push messages between the replies depend on the
    /// whole log.
    #[cold]
    pub(crate) fn dependence(&self) -> u64 {
        if self.has_extra_work { self.env.namespace.log.end() } else { self.dependence }
    }

    pub(crate) fn now(&self) -> Now {
        self.now
    }

    /// Looks up the commands of a batch from request `first` on, hashes their keys and prefetches their entries.
    #[inline(always)] // as BatchRun::new
    pub(crate) fn plan(&mut self, batch: &Batch, first: usize, db: usize, plan: &mut Plan) {
        plan.make(batch, first, self.env.namespace.names(self.env.config), &self.env.namespace.store);
        if plan.hashes().len() >= PREFETCH_MIN {
            self.acquire_gate(|store| store.hold(plan.len()));
            self.guard.iter_mut().for_each(|guard| guard.prefetch(db, plan.hashes()));
            if plan.has_elements() {
                self.prefetch_elements(batch, first, db, plan);
            }
        }
        self.env.timer.record_requests(plan.len());
        if plan.len() > 1 {
            self.env.timer.begin_now();
        }
    }

    /// Prefetches the fields and members that the requests of a plan look up in large collections.
    #[inline(never)] // keeps the plans of strings short
    fn prefetch_elements(&mut self, batch: &Batch, first: usize, db: usize, plan: &Plan) {
        self.guard.iter_mut().for_each(|guard| guard.prefetch_elements(db, plan.elements(batch, first)));
    }

    /// Executes, queues or rejects request `index`, and executes the requests of the same command that directly follow
    /// it and need no other check; `index` is then the last of them. Returns the work that remains before the next
    /// request.
    #[inline(always)] // its only caller that counts
    pub(crate) fn execute(
        &mut self,
        client: &mut Client,
        planned: PlannedRequests<'_>,
        index: &mut usize,
        out: &mut Output,
    ) -> Next {
        let request = planned.request(*index);
        if let Some(command) = planned.command(*index)
            && self.passes_unchecked(command, request)
        {
            if !self.acquire_gate_for(command, request, None) {
                return Next::Again;
            }
            client.caller.called = Some(command);
            let run = RequestRun::begin(planned, index, command);
            let run = if self.has_limit { run.alone() } else { run }; // the limit is checked for each request
            return self.call(client, run, out);
        }
        self.examine(client, planned, index, out)
    }

    /// Returns whether a request needs no check by the gate and no work besides its execution.
    #[inline(always)] // its only caller
    fn passes_unchecked(&self, command: &CommandSpec, request: Request<'_>) -> bool {
        is_open(self.closed, command, request)
            && !(self.has_limit && self.env.namespace.store.memory_account().is_over())
    }

    /// Executes, queues or rejects a request that the gate must check, or a request of a client with extra work.
    #[cold]
    fn examine(
        &mut self,
        client: &mut Client,
        planned: PlannedRequests<'_>,
        index: &mut usize,
        out: &mut Output,
    ) -> Next {
        let (request, command) = (planned.request(*index), planned.command(*index));
        if self.env.namespace.test_mode.as_ref().is_some_and(|test_mode| test_mode.recorder.is_checkpoint_due()) {
            self.make_checkpoint();
        }
        self.make_room(client, out);
        let before = out.mark();
        let (mut answered, mut locks) = (None, None);
        let mut admitted = self.admit(client, request, command);
        if let Ok(command) = admitted {
            let is_queued = client.session.transaction.is_some() && command.flags & NO_QUEUE == 0;
            locks = self.locks_of_transaction(client, command, request);
            if !is_queued && !self.acquire_gate_for(command, request, locks.as_deref()) {
                client.caller.is_short_of_memory = false;
                return Next::Again;
            }
            admitted = self.admission(client, request, command).obstacle(&FAULTS).map_or(admitted, Err);
        }
        self.record_received(client, request, command, admitted.as_ref().err());
        let next = match apply_fault(client, command, admitted) {
            Ok(command) => {
                client.caller.called = Some(command);
                client.session.replies.begin_request();
                answered = Some(command);
                if client.session.transaction.is_some() && command.flags & NO_QUEUE == 0 {
                    Self::queue(client, command, request, out)
                } else if let Some(next) = self.defer_to_engine(client, command, request, out) {
                    next
                } else {
                    let run = RequestRun { locks: locks.as_deref(), ..RequestRun::begin(planned, index, command) };
                    match self.call_alone(client, run, out) {
                        Next::Settle(settled) => self.reply_when_settled(settled, out.split_off(before)),
                        next => next,
                    }
                }
            }
            Err(Obstacle::Paused) => {
                client.caller.called = command;
                Next::Retry
            }
            Err(Obstacle::Injected(_)) => {
                client.cut_off();
                Next::Done
            }
            Err(Obstacle::Refused(error, _)) => {
                client.session.replies.begin_request();
                self.reject(client, request, command, &error, out);
                Next::Done
            }
        };
        client.caller.is_short_of_memory = false;
        if next.is_unfinished() {
            return next;
        }
        if client.session.feed.is_some() && out.mark() != before {
            self.disconnect_replica(client, command, out.split_off(before));
        }
        let delayed = client.end_request(out, before, answered);
        self.write_own_pushes(client, command, delayed.is_none().then_some(out));
        delayed.map_or(next, Next::Delay)
    }

    /// Disconnects a replica whose command has produced a reply, because the replica would take it for a part of the
    /// log.
    #[cold]
    fn disconnect_replica(&self, client: &mut Client, command: Option<&CommandSpec>, reply: Output) {
        let name = command.map_or("<unknown>", |command| &command.name);
        if let Some(error) = reply.as_slice().and_then(|reply| reply.strip_prefix(b"-")) {
            let error = String::from_utf8_lossy(error);
            self.env.namespace.observed.stats.replication_errors.fetch_add(1, Relaxed);
            warn!(
                "== CRITICAL == This master is sending an error to its replica: '{}' after processing the command '{name}'",
                error.trim_end()
            );
        }
        let line = client.caller.info.line(self.now, 0);
        warn!("Replica generated a reply to command '{name}', disconnecting it: {line}");
        client.caller.closing = true;
    }

    /// Makes a checkpoint of the history. Does nothing while a busy script holds the gate; a later request does it
    /// then.
    #[cold]
    fn make_checkpoint(&mut self) {
        self.guard = None; // the gate is not reentrant
        let cx = self.cx();
        if let GateGuard::Exclusive(mut exclusive) = self.env.namespace.store.lock_exclusive() {
            history::checkpoint(self.env.namespace, &mut exclusive.view(0, cx));
        }
        self.read_time();
    }

    /// Adds a request to the journal of test mode, unless a pause holds it back: then it is executed, and recorded,
    /// later.
    fn record_received(
        &self,
        client: &Client,
        request: Request<'_>,
        command: Option<&'static CommandSpec>,
        obstacle: Option<&Obstacle>,
    ) {
        let Some(test_mode) = self.env.namespace.test_mode.as_deref() else { return };
        let is_control = command.is_some_and(|command| command.command.group == Group::Test);
        if is_control || matches!(obstacle, Some(Obstacle::Paused)) {
            return;
        }
        let args = match command {
            Some(command) => post_call::visible(command, request),
            None => request.args().collect(),
        };
        let fault = match obstacle {
            Some(Obstacle::Injected(kind)) => Some(kind.name()),
            _ => None,
        };
        let info = &client.caller.info;
        let call = ReceivedCall {
            unix_ms: self.now.wall_ms(),
            client_id: info.id,
            client_name: info.names().name.into(),
            command,
            args: args.into_iter().map(Box::from).collect(),
            fault,
        };
        test_mode.calls.lock().push(call, self.env.config.test_calls_max);
    }

    /// Writes the push messages that the client's own call has sent to it. They belong directly after the reply, and
    /// are written later if that is held back.
    fn write_own_pushes(
        &mut self,
        client: &mut Client,
        command: Option<&'static CommandSpec>,
        out: Option<&mut Output>,
    ) {
        if !self.has_extra_work {
            return;
        }
        let keeps_caching = command.is_some_and(|command| command.is(KEEPS_CACHING));
        if client.session.transaction.is_none() && !keeps_caching {
            client.caller.info.tracking.lower(CACHING);
        }
        out.into_iter().for_each(|out| client.take_pushes(out));
    }

    /// Evicts keys if memory usage exceeds the limit, and records whether that failed. The result also applies to
    /// commands called by a script, even if other threads use up the freed memory meanwhile.
    fn make_room(&mut self, client: &mut Client, out: &mut Output) {
        if self.has_limit && self.env.namespace.store.memory_account().is_over() {
            client.caller.is_short_of_memory = self.evict_to_fit() == Eviction::None;
            if self.has_extra_work {
                client.take_pushes(out); // invalidations of keys evicted before the command
            }
        }
    }

    fn evict_to_fit(&mut self) -> Eviction {
        self.acquire_gate(|store| store.hold(1));
        let cx = self.cx();
        // Without the gate, the request begins another batch.
        self.guard.as_mut().map_or(Eviction::Enough, |guard| self.env.namespace.evict_to_fit(guard, cx))
    }

    /// Passes a request through the gate, or returns and records the obstacle.
    fn admit(
        &self,
        client: &Client,
        request: Request<'_>,
        command: Option<&'static CommandSpec>,
    ) -> Result<&'static CommandSpec, Obstacle> {
        let names = self.env.namespace.names(self.env.config);
        let Some(command) = command else {
            unknown::note(self.env.namespace, names, request, &client.caller.info.peer.addr);
            return Err(unknown::unknown_command(request, names).into());
        };
        let admission = self.admission(client, request, command);
        let Some(obstacle) = admission.obstacle(&CHECKS) else { return Ok(command) };
        if let Obstacle::Refused(_, Some(denial)) = obstacle {
            let context = if client.session.transaction.is_some() { Context::Multi } else { Context::TopLevel };
            client.caller.info.traffic.set_last_command(command);
            denials::record_denial(&admission, denial, context);
        }
        Err(obstacle)
    }

    fn admission<'a>(
        &'a self,
        client: &'a Client,
        request: Request<'a>,
        command: &'static CommandSpec,
    ) -> Admission<'a> {
        let (namespace, config, Client { caller, session }) = (self.env.namespace, self.env.config, client);
        let (session, now) = (Some(session), self.now);
        Admission { namespace, config, caller, session, command, request, now, script: None }
    }

    /// Writes the error of a request that was not admitted. It makes a transaction fail; a rejected EXEC also ends it.
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
            // A web page can make a browser send this; the browser must not even see the replies so far.
            warn!(client = caller.info.id, "possible attack: closing a client that speaks HTTP");
            caller.closing = true;
            *out = Output::new();
            return;
        }
        let namespace = self.env.namespace;
        if let Some(command) = command {
            namespace.observed.command_stats.reject(command);
        }
        session.fail_transaction();
        if !command.is_some_and(|command| command.is(EXECUTES_QUEUE)) {
            return refuse(namespace, &mut Reply::new(out, caller.protocol), error);
        }
        session.transaction = None;
        caller.info.set_queued(None);
        let cx = self.cx();
        let mut guard = self.guard.take().unwrap_or_else(|| namespace.store.hold(1));
        session.stop_watching(caller, &mut guard.view(caller.db, &[], cx), &namespace.store);
        let mut reply = Reply::new(out, caller.protocol);
        if let Error::Injected(_) = error {
            refuse(namespace, &mut reply, error); // the injected text, without EXECABORT
        } else {
            refuse(namespace, &mut reply, &error.of_exec());
        }
        self.closed = closed_to_client(self.env.namespace, client, self.has_extra_work);
    }

    /// Executes the next step of an unfinished command; returns whether it is finished now. The gate is free between
    /// steps; while a busy script holds it, nothing is done.
    #[inline(never)] // keeps the common path of every batch short
    pub(crate) fn resume(
        &mut self,
        rest: &mut dyn Continuation,
        caller: &mut Caller,
        woken: Unblocked,
        out: &mut Output,
    ) -> bool {
        self.guard = None;
        let mut guard = self.env.namespace.store.hold(1);
        self.now = self.env.namespace.clock.now();
        if matches!(guard, GateGuard::Refused) && !rest.needs_no_keys() {
            return false;
        }
        let mut view = guard.view(caller.db, &[], self.cx());
        let mut reply = Reply::new(out, caller.protocol);
        let is_served = woken.is_reply();
        caller.closing |= matches!(woken, Unblocked::Panicked | Unblocked::RoleChanged);
        let is_told = matches!(woken, Unblocked::RoleChanged);
        let was_blocked = rest.blocked_call().is_some();
        let may_write = caller.called.is_some_and(|command| command.flags & WRITE != 0);
        let result = if may_write && self.env.namespace.restrictions.is_read_only() && !was_blocked {
            // The server has become a replica since the command began.
            rest.abandon(self.env, &mut view);
            Err(if is_told { Error::RoleChanged } else { Error::ReadOnlyReplica })
        } else {
            rest.step(self.env, &mut view, &mut reply, woken)
        };
        drop(view);
        if self.env.namespace.store.has_ready_keys() {
            wake_remaining(&mut guard, self.cx(), self.env);
        }
        if is_served {
            pass_on(&mut guard, self.cx(), self.env);
        }
        let command = caller.called;
        let is_finished = result.unwrap_or_else(|error| {
            if let Some(command) = command {
                self.env.timer.fail(command);
            }
            refuse(self.env.namespace, &mut reply, &error);
            true
        });
        if is_finished {
            rest.finish(caller);
        }
        // Not counted if the client is blocked again, because the lock that it was given is lost.
        if was_blocked && (is_finished || is_served && rest.blocked_call().is_none()) {
            caller.commands += 1;
        }
        match (command, rest.blocked_call()) {
            (Some(command), Some(call)) if is_finished && !is_served => {
                post_call::count_unblocked(self.env, (command, call.request), &caller.info, call.spent_ns);
            }
            (Some(command), None) => self.env.timer.go_on(command),
            _ => {}
        }
        is_finished
    }

    /// Undoes the changes that an unfinished command of a disconnected client has left in the store. Returns false if
    /// that was not possible because a busy script holds the gate.
    #[inline(never)] // as BatchRun::resume
    pub(crate) fn abandon(&self, rest: &mut dyn Continuation, caller: &Caller) -> bool {
        let mut guard = self.env.namespace.store.hold(1);
        let mut view = guard.view(caller.db, &[], self.cx());
        if view.is_closed() {
            return false;
        }
        rest.abandon(self.env, &mut view);
        true
    }

    #[inline(always)] // for a single request the call would cost a fiftieth of all instructions
    fn call(
        &mut self,
        client: &mut Client,
        RequestRun { command, planned, index, may_go_on, locks }: RequestRun<'_>,
        out: &mut Output,
    ) -> Next {
        let (request, hashes) = (planned.request(*index), planned.hashes_of(*index));
        let namespace = self.env.namespace;
        let (cx, mut next, mut deferred) = (self.cx(), Next::Done, None);
        let Some(guard) = &mut self.guard else { return next };
        let is_shared = matches!(guard, GateGuard::Shared(_));
        if is_shut(guard, command, hashes) {
            self.guard = None;
            self.reject(client, request, Some(command), &busy(self.env.namespace), out);
            return next;
        }
        {
            let Client { caller, session } = client;
            let mode = if command.flags & EXCLUSIVE == 0 {
                CallMode::Client { session, next: &mut next }
            } else {
                CallMode::Exclusive { session, next: &mut next }
            };
            let view = guard.view(caller.db, locks.unwrap_or(hashes), cx);
            let mut call = Call::new(self.env, caller, view, (command, request, hashes), mode, out);
            call.set_read_at(self.read_at);
            loop {
                // Acquiring a shard's lock may have taken long; not where one thread executes all, or holds the gate alone.
                if is_shared && namespace.clock.ticks() >= self.stale_at {
                    (self.read_at, self.now) = (namespace.clock.ticks(), namespace.clock.now());
                    call.set_read_at(self.read_at);
                    call.view.set_now(self.now);
                }
                if namespace.store.has_lock_queues()
                    && concerns_lock_queues(&call, command.flags)
                    && !begin_call(&mut call)
                {
                    break;
                }
                run(&mut call);
                debug_assert!(
                    namespace.engine().is_none() || call.view.changes().is_empty(),
                    "{} has changed the mirror of a cluster",
                    call.name()
                );
                if namespace.store.has_tail_work() {
                    deferred = end_call(&mut call, &mut self.dependence);
                }
                let may_go_on = may_go_on && deferred.is_none() && call.may_go_on(self.stale_at);
                if !(may_go_on && planned.advance(index, &mut call)) {
                    break;
                }
            }
        }
        if let Some(deferred) = deferred {
            self.wake_deferred(*deferred);
            if let Next::Done = next {
                next = Next::EndBatch; // the client may have to wait until the values that it has deleted are freed
            }
        }
        if command.flags & (CONTROL | BLOCKING) != 0 {
            if let Next::Exclusively = next {
                return self.call_exclusively(client, RequestRun::begin(planned, index, command), out);
            }
            if command.flags & CONTROL != 0 {
                self.after_control_call(client, command, &mut next);
            }
        }
        next
    }

    /// Serves blocked clients that need other keys than those locked by the last call.
    #[cold]
    fn wake_deferred(&mut self, deferred: Vec<DeferredWake>) {
        let cx = self.cx();
        let Some(guard) = &mut self.guard else { return };
        wake_deferred(guard, cx, deferred, self.env);
    }

    /// Finishes a call that may have changed the state of the gate, or that held the store exclusively.
    fn after_control_call(&mut self, client: &mut Client, command: &CommandSpec, next: &mut Next) {
        self.closed = closed_to_client(self.env.namespace, client, self.has_extra_work);
        self.refresh_memory_limit(); // it may have been CONFIG SET
        if self.env.namespace.store.generation() != self.generation {
            self.pass_barrier(command, next);
        }
        if command.flags & EXCLUSIVE == 0 {
            return;
        }
        self.read_time();
        if matches!(self.guard, Some(GateGuard::Exclusive(_))) && !self.env.namespace.store.has_single_worker() {
            self.guard = None; // others have waited long enough
            self.yield_gate();
        }
        if std::mem::take(&mut client.session.batch_is_over) && !matches!(next, Next::Settle(_)) {
            *next = Next::EndBatch;
        }
    }

    fn refresh_memory_limit(&mut self) {
        let memory_account = self.env.namespace.store.memory_account();
        self.has_limit = memory_account.has_limit();
        if let Some(guard) = self.guard.as_mut().filter(|_| memory_account.take_coarse()) {
            guard.report();
            self.env.namespace.upkeep.sweep_notify.notify_one(); // the sweeper evicts the excess even without commands
        }
    }
}

/// Admits a call whose injected fault concerns its reply only, and rejects a call whose fault comes before it.
fn apply_fault(
    client: &mut Client,
    command: Option<&'static CommandSpec>,
    admitted: Result<&'static CommandSpec, Obstacle>,
) -> Result<&'static CommandSpec, Obstacle> {
    match (admitted, command) {
        (Err(Obstacle::Injected(FaultKind::Error(line))), _) => Err(Error::Injected(line).into()),
        (Err(Obstacle::Injected(kind)), Some(command)) if kind != FaultKind::Drop => {
            client.session.tampering = Some(Box::new(kind));
            Ok(command)
        }
        (admitted, _) => admitted,
    }
}

/// Returns whether the store's gate rejects a call: while a script is busy, only ALLOW_BUSY commands without keys are
/// served.
#[inline]
fn is_shut(guard: &GateGuard<'_>, command: &CommandSpec, hashes: &[u64]) -> bool {
    matches!(guard, GateGuard::Refused) && (command.flags & ALLOW_BUSY == 0 || !hashes.is_empty())
}

/// Returns whether a call may write a lock that other clients are queued for. It reads the hashes from the call: a copy
/// of them for this rare case would cost every other call a dozen instructions.
#[inline]
fn concerns_lock_queues(call: &Call<'_>, flags: Flags) -> bool {
    flags & EXCLUSIVE != 0 || flags & WRITE != 0 && call.namespace.store.has_lock_queues_beside(call.args.hashes())
}

/// Hands expired locks among the keys of a call over to the clients queued for them, before the call, which could take
/// these locks. The keys are locked, so no client joins a queue in between. Returns false if the call is to be made
/// again with the whole store locked: the clients queued for the keys of a transaction may need other keys.
#[cold]
#[inline(never)]
fn begin_call(call: &mut Call<'_>) -> bool {
    if call.view.is_closed() {
        return true;
    }
    let (env, request) = (call.env(), call.args.request());
    if call.command.is_exclusive(request)
        && !call.view.is_whole()
        && let CallMode::Exclusive { next, .. } = &mut call.mode
    {
        **next = Next::Exclusively;
        return false;
    }
    hand_over_expired(&mut call.view, call.caller.db, (call.command, request), env);
    true
}

/// Finishes a call while its keys are still locked: logs its changes, and serves clients blocked on these
/// keys. Returns the keys whose blocked clients need other keys; an empty list if only the queue of values to be freed
/// is too long. It is boxed because it is rare.
#[cold]
#[inline(never)]
#[allow(clippy::box_collection, reason = "hardly ever there, and every call has room for it")]
pub(super) fn end_call(call: &mut Call<'_>, dependence: &mut u64) -> Option<Box<Vec<DeferredWake>>> {
    effects::log_outermost(call);
    if !call.namespace.log.is_confirmed() {
        *dependence = effects::dependence(call).max(*dependence);
    }
    let (env, store) = (call.env(), &call.namespace.store);
    let deferred = if store.has_ready_keys() { serve(&mut call.view, env) } else { Vec::new() };
    (!deferred.is_empty() || store.reclaimer().is_behind()).then(|| Box::new(deferred))
}
