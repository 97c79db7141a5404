//! The serialisation format of RDB files and DUMP: lengths, strings, the numbers of types, and the envelope of DUMP.
//! Pure: bytes in, bytes out. The formats of the types are in `types/`.
//!
//! ```text
//! +------+------------------------------------------+-------------+-----------+
//! | type | strings: length and bytes, an integer,   | version     | CRC-64    |
//! | u8   | or LZF-compressed bytes; lengths, floats | u16, little | u64, little |
//! +------+------------------------------------------+-------------+-----------+
//! ```
//!
//! Invariant: no input makes a [`Reader`] panic, read beyond its input or allocate more than the input's length times
//! [`lzf::EXPANSION_MAX`].

use std::borrow::Cow;

use crate::memory::marked::MarkedBytes;

pub(crate) mod checksum;
pub(crate) mod legacy;
pub mod library;
pub mod lzf;
pub(crate) mod module;
pub(crate) mod shape;

/// The version of the format that Redis 7.0 reads. A payload has the lowest version that includes its type.
pub const VERSION: u16 = 10;
/// The version that Redis 7.2 reads: listpacks of sets, streams with active times.
pub const VERSION_7_2: u16 = 11;
/// The version that Redis 7.4 to 8.4 read: hashes whose fields have deadlines. No higher one is in the log.
pub const VERSION_7_4: u16 = 12;
/// The version that Redis 8.6 reads: streams that recognize entries of producers.
pub const VERSION_8_6: u16 = 13;
/// The version that Redis 8.8 reads: streams with pending entries without a consumer.
pub const VERSION_8_8: u16 = 14;
/// The version that Redis 8.10 reads: hashes that share the names of their fields.
pub const VERSION_8_10: u16 = 15;
pub(crate) const VERSION_MAX: u16 = VERSION_8_10;

/// The number of a record with a name and a value, which readers skip if they do not know the name.
pub(crate) const AUX: u8 = 250;

/// The numbers of the types.
pub mod kind {
    /// A string.
    pub const STRING: u8 = 0;
    /// A list: its elements as strings.
    pub const LIST: u8 = 1;
    /// A set: its members as strings.
    pub const SET: u8 = 2;
    /// A sorted set: members and scores as text.
    pub const ZSET: u8 = 3;
    /// A hash: fields and values as strings.
    pub const HASH: u8 = 4;
    /// A sorted set: members and scores as binary floats.
    pub const ZSET_2: u8 = 5;
    /// A value of a module, before the release of Redis 4.
    pub const MODULE: u8 = 6;
    /// A value of a module.
    pub const MODULE_2: u8 = 7;
    /// A hash in a zipmap.
    pub const HASH_ZIPMAP: u8 = 9;
    /// A list in a ziplist.
    pub const LIST_ZIPLIST: u8 = 10;
    /// A set in an intset.
    pub const SET_INTSET: u8 = 11;
    /// A sorted set in a ziplist.
    pub const ZSET_ZIPLIST: u8 = 12;
    /// A hash in a ziplist.
    pub const HASH_ZIPLIST: u8 = 13;
    /// A list of ziplists.
    pub const LIST_QUICKLIST: u8 = 14;
    /// A stream.
    pub const STREAM_LISTPACKS: u8 = 15;
    /// A hash in a listpack.
    pub const HASH_LISTPACK: u8 = 16;
    /// A sorted set in a listpack.
    pub const ZSET_LISTPACK: u8 = 17;
    /// A list of listpacks and plain elements.
    pub const LIST_QUICKLIST_2: u8 = 18;
    /// A stream with the counters of Redis 7.0.
    pub const STREAM_LISTPACKS_2: u8 = 19;
    /// A set in a listpack.
    pub const SET_LISTPACK: u8 = 20;
    /// A stream whose consumers have active times.
    pub const STREAM_LISTPACKS_3: u8 = 21;
    /// A hash with deadlines of fields, in files of Valkey.
    pub const HASH_VALKEY: u8 = 22;
    /// A hash with deadlines of fields.
    pub const HASH_METADATA: u8 = 24;
    /// A hash with deadlines of fields in a listpack.
    pub const HASH_LISTPACK_EX: u8 = 25;
    /// A stream that recognizes entries of producers.
    pub const STREAM_LISTPACKS_4: u8 = 26;
    /// A stream with pending entries without a consumer.
    pub const STREAM_LISTPACKS_5: u8 = 27;
    /// An array.
    pub const ARRAY: u8 = 28;
    /// A hash in a listpack behind the names of its fields, in payloads of DUMP.
    pub const HASH_TEMPLATE_LISTPACK: u8 = 29;
    /// A hash in a listpack, in files, the names of whose fields precede the keys.
    pub const HASH_TEMPLATE_LISTPACK_REF: u8 = 30;
    /// A hash as the names of its fields, and its values, in payloads of DUMP.
    pub const HASH_TEMPLATE_ARRAY: u8 = 31;
    /// A hash as its values, in files, the names of whose fields precede the keys.
    pub const HASH_TEMPLATE_ARRAY_REF: u8 = 32;
    /// The state of a rate limit.
    pub const RATE_LIMIT: u8 = 33;

