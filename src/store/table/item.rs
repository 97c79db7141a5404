//! Items of a table, and their hasher.

use std::hash::Hash;

use ahash::RandomState;

/// Hasher of keys with random keys of its own, so that a peer cannot choose keys that collide.
pub(crate) type Hasher = RandomState;

/// Item in a slot of a table: one word, which is never zero.
pub(crate) trait Item: Sized {
    /// Key of an item; the hash of the key is the hash of the item.
    type Key<'k>: Copy + Hash;

    /// Returns true if this is the item of a key.
    fn is(&self, key: Self::Key<'_>) -> bool;

    /// Returns the hash of the item's key.
    fn hash(&self, hasher: &Hasher) -> u64;

    /// Returns the address to prefetch before the item is compared; `None` if it lies in the slot itself.
    fn address(&self) -> Option<*const u8>;
}
