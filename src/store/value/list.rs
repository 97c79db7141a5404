//! Lists: small ones packed in their entries, long ones as a sequence of packed chunks.

use crate::store::entry::Entry;
use crate::store::value::listpack::Listpack;
use crate::store::value::{Kind, Packing, Type, Value};

/// The data type of lists.
pub(crate) enum List {}

/// A borrowed list.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ListRef<'e> {
    /// The elements in their order.
    Packed(Listpack<'e>),
    /// Above the limits of packed ones.
    Big(&'e BigList),
}

/// A list borrowed to be changed.
pub(crate) struct ListMut<'e>(&'e mut Entry);

/// A list above the limits of packed ones.
#[derive(Debug)]
pub(crate) struct BigList {}

impl BigList {
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
        BigList {}
    }
}

impl ListRef<'_> {
    /// Returns the number of elements.
    pub(crate) fn len(self) -> usize {
        match self {
            ListRef::Packed(listpack) => listpack.len(),
            ListRef::Big(_) => 0,
        }
    }

    /// Returns the name of the encoding that `OBJECT ENCODING` reports.
    pub(crate) fn encoding(self) -> &'static str {
        match self {
            ListRef::Packed(_) => "listpack",
            ListRef::Big(_) => "quicklist",
        }
    }
}

impl Kind for List {
    const TYPE: Type = Type::List;
    type Ref<'e> = ListRef<'e>;
    type Mut<'e> = ListMut<'e>;

    #[inline]
    fn read(entry: &Entry) -> ListRef<'_> {
        match (entry.packed_bytes(), entry.value()) {
            (Some(bytes), _) => ListRef::Packed(Listpack::new(bytes)),
            (None, Some(Value::List(big))) => ListRef::Big(big),
            _ => unreachable!("the type of the value was checked"),
        }
    }

    fn write(entry: &mut Entry) -> ListMut<'_> {
        ListMut(entry)
    }

    fn nothing<'e>() -> ListRef<'e> {
        ListRef::Packed(Listpack::EMPTY)
    }

    fn create(key: &[u8]) -> Entry {
        Entry::packed(key, Type::List, Packing::Listpack, Listpack::EMPTY.bytes(), None)
    }

    fn is_empty(value: ListRef<'_>) -> bool {
        value.len() == 0
    }
}
