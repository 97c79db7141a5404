//! Hashes: small ones packed in their entries, large ones as a table of entries whose keys are the fields.

use crate::store::entry::Entry;
use crate::store::value::listpack::Listpack;
use crate::store::value::{Kind, Packing, Type, Value};

/// The data type of hashes.
pub(crate) enum Hash {}

/// A borrowed hash.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HashRef<'e> {
    /// Field and value alternate.
    Packed(Listpack<'e>),
    /// Above the limits of packed ones.
    Big(&'e BigHash),
}

/// A hash borrowed to be changed.
pub(crate) struct HashMut<'e>(&'e mut Entry);

/// A hash above the limits of packed ones.
#[derive(Debug)]
pub(crate) struct BigHash {}

impl BigHash {
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
        BigHash {}
    }
}

impl HashRef<'_> {
    /// Returns the number of fields.
    pub(crate) fn len(self) -> usize {
        match self {
            HashRef::Packed(listpack) => listpack.len() / 2,
            HashRef::Big(_) => 0,
        }
    }

    /// Returns the name of the encoding that `OBJECT ENCODING` reports.
    pub(crate) fn encoding(self) -> &'static str {
        match self {
            HashRef::Packed(_) => "listpack",
            HashRef::Big(_) => "hashtable",
        }
    }
}

impl Kind for Hash {
    const TYPE: Type = Type::Hash;
    type Ref<'e> = HashRef<'e>;
    type Mut<'e> = HashMut<'e>;

    #[inline]
    fn read(entry: &Entry) -> HashRef<'_> {
        match (entry.packed_bytes(), entry.value()) {
            (Some(bytes), _) => HashRef::Packed(Listpack::new(bytes)),
            (None, Some(Value::Hash(big))) => HashRef::Big(big),
            _ => unreachable!("the type of the value was checked"),
        }
    }

    fn write(entry: &mut Entry) -> HashMut<'_> {
        HashMut(entry)
    }

    fn nothing<'e>() -> HashRef<'e> {
        HashRef::Packed(Listpack::EMPTY)
    }

    fn create(key: &[u8]) -> Entry {
        Entry::packed(key, Type::Hash, Packing::Listpack, Listpack::EMPTY.bytes(), None)
    }

    fn is_empty(value: HashRef<'_>) -> bool {
        value.len() == 0
    }
}
