//! What a table holds, and what it is hashed with.

use std::hash::Hash;

use ahash::RandomState;

/// Hashes keys; its keys are random, so that a peer cannot choose keys that collide.
pub(crate) type Hasher = RandomState;

/// What fills a slot of a table: one word, which is never zero.
pub(crate) trait Item: Sized {
    /// What an item is looked up by; its hash is the item's.
    type Key<'k>: Copy + Hash;

    /// Returns whether this is the item of a key.
    fn is(&self, key: Self::Key<'_>) -> bool;

    /// Returns the hash of the item's key.
    fn hash(&self, hasher: &Hasher) -> u64;

    /// Returns the address to prefetch before the item is compared; `None` if it lies in the slot itself.
    fn address(&self) -> Option<*const u8>;
}