    /// Returns the name of a type that is known but not supported, or not where it was found; `None` for any other.
    pub(crate) fn unsupported(kind: u8) -> Option<&'static str> {
        Some(match kind {
            ARRAY => "an array of Redis 8.8",
            HASH_TEMPLATE_LISTPACK | HASH_TEMPLATE_ARRAY => "a hash as in DUMP of Redis 8.10",
            HASH_TEMPLATE_LISTPACK_REF | HASH_TEMPLATE_ARRAY_REF => "a hash as in files of Redis 8.10",
            RATE_LIMIT => "a rate limit of Redis 8.8",
            _ => return None,
        })
    }

    /// Returns the name that Redis' log gives to values of a type, where it refuses one.
    pub(crate) fn name(kind: u8) -> &'static str {
        match kind {
            HASH_ZIPMAP => "Zipmap",
            LIST_ZIPLIST => "List ziplist",
            SET_INTSET => "Intset",
            ZSET_ZIPLIST => "Zset ziplist",
            HASH_ZIPLIST => "Hash ziplist",
            LIST_QUICKLIST => "Quicklist ziplist",
            STREAM_LISTPACKS | STREAM_LISTPACKS_2 | STREAM_LISTPACKS_3 | STREAM_LISTPACKS_4 | STREAM_LISTPACKS_5 => {
                "Stream listpack"
            }
            HASH_LISTPACK => "Hash listpack",
            ZSET_LISTPACK => "Zset listpack",
            LIST_QUICKLIST_2 => "Quicklist listpack",
            SET_LISTPACK => "Set listpack",
            _ => "Value",
        }
    }
}

/// The length of version and checksum.
const FOOTER: usize = 2 + checksum::LEN;

/// The two highest bits of a length's first byte select its encoding.
const LENGTH_6_BITS: u8 = 0;
const LENGTH_14_BITS: u8 = 1;
const LENGTH_WIDE: u8 = 2;
const SPECIAL: u8 = 3;
/// The first byte of a length that follows in four bytes, or in eight.
const LENGTH_32_BITS: u8 = LENGTH_WIDE << 6;
const LENGTH_64_BITS: u8 = LENGTH_WIDE << 6 | 1;

/// Encodings of a special string, in the lower six bits of its first byte.
const INT_8: u64 = 0;
const INT_16: u64 = 1;
const INT_32: u64 = 2;
const LZF: u64 = 3;

/// The longest decimal number that may fit 32 bits with its sign.
const INTEGER_LEN_MAX: usize = 11;
/// The length up to which Redis does not try to compress strings.
const COMPRESSED_MIN: usize = 20;
/// The bytes that compression must save to be used.
const GAIN_MIN: usize = 4;

