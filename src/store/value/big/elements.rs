//! The table of the elements of a large collection, and the walk of a snapshot over them.
//!
//! Elements are visited in the order of a scan, whose positions stay valid while the table grows and shrinks.

use std::collections::HashSet;
use std::ops::Deref;

use crate::store::entry::Entry;
use crate::store::table::{Hasher, Item, Table, scan_position};
use crate::store::value::big::walk::{Record, RecordPart, WalkedElement};
use crate::store::value::member::{MemberName, OwnedMember};

/// Item in the table of a large collection.
pub(in crate::store::value) trait Named: Item {
    fn key(&self) -> Self::Key<'_>;

    /// Passes the bytes of a key to `read`.
    fn with_name<R>(key: Self::Key<'_>, read: impl FnOnce(&[u8]) -> R) -> R;
}

impl Named for Entry {
    fn key(&self) -> &[u8] {
        Entry::key(self)
    }

    fn with_name<R>(key: &[u8], read: impl FnOnce(&[u8]) -> R) -> R {
        read(key)
    }
}

impl Named for OwnedMember {
    fn key(&self) -> MemberName<'_> {
        self.name()
    }

    fn with_name<R>(key: MemberName<'_>, read: impl FnOnce(&[u8]) -> R) -> R {
        key.with_bytes(read)
    }
}

/// The elements of a large collection.
pub(in crate::store::value) struct Elements<T: Named> {
    table: Table<T>,
    /// Walk of a snapshot that visits the elements.
    walk: Option<Box<ElementWalk<T>>>,
}

struct ElementWalk<T> {
    /// Scan position up to which elements were visited.
    position: u64,
    /// Elements beyond the position that are not to be visited: they are in the record, or were added after the cut.
    passed_over: HashSet<Box<[u8]>, ahash::RandomState>,
    record: Record,
    element_of: fn(&T) -> WalkedElement<'_>,
}

impl<T: Named> Deref for Elements<T> {
    type Target = Table<T>;

    #[inline]
    fn deref(&self) -> &Table<T> {
        &self.table
    }
}

impl<T: Named> Elements<T> {
    pub(super) fn new(hasher: Hasher) -> Self {
        Elements { table: Table::new(hasher), walk: None }
    }

    /// Borrows an element for a change.
    #[inline]
    pub(super) fn find_mut(&mut self, hash: u64, key: T::Key<'_>) -> Option<&mut T> {
        if self.walk.is_some() {
            self.before_change(hash, key);
        }
        self.table.find_mut(hash, key)
    }

    /// Adds a missing element; see [`Table::insert`].
    #[inline]
    pub(super) fn insert(&mut self, hash: u64, element: T) -> Option<(usize, usize)> {
        if self.walk.is_some() {
            self.before_change(hash, element.key());
        }
        self.table.insert(hash, element)
    }

    /// Removes an element; see [`Table::remove`].
    #[inline]
    pub(super) fn remove(&mut self, hash: u64, key: T::Key<'_>) -> Option<(T, Option<(usize, usize)>)> {
        if self.walk.is_some() {
            self.before_change(hash, key);
        }
        self.table.remove(hash, key)
    }

    /// Adds an element that is about to change to the record, unless it was visited or added before.
    #[cold]
    #[inline(never)] // keeps the paths without a walk short
    fn before_change(&mut self, hash: u64, key: T::Key<'_>) {
        let Some(walk) = &mut self.walk else { return };
        if scan_position(hash) < walk.position {
            return;
        }
        T::with_name(key, |name| {
            if !walk.passed_over.contains(name) {
                let element = self.table.find(hash, key);
                if let Some(element) = element {
                    walk.record.add((walk.element_of)(element));
                }
                walk.passed_over.insert(name.into());
            }
        });
    }

    /// Begins the walk over the elements, or ends it.
    pub(super) fn set_record(&mut self, record: Option<Record>, element_of: fn(&T) -> WalkedElement<'_>) {
        let begin = |record| ElementWalk { position: 0, passed_over: HashSet::default(), record, element_of };
        self.walk = record.map(begin).map(Box::new);
    }

    /// Returns the record, while the elements are visited.
    pub(super) fn record(&self) -> Option<&Record> {
        self.walk.as_ref().map(|walk| &walk.record)
    }

    /// Visits elements until the time is up.
    pub(super) fn visit(&mut self, is_time_up: &dyn Fn() -> bool) -> Option<RecordPart> {
        let ElementWalk { position, passed_over, record, element_of } = &mut **self.walk.as_mut()?;
        loop {
            let next = self.table.scan(*position, |element| {
                if passed_over.is_empty() || !T::with_name(element.key(), |name| passed_over.remove(name)) {
                    record.add(element_of(element));
                }
            });
            match next {
                Some(next) => *position = next,
                None => return Some(record.take(true)),
            }
            if is_time_up() {
                return Some(record.take(false));
            }
        }
    }
}
