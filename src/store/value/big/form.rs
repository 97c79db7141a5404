//! Forms of values outside an entry.

use crate::store::value::big::walk::{Record, RecordPart};

/// A form of values outside an entry: the common part of all types. Elements are visited by snapshots; a form that does
/// not override the functions of records is written as a whole.
pub(in crate::store::value) trait LargeForm {
    /// Returns the bytes allocated, without this struct itself.
    fn memory(&self) -> usize;

    /// Returns the cost of freeing the value, in units of one allocation.
    fn effort(&self) -> usize;

    /// Returns a copy that shares no memory with the original.
    fn copy(&self) -> Self
    where
        Self: Sized;

    /// Begins or ends the walk of a snapshot over the elements.
    fn set_record(&mut self, _: Option<Record>) {}

    /// Returns the record while the elements are visited.
    fn record(&self) -> Option<&Record> {
        None
    }

    /// Visits elements until the time is up.
    fn visit_elements(&mut self, _: &dyn Fn() -> bool) -> Option<RecordPart> {
        None
    }
}
