//! `LOCK.*`: a lock in one command, and queueing for it.
//!
//! A lock is an ordinary string key whose value is its owner's token, so clients that use SET NX, scripts or these
//! commands exclude each other. What these add lies beside the key, see [`LockRecord`]: a fencing token, the holder, and
//! the clients queued. The first in the queue gets the lock in the critical section in which the key goes away, whatever
//! removes it: the key's change marks it as ready, and the end of the call, or the sweeper, executes the waiting call.

pub(crate) mod deadlock;
mod inspect;
#[cfg(feature = "metrics")]
pub(crate) mod overview;
mod replicated;

use std::sync::atomic::Ordering::Relaxed;

use crate::client::caller::Caller;
use crate::client::staged::LockDemand;
use crate::command::lock::deadlock::Prospect;
use crate::command::lock::replicated::{read_replicas, reply_when_acknowledged};
use crate::command::string::{SET, SET_EX};
use crate::command::timeout::read_timeout;
use crate::command::ttl::{Amount, EXPIRE, Unit};
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::spec::{
    ACCESS, BLOCKING, DELETE, DENY_OOM, Effect, FAST, Group, RO, RW, UPDATE, WRITE, integer, key, string, token,
};
use crate::store::{Hold, Key, LockRecord, Lookup, Loss, Str, Ttl};
use crate::time::clock::Deadline;

pub(crate) use inspect::COMMANDS as INSPECTION;

const ACQUIRE_COST: &str = "O(1), and O(N) for a client that leaves the queue, where N is the number of clients in it.";

/// What LOCK.* says of the arguments that several of its commands have.
const KEY: &str = "The lock, which is a string key.";
const TOKEN: &str = "The token that the lock was acquired with.";
const BLOCK: &str = "For how many milliseconds to stay queued, at most; 0 for no limit. Not at all without it.";
const REPLICAS: &str = "How many replicas must have the lock before the reply. If they do not acknowledge it within the \
timeout of BLOCK, without BLOCK within a second, the lock is released, and the reply is null.";

/// The commands of this file.
#[rustfmt::skip] // every row has its name, its arguments and its docs on lines of their own
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("LOCK.ACQUIRE", acquire, WRITE | DENY_OOM | BLOCKING, Group::Lock)
        .effect(Effect::Values)
        .args(&[
            key("key", RW | ACCESS | UPDATE).about(KEY),
            string("token").about("Says whose the lock is: a text of the holder's own, such as a random one."),
            integer("milliseconds").token("PX").optional().about("The TTL of the lock in milliseconds; needed without SESSION."),
            integer("timeout").token("BLOCK").optional().about(BLOCK),
            token("session", "SESSION").optional().about("Releases the lock when this connection closes, or by RESET."),
            token("notify", "NOTIFY").optional().about("Announces the loss of the lock."),
            string("text").token("META").optional().about("What the lock is for, shown by LOCK.INFO."),
            integer("numreplicas").token("REPLICAS").optional().about(REPLICAS),
        ])
        .docs("0.1.0", ACQUIRE_COST, "Acquires a lock, or queues for it, and returns its fencing token."),
    Command::new("LOCK.RENEW", renew, WRITE | FAST, Group::Lock)
        .effect(Effect::Deadlines)
        .args(&[
            key("key", RW | ACCESS | UPDATE).about(KEY),
            string("token").about(TOKEN),
            integer("milliseconds").token("PX").about("The new TTL in milliseconds, from now on."),
        ])
        .docs("0.1.0", "O(1)", "Sets the TTL of a lock that is held with a token."),
    Command::new("LOCK.RELEASE", release, WRITE | FAST, Group::Lock)
        .effect(Effect::Values)
        .args(&[key("key", RW | ACCESS | DELETE).about(KEY), string("token").about(TOKEN)])
        .docs("0.1.0", "O(1)", "Releases a lock that is held with a token: the first client in the queue gets it."),
    Command::new("LOCK.FENCE", fence, WRITE | FAST, Group::Lock)
        .effect(Effect::Values)
        .args(&[key("key", RO | ACCESS).about(KEY), string("token").about(TOKEN)])
        .docs("0.1.0", "O(1)", "Returns the fencing token of a lock that is held with a token."),
];

/// The options of LOCK.ACQUIRE.
#[derive(Default)]
struct Options<'a> {
    deadline: Option<Deadline>,
    /// Until when to wait, in monotonic milliseconds.
    until_ms: Option<u64>,
    is_session: bool,
    is_announced: bool,
    meta: Option<&'a [u8]>,
    /// How many replicas must have the lock before the reply; `None` if it waits for none.
    replicas: Option<usize>,
}

