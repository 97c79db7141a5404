//! Writes the pieces of a file. The caller puts them in order, [compresses](crate::rdb::compressed) the marked strings,
//! computes the checksum and appends it.

use crate::memory::marked::MarkedBytes;
use crate::persist::rdb_file::{FENCE, LOCK, PRODUCERS, RETIRED_FENCE, RetiredFence, Usage, opcode};
use crate::rdb::checksum::Checksum;
use crate::rdb::{Compression, library as libraries, write_length, write_string};
use crate::store::entry::Entry;
use crate::store::value::RecordBody;
use crate::types;
use crate::types::payload::{self, ValueOptions};

/// Options for writing entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileOptions {
    /// The version up to which types may be used. An entry that needs a higher one is written nevertheless.
    pub version: u16,
    /// True if strings are compressed.
    pub compresses: bool,
}

/// The attributes of a key that are written besides its value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyMeta<'a> {
    /// The deadline, in milliseconds since 1970.
    pub expires_ms: Option<i64>,
    /// The use of the key.
    pub usage: Option<Usage>,
    /// The largest fencing token that the key was written with; 0 without one.
    pub fence: i64,
    /// The state of the lock that the key is, as text.
    pub lock: Option<&'a [u8]>,
}

/// Appends magic and version, which begin a file.
pub(crate) fn header(out: &mut Vec<u8>, version: u16) {
    out.extend_from_slice(format!("REDIS{version:04}").as_bytes());
}

/// Appends a name and a value about the file.
pub(crate) fn aux(out: &mut MarkedBytes, key: &[u8], value: &[u8]) {
    out.push(opcode::AUX);
    // As in Redis, auxiliary fields are not compressed.
    write_string(out, key, Compression::Never);
    write_string(out, value, Compression::Never);
}

/// Appends the fence of a removed key.
pub(crate) fn retired_fence(out: &mut MarkedBytes, RetiredFence { db, fence, removed_ms, key }: &RetiredFence<&[u8]>) {
    let (mut value, mut number) = (Vec::with_capacity(key.len() + 48), itoa::Buffer::new());
    for text in [number.format(*db), itoa::Buffer::new().format(*fence), itoa::Buffer::new().format(*removed_ms)] {
        value.extend_from_slice(text.as_bytes());
        value.push(b' ');
    }
    value.extend_from_slice(key);
    aux(out, RETIRED_FENCE, &value);
}

/// Appends the number of the database that the next keys belong to.
pub(crate) fn select(out: &mut Vec<u8>, db: usize) {
    out.push(opcode::SELECT);
    write_length(out, db);
}

/// Appends the number of keys in the database, and the number of keys with a deadline.
pub(crate) fn resize(out: &mut Vec<u8>, keys: usize, with_ttl: usize) {
    out.push(opcode::RESIZE);
    write_length(out, keys);
    write_length(out, with_ttl);
}

/// Appends a library of functions.
pub(crate) fn library(out: &mut MarkedBytes, code: &[u8], options: FileOptions) {
    libraries::write(out, code, options.compression());
}

/// Appends a key; returns the lowest version of a file that may contain it.
pub(crate) fn entry(out: &mut MarkedBytes, entry: &Entry, meta: KeyMeta<'_>, options: FileOptions) -> u16 {
    let kind = begin_entry(out, entry, meta, options);
    payload::write_body(out, kind, entry, options.value());
    payload::lowest_version(kind)
}

/// Appends a key with a large value, up to the first element; returns the lowest version of a file that may contain the
/// value, and the writer of the rest. `None` if the value is not large.
pub(crate) fn large_entry(
    out: &mut MarkedBytes,
    entry: &Entry,
    meta: KeyMeta<'_>,
    options: FileOptions,
) -> Option<(u16, RecordBody)> {
    let kind = begin_entry(out, entry, meta, options);
    let body = payload::begin_body(out, kind, entry, options.value())?;
    Some((payload::lowest_version(kind), body))
}

/// Appends a key with a string, up to the value, which [`string`] appends.
pub(crate) fn text_entry(out: &mut MarkedBytes, entry: &Entry, meta: KeyMeta<'_>, options: FileOptions) {
    begin_entry(out, entry, meta, options);
}

/// Appends a string.
pub(crate) fn string(out: &mut MarkedBytes, text: &[u8], options: FileOptions) {
    write_string(out, text, options.compression());
}

/// Appends a key up to its value; returns the number of its type.
fn begin_entry(out: &mut MarkedBytes, entry: &Entry, meta: KeyMeta<'_>, options: FileOptions) -> u8 {
    if meta.fence != 0 {
        aux(out, FENCE, itoa::Buffer::new().format(meta.fence).as_bytes());
    }
    if let Some(text) = meta.lock {
        aux(out, LOCK, text);
    }
    let kind = payload::kind_of(entry, options.version);
    if let Some(text) = types::beside_value(entry, kind) {
        aux(out, PRODUCERS, &text);
    }
    if let Some(ms) = meta.expires_ms {
        out.push(opcode::EXPIRES_MS);
        out.extend_from_slice(&ms.to_le_bytes());
    }
    match meta.usage {
        Some(Usage::Idle(seconds)) => {
            out.push(opcode::IDLE);
            write_length(out, usize::try_from(seconds).unwrap_or(usize::MAX));
        }
        Some(Usage::Frequency(count)) => out.extend_from_slice(&[opcode::FREQUENCY, count]),
        None => {}
    }
    out.push(kind);
    write_string(out, entry.key(), options.compression());
    kind
}

impl FileOptions {
    fn compression(self) -> Compression {
        if self.compresses { Compression::Later } else { Compression::Never }
    }

    fn value(self) -> ValueOptions {
        ValueOptions { compression: self.compression(), len_max: usize::MAX }
    }
}

/// Appends the end record, behind which the caller appends the checksum.
pub(crate) fn end(out: &mut Vec<u8>) {
    out.push(opcode::END);
}

/// Changes the checksum of a file that began with the header of one version to that with the header of another: the
/// version that the keys need is known at the end only.
pub(crate) fn replace_version(checksum: &mut Checksum, before: u16, after: u16) {
    let (mut old, mut new) = (Vec::new(), Vec::new());
    header(&mut old, before);
    header(&mut new, after);
    checksum.replace_start(&old, &new);
}
