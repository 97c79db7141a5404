//! Sorted sets: small ones packed in their entries, large ones as a table of members beside a tree ordered by score.

use crate::store::entry::Entry;
use crate::store::value::listpack::Listpack;
use crate::store::value::{Kind, Packing, Type, Value};

/// The data type of sorted sets.
pub(crate) enum SortedSet {}

/// A borrowed sorted set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SortedSetRef<'e> {
    /// Member and score alternate, in the order of scores.
    Packed(Listpack<'e>),
    /// Above the limits of packed ones.
    Big(&'e BigSortedSet),
}

/// A sorted set borrowed to be changed.
pub(crate) struct SortedSetMut<'e>(&'e mut Entry);

/// A sorted set above the limits of packed ones.
#[derive(Debug)]
pub(crate) struct BigSortedSet {}

impl BigSortedSet {
    /// Returns the bytes allocated, without this struct itself.
    pub(super) fn memory(&self) -> usize {
        0
    }

    /// Returns the cost of freeing it, in units of one allocation.
    pub(super) fn effort(&self) -> usize {
        1
    }

    /// Returns a copy that shares no memory with the original.
    pub(super) fn copy(&self) -> Self {
        BigSortedSet {}
    }
}

impl SortedSetRef<'_> {
    /// Returns the number of members.
    pub(crate) fn len(self) -> usize {
        match self {
            SortedSetRef::Packed(listpack) => listpack.len() / 2,
            SortedSetRef::Big(_) => 0,
        }
    }

    /// Returns the name of the encoding that `OBJECT ENCODING` reports.
    pub(crate) fn encoding(self) -> &'static str {
        match self {
            SortedSetRef::Packed(_) => "listpack",
            SortedSetRef::Big(_) => "skiplist",
        }
    }
}

impl Kind for SortedSet {
    const TYPE: Type = Type::SortedSet;
    type Ref<'e> = SortedSetRef<'e>;
    type Mut<'e> = SortedSetMut<'e>;

    #[inline]
    fn read(entry: &Entry) -> SortedSetRef<'_> {
        match (entry.packed_bytes(), entry.value()) {
            (Some(bytes), _) => SortedSetRef::Packed(Listpack::new(bytes)),
            (None, Some(Value::SortedSet(big))) => SortedSetRef::Big(big),
            _ => unreachable!("the type of the value was checked"),
        }
    }

    fn write(entry: &mut Entry) -> SortedSetMut<'_> {
        SortedSetMut(entry)
    }

    fn nothing<'e>() -> SortedSetRef<'e> {
        SortedSetRef::Packed(Listpack::EMPTY)
    }

    fn create(key: &[u8]) -> Entry {
        Entry::packed(key, Type::SortedSet, Packing::Listpack, Listpack::EMPTY.bytes(), None)
    }

    fn is_empty(value: SortedSetRef<'_>) -> bool {
        value.len() == 0
    }
}
