//! Calls that a test's topology or a fault makes in a namespace, with the whole store locked: they are admitted by nobody and belong to no
//! client, but their effects are logged as those of any call.

use crate::client::caller::Caller;
use crate::dispatch::call::CallMode;
use crate::dispatch::plan::find;
use crate::dispatch::run::run;
use crate::dispatch::serve::serve_remaining_keys;
use crate::dispatch::{Call, Env, Handlers, effects};
use crate::namespace::Namespace;
use crate::resp::{Output, RequestBuffer};
use crate::spec::Names;
use crate::spec::registry::Hashes;
use crate::store::{Cx, GateGuard, Origin};

/// Hold on the store of a namespace, for calls without a client.
pub(crate) struct HostCall<'n> {
    namespace: &'n Namespace,
    handlers: &'static Handlers,
    caller: Caller,
    /// Released before blocked clients are served.
    guard: Option<GateGuard<'n>>,
}

impl<'n> HostCall<'n> {
    /// Locks the whole store of a namespace.
    pub(crate) fn begin(namespace: &'n Namespace, handlers: &'static Handlers) -> Self {
        HostCall::over(namespace, handlers, namespace.store.exclusive().into())
    }

    /// Locks the whole store of a namespace, unless a busy script holds it.
    pub(crate) fn try_begin(namespace: &'n Namespace, handlers: &'static Handlers) -> Option<Self> {
        Some(HostCall::over(namespace, handlers, namespace.store.try_exclusive()?.into()))
    }

    fn over(namespace: &'n Namespace, handlers: &'static Handlers, guard: GateGuard<'n>) -> Self {
        let guard = Some(guard);
        let info = namespace.clients.unlisted(namespace.clock.now());
        HostCall { namespace, handlers, caller: Caller::new(info, &namespace.acl), guard }
    }

    /// Makes the following calls in a database.
    pub(crate) fn select(&mut self, db: usize) {
        self.caller.db = db;
    }

    /// Executes a command; returns its reply in RESP2.
    pub(crate) fn execute(&mut self, args: &[&[u8]]) -> Vec<u8> {
        self.with(args, |call| {
            run(call);
            std::mem::take(call.reply.output()).into_bytes().to_vec()
        })
        .unwrap_or_default()
    }

    /// Calls `act` with the call of a command; `None` if there is no such command.
    pub(crate) fn with<T>(&mut self, args: &[&[u8]], act: impl FnOnce(&mut Call<'_>) -> T) -> Option<T> {
        let HostCall { namespace, handlers, caller, guard } = self;
        let mut words = RequestBuffer::default();
        args.iter().for_each(|arg| words.push(arg));
        let request = words.as_request()?;
        let command = find(request, Names::new(namespace.commands, &Default::default()))?;
        let (mut out, mut hashes) = (Output::new(), Hashes::new());
        command.hash_keys(request, &namespace.store, &mut hashes);
        let cx = Cx::new(namespace.clock.now(), Origin::HOST);
        let guard = guard.as_mut()?;
        Env::with_present(namespace, handlers, caller.info.id, |env| {
            let view = guard.view(caller.db, &hashes, cx);
            let mode = CallMode::Nested { session: None };
            let mut call = Call::new(env, caller, view, (command, request, &hashes), mode, &mut out);
            let result = act(&mut call);
            effects::log_outermost(&mut call);
            Some(result)
        })
    }
}

impl Drop for HostCall<'_> {
    fn drop(&mut self) {
        self.guard = None;
        serve_remaining_keys(self.namespace, self.handlers);
    }
}