/// The reason why a payload cannot be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadError {
    /// The footer is missing, has a newer version or a wrong checksum.
    Footer,
    /// The payload violates the format.
    Format,
    /// The payload has a value of a type that is known but not supported.
    Type(u8),
    /// The payload has metadata of a module about the key, of a class that may not be ignored.
    KeyMeta([u8; 4]),
}

/// Appends version and checksum to a type and a body.
pub fn seal(mut body: Vec<u8>, version: u16) -> Vec<u8> {
    body.extend_from_slice(&version.to_le_bytes());
    let checksum = checksum::of(&body);
    body.extend_from_slice(&checksum.to_le_bytes());
    body
}

/// Returns the version of a payload, if it is long enough to have one.
pub(crate) fn version_of(payload: &[u8]) -> Option<u16> {
    let body_len = payload.len().checked_sub(FOOTER)?;
    Some(u16::from_le_bytes([payload[body_len], payload[body_len + 1]]))
}

/// Returns the body of a payload before the footer, if the version is known and, where `checks`, the checksum right.
/// Redis 8.10 writes no checksum into the payloads that it sends to replicas.
fn body_of(payload: &[u8], checks: bool) -> Option<&[u8]> {
    let version = version_of(payload)?;
    let (summed, checksum) = payload.split_at(payload.len() - checksum::LEN);
    let is_unsummed = version >= VERSION_8_10 && checksum == [0; checksum::LEN];
    let is_right = !checks || is_unsummed || checksum::of(summed).to_le_bytes() == checksum;
    (version <= VERSION_MAX && is_right).then(|| &payload[..payload.len() - FOOTER])
}

/// Splits a payload without a footer into type and body, as passed to [`seal`].
pub fn read_body(body: &[u8]) -> Option<(u8, Reader<'_>)> {
    body.split_first().map(|(kind, body)| (*kind, Reader::new(body)))
}

/// Opens a payload of DUMP, whose checksum may be wrong unless `checks`; returns the number of its type and a reader of
/// the rest. As in Redis, the footer is not cut off: a value may extend into it, and bytes after the value are ignored.
///
/// # Errors
/// [`PayloadError`]; the footer is checked first.
pub fn open(payload: &[u8], checks: bool) -> Result<(u8, Reader<'_>), PayloadError> {
    body_of(payload, checks).ok_or(PayloadError::Footer)?;
    read_body(payload).ok_or(PayloadError::Format)
}

/// The time at which the strings of a value are compressed, if that makes them shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Never.
    Never,
    /// At the time of writing.
    AtOnce,
    /// By [`compressed`]: strings are only marked. Files are written so, because compression takes long and values are
    /// locked meanwhile.
    Later,
}

impl Compression {
    /// Returns the compression of strings that are not written to a file.
    pub fn at_once_if(compresses: bool) -> Self {
        if compresses { Compression::AtOnce } else { Compression::Never }
    }
}

/// Writes a string in the shortest encoding, choosing as Redis does.
pub fn write_string(out: &mut MarkedBytes, value: &[u8], compression: Compression) {
    if value.len() <= INTEGER_LEN_MAX
        && let Some(number) = crate::resp::parse_int(value)
        && write_integer(out, number)
    {
        return;
    }
    write_pieces(out, &[value], compression);
}

/// Writes a string like [`write_string`], given in pieces, which is not an integer.
pub(crate) fn write_pieces(out: &mut MarkedBytes, pieces: &[&[u8]], compression: Compression) {
    let (start, len) = (out.len(), pieces.iter().map(|piece| piece.len()).sum());
    let compression = if len > COMPRESSED_MIN { compression } else { Compression::Never };
    if compression == Compression::AtOnce {
        let whole = if let [whole] = pieces { Cow::Borrowed(*whole) } else { Cow::Owned(pieces.concat()) };
        if write_compressed(out, &whole) {
            return;
        }
    }
    write_length(out, len);
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
    if compression == Compression::Later {
        out.mark_from(start);
    }
}

