//! Values as DUMP and RDB files hold them. The format's numbers, lengths and strings are in [`rdb`].
//!
//! A packed collection is written as the bytes that its entry holds, and read as such once they were checked: RESTORE
//! takes bytes from a client, so every length, count and order in them is verified.

use crate::memory::marked::MarkedBytes;
use crate::rdb::{self, PayloadError, Reader, kind, write_length, write_string};
use crate::store::ValueRef;
use crate::store::entry::Entry;
use crate::store::value::{RecordBody, WalkedElement, WriteElement};
#[cfg(feature = "internals")]
use crate::store::{Hasher, limits::ValueLimits};
use crate::types::{hash, list, set, sorted_set, stream};

pub(crate) use crate::types::empty::skip as skip_empty;
pub(crate) use crate::types::hash::read_of_valkey as read_hash_of_valkey;
pub(crate) use crate::types::options::{ValueOptions, ValueTarget};

/// Appends the number of the type and the value of an entry, as DUMP does; returns the lowest version that includes the
/// type.
pub(crate) fn write(out: &mut MarkedBytes, entry: &Entry, options: ValueOptions) -> u16 {
    let of = kind_of(entry, rdb::VERSION_MAX);
    out.push(of);
    write_body(out, of, entry, options);
    lowest_version(of)
}

/// Returns the number of the type that an entry is written as: the lowest that expresses the entry fully; where
/// `version` has none, the lowest that expresses most of it.
pub(crate) fn kind_of(entry: &Entry, version: u16) -> u8 {
    match entry.contents() {
        ValueRef::String(..) => kind::STRING,
        ValueRef::List(_) => kind::LIST_QUICKLIST_2,
        ValueRef::Set(set) => set::kind_of(set),
        ValueRef::SortedSet(set) => sorted_set::kind_of(set),
        ValueRef::Hash(hash) => hash::kind_of(hash),
        ValueRef::Stream(stream) => stream::kind_of(stream, version),
    }
}

/// Appends the value of an entry, without the number of the type that [`kind_of`] has returned.
pub(crate) fn write_body(out: &mut MarkedBytes, of: u8, entry: &Entry, options: ValueOptions) {
    match entry.contents() {
        ValueRef::String(text, _) => write_string(out, text.as_slice(), options.compression),
        ValueRef::List(list) => list::write(out, list, options),
        ValueRef::Set(set) => set::write(out, set, options),
        ValueRef::SortedSet(set) => sorted_set::write(out, set, options),
        ValueRef::Hash(hash) => hash::write(out, hash, options),
        ValueRef::Stream(stream) => stream::write(out, of, stream, options),
    }
}

/// Appends the value of an entry up to its elements, of the type that [`kind_of`] has returned; returns the writer of
/// the rest. The elements of a long string are pieces of it, and the string is not compressed then. `None` for a small
/// value.
pub(crate) fn begin_body(out: &mut MarkedBytes, of: u8, entry: &Entry, options: ValueOptions) -> Option<RecordBody> {
    let (elements, write): (usize, WriteElement) = match entry.contents() {
        ValueRef::List(list) => (list.nodes().len(), Box::new(list::begin(out, list, options))),
        ValueRef::Set(set) => (set.len(), Box::new(set::begin(out, set, options))),
        ValueRef::SortedSet(set) => (set.len(), Box::new(sorted_set::begin(out, set, options))),
        ValueRef::Hash(hash) => (hash.len(), Box::new(hash::begin(out, hash, options))),
        ValueRef::Stream(stream) => (stream.chunk_count(), Box::new(stream::begin(out, stream, options))),
        ValueRef::String(..) => {
            let text = entry.long_text()?;
            write_length(out, text.bytes().len());
            let append = |element: WalkedElement<'_>, out: &mut MarkedBytes| {
                if let WalkedElement::Piece(bytes) = element {
                    out.extend_from_slice(bytes);
                }
            };
            (text.pieces(), Box::new(append))
        }
    };
    let mut tail = MarkedBytes::default();
    if let ValueRef::Stream(stream) = entry.contents() {
        stream::end(&mut tail, of, stream, options);
    }
    Some(RecordBody { elements, write, tail })
}

/// Returns the lowest version that includes a type.
pub(crate) fn lowest_version(of: u8) -> u16 {
    match of {
        kind::HASH_METADATA | kind::HASH_LISTPACK_EX => rdb::VERSION_7_4,
        kind::STREAM_LISTPACKS_3 => rdb::VERSION_7_2,
        _ => rdb::VERSION,
    }
}

/// Reads a payload of DUMP and writes the value again; returns the new payload.
///
/// # Errors
/// A description of the fault of the payload.
#[cfg(feature = "internals")]
pub fn rewrite(payload: &[u8], compresses: bool) -> Result<Vec<u8>, PayloadError> {
    /// The maximum length of a string, in bytes.
    const LEN_MAX: usize = 1 << 20;
    let options = ValueOptions { compression: rdb::Compression::at_once_if(compresses), len_max: LEN_MAX };
    let (kind, mut reader) = rdb::open(payload, true)?;
    let hasher = Hasher::new();
    let target = ValueTarget { key: b"key", deadline: None, limits: ValueLimits::default(), hasher: &hasher };
    let entry = read(kind, &mut reader, target, options)?;
    let mut body = MarkedBytes::default();
    let version = write(&mut body, &entry, options);
    Ok(rdb::seal(body.into_bytes(), version))
}

/// Reads a value of a type.
///
/// # Errors
/// [`PayloadError`].
pub(crate) fn read(
    of: u8,
    reader: &mut Reader<'_>,
    target: ValueTarget<'_>,
    options: ValueOptions,
) -> Result<Entry, PayloadError> {
    let entry = match of {
        kind::STRING => {
            let text = reader.string(options.len_max);
            text.map(|text| Entry::text(target.key, &text, target.deadline))
        }
        kind::LIST | kind::LIST_ZIPLIST | kind::LIST_QUICKLIST | kind::LIST_QUICKLIST_2 => {
            list::read(of, reader, target, options)
        }
        kind::SET | kind::SET_INTSET | kind::SET_LISTPACK => set::read(of, reader, target, options),
        kind::ZSET | kind::ZSET_2 | kind::ZSET_ZIPLIST | kind::ZSET_LISTPACK => {
            sorted_set::read(of, reader, target, options)
        }
        kind::HASH
        | kind::HASH_ZIPMAP
        | kind::HASH_ZIPLIST
        | kind::HASH_LISTPACK
        | kind::HASH_METADATA
        | kind::HASH_LISTPACK_EX => hash::read(of, reader, target, options),
        kind::STREAM_LISTPACKS | kind::STREAM_LISTPACKS_2 | kind::STREAM_LISTPACKS_3 => {
            stream::read(of, reader, target, options)
        }
        _ => None,
    };
    entry.ok_or(PayloadError::Format)
}
