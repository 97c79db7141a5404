//! Strings: short ones inside their entries, long ones as bytes that replies can share.

use bytes::{Bytes, BytesMut};

use crate::memory::heap::{SHARED_BYTES_LEN, allocation_len};
use crate::store::entry::Entry;
use crate::store::value::{Kind, Type};

/// The length from which a string is kept as shared bytes, so that a reply can carry it without a copy.
pub(crate) const SHARED_MIN: usize = 16 * 1024;

/// The page size of the system, in bytes.
const PAGE_LEN: usize = 4096;

/// Returns the cost of freeing a long allocation: the system reclaims its pages one by one.
pub(super) fn pages(len: usize) -> usize {
    len.div_ceil(PAGE_LEN)
}

/// A long string with its capacity, which shared bytes do not expose.
#[derive(Debug)]
pub(crate) struct LongText {
    bytes: Bytes,
    /// How many bytes fit into the allocation.
    capacity: usize,
}

impl LongText {
    /// Copies a string, without spare capacity.
    pub(crate) fn new(text: &[u8]) -> Self {
        LongText { bytes: Bytes::copy_from_slice(text), capacity: text.len() }
    }

    /// Copies a string, with capacity for `len` bytes.
    pub(in crate::store) fn with_room(text: &[u8], len: usize) -> Self {
        let mut own = BytesMut::with_capacity(allocation_len(len.max(text.len())));
        own.extend_from_slice(text);
        LongText { capacity: own.capacity(), bytes: own.freeze() }
    }

    /// Borrows the bytes, which a reply may share.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the cost of freeing the string.
    pub(crate) fn effort(&self) -> usize {
        pages(self.capacity)
    }

    /// Returns the allocated bytes.
    pub(crate) fn memory(&self) -> usize {
        allocation_len(self.capacity) + SHARED_BYTES_LEN
    }

    /// Overwrites part of the string from `offset` on, padding it with zero bytes if it is too short.
    ///
    /// It grows to the full size class of the allocator, which reserves that anyway. The classes are a fifth apart, so
    /// the cost of appending is amortised.
    pub(in crate::store) fn write_range(&mut self, offset: usize, patch: &[u8]) {
        let end = offset + patch.len();
        let mut own = match std::mem::take(&mut self.bytes).try_into_mut() {
            Ok(own) if end <= own.capacity() => own,
            Ok(own) => grown(own, end),
            // A reply still shares the bytes; only then are they copied.
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
    /// Takes over bytes that are not shared; copies shared ones, and those with far too much capacity.
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

/// Grows the buffer to exactly `len` bytes, where possible without copying its content.
fn grown(own: BytesMut, len: usize) -> BytesMut {
    let mut text = Vec::from(own);
    text.reserve_exact(allocation_len(len) - text.len());
    BytesMut::from(Bytes::from(text))
}

/// How a string was stored, which decides the encoding that `OBJECT ENCODING` reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StringHint {
    /// Stored as a whole: an integer, embedded or raw, by its content.
    #[default]
    Plain,
    /// Stored as a whole by a command that does not recognise integers.
    NotInt,
    /// Edited in place, or prepared for that.
    Raw,
}

/// A borrowed string value: short ones as a slice, long ones as bytes that can be shared.
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

    /// Returns the length in bytes.
    pub fn len(self) -> usize {
        self.as_slice().len()
    }

    /// Returns the bytes as an owned value; long ones are shared, short ones copied.
    pub fn to_bytes(self) -> Bytes {
        match self {
            Str::Inline(slice) => Bytes::copy_from_slice(slice),
            Str::Shared(bytes) => bytes.clone(),
        }
    }
}

impl Kind for Str<'_> {
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

/// A string borrowed to be changed in place.
pub struct StringMut<'e>(&'e mut Entry);

impl StringMut<'_> {
    /// Overwrites part of the string from `offset` on, padding it with zero bytes if it is too short.
    pub fn write_range(&mut self, offset: usize, patch: &[u8]) {
        self.0.write_range(offset, patch);
    }

    /// Sets how the string was stored.
    pub fn set_hint(&mut self, hint: StringHint) {
        self.0.set_hint(hint);
    }
}
