//! XACK and XPENDING: entries that were delivered and not acknowledged.

use crate::command::stream::{find, ids, no_group, reply_id};
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::spec::{ACCESS, FAST, Group as Family, READ, RO, RW, UPDATE, WRITE, block, integer, key, string};
use crate::store::{ConsumerGroup, Event, Lookup, PendingEntry, Stream, StreamId};

const PENDING_COST: &str = "O(N) with N being the number of elements returned, so asking for a small fixed number of \
entries per call is O(1). O(M), where M is the total number of entries scanned when used with the IDLE filter. When the \
command returns just the summary and the list of consumers is small, it runs in O(1) time; otherwise, an additional O(N) \
time for iterating every consumer.";

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("XACK", xack, WRITE | FAST, Family::Stream)
        .args(&[key("key", RW | UPDATE), string("group"), string("id").multiple()])
        .docs("5.0.0", "O(1) for each message ID processed.", "Acknowledges entries that were delivered to a consumer."),
    Command::new("XPENDING", xpending, READ, Family::Stream)
        .args(&[
            key("key", RO | ACCESS),
            string("group"),
            block("filters", &[
                integer("min-idle-time").token("IDLE").optional().since("6.2.0"),
                string("start"),
                string("end"),
                integer("count"),
                string("consumer").optional(),
            ]).optional(),
        ])
        .tips(&["nondeterministic_output"])
        .docs("5.0.0", PENDING_COST, "Returns the entries that a consumer group has not acknowledged."),
];

fn xack(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let name = call.args.bytes()?;
    // This look-up counts as a read, for the statistics and the event of a missing key.
    if find(call, key)?.is_none_or(|stream| stream.group(name).is_none()) {
        call.reply.int(0);
        return Ok(());
    }
    // All IDs are checked before the first entry is acknowledged.
    let mut wanted = Vec::with_capacity(call.args.left());
    while let Some(word) = call.args.next_arg() {
        wanted.push(ids::parse(word)?);
    }
    let mut edit = call.view.edit::<Stream>(key, Event::NONE)?;
    edit.keep_quiet();
    let released = match edit.annotate().and_then(|stream| stream.group_mut(name)) {
        Some(mut group) => wanted.into_iter().filter(|id| group.release(*id).is_some()).count(),
        None => 0,
    };
    edit.count_more(released);
    drop(edit);
    call.reply.int(released as i64);
    Ok(())
}

/// The filters of XPENDING.
struct Filters<'a> {
    idle_min: i64,
    start: StreamId,
    end: StreamId,
    count: usize,
    consumer: Option<&'a [u8]>,
}

fn xpending(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let (name, now) = (call.args.bytes()?, call.now().wall_ms());
    let filters = read_filters(call)?;
    let stream = call.view.get::<Stream>(key, Lookup::READ)?;
    let Some(group) = stream.and_then(|stream| stream.group(name)) else {
        return Err(no_group(key.bytes, name, ""));
    };
    match filters {
        None => summary(&mut call.reply, group),
        Some(filters) => details(&mut call.reply, group, &filters, now),
    }
    Ok(())
}

fn read_filters<'a>(call: &mut Call<'a>) -> Result<Option<Filters<'a>>> {
    let left = call.args.left();
    match left {
        0 => return Ok(None),
        3..=6 => {}
        _ => return Err(Error::Syntax),
    }
    let mut start = call.args.bytes()?;
    let mut idle_min = 0;
    if is_word(start, "IDLE") {
        idle_min = call.args.int()?;
        if left < 5 {
            return Err(Error::Syntax);
        }
        start = call.args.bytes()?;
    }
    let end = call.args.bytes()?;
    let count = usize::try_from(call.args.int()?).unwrap_or(0);
    let (start, end) = (ids::parse_start(start)?, ids::parse_end(end)?);
    Ok(Some(Filters { idle_min, start, end, count, consumer: call.args.next_arg() }))
}

/// Writes the number of pending entries, the smallest and largest ID, and the number for each consumer.
fn summary(reply: &mut Reply<'_>, group: &ConsumerGroup) {
    reply.array(4);
    let pending = group.pending();
    reply.int(pending.len() as i64);
    let (Some(first), Some(last)) = (pending.keys().next(), pending.keys().next_back()) else {
        reply.null();
        reply.null();
        reply.null_array();
        return;
    };
    reply_id(reply, *first);
    reply_id(reply, *last);
    let busy = || group.consumers().filter(|consumer| !consumer.pending.is_empty());
    reply.array(busy().count());
    for consumer in busy() {
        reply.array(2);
        reply.bulk(&consumer.name);
        reply.bulk_int(consumer.pending.len() as i64);
    }
}

/// Writes the pending entries.
fn details(reply: &mut Reply<'_>, group: &ConsumerGroup, filters: &Filters<'_>, now: i64) {
    let &Filters { idle_min, start, end, count, consumer } = filters;
    let (mark, mut written) = (reply.mark(), 0);
    let mut write = |id: StreamId, pending: &PendingEntry| {
        let idle = now.saturating_sub(pending.time);
        if written == count || (idle_min != 0 && idle < idle_min) {
            return written < count;
        }
        written += 1;
        reply.array(4);
        reply_id(reply, id);
        reply.bulk(group.owner(pending));
        reply.int(if pending.consumer.is_some() { idle.max(0) } else { -1 });
        reply.int(pending.count as i64);
        true
    };
    if start <= end && count > 0 {
        match consumer {
            None => {
                group.pending().range(start..=end).all(|(id, pending)| write(*id, pending));
            }
            Some(name) => {
                let consumer = group.find_consumer(name).map(|number| group.consumer(number));
                let ids = consumer.into_iter().flat_map(|consumer| consumer.pending.range(start..=end));
                ids.filter_map(|(id, ())| Some((id, group.pending().get(id)?)))
                    .all(|(id, pending)| write(*id, pending));
            }
        }
    }
    reply.announce_at(mark, |reply| reply.array(written));
}
