//! XREAD and XREADGROUP: entries that a client, or a group, has not read yet.
//!
//! A blocked call is retried with the IDs for which `$` stood when it blocked.

use std::ops::Bound::{Included, Unbounded};

use smallvec::SmallVec;

use crate::client::registry::AwaitedGroup;
use crate::command::stream::budget::Budget;
use crate::command::stream::{CONSUMER_CREATED, GroupLog, ids, no_group, reply_content, reply_entry, reply_id};
use crate::command::timeout::read_timeout;
use crate::dispatch::BlockedRetry;
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::profile::Version;
use crate::resp::{OwnedRequest, Protocol, Reply, Request, RequestBuffer, parse_int};
use crate::spec::{
    ACCESS, Arg, BLOCKING, Effect, Group as Family, KeyFlags, MOVABLE_KEYS, READ, RO, WRITE, block, integer, key,
    string, token,
};
use crate::store::value::DataType;
use crate::store::{BigStream, Event, Key, Lookup, NEVER, PendingEntry, Stream, StreamEntry, StreamId, WrongType};

const READ_COST: &str = "For each stream mentioned: O(N) with N being the number of elements being returned, it means \
that XREAD-ing with a fixed COUNT is O(1). Note that when the BLOCK option is used, XADD will pay O(M) time in order to \
serve the M clients blocked on the stream getting new data.";
const GROUP_COST: &str = "For each stream mentioned: O(M) with M being the number of elements returned. If M is constant \
(e.g. always asking for the first 10 elements with COUNT), you can consider it O(1). On the other side when XREADGROUP \
blocks, XADD will pay the O(N) time in order to serve the N clients blocked on the stream getting new data.";

const STREAMS: Arg = block("streams", &[key("key", RO | ACCESS).multiple(), string("id").multiple()]).token("STREAMS");

const COUNT: Arg = integer("count").token("COUNT").optional();
const MAX_COUNT: Arg = integer("maxcount").token("MAXCOUNT").optional().since("8.10.0");
const MAX_SIZE: Arg = integer("maxsize").token("MAXSIZE").optional().since("8.10.0");
const BLOCK: Arg = integer("milliseconds").token("BLOCK").optional();

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("XREAD", xread, READ | BLOCKING | MOVABLE_KEYS, Family::Stream)
        .args(&[COUNT, MAX_COUNT, MAX_SIZE, BLOCK, STREAMS])
        .key_search(keys)
        .docs("5.0.0", READ_COST, "Returns entries with larger IDs than given ones, or waits for some."),
    Command::new("XREADGROUP", xreadgroup, WRITE | BLOCKING | MOVABLE_KEYS, Family::Stream)
        .effect(Effect::Given)
        .args(&[
            block("group_consumer", &[string("group"), string("consumer")]).token("GROUP"),
            COUNT,
            MAX_COUNT,
            MAX_SIZE,
            BLOCK,
            integer("min-idle-time").token("CLAIM").optional().since("8.4.0"),
            token("noack", "NOACK").optional(),
            STREAMS,
        ])
        .key_search(keys)
        .docs("5.0.0", GROUP_COST, "Delivers new entries of a consumer group, or those that a consumer has not acknowledged."),
];

/// Returns the number of arguments of an option; `None` for an unknown one.
fn option_args(word: &[u8]) -> Option<usize> {
    match word {
        _ if is_word(word, "NOACK") => Some(0),
        _ if is_word(word, "GROUP") => Some(2),
        _ if ["COUNT", "MAXCOUNT", "MAXSIZE", "BLOCK", "CLAIM"].iter().any(|option| is_word(word, option)) => Some(1),
        _ => None,
    }
}

/// Finds the keys of a request: the first half of the arguments after STREAMS.
fn keys(request: Request<'_>) -> Vec<(usize, KeyFlags)> {
    let mut at = 1;
    while at < request.len() {
        let word = request.arg(at);
        if is_word(word, "STREAMS") {
            let (first, count) = (at + 1, (request.len() - at - 1) / 2);
            return (first..first + count).map(|position| (position, RO | ACCESS)).collect();
        }
        let Some(args) = option_args(word) else { break };
        at += 1 + args;
    }
    Vec::new()
}

/// The position at which the reading of a stream begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    /// Behind this ID.
    Id(StreamId),
    /// At the entries that no consumer of the group has received.
    New,
}

