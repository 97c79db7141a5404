//! The elements of listpacks: encoding, reading, comparing and stepping over a string or an integer.
//!
//! The first byte of an element determines its encoding and, for short strings, the length. After the content comes the
//! length of the preceding bytes of the element, 7 bits a byte, written so that it can be read backwards.

use std::borrow::Cow;
use std::ops::Range;

/// Smallest length of strings that does not fit in the first byte.
const SHORT_END: usize = 1 << 6;
/// Smallest length of strings that does not fit in 12 bits.
const MEDIUM_END: usize = 1 << 12;

// The first byte, combined with the upper bits of a length or integer.
const SHORT_TEXT: u8 = 0x80;
const INT_13: u8 = 0xC0;
const MEDIUM_TEXT: u8 = 0xE0;
const LONG_TEXT: u8 = 0xF0;
const INT_16: u8 = 0xF1;
const INT_24: u8 = 0xF2;
const INT_32: u8 = 0xF3;
const INT_64: u8 = 0xF4;
/// A byte that is not the first byte of any element.
const NO_ELEMENT: u8 = 0xFF;

/// Size of an element with its trailing length, by its first byte; 0 if it depends on further bytes.
const SIZES: [u8; 256] = sizes();

const fn sizes() -> [u8; 256] {
    let mut sizes = [0; 256];
    let mut first = 0;
    while first < 256 {
        sizes[first] = match first as u8 {
            0..SHORT_TEXT => 2,
            byte @ SHORT_TEXT..INT_13 => 2 + (byte & 0x3F),
            INT_13..MEDIUM_TEXT => 3,
            INT_16 => 4,
            INT_24 => 5,
            INT_32 => 6,
            INT_64 => 10,
            _ => 0,
        };
        first += 1;
    }
    sizes
}

/// An element as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredElement<'a> {
    /// A string.
    Text(&'a [u8]),
    /// A string that is a canonical decimal number.
    Int(i64),
}

impl<'a> StoredElement<'a> {
    /// Returns a string as it would be stored: as an integer if it is a canonical one.
    #[inline]
    pub(crate) fn of(text: &'a [u8]) -> Self {
        parse_int(text).map_or(StoredElement::Text(text), StoredElement::Int)
    }

    pub(crate) fn to_cow(self) -> Cow<'a, [u8]> {
        match self {
            StoredElement::Text(text) => Cow::Borrowed(text),
            StoredElement::Int(int) => Cow::Owned(itoa::Buffer::new().format(int).as_bytes().to_vec()),
        }
    }

    /// Passes the string to a function, without allocation.
    #[inline]
    pub(crate) fn with_text<R>(self, read: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            StoredElement::Text(text) => read(text),
            StoredElement::Int(int) => read(itoa::Buffer::new().format(int).as_bytes()),
        }
    }

    /// Returns the string as an integer, if it is a canonical one.
    #[inline]
    pub(crate) fn to_int(self) -> Option<i64> {
        match self {
            StoredElement::Text(text) => parse_int(text),
            StoredElement::Int(int) => Some(int),
        }
    }

    /// Returns true if the string equals another one.
    #[inline]
    pub(crate) fn is(self, text: &[u8]) -> bool {
        match self {
            StoredElement::Text(own) => own == text,
            StoredElement::Int(int) => parse_int(text) == Some(int),
        }
    }

    #[inline]
    pub(crate) fn len(self) -> usize {
        self.with_text(<[u8]>::len)
    }
}

/// An element ready to be stored, without a copy of its text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoded<'a> {
    head: [u8; 9],
    head_len: u8,
    tail_len: u8,
    tail: [u8; 5],
    text: &'a [u8],
}

impl<'a> Encoded<'a> {
    /// Encodes a string: as an integer if it is a canonical one.
    #[inline]
    pub(crate) fn of(text: &'a [u8]) -> Self {
        StoredElement::of(text).into()
    }

