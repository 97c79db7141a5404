//! The packed formats of dumps before Redis 7, ziplists and zipmaps, which are only read.
//!
//! ```text
//! ziplist  length u32 | offset of the last entry u32 | number of entries u16 | entries | 255
//!   entry  length of the entry before | encoding, and length of a string | content
//! zipmap   number of pairs u8 | pairs | 255
//!    pair  length | field | length | unused u8 | value | unused bytes
//! ```
//!
//! Every length is checked, as Redis checks payloads that are to be sanitized. Numbers are in little endian, except
//! lengths of strings in ziplists.

use std::borrow::Cow;

/// The last byte of either format.
const END: u8 = 255;

/// The first byte of a long length of the previous entry, which takes four more bytes; in a zipmap, of any long length.
const LONG: u8 = 254;

/// The length of a ziplist's header.
const HEADER_LEN: usize = 10;

/// The count in the header of a ziplist with too many entries for 16 bits.
const COUNT_UNKNOWN: u16 = u16::MAX;

/// Reads the elements of a ziplist; `None` if it violates the format.
pub(crate) fn ziplist(bytes: &[u8]) -> Option<Vec<Cow<'_, [u8]>>> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_LEN>()?;
    let [entries @ .., END] = rest else { return None };
    let [a, b, c, d, e, f, g, h, i, j] = *header;
    if u32::from_le_bytes([a, b, c, d]) as usize != bytes.len() {
        return None;
    }
    let (mut elements, mut rest, mut len_before) = (Vec::new(), entries, 0);
    let mut last_at = HEADER_LEN;
    while !rest.is_empty() {
        last_at = bytes.len() - 1 - rest.len();
        let (told, behind) = length(rest)?;
        let (element, behind) = ziplist_element(behind)?;
        if told != len_before {
            return None;
        }
        len_before = rest.len() - behind.len();
        elements.push(element);
        rest = behind;
    }
    let count = u16::from_le_bytes([i, j]);
    let is_right = u32::from_le_bytes([e, f, g, h]) as usize == last_at
        && (count == COUNT_UNKNOWN || usize::from(count) == elements.len());
    is_right.then_some(elements)
}

/// Reads a length: of the previous entry in a ziplist, or of a string in a zipmap.
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes {
        [LONG, a, b, c, d, rest @ ..] => Some((u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest)),
        [LONG | END, ..] | [] => None,
        [len, rest @ ..] => Some((usize::from(*len), rest)),
    }
}

/// Reads encoding and content of an entry.
fn ziplist_element(bytes: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let text = |len: usize, rest| {
        let (text, rest): (&[u8], &[u8]) = <[u8]>::split_at_checked(rest, len)?;
        Some((Cow::Borrowed(text), rest))
    };
    let int = |int: i64, rest| Some((Cow::Owned(int.to_string().into_bytes()), rest));
    match first >> 6 {
        0 => return text(usize::from(first), rest),
        1 => {
            let (&second, rest) = rest.split_first()?;
            return text(usize::from(first & 0x3F) << 8 | usize::from(second), rest);
        }
        2 => {
            let (len, rest) = rest.split_first_chunk()?;
            return text(u32::from_be_bytes(*len) as usize, rest);
        }
        _ => {}
    }
    match first {
        0xC0 => rest.split_first_chunk().and_then(|(le, rest)| int(i64::from(i16::from_le_bytes(*le)), rest)),
        0xD0 => rest.split_first_chunk().and_then(|(le, rest)| int(i64::from(i32::from_le_bytes(*le)), rest)),
        0xE0 => rest.split_first_chunk().and_then(|(le, rest)| int(i64::from_le_bytes(*le), rest)),
        0xF0 => {
            let ([a, b, c], rest) = rest.split_first_chunk()?;
            int(i64::from(i32::from_le_bytes([0, *a, *b, *c]) >> 8), rest)
        }
        0xFE => rest.split_first_chunk().and_then(|(le, rest)| int(i64::from(i8::from_le_bytes(*le)), rest)),
        0xF1..=0xFD => int(i64::from(first & 0x0F) - 1, rest),
        _ => None,
    }
}

