//! Intsets: sets of integers packed into one block of bytes, in the format that Redis keeps in memory and writes into
//! dumps.
//!
//! An intset is the width of an integer in bytes (2, 4 or 8) and the number of integers, both `u32`, and the integers
//! in ascending order; all in little endian. The width grows with the integers, and never shrinks.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use crate::store::value::listpack::Blob;

/// The length of the header: width and number of integers.
const HEADER_LEN: usize = 8;

const TOO_MANY: &str = "intsets are limited to far fewer integers";

/// Returns the number of bytes that an integer needs.
#[inline]
fn width_of(int: i64) -> usize {
    if i16::try_from(int).is_ok() {
        2
    } else if i32::try_from(int).is_ok() {
        4
    } else {
        8
    }
}

/// Creates the intset of ascending integers.
pub(crate) fn of_sorted(ints: &[i64]) -> Vec<u8> {
    let width = ints.first().into_iter().chain(ints.last()).map(|int| width_of(*int)).max().unwrap_or(width_of(0));
    let len = u32::try_from(ints.len()).expect(TOO_MANY);
    let mut bytes = Vec::with_capacity(HEADER_LEN + ints.len() * width);
    bytes.extend((width as u32).to_le_bytes());
    bytes.extend(len.to_le_bytes());
    ints.iter().for_each(|int| bytes.extend_from_slice(&int.to_le_bytes()[..width]));
    bytes
}

/// A borrowed intset. Its bytes are valid: made here, or checked by [`IntSet::validate`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntSet<'a> {
    bytes: &'a [u8],
}

impl<'a> IntSet<'a> {
    /// An empty intset.
    pub(crate) const EMPTY: IntSet<'static> = IntSet { bytes: &[2, 0, 0, 0, 0, 0, 0, 0] };

    /// Borrows bytes that are known to be an intset.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let set = IntSet { bytes };
        debug_assert_eq!(bytes.len(), HEADER_LEN + set.len() * set.width());
        set
    }

    /// Checks bytes from elsewhere: the lengths, and that the integers ascend. As in Redis, an empty set is refused.
    pub(crate) fn validate(bytes: &'a [u8]) -> Option<Self> {
        let ([a, b, c, d, e, f, g, h], body) = bytes.split_first_chunk::<HEADER_LEN>()?;
        let width = u32::from_le_bytes([*a, *b, *c, *d]);
        let len = u32::from_le_bytes([*e, *f, *g, *h]);
        let has_len = u64::try_from(body.len()).ok()? == u64::from(width).checked_mul(u64::from(len))?;
        let set = IntSet { bytes };
        (matches!(width, 2 | 4 | 8) && len > 0 && has_len && set.iter().is_sorted_by(|low, high| low < high))
            .then_some(set)
    }

    /// Returns the whole intset.
    #[inline]
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the number of integers.
    #[inline]
    pub(crate) fn len(self) -> usize {
        let [a, b, c, d] = [self.bytes[4], self.bytes[5], self.bytes[6], self.bytes[7]];
        u32::from_le_bytes([a, b, c, d]) as usize
    }

    /// Returns true if there are no integers.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.bytes.len() == HEADER_LEN
    }

    /// Returns true if an integer is in the set.
    #[inline]
    pub(crate) fn contains(self, int: i64) -> bool {
        self.search(int).is_ok()
    }

    /// Returns the integer at an index, in ascending order.
    ///
    /// # Panics
    /// If the index is out of range.
    #[inline]
    pub(crate) fn get(self, index: usize) -> i64 {
        let body = &self.bytes[HEADER_LEN..];
        match self.width() {
            2 => i64::from(i16::from_le_bytes(body.as_chunks().0[index])),
            4 => i64::from(i32::from_le_bytes(body.as_chunks().0[index])),
            _ => i64::from_le_bytes(body.as_chunks().0[index]),
        }
    }

    /// Returns the smallest integer.
    #[inline]
    pub(crate) fn min(self) -> Option<i64> {
        (!self.is_empty()).then(|| self.get(0))
    }

    /// Returns the greatest integer.
    #[inline]
    pub(crate) fn max(self) -> Option<i64> {
        (!self.is_empty()).then(|| self.get(self.len() - 1))
    }

    /// Returns an iterator over the integers, from either end.
    #[inline]
    pub(crate) fn iter(self) -> impl DoubleEndedIterator<Item = i64> + ExactSizeIterator + Clone + use<'a> {
        (0..self.len()).map(move |index| self.get(index))
    }

    /// Returns the index of an integer, or as an error the index to insert it at.
    fn search(self, int: i64) -> Result<usize, usize> {
        // New integers are often greater than all others.
        if self.max().is_none_or(|max| int > max) {
            return Err(self.len());
        }
        let body = &self.bytes[HEADER_LEN..];
        match self.width() {
            2 => search_by(body.as_chunks().0, |own| i64::from(i16::from_le_bytes(own)).cmp(&int)),
            4 => search_by(body.as_chunks().0, |own| i64::from(i32::from_le_bytes(own)).cmp(&int)),
            _ => search_by(body.as_chunks().0, |own| i64::from_le_bytes(own).cmp(&int)),
        }
    }

    #[inline]
    fn width(self) -> usize {
        usize::from(self.bytes[0])
    }
}

