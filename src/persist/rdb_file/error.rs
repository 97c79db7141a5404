//! The reasons why a file cannot be read, with their position.

use std::fmt;
use std::io;

/// The length to which an error cuts a key, in bytes.
const KEY_SHOWN_MAX: usize = 64;

/// The reason why a file cannot be read, and its position.
#[derive(Debug)]
pub(crate) struct FileError {
    /// The position of the faulty record.
    pub offset: u64,
    pub reason: FileDefect,
}

/// The fault of a file.
#[derive(Debug)]
pub(crate) enum FileDefect {
    /// The file cannot be read.
    Io(io::Error),
    /// The magic is missing.
    Magic,
    /// The version is not known.
    Version(u16),
    /// A record is longer than the rest of the file: that was cut, or the record has a wrong length.
    Truncated {
        /// The least number of missing bytes.
        missing: u64,
    },
    /// A record that is not a key violates the format.
    Record(u8),
    /// The value of a key violates the format.
    Value {
        /// The number of the value's type.
        kind: u8,
        /// The key.
        key: Box<[u8]>,
    },
    /// The number stands for no type and no record.
    Type(u8),
    /// The number stands for a type that is known, by a name, but not supported.
    Unsupported(u8, &'static str),
    /// A key of a module, or other data of one.
    Module(String),
    /// A library of a release candidate.
    OldLibrary,
    /// The state of a cluster that was moving slots.
    SlotImport,
    /// Metadata of modules about a key, of a class that may not be ignored.
    KeyMeta([u8; 4]),
    /// The checksum at the end is not that of the content.
    Checksum {
        /// The checksum in the file.
        expected: u64,
        /// The checksum of the content.
        computed: u64,
    },
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {} of the RDB file", self.reason, self.offset)
    }
}

impl fmt::Display for FileDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileDefect::Io(error) => write!(f, "Reading failed ({error})"),
            FileDefect::Magic => f.write_str("Wrong signature"),
            FileDefect::Version(version) => write!(f, "Can't handle RDB format version {version}"),
            FileDefect::Truncated { missing } => {
                write!(f, "Short read: a record that lacks {missing} bytes or more begins")
            }
            FileDefect::Record(opcode) => write!(f, "Malformed record with opcode {opcode}"),
            FileDefect::Value { kind, key } => {
                let (shown, dots) = match key.get(..KEY_SHOWN_MAX) {
                    Some(start) => (start, "..."),
                    None => (&key[..], ""),
                };
                write!(f, "Malformed value of type {kind} for the key \"{}{dots}\"", shown.escape_ascii())
            }
            FileDefect::Type(number) => write!(f, "Unknown type or opcode {number}"),
            FileDefect::Unsupported(number, name) => {
                write!(f, "A value of type {number} ({name}), which is not supported,")
            }
            FileDefect::Module(name) => write!(f, "Data of the module \"{name}\", which is not supported,"),
            FileDefect::OldLibrary => f.write_str("Pre-GA function format, which is not supported,"),
            FileDefect::SlotImport => f.write_str("An unfinished import of cluster slots, which is not supported,"),
            FileDefect::KeyMeta(class) => {
                let class = class.escape_ascii();
                write!(f, "Key metadata of modules, of the class \"{class}\", which is not supported,")
            }
            FileDefect::Checksum { expected, computed } => {
                write!(f, "Wrong RDB checksum: CRC error (expected {expected:016x}, computed {computed:016x})")
            }
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.reason {
            FileDefect::Io(error) => Some(error),
            _ => None,
        }
    }
}
