//! Serves blocked clients: the keys that they are blocked on have changed, so their calls are executed again, here, in the
//! task that has changed the keys.
//!
//! It happens in the tail of the outermost call, so after all of an EXEC or a script, first come, first served for each key.
//! Where all keys of a blocked call are locked by the call that has made one of them ready, it is served before they are
//! unlocked: nobody comes in between. Others are served before the next request of the same client.

use crate::client::registry::{BlockedCall, Blocking, Unblocked};
use crate::config::Config;
use crate::dispatch::call::{Call, run_again};
use crate::dispatch::{Args, Handlers, Next};
use crate::namespace::Namespace;
use crate::observe::CallTimer;
use crate::resp::{Output, Reply};
use crate::spec::registry::Hashes;
use crate::store::{Cx, GateGuard, Lookup, Origin, View};

/// What calls are executed with.
#[derive(Clone, Copy)]
pub(super) struct Means<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) handlers: &'static Handlers,
    pub(super) config: &'a Config,
    pub(super) timer: &'a CallTimer<'a>,
}

/// A blocked client that is to be tried with other keys locked than those of the call that has made its key ready.
pub(super) struct Postponed {
    db: usize,
    hashes: Hashes,
    key: Box<[u8]>,
    client: u64,
}

/// Serves whoever can be served with the keys that a call has locked and changed. Returns the others.
#[cold]
pub(super) fn serve(view: &mut View<'_>, means: Means<'_>) -> Vec<Postponed> {
    let mut postponed = Vec::new();
    // To serve one client may make keys ready for others.
    loop {
        let ready = view.take_ready();
        if ready.is_empty() {
            return postponed;
        }
        for (db, key) in ready {
            serve_key(view, db, key, means, &mut postponed);
        }
    }
}

/// Serves those that were postponed, one after the other with the keys locked that each needs.
#[cold]
pub(super) fn serve_postponed(guard: &mut GateGuard<'_>, cx: Cx, postponed: Vec<Postponed>, means: Means<'_>) {
    let mut left = std::collections::VecDeque::from(postponed);
    while let Some(Postponed { db, hashes, key, client }) = left.pop_front() {
        let mut view = guard.view(db, &hashes, cx);
        if view.is_closed() {
            return;
        }
        serve_client(&mut view, db, &key, client, means);
        left.extend(serve(&mut view, means));
    }
}

/// Serves those whose keys have changed by themselves, or in a call that had declared no keys.
#[cold]
pub(super) fn serve_leftover(guard: &mut GateGuard<'_>, cx: Cx, means: Means<'_>) {
    for (db, key) in guard.take_ready() {
        let hash = means.namespace.store.hash(&key);
        let mut view = guard.view(db, &[hash], cx);
        if view.is_closed() {
            return;
        }
        let mut postponed = Vec::new();
        serve_key(&mut view, db, key, means, &mut postponed);
        postponed.extend(serve(&mut view, means));
        drop(view);
        serve_postponed(guard, cx, postponed, means);
    }
}

/// Serves those whose keys the sweeper has changed.
pub(crate) fn serve_after_sweep(namespace: &Namespace, handlers: &'static Handlers) {
    if !namespace.store.has_ready_keys() {
        return;
    }
    let config = namespace.instance.settings.current();
    let timer = CallTimer::new(&namespace.observed.meters, &namespace.clock, 0);
    let cx = Cx::new(namespace.clock.now(), Origin::Expiry);
    let means = Means { namespace, handlers, config: &config, timer: &timer };
    serve_leftover(&mut namespace.store.hold(1), cx, means);
}

fn serve_key(view: &mut View<'_>, db: usize, bytes: Box<[u8]>, means: Means<'_>, postponed: &mut Vec<Postponed>) {
    let key = means.namespace.store.key(&bytes);
    let cx = view.cx();
    let waiters = view.lend(db, cx).waiters(key);
    for client in waiters {
        if !view.lend(db, cx).exists(key) {
            return;
        }
        if let Some(hashes) = serve_client(view, db, &bytes, client, means) {
            postponed.push(Postponed { db, hashes, key: bytes.clone(), client });
        }
    }
}

/// Executes the call of a client that is blocked on a key. Returns the hashes of its keys if others of them have to be
/// locked first.
fn serve_client(view: &mut View<'_>, db: usize, bytes: &[u8], client: u64, means: Means<'_>) -> Option<Hashes> {
    let key = means.namespace.store.key(bytes);
    let mut missing = None;
    let is_served = means.namespace.instance.clients.answer(client, |blocking| {
        let Blocking::Keys(call) = blocking else { return None };
        if !view.covers(&call.hashes) {
            missing = Some(call.hashes.clone());
            return None;
        }
        execute(view, call, means)
    });
    if is_served {
        let cx = view.cx();
        view.lend(db, cx).dequeue(db, key, client);
    }
    missing
}

/// Executes a blocked call again; returns its reply unless it is still blocked.
fn execute(view: &mut View<'_>, blocked: &mut BlockedCall, means: Means<'_>) -> Option<Unblocked> {
    let BlockedCall { command, request, caller, hashes } = blocked;
    let Means { namespace, handlers, config, timer } = means;
    let (db, protocol) = (caller.db, caller.protocol);
    let lookup = Lookup::allowed(!caller.info.is_silent());
    let cx = Cx { now: view.now(), origin: Origin::Client(caller.info.id), lookup };
    let (mut out, mut next) = (Output::new(), Next::Done);
    let mut call = Call {
        args: Args::new(request.as_request(), command.name_words, hashes),
        view: view.lend(db, cx),
        reply: Reply::new(&mut out, protocol),
        caller,
        session: None,
        namespace,
        handlers,
        config,
        command,
        timer,
        read_at: 0,
        next: Some(&mut next),
        is_blocked: true,
    };
    run_again(&mut call);
    drop(call);
    (!next.is_unfinished()).then_some(Unblocked::Served(out))
}
