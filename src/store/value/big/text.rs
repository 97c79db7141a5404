//! Long strings: bytes that replies can share.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::memory::heap::{SHARED_BYTES_LEN, allocation_len};
use crate::memory::marked::MarkedBytes;
use crate::store::value::big::form::LargeForm;
use crate::store::value::big::walk::{Record, RecordPart, WalkedElement};

/// The page size of the system, in bytes.
const PAGE_LEN: usize = 4096;

/// Number of bytes of a string that a snapshot visits at once.
const PIECE_LEN: usize = if cfg!(test) { 1000 } else { 256 << 10 };

/// Returns the cost of freeing a long allocation: the system reclaims its pages one by one.
pub(in crate::store::value) fn pages(len: usize) -> usize {
    len.div_ceil(PAGE_LEN)
}

/// A long string with its capacity, which shared bytes do not expose.
pub(crate) struct LongText {
    bytes: Bytes,
    /// Size of the allocation in bytes.
    capacity: usize,
    /// Walk of a snapshot that visits the string.
    walk: Option<Box<TextWalk>>,
}

/// The walk of a snapshot over the pieces of a string.
struct TextWalk {
    /// Length at the cut, in bytes.
    len: usize,
    /// Number of the next piece to visit.
    next: usize,
    /// Pieces that have changed before they were visited, by their numbers.
    kept: BTreeMap<usize, MarkedBytes>,
    record: Record,
}

impl LargeForm for LongText {
    fn memory(&self) -> usize {
        allocation_len(self.capacity) + SHARED_BYTES_LEN
    }

    fn effort(&self) -> usize {
        pages(self.capacity)
    }

    fn copy(&self) -> Self {
        LongText::new(&self.bytes)
    }

    fn set_record(&mut self, record: Option<Record>) {
        let len = self.bytes.len();
        self.walk = record.map(|record| Box::new(TextWalk { len, next: 0, kept: BTreeMap::new(), record }));
    }

    fn record(&self) -> Option<&Record> {
        self.walk.as_ref().map(|walk| &walk.record)
    }

    fn visit_elements(&mut self, is_time_up: &dyn Fn() -> bool) -> Option<RecordPart> {
        let TextWalk { len, next, kept, record } = &mut **self.walk.as_mut()?;
        let count = len.div_ceil(PIECE_LEN);
        loop {
            match kept.remove(next) {
                Some(written) => record.add_written(&written),
                None => record.add(WalkedElement::Piece(piece(&self.bytes, *next, *len))),
            }
            *next += 1;
            if *next == count || is_time_up() {
                return Some(record.take(*next == count));
            }
        }
    }
}

impl LongText {
    /// Copies a string, without spare capacity.
    pub(crate) fn new(text: &[u8]) -> Self {
        LongText { bytes: Bytes::copy_from_slice(text), capacity: text.len(), walk: None }
    }

    /// Creates a string from bytes that may be shared, and have no spare capacity worth mentioning.
    pub(in crate::store) fn shared(bytes: Bytes) -> Self {
        LongText { capacity: bytes.len(), bytes, walk: None }
    }

    /// Copies a string, with capacity for `len` bytes.
    pub(in crate::store) fn with_room(text: &[u8], len: usize) -> Self {
        let mut own = BytesMut::with_capacity(allocation_len(len.max(text.len())));
        own.extend_from_slice(text);
        LongText { capacity: own.capacity(), bytes: own.freeze(), walk: None }
    }

    /// Borrows the bytes, which a reply may share.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Overwrites part of the string from `offset` on, padding it with zero bytes if it is too short.
    ///
    /// The string grows to the full size class of the allocator, which reserves that anyway. The classes are a fifth
    /// apart, so the cost of appending is amortised.
    pub(in crate::store) fn write_range(&mut self, offset: usize, patch: &[u8]) {
        let end = offset + patch.len();
        self.before_change(offset..end);
        let mut own = match std::mem::take(&mut self.bytes).try_into_mut() {
            Ok(own) if end <= own.capacity() => own,
            Ok(own) => grown(own, end),
            // Only bytes that a reply still shares are copied.
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

impl LongText {
    /// Returns the number of pieces that a snapshot visits.
    pub(crate) fn pieces(&self) -> usize {
        self.bytes.len().div_ceil(PIECE_LEN)
    }

    /// Saves the pieces in a range that is about to change and that a snapshot has not visited.
    fn before_change(&mut self, range: Range<usize>) {
        let Some(walk) = &mut self.walk else { return };
        let last = walk.len.div_ceil(PIECE_LEN).min(range.end.div_ceil(PIECE_LEN));
        for number in walk.next.max(range.start / PIECE_LEN)..last {
            let piece = WalkedElement::Piece(piece(&self.bytes, number, walk.len));
            let TextWalk { kept, record, .. } = &mut **walk;
            kept.entry(number).or_insert_with(|| record.written(piece));
        }
    }
}

/// Returns a piece of a text that had this length at the cut, and may have grown since.
fn piece(text: &[u8], number: usize, len: usize) -> &[u8] {
    &text[number * PIECE_LEN..len.min((number + 1) * PIECE_LEN)]
}

impl fmt::Debug for LongText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LongText").field("len", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl From<Bytes> for LongText {
    /// Takes over bytes that are not shared; copies shared bytes, and bytes with far too much capacity.
    fn from(bytes: Bytes) -> Self {
        match bytes.try_into_mut() {
            Ok(own) if allocation_len(own.capacity()) == allocation_len(own.len()) => {
                LongText { capacity: own.capacity(), bytes: own.freeze(), walk: None }
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
