//! Inquiries of the server itself: the code of commands that report, used without a client.
//!
//! What the metrics port shows is computed where INFO, LOCK.LIST and SLOWLOG compute it, and a program that embeds the
//! server reads keys as GET does. An inquiry is not counted as a call, its look-ups have no other effects, and it holds
//! the gate shared and its keys' shards only, so that no other call waits for all of it.

use bytes::BytesMut;

use crate::client::caller::Caller;
use crate::dispatch::gate::busy;
use crate::dispatch::plan::find;
use crate::dispatch::serve::{Means, serve_leftover};
use crate::dispatch::{Args, Call, Handlers, effects};
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::observe::CallTimer;
use crate::resp::{Output, Reply, RequestBuffer};
use crate::spec::Names;
use crate::spec::registry::Hashes;
use crate::store::{Cx, Lookup, Origin};

/// Executes a command that only reads; returns its reply, in RESP2.
///
/// # Errors
/// Those of the command, and [`busy`] while a script keeps the store busy.
pub(crate) fn read(namespace: &Namespace, handlers: &'static Handlers, args: &[&[u8]]) -> Result<BytesMut> {
    make_call(namespace, handlers, args, |call| {
        handlers.of(call.command)(call)?;
        Ok(std::mem::take(call.reply.output()).into_bytes())
    })?
}

/// Lets `ask` use a call of a command without keys; `None` while a script keeps the store busy.
#[cfg(feature = "metrics")]
pub(crate) fn inquire<T>(
    namespace: &Namespace,
    handlers: &'static Handlers,
    command: &str,
    ask: impl FnOnce(&mut Call<'_>) -> T,
) -> Option<T> {
    make_call(namespace, handlers, &[command.as_bytes()], ask).ok()
}

fn make_call<T>(
    namespace: &Namespace,
    handlers: &'static Handlers,
    args: &[&[u8]],
    ask: impl FnOnce(&mut Call<'_>) -> T,
) -> Result<T> {
    let config = namespace.settings.current();
    let now = namespace.clock.now();
    let info = namespace.clients.unlisted(now);
    let timer = CallTimer::new(&namespace.observed.command_stats, &namespace.clock, info.id);
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
    let view = guard.view(0, &hashes, cx);
    if view.is_closed() {
        return Err(busy(namespace));
    }
    let mut call = Call {
        args: Args::new(request, command.name_args, &hashes),
        view,
        reply: Reply::new(&mut out, caller.protocol),
        caller: &mut caller,
        session: None,
        namespace,
        handlers,
        config: &config,
        command,
        timer: &timer,
        read_at: 0,
        next: None,
        is_blocked: false,
    };
    let answer = ask(&mut call);
    // An expired key that was found is deleted, which may be logged and make another client's call ready.
    effects::log_outermost(&mut call);
    drop(call);
    if namespace.store.has_ready_keys() {
        serve_leftover(&mut guard, cx, Means { namespace, handlers, config: &config, timer: &timer });
    }
    Ok(answer)
}
