//! MULTI, EXEC, DISCARD, WATCH, UNWATCH: several commands executed as one.
//!
//! Queueing is done by `dispatch`; here a transaction is opened, executed or discarded. EXEC has locked all
//! keys of its commands, or the whole store, so no other client sees an intermediate state.

use smallvec::SmallVec;

use crate::client::session::Transaction;
use crate::command::condition::StringCondition;
use crate::command::topology::perform_postponed;
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call, Command};
use crate::error::{Error, Result};
use crate::resp::Request;
use crate::spec::marks::{DROPS_QUEUE, EXECUTES_QUEUE, NEEDS_FRESH_KEYS, OPENS_QUEUE};
use crate::spec::{
    ACCESS, ALLOW_BUSY, Arg, CommandSpec, EXCLUSIVE, FAST, Group, KeyFlags, LOADING, NO_QUEUE, NO_SCRIPT, RO, STALE,
    block, key, one_of, string,
};
use crate::store::{Lookup, Str};
use crate::text::Dialect;

pub(crate) const COMMANDS: &[Command] = &[
    Command::new("MULTI", multi, FLAGS | FAST | NO_QUEUE, Group::Transactions).marks(OPENS_QUEUE).docs(
        "1.2.0",
        "O(1)",
        "Starts a transaction: the following commands are queued until EXEC.",
    ),
    Command::new(
        "EXEC",
        exec,
        (FLAGS | NO_QUEUE | EXCLUSIVE | crate::spec::SKIP_SLOWLOG) & !ALLOW_BUSY,
        Group::Transactions,
    )
    .marks(EXECUTES_QUEUE)
    .args(&[PRECONDITIONS])
    .key_search(precondition_keys)
    .docs(
        "1.2.0",
        "Depends on commands in the transaction",
        "Executes the queued commands atomically, optionally only if conditions hold.",
    ),
    Command::new("DISCARD", discard, FLAGS | FAST | NO_QUEUE, Group::Transactions).marks(DROPS_QUEUE).docs(
        "2.0.0",
        "O(N), when N is the number of queued commands",
        "Discards the transaction and unwatches all keys.",
    ),
    Command::new("WATCH", watch, FLAGS | FAST | NO_QUEUE, Group::Transactions)
        .marks(NEEDS_FRESH_KEYS)
        .args(&[key("key", RO).multiple()])
        .docs("2.2.0", "O(1) for every key.", "Watches keys: the next EXEC does nothing if one of them has changed."),
    Command::new("UNWATCH", unwatch, FLAGS | FAST, Group::Transactions).docs(
        "2.2.0",
        "O(1)",
        "Unwatches all keys of the connection.",
    ),
];

/// The preconditions of EXEC, which are Valkey's.
const PRECONDITIONS: Arg = one_of(
    "condition",
    &[
        block("ifeq", &[key("key", RO | ACCESS), string("value")]).token("IFEQ"),
        block("ifne", &[key("key", RO | ACCESS), string("value")]).token("IFNE"),
        key("nx-key", RO).token("NX"),
        key("xx-key", RO).token("XX"),
    ],
)
.optional()
.multiple()
.since("9.2.0")
.valkey("9.2.0");

/// The number of queued commands from which they are freed on another thread.
const LONG_QUEUE_MIN: usize = 10_000;

const FLAGS: crate::spec::Flags = NO_SCRIPT | LOADING | STALE | ALLOW_BUSY;

fn multi(call: &mut Call<'_>) -> Result<()> {
    if call.session()?.transaction.is_some() {
        return Err(not_in_multi(call, Error::NestedMulti));
    }
    call.session()?.transaction = Some(Box::default());
    call.caller.info.set_queued(Some(0));
    call.reply.ok();
    Ok(())
}

/// Returns the error of MULTI or WATCH inside a transaction. In Valkey these commands must not be queued, so this
/// discards the transaction.
fn not_in_multi(call: &mut Call<'_>, error: Error) -> Error {
    match call.config.dialect() {
        Dialect::Redis => error,
        Dialect::Valkey => {
            if let Ok(session) = call.session() {
                session.fail_transaction();
            }
            Error::NotInMulti
        }
    }
}

fn exec(call: &mut Call<'_>) -> Result<()> {
    let transaction = call.session()?.transaction.take().ok_or(Error::WithoutMulti("EXEC"))?;
    call.caller.frozen_us = None;
    let result = carry_out(call, &transaction);
    free(call, transaction);
    call.caller.info.set_queued(None); // until now CLIENT LIST showed the client in a transaction
    result
}

