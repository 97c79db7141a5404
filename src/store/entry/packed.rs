//! Packed collections inside an entry, or in a box of their own.

use std::ops::Range;

use smallvec::SmallVec;

use crate::memory::slab;
use crate::store::entry::{Entry, OTHER_PACKING, type_bits};
use crate::store::value::{Packing, SHARED_MIN, Type, Value};
use crate::time::clock::Deadline;

impl Entry {
    /// Creates an entry that holds a packed collection.
    pub fn packed(key: &[u8], of: Type, packing: Packing, bytes: &[u8], deadline: Option<Deadline>) -> Self {
        let kind = type_bits(of) | packing_bits(packing);
        match bytes.len() {
            SHARED_MIN.. => Self::boxed_as(kind, key, Box::new(Value::Packed(bytes.to_vec())), deadline),
            _ => Self::build(key, bytes, deadline, kind, 0),
        }
    }

    /// Returns the bytes of a packed collection; `None` for a big one.
    #[inline]
    pub fn packed_bytes(&self) -> Option<&[u8]> {
        match self.value() {
            None => Some(self.area(self.value_at(), self.header().value_len as usize)),
            Some(Value::Packed(bytes)) => Some(bytes),
            Some(_) => None,
        }
    }

    /// Returns the format of a packed collection.
    #[inline]
    pub fn packing(&self) -> Packing {
        if self.header().kind & OTHER_PACKING == 0 { Packing::Listpack } else { Packing::Other }
    }

    /// Replaces the value by a packed collection of the same type.
    pub fn set_packed(&mut self, packing: Packing, bytes: &[u8]) {
        let new = Self::packed(self.key(), self.kind(), packing, bytes, self.deadline());
        *self = new.used_as(self.usage());
    }

    /// Reallocates the entry to change the length of its packed collection, or moves the collection into a box.
    #[cold]
    pub(super) fn splice_elsewhere(&mut self, range: Range<usize>, parts: &[&[u8]], new_len: usize) {
        let rebuilt = {
            let (key, deadline, kind) = (self.key(), self.deadline(), self.header().kind);
            let value = self.area(self.value_at(), self.header().value_len as usize);
            let (before, after) = (&value[..range.start], &value[range.end..]);
            let all: SmallVec<[&[u8]; 16]> =
                std::iter::once(before).chain(parts.iter().copied()).chain(std::iter::once(after)).collect();
            let size = self.value_at() + new_len;
            match new_len {
                SHARED_MIN.. => Self::boxed_as(kind, key, Box::new(Value::Packed(all.concat())), deadline),
                _ => Self::build_of_parts(key, &all, deadline, kind, slab::room_for_growth(size)),
            }
        };
        self.replace_moved(rebuilt);
    }
}

/// Returns the encoding bits of a packed collection.
fn packing_bits(packing: Packing) -> u8 {
    match packing {
        Packing::Listpack => 0,
        Packing::Other => OTHER_PACKING,
    }
}