    /// Encodes an integer in as few bytes as possible.
    #[inline]
    pub(crate) fn of_int(int: i64) -> Self {
        let [a, b, c, d, e, f, g, h] = int.to_le_bytes();
        let (head, head_len) = match int {
            0..=0x7F => ([a, 0, 0, 0, 0, 0, 0, 0, 0], 1),
            -0x1000..=0xFFF => ([INT_13 | b & 0x1F, a, 0, 0, 0, 0, 0, 0, 0], 2),
            -0x8000..=0x7FFF => ([INT_16, a, b, 0, 0, 0, 0, 0, 0], 3),
            -0x80_0000..=0x7F_FFFF => ([INT_24, a, b, c, 0, 0, 0, 0, 0], 4),
            -0x8000_0000..=0x7FFF_FFFF => ([INT_32, a, b, c, d, 0, 0, 0, 0], 5),
            _ => ([INT_64, a, b, c, d, e, f, g, h], 9),
        };
        Encoded { head, head_len, tail_len: 1, tail: [head_len, 0, 0, 0, 0], text: &[] }
    }

    /// Encodes a string that is not an integer, or is to be stored as a string all the same.
    #[inline]
    fn of_text(text: &'a [u8]) -> Self {
        let [a, b, c, d, ..] = text.len().to_le_bytes();
        let (head, head_len) = if text.len() < SHORT_END {
            ([SHORT_TEXT | a, 0, 0, 0, 0, 0, 0, 0, 0], 1)
        } else if text.len() < MEDIUM_END {
            ([MEDIUM_TEXT | b, a, 0, 0, 0, 0, 0, 0, 0], 2)
        } else {
            ([LONG_TEXT, a, b, c, d, 0, 0, 0, 0], 5)
        };
        let (tail, tail_len) = trailing_length(usize::from(head_len) + text.len());
        Encoded { head, head_len, tail_len, tail, text }
    }

    /// Returns the length of the stored element.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.head_len) + self.text.len() + usize::from(self.tail_len)
    }

    /// Returns the bytes to store, in three parts.
    #[inline]
    pub(crate) fn parts(&self) -> [&[u8]; 3] {
        [&self.head[..usize::from(self.head_len)], self.text, &self.tail[..usize::from(self.tail_len)]]
    }

    /// Writes the stored element to a slice of its length.
    #[inline]
    pub(crate) fn write_into(&self, place: &mut [u8]) {
        // One byte before and after a short text: not worth the calls that copy slices.
        if let ([first, text @ .., last], 1, 1) = (&mut *place, self.head_len, self.tail_len) {
            *first = self.head[0];
            text.copy_from_slice(self.text);
            *last = self.tail[0];
            return;
        }
        let mut rest = place;
        for part in self.parts() {
            let (own, behind) = rest.split_at_mut(part.len());
            own.copy_from_slice(part);
            rest = behind;
        }
    }

    /// Appends the stored element.
    #[inline]
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.len());
        self.parts().into_iter().for_each(|part| out.extend_from_slice(part));
    }
}

impl<'a> From<StoredElement<'a>> for Encoded<'a> {
    /// Encodes an element as it was stored.
    #[inline]
    fn from(item: StoredElement<'a>) -> Self {
        match item {
            StoredElement::Text(text) => Self::of_text(text),
            StoredElement::Int(int) => Self::of_int(int),
        }
    }
}

/// Reads a string that is an integer in canonical form: no plus sign, no leading zeros, no `-0`.
#[inline]
pub(super) fn parse_int(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !is_negative => return Some(0),
        // 19 digits fit into 64 bits without a sign.
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut size = 0_u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        size = size * 10 + u64::from(digit);
    }
    if is_negative { 0_i64.checked_sub_unsigned(size) } else { i64::try_from(size).ok() }
}

/// Returns true if a text is certainly stored between one byte before it and one after it: it is short, and not an
/// integer.
#[inline]
pub(crate) fn is_short_text(text: &[u8]) -> bool {
    text.len() < SHORT_END && !matches!(text.first(), Some(b'-' | b'0'..=b'9'))
}

/// Writes a text for which [`is_short_text`] is true to a slice that is two bytes longer.
#[inline]
pub(crate) fn write_short_text(text: &[u8], place: &mut [u8]) {
    if let [first, middle @ .., last] = place {
        *first = SHORT_TEXT | text.len() as u8;
        middle.copy_from_slice(text);
        *last = text.len() as u8 + 1;
    }
}

/// Writes a string as an element at an offset, as [`Encoded::of`] would. Returns the offset after it.
#[inline]
pub(crate) fn put_text(bytes: &mut [u8], at: usize, text: &[u8]) -> usize {
    if !is_short_text(text) {
        return put(bytes, at, &Encoded::of(text));
    }
    let end = at + text.len() + 2;
    write_short_text(text, &mut bytes[at..end]);
    end
}

