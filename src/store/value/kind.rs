//! The data types, and the trait that each of them implements: access to its values in an entry, for reading and
//! changing.

use crate::store::entry::Entry;

/// The error for a key that holds a value of another data type than the one requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType;

/// Passes the list of data types to a macro, which declares what follows from it. A line has the variant of [`Type`],
/// the name, the type that implements [`DataType`], and the form of values that are not packed, if there is one.
macro_rules! data_types {
    ($declare:ident) => {
        $declare! {
            /// A sequence of bytes.
            String "string" Str;
            /// A sequence of strings.
            List "list" List BigList;
            /// Strings without order.
            Set "set" Set BigSet;
            /// Strings ordered by scores.
            SortedSet "zset" SortedSet BigSortedSet;
            /// Fields with values.
            Hash "hash" Hash BigHash;
            /// A log of entries with fields, and groups of consumers.
            Stream "stream" Stream BigStream;
            /// Names with vectors.
            #[cfg(feature = "vectors")]
            VectorSet "vectorset" VectorSet BigVectorSet;
            /// A JSON document.
            #[cfg(feature = "json")]
            Json "ReJSON-RL" Json;
            /// A filter that tells whether an item may have been added.
            #[cfg(feature = "probabilistic")]
            BloomFilter "MBbloom--" BloomFilter;
            /// Such a filter, from which items can be deleted.
            #[cfg(feature = "probabilistic")]
            CuckooFilter "MBbloomCF" CuckooFilter;
            /// Estimated counts of items.
            #[cfg(feature = "probabilistic")]
            CountMinSketch "CMSk-TYPE" CountMinSketch;
            /// The most frequent items.
            #[cfg(feature = "probabilistic")]
            TopK "TopK-TYPE" TopK;
            /// A distribution of observations.
            #[cfg(feature = "probabilistic")]
            TDigest "TDIS-TYPE" TDigest;
            /// A text of the library's own tests.
            #[cfg(test)]
            Toy "toy---txt" Toy;
        }
    };
}
pub(in crate::store::value) use data_types;

/// Declares [`Type`] from the list of data types.
macro_rules! declare_type {
    ($($(#[doc = $doc:literal])+ $(#[cfg($cfg:meta)])? $of:ident $name:literal $_data:ident $($_large:ident)?;)+) => {
        /// The data types, named as in `TYPE`. The discriminant is stored in the type bits of entries, or, of a type
        /// whose values are [flat](crate::store::value::flat), with the value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Type {
            $($(#[doc = $doc])+ $(#[cfg($cfg)])? $of,)+
        }

        impl Type {
            /// The number of types.
            pub(crate) const COUNT: usize = [$($(#[cfg($cfg)])? $name,)+].len();

            /// The types by their discriminants.
            pub(crate) const ALL: [Type; Self::COUNT] = [$($(#[cfg($cfg)])? Type::$of,)+];

            /// Returns the name that `TYPE` and `SCAN ... TYPE` use.
            pub fn name(self) -> &'static str {
                match self {
                    $($(#[cfg($cfg)])? Type::$of => $name,)+
                }
            }
        }
    };
}

data_types!(declare_type);

/// The format of a packed collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// A listpack.
    Listpack,
    /// Another format of the type: an intset for a set.
    Other,
    /// A listpack in which a value and a deadline follow each element, see `hash/packed.rs`.
    Timed,
}

/// A data type: access of handlers to its values. A new type adds to the store its own file, its
/// module and name in `value/mod.rs`, and a line in the list above.
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
