//! The next step of an unfinished command, and its end with the connection.

use crate::client::caller::Caller;
use crate::client::registry::Unblocked;
use crate::dispatch::batch::BatchRun;
use crate::dispatch::run::refuse;
use crate::dispatch::serve::{pass_on, wake_remaining};
use crate::dispatch::{Continuation, post_call};
use crate::error::Error;
use crate::resp::{Output, Reply};
use crate::spec::WRITE;

impl BatchRun<'_> {
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
        self.release_gate();
        let store = &self.env.namespace.store;
        let mut guard = if rest.needs_whole_store() { store.lock_exclusive() } else { store.hold(1) };
        self.now = self.env.namespace.clock.now();
        if guard.is_refused() && !rest.needs_no_keys() {
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
}
