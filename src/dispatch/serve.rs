//! Serves blocked clients: when keys have changed, the calls of the clients blocked on them are executed again, here,
//! by the task that has changed the keys.
//!
//! They are served at the end of the outermost call, so after a whole EXEC or script, in order of arrival for each key.
//! A blocked call whose keys are all locked by the call that has made one of them ready is served before they are
//! unlocked, so no other client can intervene. Other blocked calls are served before the next request of the same
//! client.

use std::collections::{HashSet, VecDeque};

use crate::acl::Context;
use crate::client::engine::StagedCall;
use crate::client::outbox::NUDGE;
use crate::client::registry::{Blocked, BlockedCall, Blocking, ClientWait, Grant, Unblocked};
use crate::dispatch::call::{Call, CallMode};
use crate::dispatch::checks::{Admission, Obstacle, WAKE_CHECKS};
use crate::dispatch::declared::keys_of;
use crate::dispatch::repeat_limit::RepeatLimit;
use crate::dispatch::run::{refuse, run_again};
use crate::dispatch::{Env, Handlers, Next, denials, effects, post_call};
use crate::error::Result;
use crate::namespace::Namespace;
use crate::resp::{Output, Reply, Request};
use crate::spec::CommandSpec;
use crate::spec::registry::Hashes;
use crate::store::entry::Entry;
use crate::store::{
    Cx, EvictionPolicy, GateGuard, HeldLock, Key, KeyName, LockMode, LockWaiter, Lookup, NEVER, Origin, View, Waiter,
    first_of,
};
use crate::time::clock::Now;

/// Number of clients that may still be given a lock at once. Where ten thousand clients may share a lock, other calls
/// must not wait for all of them: each client that was given the lock passes it on to another one, see
/// [`serve_unserved`].
struct Grants {
    left: usize,
    /// True if locks that clients pass on are left to those clients.
    leaves_unserved: bool,
}

impl Grants {
    /// Number of grants at the end of a call; as many clients then pass the lock on concurrently.
    const OF_CALL: usize = 32;
    /// Number of grants by a client that continues after it was given a lock itself.
    const OF_CLIENT: usize = 1;

    /// Creates the grants of a call.
    fn of_call() -> Self {
        Grants { left: Self::OF_CALL, leaves_unserved: true }
    }

    /// Creates grants for locks that are to be served now.
    fn of_lock(left: usize) -> Self {
        Grants { left, leaves_unserved: false }
    }

    /// Wakes the sweeper if all grants are used: it serves the remaining clients in case the served ones do not
    /// continue.
    fn expect_others(&self, env: Env<'_>) {
        if self.left == 0 {
            env.namespace.upkeep.sweep_notify.notify_one();
        }
    }
}

/// Serves the clients that can be served with the keys that a call has locked and changed. Returns the keys with other
/// clients that remain to be served.
#[cold]
pub(super) fn serve(view: &mut View<'_>, env: Env<'_>) -> Vec<KeyName> {
    let mut grants = Grants::of_call();
    let deferred = serve_some(view, env, &mut grants);
    grants.expect_others(env);
    deferred
}

fn serve_some(view: &mut View<'_>, env: Env<'_>, grants: &mut Grants) -> Vec<KeyName> {
    let mut deferred = Vec::new();
    // Serving one client may make keys ready for other clients.
    loop {
        // The call that has changed the keys is over; one of them may have expired while it ran.
        view.set_now(env.namespace.clock.now());
        let mut ready = view.waiting().take_ready();
        if ready.is_empty() {
            return deferred;
        }
        order_by_arrival(view, &mut ready, env);
        for (db, key) in ready {
            let is_covered = view.covers(&[env.namespace.store.hash(&key)]);
            if !is_covered || !serve_key(view, db, &key, env, grants) {
                deferred.push((db, key));
            }
        }
    }
}

/// Sorts the locks freed by one call by the arrival of the first clients in their queues.
fn order_by_arrival(view: &mut View<'_>, ready: &mut [(usize, Box<[u8]>)], env: Env<'_>) {
    if ready.len() > 1 {
        let cx = view.cx();
        ready.sort_by_cached_key(|(db, key)| {
            let key = env.namespace.store.key(key);
            let mut view = view.lend(*db, cx);
            let first = if view.covers(&[key.hash]) { view.locks().queue(key) } else { None };
            first.and_then(first_of).map_or(0, |waiter| waiter.number)
        });
    }
}

