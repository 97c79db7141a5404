//! The values that a key can hold: one file per data type.
//!
//! A short string lives inside its key's [`Entry`], and so does a small collection: packed as a listpack or an intset
//! in Redis' own formats, so that DUMP and RESTORE copy bytes. Everything else is a [`Value`] behind one pointer, see
//! `big/`.
//!
//! A data type implements [`DataType`]. Handlers name the type where they look a key up (`view.get::<Str>(key, how)`) and
//! where they change one (`view.edit::<Str>(key, event)`), so the type is checked in one place, which has one error:
//! [`WrongType`]. Operations on values of all types (copying, serialising, digesting) match on [`ValueRef`].

mod big;
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

use crate::store::entry::Entry;

pub(in crate::store) use big::EFFORT_COUNTED;
pub(crate) use big::Value;
pub(crate) use big::text::LongText;
pub(crate) use big::walk::{Record, RecordBody, RecordPart, WalkProgress, WalkedElement, WriteElement};
pub(crate) use hash::{Hash, HashGrowth, HashRef, HashText, VisibleHash};
pub(crate) use kind::{DataType, Packing, Type, WrongType};
pub(crate) use list::{List, ListBuilder, ListEnd, ListNode, ListRef, NodeLimit};
pub(crate) use listpack::StoredElement;
pub(crate) use set::{Rules as SetRules, Set, SetRef};
pub(crate) use sorted_set::{SortedSet, SortedSetRef};
pub(crate) use stream::{Stream, StreamRef};
pub(crate) use string::{SHARED_MIN, Str, StringHint};

/// A borrowed value of any type.
pub(crate) enum ValueRef<'e> {
    /// A string, and the hint about its encoding.
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

impl Entry {
    /// Borrows the value of any type.
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
}
