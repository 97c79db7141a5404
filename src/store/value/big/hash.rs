//! A hash above the limits of packed ones: a table of entries whose keys are the fields.

use std::fmt;

use crate::memory::heap::allocation_len;
use crate::store::entry::Entry;
use crate::store::table::Hasher;
use crate::store::usage::Dice;
use crate::store::value::big::deadlines::ElementDeadlines;
use crate::store::value::big::elements::Elements;
use crate::store::value::big::form::LargeForm;
use crate::store::value::big::walk::{Record, RecordPart, WalkedElement};
use crate::time::clock::Deadline;

/// Number of bytes of values that costs as much to free as one entry.
const PAGE_LEN: usize = 4096;

/// A hash above the limits of packed hashes.
pub(crate) struct BigHash {
    fields: Elements<Entry>,
    /// Bytes of the entries.
    memory: usize,
    /// Deadlines of fields, if there are any.
    deadlines: Option<Box<ElementDeadlines>>,
}

impl fmt::Debug for BigHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BigHash").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl LargeForm for BigHash {
    fn memory(&self) -> usize {
        let deadlines = self.deadlines.as_ref();
        let index = deadlines.map_or(0, |index| allocation_len(size_of::<ElementDeadlines>()) + index.memory());
        self.fields.memory() + self.memory + index
    }

    fn effort(&self) -> usize {
        self.len() + self.memory / PAGE_LEN
    }

    fn copy(&self) -> Self {
        let mut copy = BigHash::new(self.fields.hasher().clone());
        for entry in self.entries() {
            copy.add(self.fields.hash(entry.key()), entry.copy(entry.key()));
        }
        copy
    }

    fn set_record(&mut self, record: Option<Record>) {
        self.fields.set_record(record, |entry| {
            WalkedElement::Field(entry.key(), entry.string().as_slice(), deadline_of(entry))
        });
    }

    fn record(&self) -> Option<&Record> {
        self.fields.record()
    }

    fn visit_elements(&mut self, is_time_up: &dyn Fn() -> bool) -> Option<RecordPart> {
        self.fields.visit(is_time_up)
    }
}

impl BigHash {
    /// Creates a hash without fields.
    pub(in crate::store::value) fn new(hasher: Hasher) -> Self {
        BigHash { fields: Elements::new(hasher), memory: 0, deadlines: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.fields.count()
    }

    /// Returns the bytes of the entries, as counted.
    #[cfg(test)]
    pub(in crate::store::value) fn entries_memory(&self) -> usize {
        self.memory
    }

    /// Returns the entry of a field.
    #[inline]
    pub(in crate::store::value) fn get(&self, field: &[u8]) -> Option<&Entry> {
        self.fields.find(self.fields.hash(field), field)
    }

    /// Prefetches the bucket of a field; returns the field's hash.
    #[inline]
    pub(crate) fn prefetch_bucket(&self, field: &[u8]) -> u64 {
        let hash = self.fields.hash(field);
        self.fields.prefetch_bucket(hash);
        hash
    }

    /// Prefetches the field with this hash.
    #[inline]
    pub(crate) fn prefetch_field(&self, hash: u64) {
        self.fields.prefetch_entry(hash);
    }

    /// Returns the entries, in no particular order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.fields.iter()
    }

    /// Visits the entries of one bucket; see [`Table::scan`](crate::store::table::Table::scan).
    pub(in crate::store::value) fn scan(&self, position: u64, visit: impl FnMut(&Entry)) -> Option<u64> {
        self.fields.scan(position, visit)
    }

    /// Returns the entry of a random field; `None` without fields.
    pub(in crate::store::value) fn random(&self, dice: &mut Dice) -> Option<&Entry> {
        self.fields.random(dice)
    }

    /// Returns the entries of `count` different random fields, or all if there are fewer.
    pub(in crate::store::value) fn sample(&self, count: usize, dice: &mut Dice) -> Vec<&Entry> {
        self.fields.sample(count, dice)
    }

