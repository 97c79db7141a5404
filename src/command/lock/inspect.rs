//! LOCK.INFO and LOCK.LIST: the holders of a lock, with times, and the clients that wait for it.

use crate::client::engine::Engine;
use crate::client::info::RemoteClient;
use crate::client::registry::Unblocked;
use crate::command::keys::scan::{COUNT_DEFAULT, FoundKeys, SLICE_STEPS, STEPS_PER_KEY, parse_cursor, read_count};
use crate::command::lock::KEY;
use crate::command::lock::deadlock::{self, CycleLink};
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command, Continuation, Env};
use crate::error::{Error, Result};
use crate::glob::Pattern;
use crate::resp::Reply;
use crate::spec::marks::READS_ANY_KEY;
use crate::spec::{ACCESS, EXCLUSIVE, Group, READ, RO, integer, key, pattern, token};
use crate::store::entry::Entry;
use crate::store::{HeldLock, Holder, Key, LockMode, LockRecord, LockWaiter, Lookup, SeenLock, Sharing, Str, View};
use crate::time::clock::{Deadline, Now};

const LIST_COST: &str = "O(1) for every call, and O(N) for a complete iteration, where N is the number of locks.";

#[rustfmt::skip] // every row has its name, its arguments and its docs on lines of their own
pub(crate) const COMMANDS: &[Command] = &[
    // A cycle of clients that wait for each other may lead through any keys.
    Command::new("LOCK.INFO", info, READ | EXCLUSIVE, Group::Lock)
        .marks(READS_ANY_KEY)
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

/// The description of a lock by LOCK.INFO.
struct Description {
    mode: &'static str,
    /// The key's value, if that is a token.
    token: Option<Vec<u8>>,
    fence: Option<i64>,
    /// The remaining TTL; `None` for a missing key.
    pttl_ms: Option<i64>,
    age_ms: Option<u64>,
    /// The permits of a semaphore: total and free.
    permits: Option<(u32, u32)>,
    holders: Vec<Holding>,
    queue: Vec<LockWaiter>,
}

/// The description of a holder by LOCK.INFO.
struct Holding {
    token: Vec<u8>,
    pttl_ms: i64,
    /// The permits held, of a semaphore.
    permits: Option<u32>,
    record: Option<HolderRecord>,
}

/// The record of a holder that has acquired the lock by LOCK.ACQUIRE, or was asked for its fence.
struct HolderRecord {
    fence: i64,
    age_ms: u64,
    client: Option<RemoteClient>,
    meta: Option<Vec<u8>>,
    /// True if the lock is released when the client's connection closes.
    is_session: bool,
}

impl HolderRecord {
    fn of(record: &LockRecord, now: Now) -> Self {
        HolderRecord {
            fence: record.fence,
            age_ms: age_ms(record, now),
            client: client_of(record),
            meta: record.meta.as_deref().map(<[u8]>::to_vec),
            is_session: record.session.is_some(),
        }
    }
}

impl Description {
    fn of(call: &mut Call<'_>, key: Key<'_>) -> Result<Option<Self>> {
        let now = call.now();
        let shared = call.view.locks().holders(key).map(|holders| {
            let holding = |(_, holder): (u64, &Holder)| Holding {
                token: holder.record.token.to_vec(),
                pttl_ms: pttl_ms(holder.deadline(), now),
                permits: holder.count(),
                record: Some(HolderRecord::of(&holder.record, now)),
            };
            (
                holders.sharing(),
                holders.permits(),
                holders.held_us(now.mono_us()) / 1000,
                holders.iter().map(holding).collect(),
            )
        });
        let value = call.view.get::<Str>(key, Lookup::READ)?.map(|text| text.as_slice().to_vec());
        let queue = call.view.locks().queue(key).map_or_else(Vec::new, |queue| queue.iter().copied().collect());
        if value.is_none() && queue.is_empty() {
            return Ok(None);
        }
        let pttl_ms = call.view.deadline(key).map(|deadline| pttl_ms(deadline, now));
        let mut description = Description {
            mode: "free",
            token: None,
            fence: None,
            pttl_ms,
            age_ms: None,
            permits: None,
            holders: Vec::new(),
            queue,
        };
        if let Some((sharing, permits, age_ms, holders)) = shared {
            let (mode, fence) = mode_of(sharing);
            description = Description { mode, fence, permits, age_ms: Some(age_ms), holders, ..description };
        } else if let Some(token) = value {
            let record = call.view.locks().record(key).map(|record| HolderRecord::of(record, now));
            let (fence, age_ms) =
                (record.as_ref().map(|record| record.fence), record.as_ref().map(|record| record.age_ms));
            let pttl_ms = pttl_ms.unwrap_or_default();
            let holders = vec![Holding { token: token.clone(), pttl_ms, permits: None, record }];
            description = Description { mode: "exclusive", token: Some(token), fence, age_ms, holders, ..description };
        }
        Ok(Some(description))
    }

    /// Returns the record of the only holder.
    fn only_record(&self) -> Option<&HolderRecord> {
        self.token.as_ref()?;
        self.holders.first()?.record.as_ref()
    }
}

/// Returns the client that has acquired a lock, if known, unless it is away: it may return as another client and keep
/// the lock.
pub(super) fn client_of(record: &LockRecord) -> Option<RemoteClient> {
    let is_away = record.session.as_ref().is_some_and(|session| session.is_gone());
    RemoteClient::of_holder(record.hold.as_ref().filter(|_| !is_away)?.holder())
}

pub(super) fn pttl_ms(deadline: Option<Deadline>, now: Now) -> i64 {
    deadline.map_or(-1, |deadline| deadline.remaining_ms(now))
}

pub(super) fn age_ms(record: &LockRecord, now: Now) -> u64 {
    record.held_us(now.mono_us()) / 1000
}

fn info(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let Some(lock) = Description::of(call, key)? else {
        call.reply.null_array();
        return Ok(());
    };
    let cycle = deadlock::cycle_from(call, (call.caller.db, key.bytes.into()));
    let engine = call.namespace.engine();
    let (reply, of_process) = (&mut call.reply, usize::from(engine.is_some()));
    reply.map(17 + of_process);
    reply.bulk(b"token");
    reply_some(reply, lock.token.as_ref(), |reply, token| reply.bulk(token));
    reply_numbers(reply, lock.fence, lock.pttl_ms, lock.age_ms);
    reply_holder(reply, lock.only_record(), engine);
    reply.bulk(b"mode");
    reply.bulk(lock.mode.as_bytes());
    reply.bulk(b"permits");
    reply_some(reply, lock.permits, |reply, (size, _)| reply.int(size.into()));
    reply.bulk(b"free");
    reply_some(reply, lock.permits, |reply, (_, free)| reply.int(free.into()));
    reply.bulk(b"holders");
    reply.array(lock.holders.len());
    for Holding { token, pttl_ms, permits, record } in &lock.holders {
        let record = record.as_ref();
        reply.map(12 + of_process);
        reply.bulk(b"token");
        reply.bulk(token);
        reply_numbers(reply, record.map(|record| record.fence), Some(*pttl_ms), record.map(|record| record.age_ms));
        reply_holder(reply, record, engine);
        reply.bulk(b"permits");
        reply_some(reply, *permits, |reply, permits| reply.int(permits.into()));
    }
    reply.bulk(b"waiters");
    reply_queue(call, &lock.queue);
    call.reply.bulk(b"deadlock");
    reply_cycle(call, cycle);
    Ok(())
}

fn reply_numbers(reply: &mut Reply<'_>, fence: Option<i64>, pttl_ms: Option<i64>, age_ms: Option<u64>) {
    reply.bulk(b"fence");
    reply_some(reply, fence, |reply, fence| reply.int(fence));
    reply.bulk(b"pttl");
    reply_some(reply, pttl_ms, |reply, pttl_ms| reply.int(pttl_ms));
    reply.bulk(b"age-ms");
    reply_some(reply, age_ms, |reply, age_ms| reply.int(age_ms as i64));
}

/// Replies with the client that holds a lock, the text of the lock, and the flag of a lock bound to the connection.
fn reply_holder(reply: &mut Reply<'_>, record: Option<&HolderRecord>, engine: Option<&dyn Engine>) {
    let client = record.and_then(|record| record.client.as_ref());
    reply.bulk(b"client-id");
    reply_some(reply, client, |reply, client| reply.int(client.id as i64));
    if let Some(engine) = engine {
        reply.bulk(b"process");
        reply_some(reply, client, |reply, client| reply_process(reply, client, engine));
    }
    reply.bulk(b"addr");
    reply_some(reply, client, |reply, client| reply.bulk(client.addr.as_bytes()));
    reply.bulk(b"client-name");
    reply_some(reply, client, |reply, client| reply.bulk(client.name.as_bytes()));
    reply.bulk(b"lib");
    reply_some(reply, client, |reply, client| reply.bulk(client.lib.as_bytes()));
    reply.bulk(b"user");
    reply_some(reply, client, |reply, client| reply.bulk(&client.user));
    reply.bulk(b"meta");
    reply_some(reply, record.and_then(|record| record.meta.as_ref()), |reply, meta| reply.bulk(meta));
    reply.bulk(b"session");
    reply_some(reply, record, |reply, record| reply.bool(record.is_session));
}

/// Replies with the locks of a cycle, each with the client that holds it and waits for the next one.
fn reply_cycle(call: &mut Call<'_>, cycle: Option<Vec<CycleLink>>) {
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
fn reply_process(reply: &mut Reply<'_>, client: &RemoteClient, engine: &dyn Engine) {
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
        call.reply.map(6 + usize::from(engine.is_some()));
        call.reply.bulk(b"client-id");
        let id = client.map(|client| client.id).or((!waiter.is_away).then_some(waiter.client));
        reply_some(&mut call.reply, id, |reply, id| reply.int(id as i64));
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
        call.reply.bulk(b"mode");
        call.reply.bulk(mode_word(waiter.mode).as_bytes());
        call.reply.bulk(b"permits");
        reply_some(&mut call.reply, waiter.mode.count(), |reply, permits| reply.int(permits.into()));
    }
}

/// Returns the name in LOCK.INFO of a mode of asking for a lock.
pub(super) fn mode_word(mode: LockMode) -> &'static str {
    match mode {
        LockMode::Exclusive | LockMode::Several => "exclusive",
        LockMode::Shared => "shared",
        LockMode::Permits { .. } => "permits",
        LockMode::Upgrade => "upgrade",
        LockMode::Downgrade => "downgrade",
    }
}

