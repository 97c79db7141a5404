//! The walk of a snapshot over the keys: it visits each key as it was at one moment, the *cut*, while commands change
//! the keys.
//!
//! At the cut, with the gate held exclusively, every shard gets a [`TableWalk`]. A thread then visits the keys of one shard
//! after another in the order of a scan, whose positions stay valid while the table grows and shrinks. Before a key
//! changes that the walk has not reached, the key is given to the [`WalkSink`], unchanged, and the walk passes over it;
//! a key that is created after the cut is passed over, too. So each key of the cut is visited once, and only keys that
//! change meanwhile are copied.
//!
//! The elements of a large value are visited in the same way, one level down: see [`Record`]. The record of a value
//! begins when the walk reaches the key or when the key is about to change, and stays with the value if the value gets
//! another key.
//!
//! A walk belongs to the table: SWAPDB swaps both, and FLUSHALL hands both over, so that the walk continues in data
//! that commands no longer see.

use std::collections::HashSet;
use std::sync::Arc;

use crate::store::entry::Entry;
use crate::store::fences::{Fences, Retired};
use crate::store::key::Key;
use crate::store::lock::{self, HeldLock};
use crate::store::table::{SCAN_POSITIONS, Table, scan_position};
use crate::store::value::{Record, RecordPart};
use crate::time::clock::Now;

/// State of a key besides its entry.
#[derive(Clone, Copy, Default)]
pub(crate) struct Beside<'a> {
    /// Fence; 0 if there is none.
    pub(crate) fence: i64,
    /// Lock of the key.
    pub(crate) lock: Option<HeldLock<'a>>,
}

impl Beside<'_> {
    /// Returns the text of the lock, if the key is one.
    pub(crate) fn lock_text(&self, now: Now) -> Option<Vec<u8>> {
        self.lock.map(|held| lock::encode(held, now))
    }
}

