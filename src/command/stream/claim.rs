//! XCLAIM and XAUTOCLAIM: a consumer takes over entries that others have not acknowledged.

use std::ops::Bound::{Excluded, Included, Unbounded};

use crate::command::stream::{CONSUMER_CREATED, GroupLog, ids, no_group, reply_entry, reply_id};
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::{Reply, parse_int};
use crate::spec::{DELETE, Effect, FAST, Group as Family, RW, UPDATE, WRITE, integer, key, string, token, unix_time};
use crate::store::{BigStream, ConsumerNumber, Event, Key, Lookup, PendingEntry, Stream, StreamId};

const CLAIM_COST: &str = "O(log N) with N being the number of messages in the PEL of the consumer group.";

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("XCLAIM", xclaim, WRITE | FAST, Family::Stream)
        .effect(Effect::Given)
        .args(&[
            key("key", RW | UPDATE),
            string("group"),
            string("consumer"),
            string("min-idle-time"),
            string("id").multiple(),
            integer("ms").token("IDLE").optional(),
            unix_time("unix-time-milliseconds").token("TIME").optional(),
            integer("count").token("RETRYCOUNT").optional(),
            token("force", "FORCE").optional(),
            token("justid", "JUSTID").optional(),
            string("id").token("LASTID").optional(),
        ])
        .tips(&["nondeterministic_output"])
        .docs("5.0.0", CLAIM_COST, "Makes a consumer the owner of pending entries."),
    Command::new("XAUTOCLAIM", xautoclaim, WRITE | FAST, Family::Stream)
        .effect(Effect::Given)
        .args(&[
            key("key", RW | DELETE),
            string("group"),
            string("consumer"),
            string("min-idle-time"),
            string("start"),
            integer("count").token("COUNT").optional(),
            token("justid", "JUSTID").optional(),
        ])
        .tips(&["nondeterministic_output"])
        .docs("6.2.0", "O(1) if COUNT is small.", "Makes a consumer the owner of pending entries that are idle."),
];

/// The number of entries that XAUTOCLAIM claims by default, and the number that it visits for each.
const COUNT_DEFAULT: i64 = 100;
const ATTEMPTS: usize = 10;
const CLAIM_COUNT_MAX: i64 = i64::MAX / 16;

/// The names of a group and one of its consumers.
#[derive(Clone, Copy)]
struct Names<'a> {
    group: &'a [u8],
    consumer: &'a [u8],
}

/// The terms of claiming entries.
#[derive(Clone, Copy)]
struct Terms {
    now: i64,
    idle_min: i64,
    /// The delivery time that the entries get.
    time: i64,
    retry_count: Option<u64>,
    is_forced: bool,
    ids_only: bool,
}

/// The outcome for an entry.
enum Claimed {
    Taken(PendingEntry),
    /// The entry was deleted, and is no longer pending.
    Released,
    No,
}

fn read_idle(call: &mut Call<'_>, text: &'static str) -> Result<i64> {
    let idle = parse_int(call.args.bytes()?).ok_or(Error::other(text))?;
    Ok(idle.max(0))
}

fn check_group(call: &mut Call<'_>, key: Key<'_>, group: &[u8], how: Lookup) -> Result<()> {
    match call.view.get::<Stream>(key, how)?.and_then(|stream| stream.group(group)) {
        Some(_) => Ok(()),
        None => Err(no_group(key.bytes, group, "")),
    }
}

/// Claims an entry, writing it to the reply if it was taken.
fn claim(
    reply: &mut Reply<'_>,
    stream: &mut BigStream,
    names: Names<'_>,
    consumer: ConsumerNumber,
    id: StreamId,
    terms: &Terms,
) -> Claimed {
    let pending = stream.group(names.group).and_then(|group| group.pending().get(&id).copied());
    let Some(entry) = stream.get(id) else {
        let released = stream.group_mut(names.group).and_then(|mut group| group.release(id));
        return if released.is_some() { Claimed::Released } else { Claimed::No };
    };
    let before = match pending {
        Some(pending) if terms.idle_min > 0 && terms.now.saturating_sub(pending.time) < terms.idle_min => {
            return Claimed::No;
        }
        Some(pending) => pending,
        None if terms.is_forced => PendingEntry { time: terms.now, count: 1, consumer: Some(consumer) },
        None => return Claimed::No,
    };
    let count = match terms.retry_count {
        Some(count) => count,
        None if terms.ids_only => before.count,
        None => PendingEntry::next_count(before.count),
    };
    if terms.ids_only {
        reply_id(reply, id)
    } else {
        reply_entry(reply, entry)
    }
    let taken = PendingEntry { time: terms.time, count, consumer: Some(consumer) };
    if let Some(mut group) = stream.group_mut(names.group) {
        group.assign(id, taken);
        group.consumer_mut(consumer).active = terms.now;
    }
    Claimed::Taken(taken)
}

