//! LOCK.INFO and LOCK.LIST: who holds a lock, since when, and who waits for it.

use std::collections::VecDeque;

use crate::client::engine::Engine;
use crate::client::info::ClientCopy;
use crate::command::keys::scan::{COUNT_DEFAULT, parse_cursor, read_count};
use crate::command::lock::KEY;
use crate::command::lock::deadlock::{self, Link};
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::glob::Pattern;
use crate::resp::Reply;
use crate::spec::{ACCESS, EXCLUSIVE, Group, READ, RO, integer, key, pattern, token};
use crate::store::{Key, LockRecord, LockWaiter, Lookup, Str};
use crate::time::clock::{Deadline, Now};

const LIST_COST: &str = "O(1) for every call, and O(N) for a complete iteration, where N is the number of locks.";

/// The commands of this file.
#[rustfmt::skip] // every row has its name, its arguments and its docs on lines of their own
pub(crate) const COMMANDS: &[Command] = &[
    // A cycle of clients that wait for each other leads through any keys.
    Command::new("LOCK.INFO", info, READ | EXCLUSIVE, Group::Lock)
        .args(&[key("key", RO | ACCESS).about(KEY)])
        .tips(&["nondeterministic_output"])
        .docs("0.1.0", "O(N) where N is the number of clients queued.", "Describes a lock: its holder, and the clients queued for it."),
    Command::new("LOCK.LIST", list, READ, Group::Lock)
        .args(&[
            integer("cursor").about("0 at first, then what the last reply begins with, until that is 0."),
            pattern("pattern").token("MATCH").optional().about("Only locks whose keys match."),
            integer("count").token("COUNT").optional().about("How many locks to look at, about; 10 without it."),
            token("waiting", "WAITING").optional().about("Only locks that clients are queued for."),
        ])
        .tips(&["nondeterministic_output"])
        .docs("0.1.0", LIST_COST, "Iterates over the locks that are held through LOCK commands."),
];

/// What LOCK.INFO says of a lock.
struct Description {
    token: Vec<u8>,
    pttl_ms: i64,
    /// Fence, age, and whether the lock is released when its holder's connection closes.
    record: Option<(i64, u64, bool)>,
    holder: Option<ClientCopy>,
    meta: Option<Vec<u8>>,
    line: Vec<LockWaiter>,
}

impl Description {
    fn of(call: &mut Call<'_>, key: Key<'_>) -> Result<Option<Self>> {
        let Some(text) = call.view.get::<Str>(key, Lookup::READ)? else { return Ok(None) };
        let (token, now) = (text.as_slice().to_vec(), call.now());
        let deadline = call.view.deadline(key).flatten();
        let line = call.view.locks().queue(key).map_or_else(Vec::new, |line| line.iter().copied().collect());
        let record = call.view.locks().record(key);
        Ok(Some(Description {
            token,
            pttl_ms: pttl_ms(deadline, now),
            record: record.map(|record| (record.fence, age_ms(record, now), record.session.is_some())),
            holder: record.and_then(|record| ClientCopy::of_holder(record.hold.as_ref()?.holder())),
            meta: record.and_then(|record| Some(record.meta.as_ref()?.to_vec())),
            line,
        }))
    }
}

pub(super) fn pttl_ms(deadline: Option<Deadline>, now: Now) -> i64 {
    deadline.map_or(-1, |deadline| deadline.remaining_ms(now))
}

pub(super) fn age_ms(record: &LockRecord, now: Now) -> u64 {
    now.ms_since(record.since_us)
}

fn info(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let Some(lock) = Description::of(call, key)? else {
        call.reply.null_array();
        return Ok(());
    };
    let cycle = deadlock::cycle_from(call, (call.caller.db, key.bytes.into()));
    let engine = call.namespace.engine();
    let reply = &mut call.reply;
    reply.map(13 + usize::from(engine.is_some()));
    reply.bulk(b"token");
    reply.bulk(&lock.token);
    reply.bulk(b"fence");
    reply_some(reply, lock.record, |reply, (fence, ..)| reply.int(fence));
    reply.bulk(b"pttl");
    reply.int(lock.pttl_ms);
    reply.bulk(b"age-ms");
    reply_some(reply, lock.record, |reply, (_, age_ms, _)| reply.int(age_ms as i64));
    let holder = lock.holder.as_ref();
    reply.bulk(b"client-id");
    reply_some(reply, holder, |reply, holder| reply.int(holder.id as i64));
    if let Some(engine) = engine {
        reply.bulk(b"process");
        reply_some(reply, holder, |reply, holder| reply_process(reply, holder, engine));
    }
    reply.bulk(b"addr");
    reply_some(reply, holder, |reply, holder| reply.bulk(holder.addr.as_bytes()));
    reply.bulk(b"client-name");
    reply_some(reply, holder, |reply, holder| reply.bulk(holder.name.as_bytes()));
    reply.bulk(b"lib");
    reply_some(reply, holder, |reply, holder| reply.bulk(holder.lib.as_bytes()));
    reply.bulk(b"user");
    reply_some(reply, holder, |reply, holder| reply.bulk(&holder.user));
    reply.bulk(b"meta");
    reply_some(reply, lock.meta, |reply, meta| reply.bulk(&meta));
    reply.bulk(b"session");
    reply_some(reply, lock.record, |reply, (_, _, is_session)| reply.bool(is_session));
    reply.bulk(b"waiters");
    reply_queue(call, &lock.line);
    call.reply.bulk(b"deadlock");
    reply_cycle(call, cycle);
    Ok(())
}