/// Receiver of keys that are about to change before the walk has reached them. It is called while the key's shard is
/// locked.
pub(crate) trait WalkSink: Send + Sync {
    /// Receives a key as it was at the cut, with the number that its database had then.
    fn add_former(&self, db: usize, entry: &Entry, beside: Beside<'_>);

    /// Receives the fence of a key that was removed before the cut, with the number that its database had then. It may
    /// be given twice.
    fn add_retired(&self, db: usize, key: &[u8], retired: Retired);

    /// Begins the record of a key with a large value; `None` if the value is not large.
    fn begin_record(&self, db: usize, entry: &Entry, beside: Beside<'_>) -> Option<Record>;

    /// Notes that keys were dropped before they were visited.
    fn lose(&self);
}

/// Receiver of the visited keys.
pub(crate) trait Visitor {
    /// Receives a key and its value, with the number that its database had at the cut.
    fn visit(&mut self, db: usize, entry: &Entry, beside: Beside<'_>);

    /// Receives the fence of a removed key, as [`WalkSink::add_retired`] does.
    fn visit_retired(&mut self, db: usize, key: &[u8], retired: Retired);

    /// Receives a part of the record of a large value.
    fn add_part(&mut self, part: RecordPart);
}

/// The container of the keys of a walk.
pub(super) trait Entries {
    /// Borrows the entry of a key. The caller may change nothing in it but the record.
    fn entry(&mut self, key: &[u8]) -> Option<&mut Entry>;
}

/// The walk over the keys of one table, and over the elements of their values.
pub(super) struct TableWalk {
    /// Walk over the keys, unless all were visited.
    scan: Option<Scan>,
    /// Keys with a large value whose record has begun. Some may have been deleted since, or their records finished.
    begun: Vec<Box<[u8]>>,
}

/// A walk that has not visited all keys.
struct Scan {
    /// The number of the database at the cut.
    db: usize,
    /// The scan position up to which keys were visited.
    position: u64,
    /// Position from which on fences of removed keys are to be visited; `None` if all were.
    retired_from: Option<u64>,
    /// Keys beyond the position that are not to be visited: they were given to the sink, or created after the cut.
    passed_over: HashSet<Box<[u8]>, ahash::RandomState>,
    sink: Arc<dyn WalkSink>,
}

impl Drop for Scan {
    fn drop(&mut self) {
        if self.position < SCAN_POSITIONS {
            self.sink.lose();
        }
    }
}

impl TableWalk {
    pub(super) fn new(db: usize, sink: &Arc<dyn WalkSink>) -> Self {
        let scan = Scan { db, position: 0, retired_from: Some(0), passed_over: HashSet::default(), sink: sink.clone() };
        TableWalk { scan: Some(scan), begun: Vec::new() }
    }

    /// Creates a walk over nothing but a large value that has come from elsewhere with its record.
    pub(super) fn of_begun() -> Self {
        TableWalk { scan: None, begun: Vec::new() }
    }

    /// Adds a key with a large value whose record has begun.
    pub(super) fn add_begun(&mut self, key: &[u8]) {
        self.begun.push(key.into());
    }

    /// Returns true if nothing is left to visit.
    pub(super) fn is_over(&mut self, entries: &mut dyn Entries) -> bool {
        self.forget_finished(entries);
        self.scan.is_none() && self.begun.is_empty()
    }

    fn forget_finished(&mut self, entries: &mut dyn Entries) {
        self.begun.retain(|key| entries.entry(key).is_some_and(|entry| entry.record().is_some()));
    }

    /// Gives a key that is about to change to the sink, unless the walk has reached it or it was given before. `entry`
    /// is its entry, if it exists, and `retired` its retired fence, if it was removed.
    pub(super) fn before_change(
        &mut self,
        key: Key<'_>,
        entry: Option<&mut Entry>,
        beside: Beside<'_>,
        retired: Option<Retired>,
    ) {
        let Some(scan) = &mut self.scan else { return };
        if scan_position(key.hash) < scan.position || scan.passed_over.contains(key.bytes) {
            return;
        }
        scan.passed_over.insert(key.bytes.into());
        match entry {
            Some(entry) if entry.is_large() => self.begin(entry, beside),
            Some(entry) => scan.sink.add_former(scan.db, entry, beside),
            None if scan.retired_from.is_none() => {}
            None => {
                if let Some(retired) = retired {
                    scan.sink.add_retired(scan.db, key.bytes, retired);
                }
            }
        }
    }

    /// Visits fences of keys that were removed before the cut, until the time is up; returns true if all were visited.
    /// To be called before the first scan.
    pub(super) fn visit_retired(
        &mut self,
        fences: &Fences,
        is_time_up: &dyn Fn() -> bool,
        visitor: &mut dyn Visitor,
    ) -> bool {
        let Some(Scan { db, retired_from: from, passed_over, .. }) = &mut self.scan else { return true };
        *from = from.and_then(|first| {
            fences.visit_retired(first, |key, retired| {
                if !passed_over.contains(key) {
                    visitor.visit_retired(*db, key, retired);
                }
                is_time_up()
            })
        });
        from.is_none()
    }

    /// Begins the record of a key with a large value.
    pub(super) fn begin(&mut self, entry: &mut Entry, beside: Beside<'_>) {
        let record = self.scan.as_ref().and_then(|scan| scan.sink.begin_record(scan.db, entry, beside));
        if let Some(record) = record {
            entry.begin_record(record);
            self.add_begun(entry.key());
        }
    }

    /// Visits keys until the time is up, or until it finds keys with a large value, and returns the names of these:
    /// their records are to begin.
    pub(super) fn scan<'k>(
        &mut self,
        table: &Table<Entry>,
        beside: impl Fn(&Entry) -> Beside<'k>,
        is_time_up: &dyn Fn() -> bool,
        visitor: &mut dyn Visitor,
    ) -> Vec<Box<[u8]>> {
        let mut large = Vec::new();
        while let Some(Scan { db, position, passed_over, .. }) = &mut self.scan {
            if *position == SCAN_POSITIONS {
                self.scan = None; // the records of the last keys have begun
                break;
            }
            let next = table.scan(*position, |entry| {
                if passed_over.is_empty() || !passed_over.remove(entry.key()) {
                    if entry.is_large() {
                        large.push(entry.key().into());
                    } else {
                        visitor.visit(*db, entry, beside(entry));
                    }
                }
            });
            *position = next.unwrap_or(SCAN_POSITIONS);
            if !large.is_empty() || is_time_up() {
                break;
            }
        }
        large
    }

    /// Visits elements of a large value whose record has begun, if there is one; with a number, only of the record with
    /// this number. Returns true if it has visited any.
    pub(super) fn visit_begun(
        &mut self,
        entries: &mut dyn Entries,
        number: Option<u64>,
        is_time_up: &dyn Fn() -> bool,
        visitor: &mut dyn Visitor,
    ) -> bool {
        self.forget_finished(entries);
        self.begun.iter().any(|key| visit_elements(entries.entry(key), number, is_time_up, visitor))
    }

    /// Ends the walk and the records that have begun.
    pub(super) fn end(&mut self, entries: &mut dyn Entries) {
        self.scan = None;
        for key in self.begun.drain(..) {
            if let Some(entry) = entries.entry(&key) {
                entry.end_record();
            }
        }
    }
}

/// Visits elements of an entry, if its record has begun and has the given number, if any. Returns true if it has
/// visited any.
pub(super) fn visit_elements(
    entry: Option<&mut Entry>,
    number: Option<u64>,
    is_time_up: &dyn Fn() -> bool,
    visitor: &mut dyn Visitor,
) -> bool {
    let is_wanted =
        |entry: &&mut Entry| entry.record().is_some_and(|record| number.is_none_or(|number| record.number() == number));
    let part = entry.filter(is_wanted).and_then(|entry| entry.visit_elements(is_time_up));
    part.map(|part| visitor.add_part(part)).is_some()
}
