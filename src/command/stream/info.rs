//! XINFO: descriptions of streams, groups and consumers.

use crate::command::stream::range::reply_entries;
use crate::command::stream::{no_group_of_key, reply_entry, reply_id};
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::spec::{ACCESS, Group as Family, READ, RO, block, integer, key, string};
use crate::store::{BigStream, Consumer, ConsumerGroup, Key, Lookup, Stream, StreamId, StreamRef};

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[Command::container(
    "XINFO",
    Family::Stream,
    &[
        Command::new("STREAM", stream, READ, Family::Stream)
            .args(&[
                key("key", RO | ACCESS),
                block("full", &[integer("count").token("COUNT").optional()]).token("FULL").optional(),
            ])
            .docs("5.0.0", "O(1)", "Describes a stream."),
        Command::new("GROUPS", groups, READ, Family::Stream)
            .args(&[key("key", RO | ACCESS)])
            .docs("5.0.0", "O(1)", "Describes the consumer groups of a stream."),
        Command::new("CONSUMERS", consumers, READ, Family::Stream)
            .args(&[key("key", RO | ACCESS), string("groupname")])
            .tips(&["nondeterministic_output"])
            .docs("5.0.0", "O(1)", "Describes the consumers of a consumer group."),
    ],
)
.docs("5.0.0", "Depends on subcommand.", "A container for commands that describe streams.")];

/// The number of entries that XINFO STREAM FULL shows by default.
const SHOWN: usize = 10;

fn find<'v>(call: &'v mut Call<'_>, key: Key<'_>) -> Result<StreamRef<'v>> {
    call.view.get::<Stream>(key, Lookup::READ)?.ok_or(Error::NoSuchKey)
}

fn stream(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    find(call, key)?;
    let syntax = Error::SubcommandSyntax(call.args.request().arg(1).to_vec(), "XINFO");
    let full = match (call.args.next_arg(), call.args.next_arg(), call.args.next_arg(), call.args.next_arg()) {
        (None, ..) => None,
        (Some(full), None, ..) if is_word(full, "FULL") => Some(SHOWN),
        (Some(full), Some(word), Some(count), None) if is_word(full, "FULL") && is_word(word, "COUNT") => {
            let count = crate::resp::parse_int(count).ok_or(Error::NotInteger)?;
            Some(usize::try_from(count).unwrap_or(SHOWN))
        }
        _ => return Err(syntax),
    };
    let stream = call.view.get::<Stream>(key, Lookup::PEEK)?.ok_or(Error::NoSuchKey)?;
    let reply = &mut call.reply;
    let more = if stream.producers().is_some() { 6 } else { 0 };
    reply.map(more + if full.is_some() { 9 } else { 10 });
    number(reply, "length", stream.len());
    number(reply, "radix-tree-keys", stream.chunk_count());
    number(reply, "radix-tree-nodes", stream.tree_nodes());
    id(reply, "last-generated-id", stream.last());
    id(reply, "max-deleted-entry-id", stream.max_deleted());
    number(reply, "entries-added", stream.added() as usize);
    id(reply, "recorded-first-entry-id", stream.first());
    if let Some(producers) = stream.producers() {
        let (limits, (names, ids), (added, again)) = (producers.limits(), producers.counts(), producers.totals());
        number(reply, "idmp-duration", limits.duration_s as usize);
        number(reply, "idmp-maxsize", limits.max_size);
        number(reply, "pids-tracked", names);
        number(reply, "iids-tracked", ids);
        number(reply, "iids-added", added as usize);
        number(reply, "iids-duplicates", again as usize);
    }
    match full {
        None => {
            number(reply, "groups", stream.group_count());
            for (name, entry) in [
                ("first-entry", stream.range(StreamId::MIN, StreamId::MAX).next()),
                ("last-entry", stream.range_back(StreamId::MIN, StreamId::MAX).next()),
            ] {
                reply.bulk(name.as_bytes());
                match entry {
                    Some(entry) => reply_entry(reply, entry),
                    None => reply.null(),
                }
            }
        }
        Some(count) => details(reply, stream, if count == 0 { usize::MAX } else { count }),
    }
    Ok(())
}

