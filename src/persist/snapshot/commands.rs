//! Commands that create the keys, in place of the records of an RDB file: the base of an append-only file with
//! `aof-use-rdb-preamble no`, for people and tools that read no RDB files.
//!
//! Commands cannot express how often a key was used, or when a consumer of a stream was seen; and entries that were
//! deleted from a stream are not pending after the commands were executed.

use crate::persist::rdb_file::{KeyMeta, RetiredFence};
use crate::rdb::Compression;
use crate::resp::{write_command, write_select};
use crate::store::SideRecord;
use crate::store::entry::Entry;
use crate::store::value::RecordBody;
use crate::types::payload::{self, ValueOptions};
use crate::types::{self, string};

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
    match &types::spec_of(entry).commands {
        Some(commands) => (commands.write)(out, entry, meta.fence),
        None => {
            let options = ValueOptions { compression: Compression::Never, len_max: usize::MAX };
            write_command(out, &[b"RESTORE", entry.key(), b"0", &payload::dump(entry, options)]);
        }
    }
    expire(out, entry.key(), meta);
}

/// Appends the commands that create a key with a large value, up to the first element; returns the writer of the rest.
/// `None` if the value is not large.
pub(super) fn large_entry(out: &mut Vec<u8>, entry: &Entry, meta: KeyMeta<'_>) -> Option<RecordBody> {
    let mut body = (types::spec_of(entry).commands.as_ref()?.begin)(out, entry, meta.fence)?;
    expire(&mut body.tail, entry.key(), meta);
    Some(body)
}

/// Appends the command that sets a string, up to its bytes.
pub(super) fn begin_text(out: &mut Vec<u8>, key: &[u8], len: usize, meta: KeyMeta<'_>) {
    string::begin_command(out, key, len, meta.fence);
}

/// Appends the commands behind the bytes of a string.
pub(super) fn end_text(out: &mut Vec<u8>, key: &[u8], meta: KeyMeta<'_>) {
    string::end_command(out, meta.fence);
    expire(out, key, meta);
}

/// Appends the deadline of a key, if it has one, and its lock record, if it is a lock.
fn expire(out: &mut Vec<u8>, key: &[u8], meta: KeyMeta<'_>) {
    if let Some(ms) = meta.expires_ms {
        write_command(out, &[b"PEXPIREAT", key, itoa::Buffer::new().format(ms).as_bytes()]);
    }
    if let Some(text) = meta.lock {
        write_command(out, &[b"PING", &SideRecord::Lock { key, text }.word()]);
    }
}