/// Returns the name in LOCK.INFO of a mode of sharing a lock, and the fencing token common to all holders.
fn mode_of(sharing: Sharing) -> (&'static str, Option<i64>) {
    match sharing {
        Sharing::Readers { fence } => ("shared", Some(fence)),
        Sharing::Permits { .. } => ("permits", None),
    }
}

/// A lock as LOCK.LIST and the metrics page show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedLock {
    pub(super) mode: &'static str,
    pub(super) fence: Option<i64>,
    /// The time for which the lock has been held by any holder, in milliseconds.
    pub(super) age_ms: Option<u64>,
    pub(super) pttl_ms: Option<i64>,
    pub(super) holders: usize,
    /// The permits of a semaphore: total and free.
    pub(super) permits: Option<(u32, u32)>,
}

impl ListedLock {
    /// Describes a lock; `None` for a lock without a record, which was taken by another command.
    pub(super) fn of(lock: &SeenLock<'_>, entry: Option<&Entry>, now: Now) -> Option<Self> {
        let pttl_ms = entry.map(|entry| pttl_ms(entry.deadline(), now));
        let (mode, fence, age_ms, holders, permits) = match lock.held {
            Some(HeldLock::Exclusive(record)) => ("exclusive", Some(record.fence), Some(age_ms(record, now)), 1, None),
            Some(HeldLock::Shared(holders)) => {
                let (mode, fence) = mode_of(holders.sharing());
                (mode, fence, Some(holders.held_us(now.mono_us()) / 1000), holders.len(), holders.permits())
            }
            None if entry.is_some() => return None,
            None => ("free", None, None, 0, None),
        };
        Some(ListedLock { mode, fence, age_ms, pttl_ms, holders, permits })
    }
}