/// The options of both commands.
struct Options<'a> {
    /// The deadline of the wait; `None` without waiting.
    until_ms: Option<u64>,
    /// The maximum number of entries of each stream.
    max_count: usize,
    /// The maximum number of entries, and of bytes, of all streams together.
    max_in_all: (Option<usize>, Option<usize>),
    group: Option<(&'a [u8], &'a [u8])>,
    is_acknowledged: bool,
    /// The time for which an entry must have been pending to be claimed.
    claimed_idle: Option<i64>,
}

impl Options<'_> {
    fn budget(&self) -> Budget {
        Budget::new(self.max_in_all.0, self.max_in_all.1)
    }
}

/// The streams of a request, each with its start.
type Sources<'a> = SmallVec<[(Key<'a>, From); 4]>;

fn xread(call: &mut Call<'_>) -> Result<()> {
    let options = read_options(call, false)?;
    let sources = read_sources(call, &options)?;
    let (mark, mut served, is_retry) = (call.reply.mark(), 0, call.is_retry());
    let mut budget = options.budget();
    for (key, from) in &sources {
        if budget.is_spent() {
            break;
        }
        let From::Id(after) = *from else { continue };
        let stream = match call.view.get::<Stream>(*key, Lookup::READ) {
            Err(WrongType) if is_retry => None,
            other => other?,
        };
        let Some(stream) = stream.filter(|stream| stream.last() > after) else { continue };
        let Some(start) = after.next().filter(|start| stream.last_entry().is_some_and(|last| last >= *start)) else {
            continue;
        };
        budget.begin(key.bytes);
        let walk = stream.range(start, StreamId::MAX).take(options.max_count);
        let mut walk = walk.take_while(|entry| budget.admits(entry)).peekable();
        if walk.peek().is_some() {
            served += 1;
            begin(&mut call.reply, *key);
            super::range::reply_entries(&mut call.reply, walk, usize::MAX);
        }
    }
    finish(call, &options, &sources, (mark, served))
}

fn xreadgroup(call: &mut Call<'_>) -> Result<()> {
    let options = read_options(call, true)?;
    let sources = read_sources(call, &options)?;
    let (mark, mut served, mut budget) = (call.reply.mark(), 0, options.budget());
    for (key, from) in &sources {
        if budget.is_spent() {
            break;
        }
        call.view.lookup(*key, Lookup::READ); // counted, as in Redis, a second time
        served += usize::from(serve(call, *key, *from, &options, &mut budget)?);
    }
    finish(call, &options, &sources, (mark, served))
}

/// Ends a call: with the output written since `mark`, or by blocking.
fn finish(
    call: &mut Call<'_>,
    options: &Options<'_>,
    sources: &Sources<'_>,
    (mark, served): (crate::resp::Mark, usize),
) -> Result<()> {
    if served > 0 {
        call.reply.announce_at(mark, |reply| match reply.protocol() {
            Protocol::Resp2 => reply.array(served),
            Protocol::Resp3 => reply.map(served),
        });
        return Ok(());
    }
    let Some(until_ms) = options.until_ms else {
        call.reply.null_array();
        return Ok(());
    };
    let request = fixed_request(call.args.request(), sources);
    let retry_at_ms = next_claim_ms(call, options, sources)?;
    let claims = options.claimed_idle.is_some();
    let is_limited = call.namespace.engine().is_some();
    let group = options.group.filter(|_| is_limited).map(|(name, _)| AwaitedGroup { name: name.into(), claims });
    let wake_on_delete = options.group.is_some();
    let retry = BlockedRetry { request, wake_on_delete, retry_at_ms, group, ..BlockedRetry::new(Stream::TYPE) };
    call.block_and_repeat(retry, until_ms, |reply| reply.null_array());
    Ok(())
}

/// Returns the time at which the first pending entry of the groups can be claimed, in monotonic milliseconds; [`NEVER`]
/// if there is none.
fn next_claim_ms(call: &mut Call<'_>, options: &Options<'_>, sources: &Sources<'_>) -> Result<u64> {
    let (Some((group, _)), Some(idle), now) = (options.group, options.claimed_idle, call.now()) else {
        return Ok(NEVER);
    };
    let mut next_ms = NEVER;
    for (key, _) in sources.iter().filter(|(_, from)| *from == From::New) {
        let Some(stream) = call.view.get::<Stream>(*key, Lookup::PEEK)? else { continue };
        let Some(group) = stream.group(group) else { continue };
        let oldest = group.pending_by_time().find(|(_, id)| stream.get(*id).is_some());
        let left = oldest.map(|(time, _)| time.saturating_add(idle).saturating_sub(now.wall_ms()));
        next_ms = next_ms.min(left.map_or(NEVER, |left| now.mono_ms().saturating_add(left.max(1).unsigned_abs())));
    }
    Ok(next_ms)
}

