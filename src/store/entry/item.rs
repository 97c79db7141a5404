//! Entries as items of a hash table.

use crate::store::entry::Entry;
use crate::store::table::{Hasher, Item};

impl Item for Entry {
    type Key<'k> = &'k [u8];

    #[inline]
    fn is(&self, key: &[u8]) -> bool {
        self.key() == key
    }

    #[inline]
    fn hash(&self, hasher: &Hasher) -> u64 {
        hasher.hash_one(self.key())
    }

    #[inline]
    fn address(&self) -> Option<*const u8> {
        Some(Entry::address(self))
    }
}
