//! Streams: their entries, then their counters and groups.

use crate::resp::{write_command, write_word, write_words};
use crate::store::value::WalkedElement;
use crate::store::{ConsumerGroup, StreamId, StreamRef, entries_of};

/// Appends the commands before the entries. An empty stream is created with an entry that is trimmed at once and has
/// the last ID, which must not be 0-0.
pub(super) fn begin(out: &mut Vec<u8>, key: &[u8], stream: StreamRef<'_>) {
    if stream.len() == 0 {
        let id = stream.last().max(StreamId::new(0, 1)).text();
        write_command(out, &[b"XADD", key, b"MAXLEN", b"0", &id, b"x", b"y"]);
    }
}

/// Appends the entries of a node: its listpack, and the ID of its first entry.
pub(super) fn add(out: &mut Vec<u8>, key: &[u8], first: StreamId, listpack: &[u8]) {
    entries_of(first, listpack, |entry| {
        write_words(out, 3 + 2 * entry.fields.len(), &[b"XADD", key, &entry.id.text()]);
        for (field, value) in entry.fields {
            field.with_text(|text| write_word(out, text));
            value.with_text(|text| write_word(out, text));
        }
    });
}

/// Appends the entries of a node that is an element of a record.
pub(super) fn add_chunk(out: &mut Vec<u8>, key: &[u8], chunk: WalkedElement<'_>) {
    if let WalkedElement::Chunk(first, listpack) = chunk {
        add(out, key, StreamId::from_bytes(first), listpack);
    }
}

/// Appends the commands behind the entries.
pub(super) fn end(out: &mut Vec<u8>, key: &[u8], stream: StreamRef<'_>) {
    let (last, max_deleted, mut number) = (stream.last().text(), stream.max_deleted().text(), itoa::Buffer::new());
    let added = number.format(stream.added()).as_bytes();
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
    for consumer in group.consumers() {
        let name = &consumer.name;
        write_command(out, &[b"XGROUP", b"CREATECONSUMER", key, group_name, name]);
        for id in consumer.pending.keys() {
            let Some(pending) = group.pending().get(id) else { continue };
            let (mut time, mut count) = (itoa::Buffer::new(), itoa::Buffer::new());
            let (time, count) = (time.format(pending.time).as_bytes(), count.format(pending.count).as_bytes());
            let mut claim: Vec<&[u8]> = vec![b"XCLAIM", key, group_name, name, b"0"];
            let id = id.text();
            claim.extend([&id[..], b"TIME", time, b"RETRYCOUNT", count, b"JUSTID", b"FORCE"]);
            write_command(out, &claim);
        }
    }
}