/// Serves the clients blocked on the deferred keys, one after the other, with the keys locked that each of them needs.
#[cold]
pub(super) fn wake_deferred(guard: &mut GateGuard<'_>, cx: Cx, deferred: Vec<KeyName>, env: Env<'_>) {
    let mut grants = Grants::of_call();
    wake_some(guard, cx, deferred, env, &mut grants);
    grants.expect_others(env);
}

fn wake_some(guard: &mut GateGuard<'_>, cx: Cx, deferred: Vec<KeyName>, env: Env<'_>, grants: &mut Grants) {
    let mut left = VecDeque::from(deferred);
    let cx = Cx { now: env.namespace.clock.now(), ..cx };
    while let Some((db, bytes)) = left.pop_front() {
        let key = env.namespace.store.key(&bytes);
        let mut hashes = Hashes::from_slice(&[key.hash]);
        let (mut next, mut limit) = loop {
            let mut view = guard.view(db, &hashes, cx);
            if view.is_closed() {
                return;
            }
            match serve_lock(&mut view, db, key, env, grants) {
                Some(needed) => hashes.extend(needed), // added, not replaced: two of them could need each other forever
                None => break (view.waiting().next(key, 0), RepeatLimit::of(&mut view, key, env)),
            }
        };
        while !limit.is_reached()
            && let Some(waiter) = next
        {
            let hashes = ClientWait::of(&waiter).and_then(|wait| wait.call(|call| call.hashes.clone()));
            let mut view = guard.view(db, hashes.as_deref().unwrap_or(&[key.hash]), cx);
            if view.is_closed() {
                return;
            }
            if waiter.wants(view.lookup(key, Lookup::PEEK).map(Entry::kind)) {
                serve_client(&mut view, (db, key), &waiter, env, &mut limit);
            }
            left.extend(serve_some(&mut view, env, grants));
            next = view.waiting().next(key, waiter.number);
        }
    }
}

/// Serves clients blocked on keys that have changed without a call, or in a call without declared keys.
#[cold]
pub(super) fn wake_remaining(guard: &mut GateGuard<'_>, cx: Cx, env: Env<'_>) {
    let ready = guard.take_ready();
    wake_deferred(guard, cx, ready, env);
}

/// Serves clients blocked on keys that were changed outside of calls, by the sweeper or because a connection has
/// closed.
pub(crate) fn serve_remaining_keys(namespace: &Namespace, handlers: &'static Handlers) {
    if !namespace.store.has_ready_keys() {
        return;
    }
    let cx = Cx::new(namespace.clock.now(), Origin::Expiry);
    Env::with_present(namespace, handlers, 0, |env| wake_remaining(&mut namespace.store.hold(1), cx, env));
}

/// Serves more of the clients queued for a shared lock, if there is such a lock: for the sweeper, in case no served
/// client continues. Does nothing while a script keeps the store busy.
pub(crate) fn serve_unserved(namespace: &Namespace, handlers: &'static Handlers) {
    if namespace.upkeep.has_unserved() {
        let (cx, mut grants) = (Cx::new(namespace.clock.now(), Origin::Expiry), Grants::of_lock(Grants::OF_CALL));
        Env::with_present(namespace, handlers, 0, |env| serve_next(&mut namespace.store.hold(1), cx, env, &mut grants));
    }
}

/// Passes a shared lock on to another client when a client that was given it continues.
pub(super) fn pass_on(guard: &mut GateGuard<'_>, cx: Cx, env: Env<'_>) {
    if env.namespace.upkeep.has_unserved() {
        serve_next(guard, cx, env, &mut Grants::of_lock(Grants::OF_CLIENT));
    }
}

#[cold]
fn serve_next(guard: &mut GateGuard<'_>, cx: Cx, env: Env<'_>, grants: &mut Grants) {
    if guard.is_refused() {
        return; // nothing is taken from the set that could not be served
    }
    let lock = env.namespace.upkeep.take_unserved();
    wake_some(guard, cx, lock.into_iter().collect(), env, grants);
}

