//! The commands on streams.
//!
//! `add.rs` adds and deletes entries, `range.rs` and `read.rs` read them, `group.rs`, `ack.rs`, `claim.rs` are about
//! consumer groups, `info.rs` describes streams.

pub(crate) mod ack;
pub(crate) mod add;
mod budget;
pub(crate) mod claim;
pub(crate) mod delete;
pub(crate) mod group;
mod ids;
pub(crate) mod info;
pub(crate) mod nack;
pub(crate) mod producers;
pub(crate) mod range;
pub(crate) mod read;

use crate::dispatch::Call;
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::store::{BigStream, Classes, Event, Key, Lookup, PendingEntry, Stream, StreamEntry, StreamId, StreamRef};
use crate::text::until_nul;

/// The event of creating a consumer by a command that names it.
const CONSUMER_CREATED: &Event = &Event::one(Classes::STREAM, "xgroup-createconsumer");

fn reply_id(reply: &mut Reply<'_>, id: StreamId) {
    reply.bulk(&id.text());
}

/// Writes an entry: its ID, and its fields and values.
fn reply_entry(reply: &mut Reply<'_>, entry: StreamEntry<'_>) {
    reply.array(2);
    reply_content(reply, entry);
}

/// Writes ID, fields and values of an entry, announced by the caller.
fn reply_content(reply: &mut Reply<'_>, entry: StreamEntry<'_>) {
    reply_id(reply, entry.id);
    reply.array(entry.fields.len() * 2);
    for (field, value) in entry.fields {
        field.with_text(|text| reply.bulk(text));
        value.with_text(|text| reply.bulk(text));
    }
}

/// Looks a stream up for reading.
fn find<'v>(call: &'v mut Call<'_>, key: Key<'_>) -> Result<Option<StreamRef<'v>>> {
    Ok(call.view.get::<Stream>(key, Lookup::READ)?)
}

/// Returns the error for a missing key or group, named as commands on entries do; `place` ends the sentence.
fn no_group(key: &[u8], group: &[u8], place: &str) -> Error {
    let (key, group) = (until_nul(key), until_nul(group));
    Error::NoGroup([b"No such key '", key, b"' or consumer group '", group, b"'", place.as_bytes()].concat())
}

/// Returns the error for a missing group of an existing key.
fn no_group_of_key(key: &[u8], group: &[u8]) -> Error {
    let parts: [&[u8]; 5] = [b"No such consumer group '", until_nul(group), b"' for key name '", until_nul(key), b"'"];
    Error::NoGroup(parts.concat())
}

/// The changes of a call in a group, to be logged.
#[derive(Default)]
struct GroupLog {
    created_consumer: bool,
    claimed: Vec<(StreamId, PendingEntry)>,
    released: Vec<StreamId>,
    /// Entries that are pending for no consumer now, with the numbers of their deliveries.
    disowned: Vec<(StreamId, u64)>,
    /// The position of the group after the call, if it has changed.
    moved: Option<(StreamId, Option<u64>)>,
}

impl GroupLog {
    /// Returns true if nothing has changed.
    fn is_empty(&self) -> bool {
        !self.created_consumer
            && self.claimed.is_empty()
            && self.released.is_empty()
            && self.disowned.is_empty()
            && self.moved.is_none()
    }

    /// Returns true if a claimed entry is now the oldest delivery, so that clients that wait for entries to be pending
    /// for long have to check again.
    fn claims_oldest(&self, stream: &BigStream, group: &[u8]) -> bool {
        let oldest = stream.group(group).and_then(|group| group.pending_by_time().next());
        oldest.is_some_and(|(_, oldest)| self.claimed.iter().any(|(id, _)| *id == oldest))
    }

    /// Logs the changes as commands whose replay has the same result: times and counts are given, not computed.
    fn write(&self, call: &mut Call<'_>, (key, group, consumer): (&[u8], &[u8], &[u8])) {
        if self.created_consumer {
            call.log(&[b"XGROUP", b"CREATECONSUMER", key, group, consumer]);
        }
        if !call.namespace.store.is_logged() {
            return;
        }
        let claimed = self.claimed.iter().map(|(id, pending)| (consumer, *id, pending.time, pending.count));
        // Servers before Redis 8.8 know no entries without a consumer: there, they are those of one without a name.
        let disowned = self.disowned.iter().map(|(id, count)| (&b""[..], *id, 0, *count));
        for (consumer, id, time, count) in claimed.chain(disowned) {
            let (mut time_text, mut count_text) = (itoa::Buffer::new(), itoa::Buffer::new());
            let (time, count) = (time_text.format(time).as_bytes(), count_text.format(count).as_bytes());
            let id = id.text();
            let words: [&[u8]; 12] =
                [b"XCLAIM", key, group, consumer, b"0", &id, b"TIME", time, b"RETRYCOUNT", count, b"FORCE", b"JUSTID"];
            call.log(&words);
        }
        for id in &self.released {
            call.log(&[b"XACK", key, group, &id.text()]);
        }
        if let Some((last, read)) = self.moved {
            let mut number = itoa::Buffer::new();
            let read = read.map_or("-1", |read| number.format(read)).as_bytes();
            call.log(&[b"XGROUP", b"SETID", key, group, &last.text(), b"ENTRIESREAD", read]);
        }
    }
}
