//! Records of the changes of keys that are not logged yet.

use crossbeam_utils::atomic::AtomicCell;

use crate::store::key::Key;
use crate::time::clock::Deadline;

/// Capacity for records that is kept for the next call.
const IDLE_RECORDS_MAX: usize = 256;
/// Capacity for names, in bytes, that is kept for the next call.
const IDLE_NAMES_MAX: usize = 16 * 1024;

/// Memory of records for the next hold, so that a logged request does not allocate it anew.
#[derive(Default)]
pub(super) struct RecordPool(AtomicCell<Option<Box<RecordList>>>);

impl RecordPool {
    /// Takes back the memory of records.
    pub(super) fn recycle(&self, mut records: ChangeRecords) {
        records.clear();
        self.0.store(records.0);
    }
}

/// Change of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The key has another value, or its value was changed in place.
    Value,
    /// The key has another deadline and the same value.
    Deadline(Option<Deadline>),
    /// The key was removed.
    Removal,
}

/// Change of a key by a call that is not logged yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangeRecord<'r> {
    pub(crate) db: usize,
    pub(crate) key: Key<'r>,
    /// Change of the value; `None` if only the lock of the key has changed.
    pub(crate) change: Option<Change>,
    /// True if the lock of the key has changed.
    pub(crate) is_lock: bool,
}

/// Changes of keys that are not logged yet, in their order; consecutive changes of a key by one call are one record.
#[derive(Debug, Default)]
pub(crate) struct ChangeRecords(Option<Box<RecordList>>);

#[derive(Debug, Default)]
struct RecordList {
    records: Vec<StoredRecord>,
    names: Vec<u8>,
    /// True if any record may be one of a lock.
    has_locks: bool,
    /// True if any other keys may have changed, too.
    is_all: bool,
}

#[derive(Debug)]
struct StoredRecord {
    hash: u64,
    db: u32,
    /// End of the key among the names.
    end: usize,
    change: Option<Change>,
    is_lock: bool,
}

impl StoredRecord {
    fn add(&mut self, change: Change) {
        self.change = Some(match (self.change, change) {
            (Some(before @ (Change::Value | Change::Removal)), Change::Deadline(_)) => before,
            _ => change,
        });
    }
}

