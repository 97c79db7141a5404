//! Table of recorded reads: the clients that have read each key.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::memory::heap::{allocation_len, hash_map_len, list_len};
use crate::store::usage::Dice;

/// Ids of the clients that have read a key, sorted.
pub(super) type Readers = SmallVec<[u64; 2]>;

/// Readers of keys. The entries are in a list so that a random one can be chosen.
pub(super) struct TrackingTable {
    places: HashMap<Arc<[u8]>, usize, ahash::RandomState>,
    entries: Vec<(Arc<[u8]>, Readers)>,
    items: usize,
    /// Bytes of all keys.
    bytes: usize,
    /// Memory of keys and of long lists of readers.
    held: usize,
    dice: Dice,
}

/// Mean length of keys, in bytes, above which the table counts as full, once their total length exceeds [`BYTES_MIN`].
const KEY_BYTES: usize = 256;
/// Total length of keys, in bytes, up to which the table does not count as full because of long keys.
const BYTES_MIN: usize = 64 * 1024 * 1024;

impl Default for TrackingTable {
    fn default() -> Self {
        let places = HashMap::<_, _, ahash::RandomState>::default();
        let dice = Dice::new(places.hasher().hash_one("dice"));
        TrackingTable { places, entries: Vec::new(), items: 0, bytes: 0, held: 0, dice }
    }
}

impl TrackingTable {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there are more keys than allowed, or very long ones; 0 is no limit.
    pub(super) fn is_over(&self, max_keys: usize) -> bool {
        let bytes_max = max_keys.saturating_mul(KEY_BYTES).max(BYTES_MIN);
        max_keys != 0 && (self.len() > max_keys || self.bytes > bytes_max)
    }

    /// Returns the number of readers of all keys, summed up.
    pub(super) fn items(&self) -> usize {
        self.items
    }

    pub(super) fn memory(&self) -> usize {
        let entries = list_len::<(Arc<[u8]>, Readers)>(self.entries.capacity());
        self.held + hash_map_len::<Arc<[u8]>, usize>(self.places.capacity()) + entries
    }

    /// Records that a client has read a key.
    pub(super) fn note(&mut self, key: &[u8], client: u64) {
        let Some(&place) = self.places.get(key) else {
            let owned: Arc<[u8]> = key.into();
            self.places.insert(owned.clone(), self.entries.len());
            self.entries.push((owned, SmallVec::from_slice(&[client])));
            (self.items, self.bytes) = (self.items + 1, self.bytes + key.len());
            self.held += key_len(key);
            return;
        };
        let readers = &mut self.entries[place].1;
        if let Err(at) = readers.binary_search(&client) {
            let before = spilled_len(readers);
            readers.insert(at, client);
            self.held = self.held - before + spilled_len(readers);
            self.items += 1;
        }
    }

    /// Removes a key; returns its readers.
    pub(super) fn take(&mut self, key: &[u8]) -> Option<Readers> {
        let place = *self.places.get(key)?;
        Some(self.take_at(place).1)
    }

    /// Removes a random key; returns its readers.
    pub(super) fn take_any(&mut self) -> Option<(Arc<[u8]>, Readers)> {
        if self.entries.is_empty() {
            return None;
        }
        let place = self.dice.below(self.entries.len());
        Some(self.take_at(place))
    }

    fn take_at(&mut self, place: usize) -> (Arc<[u8]>, Readers) {
        let (key, readers) = self.entries.swap_remove(place);
        self.places.remove(&key);
        if let Some((moved, _)) = self.entries.get(place) {
            self.places.insert(moved.clone(), place);
        }
        (self.items, self.bytes) = (self.items - readers.len(), self.bytes - key.len());
        self.held -= key_len(&key) + spilled_len(&readers);
        (key, readers)
    }
}

/// Returns the memory of a shared key: two counters and its bytes.
fn key_len(key: &[u8]) -> usize {
    allocation_len(2 * size_of::<usize>() + key.len())
}

/// Returns the memory of readers that do not fit into the entry.
fn spilled_len(readers: &Readers) -> usize {
    if readers.spilled() { list_len::<u64>(readers.capacity()) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::TrackingTable;

    #[test]
    fn what_was_noted_is_found_once_however_much_was_taken_out_before() {
        let mut table = TrackingTable::default();
        for number in 0..1000u64 {
            table.note(&number.to_le_bytes(), number % 7);
            table.note(&number.to_le_bytes(), 3);
            table.note(&number.to_le_bytes(), 3);
        }
        let taken: Vec<u64> = (0..500)
            .map(|_| u64::from_le_bytes(table.take_any().expect("there are more").0[..].try_into().expect("8 bytes")))
            .collect();
        for number in 0..1000u64 {
            let expected = (!taken.contains(&number)).then_some(if number % 7 == 3 { 1 } else { 2 });
            assert_eq!(table.take(&number.to_le_bytes()).map(|readers| readers.len()), expected, "{number}");
        }
        assert_eq!((table.len(), table.items(), table.bytes, table.held), (0, 0, 0, 0));
        assert!(table.take_any().is_none());
    }

    #[test]
    fn few_keys_that_are_very_long_are_too_many_as_well() {
        let mut table = TrackingTable::default();
        for number in 0..64 {
            assert!(!table.is_over(100));
            table.note(&vec![number; 1 << 20], 1);
        }
        assert!(!table.is_over(100) && !table.is_over(0) && table.is_over(63));
        table.note(b"k", 1);
        assert!(table.is_over(100) && !table.is_over(0));
    }
}
