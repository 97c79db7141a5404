//! What an append-only file is asked to be.

use std::path::PathBuf;

/// When what was written is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Before any client sees the reply of a write.
    Always,
    /// Once a second.
    EverySec,
    /// When the system does it.
    No,
}

/// What is written beside the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Annotations {
    /// Each block has a header with a checksum; without, the file is as that of Redis (`aof-checksum`).
    pub(crate) checksums: bool,
    /// Lines say when commands were written (`aof-timestamp-enabled`).
    pub(crate) timestamps: bool,
}

/// The settings of an append-only file.
#[derive(Clone, Debug)]
pub(crate) struct AofOptions {
    /// The directory in which that of the file is.
    pub(crate) dir: PathBuf,
    /// The name of the directory of the file (`appenddirname`).
    pub(crate) dirname: String,
    /// What the names of its files begin with (`appendfilename`).
    pub(crate) filename: String,
    /// When what was written is made durable (`appendfsync`).
    pub(crate) policy: Policy,
    /// Each block has a header with a checksum; without, the file is as that of Redis.
    pub(crate) checksums: bool,
    /// Lines say when commands were written (`aof-timestamp-enabled`).
    pub(crate) timestamps: bool,
}