    /// Sets a field; returns true if it is new. An existing field loses its deadline unless it `keeps` it.
    #[inline]
    pub(in crate::store::value) fn set(&mut self, field: &[u8], value: &[u8], keeps: bool) -> bool {
        let hash = self.fields.hash(field);
        match self.fields.find_mut(hash, field) {
            Some(entry) => {
                let old = entry.deadline();
                let growth = entry.set_text(value, old.filter(|_| keeps), drop);
                self.memory = self.memory.wrapping_add_signed(growth);
                if old.is_some() && !keeps {
                    self.record_deadline(hash, true, None);
                }
                false
            }
            None => {
                self.add(hash, Entry::text(field, value, None));
                true
            }
        }
    }

    /// Removes a field; returns true if it existed.
    pub(in crate::store::value) fn remove(&mut self, field: &[u8]) -> bool {
        let hash = self.fields.hash(field);
        let Some((entry, merged)) = self.fields.remove(hash, field) else { return false };
        self.memory -= entry.memory();
        if let (Some((from, into)), Some(deadlines)) = (merged, &mut self.deadlines) {
            deadlines.merge(from, into);
        }
        self.record_deadline(hash, entry.deadline().is_some(), None);
        true
    }

    /// Sets or removes the deadline of an existing field.
    pub(in crate::store::value) fn set_deadline(&mut self, field: &[u8], deadline: Option<i64>) {
        let hash = self.fields.hash(field);
        let Some(entry) = self.fields.find_mut(hash, field) else { return };
        let (old, before) = (entry.deadline(), entry.memory());
        entry.set_deadline(deadline.map(Deadline::at_wall_ms));
        self.memory = self.memory + entry.memory() - before;
        self.record_deadline(hash, old.is_some(), deadline);
    }

    /// Returns a lower bound of the deadlines; `None` if there are none.
    pub(in crate::store::value) fn nearest_deadline(&self) -> Option<i64> {
        self.deadlines.as_ref().and_then(|deadlines| deadlines.nearest())
    }

    /// Removes up to `max_count` fields whose deadlines have passed, or a few more from one bucket, and appends them to
    /// `expired`.
    pub(in crate::store::value) fn remove_expired(
        &mut self,
        now_ms: i64,
        max_count: usize,
        expired: &mut Vec<Box<[u8]>>,
    ) {
        let mut first = expired.len();
        while expired.len() < max_count
            && let Some(deadlines) = &mut self.deadlines
            && deadlines.take_due(&self.fields, now_ms, deadline_of, |entry| expired.push(entry.key().into()))
        {
            for field in &expired[std::mem::replace(&mut first, expired.len())..] {
                self.remove(field);
            }
        }
    }

    /// Adds an entry whose field is known to be absent.
    fn add(&mut self, hash: u64, entry: Entry) {
        self.memory += entry.memory();
        let deadline = deadline_of(&entry);
        if let (Some((from, to)), Some(deadlines)) = (self.fields.insert(hash, entry), &mut self.deadlines) {
            deadlines.split(from, to);
        }
        self.record_deadline(hash, false, deadline);
    }

    /// Counts a new or removed deadline of a field, and lowers the bound of its bucket.
    #[inline]
    fn record_deadline(&mut self, hash: u64, had_one: bool, deadline: Option<i64>) {
        if !had_one && deadline.is_none() {
            return;
        }
        let deadlines = self.deadlines.get_or_insert_default();
        deadlines.record(self.fields.bucket_of(hash), had_one, deadline);
        if deadlines.is_empty() {
            self.deadlines = None;
        }
    }
}

/// Returns the deadline of an entry of a big hash, in milliseconds since 1970.
pub(in crate::store::value) fn deadline_of(entry: &Entry) -> Option<i64> {
    entry.deadline().map(Deadline::absolute_ms)
}