impl ChangeRecords {
    /// Returns true if nothing has changed.
    pub(super) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|list| list.records.is_empty() && !list.is_all)
    }

    /// Returns true if any other keys than those of the records may have changed, too.
    pub(crate) fn is_all(&self) -> bool {
        self.0.as_ref().is_some_and(|list| list.is_all)
    }

    /// Iterates over the records.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ChangeRecord<'_>> {
        (0..self.len()).filter_map(|position| self.get(position))
    }

    /// Adds a key whose value may have changed.
    pub(crate) fn push(&mut self, db: usize, key: Key<'_>) {
        self.make().push(db, key).add(Change::Value);
    }

    /// Adds the records of another call.
    pub(super) fn append(&mut self, other: &ChangeRecords) {
        for ChangeRecord { db, key, change, is_lock } in other.iter() {
            let list = self.make();
            list.has_locks |= is_lock;
            let record = list.push(db, key);
            (record.change, record.is_lock) = (change, is_lock);
        }
        if other.is_all() {
            self.make().is_all = true;
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |list| list.records.len())
    }

    /// Returns the record at a position.
    pub(super) fn get(&self, position: usize) -> Option<ChangeRecord<'_>> {
        let list = self.0.as_ref()?;
        let StoredRecord { hash, db, change, is_lock, .. } = *list.records.get(position)?;
        Some(ChangeRecord { db: db as usize, key: Key { bytes: list.name(position), hash }, change, is_lock })
    }

    fn make(&mut self) -> &mut RecordList {
        self.0.get_or_insert_default()
    }

    /// Prepares the addition of records, with memory of a pool.
    #[inline]
    pub(super) fn prepare(&mut self, pool: &RecordPool) {
        if self.0.is_none() {
            self.0 = Some(pool.0.take().unwrap_or_default());
        }
    }

    /// Adds a change to the call whose records begin at `first`.
    #[inline]
    pub(super) fn add(&mut self, first: usize, (db, key): (usize, Key<'_>), change: Change) {
        self.at_end(first, db, key).add(change);
    }

    /// Adds a change of the lock of a key to the call whose records begin at `first`.
    pub(super) fn add_lock(&mut self, first: usize, (db, key): (usize, Key<'_>)) {
        self.at_end(first, db, key).is_lock = true;
        self.make().has_locks = true;
    }

    /// Returns true if any record may be one of a lock.
    pub(super) fn has_locks(&self) -> bool {
        self.0.as_ref().is_some_and(|list| list.has_locks)
    }

    /// Removes the records from a position on.
    #[inline]
    pub(super) fn truncate(&mut self, len: usize) {
        if let Some(list) = &mut self.0
            && len < list.records.len()
        {
            list.records.truncate(len);
            list.names.truncate(list.records.last().map_or(0, |last| last.end));
        }
    }

    /// Adds a change of any keys.
    pub(super) fn add_all(&mut self) {
        self.make().is_all = true;
    }

    /// Returns true if memory was allocated, so that there may be records.
    #[inline]
    pub(super) fn is_used(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the last record if it is one of a key and of the call whose records begin at `first`, or else a new one.
    #[inline]
    fn at_end(&mut self, first: usize, db: usize, key: Key<'_>) -> &mut StoredRecord {
        let list = self.make();
        match list.records.len().checked_sub(1).filter(|last| *last >= first && list.is_of(*last, db, key)) {
            Some(last) => &mut list.records[last],
            None => list.push(db, key),
        }
    }

    /// Removes all records.
    #[inline]
    pub(super) fn clear(&mut self) {
        if let Some(list) = &mut self.0 {
            if list.names.capacity() > IDLE_NAMES_MAX || list.records.capacity() > IDLE_RECORDS_MAX {
                self.0 = None;
            } else {
                list.names.clear();
                list.records.clear();
                (list.has_locks, list.is_all) = (false, false);
            }
        }
    }
}

impl RecordList {
    fn name(&self, position: usize) -> &[u8] {
        let start = position.checked_sub(1).map_or(0, |before| self.records[before].end);
        &self.names[start..self.records[position].end]
    }

    #[inline]
    fn is_of(&self, position: usize, db: usize, key: Key<'_>) -> bool {
        let record = &self.records[position];
        record.hash == key.hash && record.db as usize == db && self.name(position) == key.bytes
    }

    #[inline]
    fn push(&mut self, db: usize, key: Key<'_>) -> &mut StoredRecord {
        self.names.extend_from_slice(key.bytes);
        let (db, end) = (db as u32, self.names.len());
        self.records.push(StoredRecord { hash: key.hash, db, end, change: None, is_lock: false });
        let last = self.records.len() - 1;
        &mut self.records[last]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(records: &ChangeRecords) -> Vec<String> {
        let name = |key: Key<'_>| String::from_utf8_lossy(key.bytes).into_owned();
        let shown = |record: ChangeRecord<'_>| {
            format!("{} {} {:?} {}", record.db, name(record.key), record.change, record.is_lock)
        };
        records.iter().map(shown).collect()
    }

    #[test]
    fn consecutive_changes_of_a_key_by_one_call_are_one_record() {
        let key = |bytes: &'static [u8]| Key { bytes, hash: bytes.len() as u64 };
        let mut records = ChangeRecords::default();
        records.add(0, (0, key(b"a")), Change::Removal);
        records.add(0, (0, key(b"a")), Change::Value);
        records.add(0, (0, key(b"a")), Change::Deadline(None));
        records.add_lock(0, (0, key(b"a")));
        records.add(0, (1, key(b"a")), Change::Deadline(None));
        records.add_lock(0, (0, key(b"")));
        assert_eq!(shown(&records), ["0 a Some(Value) true", "1 a Some(Deadline(None)) false", "0  None true"]);
        // The next call in a transaction has records of its own, or its change would be taken for one of the former.
        records.add(3, (0, key(b"")), Change::Removal);
        assert_eq!(shown(&records)[3..], ["0  Some(Removal) false"]);
    }

    #[test]
    fn records_are_appended_to_others_and_cleared_with_the_mark_for_all_keys() {
        let key = Key { bytes: b"k", hash: 7 };
        let (mut records, mut others) = (ChangeRecords::default(), ChangeRecords::default());
        assert!(records.is_empty());
        others.push(3, key);
        others.add_all();
        records.push(0, key);
        records.append(&others);
        assert_eq!(shown(&records), ["0 k Some(Value) false", "3 k Some(Value) false"]);
        assert!(records.is_all());
        records.clear();
        assert!(records.is_empty() && records.is_used() && !records.is_all());
        (0..=IDLE_RECORDS_MAX).for_each(|_| records.push(0, key));
        records.clear();
        assert!(!records.is_used(), "the memory of a long call is not kept");
    }
}
