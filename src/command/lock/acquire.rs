//! LOCK.ACQUIRE and LOCK.ACQUIREMULTI: acquiring and extending locks, and queueing for them.

use std::sync::atomic::Ordering::Relaxed;

use crate::client::info::RemoteClient;
use crate::client::registry::QueuePlace;
use crate::client::staged::LockDemand;
use crate::command::lock::args::AcquireArgs;
use crate::command::lock::claim::{self, Availability, ClaimTurn, LockTaker, waiter};
use crate::command::lock::deadlock::{self, DeadlockCheck};
use crate::command::lock::replicated::reply_when_acknowledged;
use crate::dispatch::Call;
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::store::{Key, LockMode};

pub(super) fn acquire(call: &mut Call<'_>) -> Result<()> {
    let mut ask = AcquireArgs::for_one(call)?;
    let (key, is_examined) = (ask.keys[0], is_examined(call));
    let found = availability(call, key, &mut ask)?;
    if found == Availability::NotHeld && !is_examined {
        call.reply.null();
        return Ok(());
    }
    if found == Availability::Taken || is_examined {
        wait(call, &ask)?;
        let Some(replicas) = ask.replicas else { return Ok(()) };
        let Some(queued) = call.take_rest() else { return Ok(()) };
        return reply_when_acknowledged(call, (key, ask.claim.token), (replicas, ask.until_ms), Some(queued));
    }
    leave_kept_place(call, &ask);
    let fence = take(call, key, &ask);
    // A call that was blocked is retried by another task: the client's own task then waits for the replicas.
    if let Some(replicas) = ask.replicas.filter(|_| !call.is_retry()) {
        return reply_when_acknowledged(call, (key, ask.claim.token), (replicas, ask.until_ms), None);
    }
    call.reply_fence(fence);
    Ok(())
}

pub(super) fn acquire_several(call: &mut Call<'_>) -> Result<()> {
    let mut ask = AcquireArgs::for_several(call)?;
    let keys = ask.keys.clone();
    let mut is_any_taken = false;
    for key in &keys {
        is_any_taken |= availability(call, *key, &mut ask)? == Availability::Taken;
    }
    if is_any_taken || is_examined(call) {
        return wait(call, &ask);
    }
    leave_kept_place(call, &ask);
    let fences: Vec<i64> = keys.iter().map(|key| take(call, *key, &ask)).collect();
    call.reply.array(fences.len());
    fences.into_iter().for_each(|fence| call.reply_fence(fence));
    Ok(())
}

/// Returns true if the call of a client that an engine has queued is executed on the mirror, to see whether it is in a
/// deadlock: the engine hands the lock over, not this call.
fn is_examined(call: &Call<'_>) -> bool {
    call.is_retry() && call.caller.staged.is_none() && call.namespace.engine().is_some()
}

/// Returns the state of a lock for the caller.
fn availability(call: &mut Call<'_>, key: Key<'_>, ask: &mut AcquireArgs<'_>) -> Result<Availability> {
    let kept = ask.kept.as_ref().map(|kept| kept.number);
    let turn = ClaimTurn { client: call.caller.info.id, kept, was_queued: call.is_retry() };
    claim::availability(&mut call.view, key, &mut ask.claim, turn)
}

/// Leaves the reserved place of the caller, who has acquired the locks.
fn leave_kept_place(call: &mut Call<'_>, ask: &AcquireArgs<'_>) {
    let kept = ask.kept.as_ref().filter(|kept| call.namespace.lock_holders.claim_slot(kept));
    let Some(kept) = kept else { return };
    ask.keys.iter().for_each(|key| call.view.locks().leave_queue(*key, kept.number));
}

/// Acquires a free lock, or extends a held one; returns its fencing token.
fn take(call: &mut Call<'_>, key: Key<'_>, ask: &AcquireArgs<'_>) -> i64 {
    let is_held = claim::is_held(&mut call.view, key, &ask.claim);
    if !is_held {
        record_acquired(call, key);
    }
    call.caller.record_held(key, ask.claim.token);
    let taker = LockTaker {
        client: call.caller.as_lock_holder(),
        db: call.caller.db,
        now: call.now(),
        since_us: call.present().mono_us().cast_signed(),
    };
    let Call { view, caller, namespace, .. } = call;
    claim::take(view, key, &ask.claim, (&taker, is_held), &mut || Call::give_fence(caller, namespace))
}

fn record_acquired(call: &mut Call<'_>, key: Key<'_>) {
    let now = call.present();
    let waited_us =
        waiter(&mut call.view, key, call.caller.info.id).map(|waiter| now.mono_us().saturating_sub(waiter.since_us));
    if let Some(staged) = &mut call.caller.staged {
        staged.tally.acquired += 1;
        return;
    }
    let locks = &call.namespace.observed.locks;
    locks.record_acquired(waited_us.unwrap_or_default());
    if let Some(waited_us) = waited_us {
        let lock = (call.caller.db, key.hash, key.bytes);
        locks.handovers.record(lock, RemoteClient::of(&call.caller.info), waited_us, now);
    }
}

/// Queues for locks that others hold, or replies that they are taken.
fn wait(call: &mut Call<'_>, ask: &AcquireArgs<'_>) -> Result<()> {
    let locks = call.namespace.observed.locks.clone();
    let begins = ask.until_ms.is_some() && call.caller.staged.is_none() && !call.is_nested();
    // An engine queues the client first: its call is then retried on the mirror, to examine it.
    let begins = begins && call.is_retry() == call.namespace.engine().is_some();
    let check = if begins { deadlock::check(call, ask) } else { DeadlockCheck::Waits };
    if let DeadlockCheck::Unknown = check {
        call.retry_exclusive();
        return Ok(());
    }
    let is_retry = call.is_retry();
    match &mut call.caller.staged {
        Some(staged) => staged.tally.contended += 1,
        None if !is_retry => _ = locks.contended.fetch_add(1, Relaxed),
        None => {}
    }
    if let DeadlockCheck::Deadlock(cycle) = check {
        locks.deadlocks.fetch_add(1, Relaxed);
        return Err(Error::Deadlock(cycle));
    }
    let now = call.namespace.clock.now();
    if let Some(staged) = &mut call.caller.staged {
        staged.demand = Some(LockDemand {
            token: ask.claim.token.into(),
            mode: ask.claim.mode,
            ttl_ms: ask.claim.deadline.map_or(0, |deadline| deadline.remaining_ms(now).max(1).unsigned_abs()),
            is_session: ask.claim.is_session,
            is_announced: ask.claim.is_announced,
            meta: ask.claim.meta.map(Into::into),
        });
    }
    let mode = ask.claim.mode;
    match ask.until_ms {
        None => reply_null(&mut call.reply, mode),
        Some(until_ms) => {
            let kept = ask.kept.as_ref().filter(|kept| call.namespace.lock_holders.claim_slot(kept));
            let number = kept.map_or(0, |kept| kept.number);
            let (token, since_us, is_session) = (ask.claim.token_hash, now.mono_us(), ask.claim.is_session);
            let place = QueuePlace { number, mode, token, since_us, is_session };
            call.block_in_queue(place, until_ms, move |reply: &mut Reply<'_>| {
                locks.timed_out.fetch_add(1, Relaxed);
                reply_null(reply, mode);
            });
        }
    }
    Ok(())
}

fn reply_null(reply: &mut Reply<'_>, mode: LockMode) {
    match mode {
        LockMode::Several => reply.null_array(),
        _ => reply.null(),
    }
}