/// Repeats the call of a blocked client whose retry time has come, and the calls of the other clients blocked on its
/// keys, in order of arrival: the first of them get what has become ready. Returns false if that was not possible.
pub(crate) fn serve_due(namespace: &Namespace, handlers: &'static Handlers, blocked: &Blocked) -> bool {
    let now = namespace.clock.now();
    serve_keys(namespace, handlers, now, blocked.call(BlockedCall::keys).unwrap_or_default());
    blocked.due_ms(&namespace.restrictions.pause, now) > now.mono_ms()
}

/// Repeats the calls of the clients blocked on some keys.
pub(crate) fn serve_keys(namespace: &Namespace, handlers: &'static Handlers, now: Now, keys: Vec<KeyName>) {
    let cx = Cx::new(now, Origin::Expiry);
    Env::with_present(namespace, handlers, 0, |env| wake_deferred(&mut namespace.store.hold(1), cx, keys, env));
}

/// Deletes the expired keys of a call that clients are queued for as locks, and hands these locks over before the call
/// begins: a client that did not wait must not come first. The time of the call stays the same, so that it finds no
/// other lock expired.
pub(super) fn hand_over_expired(
    view: &mut View<'_>,
    db: usize,
    (command, request): (&CommandSpec, Request<'_>),
    env: Env<'_>,
) {
    // The clients queued for the call's own locks come before it, regardless of their number.
    let mut grants = Grants::of_lock(usize::MAX);
    if command.is_exclusive(request) {
        let (now, cx) = (view.now(), view.cx());
        view.locks().expire_awaited();
        while let Some((db, key)) = env.namespace.upkeep.take_unserved() {
            view.lend(db, cx).locks().mark_ready(env.namespace.store.key(&key));
        }
        serve_some(view, env, &mut grants); // the whole store is locked: no client remains to be served
        view.set_now(now);
        return;
    }
    for (position, _) in command.keys_of(request) {
        let key = env.namespace.store.key(request.arg(position));
        let first = view.locks().queue(key).and_then(first_of).copied();
        if first.is_some_and(|first| may_have(view, key, first))
            && serve_lock(view, db, key, env, &mut grants).is_some()
        {
            view.locks().mark_ready(key); // for the end of the call
        }
    }
}

/// Hands a free lock, or its free permits, over to the first clients in the queue that still wait, and to clients that
/// wait for several locks with the token of a holder. Returns the keys of the call whose turn it is if some of them are
/// not locked.
#[must_use]
fn serve_lock(view: &mut View<'_>, db: usize, key: Key<'_>, env: Env<'_>, grants: &mut Grants) -> Option<Hashes> {
    let cx = view.cx();
    let mut view = view.lend(db, cx);
    view.locks().queue(key)?;
    if env.namespace.engine().is_some() {
        return None; // it hands its locks over itself
    }
    if grants.leaves_unserved && env.namespace.upkeep.is_unserved(db, key.bytes) {
        return None;
    }
    let (excessive, mut uncovered) = (view.locks().take_excessive(key), None);
    let holders = if view.exists(key) { view.locks().queued_holders(key) } else { Vec::new() };
    for waiter in excessive.into_iter().chain(holders) {
        if let Turn::Uncovered(hashes) = serve_with_token(&mut view, key, waiter, env) {
            uncovered = Some(hashes);
        }
    }
    while uncovered.is_none() {
        let first = view.locks().queue(key).and_then(first_of).copied()?;
        if !may_have(&mut view, key, first) {
            return None;
        }
        if grants.left == 0 {
            env.namespace.upkeep.serve_later((db, key.bytes.into()));
            return None;
        }
        match serve_with_token(&mut view, key, first, env) {
            Turn::Used(_) => grants.left -= 1,
            Turn::Passed => {}
            Turn::Kept => return None,
            Turn::Uncovered(hashes) => uncovered = Some(hashes),
        }
    }
    uncovered
}

/// Returns whether a client whose turn it is may have a lock, as far as that depends on the lock's key alone.
pub(crate) fn may_have(view: &mut View<'_>, key: Key<'_>, waiter: LockWaiter) -> bool {
    if let Some(holders) = view.locks().holders(key) {
        return match (waiter.mode, holders.permits()) {
            (LockMode::Shared, None) => true,
            (LockMode::Permits { count, .. }, Some((size, free))) => count <= free || count > size,
            // Once its share is lost, the client is refused.
            (LockMode::Upgrade, _) => holders.len() == 1 || !holders.has_token(waiter.token),
            _ => false,
        };
    }
    match waiter.mode {
        LockMode::Upgrade => true, // refused, unless another client with its token was served
        LockMode::Several if view.locks().queued_holders(key).contains(&waiter) => true,
        _ => !view.exists(key),
    }
}

/// Serves a client in the queue for a lock, and then the clients with the same token in the queues for its locks, as
/// far as they wait for nothing else.
fn serve_with_token(view: &mut View<'_>, key: Key<'_>, waiter: LockWaiter, env: Env<'_>) -> Turn {
    let turn = serve_queued(view, key, waiter, env);
    let Turn::Used(locks) = &turn else { return turn };
    // Ten thousand readers are served at once; each of them must not search all the others.
    if !env.namespace.clients.queued.has_another(waiter.token, waiter.client) {
        return turn;
    }
    let (mut locks, mut tried, mut uncovered) = (locks.clone(), HashSet::new(), None);
    loop {
        let mut next: Option<(LockWaiter, usize)> = None;
        for (at, lock) in locks.iter().enumerate() {
            let is_next =
                |other: &&LockWaiter| other.token == waiter.token && !other.is_away && !tried.contains(&other.number);
            let queue = view.locks().queue(env.namespace.store.key(lock));
            let first = queue.and_then(|queue| queue.iter().find(is_next));
            next = first.map(|first| (*first, at)).into_iter().chain(next).min_by_key(|(first, _)| first.number);
        }
        let Some((next, at)) = next else { break };
        tried.insert(next.number);
        let lock = locks[at].clone();
        match serve_queued(view, env.namespace.store.key(&lock), next, env) {
            Turn::Used(more) => {
                locks.extend(more);
                tried.clear(); // the token holds more locks now
            }
            Turn::Uncovered(hashes) => uncovered = Some(hashes),
            Turn::Passed | Turn::Kept => {}
        }
    }
    uncovered.map_or(turn, Turn::Uncovered)
}

/// Outcome of a client's turn in the queue for a lock.
enum Turn {
    /// The client's call was answered; it has asked for these locks.
    Used(Vec<Box<[u8]>>),
    /// The client does not wait any more.
    Passed,
    /// The client cannot be answered yet.
    Kept,
    /// These keys have to be locked for the client's call.
    Uncovered(Hashes),
}

/// Repeats the call of a client in the queue for a lock. The client leaves the queue unless it continues to wait.
fn serve_queued(view: &mut View<'_>, key: Key<'_>, waiter: LockWaiter, env: Env<'_>) -> Turn {
    let (mut turn, mut locks) = (Turn::Passed, Vec::new());
    let is_answered = env.namespace.clients.answer(waiter.client, |blocking| {
        let Blocking::Keys(call) = blocking else { return None };
        if !view.covers(&call.hashes) {
            turn = Turn::Uncovered(call.hashes.clone());
            return None;
        }
        locks = call.keys();
        let outcome = execute_caught(view, call, env);
        if let Outcome::Waits = outcome {
            turn = Turn::Kept;
        }
        Some(as_grant(view, blocking, waiter, outcome.answer()?, env))
    });
    if is_answered {
        // Clients behind it in the queues are served if it was refused.
        locks.iter().for_each(|(db, lock)| view.waiting().dequeue(*db, env.namespace.store.key(lock), waiter.number));
        return Turn::Used(locks.into_iter().map(|(_, lock)| lock).collect());
    }
    if let Turn::Passed = turn {
        view.locks().leave_queue(key, waiter.number);
    }
    turn
}

/// Adds to the answer of a call in the queue for locks the data for checking, before the client is told, that it still
/// holds the locks, and for repeating the call otherwise.
fn as_grant(
    view: &mut View<'_>,
    blocking: &mut Blocking,
    waiter: LockWaiter,
    answer: Unblocked,
    env: Env<'_>,
) -> Unblocked {
    let (Unblocked::Served(reply), Blocking::Keys(call)) = (answer, std::mem::replace(blocking, Blocking::Time)) else {
        return Unblocked::Panicked; // no other outcome is an answer
    };
    let db = call.caller.db;
    let keys: Vec<&[u8]> =
        call.command.keys_of(call.request.as_request()).map(|(at, _)| call.request.as_request().arg(at)).collect();
    let token = call.request.as_request().arg(token_at(waiter.mode, keys.len()));
    let held = |key: &&[u8]| held_lock(view, (db, env.namespace.store.key(key)), token, env);
    match keys.iter().map(held).collect::<Option<Vec<_>>>() {
        Some(held) => {
            let (fences, until_ms) = (held.iter().map(|held| held.0).collect(), held.iter().map(|held| held.1).min());
            Unblocked::Granted(Box::new(Grant { reply, fences, until_ms: until_ms.unwrap_or(NEVER), call: Some(call) }))
        }
        None => Unblocked::Served(reply),
    }
}

/// Returns the position of the token in the request of a client that asks for `keys` locks in a mode.
pub(super) fn token_at(mode: LockMode, keys: usize) -> usize {
    if mode == LockMode::Several { 2 + keys } else { 2 }
}

/// Returns the fencing token and the expiry, in monotonic milliseconds, of a lock held with a token; `None` if it is
/// not held.
pub(super) fn held_lock(
    view: &mut View<'_>,
    (db, key): (usize, Key<'_>),
    token: &[u8],
    env: Env<'_>,
) -> Option<(i64, u64)> {
    let (hash, now) = (env.namespace.store.hash(token), view.now());
    view.locks().inspect(db, key, |lock, deadline| match lock {
        HeldLock::Exclusive(record) => {
            let until_ms = deadline.map_or(NEVER, |deadline| deadline.mono_ms(now));
            (*record.token == *token).then_some((record.fence, until_ms))
        }
        HeldLock::Shared(holders) => {
            let holder = holders.get(holders.find(hash, token)?)?;
            Some((holder.record.fence, holder.until_ms))
        }
    })?
}

/// Serves the clients blocked on a key, in order of arrival, as long as it holds a value that they wait for. Returns
/// false at the first client whose call needs keys that are not locked: later clients must not be served before it.
fn serve_key(view: &mut View<'_>, db: usize, bytes: &[u8], env: Env<'_>, grants: &mut Grants) -> bool {
    let (key, cx) = (env.namespace.store.key(bytes), view.cx());
    if serve_lock(view, db, key, env, grants).is_some() {
        return false;
    }
    let (mut after, mut limit) = (0, RepeatLimit::of(&mut view.lend(db, cx), key, env));
    while !limit.is_reached() {
        let next = view.lend(db, cx).waiting().next(key, after);
        let Some(waiter) = next else { return true };
        if !serve_client(view, (db, key), &waiter, env, &mut limit) {
            return false;
        }
        after = waiter.number;
    }
    true
}

/// Repeats the call of a client blocked on a key, if all its keys are locked; returns whether they are. A call that may
/// write to a mirror is left to the engine, within the limit.
fn serve_client(
    view: &mut View<'_>,
    (db, key): (usize, Key<'_>),
    waiter: &Waiter,
    env: Env<'_>,
    limit: &mut RepeatLimit,
) -> bool {
    let (mut is_covered, cx) = (true, view.cx());
    let Some(wait) = ClientWait::of(waiter) else { return true };
    if let Some(engine) = env.namespace.engine()
        && let Some(is_admitted) = limit.admit(&mut view.lend(db, cx), key, wait)
    {
        if is_admitted && let Some(wait) = ClientWait::shared(waiter) {
            engine.repeat(wait);
        }
        return true;
    }
    let is_served = wait.answer(|blocking| {
        let Blocking::Keys(call) = blocking else { return None };
        is_covered = view.covers(&call.hashes);
        if is_covered { execute_caught(view, call, env).answer() } else { None }
    });
    if is_served {
        view.lend(db, cx).waiting().dequeue(db, key, waiter.number);
    }
    is_covered
}

/// Checks whether a blocked call may still be executed: since it blocked, its user may have changed and memory may have
/// run out. Nothing is evicted for it.
///
/// # Errors
/// The reason for the rejection.
fn admit(blocked: &mut BlockedCall, now: Now, env: Env<'_>) -> Result<()> {
    let BlockedCall { command, request, caller, .. } = blocked;
    let Env { namespace, config, .. } = env;
    let memory_account = namespace.store.memory_account();
    let evicts = config.maxmemory_policy != EvictionPolicy::Noeviction;
    caller.is_short_of_memory = !evicts && memory_account.has_limit() && memory_account.is_over();
    let (command, request) = (*command, request.as_request());
    let admission = Admission { namespace, config, caller, session: None, command, request, now, script: None };
    match admission.obstacle(&WAKE_CHECKS) {
        Some(Obstacle::Refused(error, denial)) => {
            if let Some(denial) = denial {
                denials::record_denial(&admission, denial, Context::TopLevel);
            }
            namespace.observed.command_stats.reject(command);
            Err(error)
        }
        _ => Ok(()),
    }
}

/// Checks a blocked call as [`admit`] does, with the client's present permissions. Returns `None` if its connection is
/// about to be closed, because its user was deleted or it was told to close.
///
/// # Errors
/// The reply to a call that may not be executed.
fn admit_again(blocked: &mut BlockedCall, now: Now, env: Env<'_>) -> Option<std::result::Result<(), Output>> {
    blocked.caller.follow_users(&env.namespace.acl);
    if blocked.caller.closing || blocked.caller.info.outbox.is_ending() {
        return None;
    }
    Some(admit(blocked, now, env).map_err(|error| {
        let mut out = Output::new();
        refuse(env.namespace, &mut Reply::new(&mut out, blocked.caller.protocol), &error);
        out
    }))
}

/// Returns the call of a blocked client for an engine to execute again; `None` if the client is not blocked any more,
/// or has got the error of a failed check.
pub(crate) fn readmit(
    namespace: &Namespace,
    handlers: &'static Handlers,
    wait: &ClientWait,
) -> Option<Box<StagedCall>> {
    let mut found = None;
    Env::with_present(namespace, handlers, 0, |env| {
        wait.answer(|blocking| {
            let Blocking::Keys(blocked) = blocking else { return None };
            if let Err(refusal) = admit_again(blocked, namespace.clock.now(), env)? {
                return Some(Unblocked::Served(refusal));
            }
            let (request, caller) = (blocked.request.clone(), blocked.caller.clone());
            let keys = keys_of(blocked.command, request.as_request(), caller.db).into();
            let (command, transaction, watch, generation) = (blocked.command, None, None, None);
            found = Some(Box::new(StagedCall { command, request, caller, keys, transaction, watch, generation }));
            None
        });
    });
    found
}

/// Checks all blocked calls again, and ends those that may not be executed any more with the error.
pub(crate) fn recheck_blocked(namespace: &Namespace, handlers: &'static Handlers, now: Now) {
    Env::with_present(namespace, handlers, 0, |env| {
        for wait in namespace.clients.all_waits() {
            wait.answer(|blocking| {
                let Blocking::Keys(blocked) = blocking else { return None };
                admit_again(blocked, now, env)?.err().map(Unblocked::Served)
            });
        }
    });
}

/// Answers a blocked client whose call an engine has executed.
pub(crate) fn answer_staged(namespace: &Namespace, handlers: &'static Handlers, wait: &ClientWait, reply: Output) {
    let mut reply = Some(reply);
    Env::with_present(namespace, handlers, 0, |env| {
        wait.answer(|blocking| {
            if let Blocking::Keys(blocked) = blocking {
                let BlockedCall { command, shown, caller, spent_ns, .. } = &**blocked;
                post_call::count_unblocked(env, (command, shown.as_request()), &caller.info, *spent_ns);
            }
            reply.take().map(Unblocked::Served)
        });
    });
}

/// Tells a client queued for locks that an engine has given it the locks, with their fencing tokens, in the order named,
/// and the expiry of the first to expire, in monotonic milliseconds. The tokens are an array if `is_several`. Returns
/// false if the client may not have the locks any more.
pub(crate) fn grant_staged(
    namespace: &Namespace,
    handlers: &'static Handlers,
    wait: &ClientWait,
    (fences, is_several, until_ms): (Vec<i64>, bool, u64),
) -> bool {
    let mut is_allowed = false;
    let is_told = Env::with_present(namespace, handlers, 0, |env| {
        wait.answer(|blocking| {
            let Blocking::Keys(blocked) = blocking else { return None };
            let admitted = admit_again(blocked, namespace.clock.now(), env)?;
            is_allowed = admitted.is_ok();
            let BlockedCall { command, shown, caller, spent_ns, .. } = &**blocked;
            post_call::count_unblocked(env, (command, shown.as_request()), &caller.info, *spent_ns);
            Some(admitted.map_or_else(Unblocked::Served, |()| {
                let mut out = Output::new();
                let mut reply = Reply::new(&mut out, caller.protocol);
                if is_several {
                    reply.array(fences.len());
                }
                fences.iter().for_each(|fence| reply.int(*fence));
                Unblocked::Granted(Box::new(Grant { reply: out, fences, until_ms, call: None }))
            }))
        })
    });
    is_told && is_allowed
}

/// Repeats, with the mirror locked, the call of a client that an engine has queued for a lock, to see whether the call
/// fails. Returns its reply then; no other task answers the client any more in that case.
pub(crate) fn examine_queued(namespace: &Namespace, handlers: &'static Handlers, wait: &ClientWait) -> Option<Output> {
    let (mut found, cx) = (None, Cx::new(namespace.clock.now(), Origin::HOST));
    Env::with_present(namespace, handlers, 0, |env| {
        let mut hold = namespace.store.exclusive();
        wait.answer(|blocking| {
            let Blocking::Keys(blocked) = blocking else { return None };
            let mut view = hold.view(blocked.caller.db, cx);
            if let Outcome::Answered(Unblocked::Served(out)) = execute_caught(&mut view, blocked, env) {
                (found, blocked.is_committing) = (Some(out), true);
            }
            None
        });
    });
    found
}

/// Repeats a blocked call as [`execute`] does. A panic affects that client only: the task that serves it and the other
/// blocked clients continue.
fn execute_caught(view: &mut View<'_>, blocked: &mut BlockedCall, env: Env<'_>) -> Outcome {
    let outcome = env.namespace.instance.panics.catch("blocked call", || execute(view, blocked, env));
    outcome.unwrap_or_else(|| {
        env.namespace.instance.panics.catch("recovery", || view.recover());
        Outcome::Answered(Unblocked::Panicked)
    })
}

/// Outcome of repeating a blocked call.
enum Outcome {
    /// The client gets this answer.
    Answered(Unblocked),
    /// The client remains blocked.
    Waits,
    /// The client is about to be disconnected.
    Gone,
}

impl Outcome {
    fn answer(self) -> Option<Unblocked> {
        if let Outcome::Answered(answer) = self { Some(answer) } else { None }
    }
}

fn execute(view: &mut View<'_>, blocked: &mut BlockedCall, env: Env<'_>) -> Outcome {
    match admit_again(blocked, view.now(), env) {
        None => return Outcome::Gone,
        Some(Err(refusal)) => return Outcome::Answered(Unblocked::Served(refusal)),
        Some(Ok(())) => {}
    }
    let BlockedCall { command, request, caller, hashes, shown, spent_ns, .. } = blocked;
    let lookup = Lookup::allowed(!caller.info.flags.is_no_touch());
    let cx = Cx { now: view.now(), origin: Origin::Client(caller.info.id), lookup };
    let (mut out, mut next) = (Output::new(), Next::Done);
    let view = view.lend(caller.db, cx);
    let (invocation, mode) = ((*command, request.as_request(), &hashes[..]), CallMode::Retry { next: &mut next });
    let mut call = Call::new(env, caller, view, invocation, mode, &mut out);
    *spent_ns += run_again(&mut call);
    effects::log_outermost(&mut call);
    drop(call);
    if let Next::StayBlocked { retry_at_ms } = next {
        let retry_earlier = retry_at_ms < blocked.retry_at_ms;
        blocked.retry_at_ms = retry_at_ms;
        if retry_earlier {
            caller.info.outbox.signal(NUDGE);
        }
    }
    if next.is_unfinished() {
        return Outcome::Waits;
    }
    post_call::count_unblocked(env, (command, shown.as_request()), &caller.info, *spent_ns);
    Outcome::Answered(Unblocked::Served(out))
}
