//! The IDs of entries.

use std::ops::Deref;

use crate::text::{DIGITS_MAX, put_digits};

/// The ID of an entry: a time and a sequence number among the entries with that time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamId {
    /// Usually a time in milliseconds since 1970.
    pub(crate) ms: u64,
    /// Sequence number among the entries with the same time.
    pub(crate) seq: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct IdText {
    /// Buffer whose end is the text.
    bytes: [u8; 2 * DIGITS_MAX + 1],
    start: usize,
}

impl Deref for IdText {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl StreamId {
    /// The smallest ID, which no entry has.
    pub(crate) const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    /// The largest ID.
    pub(crate) const MAX: StreamId = StreamId { ms: u64::MAX, seq: u64::MAX };

    pub(crate) const fn new(ms: u64, seq: u64) -> Self {
        StreamId { ms, seq }
    }

    /// Returns the next larger ID, if there is one.
    pub(crate) fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(StreamId { ms: self.ms, seq }),
            None => Some(StreamId { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// Returns the next smaller ID, if there is one.
    pub(crate) fn prev(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(StreamId { ms: self.ms, seq }),
            None => Some(StreamId { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }

    /// Returns the text `ms-seq`.
    pub(crate) fn text(self) -> IdText {
        let mut bytes = [b'-'; 2 * DIGITS_MAX + 1];
        let end = bytes.len();
        let dash = put_digits(&mut bytes, end, self.seq) - 1;
        let start = put_digits(&mut bytes, dash, self.ms);
        IdText { bytes, start }
    }

    /// Returns the bytes of the ID, which sort like the IDs, as contained in dumps.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.bits().to_be_bytes()
    }

    /// Reads the bytes of [`StreamId::to_bytes`].
    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self::from_bits(u128::from_be_bytes(bytes))
    }

    /// Returns the ID as a number that sorts like the IDs.
    pub(super) fn bits(self) -> u128 {
        u128::from(self.ms) << 64 | u128::from(self.seq)
    }

    /// Reverts [`StreamId::bits`].
    pub(super) fn from_bits(bits: u128) -> Self {
        StreamId { ms: (bits >> 64) as u64, seq: bits as u64 }
    }

    /// Returns the difference to the first ID of a chunk, as entries store it.
    pub(super) fn since(self, master: StreamId) -> (i64, i64) {
        (self.ms.wrapping_sub(master.ms) as i64, self.seq.wrapping_sub(master.seq) as i64)
    }

    /// Reverts [`StreamId::since`].
    pub(super) fn after(master: StreamId, (ms, seq): (i64, i64)) -> Self {
        StreamId { ms: master.ms.wrapping_add(ms as u64), seq: master.seq.wrapping_add(seq as u64) }
    }
}