/// Compresses the marked strings, where that makes them shorter.
pub fn compressed(marked: MarkedBytes) -> Vec<u8> {
    let (bytes, marks) = marked.into_parts();
    if marks.is_empty() {
        return bytes;
    }
    let (mut out, mut copied) = (Vec::with_capacity(bytes.len()), 0);
    for mark in marks {
        let mut reader = Reader::new(&bytes[mark.clone()]);
        let text = reader.length().map_or(&[][..], |_| reader.rest());
        out.extend_from_slice(&bytes[copied..mark.start]);
        if !write_compressed(&mut out, text) {
            out.extend_from_slice(&bytes[mark.clone()]);
        }
        copied = mark.end;
    }
    out.extend_from_slice(&bytes[copied..]);
    out
}

/// Writes a string compressed, if that makes it shorter; returns true if it was written.
fn write_compressed(out: &mut Vec<u8>, text: &[u8]) -> bool {
    let packed = lzf::compress(text, text.len().saturating_sub(GAIN_MIN));
    if let Some(packed) = &packed {
        out.push(SPECIAL << 6 | LZF as u8);
        write_length(out, packed.len());
        write_length(out, text.len());
        out.extend_from_slice(packed);
    }
    packed.is_some()
}

/// Writes an integer of at most 32 bits; returns false for a larger one.
fn write_integer(out: &mut Vec<u8>, number: i64) -> bool {
    let (encoding, len) = match number {
        -0x80..=0x7f => (INT_8, 1),
        -0x8000..=0x7fff => (INT_16, 2),
        -0x8000_0000..=0x7fff_ffff => (INT_32, 4),
        _ => return false,
    };
    out.push(SPECIAL << 6 | encoding as u8);
    out.extend_from_slice(&number.to_le_bytes()[..len]);
    true
}

/// Writes a length in the shortest form.
pub fn write_length(out: &mut Vec<u8>, len: usize) {
    match len {
        0..0x40 => out.push(len as u8),
        0x40..0x4000 => out.extend_from_slice(&[LENGTH_14_BITS << 6 | (len >> 8) as u8, len as u8]),
        _ => match u32::try_from(len) {
            Ok(len) => {
                out.push(LENGTH_32_BITS);
                out.extend_from_slice(&len.to_be_bytes());
            }
            Err(_) => {
                out.push(LENGTH_64_BITS);
                out.extend_from_slice(&(len as u64).to_be_bytes());
            }
        },
    }
}

