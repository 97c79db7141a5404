//! The values that a key can hold: one file per data type.
//!
//! A short string lives inside its key's [`Entry`], and so does a small collection: packed as a listpack or an intset
//! in Redis' own formats, so that DUMP and RESTORE copy bytes. Everything else is a [`Value`] behind one pointer, see
//! `big/`. The values of Redis' module types are one string of bytes each, in the entry or behind the pointer, see `flat.rs`.
//!
//! A data type implements [`DataType`]. Handlers name the type where they look a key up (`view.get::<Str>(key, how)`) and
//! where they change one (`view.edit::<Str>(key, event)`), so the type is checked in one place, which has one error:
//! [`WrongType`]. The formats of the types, and their digests, are above the store, in `types/`.

mod big;
pub(crate) mod flat;
pub(crate) mod hash;
pub(crate) mod intset;
mod kind;
pub(crate) mod list;
pub(crate) mod listpack;
pub(crate) mod member;
pub(crate) mod rank_tree;
mod score;
pub(crate) mod set;
pub(crate) mod sorted_set;
pub(crate) mod stream;
mod string;
#[cfg(feature = "vectors")]
pub(crate) mod vector_set;

use crate::store::entry::Entry;
use crate::store::value::stream::Stream;

pub(in crate::store) use big::EFFORT_COUNTED;
pub(crate) use big::Value;
pub(crate) use big::flat::FlatValue;
pub(crate) use big::text::LongText;
pub(crate) use big::walk::{Record, RecordBody, RecordPart, WalkProgress, WalkedElement};
#[cfg(feature = "probabilistic")]
pub(crate) use flat::FlatType;
#[cfg(feature = "json")]
pub(crate) use flat::Json;
#[cfg(test)]
pub(crate) use flat::Toy;
#[cfg(feature = "probabilistic")]
pub(crate) use flat::{BloomFilter, CountMinSketch, CuckooFilter, TDigest, TopK};
pub(crate) use hash::{Hash, HashGrowth, HashMut, HashRef, HashText, VisibleHash};
pub(crate) use kind::{DataType, Packing, Type, WrongType};
pub(crate) use list::{List, ListBuilder, ListEnd, ListNode, ListRef, NodeLimit};
pub(crate) use listpack::StoredElement;
pub(crate) use set::{Rules as SetRules, Set, SetMut, SetRef};
pub(crate) use sorted_set::{SortedSet, SortedSetRef};
pub(crate) use string::{SHARED_MIN, Str, StringHint};
#[cfg(feature = "vectors")]
pub(crate) use vector_set::VectorSet;

/// Declares what [`Entry`] asks any of the data types from their list.
macro_rules! declare_questions {
    ($($(#[doc = $_doc:literal])+ $(#[cfg($cfg:meta)])? $of:ident $_name:literal $data:ident $($_large:ident)?;)+) => {
        impl Entry {
            /// Returns true if the value is an empty collection, whose key is deleted.
            pub(crate) fn is_empty(&self) -> bool {
                match self.kind() {
                    $($(#[cfg($cfg)])? Type::$of => $data::is_empty(self),)+
                }
            }
        }
    };
}

kind::data_types!(declare_questions);
