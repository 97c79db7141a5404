//! Sets: small ones packed in their entries, large ones as a table of members.

use crate::store::entry::Entry;
use crate::store::value::listpack::Listpack;
use crate::store::value::{Kind, Packing, Type, Value};

/// The data type of sets.
pub(crate) enum Set {}

/// A borrowed set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SetRef<'e> {
    /// The members in the order of insertion.
    Packed(Listpack<'e>),
    /// Above the limits of packed ones.
    Big(&'e BigSet),
}

/// A set borrowed to be changed.
pub(crate) struct SetMut<'e>(&'e mut Entry);

/// A set above the limits of packed ones.
#[derive(Debug)]
pub(crate) struct BigSet {}

impl BigSet {
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
        BigSet {}
    }
}

impl SetRef<'_> {
    /// Returns the number of members.
    pub(crate) fn len(self) -> usize {
        match self {
            SetRef::Packed(listpack) => listpack.len(),
            SetRef::Big(_) => 0,
        }
    }

    /// Returns the name of the encoding that `OBJECT ENCODING` reports.
    pub(crate) fn encoding(self) -> &'static str {
        match self {
            SetRef::Packed(_) => "listpack",
            SetRef::Big(_) => "hashtable",
        }
    }
}

impl Kind for Set {
    const TYPE: Type = Type::Set;
    type Ref<'e> = SetRef<'e>;
    type Mut<'e> = SetMut<'e>;

    #[inline]
    fn read(entry: &Entry) -> SetRef<'_> {
        match (entry.packed_bytes(), entry.value()) {
            (Some(bytes), _) => SetRef::Packed(Listpack::new(bytes)),
            (None, Some(Value::Set(big))) => SetRef::Big(big),
            _ => unreachable!("the type of the value was checked"),
        }
    }

    fn write(entry: &mut Entry) -> SetMut<'_> {
        SetMut(entry)
    }

    fn nothing<'e>() -> SetRef<'e> {
        SetRef::Packed(Listpack::EMPTY)
    }

    fn create(key: &[u8]) -> Entry {
        Entry::packed(key, Type::Set, Packing::Listpack, Listpack::EMPTY.bytes(), None)
    }

    fn is_empty(value: SetRef<'_>) -> bool {
        value.len() == 0
    }
}
