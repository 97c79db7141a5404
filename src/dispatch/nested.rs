//! Nested calls of EXEC and scripts, and calls in the replay of the log.

use crate::acl::Context;
use crate::client::caller::Caller;
use crate::dispatch::call::CallMode;
use crate::dispatch::checks::{
    Admission, EXEC_CHECKS, Obstacle, REPLAY_CHECKS, SCRIPT_CHECKS, ScriptLimits, closed_in_exec,
};
#[cfg(feature = "lua")]
use crate::dispatch::checks::{closed_to_script, is_open};
#[cfg(feature = "lua")]
use crate::dispatch::declared::routed_keys_of;
#[cfg(feature = "lua")]
use crate::dispatch::profile::first_undeclared;
use crate::dispatch::run::{refuse, run};
use crate::dispatch::{Call, Env, PostponedOperation, denials, effects};
use crate::error::Error;
#[cfg(feature = "lua")]
use crate::error::Result;
use crate::resp::{Output, Request};
use crate::spec::CommandSpec;
use crate::spec::registry::Hashes;
use crate::store::{Cx, Lookup, Origin, View};

impl Call<'_> {
    /// Executes a queued command for EXEC, if its user still has permission. The permissions may have changed since it
    /// was queued, even by a command of the same transaction. Returns an operation that
    /// has to wait until the transaction is over, and is answered then.
    pub(crate) fn execute_queued(
        &mut self,
        command: &'static CommandSpec,
        request: Request<'_>,
    ) -> Option<PostponedOperation> {
        let obstacle =
            if command.flags & closed_in_exec(self.caller) == 0 { None } else { self.obstacle(command, request, None) };
        let (env, mut postponed) = (self.env(), None);
        match obstacle {
            None => {
                let mode = CallMode::Queued { session: self.mode.session(), postponed: &mut postponed };
                let (view, out) = (&mut self.view, self.reply.output());
                nested(env, self.caller, view, (command, request), mode, out);
            }
            Some(error) => refuse(self.namespace, &mut self.reply, &error),
        }
        postponed
    }

    /// Checks whether a script may call a command.
    ///
    /// # Errors
    /// The reason for the rejection.
    #[cfg(feature = "lua")]
    pub(crate) fn check_for_script(
        &mut self,
        command: &'static CommandSpec,
        request: Request<'_>,
        limits: ScriptLimits,
    ) -> Result<()> {
        let closed = closed_to_script(self.namespace, self.caller, limits);
        if is_open(closed, command, request) {
            return Ok(());
        }
        let is_bound = !limits.takes_any_key && self.config.profile.is_some_and(|profile| profile.binds_scripts());
        let undeclared = if is_bound { first_undeclared(self.args.request(), command, request) } else { None };
        let limits = ScriptLimits { presence: self.presence(command, request), undeclared, ..limits };
        self.obstacle(command, request, Some(limits)).map_or(Ok(()), Err)
    }

    /// Returns how many of the keys of a script's call are there, and how many are not; counted only where slots may be on
    /// their way to other nodes.
    #[cfg(feature = "lua")]
    fn presence(&mut self, command: &'static CommandSpec, request: Request<'_>) -> (usize, usize) {
        if self.namespace.member().is_none() {
            return (0, 0);
        }
        let mut presence = (0, 0);
        for key in routed_keys_of(command, request) {
            let key = self.namespace.store.key(key);
            *if self.view.lookup(key, Lookup::PEEK).is_some() { &mut presence.0 } else { &mut presence.1 } += 1;
        }
        presence
    }

    /// Executes a command that was checked for a script, and writes the reply to `out`.
    #[cfg(feature = "lua")]
    pub(crate) fn execute_for_script(&mut self, command: &'static CommandSpec, request: Request<'_>, out: &mut Output) {
        let (env, mode) = (self.env(), CallMode::Nested { session: self.mode.session() });
        let routed_by = (self.caller.is_asking, self.caller.reads_replica);
        nested(env, self.caller, &mut self.view, (command, request), mode, out);
        // ASKING and its kin have no effect in a script.
        (self.caller.is_asking, self.caller.reads_replica) = routed_by;
    }

    /// Returns the error for which EXEC or a script must not execute a command, and records a missing permission.
    fn obstacle(
        &self,
        command: &'static CommandSpec,
        request: Request<'_>,
        script: Option<ScriptLimits>,
    ) -> Option<Error> {
        let (checks, context) = match script {
            None => (&EXEC_CHECKS[..], Context::Multi),
            Some(_) if self.view.cx().origin == Origin::Replay => (&REPLAY_CHECKS[..], Context::Lua),
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
            Obstacle::Paused | Obstacle::Injected(_) => None,
        }
    }
}

/// Executes a command that is nested in a call or in the replay of the log, and collects its effects.
pub(super) fn nested(
    env: Env<'_>,
    caller: &mut Caller,
    view: &mut View<'_>,
    (command, request): (&'static CommandSpec, Request<'_>),
    mode: CallMode<'_>,
    out: &mut Output,
) {
    let mut hashes = Hashes::new();
    command.hash_keys(request, &env.namespace.store, &mut hashes);
    let cx = Cx { lookup: Lookup::allowed(!caller.info.flags.is_no_touch()), ..view.cx() };
    let mut call = Call::new(env, caller, view.lend(caller.db, cx), (command, request, &hashes), mode, out);
    run(&mut call);
    if env.namespace.store.is_logged() {
        effects::collect(&mut call);
        let changes = call.view.changes();
        drop(call);
        view.changes_mut().add_nested(changes);
    }
}
