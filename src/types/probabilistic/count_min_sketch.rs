//! The row of count-min sketches: their values in dumps and files.

use crate::memory::marked::MarkedBytes;
use crate::probabilistic::count_min_sketch as sketch;
use crate::rdb::Reader;
use crate::rdb::module::{ModuleId, ModuleReader, write_text, write_unsigned};
use crate::store::entry::Entry;
use crate::store::value::{CountMinSketch, DataType, Type};
use crate::types::options::{ValueOptions, ValueTarget};
use crate::types::probabilistic::ENCODING;
use crate::types::spec::{PayloadFormat, TypeSpec};

/// The version of the encoding.
const VERSION: u16 = 0;

pub(in crate::types) const SPEC: TypeSpec = TypeSpec {
    of: Type::CountMinSketch,
    encoding: |_| ENCODING,
    module: Some(ModuleId::new(b"CMSk-TYPE", VERSION)),
    numbers: &[],
    payload: PayloadFormat::of_module(write, read),
    commands: None,
    digest: |digest, entry| digest.mix(CountMinSketch::read(entry)),
};

fn write(out: &mut MarkedBytes, _: u8, entry: &Entry, options: ValueOptions) {
    let bytes = CountMinSketch::read(entry);
    write_unsigned(out, sketch::width(bytes));
    write_unsigned(out, sketch::depth(bytes));
    write_unsigned(out, sketch::total(bytes) as u64);
    write_text(out, sketch::counters(bytes), options.compression);
}

fn read(version: u8, reader: &mut Reader<'_>, target: ValueTarget<'_>, options: ValueOptions) -> Option<Entry> {
    if u16::from(version) > VERSION {
        return None;
    }
    let mut parts = ModuleReader(reader);
    let (width, depth, total) = (parts.unsigned()?, parts.unsigned()?, parts.unsigned()?);
    let bytes = sketch::of_parts(width, depth, total, &parts.text(options.len_max)?)?;
    Some(Entry::flat::<CountMinSketch>(target.key, bytes, target.deadline))
}
