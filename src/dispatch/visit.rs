//! Calls for peers that do not speak RESP, such as visitors of the metrics port. Such a call passes the checks like a
//! client's request, is logged, shown and counted like one, and serves blocked clients.

use crate::acl::Context;
use crate::client::caller::Caller;
use crate::dispatch::batch::end_call;
use crate::dispatch::call::CallMode;
use crate::dispatch::checks::{Admission, CHECKS, Obstacle, busy};
use crate::dispatch::plan::find;
use crate::dispatch::run::run;
use crate::dispatch::serve::{hand_over_expired, wake_deferred};
use crate::dispatch::{Call, Env, Handlers, denials, post_call};
use crate::error::Error;
use crate::namespace::Namespace;
use crate::resp::{Output, Request, RequestBuffer};
use crate::spec::registry::Hashes;
use crate::spec::{CommandSpec, Names};
use crate::store::{Cx, GateGuard, Key, Origin, View};

/// Maximum number of attempts to make a call while the admission state keeps changing.
const ATTEMPTS_MAX: usize = 16;

/// Rejection of a call by the checks.
#[derive(Debug)]
pub(crate) struct Refused {
    /// Error line that a client would get.
    pub(crate) line: String,
    /// True if the user lacks a permission, so that a retry is useless.
    pub(crate) is_forbidden: bool,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let line = String::from_utf8_lossy(&error.wire_text()).into_owned();
        Refused { line, is_forbidden: matches!(error, Error::NoPerm(..) | Error::NoAuth) }
    }
}

/// Executes a command with a key and one more argument, which `argument` computes while the key is locked; if that
/// fails, nothing is executed. Returns the reply in RESP2.
///
/// # Errors
/// The rejection by the checks.
pub(crate) fn call_for_visitor<E>(
    namespace: &Namespace,
    handlers: &'static Handlers,
    caller: &mut Caller,
    (name, key): (&str, &[u8]),
    argument: impl FnOnce(&mut View<'_>, Key<'_>) -> Result<Box<[u8]>, E>,
) -> Result<Result<Output, E>, Refused> {
    let mut words = RequestBuffer::default();
    [name.as_bytes(), key, b""].into_iter().for_each(|word| words.push(word));
    let found = words.as_request().and_then(|request| {
        let command = find(request, Names::new(namespace.commands, &Default::default()))?;
        Some((command, request))
    });
    let (command, request) = found.ok_or_else(|| Error::CommandNotFound(name.into()))?;
    let attempt = Attempt { namespace, handlers, command, request };
    let guard = attempt.enter(caller)?;
    Ok(attempt.call(guard, caller, argument)?)
}

/// Call to be made.
struct Attempt<'n> {
    namespace: &'n Namespace,
    handlers: &'static Handlers,
    command: &'static CommandSpec,
    /// The request without the last argument.
    request: Request<'n>,
}

impl<'n> Attempt<'n> {
    /// Acquires the gate of the store for a caller that is admitted by the present admission state.
    ///
    /// # Errors
    /// The reason for which it is not admitted.
    fn enter(&self, caller: &mut Caller) -> Result<GateGuard<'n>, Error> {
        let namespace = self.namespace;
        for _ in 0..ATTEMPTS_MAX {
            let generation = namespace.store.generation();
            caller.follow_users(&namespace.acl);
            caller.called = Some(self.command);
            if caller.closing {
                return Err(Error::NoAuth); // the user was deleted
            }
            self.admit(caller)?;
            let guard = namespace.store.hold(1);
            if namespace.store.generation() == generation {
                return Ok(guard);
            }
        }
        Err(Error::other("users or settings are being changed; try again"))
    }

    fn admit(&self, caller: &Caller) -> Result<(), Error> {
        let Attempt { namespace, command, request, .. } = *self;
        let (config, now) = (namespace.settings.current(), namespace.clock.now());
        let admission =
            Admission { namespace, config: &config, caller, session: None, command, request, now, script: None };
        match admission.obstacle(&CHECKS) {
            None => Ok(()),
            Some(Obstacle::Refused(error, denial)) => {
                if let Some(denial) = denial {
                    denials::record_denial(&admission, denial, Context::TopLevel);
                }
                namespace.observed.command_stats.reject(command);
                namespace.observed.errors.count(&error.wire_text());
                Err(error)
            }
            Some(_) => Err(Error::other("the server is paused by CLIENT PAUSE")),
        }
    }

    fn call<E>(
        &self,
        mut guard: GateGuard<'_>,
        caller: &mut Caller,
        argument: impl FnOnce(&mut View<'_>, Key<'_>) -> Result<Box<[u8]>, E>,
    ) -> Result<Result<Output, E>, Error> {
        let Attempt { namespace, handlers, command, request } = *self;
        let (mut out, mut hashes, mut words) = (Output::new(), Hashes::new(), RequestBuffer::default());
        command.hash_keys(request, &namespace.store, &mut hashes);
        let cx = Cx::new(namespace.clock.now(), Origin::Client(caller.info.id));
        Env::with_present(namespace, handlers, caller.info.id, |env| {
            let mut view = guard.view(caller.db, &hashes, cx);
            if view.is_closed() {
                return Err(busy(namespace));
            }
            if namespace.store.has_lock_queues() {
                hand_over_expired(&mut view, caller.db, (command, request), env);
            }
            let key = namespace.store.key(request.arg(1));
            let last = argument(&mut view, key);
            if let Ok(last) = &last {
                [request.name(), request.arg(1), last].into_iter().for_each(|word| words.push(word));
            }
            let request = words.as_request().unwrap_or(request);
            env.timer.begin_now();
            let record_from_ns = post_call::record_from_ns(namespace, caller, env.config);
            env.timer.set_recording(record_from_ns, env.config.latency_tracking);
            let mode = CallMode::Nested { session: None };
            let mut call = Call::new(env, caller, view, (command, request, &hashes), mode, &mut out);
            if last.is_ok() {
                run(&mut call);
            }
            // Also without the call, because an expired key may have been deleted.
            let deferred = if namespace.store.has_tail_work() { end_call(&mut call, &mut 0) } else { None };
            drop(call);
            if let Some(deferred) = deferred {
                wake_deferred(&mut guard, cx, *deferred, env);
            }
            Ok(last.map(|_| ()))
        })
        .map(|done| done.map(|()| out))
    }
}
