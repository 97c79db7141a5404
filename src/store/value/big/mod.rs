//! Values outside an entry: long strings, long packed collections, and one large form of each type.

pub(super) mod elements;
pub(super) mod hash;
pub(super) mod list;
pub(super) mod set;
pub(super) mod sorted_set;
mod steps;
pub(super) mod stream;
pub(super) mod text;
pub(in crate::store) mod walk;

use crate::memory::heap::allocation_len;
use crate::store::entry::Entry;

use hash::BigHash;
use list::BigList;
use set::BigSet;
use sorted_set::BigSortedSet;
use stream::BigStream;
use text::{LongText, pages};

/// Minimum effort that is counted when a value is freed. Freeing a smaller value takes no longer than finding its key.
pub(in crate::store) const EFFORT_COUNTED: usize = 64;

/// A value that is too large, or too structured, to be stored inside an entry.
#[derive(Debug)]
pub(crate) enum Value {
    /// A string of at least [`SHARED_MIN`](super::SHARED_MIN) bytes.
    Text(LongText),
    /// A packed collection of at least [`SHARED_MIN`](super::SHARED_MIN) bytes; the entry has its type and its format.
    Packed(Vec<u8>),
    /// A list that is not packed.
    List(Box<BigList>),
    /// A set that is not packed.
    Set(Box<BigSet>),
    /// A sorted set that is not packed.
    SortedSet(Box<BigSortedSet>),
    /// A hash that is not packed.
    Hash(Box<BigHash>),
    /// A stream, which is never packed.
    Stream(Box<BigStream>),
}

/// Returns the memory of the box of an entry's [`Value`], and of the `T` boxed in it.
pub(super) const fn boxes_len<T>() -> usize {
    allocation_len(size_of::<Value>()) + allocation_len(size_of::<T>())
}

impl Value {
    /// Returns the bytes allocated, including the box of this enum.
    #[cold]
    pub(in crate::store) fn boxed_memory(&self) -> usize {
        allocation_len(size_of::<Value>()) + self.memory()
    }

    /// Returns the bytes allocated, without this enum itself.
    fn memory(&self) -> usize {
        match self {
            Value::Text(text) => text.memory(),
            Value::Packed(bytes) => allocation_len(bytes.capacity()),
            Value::List(list) => allocation_len(size_of_val(&**list)) + list.memory(),
            Value::Set(set) => allocation_len(size_of_val(&**set)) + set.memory(),
            Value::SortedSet(set) => allocation_len(size_of_val(&**set)) + set.memory(),
            Value::Hash(hash) => allocation_len(size_of_val(&**hash)) + hash.memory(),
            Value::Stream(stream) => allocation_len(size_of_val(&**stream)) + stream.memory(),
        }
    }

    /// Returns the cost of freeing the value, in units of one allocation. A value that a snapshot visits counts as
    /// large, even if little is left of it.
    pub(crate) fn effort(&self) -> usize {
        let effort = match self {
            Value::Text(text) => text.effort(),
            Value::Packed(bytes) => pages(bytes.capacity()),
            Value::List(list) => list.effort(),
            Value::Set(set) => set.effort(),
            Value::SortedSet(set) => set.effort(),
            Value::Hash(hash) => hash.effort(),
            Value::Stream(stream) => stream.effort(),
        };
        if self.record().is_some() { effort.max(EFFORT_COUNTED) } else { effort }
    }

    /// Returns a copy that shares no memory with the original.
    fn copy(&self) -> Self {
        match self {
            Value::Text(text) => Value::Text(LongText::new(text.bytes())),
            Value::Packed(bytes) => Value::Packed(bytes.clone()),
            Value::List(list) => Value::List(Box::new(list.copy())),
            Value::Set(set) => Value::Set(Box::new(set.copy())),
            Value::SortedSet(set) => Value::SortedSet(Box::new(set.copy())),
            Value::Hash(hash) => Value::Hash(Box::new(hash.copy())),
            Value::Stream(stream) => Value::Stream(Box::new(stream.copy())),
        }
    }
}

impl Entry {
    /// Returns a copy of value and deadline under another key, with a fresh usage. The copy shares no memory with the
    /// original.
    pub fn copy(&self, key: &[u8]) -> Self {
        match self.value() {
            None => self.copy_inline(key),
            Some(value) => self.with_value(key, value.copy()),
        }
    }
}
