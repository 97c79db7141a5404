//! Changes made by a call: collected where keys change, read at the end of the call.
//!
//! Every function that changes a key takes a [`ChangeCx`]. If changes are logged, it adds a [`ChangeRecord`] before the
//! change, and the log of effects is written from these records when the call is over. They belong to the hold on the
//! store in which the call is made ([`HeldRecords`]): a panic that ends the call leaves them there, and a panic that
//! ends the hold, too, hands them over to be logged later.

use std::mem::ManuallyDrop;
use std::ops::Deref;

use crate::store::change_records::{Change, ChangeRecord, ChangeRecords, RecordPool};
use crate::store::cx::Cx;
use crate::store::event::EventSink;
use crate::store::key::Key;

/// Context of code that may change keys, with the changes made so far.
pub(crate) struct ChangeCx<'r> {
    cx: Cx,
    changes: ChangeSet,
    /// Records of the hold.
    records: &'r mut ChangeRecords,
    /// Number of records that there were when the call began.
    first: usize,
}

impl<'r> ChangeCx<'r> {
    /// Creates the context of a new call.
    #[inline]
    pub(super) fn new(cx: Cx, records: &'r mut ChangeRecords) -> Self {
        ChangeCx { cx, changes: ChangeSet::default(), first: records.len(), records }
    }

    /// Returns the context of a call nested in this one.
    #[inline]
    pub(super) fn nested(&mut self, cx: Cx) -> ChangeCx<'_> {
        ChangeCx::new(cx, self.records)
    }

    /// Returns the context for changes that are recorded, but do not count as those of the call.
    pub(super) fn uncounted(&mut self) -> ChangeCx<'_> {
        ChangeCx { cx: self.cx, changes: ChangeSet::default(), records: self.records, first: self.first }
    }

    /// Makes changes that are not those of the call, because they are logged at once: the deletion of an expired key, for
    /// example. They are recorded only meanwhile.
    pub(super) fn aside<T>(&mut self, act: impl FnOnce(&mut ChangeCx<'_>) -> T) -> T {
        let len = self.records.len();
        let result = act(&mut self.uncounted());
        self.records.truncate(len);
        result
    }

    /// Begins a call: the next one in the same hold, or this one, before which others have taken place.
    #[inline]
    pub(super) fn renew(&mut self) {
        self.changes = ChangeSet::default();
        self.first = self.records.len();
    }

    #[inline]
    pub(super) fn changes(&self) -> ChangeSet {
        self.changes
    }

    #[inline]
    pub(super) fn changes_mut(&mut self) -> &mut ChangeSet {
        &mut self.changes
    }

    pub(super) fn cx_mut(&mut self) -> &mut Cx {
        &mut self.cx
    }

    /// Adds a change of a key's value or deadline that is about to be made.
    #[inline]
    pub(super) fn record(&mut self, (db, key): (usize, Key<'_>), change: Change, pool: &RecordPool) {
        self.records.prepare(pool);
        self.records.add(self.first, (db, key), change);
    }

    /// Adds a change of the lock of a key.
    pub(super) fn record_lock(&mut self, (db, key): (usize, Key<'_>), pool: &RecordPool) {
        self.records.prepare(pool);
        self.records.add_lock(self.first, (db, key));
    }

    /// Adds a change of any keys.
    pub(super) fn record_all(&mut self, pool: &RecordPool) {
        self.records.prepare(pool);
        self.records.add_all();
    }

    /// Removes and returns all records of the hold, of whatever call.
    pub(super) fn take_records(&mut self) -> ChangeRecords {
        self.first = 0;
        std::mem::take(self.records)
    }

    /// Removes all records of the hold: the changes of this call are logged, and those before it were.
    #[inline]
    pub(super) fn clear_records(&mut self) {
        self.first = 0;
        self.records.clear();
    }

    /// Returns the positions of the records of this call, and of calls nested in it.
    pub(super) fn own_records(&self) -> std::ops::Range<usize> {
        debug_assert!(self.first <= self.records.len(), "records of this call were removed by another one");
        self.first..self.records.len()
    }

    /// Returns true if any lock may have changed.
    pub(super) fn has_lock_records(&self) -> bool {
        self.records.has_locks()
    }

    /// Returns the record at a position.
    pub(super) fn record_at(&self, position: usize) -> Option<ChangeRecord<'_>> {
        self.records.get(position)
    }
}

impl Deref for ChangeCx<'_> {
    type Target = Cx;

    #[inline]
    fn deref(&self) -> &Cx {
        &self.cx
    }
}

/// Summary of a call's changes. The deletion of an expired key does not count: every call may cause one, and it has a
/// record of its own in the log.
#[derive(Clone, Copy, Default)]
pub(crate) struct ChangeSet {
    /// Set once the call itself has changed anything.
    is_own: bool,
    /// Set once a call nested in this one has changed anything.
    is_nested: bool,
}

impl ChangeSet {
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        !self.is_own && !self.is_nested
    }

    /// Returns true if the call itself has changed anything, not only calls nested in it.
    #[inline]
    pub(crate) fn is_own(self) -> bool {
        self.is_own
    }

    /// Adds a change: of a key, or of something else that is logged, such as a library of functions.
    #[inline]
    pub(crate) fn add(&mut self) {
        self.is_own = true;
    }

    /// Adds the changes of a nested call.
    pub(crate) fn add_nested(&mut self, nested: ChangeSet) {
        self.is_nested |= !nested.is_empty();
    }
}

/// Owner of the records of the calls in a hold. A panic that ends the hold hands the records over: the changes were
/// made and have to be logged.
pub(super) struct HeldRecords<'a> {
    events: &'a EventSink,
    /// Dropped by hand, so that a batch without records has one comparison to make.
    records: ManuallyDrop<ChangeRecords>,
}

impl<'a> HeldRecords<'a> {
    #[inline]
    pub(super) fn new(events: &'a EventSink) -> Self {
        HeldRecords { events, records: ManuallyDrop::default() }
    }

    #[inline]
    pub(super) fn records(&mut self) -> &mut ChangeRecords {
        &mut self.records
    }

    #[inline(never)]
    fn drop_records(&mut self) {
        let records = std::mem::take(&mut *self.records);
        if std::thread::panicking() {
            self.events.interrupt(&records);
        }
        self.events.record_pool().recycle(records);
    }

    /// Returns the context of a call without a view.
    #[inline]
    pub(super) fn cx(&mut self, cx: Cx) -> ChangeCx<'_> {
        ChangeCx::new(cx, &mut self.records)
    }
}

impl Drop for HeldRecords<'_> {
    #[inline(always)] // every batch drops one, and hardly any has records
    fn drop(&mut self) {
        if self.records.is_used() {
            self.drop_records();
        }
    }
}