fn carry_out(call: &mut Call<'_>, transaction: &Transaction) -> Result<()> {
    let untouched = watched_keys_are_untouched(call)?;
    call.stop_watching()?;
    let preconditions = read_preconditions(&mut call.args)?;
    if transaction.failed {
        return Err(Error::ExecAborted);
    }
    if !untouched || !are_met(call, &preconditions)? {
        call.reply.null_array();
        return Ok(());
    }
    // Delayed messages must not come behind the confirmation that none follows.
    let ends_pushes =
        |command: &CommandSpec| command.replies_with_pushes() || command.command.group == Group::Connection;
    call.take_pushed_first(transaction.queue.iter().any(|(command, _)| ends_pushes(command)));
    let (begin, mut postponed) = (call.reply.output().mark(), Vec::new());
    call.reply.array(transaction.queue.len());
    for (command, request) in &transaction.queue {
        let request = request.as_request();
        // A client that has deleted its own user gets no more replies, as in Redis.
        let silenced = call.caller.closing.then(|| call.reply.mark());
        if let Some(operation) = call.execute_queued(command, request) {
            postponed.push((call.reply.output().mark(), operation));
        }
        if let Some(mark) = silenced {
            call.reply.rollback(mark);
        }
    }
    if postponed.is_empty() { Ok(()) } else { perform_postponed(call, begin, postponed) }
}

/// A precondition of EXEC on one key.
enum Precondition<'a> {
    /// Existence (XX, true) or absence (NX, false) of the key.
    Exists(bool),
    /// A condition on the key's string.
    Matches(StringCondition<'a>),
}

/// The preconditions of an EXEC, each after the position of its key in the request.
type Preconditions<'a> = SmallVec<[(usize, Precondition<'a>); 2]>;

/// Parses the preconditions of EXEC to the end of the request.
fn read_preconditions<'a>(args: &mut Args<'a>) -> Result<Preconditions<'a>> {
    parse_preconditions(args.request()).ok_or_else(|| Error::ExecRefused(b"invalid check condition syntax".to_vec()))
}

fn parse_preconditions(request: Request<'_>) -> Option<Preconditions<'_>> {
    let mut found = Preconditions::new();
    let mut at = 1;
    while at < request.len() {
        let word = request.arg(at);
        let exists = if is_word(word, "NX") { Some(false) } else { is_word(word, "XX").then_some(true) };
        let (precondition, words) = match exists {
            Some(exists) => (Precondition::Exists(exists), 2),
            None if at + 2 < request.len() => {
                (Precondition::Matches(StringCondition::by_value(word, request.arg(at + 2))?), 3)
            }
            None => return None,
        };
        if at + 1 >= request.len() {
            return None;
        }
        found.push((at + 1, precondition));
        at += words;
    }
    Some(found)
}

/// Finds the keys that the preconditions of EXEC read. Without permission to read them, a client must not learn the
/// result.
fn precondition_keys(request: Request<'_>) -> Vec<(usize, KeyFlags)> {
    parse_preconditions(request).into_iter().flatten().map(|(position, _)| (position, RO | ACCESS)).collect()
}

fn are_met(call: &mut Call<'_>, preconditions: &[(usize, Precondition<'_>)]) -> Result<bool> {
    for (position, precondition) in preconditions {
        let key = call.namespace.store.key(call.args.request().arg(*position));
        let is_met = match precondition {
            Precondition::Exists(expected) => call.view.exists(key) == *expected,
            Precondition::Matches(condition) => match call.view.get::<Str>(key, Lookup::WRITE)? {
                Some(text) => condition.is_met_by(text.as_slice())?,
                None => condition.is_met_by_nothing(),
            },
        };
        if !is_met {
            return Ok(false);
        }
    }
    Ok(true)
}

fn discard(call: &mut Call<'_>) -> Result<()> {
    let transaction = call.session()?.transaction.take().ok_or(Error::WithoutMulti("DISCARD"))?;
    free(call, transaction);
    call.caller.info.set_queued(None);
    call.stop_watching()?;
    call.reply.ok();
    Ok(())
}

/// Frees a transaction: a long queue in the background.
fn free(call: &Call<'_>, transaction: Box<Transaction>) {
    if transaction.queue.len() >= LONG_QUEUE_MIN {
        call.namespace.store.reclaimer().free_later(transaction);
    }
}

fn watch(call: &mut Call<'_>) -> Result<()> {
    if call.session()?.transaction.is_some() {
        return Err(not_in_multi(call, Error::WatchInsideMulti));
    }
    while call.args.left() > 0 {
        let key = call.args.key()?;
        let watched = (call.caller.db, Box::from(key.bytes));
        let watch = &mut call.session()?.watch;
        if watch.keys.insert(watched, ()).is_none() {
            let flag = watch.flag.clone();
            call.view.waiting().watch(key, &flag);
            call.caller.info.buffers.add_kept_len(key.bytes.len() as isize);
        }
    }
    let watched = call.session()?.watch.keys.len();
    call.caller.info.session.set_watched(watched);
    call.reply.ok();
    Ok(())
}

fn unwatch(call: &mut Call<'_>) -> Result<()> {
    call.stop_watching()?;
    call.reply.ok();
    Ok(())
}

/// Checks the flag of the watched keys, after expiring those whose TTL is over, which may raise it.
fn watched_keys_are_untouched(call: &mut Call<'_>) -> Result<bool> {
    let watch = std::mem::take(&mut call.session()?.watch);
    let cx = call.view.cx();
    for (db, key) in watch.keys.keys() {
        call.view.lend(*db, cx).exists(call.namespace.store.key(key));
    }
    let is_untouched = !watch.flag.is_raised();
    call.session()?.watch = watch;
    Ok(is_untouched)
}
