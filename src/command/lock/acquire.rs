//! LOCK.ACQUIRE and LOCK.ACQUIREMULTI: acquiring and extending locks, and queueing for them.

use std::sync::atomic::Ordering::Relaxed;

use crate::client::caller::Caller;
use crate::client::info::RemoteClient;
use crate::client::registry::QueuePlace;
use crate::client::staged::LockDemand;
use crate::command::lock::args::{AcquireArgs, has_permits};
use crate::command::lock::deadlock::{self, DeadlockCheck};
use crate::command::lock::replicated::reply_when_acknowledged;
use crate::command::string::{SET, SET_EX};
use crate::command::ttl::EXPIRE;
use crate::dispatch::Call;
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::store::{
    HoldGuard, Holder, Holders, Key, LockMode, LockRecord, LockWaiter, Lookup, NEVER, Sharing, Str, Ttl, first_of,
};

/// The state of a lock for the client that asks for it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Availability {
    /// The client can have the lock.
    Free,
    /// The client holds the lock, by its token.
    Held,
    /// The client has to wait for the lock.
    Taken,
}

pub(super) fn acquire(call: &mut Call<'_>) -> Result<()> {
    let mut ask = AcquireArgs::for_one(call)?;
    let key = ask.keys[0];
    if availability(call, key, &mut ask)? == Availability::Taken {
        wait(call, &ask)?;
        let Some(replicas) = ask.replicas else { return Ok(()) };
        let Some(queued) = call.take_rest() else { return Ok(()) };
        return reply_when_acknowledged(call, (key, ask.token), (replicas, ask.until_ms), Some(queued));
    }
    leave_kept_place(call, &ask);
    let fence = take(call, key, &ask);
    // A call that was blocked is retried by another task: the client's own task then waits for the replicas.
    if let Some(replicas) = ask.replicas.filter(|_| !call.is_retry()) {
        return reply_when_acknowledged(call, (key, ask.token), (replicas, ask.until_ms), None);
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
    if is_any_taken {
        return wait(call, &ask);
    }
    leave_kept_place(call, &ask);
    let fences: Vec<i64> = keys.iter().map(|key| take(call, *key, &ask)).collect();
    call.reply.array(fences.len());
    fences.into_iter().for_each(|fence| call.reply.int(fence));
    Ok(())
}

/// Returns the state of a lock for the caller. A request for permits without the semaphore's size gets the size filled
/// in.
///
/// # Errors
/// The key is not a lock, the caller holds it in another mode, or asks for more than the semaphore has.
fn availability(call: &mut Call<'_>, key: Key<'_>, ask: &mut AcquireArgs<'_>) -> Result<Availability> {
    let is_turn = is_turn(call, key, ask);
    let is_retry = call.is_retry();
    let free = |fits: bool| if fits && is_turn { Availability::Free } else { Availability::Taken };
    // The holders come first: the look-up ends expired ones, and the last of these takes the key along.
    if let Some(holders) = call.view.locks().holders(key) {
        let held = holders.find(ask.token_hash, ask.token).and_then(|number| holders.get(number));
        let sharing = holders.sharing();
        return match (sharing, &mut ask.mode) {
            (Sharing::Readers { .. }, LockMode::Shared) if held.is_some() => Ok(Availability::Held),
            (Sharing::Permits { .. }, LockMode::Permits { count, .. })
                if held.is_some_and(|held| held.permits == *count) =>
            {
                Ok(Availability::Held)
            }
            _ if held.is_some() => Err(in_another_mode()),
            (Sharing::Readers { .. }, LockMode::Shared) => Ok(free(true)),
            (Sharing::Permits { size: present }, LockMode::Permits { count, size }) => {
                if *count > present || *size != 0 && *size != present && !is_retry {
                    return Err(has_permits(present));
                }
                *size = present;
                let has_room = holders.permits().is_some_and(|(_, free)| free >= *count);
                Ok(free(has_room))
            }
            (_, LockMode::Permits { size: 0, .. }) => Err(needs_size()),
            _ => Ok(Availability::Taken),
        };
    }
    let is_token = call.view.get::<Str>(key, Lookup::WRITE)?.map(|text| *text.as_slice() == *ask.token);
    if is_token == Some(true) {
        return match ask.mode {
            LockMode::Exclusive | LockMode::Several => Ok(Availability::Held),
            LockMode::Shared | LockMode::Permits { .. } => Err(in_another_mode()),
        };
    }
    if let LockMode::Permits { size: size @ 0, .. } = &mut ask.mode {
        // The size was known when the caller began to wait.
        *size = waiter(call, key).and_then(|waiter| waiter.mode.size()).ok_or_else(needs_size)?;
    }
    Ok(free(is_token.is_none()))
}

fn in_another_mode() -> Error {
    Error::other("token holds this lock in another mode")
}

fn needs_size() -> Error {
    Error::other("PERMITS needs OF where there is no semaphore")
}

/// Returns the caller's own place in the queue for a lock.
fn waiter(call: &mut Call<'_>, key: Key<'_>) -> Option<LockWaiter> {
    let client = call.caller.info.id;
    call.view.locks().queue(key)?.iter().find(|waiter| waiter.client == client).copied()
}

/// Returns true if no client is queued for a lock before the caller.
fn is_turn(call: &mut Call<'_>, key: Key<'_>, ask: &AcquireArgs<'_>) -> bool {
    let client = call.caller.info.id;
    let first = call.view.locks().queue(key).and_then(first_of);
    let kept = ask.kept.as_ref().map_or(u64::MAX, |kept| kept.number);
    first.is_none_or(|first| first.client == client || kept < first.number)
}

/// Leaves the reserved place of the caller, who has acquired the locks.
fn leave_kept_place(call: &mut Call<'_>, ask: &AcquireArgs<'_>) {
    let kept = ask.kept.as_ref().filter(|kept| call.namespace.lock_holders.claim_slot(kept));
    let Some(kept) = kept else { return };
    ask.keys.iter().for_each(|key| call.view.locks().leave_queue(*key, kept.number));
}

/// Acquires a free lock, or extends a held one; returns its fencing token.
fn take(call: &mut Call<'_>, key: Key<'_>, ask: &AcquireArgs<'_>) -> i64 {
    let is_held = match call.view.locks().holders(key) {
        Some(holders) => holders.find(ask.token_hash, ask.token).is_some(),
        None => call.view.exists(key),
    };
    if !is_held {
        record_acquired(call, key);
    }
    match ask.mode {
        LockMode::Exclusive | LockMode::Several => take_alone(call, key, ask, is_held),
        LockMode::Shared | LockMode::Permits { .. } => take_with_others(call, key, ask, is_held),
    }
}

fn record_acquired(call: &mut Call<'_>, key: Key<'_>) {
    let now = call.present();
    let waited_us = waiter(call, key).map(|waiter| now.mono_us().saturating_sub(waiter.since_us));
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

fn take_alone(call: &mut Call<'_>, key: Key<'_>, ask: &AcquireArgs<'_>, is_held: bool) -> i64 {
    if !is_held {
        let (ttl, event) = ask.deadline.map_or((Ttl::Clear, SET), |deadline| (Ttl::At(deadline), SET_EX));
        call.view.set(key, ask.token, ttl, event);
    } else if ask.deadline.is_some() {
        call.view.set_deadline(key, ask.deadline, EXPIRE);
    }
    record(call, key, ask.token, |record, caller| hold(record, caller, key, ask))
}

/// Changes the record of a lock, creating it if necessary; returns its fencing token.
pub(super) fn record(
    call: &mut Call<'_>,
    key: Key<'_>,
    token: &[u8],
    change: impl FnOnce(&mut LockRecord, &Caller),
) -> i64 {
    let fence = if call.view.locks().record(key).is_none() { call.give_fence() } else { 0 };
    let since_us = call.present().mono_us().cast_signed();
    let caller = &*call.caller;
    call.view.locks().change(key, |record| {
        let record = record.get_or_insert_with(|| new_record(token, fence, since_us));
        change(record, caller);
        record.fence
    })
}

fn new_record(token: &[u8], fence: i64, since_us: i64) -> LockRecord {
    LockRecord { token: token.into(), fence, since_us, hold: None, session: None, is_announced: false, meta: None }
}

/// Makes the caller the holder of a lock.
fn hold(record: &mut LockRecord, holder: &Caller, key: Key<'_>, ask: &AcquireArgs<'_>) {
    if record.hold.as_ref().is_none_or(|hold| hold.holder().id() != holder.info.id) {
        record.hold = Some(HoldGuard::new(holder.as_lock_holder(), ask.token_hash));
    }
    record.is_announced |= ask.is_announced;
    if let Some(meta) = ask.meta {
        record.meta = Some(meta.into());
    }
    if ask.is_session {
        record.set_session(holder.as_lock_holder(), (holder.db, key.bytes));
    }
}

/// Acquires a shared lock or permits, or extends them; returns the fencing token.
fn take_with_others(call: &mut Call<'_>, key: Key<'_>, ask: &AcquireArgs<'_>, is_held: bool) -> i64 {
    let until_ms = ask.held_until_ms(call);
    if is_held {
        return keep_with_others(call, key, ask, until_ms);
    }
    let (permits, size) = match ask.mode {
        LockMode::Permits { count, size } => (count, Some(size)),
        _ => (0, None),
    };
    let period = call.view.locks().holders(key).map(Holders::sharing);
    let fence = match period {
        Some(Sharing::Readers { fence }) => fence,
        _ => call.give_fence(),
    };
    let since_us = call.present().mono_us().cast_signed();
    let sharing = size.map_or(Sharing::Readers { fence }, |size| Sharing::Permits { size });
    if period.is_none() {
        let (ttl, event) = ask.deadline.map_or((Ttl::Clear, SET), |deadline| (Ttl::At(deadline), SET_EX));
        call.view.set(key, &sharing.value(), ttl, event);
    }
    let mut record = new_record(ask.token, fence, since_us);
    hold(&mut record, call.caller, key, ask);
    let holder = Holder::new(record, ask.token_hash, permits, until_ms);
    call.view.locks().change_holders(key, |holders| {
        holders.get_or_insert_with(|| Box::new(Holders::new(sharing, since_us))).add(holder);
    });
    fence
}

/// Extends a shared lock or permits that are held with the same token; returns the fencing token.
fn keep_with_others(call: &mut Call<'_>, key: Key<'_>, ask: &AcquireArgs<'_>, until_ms: u64) -> i64 {
    let caller = &*call.caller;
    let fence = call.view.locks().change_holders(key, |holders| {
        let holders = holders.as_mut()?;
        let number = holders.find(ask.token_hash, ask.token)?;
        if until_ms != NEVER {
            holders.set_until(number, until_ms);
        }
        holders.change(number, |record| {
            hold(record, caller, key, ask);
            record.fence
        })
    });
    fence.unwrap_or_default() // the caller has checked that the holder exists
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
            token: ask.token.into(),
            ttl_ms: ask.deadline.map_or(0, |deadline| deadline.remaining_ms(now).max(1).unsigned_abs()),
            is_session: ask.is_session,
            is_announced: ask.is_announced,
            meta: ask.meta.map(Into::into),
        });
    }
    let mode = ask.mode;
    match ask.until_ms {
        None => reply_null(&mut call.reply, mode),
        Some(until_ms) => {
            let kept = ask.kept.as_ref().filter(|kept| call.namespace.lock_holders.claim_slot(kept));
            let number = kept.map_or(0, |kept| kept.number);
            let (token, since_us, is_session) = (ask.token_hash, now.mono_us(), ask.is_session);
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
