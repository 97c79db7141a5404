//! The form in which a snapshot is written.

use crate::memory::marked::MarkedBytes;
use crate::persist::rdb_file::{self, FileOptions, KeyMeta, RetiredFence};
use crate::persist::snapshot::commands;
use crate::resp::write_select;
use crate::store::entry::Entry;
use crate::store::value::RecordBody;

#[derive(Clone, Copy, Debug)]
pub(crate) enum SnapshotForm {
    /// The records of an RDB file, of a version, with a checksum if the flag is set.
    File(FileOptions, bool),
    Commands,
}

impl SnapshotForm {
    /// Returns the version up to which an RDB file may use types; 0 for commands.
    pub(crate) fn version(self) -> u16 {
        match self {
            SnapshotForm::File(options, _) => options.version,
            SnapshotForm::Commands => 0,
        }
    }

    /// Returns true if the file ends with a checksum.
    pub(super) fn has_checksum(self) -> bool {
        matches!(self, SnapshotForm::File(_, true))
    }

    pub(super) fn select(self, out: &mut MarkedBytes, db: usize) {
        match self {
            SnapshotForm::File(..) => rdb_file::select(out, db),
            SnapshotForm::Commands => write_select(out, db),
        }
    }

    pub(crate) fn library(self, out: &mut MarkedBytes, code: &[u8]) {
        match self {
            SnapshotForm::File(options, _) => rdb_file::library(out, code, options),
            SnapshotForm::Commands => commands::library(out, code),
        }
    }

    /// Appends the fence of a removed key.
    pub(super) fn retired_fence(self, out: &mut MarkedBytes, retired: &RetiredFence<&[u8]>) {
        match self {
            SnapshotForm::File(..) => rdb_file::retired_fence(out, retired),
            SnapshotForm::Commands => commands::retired_fence(out, retired),
        }
    }

    /// Appends a key; returns the lowest version of a file that may contain it.
    pub(super) fn entry(self, out: &mut MarkedBytes, entry: &Entry, meta: KeyMeta<'_>) -> u16 {
        match self {
            SnapshotForm::File(options, _) => rdb_file::entry(out, entry, meta, options),
            SnapshotForm::Commands => {
                commands::entry(out, entry, meta);
                0
            }
        }
    }

    /// Appends a key with a large value, up to the first element; returns the lowest version of a file that may contain
    /// it, and the writer of the rest. `None` if the value is not large.
    pub(super) fn large_entry(
        self,
        out: &mut MarkedBytes,
        entry: &Entry,
        meta: KeyMeta<'_>,
    ) -> Option<(u16, RecordBody)> {
        match self {
            SnapshotForm::File(options, _) => rdb_file::large_entry(out, entry, meta, options),
            SnapshotForm::Commands => Some((0, commands::large_entry(out, entry, meta)?)),
        }
    }

    /// Appends a key with a string of length `len` up to the string, which [`SnapshotForm::string`] appends; returns the bytes
    /// behind it.
    pub(super) fn text_entry(self, out: &mut MarkedBytes, entry: &Entry, len: usize, meta: KeyMeta<'_>) -> Vec<u8> {
        let mut tail = Vec::new();
        match self {
            SnapshotForm::File(options, _) => rdb_file::text_entry(out, entry, meta, options),
            SnapshotForm::Commands => {
                commands::begin_text(out, entry.key(), len, meta);
                commands::end_text(&mut tail, entry.key(), meta);
            }
        }
        tail
    }

    pub(super) fn string(self, out: &mut MarkedBytes, text: &[u8]) {
        match self {
            SnapshotForm::File(options, _) => rdb_file::string(out, text, options),
            SnapshotForm::Commands => out.extend_from_slice(text),
        }
    }
}
