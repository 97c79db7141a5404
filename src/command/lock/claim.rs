//! The rules by which a lock is taken, apart from the call that asks for it: the claim of a queued client is decided by
//! them, too.

use std::sync::Arc;

use crate::command::string::{SET, SET_EX};
use crate::command::ttl::EXPIRE;
use crate::error::{Error, Result};
use crate::store::{
    HoldGuard, Holder, Holders, Key, LockHolder, LockMode, LockRecord, LockWaiter, Lookup, NEVER, Sharing, Str, Ttl,
    View, first_of,
};
use crate::time::clock::{Deadline, Now};

/// A claim to a lock, or to each of several.
pub(crate) struct LockClaim<'a> {
    pub(crate) token: &'a [u8],
    /// The hash of the token.
    pub(crate) token_hash: u64,
    /// The mode; the size of a semaphore is 0 if the client has not given it.
    pub(crate) mode: LockMode,
    pub(crate) deadline: Option<Deadline>,
    pub(crate) is_session: bool,
    pub(crate) is_announced: bool,
    pub(crate) meta: Option<&'a [u8]>,
}

/// The turn of a client that claims a lock.
#[derive(Clone, Copy)]
pub(crate) struct ClaimTurn {
    /// ID of the client.
    pub(crate) client: u64,
    /// Number of the place in the queue that was reserved for the client.
    pub(crate) kept: Option<u64>,
    /// True if the client was queued: the semaphore's size may be another one since.
    pub(crate) was_queued: bool,
}

/// A client that takes a lock.
pub(crate) struct LockTaker {
    pub(crate) client: Arc<dyn LockHolder>,
    /// Database of the lock.
    pub(crate) db: usize,
    /// Time from which the TTL counts.
    pub(crate) now: Now,
    /// Start of the hold, in monotonic microseconds.
    pub(crate) since_us: i64,
}

/// The state of a lock for the client that claims it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Availability {
    /// The client can have the lock.
    Free,
    /// The client holds the lock, by its token.
    Held,
    /// The client has to wait for the lock.
    Taken,
    /// The client does not hold the lock whose mode it wants to change.
    NotHeld,
}

