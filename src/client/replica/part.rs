//! A full synchronisation, in parts.

use bytes::Bytes;

use crate::persist::LogReader;

/// A part of a full synchronisation.
pub(crate) enum Part {
    /// It begins with this line; the reader begins at the cut of the snapshot.
    Begin(Bytes, LogReader),
    /// It was written to a file, whose length this line tells.
    File(Bytes),
    /// The next bytes of the snapshot.
    Bytes(Bytes),
    /// The snapshot is over. Where its length was not told in advance, the replica has to acknowledge it before anything may
    /// follow.
    End { waits: bool },
}
