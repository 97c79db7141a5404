//! Options for writing and reading values, and the target of a value that is read.

use crate::rdb::Compression;
use crate::store::Hasher;
use crate::store::limits::ValueLimits;
use crate::time::clock::Deadline;

/// Options for writing and reading values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueOptions {
    /// The compression of strings that are written.
    pub compression: Compression,
    /// The maximum length of a string that is read, in bytes.
    pub len_max: usize,
}

/// The key and the limits of a value that is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueTarget<'a> {
    pub key: &'a [u8],
    pub deadline: Option<Deadline>,
    /// The sizes up to which values are packed.
    pub limits: ValueLimits,
    /// The hasher for fields and members of a large value.
    pub hasher: &'a Hasher,
}