/// A cursor over the remaining input; every getter returns `None` when the input is too short or malformed.
#[derive(Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// The number of bytes that the failed getter lacked; 0 if the input is malformed.
    missing: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader of bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes, missing: 0 }
    }

    /// Returns the unread input.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the number of bytes that a getter lacked if it failed because the input ends; otherwise 0.
    pub fn missing(&self) -> usize {
        self.missing
    }

    /// Reads a string of at most `len_max` bytes.
    pub fn string(&mut self, len_max: usize) -> Option<Cow<'a, [u8]>> {
        let is_special = self.rest.first().is_some_and(|first| *first >> 6 == SPECIAL);
        let len = self.length()?;
        if !is_special {
            return self.bytes(len).filter(|value| value.len() <= len_max).map(Cow::Borrowed);
        }
        let number = match len {
            INT_8 => i64::from(i8::from_le_bytes(self.array()?)),
            INT_16 => i64::from(i16::from_le_bytes(self.array()?)),
            INT_32 => i64::from(i32::from_le_bytes(self.array()?)),
            LZF => return self.compressed(len_max).map(Cow::Owned),
            _ => return None,
        };
        Some(Cow::Owned(number.to_string().into_bytes()))
    }

    fn compressed(&mut self, len_max: usize) -> Option<Vec<u8>> {
        let (packed_len, len) = (self.length()?, self.length()?);
        let packed = self.bytes(packed_len)?;
        let len = usize::try_from(len).ok().filter(|len| *len <= len_max)?;
        lzf::decompress(packed, len)
    }

    /// Skips a string without decompressing it.
    pub fn skip_string(&mut self) -> Option<()> {
        let is_special = self.rest.first().is_some_and(|first| *first >> 6 == SPECIAL);
        let len = match (is_special, self.length()?) {
            (false, len) => len,
            (true, INT_8) => 1,
            (true, INT_16) => 2,
            (true, INT_32) => 4,
            (true, LZF) => {
                let packed_len = self.length()?;
                self.length()?;
                packed_len
            }
            _ => return None,
        };
        self.bytes(len).map(|_| ())
    }

    /// Reads a length; for a special string, the number of its encoding.
    pub fn length(&mut self) -> Option<u64> {
        let [first] = self.array()?;
        let low = u64::from(first & 0x3f);
        match (first >> 6, first) {
            (LENGTH_6_BITS | SPECIAL, _) => Some(low),
            (LENGTH_14_BITS, _) => Some(low << 8 | u64::from(u8::from_be_bytes(self.array()?))),
            (_, LENGTH_32_BITS) => Some(u64::from(u32::from_be_bytes(self.array()?))),
            (_, LENGTH_64_BITS) => Some(u64::from_be_bytes(self.array()?)),
            _ => None,
        }
    }

    /// Reads a fixed number of bytes.
    pub fn array<const LEN: usize>(&mut self) -> Option<[u8; LEN]> {
        match self.rest.split_first_chunk() {
            Some((array, rest)) => {
                self.rest = rest;
                Some(*array)
            }
            None => self.ends_early(LEN),
        }
    }

    /// Reads a number of bytes.
    pub fn bytes(&mut self, len: u64) -> Option<&'a [u8]> {
        let len = usize::try_from(len).ok()?;
        match self.rest.split_at_checked(len) {
            Some((bytes, rest)) => {
                self.rest = rest;
                Some(bytes)
            }
            None => self.ends_early(len),
        }
    }

    /// Records that `needed` bytes were needed, and there are fewer.
    #[cold]
    fn ends_early<T>(&mut self, needed: usize) -> Option<T> {
        self.missing = needed - self.rest.len();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEN_MAX: usize = 1 << 20;

    /// Adds the footer to a type and a string.
    fn sealed(body: &[u8]) -> Vec<u8> {
        seal(body.to_vec(), VERSION)
    }

    fn dump(value: &[u8], compresses: bool) -> Vec<u8> {
        let mut out = MarkedBytes::default();
        out.push(kind::STRING);
        write_string(&mut out, value, Compression::at_once_if(compresses));
        seal(out.into_bytes(), VERSION)
    }

    fn load(payload: &[u8], len_max: usize) -> Result<Cow<'_, [u8]>, PayloadError> {
        match open(payload, true)? {
            (kind::STRING, mut reader) => reader.string(len_max).ok_or(PayloadError::Format),
            _ => Err(PayloadError::Format),
        }
    }

    #[track_caller]
    fn assert_comes_back(value: &[u8], compresses: bool) {
        let payload = dump(value, compresses);
        assert_eq!(load(&payload, LEN_MAX).as_deref(), Ok(value));
    }

    #[test]
    fn strings_take_the_shortest_form_and_come_back() {
        let cases: [(&[u8], &[u8]); 10] = [
            (b"", b"\0\0"),
            (b"abc", b"\0\x03abc"),
            (b"0", b"\0\xc0\0"),
            (b"-128", b"\0\xc0\x80"),
            (b"128", b"\0\xc1\x80\0"),
            (b"-32768", b"\0\xc1\0\x80"),
            (b"2147483647", b"\0\xc2\xff\xff\xff\x7f"),
            (b"2147483648", b"\0\x0a2147483648"),
            (b"007", b"\0\x03007"),
            (b"aaaaaaaaaaaaaaaaaaaaa", b"\0\xc3\x06\x15\x01aa\xe0\x0a\0"),
        ];
        for (value, body) in cases {
            let payload = dump(value, true);
            assert_eq!(payload[..payload.len() - FOOTER].escape_ascii().to_string(), body.escape_ascii().to_string());
            assert_eq!(load(&payload, LEN_MAX).as_deref(), Ok(value));
        }
        for len in [63, 64, 16_383, 16_384, 100_000] {
            let value: Vec<u8> = (0..len).map(|at: u32| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
            for compresses in [true, false] {
                assert_comes_back(&value, compresses);
            }
        }
    }

    #[test]
    fn what_redis_refuses_is_refused_and_what_it_overlooks_is_overlooked() {
        let load = |body: &[u8]| load(&sealed(body), LEN_MAX).map(Cow::into_owned);
        assert_eq!(load(b"\0\x01abc"), Ok(b"a".to_vec())); // trailing bytes are ignored
        assert_eq!(load(b"\0\x03a").map(|value| value.len()), Ok(3)); // extends into the footer
        assert_eq!(load(b"\0\x0ca"), Err(PayloadError::Format)); // extends beyond the footer
        assert_eq!(load(b"\0\xc4"), Err(PayloadError::Format));
        assert_eq!(load(b"\0\x82abcd"), Err(PayloadError::Format));
        assert_eq!(load(b"\0\x81\xff\xff\xff\xff\xff\xff\xff\xff"), Err(PayloadError::Format));
        assert_eq!(load(b"\0\xc3\x02\x80\xff\xff\xff\xff\0a"), Err(PayloadError::Format)); // 4 GiB claimed by two bytes
        assert_eq!(load(b"\0\xc3\x01\0\0"), Ok(Vec::new()));
    }

    #[test]
    fn a_footer_of_a_newer_version_or_with_a_wrong_checksum_is_refused() {
        let mut payload = dump(b"value", true);
        assert_eq!(load(&payload[..9], LEN_MAX), Err(PayloadError::Footer));
        payload[3] ^= 1;
        assert_eq!(load(&payload, LEN_MAX), Err(PayloadError::Footer));
        for (version, expected) in
            [(VERSION - 4, Ok(&b"v"[..])), (VERSION_MAX, Ok(&b"v"[..])), (VERSION_MAX + 1, Err(PayloadError::Footer))]
        {
            let mut payload = [b"\0\x01v", &version.to_le_bytes()[..]].concat();
            payload.extend_from_slice(&checksum::of(&payload).to_le_bytes());
            assert_eq!(load(&payload, LEN_MAX).as_deref().map_err(|error| *error), expected);
        }
    }

    #[test]
    fn a_string_longer_than_allowed_is_refused() {
        for compresses in [true, false] {
            let payload = dump(&[b'a'; 1000], compresses);
            assert_eq!(load(&payload, 999), Err(PayloadError::Format));
            assert!(load(&payload, 1000).is_ok());
        }
    }

    proptest! {
        #[test]
        fn every_string_comes_back(value in prop::collection::vec(prop_oneof![Just(b'a'), any::<u8>()], 0..3000)) {
            assert_comes_back(&value, true);
            assert_comes_back(&value, false);
        }

        #[test]
        fn arbitrary_bytes_are_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..300), kind in 0..4u8) {
            let _ = load(&body, LEN_MAX);
            let _ = load(&sealed(&body), LEN_MAX);
            let _ = load(&sealed(&[&[0, 0xc0 | kind][..], &body].concat()), LEN_MAX);
        }

        #[test]
        fn a_damaged_dump_is_read_or_refused(
            value in prop::collection::vec(prop_oneof![Just(b'a'), any::<u8>()], 21..300),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let payload = dump(&value, true);
            let mut body = payload[..payload.len() - FOOTER].to_vec();
            let at = at.index(body.len());
            body[at] = byte;
            let _ = load(&sealed(&body), LEN_MAX);
        }
    }
}