/// Writes an integer as an element at an offset, as [`Encoded::of_int`] would. Returns the offset after it.
#[inline]
pub(crate) fn put_int(bytes: &mut [u8], at: usize, int: i64) -> usize {
    match int {
        0..=0x7F => {
            bytes[at..at + 2].copy_from_slice(&[int as u8, 1]);
            at + 2
        }
        -0x1000..=0xFFF => {
            let [high, low] = (int as i16).to_be_bytes();
            bytes[at..at + 3].copy_from_slice(&[INT_13 | high & 0x1F, low, 2]);
            at + 3
        }
        _ => put(bytes, at, &Encoded::of_int(int)),
    }
}

#[inline(never)] // keeps the path of short elements short
fn put(bytes: &mut [u8], at: usize, element: &Encoded<'_>) -> usize {
    let end = at + element.len();
    element.write_into(&mut bytes[at..end]);
    end
}

/// Returns the number of bytes that store the length of an element of `len` bytes. The limits are one less than the
/// bits allow, as in Redis.
#[inline]
fn trailing_length_size(len: usize) -> usize {
    match len {
        0..0x80 => 1,
        0x80..0x3FFF => 2,
        0x3FFF..0x1F_FFFF => 3,
        0x1F_FFFF..0xFFF_FFFF => 4,
        _ => 5,
    }
}

/// Encodes the length of an element: the lowest 7 bits last, and the upper bit set in all bytes except the first.
#[inline]
fn trailing_length(len: usize) -> ([u8; 5], u8) {
    let size = trailing_length_size(len);
    let mut bytes = [0; 5];
    if size == 1 {
        bytes[0] = len as u8;
        return (bytes, 1);
    }
    let mut rest = len;
    for at in (0..size).rev() {
        bytes[at] = (rest & 0x7F) as u8 | if at == 0 { 0 } else { 0x80 };
        rest >>= 7;
    }
    (bytes, size as u8)
}

/// Reads the element at the start of `bytes`, and its length without the trailing length.
#[inline]
fn decode(bytes: &[u8]) -> Option<(StoredElement<'_>, usize)> {
    let (&first, rest) = bytes.split_first()?;
    let text = |head_len: usize, len: usize| {
        let text = bytes.get(head_len..)?.get(..len)?;
        Some((StoredElement::Text(text), head_len + len))
    };
    match first {
        0..SHORT_TEXT => Some((StoredElement::Int(i64::from(first)), 1)),
        SHORT_TEXT..INT_13 => text(1, usize::from(first & 0x3F)),
        INT_13..MEDIUM_TEXT => {
            // Shifted to the upper end and back, so that the sign is extended.
            let bits = i16::from_be_bytes([first, *rest.first()?]);
            Some((StoredElement::Int(i64::from(bits << 3 >> 3)), 2))
        }
        MEDIUM_TEXT..LONG_TEXT => text(2, usize::from(first & 0x0F) << 8 | usize::from(*rest.first()?)),
        LONG_TEXT => text(5, usize::try_from(u32::from_le_bytes(*rest.first_chunk()?)).ok()?),
        INT_16 => Some((StoredElement::Int(i64::from(i16::from_le_bytes(*rest.first_chunk()?))), 3)),
        INT_24 => {
            let [a, b, c] = *rest.first_chunk()?;
            Some((StoredElement::Int(i64::from(i32::from_le_bytes([0, a, b, c]) >> 8)), 4))
        }
        INT_32 => Some((StoredElement::Int(i64::from(i32::from_le_bytes(*rest.first_chunk()?))), 5)),
        INT_64 => Some((StoredElement::Int(i64::from_le_bytes(*rest.first_chunk()?)), 9)),
        _ => None,
    }
}

/// Checks the element at the start of `bytes`, which may be anything. Returns the bytes after it.
pub(super) fn split_checked(bytes: &[u8]) -> Option<&[u8]> {
    let (_, len) = decode(bytes)?;
    if trailing_length_size(len) == 1 {
        // Taken for nearly all elements; the call that compares slices takes longer than the rest.
        let (tail, behind) = bytes[len..].split_first()?;
        return (usize::from(*tail) == len).then_some(behind);
    }
    let (tail, tail_len) = trailing_length(len);
    bytes[len..].strip_prefix(&tail[..usize::from(tail_len)])
}

/// Returns the element at an offset.
#[inline]
pub(crate) fn item_at(bytes: &[u8], at: usize) -> StoredElement<'_> {
    trusted(&bytes[at..]).0
}

