//! The shapes of records: enough to find the end of a record without reading its values.
//!
//! A record that is not yet in the buffer as a whole is measured, piece by piece as it comes, and read only when it is
//! complete. So nothing is read twice, however long the record is.

use crate::persist::rdb_file::{Family, opcode};
use crate::rdb::module::part;
use crate::rdb::shape::PayloadPart;
use crate::rdb::{Reader, checksum, kind};
use crate::types;
use crate::types::hash_template::HashTemplates;

use PayloadPart::{Bytes, Length, ModuleValue, Repeat, Str, TemplateValues, TextScore};

/// The length from which a [`TextScore`] has no text.
const SCORE_WITHOUT_TEXT: u8 = 253;

/// Returns the parts of a value behind its key; `None` if the number denotes no type that can be loaded.
fn value_shape(number: u8, family: Family) -> Option<&'static [PayloadPart]> {
    match (number, family) {
        (kind::HASH_VALKEY, Family::Valkey) => Some(&[Repeat(&[Str, Str, Bytes(8)])]),
        (kind::HASH_METADATA.., Family::Valkey) => None,
        (kind::HASH_TEMPLATE_LISTPACK_REF, _) => Some(&[Str]),
        (kind::HASH_TEMPLATE_ARRAY_REF, _) => Some(&[TemplateValues]),
        (kind::MODULE_2, _) => Some(&[Length, ModuleValue]),
        _ => types::spec_of_number(number).map(|(_, number)| number.parts),
    }
}

/// Returns the parts of a record other than a key after its first byte; `None` for an unknown record.
fn shape_of(first: u8) -> Option<&'static [PayloadPart]> {
    Some(match first {
        opcode::HASH_TEMPLATE => &[Length, Repeat(&[Str])],
        opcode::SLOT_IMPORT_OR_KEY_META => &[Repeat(&[Bytes(4), ModuleValue])],
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
    value_shape(number, family).is_some()
}

/// Repetitions in progress: the parts of each, the index of the next part, and the number of repetitions left.
struct Level {
    parts: &'static [PayloadPart],
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
        let level = |parts| Level { parts, next: 0, left: 1 };
        let levels = match value_shape(first, family) {
            Some(value) => vec![level(value), level(&[Str])], // the key comes first
            None => vec![level(shape_of(first)?)],
        };
        Some(Measure { levels, len: 1 })
    }

    /// Continues with a longer prefix of the record than before. `left` is the number of bytes of the file behind that
    /// prefix, [`u64::MAX`] if it is not known; `templates` are those that precede the record.
    pub(super) fn advance(&mut self, record: &[u8], left: u64, templates: &HashTemplates) -> Extent {
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
            match skip(token, &mut reader, templates) {
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
fn skip(token: PayloadPart, reader: &mut Reader<'_>, templates: &HashTemplates) -> Option<Option<Level>> {
    let parts: &'static [PayloadPart] = match token {
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
        TemplateValues => {
            let left = templates.count(reader.length()?)?;
            return Some(Some(Level { parts: &[Str], next: 0, left }));
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
