//! Serves blocked clients: when the keys that they are blocked on have changed, their calls are executed again, here,
//! by the task that has changed the keys.
//!
//! It happens at the end of the outermost call, so after a whole EXEC or script, first come, first served for each key.
//! Where all keys of a blocked call are locked by the call that has made one of them ready, it is served before they
//! are unlocked: no other client can intervene. Others are served before the next request of the same client.

use crate::client::registry::{BlockedCall, Blocking, Unblocked};
use crate::config::Config;
use crate::dispatch::call::{Call, run_again};
use crate::dispatch::{Args, Handlers, Next, effects};
use crate::namespace::Namespace;
use crate::observe::CallTimer;
use crate::resp::{Output, Reply};
use crate::spec::registry::Hashes;
use crate::store::{Cx, GateGuard, Key, Lookup, Origin, View};

/// What is needed to execute calls.
#[derive(Clone, Copy)]
pub(super) struct Means<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) handlers: &'static Handlers,
    pub(super) config: &'a Config,
    pub(super) timer: &'a CallTimer<'a>,
}

/// A key, with its database, whose blocked clients need other keys than those that are locked.
pub(super) type Postponed = (usize, Box<[u8]>);

/// Serves the clients that can be served with the keys that a call has locked and changed. Returns the keys whose other
/// clients remain to be served.
#[cold]
pub(super) fn serve(view: &mut View<'_>, means: Means<'_>) -> Vec<Postponed> {
    let mut postponed = Vec::new();
    // Serving one client may make keys ready for others.
    loop {
        let ready = view.take_ready();
        if ready.is_empty() {
            return postponed;
        }
        for (db, key) in ready {
            if !serve_key(view, db, &key, means) {
                postponed.push((db, key));
            }
        }
    }
}

/// Serves the clients that are blocked on the postponed keys, one after the other, with the keys locked that each
/// needs.
#[cold]
pub(super) fn serve_postponed(guard: &mut GateGuard<'_>, cx: Cx, postponed: Vec<Postponed>, means: Means<'_>) {
    let mut left = std::collections::VecDeque::from(postponed);
    while let Some((db, bytes)) = left.pop_front() {
        let key = means.namespace.store.key(&bytes);
        let mut view = guard.view(db, &[key.hash], cx);
        if view.is_closed() {
            return;
        }
        let waiters = view.lend(db, cx).waiters(key);
        drop(view);
        for client in waiters {
            let mut hashes = Hashes::from_slice(&[key.hash]);
            means.namespace.instance.clients.answer(client, |blocking| {
                if let Blocking::Keys(call) = blocking {
                    hashes.extend_from_slice(&call.hashes);
                }
                None
            });
            let mut view = guard.view(db, &hashes, cx);
            if view.is_closed() || !view.lend(db, cx).exists(key) {
                break;
            }
            serve_client(&mut view, db, key, client, means);
            left.extend(serve(&mut view, means));
        }
    }
}

/// Serves clients blocked on keys that have changed without a call, or in a call that had declared no keys.
#[cold]
pub(super) fn serve_leftover(guard: &mut GateGuard<'_>, cx: Cx, means: Means<'_>) {
    let ready = guard.take_ready();
    serve_postponed(guard, cx, ready, means);
}

/// Serves clients blocked on keys that the sweeper has changed.
pub(crate) fn serve_after_sweep(namespace: &Namespace, handlers: &'static Handlers) {
    if !namespace.store.has_ready_keys() {
        return;
    }
    let config = namespace.instance.settings.current();
    let timer = CallTimer::new(&namespace.observed.command_stats, &namespace.clock, 0);
    let cx = Cx::new(namespace.clock.now(), Origin::Expiry);
    let means = Means { namespace, handlers, config: &config, timer: &timer };
    serve_leftover(&mut namespace.store.hold(1), cx, means);
}

/// Serves the clients that are blocked on a key, in order of arrival, while the key exists. Returns false at the first
/// one whose call needs keys that are not locked: later ones must not be served before it.
fn serve_key(view: &mut View<'_>, db: usize, bytes: &[u8], means: Means<'_>) -> bool {
    let (key, cx) = (means.namespace.store.key(bytes), view.cx());
    let waiters = view.lend(db, cx).waiters(key);
    for client in waiters {
        if !view.lend(db, cx).exists(key) {
            return true;
        }
        if !serve_client(view, db, key, client, means) {
            return false;
        }
    }
    true
}

/// Executes the call of a client that is blocked on a key, if all its keys are locked; returns whether they are.
fn serve_client(view: &mut View<'_>, db: usize, key: Key<'_>, client: u64, means: Means<'_>) -> bool {
    let mut is_covered = true;
    let is_served = means.namespace.instance.clients.answer(client, |blocking| {
        let Blocking::Keys(call) = blocking else { return None };
        is_covered = view.covers(&call.hashes);
        if is_covered { execute(view, call, means) } else { None }
    });
    if is_served {
        let cx = view.cx();
        view.lend(db, cx).dequeue(db, key, client);
    }
    is_covered
}

/// Executes a blocked call again; returns its reply, or `None` if it remains blocked.
fn execute(view: &mut View<'_>, blocked: &mut BlockedCall, means: Means<'_>) -> Option<Unblocked> {
    let BlockedCall { command, request, caller, hashes } = blocked;
    let Means { namespace, handlers, config, timer } = means;
    let (db, protocol) = (caller.db, caller.protocol);
    let lookup = Lookup::allowed(!caller.info.is_no_touch());
    let cx = Cx { now: view.now(), origin: Origin::Client(caller.info.id), lookup };
    let (mut out, mut next) = (Output::new(), Next::Done);
    let mut call = Call {
        args: Args::new(request.as_request(), command.name_args, hashes),
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
    effects::log_outermost(&mut call);
    drop(call);
    (!next.is_unfinished()).then_some(Unblocked::Served(out))
}
