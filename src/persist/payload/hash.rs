//! The payloads of hashes.

use crate::persist::payload::{Options, Target};
use crate::rdb::{self, Reader, kind};
use crate::store::entry::Entry;
use crate::store::value::HashRef;

/// Appends the number of the type and the value; returns the lowest version that includes the type.
pub(super) fn write(out: &mut Vec<u8>, _: HashRef<'_>, _: Options) -> u16 {
    out.push(kind::HASH);
    rdb::VERSION
}

/// Reads a value; `None` if it violates the format.
pub(super) fn read(_: u8, _: &mut Reader<'_>, _: Target<'_>, _: Options) -> Option<Entry> {
    None
}
