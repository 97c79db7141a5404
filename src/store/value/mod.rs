//! The values that a key can hold: one file per data type.
//!
//! A short string lives inside its key's [`Entry`], and so does a small collection: packed as a listpack or an intset
//! in Redis' own formats, so that DUMP and RESTORE copy bytes. Everything else is a [`Value`] behind one pointer.
//!
//! A data type implements [`Kind`]. Handlers name the type where they look a key up (`view.get::<Str>(key, how)`) and
//! where they change one (`view.edit::<Str>(key, event)`), so the type is checked in one place, which has one error:
//! [`WrongType`]. What is done to values of all types (copying, serialising, digesting) matches on [`ValueRef`].

pub(crate) mod hash;
pub(crate) mod intset;
pub(crate) mod list;
pub(crate) mod listpack;
pub(crate) mod member;
pub(crate) mod rank_tree;
pub(crate) mod set;
pub(crate) mod sorted_set;
pub(crate) mod stream;
mod string;

use crate::memory::heap::allocation_len;
use crate::store::entry::Entry;

pub(crate) use hash::{Hash, HashGrowth, HashRef, HashText};
pub(crate) use list::{End, List, ListBuilder, ListRef, Node, NodeLimit};
pub(crate) use listpack::Item;
pub(crate) use set::{Rules as SetRules, Set, SetRef};
pub(crate) use sorted_set::{SortedSet, SortedSetRef};
pub(crate) use stream::{Stream, StreamRef};
pub(crate) use string::{LongText, SHARED_MIN, Str, StringHint};

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
    /// The types by their discriminants.
    pub(crate) const ALL: [Type; 6] = [Type::String, Type::List, Type::Set, Type::SortedSet, Type::Hash, Type::Stream];

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

/// A data type: how handlers read and change a value. A new type adds to the store its own file, and a variant of
/// [`Type`], of [`ValueRef`] and of [`Value`].
pub trait Kind {
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

    /// Returns a lower bound of the deadlines of the value's elements, in milliseconds since 1970; `None` without any.
    #[inline]
    fn nearest_deadline(_: &Entry) -> Option<i64> {
        None
    }

    /// Returns whether the value of an entry is empty, so that its key is deleted. An empty string is not.
    fn is_empty(entry: &Entry) -> bool;
}

/// A borrowed value of any type.
pub(crate) enum ValueRef<'e> {
    /// A string, and how it was stored.
    String(Str<'e>, StringHint),
    /// A list.
    List(ListRef<'e>),
    /// A set.
    Set(SetRef<'e>),
    /// A sorted set.
    SortedSet(SortedSetRef<'e>),
    /// A hash.
    Hash(HashRef<'e>),
    /// A stream.
    Stream(StreamRef<'e>),
}

/// A value that is too large, or too structured, to lie inside an entry.
#[derive(Debug)]
pub(crate) enum Value {
    /// A string of at least [`SHARED_MIN`] bytes.
    Text(LongText),
    /// A packed collection of at least [`SHARED_MIN`] bytes; the entry has its type and its format.
    Packed(Vec<u8>),
    /// A list that is not packed.
    List(Box<list::BigList>),
    /// A set that is not packed.
    Set(Box<set::BigSet>),
    /// A sorted set that is not packed.
    SortedSet(Box<sorted_set::BigSortedSet>),
    /// A hash that is not packed.
    Hash(Box<hash::BigHash>),
    /// A stream, which is never packed.
    Stream(Box<stream::BigStream>),
}

/// Returns the memory of the box of an entry's [`Value`], and of the `T` boxed in it.
const fn boxes_len<T>() -> usize {
    allocation_len(size_of::<Value>()) + allocation_len(size_of::<T>())
}

impl Value {
    /// Returns the bytes allocated, with the box that this enum lies in.
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

    /// Returns the cost of freeing the value, in units of one allocation.
    pub(crate) fn effort(&self) -> usize {
        match self {
            Value::Text(text) => text.effort(),
            Value::Packed(bytes) => string::pages(bytes.capacity()),
            Value::List(list) => list.effort(),
            Value::Set(set) => set.effort(),
            Value::SortedSet(set) => set.effort(),
            Value::Hash(hash) => hash.effort(),
            Value::Stream(stream) => stream.effort(),
        }
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
    /// Returns the value as a given type.
    ///
    /// # Errors
    /// [`WrongType`] when it is of another type.
    #[inline]
    pub fn get<K: Kind>(&self) -> Result<K::Ref<'_>, WrongType> {
        if self.is_of(K::TYPE) { Ok(K::read(self)) } else { Err(WrongType) }
    }

    /// Borrows the value, whatever its type.
    pub(crate) fn contents(&self) -> ValueRef<'_> {
        match self.kind() {
            Type::String => ValueRef::String(self.string(), self.hint()),
            Type::List => ValueRef::List(List::read(self)),
            Type::Set => ValueRef::Set(Set::read(self)),
            Type::SortedSet => ValueRef::SortedSet(SortedSet::read(self)),
            Type::Hash => ValueRef::Hash(Hash::read(self)),
            Type::Stream => ValueRef::Stream(Stream::read(self)),
        }
    }

    /// Returns a copy of value and deadline under another key, with a fresh usage. The copy shares no memory with the
    /// original.
    pub fn copy(&self, key: &[u8]) -> Self {
        match self.value() {
            None => self.copy_inline(key),
            Some(value) => self.with_value(key, value.copy()),
        }
    }
}
