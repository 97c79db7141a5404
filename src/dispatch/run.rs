//! The call of a handler, with its measurement, and the error reply if it fails.

use crate::dispatch::{Call, post_call};
use crate::error::Error;
use crate::namespace::Namespace;
use crate::resp::Reply;

/// Calls the handler of a blocked call again; returns its duration in nanoseconds.
pub(super) fn run_again(call: &mut Call<'_>) -> u64 {
    call.timer.begin_now();
    let mark = call.reply.mark();
    if let Err(error) = call.handlers.of(call.command)(call) {
        call.reply.rollback(mark);
        fail(call, &error);
    }
    call.timer.ns_since(call.timer.begin())
}

/// Calls the handler, and removes its partial reply if it fails.
#[inline(always)] // a few instructions around the handler
pub(super) fn run(call: &mut Call<'_>) {
    let begun = call.timer.begin();
    let mark = call.reply.mark();
    if let Err(error) = call.handlers.of(call.command)(call) {
        call.reply.rollback(mark);
        fail(call, &error);
    }
    call.caller.commands += 1;
    if let Some(ns) = call.timer.end(call.command, begun, call.view.lookups()) {
        post_call::record(call, ns, mark);
    }
}

#[cold]
fn fail(call: &mut Call<'_>, error: &Error) {
    call.timer.fail(call.command);
    refuse(call.namespace, &mut call.reply, error);
}

/// Writes an error reply and counts it.
pub(crate) fn refuse(namespace: &Namespace, reply: &mut Reply<'_>, error: &Error) {
    let line = error.wire_text();
    namespace.observed.errors.count(&line);
    reply.error(&line);
}
