//! The formats of streams, and their row in the table of data types. In payloads:
//!
//! ```text
//! chunks: ID of the first entry as 16 bytes, listpack
//! length, last ID, first ID, largest deleted ID, entries added
//! groups: name, last ID, entries read
//!     pending: ID as 16 bytes, time as 8 bytes, count
//!     consumers: name, time seen, time active
//!         pending: ID as 16 bytes
//!     pending without a consumer, in the order of their release: ID as 16 bytes
//! seconds and number of names that are remembered
//! producers: name
//!     entries: name, ID
//! entries added with a name, entries added again
//! ```
//!
//! Each list is preceded by its length. The oldest form lacks the first and the largest deleted ID and the counts of
//! entries added and read, the next one the time active, the third everything behind the groups, and the fourth the
//! pending entries without a consumer. A form without these has them as those of the consumer with the empty name, with
//! the time 0: Redis before 8.8 can read it, and shows it as 8.8 does.
//!
//! Dumps have the form that expresses everything, files and the log none of the last two unless that is set: servers
//! older than 8.6 would refuse the whole file. There, the producers are beside the value.

use crate::memory::marked::MarkedBytes;
use crate::rdb::shape::PayloadPart::{self, Bytes, Length, Repeat, Str};
use crate::rdb::{self, Compression, Reader, kind, write_length, write_string};
use crate::resp::{write_command, write_word, write_words};
use crate::store::entry::Entry;
use crate::store::value::{DataType, RecordBody, Type, WalkedElement};
use crate::store::{
    BigStream, ConsumerGroup, ConsumerNumber, PendingEntry, Producers, Remembrance, SideRecord, Stream, StreamChunk,
    StreamId, StreamRef, entries_of,
};
use crate::types::options::{ValueOptions, ValueTarget};
use crate::types::spec::{CommandFormat, PayloadFormat, TypeNumber, TypeSpec};

/// The name of the consumer, created at the time 0, as whose an entry without a consumer is written, with the time 0, in
/// forms that have no such entries.
const NOBODY: &[u8] = b"";

const CHUNKS: PayloadPart = Repeat(&[Str, Str]);
/// The pending entries of a group.
const PENDING: PayloadPart = Repeat(&[Bytes(16), Bytes(8), Length]);
/// The pending entries of a consumer, or of none.
const OWN: PayloadPart = Repeat(&[Bytes(16)]);
/// The producers with their entries.
const PRODUCERS: PayloadPart = Repeat(&[Str, Repeat(&[Str, Length, Length])]);

