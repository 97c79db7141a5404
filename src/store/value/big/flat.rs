//! Long flat values.

use crate::memory::heap::allocation_len;
use crate::store::value::big::form::LargeForm;
use crate::store::value::big::text::pages;
use crate::store::value::kind::Type;

/// A long [flat](crate::store::value::flat) value, outside its entry.
#[derive(Clone, Debug)]
pub(crate) struct FlatValue {
    /// The type of the value.
    pub(in crate::store) of: Type,
    pub(in crate::store) bytes: Vec<u8>,
}

impl LargeForm for FlatValue {
    fn memory(&self) -> usize {
        allocation_len(self.bytes.capacity())
    }

    fn effort(&self) -> usize {
        pages(self.bytes.capacity())
    }

    fn copy(&self) -> Self {
        self.clone()
    }
}
