//! The values that a key can hold: one file per data type.
//!
//! A short string lives inside its key's [`Entry`]. Everything else is a [`Value`] behind one pointer: long strings
//! now; hashes, lists, sets, sorted sets and streams get their variants here.
//!
//! A data type implements [`Kind`]. Handlers name the type where they look a key up (`view.get::<Str>(key, how)`) and
//! where they change one (`view.edit::<Str>(key, event)`), so the type is checked in one place, which has one error:
//! [`WrongType`].

pub(crate) mod intset;
pub(crate) mod listpack;
mod string;

use crate::store::entry::Entry;

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
}

impl Type {
    /// Returns the name that `TYPE` and `SCAN ... TYPE` use.
    pub fn name(self) -> &'static str {
        match self {
            Type::String => "string",
        }
    }
}

/// A data type: how handlers read and change a value. A new type adds to the store its own file, a variant of [`Type`]
/// and of [`Value`], and a method of [`Visitor`].
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

    /// Returns whether a value is empty, so that its key is deleted. An empty string is not.
    fn is_empty(value: Self::Ref<'_>) -> bool;

    /// Passes the value of an entry of this type to a visitor.
    fn visit(entry: &Entry, visitor: &mut dyn Visitor);
}

/// Receives a value of any type: copying, serialising and digesting are visitors, so each is written once for all
/// types.
pub trait Visitor {
    /// Receives a string, and how it was stored.
    fn string(&mut self, text: Str<'_>, hint: StringHint);
}

/// A value that is too large, or too structured, to lie inside an entry.
#[derive(Debug)]
pub enum Value {
    /// A string of at least [`SHARED_MIN`] bytes.
    Text(LongText),
}

impl Value {
    /// Returns the data type.
    pub fn kind(&self) -> Type {
        match self {
            Value::Text(_) => Type::String,
        }
    }

    /// Returns the bytes allocated, without this enum itself.
    pub fn memory(&self) -> usize {
        match self {
            Value::Text(text) => text.memory(),
        }
    }

    /// Returns the cost of freeing the value, in units of one allocation.
    pub fn effort(&self) -> usize {
        match self {
            Value::Text(text) => text.effort(),
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

    /// Passes the value to a visitor.
    pub fn visit(&self, visitor: &mut dyn Visitor) {
        match self.kind() {
            Type::String => Str::visit(self, visitor),
        }
    }

    /// Returns a copy of value and deadline under another key, with a fresh usage. The copy shares no memory with the
    /// original.
    pub fn copy(&self, key: &[u8]) -> Self {
        let mut copier = Copier { key, source: self, copy: None };
        self.visit(&mut copier);
        copier.copy.expect("every type calls the visitor")
    }
}

/// A visitor that copies the value.
struct Copier<'a> {
    key: &'a [u8],
    source: &'a Entry,
    copy: Option<Entry>,
}

impl Visitor for Copier<'_> {
    fn string(&mut self, text: Str<'_>, hint: StringHint) {
        let mut copy = Entry::text(self.key, text.as_slice(), self.source.deadline());
        copy.set_hint(hint);
        self.copy = Some(copy);
    }
}
