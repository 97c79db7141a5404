//! RDB files: a writer of their pieces, and a reader that needs no more memory than the largest record.
//!
//! ```text
//! magic   "REDIS" and four digits, or "VALKEY" and three: the version
//! records
//!     250 name, value                     about the file
//!     245 code                            a library of functions
//!     254 number                          the database of the keys that follow
//!     251 keys, keys with a deadline      how many follow
//!     242 number, names                   the fields of hashes that follow, in files of Redis 8.10
//!     [252 deadline] [248 idle time | 249 frequency] type, key, value
//! 255, CRC-64 of everything before
//! ```
//!
//! A record 250 before a key holds its fence, [`FENCE`]; another one, [`LOCK`], the state of the lock that the key is,
//! or [`PRODUCERS`], the producers of the stream that it is. Records 250 behind a set hold deadlines of its members, see
//! `types/set_deadlines.rs`.
//! For a key that was removed and whose fence is remembered there is a record 250, [`RETIRED_FENCE`], anywhere between
//! the keys, with the value `database fence time key`. Other servers skip these records.

mod buffer;
mod error;
mod grammar;
mod read;
#[cfg(test)]
mod tests;
mod write;

#[cfg(test)]
pub(crate) use error::{FileDefect, FileError};
#[cfg(feature = "internals")]
pub use read::rewrite;
pub(crate) use read::{FileItem, FileReader, ReadOptions};
pub(crate) use write::{
    FileOptions, KeyMeta, aux, end, entry, header, large_entry, library, replace_version, resize, retired_fence,
    select, string, text_entry,
};

/// The opcodes of records other than keys.
mod opcode {
    pub(super) use crate::rdb::library::{LIBRARY, LIBRARY_BEFORE_RELEASE};

    /// The names of the fields of hashes.
    pub(super) const HASH_TEMPLATE: u8 = 242;
    /// An import of slots, in files of Valkey; metadata of modules about a key, in files of Redis.
    pub(super) const SLOT_IMPORT_OR_KEY_META: u8 = crate::rdb::module::KEY_META;
    /// The sizes of a slot of a cluster.
    pub(super) const SLOT_INFO: u8 = 244;
    /// Data of a module besides keys.
    pub(super) const MODULE_AUX: u8 = 247;
    /// The seconds for which the next key was not used.
    pub(super) const IDLE: u8 = 248;
    /// The access frequency of the next key.
    pub(super) const FREQUENCY: u8 = 249;
    /// A name and a value about the file.
    pub(super) const AUX: u8 = crate::rdb::AUX;
    /// The number of keys of the database.
    pub(super) const RESIZE: u8 = 251;
    /// The deadline of the next key in milliseconds.
    pub(super) const EXPIRES_MS: u8 = 252;
    /// The deadline of the next key in seconds.
    pub(super) const EXPIRES_S: u8 = 253;
    /// The number of the database.
    pub(super) const SELECT: u8 = 254;
    /// The end of the file.
    pub(super) const END: u8 = 255;
}

/// The name of the record that holds the fence of the next key.
const FENCE: &[u8] = b"keylatch-fence";
/// The name of the record that holds the state of the lock that the next key is.
const LOCK: &[u8] = b"keylatch-lock";
/// The name of the record that holds the producers of the stream that is the next key.
const PRODUCERS: &[u8] = b"keylatch-producers";

/// The name of the record that holds the fence of a removed key.
const RETIRED_FENCE: &[u8] = b"keylatch-retired-fence";
/// The length of magic and version, in bytes.
const HEADER_LEN: usize = 9;
/// The first version with a checksum at the end.
const CHECKSUMS_SINCE: u16 = 5;

/// The fence of a removed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetiredFence<K> {
    /// The database that the key was in.
    pub db: u64,
    /// The fence; no smaller one may create the key.
    pub fence: i64,
    /// The time of the key's removal, in milliseconds since 1970.
    pub removed_ms: i64,
    pub key: K,
}

/// The use of a key, as far as the eviction policy records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    /// The seconds since the last use.
    Idle(u64),
    /// The counter of LFU.
    Frequency(u8),
}

/// The server family that wrote the file: the families give some numbers different meanings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Redis,
    Valkey,
}