#[rustfmt::skip] // a line for each list
pub(super) const SPEC: TypeSpec = TypeSpec {
    of: Type::Stream,
    encoding: |_| "stream",
    module: None,
    numbers: &[
        TypeNumber::new(kind::STREAM_LISTPACKS, &[
            CHUNKS, Length, Length, Length,
            Repeat(&[Str, Length, Length, PENDING, Repeat(&[Str, Bytes(8), OWN])]),
        ]),
        TypeNumber::new(kind::STREAM_LISTPACKS_2, &[
            CHUNKS, Length, Length, Length, Length, Length, Length, Length, Length,
            Repeat(&[Str, Length, Length, Length, PENDING, Repeat(&[Str, Bytes(8), OWN])]),
        ]),
        TypeNumber::new(kind::STREAM_LISTPACKS_3, &[
            CHUNKS, Length, Length, Length, Length, Length, Length, Length, Length,
            Repeat(&[Str, Length, Length, Length, PENDING, Repeat(&[Str, Bytes(16), OWN])]),
        ])
        .since(rdb::VERSION_7_2),
        TypeNumber::new(kind::STREAM_LISTPACKS_4, &[
            CHUNKS, Length, Length, Length, Length, Length, Length, Length, Length,
            Repeat(&[Str, Length, Length, Length, PENDING, Repeat(&[Str, Bytes(16), OWN])]),
            Length, Length, PRODUCERS, Length, Length,
        ])
        .since(rdb::VERSION_8_6),
        TypeNumber::new(kind::STREAM_LISTPACKS_5, &[
            CHUNKS, Length, Length, Length, Length, Length, Length, Length, Length,
            Repeat(&[Str, Length, Length, Length, PENDING, Repeat(&[Str, Bytes(16), OWN]), OWN]),
            Length, Length, PRODUCERS, Length, Length,
        ])
        .since(rdb::VERSION_8_8),
    ],
    payload: PayloadFormat {
        number: |entry, version| number_of(Stream::read(entry), version),
        write: |out, of, entry, options| write(out, of, Stream::read(entry), options),
        begin: |out, of, entry, options| {
            let stream = Stream::read(entry);
            let mut body = RecordBody::new(stream.chunk_count(), begin(out, stream, options));
            end(&mut body.tail, of, stream, options);
            Some(body)
        },
        read,
    },
    commands: Some(CommandFormat {
        write: |out, entry, _| {
            let (key, stream) = (entry.key(), Stream::read(entry));
            begin_commands(out, key, stream);
            stream.chunks().for_each(|(id, chunk)| add_entries(out, key, id, &chunk.to_listpack()));
            end_commands(out, key, stream);
        },
        begin: |out, entry, _| {
            let (key, stream): (Box<[u8]>, _) = (entry.key().into(), Stream::read(entry));
            begin_commands(out, &key, stream);
            let mut tail = MarkedBytes::default();
            end_commands(&mut tail, &key, stream);
            let body = RecordBody::new(stream.chunk_count(), move |element, out| add_chunk(out, &key, element));
            Some(RecordBody { tail, ..body })
        },
    }),
    digest: |digest, entry| {
        digest.mix_type(6);
        for entry in Stream::read(entry).range(StreamId::MIN, StreamId::MAX) {
            digest.mix(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
            for (field, value) in entry.fields {
                field.with_text(|text| digest.mix(text));
                value.with_text(|text| digest.mix(text));
            }
        }
    },
};

/// Returns the number of the type: an older one where it expresses the same, because older servers can read it. In the
/// one that Redis 7.0 can read, the last active time of a consumer is the time when it was last seen. A version without
/// active times gets none.
fn number_of(stream: StreamRef<'_>, version: u16) -> u8 {
    if version >= rdb::VERSION_8_8 && stream.groups().any(|(_, group)| group.disowned_count() > 0) {
        return kind::STREAM_LISTPACKS_5;
    }
    if version >= rdb::VERSION_8_6 && stream.producers().is_some() {
        return kind::STREAM_LISTPACKS_4;
    }
    let mut consumers = stream.groups().flat_map(|(_, group)| group.consumers());
    let is_plain = version < rdb::VERSION_7_2 || consumers.all(|consumer| consumer.active == consumer.seen);
    if is_plain { kind::STREAM_LISTPACKS_2 } else { kind::STREAM_LISTPACKS_3 }
}

fn write(out: &mut MarkedBytes, of: u8, stream: StreamRef<'_>, options: ValueOptions) {
    let write = begin(out, stream, options);
    for (id, chunk) in stream.chunks() {
        write(WalkedElement::Chunk(id.to_bytes(), &chunk.to_listpack()), out);
    }
    end(out, of, stream, options);
}

/// Appends everything before the chunks; returns the function that appends a chunk.
fn begin(
    out: &mut MarkedBytes,
    stream: StreamRef<'_>,
    options: ValueOptions,
) -> impl Fn(WalkedElement<'_>, &mut MarkedBytes) + use<> {
    write_length(out, stream.chunk_count());
    move |element, out| {
        let WalkedElement::Chunk(id, listpack) = element else { return };
        write_string(out, &id, Compression::Never);
        write_string(out, listpack, options.compression);
    }
}

/// Appends everything behind the chunks.
fn end(out: &mut MarkedBytes, of: u8, stream: StreamRef<'_>, options: ValueOptions) {
    write_length(out, stream.len());
    [stream.last(), stream.first(), stream.max_deleted()].into_iter().for_each(|id| write_id(out, id));
    write_length(out, stream.added() as usize);
    write_length(out, stream.group_count());
    for (name, group) in stream.groups() {
        write_string(out, name, options.compression);
        write_id(out, group.last);
        write_length(out, group.read.unwrap_or(u64::MAX) as usize);
        write_length(out, group.pending().len());
        for (id, pending) in group.pending() {
            out.extend_from_slice(&id.to_bytes());
            out.extend_from_slice(&pending.delivery_time().to_le_bytes());
            write_length(out, pending.count as usize);
        }
        let mut disowned: Vec<StreamId> = group.disowned().map(|(id, _)| id).collect();
        let apart = if of == kind::STREAM_LISTPACKS_5 { std::mem::take(&mut disowned) } else { Vec::new() };
        let is_added = !disowned.is_empty() && group.find_consumer(NOBODY).is_none();
        write_length(out, group.consumer_count() + usize::from(is_added));
        let mut write =
            |name: &[u8], [seen, active]: [i64; 2], own: &mut dyn Iterator<Item = StreamId>, count: usize| {
                write_string(out, name, options.compression);
                out.extend_from_slice(&seen.to_le_bytes());
                if has_active_times(of) {
                    out.extend_from_slice(&active.to_le_bytes());
                }
                write_length(out, count);
                own.for_each(|id| out.extend_from_slice(&id.to_bytes()));
            };
        if is_added {
            write(NOBODY, [0, 0], &mut disowned.iter().copied(), disowned.len());
        }
        for consumer in group.consumers() {
            let more: &[StreamId] = if *consumer.name == *NOBODY { &disowned } else { &[] };
            let mut own = consumer.pending.keys().chain(more).copied();
            write(&consumer.name, [consumer.seen, consumer.active], &mut own, consumer.pending.len() + more.len());
        }
        if of == kind::STREAM_LISTPACKS_5 {
            write_length(out, apart.len());
            apart.iter().for_each(|id| out.extend_from_slice(&id.to_bytes()));
        }
    }
    if has_producers(of) {
        write_producers(out, stream.producers(), options);
    }
}

/// Returns true if a form has the active times of consumers.
fn has_active_times(of: u8) -> bool {
    of >= kind::STREAM_LISTPACKS_3
}

/// Returns true if a form has the producers.
pub(super) fn has_producers(of: u8) -> bool {
    matches!(of, kind::STREAM_LISTPACKS_4 | kind::STREAM_LISTPACKS_5)
}

/// Appends the producers with their limits and totals; those of a new stream of Redis if there are none.
fn write_producers(out: &mut MarkedBytes, producers: Option<&Producers>, options: ValueOptions) {
    let Remembrance { duration_s, max_size } = producers.map_or(Remembrance::DEFAULT, Producers::limits);
    let (count, (added, duplicates)) = producers.map_or_else(Default::default, |of| (of.counts().0, of.totals()));
    [duration_s as usize, max_size, count].into_iter().for_each(|number| write_length(out, number));
    for (producer, count, entries) in producers.iter().flat_map(|producers| producers.iter()) {
        write_string(out, producer, options.compression);
        write_length(out, count);
        entries.for_each(|(name, id)| {
            write_string(out, name, options.compression);
            write_id(out, id);
        });
    }
    [added, duplicates].into_iter().for_each(|total| write_length(out, total as usize));
}

fn write_id(out: &mut Vec<u8>, id: StreamId) {
    write_length(out, id.ms as usize);
    write_length(out, id.seq as usize);
}

/// Reads a value; `None` if it violates the format.
fn read(of: u8, reader: &mut Reader<'_>, target: ValueTarget<'_>, options: ValueOptions) -> Option<Entry> {
    let mut stream = BigStream::default();
    let top = read_chunks(reader, &mut stream, options)?;
    let has_counters = of != kind::STREAM_LISTPACKS;
    let len = reader.length()?;
    if len != stream.len() as u64 {
        return None;
    }
    let last = read_id(reader)?;
    let (max_deleted, added) = if has_counters {
        read_id(reader)?; // the first ID is known from the entries
        (read_id(reader)?, reader.length()?)
    } else {
        (StreamId::MIN, len)
    };
    if top.is_some_and(|top| last < top) || max_deleted > last || !(len..=BigStream::COUNT_MAX).contains(&added) {
        return None;
    }
    stream.set_last(last, Some(added), Some(max_deleted));
    stream.restore_first();
    for _ in 0..reader.length()? {
        let name = reader.string(options.len_max)?;
        let group = read_group(of, reader, &stream, options)?;
        if !stream.add_group(&name, group) {
            return None;
        }
    }
    if has_producers(of) {
        *stream.producers_mut() = read_producers(reader, options)?.map(Box::new);
    }
    Some(Entry::stream(target.key, stream, target.deadline))
}

/// Reads the producers; the inner `None` for those of a new stream, which Redis writes for every stream.
fn read_producers(reader: &mut Reader<'_>, options: ValueOptions) -> Option<Option<Producers>> {
    let limits = Remembrance::new(reader.length()?, reader.length()?)?;
    let mut producers = Producers::new(limits);
    for _ in 0..reader.length()? {
        let producer = reader.string(options.len_max)?;
        for _ in 0..reader.length()? {
            let name = reader.string(options.len_max)?;
            let id = read_id(reader)?;
            producers.restore(&producer, &name, id).then_some(())?;
        }
    }
    producers.set_totals(reader.length()?, reader.length()?).then_some(())?;
    let is_new = limits == Remembrance::DEFAULT && producers.counts().1 == 0 && producers.totals() == (0, 0);
    Some((!is_new).then_some(producers))
}

/// Reads the chunks; returns the largest ID of an entry.
fn read_chunks(reader: &mut Reader<'_>, stream: &mut BigStream, options: ValueOptions) -> Option<Option<StreamId>> {
    let mut top: Option<StreamId> = None;
    for _ in 0..reader.length()? {
        let id = reader.string(options.len_max)?;
        let id = StreamId::from_bytes(id.as_ref().try_into().ok()?);
        let bytes = reader.string(options.len_max)?;
        let (live, first, last) = StreamChunk::validate(&bytes, id)?;
        if first < id || top.is_some_and(|top| first <= top) {
            return None;
        }
        top = Some(last);
        if live > 0 {
            stream.push_chunk(id, &bytes, live);
        }
    }
    Some(top)
}

fn read_id(reader: &mut Reader<'_>) -> Option<StreamId> {
    Some(StreamId::new(reader.length()?, reader.length()?))
}

fn read_group(of: u8, reader: &mut Reader<'_>, stream: &BigStream, options: ValueOptions) -> Option<ConsumerGroup> {
    /// The count of entries that a group has read, when it is unknown.
    const UNKNOWN: u64 = u64::MAX;
    let last = read_id(reader)?;
    let read = match of {
        kind::STREAM_LISTPACKS => stream.added_up_to(last),
        _ => Some(reader.length()?).filter(|read| *read != UNKNOWN),
    };
    if read.is_some_and(|read| read > BigStream::COUNT_MAX) {
        return None;
    }
    let mut group = ConsumerGroup::new(last, read);
    let mut pending = std::collections::BTreeMap::new();
    for _ in 0..reader.length()? {
        let id = StreamId::from_bytes(reader.array()?);
        let (time, count) = (i64::from_le_bytes(reader.array()?), reader.length()?);
        if count > BigStream::COUNT_MAX || pending.insert(id, (time, count)).is_some() {
            return None;
        }
    }
    for _ in 0..reader.length()? {
        let name = reader.string(options.len_max)?;
        let seen = i64::from_le_bytes(reader.array()?);
        let active = if has_active_times(of) { i64::from_le_bytes(reader.array()?) } else { seen };
        let (number, is_new) = group.create_consumer(&name, seen);
        if !is_new {
            return None;
        }
        group.consumer_mut(number).active = active;
        let is_nobody = of != kind::STREAM_LISTPACKS_5 && *name == *NOBODY;
        read_pending(reader, &mut group, (number, is_nobody), &mut pending)?;
        let consumer = group.consumer(number);
        if is_nobody && consumer.seen == 0 && consumer.pending.is_empty() {
            group.delete_consumer(NOBODY);
        }
    }
    if of == kind::STREAM_LISTPACKS_5 {
        for _ in 0..reader.length()? {
            let id = StreamId::from_bytes(reader.array()?);
            let (_, count) = pending.remove(&id)?;
            group.disown(id, count);
        }
    }
    // Every entry is pending for a consumer, if only for nobody.
    pending.is_empty().then_some(group)
}

/// Reads the pending entries of a consumer, each of which is among the pending entries of the group. Those of
/// [`NOBODY`] may be without a consumer.
fn read_pending(
    reader: &mut Reader<'_>,
    group: &mut ConsumerGroup,
    (consumer, is_nobody): (ConsumerNumber, bool),
    pending: &mut std::collections::BTreeMap<StreamId, (i64, u64)>,
) -> Option<()> {
    for _ in 0..reader.length()? {
        let id = StreamId::from_bytes(reader.array()?);
        let (time, count) = pending.remove(&id)?;
        if time == 0 && is_nobody {
            group.disown(id, count);
        } else {
            group.assign(id, PendingEntry { time, count, consumer: Some(consumer) });
        }
    }
    Some(())
}

/// Appends the commands before the entries. An empty stream is created with an entry that is trimmed at once and has
/// the last ID, which must not be 0-0.
fn begin_commands(out: &mut Vec<u8>, key: &[u8], stream: StreamRef<'_>) {
    if stream.len() == 0 {
        let id = stream.last().max(StreamId::new(0, 1)).text();
        write_command(out, &[b"XADD", key, b"MAXLEN", b"0", &id, b"x", b"y"]);
    }
}

/// Appends the entries of a node: its listpack, and the ID of its first entry.
fn add_entries(out: &mut Vec<u8>, key: &[u8], first: StreamId, listpack: &[u8]) {
    entries_of(first, listpack, |entry| {
        write_words(out, 3 + 2 * entry.fields.len(), &[b"XADD", key, &entry.id.text()]);
        for (field, value) in entry.fields {
            field.with_text(|text| write_word(out, text));
            value.with_text(|text| write_word(out, text));
        }
    });
}

/// Appends the entries of a node that is an element of a record.
fn add_chunk(out: &mut Vec<u8>, key: &[u8], chunk: WalkedElement<'_>) {
    if let WalkedElement::Chunk(first, listpack) = chunk {
        add_entries(out, key, StreamId::from_bytes(first), listpack);
    }
}

/// Appends the commands behind the entries.
fn end_commands(out: &mut Vec<u8>, key: &[u8], stream: StreamRef<'_>) {
    let (last, max_deleted, mut number) = (stream.last().text(), stream.max_deleted().text(), itoa::Buffer::new());
    let added = number.format(stream.added()).as_bytes();
    if let Some(producers) = stream.producers() {
        write_command(out, &[b"PING", &SideRecord::Producers { key, text: &producers.whole_text() }.word()]);
    }
    write_command(out, &[b"XSETID", key, &last, b"ENTRIESADDED", added, b"MAXDELETEDID", &max_deleted]);
    for (name, group) in stream.groups() {
        let (last, mut number) = (group.last.text(), itoa::Buffer::new());
        let read = group.read.map_or("-1", |read| number.format(read)).as_bytes();
        write_command(out, &[b"XGROUP", b"CREATE", key, name, &last, b"ENTRIESREAD", read]);
        write_consumers(out, key, name, group);
    }
}

/// Appends the consumers of a group, and their pending entries.
fn write_consumers(out: &mut Vec<u8>, key: &[u8], group_name: &[u8], group: &ConsumerGroup) {
    let claim = |out: &mut Vec<u8>, name: &[u8], id: StreamId, pending: &PendingEntry| {
        let (mut time, mut count) = (itoa::Buffer::new(), itoa::Buffer::new());
        let (time, count) = (time.format(pending.delivery_time()).as_bytes(), count.format(pending.count).as_bytes());
        let mut claim: Vec<&[u8]> = vec![b"XCLAIM", key, group_name, name, b"0"];
        let id = id.text();
        claim.extend([&id[..], b"TIME", time, b"RETRYCOUNT", count, b"JUSTID", b"FORCE"]);
        write_command(out, &claim);
    };
    for consumer in group.consumers() {
        let name = &consumer.name;
        write_command(out, &[b"XGROUP", b"CREATECONSUMER", key, group_name, name]);
        for id in consumer.pending.keys() {
            let Some(pending) = group.pending().get(id) else { continue };
            claim(out, name, *id, pending);
        }
    }
    group.disowned().for_each(|(id, pending)| claim(out, NOBODY, id, pending));
}
