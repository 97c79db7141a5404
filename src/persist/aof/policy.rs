//! Settings of an append-only file.

use std::path::PathBuf;

/// Time at which written data is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FsyncPolicy {
    /// Before any client sees the reply of a write.
    Always,
    EverySec,
    /// At the time that the system chooses.
    No,
}

/// The annotations between commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Annotations {
    /// Set if each block has a header with a checksum; otherwise the file is like that of Redis (`aof-checksum`).
    pub(crate) checksums: bool,
    /// Set if timestamp lines are written (`aof-timestamp-enabled`).
    pub(crate) timestamps: bool,
}

/// The settings of an append-only file.
#[derive(Clone, Debug)]
pub(crate) struct AofOptions {
    /// The directory that contains the directory of the file.
    pub(crate) dir: PathBuf,
    /// The name of the directory of the file (`appenddirname`).
    pub(crate) dirname: String,
    /// Prefix of the names of its files (`appendfilename`).
    pub(crate) filename: String,
    /// Time at which written data is made durable (`appendfsync`).
    pub(crate) policy: FsyncPolicy,
    /// Set if each block has a header with a checksum; otherwise the file is like that of Redis.
    pub(crate) checksums: bool,
    /// Set if timestamp lines are written (`aof-timestamp-enabled`).
    pub(crate) timestamps: bool,
}
