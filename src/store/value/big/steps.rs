//! The walk of a snapshot over the elements of a value of any type.

use crate::store::entry::Entry;
use crate::store::value::big::Value;
use crate::store::value::big::text::LongText;
use crate::store::value::big::walk::{Record, RecordPart};

/// Size in bytes from which on a value is visited in steps. A smaller one is written in less time than a step takes. In
/// unit tests small values are visited in steps, too.
const LARGE_MIN: usize = if cfg!(test) { 512 } else { 64 << 10 };

/// Size in bytes from which on a string is visited in steps. A shorter one is shared with the snapshot, and copied if
/// it is then changed in place.
const LONG_TEXT_MIN: usize = if cfg!(test) { 512 } else { 4 << 20 };

impl Value {
    /// Returns true if the elements are visited in steps.
    pub(super) fn is_large(&self) -> bool {
        match self {
            Value::Text(text) => text.bytes().len() >= LONG_TEXT_MIN,
            Value::Packed(_) => false,
            _ => self.memory() >= LARGE_MIN,
        }
    }

    /// Begins or ends the walk over the elements.
    fn set_record(&mut self, record: Option<Record>) {
        match self {
            Value::Text(text) => text.set_record(record),
            Value::List(list) => list.set_record(record),
            Value::Set(set) => set.set_record(record),
            Value::SortedSet(set) => set.set_record(record),
            Value::Hash(hash) => hash.set_record(record),
            Value::Stream(stream) => stream.set_record(record),
            Value::Packed(_) => {}
        }
    }

    /// Returns the record while the elements are visited.
    pub(super) fn record(&self) -> Option<&Record> {
        match self {
            Value::Text(text) => text.record(),
            Value::List(list) => list.record(),
            Value::Set(set) => set.record(),
            Value::SortedSet(set) => set.record(),
            Value::Hash(hash) => hash.record(),
            Value::Stream(stream) => stream.record(),
            Value::Packed(_) => None,
        }
    }

    fn visit_elements(&mut self, is_time_up: &dyn Fn() -> bool) -> Option<RecordPart> {
        match self {
            Value::Text(text) => text.visit_elements(is_time_up),
            Value::List(list) => list.visit_elements(is_time_up),
            Value::Set(set) => set.visit_elements(is_time_up),
            Value::SortedSet(set) => set.visit_elements(is_time_up),
            Value::Hash(hash) => hash.visit_elements(is_time_up),
            Value::Stream(stream) => stream.visit_elements(is_time_up),
            Value::Packed(_) => None,
        }
    }
}

impl Entry {
    /// Returns the string if it is a long one.
    pub(crate) fn long_text(&self) -> Option<&LongText> {
        match self.value() {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns true if a snapshot visits the elements of the value in steps.
    pub(crate) fn is_large(&self) -> bool {
        self.value().is_some_and(Value::is_large)
    }

    /// Returns the record of the value while its elements are visited.
    pub(in crate::store) fn record(&self) -> Option<&Record> {
        self.value().and_then(Value::record)
    }

    /// Begins the walk over the elements of a large value.
    pub(in crate::store) fn begin_record(&mut self, record: Record) {
        if let Some(value) = self.value_mut() {
            value.set_record(Some(record));
        }
    }

    /// Ends the walk over the elements, if there is one.
    pub(in crate::store) fn end_record(&mut self) {
        if let Some(value) = self.value_mut() {
            value.set_record(None);
        }
    }

    /// Visits elements until the time is up, at least one; returns the part of the record collected by then, or `None`
    /// if there is no record. The walk ends with the last part.
    pub(in crate::store) fn visit_elements(&mut self, is_time_up: &dyn Fn() -> bool) -> Option<RecordPart> {
        let part = self.value_mut()?.visit_elements(is_time_up)?;
        if part.is_last {
            self.end_record();
        }
        Some(part)
    }
}