/// Returns the request with `$` replaced by the present IDs, if it contains any.
fn fixed_request(request: Request<'_>, sources: &Sources<'_>) -> Option<OwnedRequest> {
    let first = request.len() - sources.len();
    if request.args().skip(first).all(|word| word != b"$") {
        return None;
    }
    let mut fixed = RequestBuffer::default();
    for (at, word) in request.args().enumerate() {
        match at.checked_sub(first).and_then(|at| sources.get(at)) {
            Some((_, From::Id(id))) if word == b"$" => fixed.push(&id.text()),
            _ => fixed.push(word),
        }
    }
    fixed.as_request().map(Request::to_owned)
}

fn read_options<'a>(call: &mut Call<'a>, is_group: bool) -> Result<Options<'a>> {
    let only = |option: &str| {
        Err(Error::other(format!("The {option} option is only supported by XREADGROUP. You called XREAD instead.")))
    };
    let mut options = Options {
        until_ms: None,
        max_count: usize::MAX,
        max_in_all: (None, None),
        group: None,
        is_acknowledged: false,
        claimed_idle: None,
    };
    loop {
        let Some(word) = call.args.next_arg() else { return Err(Error::Syntax) };
        let left = call.args.left();
        if left > 0 && is_word(word, "BLOCK") {
            options.until_ms = Some(read_timeout(call)?);
        } else if left > 0 && is_word(word, "COUNT") {
            let count = usize::try_from(call.args.int()?).unwrap_or(0);
            options.max_count = if count == 0 { usize::MAX } else { count };
        } else if left > 0 && is_word(word, "MAXCOUNT") {
            options.max_in_all.0 = Some(call.args.positive("MAXCOUNT must be a positive integer")?);
        } else if left > 0 && is_word(word, "MAXSIZE") {
            options.max_in_all.1 = Some(call.args.positive("MAXSIZE must be a positive integer")?);
        } else if left > 0 && is_word(word, "STREAMS") {
            break;
        } else if left > 1 && is_word(word, "GROUP") {
            if !is_group {
                return only("GROUP");
            }
            options.group = Some((call.args.bytes()?, call.args.bytes()?));
        } else if is_word(word, "NOACK") {
            if !is_group {
                return only("NOACK");
            }
            options.is_acknowledged = true;
        } else if left > 0 && is_word(word, "CLAIM") {
            if !is_group {
                return only("CLAIM");
            }
            let idle = parse_int(call.args.bytes()?);
            let idle = idle.ok_or(Error::other("min-idle-time is not an integer or out of range"))?;
            if idle < 0 {
                return Err(Error::other("min-idle-time must be a positive integer"));
            }
            options.claimed_idle = Some(idle);
        } else {
            return Err(Error::Syntax);
        }
    }
    if options.max_count != usize::MAX && options.max_in_all.0.is_some_and(|in_all| in_all < options.max_count) {
        return Err(Error::other("MAXCOUNT must be greater than or equal to COUNT"));
    }
    if call.args.left() % 2 == 1 {
        return Err(unbalanced(call, is_group));
    }
    if is_group && options.group.is_none() {
        return Err(Error::other("Missing GROUP option for XREADGROUP"));
    }
    Ok(options)
}

/// Returns the error of a list of streams without an ID for each, in the words of the version.
fn unbalanced(call: &Call<'_>, is_group: bool) -> Error {
    let is_since_7_2 = call.config.answers_since(Version::new(7, 2, 0), None);
    let symbols = match is_group {
        true if is_since_7_2 => "ID or '>'",
        false if call.config.answers_since(Version::new(8, 0, 0), None) => "ID, '+', or '$'",
        _ => "ID or '$'",
    };
    let list = if is_since_7_2 { format!("'{}' list", call.name()) } else { "XREAD list".to_owned() };
    Error::other(format!("Unbalanced {list} of streams: for each stream key an {symbols} must be specified."))
}

