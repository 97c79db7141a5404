//! LOCK.INFO and LOCK.LIST: who holds a lock, since when, and who waits for it.

use std::any::Any;
use std::collections::VecDeque;

use crate::client::info::ClientInfo;
use crate::command::keys::scan::{COUNT_DEFAULT, parse_cursor, read_count};
use crate::command::lock::KEY;
use crate::command::lock::deadlock::{self, Link};
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::glob::Pattern;
use crate::resp::Reply;
use crate::spec::{ACCESS, EXCLUSIVE, Group, NO_ENGINE, READ, RO, integer, key, pattern, token};
use crate::store::{Hold, Key, LockRecord, LockWaiter, Lookup, Str};
use crate::time::clock::{Deadline, Now};

const LIST_COST: &str = "O(1) for every call, and O(N) for a complete iteration, where N is the number of locks.";

/// The commands of this file.
#[rustfmt::skip] // every row has its name, its arguments and its docs on lines of their own
pub(crate) const COMMANDS: &[Command] = &[
    // A cycle of clients that wait for each other leads through any keys.
    Command::new("LOCK.INFO", info, READ | EXCLUSIVE | NO_ENGINE, Group::Lock)
        .args(&[key("key", RO | ACCESS).about(KEY)])
        .tips(&["nondeterministic_output"])
        .docs("0.1.0", "O(N) where N is the number of clients queued.", "Describes a lock: its holder, and the clients queued for it."),
    Command::new("LOCK.LIST", list, READ | NO_ENGINE, Group::Lock)
        .args(&[
            integer("cursor").about("0 at first, then what the last reply begins with, until that is 0."),
            pattern("pattern").token("MATCH").optional().about("Only locks whose keys match."),
            integer("count").token("COUNT").optional().about("How many locks to look at, about; 10 without it."),
            token("waiting", "WAITING").optional().about("Only locks that clients are queued for."),
        ])
        .tips(&["nondeterministic_output"])
        .docs("0.1.0", LIST_COST, "Iterates over the locks that are held through LOCK commands."),
];

/// The client that holds a lock.
pub(super) fn client_of(hold: &Hold) -> Option<&ClientInfo> {
    (hold.holder() as &dyn Any).downcast_ref()
}

/// What LOCK.INFO says of a lock.
struct Description {
    token: Vec<u8>,
    pttl_ms: i64,
    /// Fence, age, and whether the lock is released when its holder's connection closes.
    record: Option<(i64, u64, bool)>,
    holder: Option<Holder>,
    meta: Option<Vec<u8>>,
    line: Vec<LockWaiter>,
}

/// The holder of a lock.
struct Holder {
    id: u64,
    addr: String,
    name: String,
    lib: String,
    user: Vec<u8>,
}

impl Holder {
    fn new(client: &ClientInfo) -> Self {
        let names = client.names();
        Holder {
            id: client.id,
            addr: client.peer.addr.clone(),
            name: names.name,
            lib: names.lib_name,
            user: client.user().map_or_else(Vec::new, |user| user.to_vec()),
        }
    }
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
            holder: record.and_then(|record| client_of(record.hold.as_ref()?)).map(Holder::new),
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
    let reply = &mut call.reply;
    reply.map(13);
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
        call.reply.int(link.client as i64);
    }
}

fn reply_some<T>(reply: &mut Reply<'_>, value: Option<T>, write: impl FnOnce(&mut Reply<'_>, T)) {
    match value {
        Some(value) => write(reply, value),
        None => reply.null(),
    }
}

/// Replies with the clients queued for a lock.
fn reply_queue(call: &mut Call<'_>, queue: &[LockWaiter]) {
    let now = call.now();
    call.reply.array(queue.len());
    for waiter in queue {
        let client = call.namespace.clients.find(waiter.client);
        call.reply.map(4);
        call.reply.bulk(b"client-id");
        call.reply.int(waiter.client as i64);
        call.reply.bulk(b"addr");
        reply_some(&mut call.reply, client.as_ref(), |reply, client| reply.bulk(client.peer.addr.as_bytes()));
        call.reply.bulk(b"client-name");
        reply_some(&mut call.reply, client.as_ref(), |reply, client| reply.bulk(client.names().name.as_bytes()));
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
    client_name: Option<String>,
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
    locks.iter().for_each(|lock| reply_listed(&mut call.reply, lock));
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
        client_name: record.hold.as_ref().and_then(client_of).map(|client| client.names().name),
    }
}

fn reply_listed(reply: &mut Reply<'_>, lock: &Listed) {
    reply.map(6);
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
    reply_some(reply, lock.client_name.as_ref(), |reply, name| reply.bulk(name.as_bytes()));
}