impl<'a> Options<'a> {
    fn read(call: &mut Call<'a>) -> Result<Self> {
        let mut options = Options::default();
        while let Some(word) = call.args.next_arg() {
            let is_repeated = if is_word(word, "PX") {
                options.deadline.replace(read_deadline(call)?).is_some()
            } else if is_word(word, "BLOCK") {
                options.until_ms.replace(read_timeout(call)?).is_some()
            } else if is_word(word, "SESSION") {
                std::mem::replace(&mut options.is_session, true)
            } else if is_word(word, "NOTIFY") {
                std::mem::replace(&mut options.is_announced, true)
            } else if is_word(word, "META") {
                options.meta.replace(call.args.bytes()?).is_some()
            } else if is_word(word, "REPLICAS") {
                options.replicas.replace(read_replicas(call)?).is_some()
            } else {
                return Err(Error::Syntax);
            };
            if is_repeated {
                return Err(Error::Syntax);
            }
        }
        options.replicas = options.replicas.filter(|replicas| *replicas > 0);
        match options.deadline.is_some() || options.is_session {
            true => Ok(options),
            false => Err(Error::other("LOCK.ACQUIRE needs PX or SESSION")),
        }
    }
}

/// Parses a TTL in milliseconds, which counts from now on.
fn read_deadline(call: &mut Call<'_>) -> Result<Deadline> {
    Amount { unit: Unit::Milliseconds, number: call.args.bytes()? }.deadline(call)
}

/// Who has a key that may be a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Nobody,
    /// The one with the token of the call.
    Caller,
    Another,
}

fn owner(call: &mut Call<'_>, key: Key<'_>, token: &[u8]) -> Result<Owner> {
    Ok(match call.view.get::<Str>(key, Lookup::WRITE)? {
        None => Owner::Nobody,
        Some(text) if *text.as_slice() == *token => Owner::Caller,
        Some(_) => Owner::Another,
    })
}

fn acquire(call: &mut Call<'_>) -> Result<()> {
    let (key, token) = (call.args.key()?, call.args.bytes()?);
    let options = Options::read(call)?;
    let fence = match owner(call, key, token)? {
        Owner::Nobody => take(call, key, token, &options),
        Owner::Caller => keep(call, key, token, &options),
        Owner::Another => {
            wait(call, key, token, &options)?;
            let Some(replicas) = options.replicas else { return Ok(()) };
            let Some(queued) = call.take_rest() else { return Ok(()) };
            return reply_when_acknowledged(call, (key, token), (replicas, options.until_ms), Some(queued));
        }
    };
    // A call that was blocked is made again by another task: the client's own one then waits for the replicas.
    if let Some(replicas) = options.replicas.filter(|_| !call.is_retry()) {
        return reply_when_acknowledged(call, (key, token), (replicas, options.until_ms), None);
    }
    call.reply_fence(fence);
    Ok(())
}

/// Takes a lock that is free; returns its fencing token.
fn take(call: &mut Call<'_>, key: Key<'_>, token: &[u8], options: &Options<'_>) -> i64 {
    let (ttl, event) = options.deadline.map_or((Ttl::Clear, SET), |deadline| (Ttl::At(deadline), SET_EX));
    call.view.set(key, token, ttl, event);
    let (client, now_us) = (call.caller.info.id, call.namespace.clock.now().mono_us());
    let in_line =
        call.view.locks().queue(key).and_then(|line| line.iter().find(|waiter| waiter.client == client).copied());
    let waited_us = in_line.map_or(0, |waiter| now_us.saturating_sub(waiter.since_us));
    match &mut call.caller.staged {
        Some(staged) => staged.tally.acquired += 1,
        None => call.namespace.observed.locks.record_acquired(waited_us),
    }
    record(call, key, token, |record, caller| hold(record, caller, key, options))
}

/// Acquires a lock again that is held with the same token; returns its fencing token.
fn keep(call: &mut Call<'_>, key: Key<'_>, token: &[u8], options: &Options<'_>) -> i64 {
    if options.deadline.is_some() {
        call.view.set_deadline(key, options.deadline, EXPIRE);
    }
    record(call, key, token, |record, caller| hold(record, caller, key, options))
}

/// Makes the caller the holder of a lock.
fn hold(record: &mut LockRecord, holder: &Caller, key: Key<'_>, options: &Options<'_>) {
    if record.hold.as_ref().is_none_or(|hold| hold.holder().id() != holder.info.id) {
        record.hold = Some(Hold::new(holder.as_lock_holder()));
    }
    record.is_announced |= options.is_announced;
    if let Some(meta) = options.meta {
        record.meta = Some(meta.into());
    }
    if options.is_session {
        if let Some(session) = record.session.take() {
            session.unbind_lock(holder.db, key.bytes);
        }
        let session = holder.as_lock_holder();
        session.bind_lock(holder.db, key.bytes);
        record.session = Some(session);
    }
}

