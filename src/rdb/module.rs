//! Values of module types: the number of the type, and parts, each preceded by its kind.

use std::borrow::Cow;

use crate::memory::marked::MarkedBytes;
use crate::rdb::{Compression, Reader, write_length, write_string};

/// The kinds of the parts of a value.
pub(crate) mod part {
    /// The end of the value.
    pub(crate) const END: u64 = 0;
    /// An integer with a sign, as a length. No server writes it.
    pub(crate) const INT: u64 = 1;
    /// An integer without a sign, as a length.
    pub(crate) const UNSIGNED: u64 = 2;
    /// Four bytes.
    pub(crate) const FLOAT: u64 = 3;
    /// Eight bytes.
    pub(crate) const DOUBLE: u64 = 4;
    /// A string.
    pub(crate) const STRING: u64 = 5;
}

/// The number that precedes metadata of modules about a key.
pub(crate) const KEY_META: u8 = 243;
/// The most classes of metadata that a key can have.
const CLASSES_MAX: u64 = 7;
/// The bit of a class whose metadata may be ignored.
const IS_IGNORABLE: u32 = 1;
/// The position of the lowest character of a class's name, behind its version and flags.
const CLASS_NAME_SHIFT: u32 = 8;
/// The characters of names of classes that differ from those of names of types.
const CLASS_CHARACTERS_END: &[u8; 2] = b"_-";

/// The characters of names, by number.
const CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// The bits of a character.
const CHARACTER_BITS: u32 = 6;
/// The characters of a name.
const NAME_LEN: u32 = 9;
/// The number of lowest bits that are the version of the encoding.
const VERSION_BITS: u32 = 10;

/// The identity of a module type in payloads and files: its name, and the version of the encoding of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModuleId(u64);

impl ModuleId {
    /// Returns the identity of a type with a name of nine characters.
    pub(crate) const fn new(name: &[u8; NAME_LEN as usize], version: u16) -> Self {
        let (mut id, mut at) = (0, 0);
        while at < name.len() {
            let mut digit = 0;
            while CHARACTERS[digit] != name[at] {
                digit += 1;
            }
            id = id << CHARACTER_BITS | digit as u64;
            at += 1;
        }
        ModuleId(id << VERSION_BITS | version as u64)
    }

    /// Reads an identity.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        reader.length().map(ModuleId)
    }

    /// Appends the identity, behind which the parts of a value follow.
    pub(crate) fn write(self, out: &mut MarkedBytes) {
        write_length(out, self.0 as usize);
    }

    /// Returns true if both have the same name.
    pub(crate) const fn is_same_type(self, other: Self) -> bool {
        self.0 >> VERSION_BITS == other.0 >> VERSION_BITS
    }

    /// Returns the version of the encoding.
    pub(crate) const fn version(self) -> u16 {
        (self.0 & ((1 << VERSION_BITS) - 1)) as u16
    }

    /// Returns the name.
    pub(crate) fn name(self) -> String {
        let shift = |at: u32| VERSION_BITS + CHARACTER_BITS * (NAME_LEN - 1 - at);
        (0..NAME_LEN).map(|at| char::from(CHARACTERS[(self.0 >> shift(at)) as usize % CHARACTERS.len()])).collect()
    }
}

/// Appends a part that is an integer without a sign.
pub(crate) fn write_unsigned(out: &mut MarkedBytes, value: u64) {
    out.push(part::UNSIGNED as u8);
    write_length(out, value as usize);
}

/// Appends a part that is an integer with a sign: as one without, which is how Redis writes and reads it.
pub(crate) fn write_int(out: &mut MarkedBytes, value: i64) {
    write_unsigned(out, value as u64);
}

/// Appends a part that is a double.
pub(crate) fn write_double(out: &mut MarkedBytes, value: f64) {
    out.push(part::DOUBLE as u8);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a part that is a string.
pub(crate) fn write_text(out: &mut MarkedBytes, value: &[u8], compression: Compression) {
    out.push(part::STRING as u8);
    write_string(out, value, compression);
}

/// Appends the end of a value.
pub(crate) fn write_end(out: &mut MarkedBytes) {
    out.push(part::END as u8);
}

/// Reads the parts of a value; each getter returns `None` for a part of another kind.
pub(crate) struct ModuleReader<'r, 'a>(pub(crate) &'r mut Reader<'a>);

impl<'a> ModuleReader<'_, 'a> {
    /// Reads the kind of a part.
    fn expect(&mut self, kind: u64) -> Option<()> {
        (self.0.length()? == kind).then_some(())
    }

    /// Reads an integer without a sign.
    pub(crate) fn unsigned(&mut self) -> Option<u64> {
        self.expect(part::UNSIGNED)?;
        self.0.length()
    }

    /// Reads an integer with a sign, see [`write_int`].
    pub(crate) fn int(&mut self) -> Option<i64> {
        self.unsigned().map(|value| value as i64)
    }

    /// Reads a double.
    pub(crate) fn double(&mut self) -> Option<f64> {
        self.expect(part::DOUBLE)?;
        self.0.array().map(f64::from_le_bytes)
    }

    /// Reads a string of at most `len_max` bytes.
    pub(crate) fn text(&mut self, len_max: usize) -> Option<Cow<'a, [u8]>> {
        self.expect(part::STRING)?;
        self.0.string(len_max)
    }

    /// Reads the end of the value.
    pub(crate) fn end(&mut self) -> Option<()> {
        self.expect(part::END)
    }
}

