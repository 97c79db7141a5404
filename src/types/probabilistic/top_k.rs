//! The row of Top-K: their values in dumps and files.

use crate::memory::marked::MarkedBytes;
use crate::probabilistic::top_k::{self, TopKShape};
use crate::rdb::Reader;
use crate::rdb::module::{ModuleId, ModuleReader, write_double, write_text, write_unsigned};
use crate::store::entry::Entry;
use crate::store::value::{DataType, TopK, Type};
use crate::types::digest::Digest;
use crate::types::options::{ValueOptions, ValueTarget};
use crate::types::probabilistic::ENCODING;
use crate::types::spec::{PayloadFormat, TypeSpec};

/// The version of the encoding.
const VERSION: u16 = 0;

pub(in crate::types) const SPEC: TypeSpec = TypeSpec {
    of: Type::TopK,
    encoding: |_| ENCODING,
    module: Some(ModuleId::new(b"TopK-TYPE", VERSION)),
    numbers: &[],
    payload: PayloadFormat::of_module(write, read),
    commands: None,
    digest,
};

fn write(out: &mut MarkedBytes, _: u8, entry: &Entry, options: ValueOptions) {
    let bytes = TopK::read(entry);
    let shape = top_k::shape(bytes);
    write_unsigned(out, u64::from(shape.k));
    write_unsigned(out, u64::from(shape.width));
    write_unsigned(out, u64::from(shape.depth));
    write_double(out, shape.decay);
    write_text(out, top_k::buckets(bytes), options.compression);
    write_text(out, &top_k::dumped_heap(bytes), options.compression);
    for item in top_k::heap_items(bytes) {
        write_text(out, &[item.unwrap_or_default(), b"\0"].concat(), options.compression);
    }
}

fn read(version: u8, reader: &mut Reader<'_>, target: ValueTarget<'_>, options: ValueOptions) -> Option<Entry> {
    if u16::from(version) > VERSION {
        return None;
    }
    let mut parts = ModuleReader(reader);
    let shape = TopKShape {
        k: u32::try_from(parts.unsigned()?).ok()?,
        width: u32::try_from(parts.unsigned()?).ok()?,
        depth: u32::try_from(parts.unsigned()?).ok()?,
        decay: parts.double()?,
    };
    let buckets = parts.text(options.len_max)?;
    let heap = parts.text(options.len_max)?;
    let mut items = Vec::new();
    for _ in 0..shape.k {
        items.push(parts.text(options.len_max)?.into_owned());
    }
    let bytes = top_k::of_parts(shape, &buckets, &heap, &items)?;
    Some(Entry::flat::<TopK>(target.key, bytes, target.deadline))
}

/// Adds all but the places of the items, which depend on when others left the heap.
fn digest(digest: &mut Digest, entry: &Entry) {
    let bytes = TopK::read(entry);
    let shape = top_k::shape(bytes);
    for number in [shape.k, shape.width, shape.depth] {
        digest.mix(&number.to_le_bytes());
    }
    digest.mix(&shape.decay.to_le_bytes());
    digest.mix(top_k::buckets(bytes));
    digest.mix(&top_k::dumped_heap(bytes));
    top_k::heap_items(bytes).for_each(|item| digest.mix(item.unwrap_or_default()));
}
