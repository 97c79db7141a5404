//! What a key can hold: one file a data type.
//!
//! A short string lives inside its key's [`Entry`]. Everything else is a [`Value`] behind one pointer: long strings now;
//! hashes, lists, sets, sorted sets and streams get their variants here.
//!
//! A data type implements [`Kind`]. Handlers name it where they look a key up (`view.get::<Str>(key, how)`) and where they
//! change one (`view.edit::<Str>(key, event)`), so the type is checked in one place, which knows one refusal: [`WrongType`].

mod string;

use crate::store::entry::Entry;

pub(crate) use string::{LongText, SHARED_MIN, Str, StringHint};

/// Says that a key holds a value of another data type than the one asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType;

/// Names the data types, as `TYPE` does. The number of a type is what the entries have in their type bits.
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

/// A data type: how handlers read a value of it and change it. Its file is all that a new type adds to the store, beside
/// its variants of [`Type`] and [`Value`] and its method of [`Visitor`].
pub trait Kind {
    /// The type's name.
    const TYPE: Type;
    /// A value of this type, to be read.
    type Ref<'e>;
    /// A value of this type, to be changed.
    type Mut<'e>;

    /// Lends the value of an entry of this type.
    fn read(entry: &Entry) -> Self::Ref<'_>;

    /// Lends the value of an entry of this type, to be changed.
    fn write(entry: &mut Entry) -> Self::Mut<'_>;

    /// Returns what a missing key is read as.
    fn nothing<'e>() -> Self::Ref<'e>;

    /// Creates an entry with an empty value.
    fn create(key: &[u8]) -> Entry;

    /// Returns whether nothing is left of a value, so that its key goes. An empty string stays.
    fn is_empty(value: Self::Ref<'_>) -> bool;

    /// Shows the value of an entry of this type.
    fn visit(entry: &Entry, visitor: &mut dyn Visitor);
}

/// Is shown a value, whatever its type: what copies, serialises or signs values is a visitor, and is written once for all
/// types.
pub trait Visitor {
    /// Sees a string, and how it came to be.
    fn string(&mut self, text: Str<'_>, hint: StringHint);
}

/// Holds what is too large, or too structured, to lie inside an entry.
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

    /// Returns the bytes taken from the allocator, those of this enum aside.
    pub fn memory(&self) -> usize {
        match self {
            Value::Text(text) => text.memory(),
        }
    }

    /// Returns how much work it is to free the value, in units of one allocation.
    pub fn effort(&self) -> usize {
        match self {
            Value::Text(text) => text.effort(),
        }
    }
}

impl Entry {
    /// Returns the value as one of a type.
    ///
    /// # Errors
    /// [`WrongType`] when it is of another one.
    #[inline]
    pub fn get<K: Kind>(&self) -> Result<K::Ref<'_>, WrongType> {
        if self.is_of(K::TYPE) { Ok(K::read(self)) } else { Err(WrongType) }
    }

    /// Shows the value to a visitor.
    pub fn visit(&self, visitor: &mut dyn Visitor) {
        match self.kind() {
            Type::String => Str::visit(self, visitor),
        }
    }

    /// Returns a copy of value and deadline under another key, as yet unused. It shares nothing, so that the memory of each
    /// is its own.
    pub fn copy(&self, key: &[u8]) -> Self {
        let mut copier = Copier { key, source: self, copy: None };
        self.visit(&mut copier);
        copier.copy.expect("every type is visited")
    }
}

/// Copies the value that it is shown.
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
