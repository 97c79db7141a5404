//! Requests that must be checked, and those of clients with extra work: executed, queued or rejected.

use std::sync::atomic::Ordering::Relaxed;

use tracing::warn;

use crate::acl::Context;
use crate::client::session::Client;
use crate::client::tracking::CACHING;
use crate::dispatch::batch::BatchRun;
use crate::dispatch::batch::test_mode::apply_fault;
use crate::dispatch::checks::{Admission, CHECKS, Obstacle, closed_to_client};
use crate::dispatch::plan::{PlannedRequests, RequestRun};
use crate::dispatch::run::refuse;
use crate::dispatch::{Next, denials, unknown};
use crate::error::Error;
use crate::namespace::member::Member;
use crate::resp::{Output, Reply, Request};
use crate::spec::marks::{ASKS, EXECUTES_QUEUE, KEEPS_CACHING};
use crate::spec::{CommandSpec, NO_QUEUE};
use crate::store::Eviction;

impl BatchRun<'_> {
    /// Executes, queues or rejects a request that must be checked, or a request of a client with extra work.
    #[cold]
    pub(super) fn examine(
        &mut self,
        client: &mut Client,
        planned: PlannedRequests<'_>,
        index: &mut usize,
        out: &mut Output,
    ) -> Next {
        let (request, command) = (planned.request(*index), planned.command(*index));
        self.make_checkpoint_if_due();
        self.make_room(client, out);
        let before = out.mark();
        let (mut answered, mut locks) = (None, None);
        let was_asking = self.prepare_routing(client, command);
        let was_struck = std::mem::take(&mut client.session.was_struck);
        let mut admitted = self.admit(client, request, command);
        if let Ok(command) = admitted {
            let is_queued = client.session.transaction.is_some() && command.flags & NO_QUEUE == 0;
            locks = self.locks_of_transaction(client, command, request);
            if !is_queued && !self.acquire_gate_for(command, request, locks.as_deref()) {
                client.caller.is_short_of_memory = false;
                client.session.was_struck = was_struck;
                return Next::Again;
            }
        }
        if !was_struck {
            admitted = self.try_faults(client, request, command, admitted);
        }
        let next = match apply_fault(client, command, admitted) {
            Ok(command) => {
                let is_queued = client.session.transaction.is_some() && command.flags & NO_QUEUE == 0;
                (client.caller.called, answered) = (Some(command), (!is_queued).then_some(command));
                client.session.replies.begin_request();
                if is_queued {
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
                (client.caller.called, client.session.was_struck) = (command, was_struck);
                Next::Retry
            }
            Err(Obstacle::Injected(kind)) => match command {
                Some(command) if self.strike(client, command, &kind) => return Next::Again,
                _ => Next::Done,
            },
            Err(Obstacle::Refused(error, _)) => {
                client.session.replies.begin_request();
                self.reject(client, request, command, &error, out);
                Next::Done
            }
        };
        client.caller.is_short_of_memory = false;
        client.caller.is_asking &= !was_asking || client.session.transaction.is_some() || next.is_repeated();
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

    /// Releases the gate where the checks look for the keys of slots that are being moved; returns true if ASKING, which
    /// holds for one call, holds for this one.
    fn prepare_routing(&mut self, client: &Client, command: Option<&'static CommandSpec>) -> bool {
        let routes = self.env.namespace.member().and_then(Member::routes);
        if routes.is_some_and(|routes| routes.has_moving_slots()) {
            self.release_gate();
        }
        client.caller.is_asking && !command.is_some_and(|command| command.is(ASKS))
    }

    /// Evicts keys if memory usage exceeds the limit, and records whether that failed. The result also applies to
    /// commands called by a script, even if other threads use up the freed memory meanwhile.
    pub(super) fn make_room(&mut self, client: &mut Client, out: &mut Output) {
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

    /// Passes a request through the checks, or returns and records the obstacle.
    pub(super) fn admit(
        &self,
        client: &Client,
        request: Request<'_>,
        command: Option<&'static CommandSpec>,
    ) -> Result<&'static CommandSpec, Obstacle> {
        let names = self.env.namespace.names(self.env.config);
        let Some(command) = command.or_else(|| names.find_to_leave_profile(request)) else {
            unknown::note(self.env.namespace, names, request, &client.caller.info.peer.addr);
            let user = &client.caller.access.user().name;
            return Err(unknown::unknown_command(request, names, user).into());
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

    pub(super) fn admission<'a>(
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
    pub(super) fn reject(
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
        if error.is_of_routing() || matches!(error, Error::Injected(_)) {
            refuse(namespace, &mut reply, error); // without EXECABORT
        } else {
            refuse(namespace, &mut reply, &error.of_exec());
        }
        self.closed = closed_to_client(self.env.namespace, client, self.has_extra_work);
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
}