/// Reads the fields and values of a zipmap; `None` if it violates the format.
pub(crate) fn zipmap(bytes: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let (&count, mut rest) = bytes.split_first()?;
    let mut pairs = Vec::new();
    while rest != [END] {
        let (len, behind) = length(rest)?;
        let (field, behind) = behind.split_at_checked(len)?;
        let (len, behind) = length(behind)?;
        let (&unused, behind) = behind.split_first()?;
        let (value, behind) = behind.split_at_checked(len)?;
        rest = behind.get(usize::from(unused)..)?;
        pairs.push((field, value));
    }
    (count >= LONG || usize::from(count) == pairs.len()).then_some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a ziplist from entries without the length of the previous entry.
    fn packed(entries: &[&[u8]]) -> Vec<u8> {
        let (mut body, mut before, mut last_at) = (Vec::new(), 0, HEADER_LEN);
        for entry in entries {
            last_at = HEADER_LEN + body.len();
            match u8::try_from(before) {
                Ok(len) if len < LONG => body.push(len),
                _ => {
                    body.push(LONG);
                    body.extend_from_slice(&(before as u32).to_le_bytes());
                }
            }
            body.extend_from_slice(entry);
            before = HEADER_LEN + body.len() - last_at;
        }
        let len = (HEADER_LEN + body.len() + 1) as u32;
        let count = (entries.len() as u16).to_le_bytes();
        [&len.to_le_bytes()[..], &(last_at as u32).to_le_bytes(), &count, &body, &[END]].concat()
    }

    #[test]
    fn every_encoding_of_a_ziplist_is_read() {
        let long = [&[0x41, 0x2c][..], &[b'x'; 300]].concat();
        let wide = [&[0x80, 0, 0, 0, 5][..], b"wider"].concat();
        let entries: [&[u8]; 12] = [
            b"\x03abc",
            b"\0",
            &long,
            &wide,
            b"\xc0\xfe\xff",
            b"\xd0\0\0\0\x80",
            b"\xe0\xff\xff\xff\xff\xff\xff\xff\x7f",
            b"\xf0\0\0\x80",
            b"\xfe\x80",
            b"\xf1",
            b"\xfd",
            b"\x01z",
        ];
        let expected = [
            "abc",
            "",
            &"x".repeat(300),
            "wider",
            "-2",
            "-2147483648",
            "9223372036854775807",
            "-8388608",
            "-128",
            "0",
            "12",
            "z",
        ];
        let bytes = packed(&entries);
        let read = ziplist(&bytes).expect("it is valid");
        assert_eq!(read, expected.map(|text| Cow::<[u8]>::Owned(text.as_bytes().to_vec())));
        for at in 0..bytes.len() {
            assert!(ziplist(&bytes[..at]).is_none(), "{at} bytes");
        }
        for at in 0..HEADER_LEN {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(ziplist(&damaged).is_none(), "byte {at}");
        }
        for first in [b"\xff".as_slice(), b"\xff\0", b"\x05abc", b"\xc0\0", b"\x80\xff\xff\xff\xff"] {
            assert!(ziplist(&packed(&[first])).is_none(), "{}", first.escape_ascii());
        }
        assert_eq!(ziplist(&packed(&[])), Some(Vec::new()));
    }

    #[test]
    fn a_zipmap_is_read_with_its_unused_bytes_and_refused_where_a_length_is_wrong() {
        let bytes = b"\x02\x01a\x01\0b\xfe\x02\0\0\0cd\x03\x02efg\0\0\xff";
        assert_eq!(zipmap(bytes), Some(vec![(&b"a"[..], &b"b"[..]), (b"cd", b"efg")]));
        assert_eq!(zipmap(b"\xfe\x01a\x01\0b\xff").map(|pairs| pairs.len()), Some(1));
        assert_eq!(zipmap(b"\0\xff"), Some(Vec::new()));
        for at in 0..bytes.len() {
            assert!(zipmap(&bytes[..at]).is_none(), "{at}");
        }
        for damaged in [&b"\x01\xff"[..], b"\x01\xff\x01a", b"\x01\x01a\xff\0b\xff", b"\x01\x01a\x01\x09b\xff", b""] {
            assert!(zipmap(damaged).is_none(), "{}", damaged.escape_ascii());
        }
    }
}
