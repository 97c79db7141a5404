//! Values as DUMP and RDB files hold them. The format's numbers, lengths and strings are in [`rdb`].
//!
//! A packed collection is written as the bytes that its entry holds, and read as such once they were checked: RESTORE
//! takes bytes from a client, so every length, count and order in them is verified.

use crate::memory::marked::MarkedBytes;
use crate::rdb::module::{self, ModuleId, ModuleReader};
use crate::rdb::{self, PayloadError, Reader, kind};
use crate::store::entry::Entry;
use crate::store::value::RecordBody;
#[cfg(feature = "internals")]
use crate::store::{Hasher, limits::ValueLimits};
use crate::types::{self, hash_template};

pub(crate) use crate::types::empty::skip as skip_empty;
pub(crate) use crate::types::hash::read_of_valkey as read_hash_of_valkey;
pub(crate) use crate::types::options::{ValueOptions, ValueTarget};
use crate::types::set_deadlines::read_behind;

/// Appends the number of the type and the value of an entry, as DUMP does; returns the lowest version that includes the
/// type.
pub(crate) fn write(out: &mut MarkedBytes, entry: &Entry, options: ValueOptions) -> u16 {
    let of = kind_of(entry, rdb::VERSION_MAX);
    out.push(of);
    write_body(out, of, entry, options);
    lowest_version(of)
}

/// Returns the value of an entry as DUMP writes it, compressed at once or not at all.
pub(crate) fn dump(entry: &Entry, options: ValueOptions) -> Vec<u8> {
    let mut body = MarkedBytes::default();
    let version = write(&mut body, entry, options);
    rdb::seal(body.into_bytes(), version)
}

/// Returns the value of an entry as the log has it, which Redis before 8.6 can read; and what the value has beside that
/// form, if there is anything.
pub(crate) fn dump_for_log(entry: &Entry, options: ValueOptions) -> (Vec<u8>, Option<Vec<u8>>) {
    let (mut body, of) = (MarkedBytes::default(), kind_of(entry, rdb::VERSION_7_4));
    body.push(of);
    write_body(&mut body, of, entry, options);
    (rdb::seal(body.into_bytes(), lowest_version(of)), types::beside_value(entry, of))
}

/// Returns the number of the type that an entry is written as: the lowest that expresses the entry fully; where
/// `version` has none, the lowest that expresses most of it.
pub(crate) fn kind_of(entry: &Entry, version: u16) -> u8 {
    let spec = types::spec_of(entry);
    if spec.module.is_some() { kind::MODULE_2 } else { (spec.payload.number)(entry, version) }
}

/// Appends the value of an entry, without the number of the type that [`kind_of`] has returned.
pub(crate) fn write_body(out: &mut MarkedBytes, of: u8, entry: &Entry, options: ValueOptions) {
    let spec = types::spec_of(entry);
    let Some(id) = spec.module else { return (spec.payload.write)(out, of, entry, options) };
    id.write(out);
    (spec.payload.write)(out, of, entry, options);
    module::write_end(out);
}

/// Appends the value of an entry up to its elements, of the type that [`kind_of`] has returned; returns the writer of
/// the rest. The elements of a long string are pieces of it, and the string is not compressed then. `None` for a small
/// value.
pub(crate) fn begin_body(out: &mut MarkedBytes, of: u8, entry: &Entry, options: ValueOptions) -> Option<RecordBody> {
    (types::spec_of(entry).payload.begin)(out, of, entry, options)
}

/// Returns the lowest version that includes a type.
pub(crate) fn lowest_version(of: u8) -> u16 {
    types::spec_of_number(of).map_or(rdb::VERSION, |(_, number)| number.since)
}

/// Reads a payload of DUMP and writes the value again; returns the new payload.
///
/// # Errors
/// A description of the fault of the payload.
#[cfg(feature = "internals")]
pub fn rewrite(payload: &[u8], compresses: bool) -> Result<Vec<u8>, PayloadError> {
    /// The maximum length of a string, in bytes.
    const LEN_MAX: usize = 1 << 20;
    let options = ValueOptions { compression: rdb::Compression::at_once_if(compresses), len_max: LEN_MAX };
    let (kind, mut reader) = rdb::open(payload, true)?;
    let hasher = Hasher::new();
    let target = ValueTarget { key: b"key", deadline: None, limits: ValueLimits::default(), hasher: &hasher };
    let entry = read_dump(kind, &mut reader, target, options)?;
    Ok(dump(&entry, options))
}

/// Reads a value of a type, or one behind metadata of modules, which are skipped where they may be.
///
/// # Errors
/// [`PayloadError`].
pub(crate) fn read(
    of: u8,
    reader: &mut Reader<'_>,
    target: ValueTarget<'_>,
    options: ValueOptions,
) -> Result<Entry, PayloadError> {
    let of = if of == module::KEY_META { skip_key_meta(reader)? } else { of };
    let entry = match of {
        kind::MODULE_2 => read_module(reader, target, options),
        kind::HASH_TEMPLATE_LISTPACK | kind::HASH_TEMPLATE_ARRAY => {
            hash_template::read_whole(of, reader, target, options)
        }
        _ => match types::spec_of_number(of) {
            Some((spec, _)) => (spec.payload.read)(of, reader, target, options),
            None if kind::unsupported(of).is_some() => return Err(PayloadError::Type(of)),
            None => None,
        },
    };
    entry.ok_or(PayloadError::Format)
}

/// Skips metadata of modules about a key; returns the number of the type behind them.
fn skip_key_meta(reader: &mut Reader<'_>) -> Result<u8, PayloadError> {
    module::skip_key_meta(reader).map_err(|class| class.map_or(PayloadError::Format, PayloadError::KeyMeta))?;
    reader.array().map(|[of]| of).ok_or(PayloadError::Format)
}

/// Reads a value of a type as [`write()`] writes it, with what is behind it.
///
/// # Errors
/// [`PayloadError`].
pub(crate) fn read_dump(
    of: u8,
    reader: &mut Reader<'_>,
    target: ValueTarget<'_>,
    options: ValueOptions,
) -> Result<Entry, PayloadError> {
    let mut entry = read(of, reader, target, options)?;
    read_behind(&mut entry, reader, target).ok_or(PayloadError::Format)?;
    Ok(entry)
}

/// Reads a value of a module type behind the number that all of them have.
fn read_module(reader: &mut Reader<'_>, target: ValueTarget<'_>, options: ValueOptions) -> Option<Entry> {
    let id = ModuleId::read(reader)?;
    let spec = types::spec_of_module(id)?;
    let entry = (spec.payload.read)(u8::try_from(id.version()).ok()?, reader, target, options)?;
    ModuleReader(reader).end()?;
    Some(entry)
}

/// Returns true if values of a module type can be read.
pub(crate) fn is_known_module(id: ModuleId) -> bool {
    types::spec_of_module(id).is_some()
}