#[inline]
fn search_by<const WIDTH: usize>(
    ints: &[[u8; WIDTH]],
    mut compare: impl FnMut([u8; WIDTH]) -> Ordering,
) -> Result<usize, usize> {
    ints.binary_search_by(|own| compare(*own))
}

/// Editor of an intset.
#[derive(Debug)]
pub(crate) struct IntSetMut<B>(B);

impl<B: Blob> IntSetMut<B> {
    /// Wraps bytes that are known to be an intset.
    #[inline]
    pub(crate) fn new(blob: B) -> Self {
        IntSetMut(blob)
    }

    /// Borrows the set for reading.
    #[inline]
    pub(crate) fn as_set(&self) -> IntSet<'_> {
        IntSet::new(self.0.bytes())
    }

    /// Adds an integer. Returns true if it is new.
    pub(crate) fn add(&mut self, int: i64) -> bool {
        let set = self.as_set();
        let (len, width) = (set.len(), set.width());
        if width_of(int) > width {
            self.widen_and_add(int);
            return true;
        }
        let Err(index) = set.search(int) else { return false };
        let at = HEADER_LEN + index * width;
        self.0.splice(at..at, &[&int.to_le_bytes()[..width]]);
        self.write_len(len + 1);
        true
    }

    /// Removes an integer. Returns true if it was in the set.
    pub(crate) fn remove(&mut self, int: i64) -> bool {
        let set = self.as_set();
        let (len, width) = (set.len(), set.width());
        let Ok(index) = set.search(int) else { return false };
        let at = HEADER_LEN + index * width;
        self.0.splice(at..at + width, &[]);
        self.write_len(len - 1);
        true
    }

    /// Rewrites the set with wider integers, and adds an integer that needs this width. It is less or greater than all
    /// others, since it does not fit into their width.
    fn widen_and_add(&mut self, int: i64) {
        let set = self.as_set();
        let width = width_of(int);
        let mut wide = Vec::with_capacity((set.len() + 1) * width);
        let mut write = |int: i64| wide.extend_from_slice(&int.to_le_bytes()[..width]);
        if int < 0 {
            write(int);
        }
        set.iter().for_each(&mut write);
        if int >= 0 {
            write(int);
        }
        let (len, old) = (set.len(), HEADER_LEN..set.bytes.len());
        self.0.splice(old, &[&wide]);
        self.0.write(0, &(width as u32).to_le_bytes());
        self.write_len(len + 1);
    }

    fn write_len(&mut self, len: usize) {
        let len = u32::try_from(len).expect(TOO_MANY);
        self.0.write(4, &len.to_le_bytes());
    }
}
