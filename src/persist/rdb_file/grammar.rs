//! The shapes of records: enough to find the end of a record without reading its values.
//!
//! A record that is not yet in the buffer as a whole is measured, piece by piece as it comes, and read only when it is
//! complete. So nothing is read twice, however long the record is.

use crate::persist::rdb_file::module::part;
use crate::persist::rdb_file::{Family, opcode};
use crate::rdb::{Reader, checksum, kind};

use Token::{Bytes, Length, ModuleValue, Repeat, Str, TextScore};

/// A part of a record.
#[derive(Clone, Copy, Debug)]
enum Token {
    /// A string.
    Str,
    /// A length.
    Length,
    /// A fixed number of bytes.
    Bytes(u64),
    /// A score as text behind its length, or one of three lengths without text.
    TextScore,
    /// A count, and the parts of each repetition.
    Repeat(&'static [Token]),
    /// A value of a module, in which each part is preceded by its type.
    ModuleValue,
}

/// The length from which a [`TextScore`] has no text.
const SCORE_WITHOUT_TEXT: u8 = 253;

/// The chunks of a stream.
const CHUNKS: Token = Repeat(&[Str, Str]);
/// The pending entries of a group.
const PENDING: Token = Repeat(&[Bytes(16), Bytes(8), Length]);
/// The pending entries of a consumer.
const OWN: Token = Repeat(&[Bytes(16)]);

/// Returns the parts of a record after its first byte; `None` for an unknown record.
fn shape_of(first: u8, family: Family) -> Option<&'static [Token]> {
    Some(match first {
        kind::STRING
        | kind::HASH_ZIPMAP
        | kind::LIST_ZIPLIST
        | kind::SET_INTSET
        | kind::ZSET_ZIPLIST
        | kind::HASH_ZIPLIST
        | kind::HASH_LISTPACK
        | kind::ZSET_LISTPACK
        | kind::SET_LISTPACK => &[Str, Str],
        kind::LIST | kind::SET | kind::LIST_QUICKLIST => &[Str, Repeat(&[Str])],
        kind::ZSET => &[Str, Repeat(&[Str, TextScore])],
        kind::HASH => &[Str, Repeat(&[Str, Str])],
        kind::ZSET_2 => &[Str, Repeat(&[Str, Bytes(8)])],
        kind::LIST_QUICKLIST_2 => &[Str, Repeat(&[Length, Str])],
        kind::HASH_VALKEY if family == Family::Valkey => &[Str, Repeat(&[Str, Str, Bytes(8)])],
        kind::HASH_METADATA if family == Family::Redis => &[Str, Bytes(8), Repeat(&[Length, Str, Str])],
        kind::HASH_LISTPACK_EX if family == Family::Redis => &[Str, Bytes(8), Str],
        kind::STREAM_LISTPACKS => &[
            Str,
            CHUNKS,
            Length,
            Length,
            Length,
            Repeat(&[Str, Length, Length, PENDING, Repeat(&[Str, Bytes(8), OWN])]),
        ],
        kind::STREAM_LISTPACKS_2 => &[
            Str,
            CHUNKS,
            Length,
            Length,
            Length,
            Length,
            Length,
            Length,
            Length,
            Length,
            Repeat(&[Str, Length, Length, Length, PENDING, Repeat(&[Str, Bytes(8), OWN])]),
        ],
        kind::STREAM_LISTPACKS_3 => &[
            Str,
            CHUNKS,
            Length,
            Length,
            Length,
            Length,
            Length,
            Length,
            Length,
            Length,
            Repeat(&[Str, Length, Length, Length, PENDING, Repeat(&[Str, Bytes(16), OWN])]),
        ],
        opcode::SLOT_INFO => &[Length, Length, Length],
        opcode::LIBRARY => &[Str],
        opcode::MODULE_AUX => &[Length, ModuleValue],
        opcode::IDLE | opcode::SELECT => &[Length],
        opcode::FREQUENCY => &[Bytes(1)],
        opcode::AUX => &[Str, Str],
        opcode::RESIZE => &[Length, Length],
        opcode::EXPIRES_MS => &[Bytes(8)],
        opcode::EXPIRES_S => &[Bytes(4)],
        opcode::END => &[Bytes(checksum::LEN as u64)],
        _ => return None,
    })
}