/// Writes the first entries and all groups.
fn details(reply: &mut Reply<'_>, stream: &BigStream, max_count: usize) {
    reply.bulk(b"entries");
    reply_entries(reply, stream.range(StreamId::MIN, StreamId::MAX), max_count);
    reply.bulk(b"groups");
    reply.array(stream.group_count());
    for (name, group) in stream.groups() {
        let disowned = group.disowned_count();
        reply.map(7 + usize::from(disowned > 0));
        reply.bulk(b"name");
        reply.bulk(name);
        id(reply, "last-delivered-id", group.last);
        progress(reply, stream, group);
        number(reply, "pel-count", group.pending().len());
        if disowned > 0 {
            number(reply, "nacked-count", disowned);
        }
        reply.bulk(b"pending");
        reply.array(group.pending().len().min(max_count));
        for (entry, pending) in group.pending().iter().take(max_count) {
            reply.array(4);
            reply_id(reply, *entry);
            reply.bulk(group.owner(pending));
            reply.int(pending.delivery_time());
            reply.int(pending.count as i64);
        }
        reply.bulk(b"consumers");
        reply.array(group.consumer_count());
        group.consumers().for_each(|consumer| consumer_details(reply, group, consumer, max_count));
    }
}

fn consumer_details(reply: &mut Reply<'_>, group: &ConsumerGroup, consumer: &Consumer, max_count: usize) {
    reply.map(5);
    reply.bulk(b"name");
    reply.bulk(&consumer.name);
    reply.bulk(b"seen-time");
    reply.int(consumer.seen);
    reply.bulk(b"active-time");
    reply.int(consumer.active);
    number(reply, "pel-count", consumer.pending.len());
    reply.bulk(b"pending");
    reply.array(consumer.pending.len().min(max_count));
    for entry in consumer.pending.keys().take(max_count) {
        let (time, count) = group.pending().get(entry).map_or((0, 0), |pending| (pending.time, pending.count));
        reply.array(3);
        reply_id(reply, *entry);
        reply.int(time);
        reply.int(count as i64);
    }
}

/// Writes the progress of a group: the number of entries read, and the lag.
fn progress(reply: &mut Reply<'_>, stream: &BigStream, group: &ConsumerGroup) {
    reply.bulk(b"entries-read");
    match group.read {
        Some(read) => reply.int(read as i64),
        None => reply.null(),
    }
    reply.bulk(b"lag");
    match stream.lag(group) {
        Some(lag) => reply.int(lag),
        None => reply.null(),
    }
}

fn groups(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let stream = call.view.get::<Stream>(key, Lookup::READ)?.ok_or(Error::NoSuchKey)?;
    let reply = &mut call.reply;
    reply.array(stream.group_count());
    for (name, group) in stream.groups() {
        reply.map(6);
        reply.bulk(b"name");
        reply.bulk(name);
        number(reply, "consumers", group.consumer_count());
        number(reply, "pending", group.pending().len());
        id(reply, "last-delivered-id", group.last);
        progress(reply, stream, group);
    }
    Ok(())
}

fn consumers(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let (name, now) = (call.args.bytes()?, call.now().wall_ms());
    let stream = call.view.get::<Stream>(key, Lookup::READ)?.ok_or(Error::NoSuchKey)?;
    let Some(group) = stream.group(name) else { return Err(no_group_of_key(key.bytes, name)) };
    let reply = &mut call.reply;
    reply.array(group.consumer_count());
    for consumer in group.consumers() {
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(&consumer.name);
        number(reply, "pending", consumer.pending.len());
        reply.bulk(b"idle");
        reply.int(now.saturating_sub(consumer.seen).max(0));
        reply.bulk(b"inactive");
        reply.int(if consumer.active == -1 { -1 } else { now.saturating_sub(consumer.active) });
    }
    Ok(())
}

fn number(reply: &mut Reply<'_>, name: &str, value: usize) {
    reply.bulk(name.as_bytes());
    reply.int(value as i64);
}

fn id(reply: &mut Reply<'_>, name: &str, value: StreamId) {
    reply.bulk(name.as_bytes());
    reply_id(reply, value);
}
