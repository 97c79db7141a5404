//! Parts of a synchronisation.

use bytes::Bytes;

use crate::persist::LogReader;

/// A part of a synchronisation: of a snapshot, or of what lies in an append-only file.
pub(crate) enum SyncPart {
    /// The first line; the reader begins behind the data that is sent.
    Begin(Bytes, LogReader),
    /// The line before data from a file, which tells its length, or that the replica may continue.
    File(Bytes),
    /// The next bytes.
    Bytes(Bytes),
    /// The end. If the length was not told in advance, the replica has to acknowledge the data before anything may
    /// follow.
    End { waits: bool },
}
