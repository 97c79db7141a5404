//! Data of modules in files: their names, and values in which each part is preceded by its type.

use crate::rdb::Reader;

/// The types of the parts of a value.
pub(super) mod part {
    /// The end of the value.
    pub(in crate::persist::rdb_file) const END: u64 = 0;
    /// An integer with a sign, as a length.
    pub(in crate::persist::rdb_file) const INT: u64 = 1;
    /// An integer without a sign, as a length.
    pub(in crate::persist::rdb_file) const UNSIGNED: u64 = 2;
    /// Four bytes.
    pub(in crate::persist::rdb_file) const FLOAT: u64 = 3;
    /// Eight bytes.
    pub(in crate::persist::rdb_file) const DOUBLE: u64 = 4;
    /// A string.
    pub(in crate::persist::rdb_file) const STRING: u64 = 5;
}

/// The characters of names, by number.
const CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// The bits of a character.
const CHARACTER_BITS: u32 = 6;
/// The characters of a name.
const NAME_LEN: u32 = 9;
/// The number of lowest bits that are the version of the encoding.
const VERSION_BITS: u32 = 10;

/// Returns the name of the data type in a module's number.
pub(super) fn name_of(id: u64) -> String {
    let shift = |at: u32| VERSION_BITS + CHARACTER_BITS * (NAME_LEN - 1 - at);
    (0..NAME_LEN).map(|at| char::from(CHARACTERS[(id >> shift(at)) as usize % CHARACTERS.len()])).collect()
}

/// Skips the number of a module and a value; `None` if it violates the format.
pub(super) fn skip(reader: &mut Reader<'_>) -> Option<()> {
    reader.length()?;
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
    fn the_name_of_a_module_is_in_its_number() {
        let number = |name: &[u8; 9], version: u64| {
            let digit = |c: &u8| CHARACTERS.iter().position(|other| other == c).expect("a known character") as u64;
            name.iter().fold(0, |id, c| id << CHARACTER_BITS | digit(c)) << VERSION_BITS | version
        };
        for name in [b"ReJSON-RL", b"MBbloom--", b"AAAAAAAAA", b"_________"] {
            for version in [0, 3, 1023] {
                assert_eq!(name_of(number(name, version)).as_bytes(), name);
            }
        }
    }
}