/// Returns the element at the start of `bytes`, and its length with the trailing length.
#[inline]
pub(crate) fn first(bytes: &[u8]) -> (StoredElement<'_>, usize) {
    let (item, len) = trusted(bytes);
    (item, len + trailing_length_size(len))
}

/// Returns the offset after an element.
#[inline]
pub(crate) fn next(bytes: &[u8], at: usize) -> usize {
    match SIZES[usize::from(bytes[at])] {
        0 => {
            let (_, len) = trusted(&bytes[at..]);
            at + len + trailing_length_size(len)
        }
        size => at + usize::from(size),
    }
}

/// Returns the offset of the element that ends at an offset.
#[inline]
pub(crate) fn prev(bytes: &[u8], end: usize) -> usize {
    let last = bytes[end - 1];
    if last < 0x80 {
        return end - 1 - usize::from(last);
    }
    let (mut len, mut shift, mut at) = (usize::from(last & 0x7F), 7, end - 1);
    loop {
        at -= 1;
        len |= usize::from(bytes[at] & 0x7F) << shift;
        shift += 7;
        if bytes[at] < 0x80 {
            return at - len;
        }
    }
}

#[inline]
fn trusted(bytes: &[u8]) -> (StoredElement<'_>, usize) {
    decode(bytes).expect("elements are made here, or were checked")
}

/// Returns the offset of the first element equal to `needle`, comparing from the element at `at` on, and skipping
/// `skip` elements after each.
pub(crate) fn find(bytes: &[u8], mut at: usize, needle: &[u8], skip: usize) -> Option<usize> {
    let int = parse_int(needle);
    // A string of the same length has this first byte. Names differ more at their ends than at their beginnings.
    let first = if needle.len() < SHORT_END { SHORT_TEXT | needle.len() as u8 } else { NO_ELEMENT };
    let last = *needle.last().unwrap_or(&first);
    while at < bytes.len() {
        let byte = bytes[at];
        let size = usize::from(SIZES[usize::from(byte)]);
        let is_found = if byte == first {
            bytes[at + needle.len()] == last && bytes[at + 1..at + 1 + needle.len()] == *needle
        } else if size == 0 {
            matches!(item_at(bytes, at), StoredElement::Text(text) if text == needle)
        } else {
            int.is_some() && matches!(item_at(bytes, at), StoredElement::Int(own) if Some(own) == int)
        };
        if is_found {
            return Some(at);
        }
        at = if size == 0 { next(bytes, at) } else { at + size };
        for _ in 0..skip {
            if at >= bytes.len() {
                return None;
            }
            at = next(bytes, at);
        }
    }
    None
}

/// An iterator over elements, from either end.
#[derive(Clone, Debug)]
pub(crate) struct Items<'a> {
    bytes: &'a [u8],
    range: Range<usize>,
}

impl<'a> Items<'a> {
    /// Iterates over elements without header and terminator.
    #[inline]
    pub(crate) fn new(elements: &'a [u8]) -> Self {
        Items { bytes: elements, range: 0..elements.len() }
    }

    /// Iterates over the elements in a range of `bytes`.
    #[inline]
    pub(crate) fn within(bytes: &'a [u8], range: Range<usize>) -> Self {
        Items { bytes: &bytes[..range.end], range }
    }

    /// Returns the range of the elements still to come.
    #[inline]
    pub(crate) fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Steps over `count` elements without reading them; `None` if there are fewer.
    #[inline]
    pub(crate) fn advance(&mut self, count: usize) -> Option<()> {
        for _ in 0..count {
            if self.range.is_empty() {
                return None;
            }
            self.range.start = next(self.bytes, self.range.start);
        }
        Some(())
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = StoredElement<'a>;

    #[inline]
    fn next(&mut self) -> Option<StoredElement<'a>> {
        if self.range.is_empty() {
            return None;
        }
        let (item, len) = first(&self.bytes[self.range.start..]);
        self.range.start += len;
        Some(item)
    }

    /// Steps over the elements without reading them.
    fn count(self) -> usize {
        let (mut at, mut count) = (self.range.start, 0);
        while at < self.range.end {
            at = next(self.bytes, at);
            count += 1;
        }
        count
    }
}

impl DoubleEndedIterator for Items<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.range.is_empty() {
            return None;
        }
        self.range.end = prev(self.bytes, self.range.end);
        Some(item_at(self.bytes, self.range.end))
    }
}
