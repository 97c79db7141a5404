//! Packed collections inside an entry, or in a box of their own.

use std::ops::Range;

use smallvec::SmallVec;

use crate::memory::slab;
use crate::store::entry::{ENCODING, Entry, OTHER_PACKING, RAW, type_bits};
use crate::store::value::{Packing, SHARED_MIN, Type, Value};
use crate::time::clock::Deadline;

/// The encoding of a packed collection with deadlines: a bit of the encoding of strings.
const TIMED_PACKING: u8 = RAW;

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
        match self.header().kind & ENCODING {
            0 => Packing::Listpack,
            OTHER_PACKING => Packing::Other,
            _ => Packing::Timed,
        }
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
        Packing::Timed => TIMED_PACKING,
    }
}