/// Reads keys and IDs, and checks that the groups exist.
fn read_sources<'a>(call: &mut Call<'a>, options: &Options<'_>) -> Result<Sources<'a>> {
    let count = call.args.left() / 2;
    let mut names: SmallVec<[Key<'a>; 4]> = SmallVec::new();
    for _ in 0..count {
        names.push(call.args.key()?);
    }
    let mut sources = Sources::new();
    for key in names {
        let word = call.args.bytes()?;
        let is_retry = call.is_retry();
        let stream = match call.view.get::<Stream>(key, Lookup::READ) {
            // The value has become another type while the call was blocked.
            Err(WrongType) if is_retry && options.group.is_none() => None,
            other => other?,
        };
        if let Some((group, _)) = options.group
            && stream.is_none_or(|stream| stream.group(group).is_none())
        {
            return Err(no_group(key.bytes, group, " in XREADGROUP with GROUP option"));
        }
        if word == b"+" && !call.config.answers_since(Version::new(7, 4, 0), Some(Version::new(8, 0, 0))) {
            return Err(Error::InvalidStreamId);
        }
        sources.push((key, start_of(word, stream, options.group.is_some())?));
    }
    Ok(sources)
}

/// Returns the start of reading for an ID in the request.
fn start_of(word: &[u8], stream: Option<&BigStream>, is_group: bool) -> Result<From> {
    match word {
        b"$" | b"+" if is_group => {
            let symbol = char::from(word[0]);
            Err(Error::other(format!(
                "The {symbol} ID is meaningless in the context of XREADGROUP: you want to read the history of this \
                 consumer by specifying a proper ID, or use the > ID to get new messages. The {symbol} ID would just \
                 return an empty result set."
            )))
        }
        b"$" => Ok(From::Id(stream.map_or(StreamId::MIN, |stream| stream.last()))),
        b"+" => {
            let last = stream.and_then(|stream| stream.last_entry());
            Ok(From::Id(last.and_then(StreamId::prev).unwrap_or_default()))
        }
        b">" if is_group => Ok(From::New),
        b">" => Err(Error::other(
            "The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
        )),
        _ => Ok(From::Id(ids::parse(word)?)),
    }
}

/// Announces a key with its entries.
fn begin(reply: &mut Reply<'_>, key: Key<'_>) {
    if reply.protocol() == Protocol::Resp2 {
        reply.array(2);
    }
    reply.bulk(key.bytes);
}

/// Delivers entries of one stream to the consumer; returns true if there are any, or its history was requested.
fn serve(call: &mut Call<'_>, key: Key<'_>, from: From, options: &Options<'_>, budget: &mut Budget) -> Result<bool> {
    let Some((group, consumer)) = options.group else { return Ok(false) };
    let now = call.now().wall_ms();
    let mut edit = call.view.edit::<Stream>(key, Event::NONE)?;
    edit.keep_quiet();
    let mut log = GroupLog::default();
    let Some(stream) = edit.annotate() else { return Ok(false) };
    let mut delivery =
        Delivery { stream, group, now, max_count: options.max_count, budget, reply: &mut call.reply, log: &mut log };
    delivery.admit(consumer);
    delivery.budget.begin(key.bytes);
    let served = match from {
        From::Id(after) => delivery.history(key, consumer, after),
        From::New => delivery.deliver(key, consumer, options),
    };
    let claims_oldest = log.claims_oldest(stream, group);
    let is_delivered = !(log.claimed.is_empty() && log.moved.is_none()) && from == From::New;
    edit.count_more(usize::from(log.created_consumer) + usize::from(is_delivered));
    if !log.is_empty() {
        edit.record();
    }
    if claims_oldest {
        edit.wake_blocked();
    }
    drop(edit);
    if log.created_consumer {
        call.view.emit(key, CONSUMER_CREATED);
    }
    log.write(call, (key.bytes, group, consumer));
    Ok(served)
}

/// The delivery of entries of one stream to a consumer.
struct Delivery<'c, 'o> {
    stream: &'c mut BigStream,
    group: &'c [u8],
    now: i64,
    max_count: usize,
    budget: &'c mut Budget,
    reply: &'c mut Reply<'o>,
    log: &'c mut GroupLog,
}

impl Delivery<'_, '_> {
    /// Records that the consumer has tried to read, creating a new one.
    fn admit(&mut self, consumer: &[u8]) {
        if let Some(mut group) = self.stream.group_mut(self.group) {
            let (number, is_new) = group.create_consumer(consumer, self.now);
            group.consumer_mut(number).seen = self.now;
            self.log.created_consumer = is_new;
        }
    }

    /// Writes the entries that the consumer has not acknowledged; each counts as delivered once more. Of deleted
    /// entries only the IDs are written. Returns false, without a reply, if there is no room for the first of them.
    fn history(&mut self, key: Key<'_>, consumer: &[u8], after: StreamId) -> bool {
        let Delivery { stream, group: name, now, max_count, budget, reply, log } = self;
        let mut ids = Vec::new();
        if let Some(group) = stream.group(name)
            && let Some(number) = group.find_consumer(consumer)
            && let Some(start) = after.next()
        {
            let own = group.consumer(number).pending.range((Included(start), Unbounded)).take(*max_count);
            ids.extend(own.map(|(id, ())| (*id, Some(number))).take_while(|(id, _)| match stream.get(*id) {
                Some(entry) => budget.admits(&entry),
                None => budget.admits_id(*id),
            }));
        }
        if ids.is_empty() && budget.is_spent() {
            return false;
        }
        begin(reply, key);
        reply.array(ids.len());
        for (id, consumer) in ids {
            let Some(entry) = stream.get(id) else {
                reply.array(2);
                reply_id(reply, id);
                reply.null_array();
                continue;
            };
            reply_entry(reply, entry);
            let times =
                stream.group(name).and_then(|group| group.pending().get(&id)).map_or(0, |pending| pending.count);
            log.claimed.push((id, PendingEntry { time: *now, count: PendingEntry::next_count(times), consumer }));
        }
        if let Some(mut group) = stream.group_mut(name) {
            log.claimed.iter().for_each(|(id, pending)| group.assign(*id, *pending));
        }
        true
    }

    /// Delivers entries that were pending for long enough, and then new ones.
    fn deliver(&mut self, key: Key<'_>, consumer: &[u8], options: &Options<'_>) -> bool {
        let mut old = options.claimed_idle.map_or_else(Vec::new, |idle| self.idle_entries(idle));
        let Some(number) = self.stream.group(self.group).and_then(|group| group.find_consumer(consumer)) else {
            return false;
        };
        let Delivery { stream, group: name, now, max_count, budget, reply, log } = self;
        let Some(group) = stream.group(name) else { return false };
        let (mut last, mut read) = (group.last, group.read);
        let has_new = stream.last() > last && stream.last_entry().is_some_and(|top| top > last);
        let admitted = old.iter().take_while(|(id, _)| stream.get(*id).is_some_and(|entry| budget.admits(&entry)));
        old.truncate(admitted.count());
        let start = last.next().filter(|_| has_new).unwrap_or(StreamId::MAX);
        let new = stream.range(start, StreamId::MAX).take(if has_new { *max_count - old.len() } else { 0 });
        let mut new = new.take_while(|entry| budget.admits(entry)).peekable();
        if old.is_empty() && new.peek().is_none() {
            return false;
        }
        begin(reply, key);
        let mark = reply.mark();
        let mut write = |entry: StreamEntry<'_>, before: (i64, u64)| match options.claimed_idle {
            None => reply_entry(reply, entry),
            Some(_) => {
                reply.array(4);
                reply_content(reply, entry);
                reply.int(before.0);
                reply.int(before.1 as i64);
            }
        };
        let mut delivered = Vec::new();
        for (id, pending) in old {
            let Some(entry) = stream.get(id) else { continue };
            write(entry, (now.saturating_sub(pending.delivery_time()), pending.count));
            let count = PendingEntry::next_count(pending.count);
            delivered.push((id, PendingEntry { time: *now, count, consumer: Some(number) }));
        }
        let mut count = delivered.len();
        for entry in new {
            let id = entry.id;
            write(entry, (0, 0));
            read = stream.read_after((last, read), id);
            last = id;
            count += 1;
            if !options.is_acknowledged {
                delivered.push((id, PendingEntry { time: *now, count: 1, consumer: Some(number) }));
            }
        }
        reply.announce_at(mark, |reply| reply.array(count));
        if let Some(mut group) = stream.group_mut(name) {
            if last > group.last {
                (group.last, group.read) = (last, read);
                log.moved = Some((last, read));
            }
            delivered.iter().for_each(|(id, pending)| group.assign(*id, *pending));
            if !delivered.is_empty() {
                group.consumer_mut(number).active = *now;
            }
        }
        log.claimed = delivered;
        true
    }

    /// Returns pending entries that were delivered long enough ago and still exist, the oldest first.
    fn idle_entries(&self, idle: i64) -> Vec<(StreamId, PendingEntry)> {
        let Some(group) = self.stream.group(self.group) else { return Vec::new() };
        let old = group.pending_by_time().take_while(|(time, _)| self.now.saturating_sub(*time) >= idle);
        let existing = old.filter(|(_, id)| self.stream.get(*id).is_some());
        existing.filter_map(|(_, id)| Some((id, *group.pending().get(&id)?))).take(self.max_count).collect()
    }
}
