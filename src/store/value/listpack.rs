//! Listpacks: short sequences of strings packed into one block of bytes, in the format that Redis keeps in memory and
//! writes into dumps.
//!
//! A listpack is a header of 6 bytes, elements, and a terminator. An element ends with its own length, so a listpack
//! can be walked from both ends. The functions of [`element`] work on elements alone, without header and terminator.

mod element;
#[cfg(test)]
mod tests;

use std::ops::Range;

use smallvec::SmallVec;

pub(crate) use element::{
    Encoded, Items, StoredElement, find, first, is_short_text, item_at, next, prev, put_int, put_text, write_short_text,
};

/// The length of the header: the length of the listpack as a `u32`, and the number of elements as a `u16`, both in
/// little endian.
pub(crate) const HEADER_LEN: usize = 6;

/// The last byte of a listpack.
pub(crate) const END: u8 = 0xFF;

/// Value of the header's count: there are too many elements for 16 bits, or once were, so they must be counted.
const COUNT_UNKNOWN: usize = 0xFFFF;

/// Returns the header of a listpack of `count` elements, which are `elements_len` bytes long.
///
/// # Panics
/// If the listpack is longer than 4 GB; the limits of packed collections are far below.
pub(crate) fn header(elements_len: usize, count: usize) -> [u8; HEADER_LEN] {
    let total = u32::try_from(HEADER_LEN + elements_len + 1).expect("a listpack is shorter than 4 GB");
    let [a, b, c, d] = total.to_le_bytes();
    let [e, f] = u16::try_from(count).unwrap_or(u16::MAX).to_le_bytes();
    [a, b, c, d, e, f]
}

/// A borrowed listpack. Its bytes are valid: made here, or checked by [`Listpack::validate`].
///
/// A position is the offset of an element from the start of the listpack. Positions stay valid until an edit at or
/// before them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listpack<'a> {
    bytes: &'a [u8],
}

impl<'a> Listpack<'a> {
    /// An empty listpack.
    pub(crate) const EMPTY: Listpack<'static> = Listpack { bytes: &[7, 0, 0, 0, 0, 0, END] };

