//! The data types, and the trait that each of them implements: access to its values in an entry, for reading and
//! changing.

use crate::store::entry::Entry;

/// The error for a key that holds a value of another data type than the one requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType;

/// The data types, named as in `TYPE`. The discriminant is stored in the type bits of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Type {
    /// A sequence of bytes.
    String = 0,
    /// A sequence of strings.
    List = 1,
    /// Strings without order.
    Set = 2,
    /// Strings ordered by scores.
    SortedSet = 3,
    /// Fields with values.
    Hash = 4,
    /// A log of entries with fields, and groups of consumers.
    Stream = 5,
}

impl Type {
    /// The number of types.
    pub(crate) const COUNT: usize = 6;

    /// The types by their discriminants.
    pub(crate) const ALL: [Type; Self::COUNT] =
        [Type::String, Type::List, Type::Set, Type::SortedSet, Type::Hash, Type::Stream];

    /// Returns the name that `TYPE` and `SCAN ... TYPE` use.
    pub fn name(self) -> &'static str {
        match self {
            Type::String => "string",
            Type::List => "list",
            Type::Set => "set",
            Type::SortedSet => "zset",
            Type::Hash => "hash",
            Type::Stream => "stream",
        }
    }
}

/// The format of a packed collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// A listpack.
    Listpack,
    /// The other format of the type: an intset for a set, a listpack with deadlines for a hash.
    Other,
}

/// A data type: access of handlers to its values. A new type adds to the store its own file, and a variant of [`Type`]
/// and of [`Value`](super::Value).
pub trait DataType {
    /// The type's name.
    const TYPE: Type;
    /// A shared borrow of a value of this type.
    type Ref<'e>;
    /// A mutable borrow of a value of this type.
    type Mut<'e>;

    /// Borrows the value of an entry of this type.
    fn read(entry: &Entry) -> Self::Ref<'_>;

    /// Borrows the value of an entry of this type mutably.
    fn write(entry: &mut Entry) -> Self::Mut<'_>;

    /// Returns the value that a missing key reads as.
    fn nothing<'e>() -> Self::Ref<'e>;

    /// Creates an entry with an empty value.
    fn create(key: &[u8]) -> Entry;

    /// Returns the bytes that an entry of this type takes, as [`Entry::memory`] does.
    #[inline]
    fn memory(entry: &Entry) -> usize {
        entry.memory()
    }

    /// Returns a lower bound of the deadlines of the value's elements, in milliseconds since 1970; `None` if there are
    /// none.
    #[inline]
    fn nearest_deadline(_: &Entry) -> Option<i64> {
        None
    }

    /// Returns true if the value of an entry is empty, so that its key is deleted. An empty string does not count as
    /// empty.
    fn is_empty(entry: &Entry) -> bool;
}

impl Entry {
    /// Returns the value as a given type.
    ///
    /// # Errors
    /// [`WrongType`] if the value is of another type.
    #[inline]
    pub fn get<K: DataType>(&self) -> Result<K::Ref<'_>, WrongType> {
        if self.is_of(K::TYPE) { Ok(K::read(self)) } else { Err(WrongType) }
    }
}
