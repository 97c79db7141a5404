//! The row of a data type: everything that layers above the store do with values of the type, besides its commands.

use crate::memory::marked::MarkedBytes;
use crate::rdb::module::ModuleId;
use crate::rdb::shape::PayloadPart;
use crate::rdb::{Reader, VERSION, kind};
use crate::store::entry::Entry;
use crate::store::value::{RecordBody, Type};
use crate::types::digest::Digest;
use crate::types::options::{ValueOptions, ValueTarget};

/// A row of the table of data types.
pub(crate) struct TypeSpec {
    pub(crate) of: Type,
    /// Returns the name of the encoding that OBJECT ENCODING replies with.
    pub(crate) encoding: fn(&Entry) -> &'static str,
    /// The identity of a module type in payloads and files, with the version of the encoding that is written. Such a type
    /// has no number of its own, but [`MODULE_2`](crate::rdb::kind::MODULE_2), as all of them. Its [`PayloadFormat`] writes
    /// and reads the parts of a value, between the identity and the end, and is passed the version in place of a number.
    pub(crate) module: Option<ModuleId>,
    /// The numbers of the type in payloads of DUMP and in RDB files, one for each form that can be read.
    pub(crate) numbers: &'static [TypeNumber],
    /// The form in payloads of DUMP and in RDB files.
    pub(crate) payload: PayloadFormat,
    /// The form in a base of the append-only file that consists of commands; `None` for RESTORE.
    pub(crate) commands: Option<CommandFormat>,
    /// Adds a value to the digest of its key, as DEBUG DIGEST does.
    pub(crate) digest: fn(&mut Digest, &Entry),
}

/// A number by which a payload names its type and the form of its value.
pub(crate) struct TypeNumber {
    pub(crate) number: u8,
    /// The first version of the format that includes the number.
    pub(crate) since: u16,
    /// The parts of a value, by which its end is found without reading it.
    pub(crate) parts: &'static [PayloadPart],
}

impl TypeNumber {
    /// Returns a number of the lowest version that is written.
    pub(super) const fn new(number: u8, parts: &'static [PayloadPart]) -> Self {
        TypeNumber { number, since: VERSION, parts }
    }

    /// Returns the number with another version that includes it first.
    pub(super) const fn since(self, since: u16) -> Self {
        TypeNumber { since, ..self }
    }
}

/// The functions that write and read values in payloads of DUMP and in RDB files.
pub(crate) struct PayloadFormat {
    /// Returns the number that a value is written as: the lowest that expresses it fully; where the version has none,
    /// the lowest that expresses most of it.
    pub(crate) number: fn(&Entry, u16) -> u8,
    /// Appends a value, behind its number.
    pub(crate) write: fn(&mut MarkedBytes, u8, &Entry, ValueOptions),
    /// Appends a large value up to its elements; returns the writer of the rest. `None` for a small value.
    pub(crate) begin: fn(&mut MarkedBytes, u8, &Entry, ValueOptions) -> Option<RecordBody>,
    /// Reads a value behind its number, which is passed; `None` if it violates the format.
    pub(crate) read: fn(u8, &mut Reader<'_>, ValueTarget<'_>, ValueOptions) -> Option<Entry>,
}

impl PayloadFormat {
    /// Returns the format of a module type: the functions that write and read the parts of a value.
    pub(super) const fn of_module(
        write: fn(&mut MarkedBytes, u8, &Entry, ValueOptions),
        read: fn(u8, &mut Reader<'_>, ValueTarget<'_>, ValueOptions) -> Option<Entry>,
    ) -> Self {
        PayloadFormat { number: |_, _| kind::MODULE_2, write, begin: |_, _, _, _| None, read }
    }
}

/// The functions that write values as the commands that create them. A fence of a key, unless it is 0, is written with
/// its string.
pub(crate) struct CommandFormat {
    /// Appends the commands that create a key.
    pub(crate) write: fn(&mut Vec<u8>, &Entry, i64),
    /// Appends the commands that create a key with a large value, up to the first element; returns the writer of the
    /// rest. `None` for a small value.
    pub(crate) begin: fn(&mut Vec<u8>, &Entry, i64) -> Option<RecordBody>,
}