/// Returns true if the number denotes a type that can be loaded.
pub(super) fn is_value(number: u8, family: Family) -> bool {
    number < opcode::SLOT_IMPORT_OR_KEY_META && shape_of(number, family).is_some()
}

/// Repetitions in progress: the parts of each, the index of the next part, and the number of repetitions left.
struct Level {
    parts: &'static [Token],
    next: usize,
    left: u64,
}

pub(super) struct Measure {
    levels: Vec<Level>,
    /// The length of the record, as far as it was measured.
    len: usize,
}

/// The extent of a record, as far as it is known.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// The length of the complete record.
    Whole(usize),
    /// The least number of missing bytes.
    Missing(u64),
    /// A record that is malformed before its end.
    Malformed,
}

impl Measure {
    /// Begins with the first byte of a record; `None` for an unknown record.
    pub(super) fn new(first: u8, family: Family) -> Option<Self> {
        let parts = shape_of(first, family)?;
        Some(Measure { levels: vec![Level { parts, next: 0, left: 1 }], len: 1 })
    }

    /// Continues with a longer prefix of the record than before. `left` is the number of bytes of the file behind that
    /// prefix, [`u64::MAX`] if it is not known.
    pub(super) fn advance(&mut self, record: &[u8], left: u64) -> Extent {
        let mut reader = Reader::new(record.get(self.len..).unwrap_or_default());
        while let Some(level) = self.levels.last_mut() {
            if level.left == 0 {
                self.levels.pop();
                continue;
            }
            let Some(&token) = level.parts.get(level.next) else {
                (level.next, level.left) = (0, level.left - 1);
                continue;
            };
            let before = reader.clone();
            match skip(token, &mut reader) {
                None if reader.missing() > 0 => return Extent::Missing(reader.missing() as u64),
                None => return Extent::Malformed,
                Some(inner) => {
                    // A module's value is one token, which is repeated for each part until the last.
                    level.next += usize::from(!matches!((token, &inner), (ModuleValue, Some(_))));
                    self.levels.extend(inner);
                }
            }
            self.len += before.rest().len() - reader.rest().len();
            // Each repetition takes a byte or more for each part.
            let within = (reader.rest().len() as u64).saturating_add(left);
            if let Some(missing) = self.levels.last().and_then(|level| beyond(level, within)) {
                return Extent::Missing(missing);
            }
        }
        Extent::Whole(self.len)
    }
}

/// Returns the number of bytes that the repetitions of a level need at least, if that is more than `within`.
fn beyond(level: &Level, within: u64) -> Option<u64> {
    let needed = level.left.saturating_mul(level.parts.len() as u64).saturating_sub(level.next as u64);
    (needed > within).then_some(needed)
}

/// Skips a part; returns the level that it begins, if any.
fn skip(token: Token, reader: &mut Reader<'_>) -> Option<Option<Level>> {
    let parts: &'static [Token] = match token {
        Str => return reader.skip_string().map(|()| None),
        Length => return reader.length().map(|_| None),
        Bytes(len) => return reader.bytes(len).map(|_| None),
        TextScore => {
            let [len] = reader.array()?;
            let len = if len < SCORE_WITHOUT_TEXT { u64::from(len) } else { 0 };
            return reader.bytes(len).map(|_| None);
        }
        Repeat(parts) => {
            let left = reader.length()?;
            return Some(Some(Level { parts, next: 0, left }));
        }
        ModuleValue => match reader.length()? {
            part::END => return Some(None),
            part::INT | part::UNSIGNED => &[Length],
            part::FLOAT => &[Bytes(4)],
            part::DOUBLE => &[Bytes(8)],
            part::STRING => &[Str],
            _ => return None,
        },
    };
    Some(Some(Level { parts, next: 0, left: 1 }))
}