/// A lock in the reply of LOCK.LIST.
struct Row<'k> {
    key: &'k [u8],
    listed: ListedLock,
    waiting: usize,
    /// The client that holds the lock alone.
    client: Option<RemoteClient>,
}

/// A walk over locks.
struct Listing {
    pattern: Option<Pattern<Box<[u8]>>>,
    only_waiting: bool,
    /// The number of locks, shown or not, that may still be visited.
    left: usize,
    /// The position to continue at.
    cursor: u64,
    found: FoundKeys,
}

fn list(call: &mut Call<'_>) -> Result<()> {
    let cursor = parse_cursor(call.args.bytes()?).ok_or(Error::InvalidCursor)?;
    let mut listing =
        Listing { pattern: None, only_waiting: false, left: COUNT_DEFAULT, cursor, found: FoundKeys::default() };
    while let Some(word) = call.args.next_arg() {
        if is_word(word, "MATCH") {
            listing.pattern = Some(Pattern::new(call.args.bytes()?.into()));
        } else if is_word(word, "COUNT") {
            listing.left = read_count(&mut call.args)?;
        } else if is_word(word, "WAITING") {
            listing.only_waiting = true;
        } else {
            return Err(Error::Syntax);
        }
    }
    call.run_incrementally(listing)
}

impl Continuation for Listing {
    fn step(&mut self, env: Env<'_>, view: &mut View<'_>, reply: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        let (now, engine, protocol) = (view.now(), env.namespace.engine(), reply.protocol());
        let (mut steps, mut last, mut next) = (SLICE_STEPS, self.cursor, 0);
        view.locks().visit(self.cursor, |position, lock, entry| {
            // Locks at the same position form one page: the next page begins at a greater position.
            if (self.left == 0 || steps == 0) && position != last {
                next = position;
                return false;
            }
            let key = lock.key.bytes;
            let (is_match, compared) = self.pattern.as_ref().map_or((true, 0), |pattern| pattern.matches_counted(key));
            steps = steps.saturating_sub(STEPS_PER_KEY + key.len() + compared);
            (last, self.left) = (position, self.left.saturating_sub(1));
            let is_wanted = is_match && (!lock.queue.is_empty() || !self.only_waiting);
            if let Some(listed) = ListedLock::of(lock, entry, now).filter(|_| is_wanted) {
                let record = if let Some(HeldLock::Exclusive(record)) = lock.held { Some(record) } else { None };
                let row = Row { key, listed, waiting: lock.queue.len(), client: record.and_then(client_of) };
                self.found.add(protocol, |reply| reply_listed(reply, &row, engine));
            }
            true
        });
        self.cursor = next;
        let is_over = next == 0 || self.left == 0;
        if is_over {
            reply.array(2);
            reply.bulk(next.to_string().as_bytes());
            self.found.write(reply);
        }
        Ok(is_over)
    }
}