    /// Borrows bytes that are known to be a listpack.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        debug_assert!(matches!(bytes, [a, b, c, d, _, _, .., END]
            if u32::from_le_bytes([*a, *b, *c, *d]) as usize == bytes.len()));
        Listpack { bytes }
    }

    /// Checks bytes from elsewhere: every length, the number of elements, and the end of every element. Elements that
    /// Redis would store in fewer bytes are accepted, as Redis does.
    pub(crate) fn validate(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_LEN>()?;
        let [elements @ .., END] = rest else { return None };
        let [a, b, c, d, e, f] = *header;
        if usize::try_from(u32::from_le_bytes([a, b, c, d])).ok()? != bytes.len() {
            return None;
        }
        let (mut rest, mut count) = (elements, 0);
        while !rest.is_empty() {
            rest = element::split_checked(rest)?;
            count += 1;
        }
        let told = usize::from(u16::from_le_bytes([e, f]));
        (told == COUNT_UNKNOWN || told == count).then_some(Listpack { bytes })
    }

    /// Returns the whole listpack.
    #[inline]
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the elements without header and terminator.
    #[inline]
    pub(crate) fn elements(self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..self.end()]
    }

    /// Returns the number of elements. If a listpack has ever had 65535 or more, they are counted one by one.
    #[inline]
    pub(crate) fn len(self) -> usize {
        match self.header_count() {
            COUNT_UNKNOWN => self.iter().count(),
            count => count,
        }
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.bytes.len() == HEADER_LEN + 1
    }

    /// Returns the offset of the terminator, where an element can be inserted.
    #[inline]
    pub(crate) fn end(self) -> usize {
        self.bytes.len() - 1
    }

    /// Returns the position of the first element.
    #[inline]
    pub(crate) fn first(self) -> Option<usize> {
        self.filled(HEADER_LEN)
    }

    /// Returns the position of the last element.
    #[inline]
    pub(crate) fn last(self) -> Option<usize> {
        self.prev(self.end())
    }

    /// Returns the position of the element after a position.
    #[inline]
    pub(crate) fn next(self, at: usize) -> Option<usize> {
        self.filled(next(self.bytes, at))
    }

    /// Returns the position of the element before a position or before the terminator.
    #[inline]
    pub(crate) fn prev(self, at: usize) -> Option<usize> {
        (at > HEADER_LEN).then(|| prev(self.bytes, at))
    }

    /// Returns the element at a position.
    #[inline]
    pub(crate) fn get(self, at: usize) -> StoredElement<'a> {
        item_at(self.bytes, at)
    }

    /// Returns the position of the element at an index; -1 is the last one. It is reached from the nearer end.
    pub(crate) fn seek(self, index: isize) -> Option<usize> {
        let steps = index.unsigned_abs();
        let count = self.header_count();
        // With an unknown count, either end may be the nearer one.
        let (forward, steps) = match (index >= 0, count) {
            (true, COUNT_UNKNOWN) => (true, steps),
            (false, COUNT_UNKNOWN) => (false, steps - 1),
            (true, _) if steps >= count => return None,
            (false, _) if steps > count => return None,
            (true, _) if steps > count / 2 => (false, count - 1 - steps),
            (true, _) => (true, steps),
            (false, _) if steps > count / 2 => (true, count - steps),
            (false, _) => (false, steps - 1),
        };
        let mut at = if forward { self.first() } else { self.last() };
        for _ in 0..steps {
            at = if forward { self.next(at?) } else { self.prev(at?) };
        }
        at
    }

    /// Returns an iterator over the elements, from either end.
    #[inline]
    pub(crate) fn iter(self) -> Items<'a> {
        Items::within(self.bytes, HEADER_LEN..self.end())
    }

    /// Returns the position of the first element equal to `needle`, comparing from the element at `from` on, and
    /// skipping `skip` elements after each: 1 searches the fields of pairs of field and value.
    #[inline]
    pub(crate) fn find(self, from: usize, needle: &[u8], skip: usize) -> Option<usize> {
        find(&self.bytes[..self.end()], from, needle, skip)
    }

    #[inline]
    fn filled(self, at: usize) -> Option<usize> {
        (at < self.end()).then_some(at)
    }

    #[inline]
    fn header_count(self) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[4], self.bytes[5]]))
    }
}

impl<'a> IntoIterator for Listpack<'a> {
    type Item = StoredElement<'a>;
    type IntoIter = Items<'a>;

    fn into_iter(self) -> Items<'a> {
        self.iter()
    }
}

/// Bytes that can be edited in place, in memory of any owner.
pub(crate) trait Blob {
    /// Borrows the bytes.
    fn bytes(&self) -> &[u8];

    /// Replaces a range by the concatenation of `parts`.
    fn splice(&mut self, range: Range<usize>, parts: &[&[u8]]);

    /// Overwrites the bytes from `at` on, which exist.
    fn write(&mut self, at: usize, bytes: &[u8]);
}

