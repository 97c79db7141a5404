//! Values outside an entry: long strings, long packed collections, and one large form of each type.

mod deadlines;
pub(super) mod elements;
pub(super) mod flat;
pub(super) mod form;
pub(super) mod hash;
pub(super) mod list;
pub(super) mod set;
pub(super) mod sorted_set;
mod steps;
pub(super) mod stream;
pub(super) mod text;
#[cfg(feature = "vectors")]
pub(super) mod vector_set;
pub(in crate::store) mod walk;

use crate::memory::heap::allocation_len;
use crate::store::entry::Entry;
use crate::store::value::kind::data_types;

use flat::FlatValue;
use form::LargeForm;
use hash::BigHash;
use list::BigList;
use set::{BigSet, TimedSet};
use sorted_set::BigSortedSet;
use stream::BigStream;
use text::{LongText, pages};
#[cfg(feature = "vectors")]
use vector_set::BigVectorSet;

/// Minimum effort that is counted when a value is freed. Freeing a smaller value takes no longer than finding its key.
pub(in crate::store) const EFFORT_COUNTED: usize = 64;

/// Declares [`Value`] from the list of data types, and its functions that match on all variants: the first rules leave the
/// lines without a large form out, the last one declares.
macro_rules! declare_value {
    ([$($found:tt)*] $(#[doc = $_doc:literal])+ $(#[cfg($cfg:meta)])? $_of:ident $_name:literal $_data:ident; $($rest:tt)*) => {
        declare_value! { [$($found)*] $($rest)* }
    };
    (
        [$($found:tt)*]
        $(#[doc = $_doc:literal])+ $(#[cfg($cfg:meta)])? $of:ident $name:literal $_data:ident $large:ident; $($rest:tt)*
    ) => {
        declare_value! { [$($found)* $(#[cfg($cfg)])? $of $name $large;] $($rest)* }
    };
    ([$($(#[cfg($cfg:meta)])? $of:ident $name:literal $large:ident;)+]) => {
        /// A value that is too large, or too structured, to be stored inside an entry.
        #[derive(Debug)]
        pub(crate) enum Value {
            /// A string of at least [`SHARED_MIN`](super::SHARED_MIN) bytes.
            Text(LongText),
            /// A packed collection of at least [`SHARED_MIN`](super::SHARED_MIN) bytes; the entry has its type and its
            /// format.
            Packed(Vec<u8>),
            /// A flat value of at least [`SHARED_MIN`](super::SHARED_MIN) bytes.
            Flat(FlatValue),
            $(
                #[doc = concat!("A value of the type `", $name, "` that is not packed.")]
                $(#[cfg($cfg)])?
                $of(Box<$large>),
            )+
            /// A set that is not packed, some of whose members have deadlines.
            TimedSet(Box<TimedSet>),
        }

        impl Value {
            fn form(&self) -> &dyn LargeForm {
                match self {
                    Value::Text(text) => text,
                    Value::Packed(bytes) => bytes,
                    Value::Flat(value) => value,
                    $(
                        $(#[cfg($cfg)])?
                        Value::$of(large) => {
                            let large: &$large = large;
                            large
                        }
                    )+
                    Value::TimedSet(set) => {
                        let set: &TimedSet = set;
                        set
                    }
                }
            }

            fn form_mut(&mut self) -> &mut dyn LargeForm {
                match self {
                    Value::Text(text) => text,
                    Value::Packed(bytes) => bytes,
                    Value::Flat(value) => value,
                    $(
                        $(#[cfg($cfg)])?
                        Value::$of(large) => {
                            let large: &mut $large = large;
                            large
                        }
                    )+
                    Value::TimedSet(set) => {
                        let set: &mut TimedSet = set;
                        set
                    }
                }
            }

            /// Returns the bytes allocated, without this enum itself.
            fn memory(&self) -> usize {
                match self {
                    Value::Text(text) => text.memory(),
                    Value::Packed(bytes) => bytes.memory(),
                    Value::Flat(value) => value.memory(),
                    $(
                        $(#[cfg($cfg)])?
                        Value::$of(large) => allocation_len(size_of::<$large>()) + $large::memory(large),
                    )+
                    Value::TimedSet(set) => allocation_len(size_of::<TimedSet>()) + TimedSet::memory(set),
                }
            }

            /// Returns a copy that shares no memory with the original.
            fn copy(&self) -> Self {
                match self {
                    Value::Text(text) => Value::Text(text.copy()),
                    Value::Packed(bytes) => Value::Packed(bytes.copy()),
                    Value::Flat(value) => Value::Flat(value.copy()),
                    $(
                        $(#[cfg($cfg)])?
                        Value::$of(large) => Value::$of(Box::new($large::copy(large))),
                    )+
                    Value::TimedSet(set) => Value::TimedSet(Box::new(TimedSet::copy(set))),
                }
            }
        }
    };
    // The list, as it comes.
    ($($list:tt)+) => {
        declare_value! { [] $($list)+ }
    };
}

data_types!(declare_value);

/// A packed collection, of any type.
impl LargeForm for Vec<u8> {
    fn memory(&self) -> usize {
        allocation_len(self.capacity())
    }

    fn effort(&self) -> usize {
        pages(self.capacity())
    }

    fn copy(&self) -> Self {
        self.clone()
    }
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

    /// Returns the cost of freeing the value, in units of one allocation. A value that a snapshot visits counts as
    /// large, even if little is left of it.
    pub(crate) fn effort(&self) -> usize {
        let form = self.form();
        if form.record().is_some() { form.effort().max(EFFORT_COUNTED) } else { form.effort() }
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
