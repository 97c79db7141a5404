//! Fences of keys: the largest fencing token that a string was written with, so that a write with a smaller one is refused.
//!
//! They lie beside the keys of a shard, because few keys have one. A fence belongs to the value: it is kept while that is
//! changed in place, and forgotten when the key is removed or gets another value.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;

use crate::memory::heap::allocation_len;
use crate::store::shard::Key;

/// A key with its fence.
struct Fenced {
    hash: u64,
    key: Box<[u8]>,
    fence: i64,
}

/// The fences of the keys of a shard. Takes no memory while there are none.
#[derive(Default)]
pub(super) struct Fences(Option<Box<Table>>);

#[derive(Default)]
struct Table {
    keys: HashTable<Fenced>,
    /// Memory of the keys.
    bytes: usize,
}

impl Fences {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the fence of a key; 0 without one.
    pub(super) fn get(&self, key: Key<'_>) -> i64 {
        let table = self.0.as_deref();
        let fenced = table.and_then(|table| table.keys.find(key.hash, |fenced| *fenced.key == *key.bytes));
        fenced.map_or(0, |fenced| fenced.fence)
    }

    /// Sets the fence of a key.
    pub(super) fn set(&mut self, key: Key<'_>, fence: i64) {
        let table = self.0.get_or_insert_default();
        match table.keys.entry(key.hash, |fenced| *fenced.key == *key.bytes, |fenced| fenced.hash) {
            Slot::Occupied(mut slot) => slot.get_mut().fence = fence,
            Slot::Vacant(slot) => {
                slot.insert(Fenced { hash: key.hash, key: key.bytes.into(), fence });
                table.bytes += allocation_len(key.bytes.len());
            }
        }
    }

    /// Forgets the fence of a key.
    pub(super) fn forget(&mut self, key: Key<'_>) {
        let Some(table) = &mut self.0 else { return };
        if let Ok(slot) = table.keys.find_entry(key.hash, |fenced| *fenced.key == *key.bytes) {
            slot.remove();
            table.bytes -= allocation_len(key.bytes.len());
        }
        if table.keys.is_empty() {
            self.0 = None;
        }
    }

    /// Returns the memory that they take.
    pub(super) fn memory(&self) -> usize {
        let table = self.0.as_deref();
        table.map_or(0, |table| allocation_len(size_of::<Table>()) + table.keys.allocation_size() + table.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_take_memory_only_while_there_are_some() {
        let mut fences = Fences::default();
        let keys: Vec<Vec<u8>> = (0..1000).map(|number| format!("key:{number}").into_bytes()).collect();
        // All of them collide.
        let key = |at: usize| Key { bytes: &keys[at], hash: 7 };
        for at in 0..keys.len() {
            fences.set(key(at), at as i64 + 1);
        }
        assert!((0..keys.len()).all(|at| fences.get(key(at)) == at as i64 + 1));
        assert!(fences.memory() > keys.len() * size_of::<Fenced>());
        for at in 0..keys.len() {
            fences.forget(key(at));
            assert_eq!(fences.get(key(at)), 0);
        }
        assert!(fences.is_empty() && fences.memory() == 0);
    }
}
