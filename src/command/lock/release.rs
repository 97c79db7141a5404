//! Commands on a held lock: LOCK.RENEW, LOCK.RELEASE, LOCK.FENCE and LOCK.RESIZE.

use crate::command::lock::args::{read_deadline, read_permits};
use crate::command::lock::claim::record;
use crate::command::string::SET;
use crate::command::ttl::EXPIRE;
use crate::dispatch::Call;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::store::{Event, Key, LockRecord, Lookup, LossReason, Sharing, Str, is_shared_value};

/// The event of a semaphore that got another size.
const RESIZED: &Event = &SET.of_sidecar();

/// The form in which a client holds a lock.
enum HoldKind {
    Alone,
    /// With others; holds its number among the holders.
    WithOthers(u64),
}

/// Returns the form in which a lock is held with a token, if it is.
fn held(call: &mut Call<'_>, key: Key<'_>, token: &[u8]) -> Result<Option<HoldKind>> {
    let hash = call.namespace.store.hash(token);
    if let Some(holders) = call.view.locks().holders(key) {
        return Ok(holders.find(hash, token).map(HoldKind::WithOthers));
    }
    let is_token = call.view.get::<Str>(key, Lookup::WRITE)?.is_some_and(|text| *text.as_slice() == *token);
    Ok((is_token && !is_shared_value(token)).then_some(HoldKind::Alone))
}

pub(super) fn renew(call: &mut Call<'_>) -> Result<()> {
    let (key, token, word) = (call.args.key()?, call.args.bytes()?, call.args.bytes()?);
    if !is_word(word, "PX") {
        return Err(Error::Syntax);
    }
    let deadline = read_deadline(call)?;
    let until_ms = deadline.mono_ms(call.now());
    let held = held(call, key, token)?;
    if held.is_some() {
        call.caller.record_held(key, token);
    }
    let fence = match held {
        Some(HoldKind::Alone) => {
            call.view.set_deadline(key, Some(deadline), EXPIRE);
            Some(fence_of(call, key, token))
        }
        Some(HoldKind::WithOthers(number)) => call.view.locks().change_holders(key, |holders| {
            let holders = holders.as_mut()?;
            holders.set_until(number, until_ms);
            holders.get(number).map(|holder| holder.record.fence)
        }),
        None => None,
    };
    reply(call, fence);
    Ok(())
}

pub(super) fn release(call: &mut Call<'_>) -> Result<()> {
    let (key, token) = (call.args.key()?, call.args.bytes()?);
    let held = held(call, key, token)?;
    let is_held = held.is_some();
    match held {
        Some(HoldKind::Alone) => {
            if call.view.locks().record(key).is_some_and(|record| is_of_another(call.caller.info.id, record)) {
                call.view.locks().lose(key, LossReason::Released);
            } else if let Some(record) = call.view.locks().end(key) {
                record_ended(call, key, &record);
            }
            call.view.remove(key);
        }
        Some(HoldKind::WithOthers(number)) => {
            let client = call.caller.info.id;
            let holder = call.view.locks().holders(key).and_then(|holders| holders.get(number));
            let is_lost = holder.is_some_and(|holder| is_of_another(client, &holder.record));
            let ended = call.view.locks().end_holder(key, number, is_lost.then_some(LossReason::Released));
            if let Some(holder) = ended.filter(|_| !is_lost) {
                record_ended(call, key, &holder.record);
            }
        }
        None => {}
    }
    call.reply.int(i64::from(is_held));
    Ok(())
}

/// Returns true if another client is known to have acquired the lock.
fn is_of_another(client: u64, record: &LockRecord) -> bool {
    record.hold.as_ref().is_some_and(|hold| hold.holder().id() != client)
}

/// Records the duration of a lock that is released, and its last holder if other clients are queued.
fn record_ended(call: &mut Call<'_>, key: Key<'_>, record: &LockRecord) {
    let now_us = call.present().mono_us();
    let held_us = record.held_us(now_us);
    if let Some(staged) = &mut call.caller.staged {
        staged.tally.held_us.push(held_us);
        return;
    }
    let locks = &call.namespace.observed.locks;
    locks.record_ended(held_us);
    if call.namespace.store.has_lock_queues() && call.view.locks().queue(key).is_some() {
        locks.handovers.record_end((call.caller.db, key.hash), record, now_us);
    }
}

pub(super) fn fence(call: &mut Call<'_>) -> Result<()> {
    let (key, token) = (call.args.key()?, call.args.bytes()?);
    let fence = match held(call, key, token)? {
        Some(HoldKind::Alone) => Some(fence_of(call, key, token)),
        Some(HoldKind::WithOthers(number)) => {
            call.view.locks().holders(key).and_then(|holders| Some(holders.get(number)?.record.fence))
        }
        None => None,
    };
    reply(call, fence);
    Ok(())
}

pub(super) fn resize(call: &mut Call<'_>) -> Result<()> {
    let (key, size) = (call.args.key()?, read_permits(call)?);
    match call.view.locks().holders(key).map(|holders| holders.sharing()) {
        Some(Sharing::Permits { .. }) => {
            call.view.locks().resize(key, size, RESIZED);
            call.reply.int(1);
        }
        _ => {
            call.view.get::<Str>(key, Lookup::WRITE)?;
            call.reply.null();
        }
    }
    Ok(())
}

/// Returns the fencing token of an exclusive lock that is held with a token; one that was acquired by another command
/// gets one now.
fn fence_of(call: &mut Call<'_>, key: Key<'_>, token: &[u8]) -> i64 {
    let since_us = call.present().mono_us().cast_signed();
    let Call { view, caller, namespace, .. } = call;
    record(view, key, (token, since_us), &mut || Call::give_fence(caller, namespace), |_| {})
}

fn reply(call: &mut Call<'_>, fence: Option<i64>) {
    match fence {
        Some(fence) => call.reply_fence(fence),
        None => call.reply.null(),
    }
}
