//! Keys with their hashes, and the assignment of keys to shards.

/// Number of shards of a database: enough that two threads rarely contend, few enough that an idle server stays small.
pub(crate) const SHARDS: usize = 64;

/// A borrowed key with its hash, which is computed once per call.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The key's bytes.
    pub bytes: &'a [u8],
    /// The hash of the bytes by the store's hasher.
    pub hash: u64,
}

/// A key with the number of its database.
pub(crate) type KeyName = (usize, Box<[u8]>);

/// Returns the shard of a key, by hash bits that neither its bucket nor its tag uses.
#[inline]
pub(crate) fn shard_of(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}
