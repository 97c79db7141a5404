//! Collections without elements, which old servers have left in files: they are recognised, and not loaded.

use crate::rdb::{Reader, kind, legacy};
use crate::store::value::listpack::Listpack;

/// The maximum length of a packed collection without elements, in bytes.
const PACKED_LEN_MAX: usize = 16;

/// Skips a collection of a type, if it has no elements; returns true if it was skipped.
pub(crate) fn skip(of: u8, reader: &mut Reader<'_>) -> bool {
    skip_of(of, reader).is_some()
}

/// Skips a collection without elements; `None` if it is another value.
fn skip_of(of: u8, reader: &mut Reader<'_>) -> Option<()> {
    match of {
        kind::LIST | kind::SET | kind::ZSET | kind::ZSET_2 | kind::HASH | kind::HASH_VALKEY => no_count(reader),
        kind::HASH_METADATA => {
            reader.array::<8>()?;
            no_count(reader)
        }
        kind::HASH_LISTPACK_EX => {
            reader.array::<8>()?;
            no_items(reader)
        }
        kind::SET_LISTPACK | kind::HASH_LISTPACK | kind::ZSET_LISTPACK => no_items(reader),
        kind::LIST_ZIPLIST | kind::ZSET_ZIPLIST | kind::HASH_ZIPLIST => no_old_items(reader),
        kind::HASH_ZIPMAP => legacy::zipmap(&reader.string(PACKED_LEN_MAX)?)?.is_empty().then_some(()),
        kind::LIST_QUICKLIST => (0..reader.length()?).try_for_each(|_| no_old_items(reader)),
        kind::LIST_QUICKLIST_2 => (0..reader.length()?).try_for_each(|_| {
            reader.length()?;
            no_items(reader)
        }),
        _ => None,
    }
}

/// Reads a count that is 0.
fn no_count(reader: &mut Reader<'_>) -> Option<()> {
    (reader.length()? == 0).then_some(())
}

/// Reads a listpack without items.
fn no_items(reader: &mut Reader<'_>) -> Option<()> {
    Listpack::validate(&reader.string(PACKED_LEN_MAX)?)?.is_empty().then_some(())
}

/// Reads a ziplist without items.
fn no_old_items(reader: &mut Reader<'_>) -> Option<()> {
    legacy::ziplist(&reader.string(PACKED_LEN_MAX)?)?.is_empty().then_some(())
}