/// Makes an entry pending for no consumer. Of an entry that is not pending, this is done only with `is_forced`, if the
/// stream has it. Passes the number of deliveries to `count`, and returns the new one.
pub(super) fn disown(
    stream: &mut BigStream,
    group: &[u8],
    id: StreamId,
    is_forced: bool,
    count: impl FnOnce(u64) -> u64,
) -> Option<u64> {
    let exists = is_forced && stream.get(id).is_some();
    let mut group = stream.group_mut(group)?;
    let before = match group.pending().get(&id) {
        Some(pending) => pending.count,
        None if exists => 0,
        None => return None,
    };
    let count = count(before).min(BigStream::COUNT_MAX);
    group.disown(id, count);
    Some(count)
}

/// Returns the number of the consumer that claims, and true if it was created.
fn admit(stream: &mut BigStream, names: Names<'_>, now: i64) -> Option<(ConsumerNumber, bool)> {
    let mut group = stream.group_mut(names.group)?;
    let (number, is_new) = group.create_consumer(names.consumer, now);
    group.consumer_mut(number).seen = now;
    Some((number, is_new))
}

/// Counts and logs the changes of a call.
fn finish(call: &mut Call<'_>, key: Key<'_>, names: Names<'_>, log: &GroupLog) {
    if log.created_consumer {
        call.view.emit(key, CONSUMER_CREATED);
    }
    log.write(call, (key.bytes, names.group, names.consumer));
}

/// The options of XCLAIM.
#[derive(Default)]
struct ClaimOptions {
    time: Option<i64>,
    retry_count: i64,
    is_forced: bool,
    ids_only: bool,
    last: StreamId,
}

/// Reads options, the first of which was already taken from the arguments.
fn read_claim_options(call: &mut Call<'_>, first: Option<&[u8]>, now: i64) -> Result<ClaimOptions> {
    let mut options = ClaimOptions { retry_count: -1, ..ClaimOptions::default() };
    let mut next = first;
    while let Some(word) = next {
        let has_more = call.args.left() > 0;
        let mut int = |text| parse_int(call.args.next_arg().unwrap_or_default()).ok_or(Error::other(text));
        if is_word(word, "FORCE") {
            options.is_forced = true;
        } else if is_word(word, "JUSTID") {
            options.ids_only = true;
        } else if has_more && is_word(word, "IDLE") {
            options.time = Some(now.wrapping_sub(int("Invalid IDLE option argument for XCLAIM")?));
        } else if has_more && is_word(word, "TIME") {
            options.time = Some(int("Invalid TIME option argument for XCLAIM")?);
        } else if has_more && is_word(word, "RETRYCOUNT") {
            options.retry_count = int("Invalid RETRYCOUNT option argument for XCLAIM")?;
        } else if has_more && is_word(word, "LASTID") {
            options.last = ids::parse(call.args.bytes()?)?;
        } else {
            return Err(Error::StreamOption("XCLAIM", word.to_vec()));
        }
        next = call.args.next_arg();
    }
    Ok(options)
}

