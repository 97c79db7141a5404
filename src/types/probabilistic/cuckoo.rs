//! The row of cuckoo filters: their values in dumps and files.

use crate::memory::marked::MarkedBytes;
use crate::probabilistic::cuckoo::{self, CuckooHeader};
use crate::rdb::Reader;
use crate::rdb::module::{ModuleId, ModuleReader, write_text, write_unsigned};
use crate::resp::write_command;
use crate::store::entry::Entry;
use crate::store::value::{CuckooFilter, DataType, Type};
use crate::types::options::{ValueOptions, ValueTarget};
use crate::types::probabilistic::ENCODING;
use crate::types::spec::{CommandFormat, PayloadFormat, TypeSpec};

/// The version of the encoding that is written, and the first with all parameters.
const VERSION: u16 = 4;

pub(in crate::types) const SPEC: TypeSpec = TypeSpec {
    of: Type::CuckooFilter,
    encoding: |_| ENCODING,
    module: Some(ModuleId::new(b"MBbloomCF", VERSION)),
    numbers: &[],
    payload: PayloadFormat::of_module(write, read),
    commands: Some(CommandFormat { write: write_commands, begin: |_, _, _| None }),
    digest: |digest, entry| digest.mix(CuckooFilter::read(entry)),
};

fn write(out: &mut MarkedBytes, _: u8, entry: &Entry, options: ValueOptions) {
    let bytes = CuckooFilter::read(entry);
    let header = CuckooHeader::of(bytes);
    write_unsigned(out, header.filters);
    write_unsigned(out, header.buckets);
    write_unsigned(out, header.items);
    write_unsigned(out, header.deleted);
    write_unsigned(out, u64::from(header.bucket_size));
    write_unsigned(out, u64::from(header.iterations));
    write_unsigned(out, u64::from(header.expansion));
    for (buckets, slots) in cuckoo::parts(bytes) {
        write_unsigned(out, buckets);
        write_text(out, slots, options.compression);
    }
}

fn read(version: u8, reader: &mut Reader<'_>, target: ValueTarget<'_>, options: ValueOptions) -> Option<Entry> {
    let mut parts = ModuleReader(reader);
    let has_parameters = u16::from(version) == VERSION;
    if u16::from(version) > VERSION {
        return None;
    }
    let (filters, buckets, items) = (parts.unsigned()?, parts.unsigned()?, parts.unsigned()?);
    let mut header = CuckooHeader { items, buckets, deleted: 0, filters, bucket_size: 2, iterations: 20, expansion: 1 };
    if has_parameters {
        header.deleted = parts.unsigned()?;
        header.bucket_size = u16::try_from(parts.unsigned()?).ok()?;
        header.iterations = u16::try_from(parts.unsigned()?).ok()?;
        header.expansion = u16::try_from(parts.unsigned()?).ok()?;
    }
    let mut slots = Vec::new();
    for _ in 0..filters {
        if has_parameters {
            parts.unsigned()?; // the number of buckets, which follows from the header
        }
        slots.push(parts.text(options.len_max)?.into_owned());
    }
    Some(Entry::flat::<CuckooFilter>(target.key, cuckoo::of_parts(header, &slots)?, target.deadline))
}

/// Appends CF.LOADCHUNK with the header, and with the fingerprints in chunks.
fn write_commands(out: &mut Vec<u8>, entry: &Entry, _: i64) {
    let bytes = CuckooFilter::read(entry);
    write_command(out, &[b"CF.LOADCHUNK", entry.key(), b"1", cuckoo::header(bytes)]);
    let mut at = 1;
    while let Some((next, chunk)) = cuckoo::chunk(bytes, at) {
        write_command(out, &[b"CF.LOADCHUNK", entry.key(), next.to_string().as_bytes(), chunk]);
        at = next;
    }
}
