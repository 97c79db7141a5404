//! Why a file cannot be read, and where.

use std::fmt;
use std::io;

/// How much of a key an error shows, in bytes.
const KEY_SHOWN_MAX: usize = 64;

/// Why a file cannot be read.
#[derive(Debug)]
pub(crate) struct FileError {
    /// Where the record begins that is wrong.
    pub offset: u64,
    /// What is wrong.
    pub reason: Reason,
}

/// What is wrong with a file.
#[derive(Debug)]
pub(crate) enum Reason {
    /// It cannot be read.
    Io(io::Error),
    /// It does not begin with a magic.
    Magic,
    /// It has a version that is not known.
    Version(u16),
    /// A record is longer than the rest of the file: that was cut, or the record has a wrong length.
    Truncated {
        /// At least so many bytes are missing.
        missing: u64,
    },
    /// A record that is no key violates the format.
    Record(u8),
    /// The value of a key violates the format.
    Value {
        /// The number of its type.
        kind: u8,
        /// The key.
        key: Box<[u8]>,
    },
    /// The number stands for no type and no record.
    Type(u8),
    /// A key, or something beside keys, of a module.
    Module(String),
    /// A library of a release candidate.
    OldLibrary,
    /// The state of a cluster that was moving slots.
    SlotImport,
    /// What modules keep with a key.
    KeyMeta,
    /// The checksum at the end is not that of the content.
    Checksum {
        /// What the file says.
        expected: u64,
        /// What its content gives.
        computed: u64,
    },
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {} of the RDB file", self.reason, self.offset)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Io(error) => write!(f, "Reading failed ({error})"),
            Reason::Magic => f.write_str("Wrong signature"),
            Reason::Version(version) => write!(f, "Can't handle RDB format version {version}"),
            Reason::Truncated { missing } => {
                write!(f, "Short read: a record that lacks {missing} bytes or more begins")
            }
            Reason::Record(opcode) => write!(f, "Malformed record with opcode {opcode}"),
            Reason::Value { kind, key } => {
                let (shown, dots) = match key.get(..KEY_SHOWN_MAX) {
                    Some(start) => (start, "..."),
                    None => (&key[..], ""),
                };
                write!(f, "Malformed value of type {kind} for the key \"{}{dots}\"", shown.escape_ascii())
            }
            Reason::Type(number) => write!(f, "Unknown type or opcode {number}"),
            Reason::Module(name) => write!(f, "Data of the module \"{name}\", which is not supported,"),
            Reason::OldLibrary => f.write_str("Pre-GA function format, which is not supported,"),
            Reason::SlotImport => f.write_str("An unfinished import of cluster slots, which is not supported,"),
            Reason::KeyMeta => f.write_str("Key metadata of modules, which are not supported,"),
            Reason::Checksum { expected, computed } => {
                write!(f, "Wrong RDB checksum: CRC error (expected {expected:016x}, computed {computed:016x})")
            }
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.reason {
            Reason::Io(error) => Some(error),
            _ => None,
        }
    }
}