fn reply_listed(reply: &mut Reply<'_>, row: &Row<'_>, engine: Option<&dyn Engine>) {
    let Row { key, listed, waiting, client } = row;
    let client = client.as_ref();
    reply.map(8 + usize::from(engine.is_some()));
    reply.bulk(b"key");
    reply.bulk(key);
    reply.bulk(b"fence");
    reply_some(reply, listed.fence, |reply, fence| reply.int(fence));
    reply.bulk(b"age-ms");
    reply_some(reply, listed.age_ms, |reply, age_ms| reply.int(age_ms as i64));
    reply.bulk(b"pttl");
    reply_some(reply, listed.pttl_ms, |reply, pttl_ms| reply.int(pttl_ms));
    reply.bulk(b"waiting");
    reply.int(*waiting as i64);
    reply.bulk(b"client-name");
    reply_some(reply, client, |reply, client| reply.bulk(client.name.as_bytes()));
    if let Some(engine) = engine {
        reply.bulk(b"process");
        reply_some(reply, client, |reply, client| reply_process(reply, client, engine));
    }
    reply.bulk(b"mode");
    reply.bulk(listed.mode.as_bytes());
    reply.bulk(b"holders");
    reply.int(listed.holders as i64);
}

/// Describes a lock, without the times at which it was acquired.
#[cfg(feature = "internals")]
pub(crate) fn describe(lock: HeldLock<'_>, now: Now) -> String {
    let of = |record: &LockRecord| format!("{} {} {:?}", record.token.escape_ascii(), record.fence, record.meta);
    match lock {
        HeldLock::Exclusive(record) => of(record),
        HeldLock::Shared(holders) => {
            let until =
                |until_ms: u64| (until_ms != crate::store::NEVER).then(|| Deadline::at_mono_ms(until_ms).wall_ms(now));
            let holder = |(_, holder): (u64, &Holder)| {
                format!("{} {} until {:?}", of(&holder.record), holder.permits, until(holder.until_ms))
            };
            format!("{:?} {:?}", holders.sharing(), holders.iter().map(holder).collect::<Vec<_>>())
        }
    }
}
