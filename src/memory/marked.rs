//! Bytes with marked ranges, which their reader treats differently.

use std::ops::{Deref, DerefMut, Range};

/// Bytes and the marked ranges among them, in their order. They grow only at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarkedBytes {
    bytes: Vec<u8>,
    marks: Vec<Range<usize>>,
}

impl MarkedBytes {
    /// Marks the bytes from an offset on.
    pub(crate) fn mark_from(&mut self, start: usize) {
        self.marks.push(start..self.bytes.len());
    }

    /// Appends other bytes with their marks.
    pub(crate) fn append(&mut self, other: &MarkedBytes) {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.marks.extend(other.marks.iter().map(|mark| before + mark.start..before + mark.end));
    }

    /// Frees unused capacity.
    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.marks.shrink_to_fit();
    }

    /// Returns the bytes, none of which may be marked.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        debug_assert!(self.marks.is_empty(), "a mark is lost");
        self.bytes
    }

    /// Returns the bytes and the marked ranges.
    pub(crate) fn into_parts(self) -> (Vec<u8>, Vec<Range<usize>>) {
        (self.bytes, self.marks)
    }
}

impl From<Vec<u8>> for MarkedBytes {
    fn from(bytes: Vec<u8>) -> Self {
        MarkedBytes { bytes, marks: Vec::new() }
    }
}

impl Deref for MarkedBytes {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for MarkedBytes {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}
