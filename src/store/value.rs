//! What a key can hold.
//!
//! A short string lives inside its key's [`Entry`](crate::store::entry::Entry). Everything else is a
//! [`Value`] behind one pointer: long strings now; hashes, lists, sets, sorted sets and streams get
//! their variants here.

use bytes::{Bytes, BytesMut};

use crate::memory::heap::{SHARED_BYTES_LEN, allocation_len};

/// The length from which a string is kept as shared bytes, so that a reply can carry it without a copy.
pub(crate) const SHARED_MIN: usize = 16 * 1024;

/// Holds what is too large, or too structured, to lie inside an entry.
#[derive(Debug)]
pub enum Value {
    /// A string of at least [`SHARED_MIN`] bytes.
    Text(LongText),
}

/// Holds a long string, and knows how much room it has, which shared bytes do not tell.
#[derive(Debug)]
pub struct LongText {
    bytes: Bytes,
    /// How many bytes fit where the string is.
    capacity: usize,
}

impl LongText {
    /// Copies a string, without room for more.
    pub fn new(text: &[u8]) -> Self {
        LongText { bytes: Bytes::copy_from_slice(text), capacity: text.len() }
    }

    /// Copies a string, with room to grow to `len` bytes.
    pub(super) fn with_room(text: &[u8], len: usize) -> Self {
        let mut own = BytesMut::with_capacity(allocation_len(len.max(text.len())));
        own.extend_from_slice(text);
        LongText { capacity: own.capacity(), bytes: own.freeze() }
    }

    /// Lends the bytes, which a reply may share.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the bytes taken from the allocator.
    pub fn memory(&self) -> usize {
        allocation_len(self.capacity) + SHARED_BYTES_LEN
    }

    /// Overwrites part of the string from `offset` on, growing it with zero bytes where it is too short.
    ///
    /// It grows to the end of a size class of the allocator, which sets that aside anyway. The classes are a fifth apart,
    /// so that appending bit by bit copies every byte a few times only.
    pub(super) fn write_range(&mut self, offset: usize, patch: &[u8]) {
        let end = offset + patch.len();
        let mut own = match std::mem::take(&mut self.bytes).try_into_mut() {
            Ok(own) if end <= own.capacity() => own,
            Ok(own) => grown(own, end),
            // A reply still holds the bytes; only then are they copied.
            Err(shared) => {
                let mut own = BytesMut::with_capacity(allocation_len(end.max(shared.len())));
                own.extend_from_slice(&shared);
                own
            }
        };
        if end > own.len() {
            own.resize(end, 0);
        }
        own[offset..end].copy_from_slice(patch);
        self.capacity = own.capacity();
        self.bytes = own.freeze();
    }
}

impl From<Bytes> for LongText {
    /// Takes over bytes that nobody else holds; copies others, and those with far too much room.
    fn from(bytes: Bytes) -> Self {
        match bytes.try_into_mut() {
            Ok(own) if allocation_len(own.capacity()) == allocation_len(own.len()) => {
                LongText { capacity: own.capacity(), bytes: own.freeze() }
            }
            Ok(own) => Self::new(&own),
            Err(shared) => Self::new(&shared),
        }
    }
}

/// Makes room for `len` bytes in all and not more, where that is possible without copying what is there.
fn grown(own: BytesMut, len: usize) -> BytesMut {
    let mut text = Vec::from(own);
    text.reserve_exact(allocation_len(len) - text.len());
    BytesMut::from(Bytes::from(text))
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
pub enum StringHint {
    /// It was stored as a whole: an integer, embedded or raw, by its content.
    #[default]
    Plain,
    /// It was stored as a whole by a command that does not take it for an integer.
    NotInt,
    /// It was edited in place, or made ready for that.
    Raw,
}

/// Lends the string of a key: short ones as a slice, long ones as bytes that can be shared.
#[derive(Clone, Copy, Debug)]
pub enum Str<'a> {
    /// Lies inside the entry.
    Inline(&'a [u8]),
    /// Can be cloned without copying.
    Shared(&'a Bytes),
}

impl<'a> Str<'a> {
    /// Returns the bytes.
    pub fn as_slice(self) -> &'a [u8] {
        match self {
            Str::Inline(slice) => slice,
            Str::Shared(bytes) => bytes,
        }
    }

    /// Returns the bytes as a value of their own; long ones are shared, short ones copied.
    pub fn to_bytes(self) -> Bytes {
        match self {
            Str::Inline(slice) => Bytes::copy_from_slice(slice),
            Str::Shared(bytes) => bytes.clone(),
        }
    }
}
