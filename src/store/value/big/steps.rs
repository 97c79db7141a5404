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
            Value::Packed(_) | Value::Flat(_) => false,
            _ => self.memory() >= LARGE_MIN,
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
        self.value().and_then(|value| value.form().record())
    }

    /// Begins the walk over the elements of a large value.
    pub(in crate::store) fn begin_record(&mut self, record: Record) {
        if let Some(value) = self.value_mut() {
            value.form_mut().set_record(Some(record));
        }
    }

    /// Ends the walk over the elements, if there is one.
    pub(in crate::store) fn end_record(&mut self) {
        if let Some(value) = self.value_mut() {
            value.form_mut().set_record(None);
        }
    }

    /// Visits elements until the time is up, at least one; returns the part of the record collected by then, or `None`
    /// if there is no record. The walk ends with the last part.
    pub(in crate::store) fn visit_elements(&mut self, is_time_up: &dyn Fn() -> bool) -> Option<RecordPart> {
        let part = self.value_mut()?.form_mut().visit_elements(is_time_up)?;
        if part.is_last {
            self.end_record();
        }
        Some(part)
    }
}