/// Changes what is known of a lock, beginning to know it if necessary; returns its fencing token.
fn record(call: &mut Call<'_>, key: Key<'_>, token: &[u8], change: impl FnOnce(&mut LockRecord, &Caller)) -> i64 {
    let namespace = call.namespace;
    let fence = if call.view.locks().record(key).is_none() { call.give_fence() } else { 0 };
    let caller = &*call.caller;
    call.view.locks().change(key, |record| {
        let record = record.get_or_insert_with(|| LockRecord {
            token: token.into(),
            fence,
            since_us: namespace.clock.now().mono_us(),
            hold: None,
            session: None,
            is_announced: false,
            meta: None,
        });
        change(record, caller);
        record.fence
    })
}

/// Queues for a lock that another one holds, or gives up.
fn wait(call: &mut Call<'_>, key: Key<'_>, token: &[u8], options: &Options<'_>) -> Result<()> {
    let locks = call.namespace.observed.locks.clone();
    let begins = options.until_ms.is_some() && call.caller.staged.is_none() && !call.is_nested();
    // An engine queues the client first: its call is made again on the mirror then, to examine it.
    let begins = begins && call.is_retry() == call.namespace.engine().is_some();
    let prospect = if begins { deadlock::prospect(call, key, token) } else { Prospect::Waits };
    if let Prospect::Unknown = prospect {
        call.put_off();
        return Ok(());
    }
    let is_retry = call.is_retry();
    match &mut call.caller.staged {
        Some(staged) => staged.tally.contended += 1,
        None if !is_retry => _ = locks.contended.fetch_add(1, Relaxed),
        None => {}
    }
    if let Prospect::Deadlock(cycle) = prospect {
        locks.deadlocks.fetch_add(1, Relaxed);
        return Err(Error::Deadlock(cycle));
    }
    let now = call.now();
    if let Some(staged) = &mut call.caller.staged {
        staged.demand = Some(LockDemand {
            token: token.into(),
            ttl_ms: options.deadline.map_or(0, |deadline| deadline.remaining_ms(now).max(1).unsigned_abs()),
            is_session: options.is_session,
            is_announced: options.is_announced,
            meta: options.meta.map(Into::into),
        });
    }
    match options.until_ms {
        None => call.reply.null(),
        Some(until_ms) => call.block_in_queue(token, until_ms, move |reply: &mut Reply<'_>| {
            locks.timed_out.fetch_add(1, Relaxed);
            reply.null();
        }),
    }
    Ok(())
}

fn renew(call: &mut Call<'_>) -> Result<()> {
    let (key, token, word) = (call.args.key()?, call.args.bytes()?, call.args.bytes()?);
    if !is_word(word, "PX") {
        return Err(Error::Syntax);
    }
    let deadline = read_deadline(call)?;
    if owner(call, key, token)? != Owner::Caller {
        call.reply.null();
        return Ok(());
    }
    call.view.set_deadline(key, Some(deadline), EXPIRE);
    let fence = record(call, key, token, |_, _| {});
    call.reply_fence(fence);
    Ok(())
}

fn release(call: &mut Call<'_>) -> Result<()> {
    let (key, token) = (call.args.key()?, call.args.bytes()?);
    let is_held = owner(call, key, token)? == Owner::Caller;
    if is_held {
        let client = call.caller.info.id;
        let holder =
            call.view.locks().record(key).and_then(|record| record.hold.as_ref()).map(|hold| hold.holder().id());
        if holder.is_some_and(|holder| holder != client) {
            call.view.locks().lose(key, Loss::Released);
        } else if let Some(record) = call.view.locks().end(key) {
            let held_us = call.namespace.clock.now().mono_us().saturating_sub(record.since_us);
            match &mut call.caller.staged {
                Some(staged) => staged.tally.held_us.push(held_us),
                None => call.namespace.observed.locks.record_ended(held_us),
            }
        }
        call.view.remove(key);
    }
    call.reply.int(i64::from(is_held));
    Ok(())
}

fn fence(call: &mut Call<'_>) -> Result<()> {
    let (key, token) = (call.args.key()?, call.args.bytes()?);
    match owner(call, key, token)? {
        Owner::Caller => {
            let fence = record(call, key, token, |_, _| {});
            call.reply_fence(fence);
        }
        Owner::Nobody | Owner::Another => call.reply.null(),
    }
    Ok(())
}
