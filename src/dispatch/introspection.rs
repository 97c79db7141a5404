//! Introspection: the code of commands that report, called without a client.
//!
//! The metrics port's content is computed where INFO, LOCK.LIST and SLOWLOG compute it, and a program that embeds the
//! server reads keys as GET does. Such a call is not counted, and its look-ups have no side effects. It holds the gate
//! shared and locks only its keys' shards, so that it blocks no other call for long.

use bytes::BytesMut;

use crate::client::caller::Caller;
use crate::dispatch::call::CallMode;
use crate::dispatch::checks::busy;
use crate::dispatch::plan::find;
use crate::dispatch::serve::wake_remaining;
use crate::dispatch::{Call, Env, Handlers, effects};
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::resp::{Output, RequestBuffer};
use crate::spec::Names;
use crate::spec::registry::Hashes;
use crate::store::{Cx, Lookup, Origin};

/// Executes a command that only reads; returns its reply in RESP2.
///
/// # Errors
/// The errors of the command, and [`busy`] while a script keeps the store busy.
pub(crate) fn read(namespace: &Namespace, handlers: &'static Handlers, args: &[&[u8]]) -> Result<BytesMut> {
    make_call(namespace, handlers, args, |call| {
        handlers.of(call.command)(call)?;
        Ok(std::mem::take(call.reply.output()).into_bytes())
    })?
}

/// Calls `read` with a call of a command without keys; returns `None` while a script keeps the store busy.
#[cfg(feature = "metrics")]
pub(crate) fn describe<T>(
    namespace: &Namespace,
    handlers: &'static Handlers,
    command: &str,
    read: impl FnOnce(&mut Call<'_>) -> T,
) -> Option<T> {
    make_call(namespace, handlers, &[command.as_bytes()], read).ok()
}

fn make_call<T>(
    namespace: &Namespace,
    handlers: &'static Handlers,
    args: &[&[u8]],
    read: impl FnOnce(&mut Call<'_>) -> T,
) -> Result<T> {
    let now = namespace.clock.now();
    let info = namespace.clients.unlisted(now);
    let mut caller = Caller::new(info, &namespace.acl);
    let mut words = RequestBuffer::default();
    args.iter().for_each(|arg| words.push(arg));
    let found = words.as_request().and_then(|request| {
        let command = find(request, Names::new(namespace.commands, &Default::default()))?;
        Some((request, command))
    });
    let (request, command) = found.ok_or_else(|| Error::CommandNotFound(args.concat()))?;
    let (mut out, mut hashes) = (Output::new(), Hashes::new());
    command.hash_keys(request, &namespace.store, &mut hashes);
    let cx = Cx { lookup: Lookup::PEEK, ..Cx::new(now, Origin::HOST) };
    let mut guard = namespace.store.hold(1);
    Env::with_present(namespace, handlers, caller.info.id, |env| {
        let view = guard.view(0, &hashes, cx);
        if view.is_closed() {
            return Err(busy(namespace));
        }
        let mode = CallMode::Nested { session: None };
        let mut call = Call::new(env, &mut caller, view, (command, request, &hashes), mode, &mut out);
        let answer = read(&mut call);
        // An expired key that was found is deleted; the deletion may be logged and make another client's call ready.
        effects::log_outermost(&mut call);
        drop(call);
        if namespace.store.has_ready_keys() {
            wake_remaining(&mut guard, cx, env);
        }
        Ok(answer)
    })
}
