//! Strings: short ones inside their entries, long ones as bytes that replies can share.

use bytes::Bytes;

use crate::store::entry::Entry;
use crate::store::value::{DataType, Type};

/// Length from which on a string is stored as shared bytes, so that a reply can carry it without a copy.
pub(crate) const SHARED_MIN: usize = 16 * 1024;

/// History of a string that decides the encoding reported by `OBJECT ENCODING`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StringHint {
    /// Stored as a whole: an integer, embedded or raw, by its content.
    #[default]
    Plain,
    /// Stored as a whole by a command that does not recognise integers.
    NotInt,
    /// Edited in place, or prepared for edits.
    Raw,
}

/// A borrowed string value: short ones as a slice, long ones as bytes that can be shared.
#[derive(Clone, Copy, Debug)]
pub enum Str<'a> {
    /// A slice inside the entry.
    Inline(&'a [u8]),
    /// Bytes that can be shared without copying.
    Shared(&'a Bytes),
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<&'a T> for Str<'a> {
    #[inline]
    fn from(text: &'a T) -> Self {
        Str::Inline(text.as_ref())
    }
}

impl<'a> Str<'a> {
    /// Returns the bytes.
    pub fn as_slice(self) -> &'a [u8] {
        match self {
            Str::Inline(slice) => slice,
            Str::Shared(bytes) => bytes,
        }
    }

    /// Returns the length in bytes.
    pub fn len(self) -> usize {
        self.as_slice().len()
    }

    /// Returns the bytes as an owned value; long strings are shared, short ones copied.
    pub fn to_bytes(self) -> Bytes {
        match self {
            Str::Inline(slice) => Bytes::copy_from_slice(slice),
            Str::Shared(bytes) => bytes.clone(),
        }
    }
}

impl DataType for Str<'_> {
    const TYPE: Type = Type::String;
    type Ref<'e> = Str<'e>;
    type Mut<'e> = StringMut<'e>;

    #[inline]
    fn read(entry: &Entry) -> Str<'_> {
        entry.string()
    }

    fn write(entry: &mut Entry) -> StringMut<'_> {
        StringMut(entry)
    }

    fn nothing<'e>() -> Str<'e> {
        Str::Inline(b"")
    }

    fn create(key: &[u8]) -> Entry {
        Entry::text(key, b"", None)
    }

    fn is_empty(_: &Entry) -> bool {
        false
    }
}

/// A string borrowed for a change in place.
pub struct StringMut<'e>(&'e mut Entry);

impl StringMut<'_> {
    /// Overwrites part of the string from `offset` on, padding it with zero bytes if it is too short.
    pub fn write_range(&mut self, offset: usize, patch: &[u8]) {
        self.0.write_range(offset, patch);
    }

    /// Replaces the string; its key keeps its deadline.
    pub fn set(&mut self, value: &[u8]) {
        let deadline = self.0.deadline();
        self.0.set_text(value, deadline, drop);
    }

    /// Sets the hint about the encoding.
    pub fn set_hint(&mut self, hint: StringHint) {
        self.0.set_hint(hint);
    }
}