/// Replies with the locks of a cycle, each with the client that holds it and waits for the next one.
fn reply_cycle(call: &mut Call<'_>, cycle: Option<Vec<Link>>) {
    let Some(cycle) = cycle else { return call.reply.null_array() };
    call.reply.array(cycle.len() * 2);
    for link in cycle {
        let shown: &[u8] = if call.caller.access.reads_key(&link.key) { &link.key } else { b"?" };
        call.reply.bulk(shown);
        let shown = call.namespace.clients.shown(link.client);
        call.reply.int(shown.map_or(link.client, |client| client.id) as i64);
    }
}

/// Replies with the process of a client.
fn reply_process(reply: &mut Reply<'_>, client: &ClientCopy, engine: &dyn Engine) {
    reply.bulk(format!("{:016x}", client.process.unwrap_or_else(|| engine.process())).as_bytes());
}

fn reply_some<T>(reply: &mut Reply<'_>, value: Option<T>, write: impl FnOnce(&mut Reply<'_>, T)) {
    match value {
        Some(value) => write(reply, value),
        None => reply.null(),
    }
}

/// Replies with the clients queued for a lock.
fn reply_queue(call: &mut Call<'_>, queue: &[LockWaiter]) {
    let (now, engine) = (call.now(), call.namespace.engine());
    call.reply.array(queue.len());
    for waiter in queue {
        let client = call.namespace.clients.shown(waiter.client);
        let client = client.as_ref();
        call.reply.map(4 + usize::from(engine.is_some()));
        call.reply.bulk(b"client-id");
        call.reply.int(client.map_or(waiter.client, |client| client.id) as i64);
        if let Some(engine) = engine {
            call.reply.bulk(b"process");
            reply_some(&mut call.reply, client, |reply, client| reply_process(reply, client, engine));
        }
        call.reply.bulk(b"addr");
        reply_some(&mut call.reply, client, |reply, client| reply.bulk(client.addr.as_bytes()));
        call.reply.bulk(b"client-name");
        reply_some(&mut call.reply, client, |reply, client| reply.bulk(client.name.as_bytes()));
        call.reply.bulk(b"waited-ms");
        call.reply.int(now.ms_since(waiter.since_us) as i64);
    }
}

/// A lock as LOCK.LIST shows it.
struct Listed {
    key: Vec<u8>,
    fence: i64,
    age_ms: u64,
    pttl_ms: i64,
    waiting: usize,
    holder: Option<ClientCopy>,
}

/// Options of LOCK.LIST.
struct Listing<'a> {
    pattern: Option<Pattern<&'a [u8]>>,
    count: usize,
    only_waiting: bool,
}

fn list(call: &mut Call<'_>) -> Result<()> {
    let cursor = parse_cursor(call.args.bytes()?).ok_or(Error::InvalidCursor)?;
    let mut listing = Listing { pattern: None, count: COUNT_DEFAULT, only_waiting: false };
    while let Some(word) = call.args.next_arg() {
        if is_word(word, "MATCH") {
            listing.pattern = Some(Pattern::new(call.args.bytes()?));
        } else if is_word(word, "COUNT") {
            listing.count = read_count(&mut call.args)?;
        } else if is_word(word, "WAITING") {
            listing.only_waiting = true;
        } else {
            return Err(Error::Syntax);
        }
    }
    let (next, locks) = collect(call, cursor, &listing);
    call.reply.array(2);
    call.reply.bulk(next.to_string().as_bytes());
    call.reply.array(locks.len());
    let engine = call.namespace.engine();
    locks.iter().for_each(|lock| reply_listed(&mut call.reply, lock, engine));
    Ok(())
}

/// Returns the next cursor, and the matching ones of as many locks from a cursor on as asked for.
fn collect(call: &mut Call<'_>, cursor: u64, listing: &Listing<'_>) -> (u64, Vec<Listed>) {
    let (now, mut seen, mut found) = (call.now(), 0, Vec::new());
    let (mut last, mut next) = (cursor, 0);
    call.view.locks().visit(cursor, |position, key, deadline, record, line| {
        // Those at the same position are one page: the next one begins at a greater position.
        if seen >= listing.count && position != last {
            next = position;
            return false;
        }
        (last, seen) = (position, seen + 1);
        let is_wanted = listing.pattern.as_ref().is_none_or(|pattern| pattern.matches(key.bytes))
            && (!line.is_empty() || !listing.only_waiting);
        if is_wanted {
            found.push(describe(key, deadline, record, line, now));
        }
        true
    });
    (next, found)
}

fn describe(
    key: Key<'_>,
    deadline: Option<Deadline>,
    record: &LockRecord,
    line: &VecDeque<LockWaiter>,
    now: Now,
) -> Listed {
    Listed {
        key: key.bytes.to_vec(),
        fence: record.fence,
        age_ms: age_ms(record, now),
        pttl_ms: pttl_ms(deadline, now),
        waiting: line.len(),
        holder: record.hold.as_ref().and_then(|hold| ClientCopy::of_holder(hold.holder())),
    }
}

fn reply_listed(reply: &mut Reply<'_>, lock: &Listed, engine: Option<&dyn Engine>) {
    reply.map(6 + usize::from(engine.is_some()));
    reply.bulk(b"key");
    reply.bulk(&lock.key);
    reply.bulk(b"fence");
    reply.int(lock.fence);
    reply.bulk(b"age-ms");
    reply.int(lock.age_ms as i64);
    reply.bulk(b"pttl");
    reply.int(lock.pttl_ms);
    reply.bulk(b"waiting");
    reply.int(lock.waiting as i64);
    reply.bulk(b"client-name");
    let holder = lock.holder.as_ref();
    reply_some(reply, holder, |reply, holder| reply.bulk(holder.name.as_bytes()));
    if let Some(engine) = engine {
        reply.bulk(b"process");
        reply_some(reply, holder, |reply, holder| reply_process(reply, holder, engine));
    }
}
