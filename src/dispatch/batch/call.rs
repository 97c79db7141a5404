//! Calls of a batch, those of the same command in a row as one run, and the work at their beginning and their end.

use crate::client::session::Client;
use crate::dispatch::batch::BatchRun;
use crate::dispatch::call::{Call, CallMode};
use crate::dispatch::checks::{busy, closed_to_client};
use crate::dispatch::plan::RequestRun;
use crate::dispatch::run::run;
use crate::dispatch::serve::{hand_over_expired, serve, wake_deferred};
use crate::dispatch::{Next, effects};
use crate::resp::Output;
use crate::spec::{ALLOW_BUSY, BLOCKING, CONTROL, CommandSpec, EXCLUSIVE, Flags, WRITE};
use crate::store::{GateGuard, KeyName, Store};

impl BatchRun<'_> {
    #[inline(always)] // for a single request the call would cost a fiftieth of all instructions
    pub(super) fn call(
        &mut self,
        client: &mut Client,
        RequestRun { command, planned, index, may_go_on, locks }: RequestRun<'_>,
        out: &mut Output,
    ) -> Next {
        let (request, hashes) = (planned.request(*index), planned.hashes_of(*index));
        let namespace = self.env.namespace;
        let (cx, mut next, mut deferred) = (self.cx(), Next::Done, None);
        let Some(guard) = &mut self.guard else { return next };
        let is_shared = guard.is_shared();
        if is_shut(guard, command, hashes) {
            self.release_gate();
            self.reject(client, request, Some(command), &busy(self.env.namespace), out);
            return next;
        }
        let needs_whole_store = {
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
                let may_hand_over = namespace.store.has_lock_queues() && concerns_lock_queues(&call, command.flags);
                if may_hand_over && !begin_call(&mut call) {
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
                let is_over = !may_go_on || deferred.is_some() || !call.may_go_on(self.stale_at);
                if is_over || !planned.advance(index, &mut call) {
                    break;
                }
            }
            call.needs_whole_store
        };
        if let Some(deferred) = deferred {
            self.wake_deferred(*deferred);
            if let Next::Done = next {
                next = Next::EndBatch; // the client may have to wait until the values that it has deleted are freed
            }
        }
        if command.flags & (CONTROL | BLOCKING) != 0 {
            if needs_whole_store {
                return self.call_exclusively(client, RequestRun::begin(planned, index, command), out);
            }
            if command.flags & CONTROL != 0 {
                self.after_control_call(client, command, &mut next);
            }
        }
        next
    }

    /// Makes a single call, which was examined or is made again.
    #[inline(never)] // keeps the path of unchecked calls short
    pub(super) fn call_alone(&mut self, client: &mut Client, run: RequestRun<'_>, out: &mut Output) -> Next {
        self.call(client, run.alone(), out)
    }

    /// Makes a call again with the whole store locked. The gate was free meanwhile: locks may have expired.
    #[cold]
    pub(super) fn call_exclusively(&mut self, client: &mut Client, run: RequestRun<'_>, out: &mut Output) -> Next {
        self.release_gate(); // the gate is not reentrant
        if !self.acquire_gate(Store::lock_exclusive) {
            return Next::Again;
        }
        self.read_time();
        let next = self.call_alone(client, run, out);
        self.release_gate(); // others have waited long enough
        next
    }

    /// Serves blocked clients that need other keys than those locked by the last call.
    #[cold]
    fn wake_deferred(&mut self, deferred: Vec<KeyName>) {
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
        if self.guard.as_ref().is_some_and(GateGuard::is_exclusive) && !self.env.namespace.store.has_single_worker() {
            self.release_gate(); // others have waited long enough
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

/// Returns whether the store's gate rejects a call: while a script is busy, only ALLOW_BUSY commands without keys are
/// served.
#[inline]
pub(super) fn is_shut(guard: &GateGuard<'_>, command: &CommandSpec, hashes: &[u64]) -> bool {
    guard.is_refused() && (command.flags & ALLOW_BUSY == 0 || !hashes.is_empty())
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
    if call.command.is_exclusive(request) && !call.view.is_whole() && matches!(call.mode, CallMode::Exclusive { .. }) {
        call.needs_whole_store = true;
        return false;
    }
    hand_over_expired(&mut call.view, call.caller.db, (call.command, request), env);
    call.view.begin_changes();
    true
}

/// Finishes a call while its keys are still locked: logs its changes, and serves clients blocked on these
/// keys. Returns the keys whose blocked clients need other keys; an empty list if only the queue of values to be freed
/// is too long. It is boxed because it is rare.
#[cold]
#[inline(never)]
#[allow(clippy::box_collection, reason = "hardly ever there, and every call has room for it")]
pub(in crate::dispatch) fn end_call(call: &mut Call<'_>, dependence: &mut u64) -> Option<Box<Vec<KeyName>>> {
    effects::log_outermost(call);
    if !call.namespace.log.is_confirmed() {
        *dependence = effects::dependence(call).max(*dependence);
    }
    let (env, store) = (call.env(), &call.namespace.store);
    let deferred = if store.has_ready_keys() { serve(&mut call.view, env) } else { Vec::new() };
    (!deferred.is_empty() || store.reclaimer().is_behind()).then(|| Box::new(deferred))
}