/// Returns the state of a lock for a client. A claim to permits without the semaphore's size gets the size filled in.
///
/// # Errors
/// The key is not a lock, the client holds it in another mode, or asks for more than the semaphore has.
pub(crate) fn availability(
    view: &mut View<'_>,
    key: Key<'_>,
    claim: &mut LockClaim<'_>,
    turn: ClaimTurn,
) -> Result<Availability> {
    let is_turn = is_turn(view, key, turn);
    let free = |fits: bool| if fits && is_turn { Availability::Free } else { Availability::Taken };
    // The holders come first: the look-up ends expired ones, and the last of these takes the key along.
    if let Some(holders) = view.locks().holders(key) {
        let held = holders.find(claim.token_hash, claim.token).and_then(|number| holders.get(number));
        let sharing = holders.sharing();
        return match (sharing, &mut claim.mode) {
            (Sharing::Readers { .. }, LockMode::Shared | LockMode::Downgrade) if held.is_some() => {
                Ok(Availability::Held)
            }
            (Sharing::Readers { .. }, LockMode::Upgrade) if held.is_some() => {
                Ok(if holders.len() == 1 { Availability::Free } else { Availability::Taken })
            }
            (Sharing::Permits { .. }, LockMode::Permits { count, .. })
                if held.is_some_and(|held| held.permits == *count) =>
            {
                Ok(Availability::Held)
            }
            _ if held.is_some() => Err(in_another_mode()),
            (_, LockMode::Upgrade | LockMode::Downgrade) => Ok(Availability::NotHeld),
            (Sharing::Readers { .. }, LockMode::Shared) => Ok(free(true)),
            (Sharing::Permits { size: present }, LockMode::Permits { count, size }) => {
                if *count > present || *size != 0 && *size != present && !turn.was_queued {
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
    let is_token = view.get::<Str>(key, Lookup::WRITE)?.map(|text| *text.as_slice() == *claim.token);
    match claim.mode {
        LockMode::Exclusive | LockMode::Several | LockMode::Upgrade if is_token == Some(true) => {
            return Ok(Availability::Held);
        }
        LockMode::Downgrade if is_token == Some(true) => return Ok(Availability::Free),
        LockMode::Upgrade | LockMode::Downgrade => return Ok(Availability::NotHeld),
        _ if is_token == Some(true) => return Err(in_another_mode()),
        _ => {}
    }
    if let LockMode::Permits { size: size @ 0, .. } = &mut claim.mode {
        // The size was known when the client began to wait.
        *size = waiter(view, key, turn.client).and_then(|waiter| waiter.mode.size()).ok_or_else(needs_size)?;
    }
    Ok(free(is_token.is_none()))
}

fn in_another_mode() -> Error {
    Error::other("token holds this lock in another mode")
}

fn needs_size() -> Error {
    Error::other("PERMITS needs OF where there is no semaphore")
}

/// Returns the error of a client that asks for more than a semaphore of this size has.
pub(super) fn has_permits(size: u32) -> Error {
    Error::other(format!("the semaphore has {size} permits"))
}

/// Returns a client's own place in the queue for a lock.
pub(super) fn waiter(view: &mut View<'_>, key: Key<'_>, client: u64) -> Option<LockWaiter> {
    view.locks().queue(key)?.iter().find(|waiter| waiter.client == client).copied()
}

/// Returns true if no client is queued for a lock before this one.
fn is_turn(view: &mut View<'_>, key: Key<'_>, turn: ClaimTurn) -> bool {
    let first = view.locks().queue(key).and_then(first_of);
    let kept = turn.kept.unwrap_or(u64::MAX);
    first.is_none_or(|first| first.client == turn.client || kept < first.number && first.mode != LockMode::Upgrade)
}

/// Returns true if a lock is held, in the mode asked for, by the client that claims it, which can have it.
pub(crate) fn is_held(view: &mut View<'_>, key: Key<'_>, claim: &LockClaim<'_>) -> bool {
    match (view.locks().holders(key), claim.mode) {
        (Some(_), LockMode::Upgrade) | (None, LockMode::Downgrade) => false,
        (Some(holders), _) => holders.find(claim.token_hash, claim.token).is_some(),
        (None, _) => view.exists(key),
    }
}

/// Takes a free lock, or extends one that [is held](is_held); returns its fencing token.
pub(crate) fn take(
    view: &mut View<'_>,
    key: Key<'_>,
    claim: &LockClaim<'_>,
    (taker, is_held): (&LockTaker, bool),
    new_fence: &mut dyn FnMut() -> i64,
) -> i64 {
    match claim.mode {
        LockMode::Upgrade if !is_held => upgrade(view, key, claim, taker, new_fence),
        LockMode::Downgrade if !is_held => downgrade(view, key, claim, taker, new_fence),
        LockMode::Exclusive | LockMode::Several | LockMode::Upgrade => {
            if !is_held {
                set_key(view, key, claim.token, claim.deadline);
            } else if claim.deadline.is_some() {
                view.set_deadline(key, claim.deadline, EXPIRE);
            }
            record(view, key, (claim.token, taker.since_us), new_fence, |record| hold(record, taker, key, claim))
        }
        LockMode::Shared | LockMode::Permits { .. } | LockMode::Downgrade => {
            let until_ms = claim.deadline.map_or(NEVER, |deadline| deadline.mono_ms(taker.now));
            if is_held {
                extend_with_others(view, key, claim, (taker, until_ms))
            } else {
                take_with_others(view, key, claim, (taker, until_ms), new_fence)
            }
        }
    }
}

/// Makes the only one of several holders the holder of an exclusive lock; returns its new fencing token.
fn upgrade(
    view: &mut View<'_>,
    key: Key<'_>,
    claim: &LockClaim<'_>,
    taker: &LockTaker,
    new_fence: &mut dyn FnMut() -> i64,
) -> i64 {
    let fence = new_fence();
    let former = view.locks().end_shared(key).pop().map(|holder| holder.record);
    convert_key(view, key, claim.token, claim.deadline);
    let record = converted(former, fence, (taker, key), claim);
    view.locks().change(key, |lock| *lock = Some(record));
    fence
}

/// Makes the holder of an exclusive lock one that shares it; returns its new fencing token.
fn downgrade(
    view: &mut View<'_>,
    key: Key<'_>,
    claim: &LockClaim<'_>,
    taker: &LockTaker,
    new_fence: &mut dyn FnMut() -> i64,
) -> i64 {
    let fence = new_fence();
    let former = view.locks().end(key);
    let sharing = Sharing::Readers { fence };
    convert_key(view, key, &sharing.value(), claim.deadline);
    let until_ms = view.deadline(key).flatten().map_or(NEVER, |deadline| deadline.shown_mono_ms(taker.now));
    let record = converted(former, fence, (taker, key), claim);
    let mut holders = Box::new(Holders::new(sharing, record.since_us));
    holders.add(Holder::new(record, claim.token_hash, 0, until_ms));
    view.locks().change_holders(key, |known| *known = Some(holders));
    view.locks().mark_ready(key);
    fence
}

/// Sets the value of a lock's key whose holder stays; without another deadline the key keeps its own.
fn convert_key(view: &mut View<'_>, key: Key<'_>, value: &[u8], deadline: Option<Deadline>) {
    match deadline {
        Some(_) => set_key(view, key, value, deadline),
        None => view.set(key, value, Ttl::Keep, SET),
    }
}

/// Returns the record of a holder whose lock is another one from now on; `former` is its record, if it had one.
fn converted(
    former: Option<LockRecord>,
    fence: i64,
    (taker, key): (&LockTaker, Key<'_>),
    claim: &LockClaim<'_>,
) -> LockRecord {
    let mut record = former.unwrap_or_else(|| new_record(claim.token, fence, taker.since_us));
    record.fence = fence;
    if let Some(session) = record.session.take() {
        record.set_session(session, (taker.db, key.bytes)); // its end has unbound it
    }
    hold(&mut record, taker, key, claim);
    record
}

fn set_key(view: &mut View<'_>, key: Key<'_>, value: &[u8], deadline: Option<Deadline>) {
    let (ttl, event) = deadline.map_or((Ttl::Clear, SET), |deadline| (Ttl::At(deadline), SET_EX));
    view.set(key, value, ttl, event);
}

/// Changes the record of a lock that is held with a token, creating it if necessary; returns its fencing token.
pub(super) fn record(
    view: &mut View<'_>,
    key: Key<'_>,
    (token, since_us): (&[u8], i64),
    new_fence: &mut dyn FnMut() -> i64,
    change: impl FnOnce(&mut LockRecord),
) -> i64 {
    let fence = if view.locks().record(key).is_none() { new_fence() } else { 0 };
    view.locks().change(key, |record| {
        let record = record.get_or_insert_with(|| new_record(token, fence, since_us));
        change(record);
        record.fence
    })
}

fn new_record(token: &[u8], fence: i64, since_us: i64) -> LockRecord {
    LockRecord { token: token.into(), fence, since_us, hold: None, session: None, is_announced: false, meta: None }
}

/// Makes a client the holder of a lock.
fn hold(record: &mut LockRecord, taker: &LockTaker, key: Key<'_>, claim: &LockClaim<'_>) {
    if record.hold.as_ref().is_none_or(|hold| hold.holder().id() != taker.client.id()) {
        record.hold = Some(HoldGuard::new(taker.client.clone(), claim.token_hash));
    }
    record.is_announced |= claim.is_announced;
    if let Some(meta) = claim.meta {
        record.meta = Some(meta.into());
    }
    if claim.is_session {
        record.set_session(taker.client.clone(), (taker.db, key.bytes));
    }
}

/// Takes a shared lock or permits; returns the fencing token.
fn take_with_others(
    view: &mut View<'_>,
    key: Key<'_>,
    claim: &LockClaim<'_>,
    (taker, until_ms): (&LockTaker, u64),
    new_fence: &mut dyn FnMut() -> i64,
) -> i64 {
    let (permits, size) = match claim.mode {
        LockMode::Permits { count, size } => (count, Some(size)),
        _ => (0, None),
    };
    let period = view.locks().holders(key).map(Holders::sharing);
    let fence = match period {
        Some(Sharing::Readers { fence }) => fence,
        _ => new_fence(),
    };
    let sharing = size.map_or(Sharing::Readers { fence }, |size| Sharing::Permits { size });
    if period.is_none() {
        set_key(view, key, &sharing.value(), claim.deadline);
    }
    let mut record = new_record(claim.token, fence, taker.since_us);
    hold(&mut record, taker, key, claim);
    let holder = Holder::new(record, claim.token_hash, permits, until_ms);
    view.locks().change_holders(key, |holders| {
        holders.get_or_insert_with(|| Box::new(Holders::new(sharing, taker.since_us))).add(holder);
    });
    fence
}

/// Extends a shared lock or permits that are held with the same token; returns the fencing token.
fn extend_with_others(
    view: &mut View<'_>,
    key: Key<'_>,
    claim: &LockClaim<'_>,
    (taker, until_ms): (&LockTaker, u64),
) -> i64 {
    let fence = view.locks().change_holders(key, |holders| {
        let holders = holders.as_mut()?;
        let number = holders.find(claim.token_hash, claim.token)?;
        if until_ms != NEVER {
            holders.set_until(number, until_ms);
        }
        holders.change(number, |record| {
            hold(record, taker, key, claim);
            record.fence
        })
    });
    fence.unwrap_or_default() // the caller has checked that the holder exists
}
