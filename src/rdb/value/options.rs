//! How values are written and read, and where one that is read is put.

use crate::rdb::Compression;
use crate::store::Hasher;
use crate::store::limits::Limits;
use crate::time::clock::Deadline;

/// How values are written and read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// When strings that are written are compressed.
    pub compression: Compression,
    /// The maximum length of a string that is read, in bytes.
    pub len_max: usize,
}

/// Where a value that is read is put.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// When it expires.
    pub deadline: Option<Deadline>,
    /// Up to which size it is packed.
    pub limits: Limits,
    /// What hashes the fields or members of a large value.
    pub hasher: &'a Hasher,
}