/// Skips the metadata of modules about a key, behind [`KEY_META`].
///
/// # Errors
/// The name of a class that may not be ignored; `None` if the metadata violates the format.
pub(crate) fn skip_key_meta(reader: &mut Reader<'_>) -> Result<(), Option<[u8; 4]>> {
    let count = reader.length().filter(|count| *count <= CLASSES_MAX).ok_or(None)?;
    for _ in 0..count {
        let class = u32::from_le_bytes(reader.array().ok_or(None)?);
        if class & IS_IGNORABLE == 0 {
            return Err(Some(class_name(class)));
        }
        skip_parts(reader).ok_or(None)?;
    }
    Ok(())
}

fn class_name(class: u32) -> [u8; 4] {
    std::array::from_fn(|at| {
        let number = (class >> (CLASS_NAME_SHIFT + CHARACTER_BITS * (3 - at as u32))) as usize % CHARACTERS.len();
        let plain = CHARACTERS.len() - CLASS_CHARACTERS_END.len();
        if number < plain { CHARACTERS[number] } else { CLASS_CHARACTERS_END[number - plain] }
    })
}

/// Skips the identity of a module type and a value; `None` if it violates the format.
pub(crate) fn skip(reader: &mut Reader<'_>) -> Option<()> {
    reader.length()?;
    skip_parts(reader)
}

/// Skips parts up to the end.
fn skip_parts(reader: &mut Reader<'_>) -> Option<()> {
    loop {
        match reader.length()? {
            part::END => return Some(()),
            part::INT | part::UNSIGNED => drop(reader.length()?),
            part::FLOAT => drop(reader.array::<4>()?),
            part::DOUBLE => drop(reader.array::<8>()?),
            part::STRING => reader.skip_string()?,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_and_the_version_of_a_module_type_are_in_its_number() {
        for name in [b"ReJSON-RL", b"MBbloom--", b"AAAAAAAAA", b"_________"] {
            for version in [0, 3, 1023] {
                let id = ModuleId::new(name, version);
                assert_eq!((id.name().as_bytes(), id.version()), (&name[..], version));
                assert!(
                    id.is_same_type(ModuleId::new(name, 7)) && !id.is_same_type(ModuleId::new(b"other----", version))
                );
            }
        }
        // The number of Redis' own example, which its documentation has: "AAAAAAAAA" is 0.
        assert_eq!(ModuleId::new(b"AAAAAAAAB", 0).0, 1 << VERSION_BITS);
    }

    #[test]
    fn parts_are_read_as_they_were_written_and_only_as_the_kind_that_they_are() {
        let mut out = MarkedBytes::default();
        write_unsigned(&mut out, u64::MAX);
        write_int(&mut out, -5);
        write_double(&mut out, 0.5);
        write_text(&mut out, b"text", Compression::Never);
        write_end(&mut out);
        let mut reader = Reader::new(&out);
        let mut parts = ModuleReader(&mut reader);
        assert_eq!((parts.unsigned(), parts.int(), parts.double()), (Some(u64::MAX), Some(-5), Some(0.5)));
        assert_eq!((parts.text(4).as_deref(), parts.end()), (Some(&b"text"[..]), Some(())));
        assert!(reader.rest().is_empty());
        assert_eq!(ModuleReader(&mut Reader::new(&out)).double(), None);
        assert_eq!(ModuleReader(&mut Reader::new(&[part::STRING as u8, 5, b'x'])).text(9), None);
    }

    #[test]
    fn the_name_of_a_class_is_in_its_number() {
        // Characters 10, 12, 19 and 53, version 3, no flag.
        let class = 10 << 26 | 12 << 20 | 19 << 14 | 53 << 8 | 3 << 3;
        assert_eq!((class_name(class), class_name(62 << 26 | 63 << 20)), (*b"KMT1", *b"_-AA"));
    }
}