impl Blob for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn splice(&mut self, range: Range<usize>, parts: &[&[u8]]) {
        let (old_len, mut at) = (self.len(), range.start);
        let added: usize = parts.iter().map(|part| part.len()).sum();
        let new_len = old_len - range.len() + added;
        if new_len > old_len {
            self.resize(new_len, 0);
        }
        self.copy_within(range.end..old_len, range.start + added);
        self.truncate(new_len);
        for part in parts {
            self[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

impl<B: Blob + ?Sized> Blob for &mut B {
    #[inline]
    fn bytes(&self) -> &[u8] {
        (**self).bytes()
    }

    #[inline]
    fn splice(&mut self, range: Range<usize>, parts: &[&[u8]]) {
        (**self).splice(range, parts);
    }

    #[inline]
    fn write(&mut self, at: usize, bytes: &[u8]) {
        (**self).write(at, bytes);
    }
}

/// Editor of a listpack. Every edit moves the bytes after it once.
#[derive(Debug)]
pub(crate) struct ListpackMut<B>(B);

impl<B: Blob> ListpackMut<B> {
    /// Wraps bytes that are known to be a listpack.
    #[inline]
    pub(crate) fn new(blob: B) -> Self {
        ListpackMut(blob)
    }

    /// Borrows the listpack for reading.
    #[inline]
    pub(crate) fn as_listpack(&self) -> Listpack<'_> {
        Listpack::new(self.0.bytes())
    }

    /// Adds an element at the end.
    #[inline]
    pub(crate) fn push_back(&mut self, element: Encoded<'_>) {
        self.push_back_all(&[element]);
    }

    /// Adds elements at the end.
    #[inline]
    pub(crate) fn push_back_all(&mut self, elements: &[Encoded<'_>]) {
        self.insert_all_before(self.as_listpack().end(), elements);
    }

    /// Adds an element at the start.
    #[inline]
    pub(crate) fn push_front(&mut self, element: Encoded<'_>) {
        self.insert_before(HEADER_LEN, element);
    }

    /// Inserts an element before the element at a position, or before the terminator. The new element gets that
    /// position.
    #[inline]
    pub(crate) fn insert_before(&mut self, at: usize, element: Encoded<'_>) {
        self.insert_all_before(at, &[element]);
    }

    /// Inserts elements, in their order, before the element at a position, or before the terminator.
    #[inline]
    pub(crate) fn insert_all_before(&mut self, at: usize, elements: &[Encoded<'_>]) {
        self.splice(at..at, 0, elements);
    }

    /// Replaces the element at a position.
    #[inline]
    pub(crate) fn replace(&mut self, at: usize, element: Encoded<'_>) {
        self.replace_range(at, 1, &[element]);
    }

    /// Replaces `count` elements from a position on, or all of them if there are fewer, by other elements.
    pub(crate) fn replace_range(&mut self, at: usize, count: usize, elements: &[Encoded<'_>]) {
        let listpack = self.as_listpack();
        let (mut end, mut removed) = (at, 0);
        while removed < count && end < listpack.end() {
            end = next(listpack.bytes, end);
            removed += 1;
        }
        self.splice(at..end, removed, elements);
    }

    /// Removes the element at a position. Returns the position of the next element, which is the same.
    #[inline]
    pub(crate) fn remove(&mut self, at: usize) -> Option<usize> {
        self.remove_range(at, 1)
    }

    /// Removes `count` elements from a position on, or all of them if there are fewer. Returns the position of the next
    /// element, which is the same.
    #[inline]
    pub(crate) fn remove_range(&mut self, at: usize, count: usize) -> Option<usize> {
        self.replace_range(at, count, &[]);
        self.as_listpack().filled(at)
    }

    /// Replaces a range of bytes, which contains `removed` elements, by elements.
    fn splice(&mut self, range: Range<usize>, removed: usize, elements: &[Encoded<'_>]) {
        let listpack = self.as_listpack();
        let count = match listpack.header_count() {
            COUNT_UNKNOWN => COUNT_UNKNOWN,
            count => count - removed + elements.len(),
        };
        let added: usize = elements.iter().map(Encoded::len).sum();
        let header = header(listpack.bytes.len() - HEADER_LEN - 1 - range.len() + added, count);
        match elements {
            [] => self.0.splice(range, &[]),
            [element] => self.0.splice(range, &element.parts()),
            elements => {
                let parts: SmallVec<[&[u8]; 12]> = elements.iter().flat_map(Encoded::parts).collect();
                self.0.splice(range, &parts);
            }
        }
        self.0.write(0, &header);
    }
}
