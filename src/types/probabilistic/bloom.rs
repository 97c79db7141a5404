//! The row of Bloom filters: their values in dumps and files.

use crate::memory::marked::MarkedBytes;
use crate::probabilistic::bloom::{self, BloomHeader, BloomLink};
use crate::rdb::Reader;
use crate::rdb::module::{ModuleId, ModuleReader, write_double, write_text, write_unsigned};
use crate::resp::write_command;
use crate::store::entry::Entry;
use crate::store::value::{BloomFilter, DataType, Type};
use crate::types::options::{ValueOptions, ValueTarget};
use crate::types::probabilistic::ENCODING;
use crate::types::spec::{CommandFormat, PayloadFormat, TypeSpec};

/// The version of the encoding that is written.
const VERSION: u16 = 4;
/// The first version with options.
const WITH_OPTIONS: u8 = 2;
/// The first version with the expansion.
const WITH_EXPANSION: u8 = 4;

pub(in crate::types) const SPEC: TypeSpec = TypeSpec {
    of: Type::BloomFilter,
    encoding: |_| ENCODING,
    module: Some(ModuleId::new(b"MBbloom--", VERSION)),
    numbers: &[],
    payload: PayloadFormat::of_module(write, read),
    commands: Some(CommandFormat { write: write_commands, begin: |_, _, _| None }),
    digest: |digest, entry| digest.mix(BloomFilter::read(entry)),
};

fn write(out: &mut MarkedBytes, _: u8, entry: &Entry, options: ValueOptions) {
    let bytes = BloomFilter::read(entry);
    let header = BloomHeader::of(bytes);
    write_unsigned(out, header.size);
    write_unsigned(out, bloom::filters(bytes) as u64);
    write_unsigned(out, u64::from(header.options));
    write_unsigned(out, u64::from(header.expansion));
    for (link, bits) in bloom::links(bytes) {
        write_unsigned(out, link.capacity);
        write_double(out, link.error);
        write_unsigned(out, u64::from(link.hashes));
        write_double(out, link.bits_per_item);
        write_unsigned(out, link.bits);
        write_unsigned(out, u64::from(link.exponent));
        write_text(out, bits, options.compression);
        write_unsigned(out, link.size);
    }
}

fn read(version: u8, reader: &mut Reader<'_>, target: ValueTarget<'_>, options: ValueOptions) -> Option<Entry> {
    if version == 0 || u16::from(version) > VERSION {
        return None;
    }
    let mut parts = ModuleReader(reader);
    let size = parts.unsigned()?;
    let filters = parts.unsigned()?;
    let options_of_filter = if version >= WITH_OPTIONS { u32::try_from(parts.unsigned()?).ok()? } else { 0 };
    let expansion = if version >= WITH_EXPANSION { u32::try_from(parts.unsigned()?).ok()? } else { 2 };
    let mut links = Vec::new();
    for _ in 0..filters {
        links.push(read_link(&mut parts, options.len_max)?);
    }
    let bytes = bloom::of_parts(BloomHeader { size, options: options_of_filter, expansion }, &links)?;
    Some(Entry::flat::<BloomFilter>(target.key, bytes, target.deadline))
}

fn read_link(parts: &mut ModuleReader<'_, '_>, len_max: usize) -> Option<(BloomLink, Vec<u8>)> {
    let mut link = BloomLink {
        capacity: parts.unsigned()?,
        error: parts.double()?,
        hashes: u32::try_from(parts.unsigned()?).ok()?,
        bits_per_item: parts.double()?,
        bits: parts.unsigned()?,
        exponent: u8::try_from(parts.unsigned()?).ok()?,
        bytes: 0,
        size: 0,
    };
    let bits = parts.text(len_max)?.into_owned();
    link.bytes = bits.len() as u64;
    link.size = parts.unsigned()?;
    Some((link, bits))
}

/// Appends BF.LOADCHUNK with the header, and with the bits in chunks.
fn write_commands(out: &mut Vec<u8>, entry: &Entry, _: i64) {
    let bytes = BloomFilter::read(entry);
    write_command(out, &[b"BF.LOADCHUNK", entry.key(), b"1", bloom::header(bytes)]);
    let mut at = 1;
    while let Some((next, chunk)) = bloom::chunk(bytes, at) {
        write_command(out, &[b"BF.LOADCHUNK", entry.key(), next.to_string().as_bytes(), chunk]);
        at = next;
    }
}