fn xclaim(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let names = Names { group: call.args.bytes()?, consumer: call.args.bytes()? };
    check_group(call, key, names.group, Lookup::READ)?;
    let (idle_min, now) = (read_idle(call, "Invalid min-idle-time argument for XCLAIM")?, call.now().wall_ms());
    let (mut wanted, mut option) = (Vec::new(), None);
    while let Some(word) = call.args.next_arg() {
        match ids::parse(word) {
            Ok(id) => wanted.push(id),
            Err(_) => {
                option = Some(word);
                break;
            }
        }
    }
    let ClaimOptions { time, retry_count, is_forced, ids_only, last } = read_claim_options(call, option, now)?;
    // A time in the future, as of a client whose clock is ahead, counts as now. A log has the time of its own server.
    let end = if call.view.cx().expires_keys() { now } else { i64::MAX };
    let time = time.filter(|time| (0..=end).contains(time)).unwrap_or(now);
    let retry_count = u64::try_from(retry_count).ok();
    let terms = Terms { now, idle_min, time, retry_count, is_forced, ids_only };
    // The form in which entries without a consumer are logged.
    let is_disowned = names.consumer.is_empty() && time == 0;

    let mut edit = call.view.edit::<Stream>(key, Event::NONE)?;
    edit.keep_quiet();
    let mut log = GroupLog::default();
    let (mark, mut written, mut changes, mut claims_oldest) = (call.reply.mark(), 0, 0, false);
    if let Some(stream) = edit.annotate() {
        if let Some(mut group) = stream.group_mut(names.group)
            && last > group.last
        {
            group.last = last;
            log.moved = Some((last, group.read));
            changes += 1;
        }
        if is_disowned {
            let count = |before: u64| retry_count.unwrap_or(before);
            let disowned = |id| Some((id, disown(stream, names.group, id, is_forced, count)?));
            log.disowned.extend(wanted.into_iter().filter_map(disowned));
            log.disowned.iter().for_each(|(id, _)| reply_id(&mut call.reply, *id));
            written = log.disowned.len();
        } else if let Some((consumer, is_new)) = admit(stream, names, now) {
            log.created_consumer = is_new;
            for id in wanted {
                match claim(&mut call.reply, stream, names, consumer, id, &terms) {
                    Claimed::Taken(pending) => {
                        log.claimed.push((id, pending));
                        written += 1;
                    }
                    Claimed::Released => log.released.push(id),
                    Claimed::No => {}
                }
            }
        }
        claims_oldest = log.claims_oldest(stream, names.group);
    }
    if claims_oldest {
        edit.wake_blocked();
    }
    let moved = log.claimed.len() + log.released.len() + log.disowned.len();
    // A new position is counted only if nothing was claimed, because the claims imply it.
    edit.count_more(if moved > 0 { moved } else { changes } + usize::from(log.created_consumer));
    drop(edit);
    call.reply.announce_at(mark, |reply| reply.array(written));
    finish(call, key, names, &log);
    Ok(())
}

fn xautoclaim(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    call.view.lookup(key, Lookup::READ);
    let names = Names { group: call.args.bytes()?, consumer: call.args.bytes()? };
    let (idle_min, now) = (read_idle(call, "Invalid min-idle-time argument for XAUTOCLAIM")?, call.now().wall_ms());
    let start = ids::parse_start(call.args.bytes()?)?;
    let (mut count, mut ids_only) = (COUNT_DEFAULT, false);
    while let Some(word) = call.args.next_arg() {
        if is_word(word, "COUNT") && call.args.left() > 0 {
            let given = parse_int(call.args.bytes()?).filter(|count| (1..=CLAIM_COUNT_MAX).contains(count));
            count = given.ok_or(Error::other("COUNT must be > 0"))?;
        } else if is_word(word, "JUSTID") {
            ids_only = true;
        } else {
            return Err(Error::Syntax);
        }
    }
    check_group(call, key, names.group, Lookup::PEEK)?;
    let terms = Terms { now, idle_min, time: now, retry_count: None, is_forced: false, ids_only };

    let mut edit = call.view.edit::<Stream>(key, Event::NONE)?;
    edit.keep_quiet();
    let mut log = GroupLog::default();
    call.reply.array(3);
    let (mark, mut cursor, mut claims_oldest) = (call.reply.mark(), None, false);
    if let Some(stream) = edit.annotate()
        && let Some((consumer, is_new)) = admit(stream, names, now)
    {
        log.created_consumer = is_new;
        let mut left = usize::try_from(count).unwrap_or(usize::MAX);
        let mut attempts = left.saturating_mul(ATTEMPTS);
        let mut from = Included(start);
        loop {
            let group = stream.group(names.group);
            let next = group.and_then(|group| group.pending().range((from, Unbounded)).next()).map(|(id, _)| *id);
            let Some(id) = next else { break };
            if left == 0 || attempts == 0 {
                cursor = Some(id);
                break;
            }
            attempts -= 1;
            from = Excluded(id);
            match claim(&mut call.reply, stream, names, consumer, id, &terms) {
                Claimed::Taken(pending) => log.claimed.push((id, pending)),
                Claimed::Released => log.released.push(id),
                Claimed::No => continue,
            }
            left -= 1;
        }
        claims_oldest = log.claims_oldest(stream, names.group);
    }
    if claims_oldest {
        edit.wake_blocked();
    }
    edit.count_more(log.claimed.len() + log.released.len() + usize::from(log.created_consumer));
    drop(edit);
    let claimed = log.claimed.len();
    call.reply.announce_at(mark, |reply| {
        reply_id(reply, cursor.unwrap_or_default());
        reply.array(claimed);
    });
    call.reply.array(log.released.len());
    log.released.iter().for_each(|id| reply_id(&mut call.reply, *id));
    finish(call, key, names, &log);
    Ok(())
}
