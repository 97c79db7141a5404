//! Fields and values of a hash, borrowed from the hash.

use bytes::Bytes;

use crate::store::value::Str;
use crate::store::value::listpack::StoredElement;

/// A field or a value, as it is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HashText<'e> {
    /// Bytes inside the hash.
    Inline(&'e [u8]),
    /// A canonical decimal number.
    Int(i64),
    /// Bytes that can be shared without copying.
    Shared(&'e Bytes),
}

impl HashText<'_> {
    /// Passes the string to a function, without allocation.
    #[inline]
    pub(crate) fn with<R>(self, read: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            HashText::Inline(text) => read(text),
            HashText::Int(int) => read(itoa::Buffer::new().format(int).as_bytes()),
            HashText::Shared(bytes) => read(bytes),
        }
    }

    /// Returns the string as an integer, if it is a canonical one.
    #[inline]
    pub(crate) fn to_int(self) -> Option<i64> {
        match self {
            HashText::Inline(text) => StoredElement::Text(text).to_int(),
            HashText::Int(int) => Some(int),
            HashText::Shared(_) => None,
        }
    }

    pub(crate) fn len(self) -> usize {
        self.with(<[u8]>::len)
    }
}

impl<'e> From<StoredElement<'e>> for HashText<'e> {
    #[inline]
    fn from(item: StoredElement<'e>) -> Self {
        match item {
            StoredElement::Text(text) => HashText::Inline(text),
            StoredElement::Int(int) => HashText::Int(int),
        }
    }
}

impl<'e> From<Str<'e>> for HashText<'e> {
    #[inline]
    fn from(text: Str<'e>) -> Self {
        match text {
            Str::Inline(text) => HashText::Inline(text),
            Str::Shared(bytes) => HashText::Shared(bytes),
        }
    }
}

/// A field with its value.
pub(crate) type FieldAndValue<'e> = (HashText<'e>, HashText<'e>);
