//! Commands that create the keys, in place of the records of an RDB file: the base of an append-only file with
//! `aof-use-rdb-preamble no`, for people and tools that read no RDB files.
//!
//! A command has at most 64 elements, as in Redis. Commands cannot express how often a key was used, or when a consumer
//! of a stream was seen; and entries that were deleted from a stream are not pending after the commands were executed.

mod elements;
mod stream;

use crate::memory::marked::MarkedBytes;
use crate::persist::rdb_file::{KeyMeta, RetiredFence};
use crate::persist::snapshot::commands::elements::ElementsWriter;
use crate::resp::{begin_word, write_command, write_select, write_word, write_words};
use crate::store::entry::Entry;
use crate::store::value::{RecordBody, WalkedElement, WriteElement};
use crate::store::{ListNode, ValueRef, lock_text};

/// Appends the command that loads a library of functions.
pub(super) fn library(out: &mut Vec<u8>, code: &[u8]) {
    write_command(out, &[b"FUNCTION", b"LOAD", code]);
}

/// Appends the commands that leave the fence of a removed key. The time of the removal is then that of their execution.
pub(super) fn retired_fence(out: &mut Vec<u8>, RetiredFence { db, fence, key, .. }: &RetiredFence<&[u8]>) {
    write_select(out, *db as usize);
    write_command(out, &[b"SETIFGREATER", key, b"", itoa::Buffer::new().format(*fence).as_bytes()]);
    write_command(out, &[b"DEL", key]);
}

/// Appends the commands that create a key.
pub(super) fn entry(out: &mut Vec<u8>, entry: &Entry, meta: KeyMeta<'_>) {
    let key = entry.key();
    match entry.contents() {
        ValueRef::String(text, _) => {
            let text = text.as_slice();
            begin_text(out, key, text.len(), meta);
            out.extend_from_slice(text);
            return end_text(out, key, meta);
        }
        ValueRef::List(list) => {
            for node in list.nodes() {
                elements::push(out, key, element_of(node));
            }
        }
        ValueRef::Set(set) => {
            let members = ElementsWriter::new(key, b"SADD", set.len());
            set.iter().for_each(|member| members.write(WalkedElement::Member(member), out));
        }
        ValueRef::SortedSet(set) => {
            let members = ElementsWriter::new(key, b"ZADD", set.len());
            for (member, score) in set.iter() {
                member.with_text(|member| members.write(WalkedElement::Scored(member, score.get()), out));
            }
        }
        ValueRef::Hash(hash) => {
            let fields = ElementsWriter::new(key, b"HMSET", hash.len());
            hash.for_each_timed(|field, value, deadline| {
                field.with(|field| value.with(|value| fields.write(WalkedElement::Field(field, value, deadline), out)));
            });
        }
        ValueRef::Stream(stream) => {
            stream::begin(out, key, stream);
            stream.chunks().for_each(|(id, chunk)| stream::add(out, key, id, &chunk.to_listpack()));
            stream::end(out, key, stream);
        }
    }
    expire(out, key, meta);
}

/// Appends the commands that create a key with a large value, up to the first element; returns the writer of the rest.
/// `None` if the value is not large.
pub(super) fn large_entry(out: &mut Vec<u8>, entry: &Entry, meta: KeyMeta<'_>) -> Option<RecordBody> {
    let (key, mut tail): (Box<[u8]>, _) = (entry.key().into(), Vec::new());
    let (elements, write): (usize, WriteElement) = match entry.contents() {
        ValueRef::String(..) => {
            let text = entry.long_text()?;
            begin_text(out, &key, text.bytes().len(), meta);
            end_text(&mut tail, &key, meta);
            let append = |element: WalkedElement<'_>, out: &mut MarkedBytes| {
                if let WalkedElement::Piece(bytes) = element {
                    out.extend_from_slice(bytes);
                }
            };
            return Some(RecordBody { elements: text.pieces(), write: Box::new(append), tail: tail.into() });
        }
        ValueRef::List(list) => (list.nodes().len(), Box::new(move |element, out| elements::push(out, &key, element))),
        ValueRef::Set(set) => (set.len(), ElementsWriter::new(key, b"SADD", set.len()).into_writer()),
        ValueRef::SortedSet(set) => (set.len(), ElementsWriter::new(key, b"ZADD", set.len()).into_writer()),
        ValueRef::Hash(hash) => (hash.len(), ElementsWriter::new(key, b"HMSET", hash.len()).into_writer()),
        ValueRef::Stream(stream) => {
            stream::begin(out, &key, stream);
            stream::end(&mut tail, &key, stream);
            (stream.chunk_count(), Box::new(move |element, out| stream::add_chunk(out, &key, element)))
        }
    };
    expire(&mut tail, entry.key(), meta);
    Some(RecordBody { elements, write, tail: tail.into() })
}

/// Appends the command that sets a string, up to its bytes. A key with a fence is written with a command that sets
/// both.
pub(super) fn begin_text(out: &mut Vec<u8>, key: &[u8], len: usize, meta: KeyMeta<'_>) {
    match meta.fence {
        0 => write_words(out, 3, &[b"SET", key]),
        _ => write_words(out, 4, &[b"SETIFGREATER", key]),
    }
    begin_word(out, len);
}

/// Appends the commands behind the bytes of a string.
pub(super) fn end_text(out: &mut Vec<u8>, key: &[u8], meta: KeyMeta<'_>) {
    out.extend_from_slice(b"\r\n");
    if meta.fence != 0 {
        write_word(out, itoa::Buffer::new().format(meta.fence).as_bytes());
    }
    expire(out, key, meta);
}

/// Appends the deadline of a key, if it has one, and its lock record, if it is a lock.
fn expire(out: &mut Vec<u8>, key: &[u8], meta: KeyMeta<'_>) {
    if let Some(ms) = meta.expires_ms {
        write_command(out, &[b"PEXPIREAT", key, itoa::Buffer::new().format(ms).as_bytes()]);
    }
    if let Some(text) = meta.lock {
        write_command(out, &[b"PING", &lock_text::word(key, text)]);
    }
}

fn element_of(node: ListNode<'_>) -> WalkedElement<'_> {
    match node {
        ListNode::Plain(text) => WalkedElement::Plain(text),
        ListNode::Packed(elements, count) => WalkedElement::Packed(elements, count),
    }
}
