//! A synchronisation, in parts.

use bytes::Bytes;

use crate::persist::LogReader;

/// A part of a synchronisation: of a snapshot, or of what lies in an append-only file.
pub(crate) enum Part {
    /// It begins with this line; the reader begins behind what is sent.
    Begin(Bytes, LogReader),
    /// It is in a file: this line tells its length, or that the replica may continue.
    File(Bytes),
    /// The next bytes.
    Bytes(Bytes),
    /// It is over. Where its length was not told in advance, the replica has to acknowledge it before anything may
    /// follow.
    End { waits: bool },
}
