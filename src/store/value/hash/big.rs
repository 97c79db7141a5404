//! A hash above the limits of packed ones: a table of entries whose keys are the fields.

use std::collections::HashSet;
use std::fmt;

use crate::store::entry::Entry;
use crate::store::table::{Hasher, Table};
use crate::store::usage::Dice;

/// How many fields there must be for each one of a sample for it to be drawn one by one. A larger sample is what is
/// left when the fields are shuffled.
const DRAWN_SHARE: usize = 3;

/// The bytes of values whose freeing costs as much as that of one entry.
const PAGE_LEN: usize = 4096;

/// A hash above the limits of packed ones.
pub(crate) struct BigHash {
    fields: Table<Entry>,
    /// Bytes of the entries.
    memory: usize,
}

impl fmt::Debug for BigHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BigHash").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl BigHash {
    /// Creates a hash without fields.
    pub(super) fn new(hasher: Hasher) -> Self {
        BigHash { fields: Table::new(hasher), memory: 0 }
    }

    /// Returns the number of fields.
    pub(crate) fn len(&self) -> usize {
        self.fields.count()
    }

    /// Returns the bytes allocated, without this struct itself.
    pub(in crate::store::value) fn memory(&self) -> usize {
        self.fields.memory() + self.memory
    }

    /// Returns the bytes of the entries, as counted.
    #[cfg(test)]
    pub(super) fn entries_memory(&self) -> usize {
        self.memory
    }

    /// Returns the cost of freeing it, in units of one allocation.
    pub(in crate::store::value) fn effort(&self) -> usize {
        self.len() + self.memory / PAGE_LEN
    }

    /// Returns a copy that shares no memory with the original.
    pub(in crate::store::value) fn copy(&self) -> Self {
        let mut copy = BigHash::new(self.fields.hasher().clone());
        for entry in self.entries() {
            copy.add(self.fields.hash(entry.key()), entry.copy(entry.key()));
        }
        copy
    }

    /// Returns the entry of a field.
    #[inline]
    pub(super) fn get(&self, field: &[u8]) -> Option<&Entry> {
        self.fields.find(self.fields.hash(field), field)
    }

    /// Returns the entries, in no particular order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.fields.iter()
    }

    /// Visits the entries of one bucket; see [`super::HashRef::scan`].
    pub(super) fn scan(&self, position: u64, visit: impl FnMut(&Entry)) -> Option<u64> {
        self.fields.scan(position, visit)
    }

    /// Returns the entry of a random field; `None` without fields.
    pub(super) fn random(&self, dice: &mut Dice) -> Option<&Entry> {
        self.fields.random(dice)
    }

    /// Returns the entries of `count` different random fields.
    pub(super) fn sample(&self, count: usize, dice: &mut Dice) -> Vec<&Entry> {
        if count.saturating_mul(DRAWN_SHARE) > self.len() {
            let mut all: Vec<&Entry> = self.entries().collect();
            for at in 0..count.min(all.len()) {
                let other = at + dice.below(all.len() - at);
                all.swap(at, other);
            }
            all.truncate(count);
            return all;
        }
        let (mut drawn, mut sample) = (HashSet::with_capacity(count), Vec::with_capacity(count));
        while sample.len() < count {
            let Some(entry) = self.random(dice) else { break };
            if drawn.insert(Entry::address(entry)) {
                sample.push(entry);
            }
        }
        sample
    }

    /// Sets a field; returns whether it is new.
    #[inline]
    pub(super) fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        let hash = self.fields.hash(field);
        match self.fields.find_mut(hash, field) {
            Some(entry) => {
                let growth = entry.set_text(value, None, drop);
                self.memory = self.memory.wrapping_add_signed(growth);
                false
            }
            None => {
                self.add(hash, Entry::text(field, value, None));
                true
            }
        }
    }

    /// Removes a field; returns whether there was one.
    pub(super) fn remove(&mut self, field: &[u8]) -> bool {
        let hash = self.fields.hash(field);
        let removed = self.fields.remove(hash, field);
        removed.map(|(entry, _)| self.memory -= entry.memory()).is_some()
    }

    /// Adds an entry whose field is known to be absent.
    fn add(&mut self, hash: u64, entry: Entry) {
        self.memory += entry.memory();
        self.fields.insert(hash, entry);
    }
}
