//! What a key can hold.
//!
//! A short string lives inside its key's [`Entry`](super::entry::Entry). Everything else is a
//! [`Value`] behind one pointer: long strings now; hashes, lists, sets, sorted sets and streams get
//! their variants here.

use bytes::Bytes;

/// The length from which a string is kept as shared bytes, so that a reply can carry it without a copy.
pub const SHARED_MIN: usize = 16 * 1024;

/// Holds what is too large, or too structured, to lie inside an entry.
#[derive(Clone, Debug)]
pub enum Value {
    /// A string of at least [`SHARED_MIN`] bytes.
    Text(Bytes),
}

/// Names the data types, as `TYPE` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A sequence of bytes.
    String,
}

impl Type {
    /// Returns the name that `TYPE` and `SCAN ... TYPE` use.
    pub fn name(self) -> &'static str {
        match self {
            Type::String => "string",
        }
    }
}

impl Value {
    /// Returns the data type.
    pub fn kind(&self) -> Type {
        match self {
            Value::Text(_) => Type::String,
        }
    }
}

/// Says how a string came to be, which decides how Redis would keep it, as `OBJECT ENCODING` tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// It was stored as a whole.
    #[default]
    Whole,
    /// It was stored as a whole by a command that does not take it for an integer.
    Text,
    /// It was edited, or at least made ready for it.
    Edited,
}

/// Lends the string of a key: short ones as a slice, long ones as bytes that can be shared.
#[derive(Clone, Copy, Debug)]
pub enum Text<'a> {
    /// Lies inside the entry.
    Short(&'a [u8]),
    /// Can be cloned without copying.
    Long(&'a Bytes),
}

impl<'a> Text<'a> {
    /// Returns the bytes.
    pub fn as_slice(self) -> &'a [u8] {
        match self {
            Text::Short(slice) => slice,
            Text::Long(bytes) => bytes,
        }
    }

    /// Returns the bytes as a value of their own; long ones are shared, short ones copied.
    pub fn to_bytes(self) -> Bytes {
        match self {
            Text::Short(slice) => Bytes::copy_from_slice(slice),
            Text::Long(bytes) => bytes.clone(),
        }
    }
}
