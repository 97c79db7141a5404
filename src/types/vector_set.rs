//! Vector sets. Their form in payloads and files is that of Redis' module `vectorset`, in which every element has its place
//! in a graph.
//!
//! Here there is no graph, so that of a loaded set is skipped. In a written one each element has neighbours by its number
//! alone, at distances that are powers of two: Redis refuses links that are not mutual, and a search there must reach every
//! element. The weights of these links, which are optional, are left to Redis.

use crate::memory::marked::MarkedBytes;
use crate::rdb::module::{ModuleId, ModuleReader, write_end, write_text, write_unsigned};
use crate::rdb::{Compression, Reader, VERSION, kind, seal};
use crate::resp::write_command;
use crate::store::entry::Entry;
use crate::store::value::vector_set::{BigVectorSet, VectorSetForm};
use crate::store::value::{DataType, RecordBody, Type, VectorSet, WalkedElement};
use crate::types::digest::Digest;
use crate::types::options::{ValueOptions, ValueTarget};
use crate::types::spec::{CommandFormat, PayloadFormat, TypeSpec};
use crate::vectors::{DIMENSIONS_MAX, KeptVector, Projection, Quantisation, VectorRow};

/// The name and the version of Redis' module type.
const MODULE: ModuleId = ModuleId::new(b"vectorset", 0);

/// The bit of a set that has a projection.
const HAS_PROJECTION: u64 = 1;
/// The bit of a set whose elements have attributes.
const HAS_ATTRIBUTES: u64 = 1 << 1;

/// Number of links that an element of a set has unless it was created with another.
const LINKS_DEFAULT: u16 = 16;

/// Number of parameters of an element before its links and behind them: its number, its level, the number of its links and
/// their limit; the length of its vector, and the range.
const PARAMETERS_BESIDE_LINKS: usize = 5;

pub(super) const SPEC: TypeSpec = TypeSpec {
    of: Type::VectorSet,
    encoding: |_| "raw",
    module: Some(MODULE),
    numbers: &[],
    payload: PayloadFormat {
        number: |_, _| kind::MODULE_2,
        write: |out, _, entry, options| write(out, VectorSet::read(entry), options),
        begin: |out, _, entry, options| {
            let set = VectorSet::read(entry);
            MODULE.write(out);
            write_head(out, set, options);
            let element = ElementWriter::new(set, options);
            let write = move |walked: WalkedElement<'_>, out: &mut MarkedBytes| {
                if let WalkedElement::Vector(number, row, vector) = walked {
                    element.write(out, number, row, vector);
                }
            };
            let mut body = RecordBody::new(set.len(), write);
            write_end(&mut body.tail);
            Some(body)
        },
        read,
    },
    commands: Some(CommandFormat {
        write: |out, entry, _| write_restore(out, entry),
        begin: |out, entry, _| {
            write_restore(out, entry);
            Some(RecordBody::new(VectorSet::read(entry).len(), |_, _| {}))
        },
    }),
    digest,
};

/// Appends RESTORE: no commands would create vectors with the same codes.
fn write_restore(out: &mut Vec<u8>, entry: &Entry) {
    let options = ValueOptions { compression: Compression::Never, len_max: usize::MAX };
    let mut payload = MarkedBytes::from(vec![kind::MODULE_2]);
    MODULE.write(&mut payload);
    write(&mut payload, VectorSet::read(entry), options);
    write_end(&mut payload);
    write_command(out, &[b"RESTORE", entry.key(), b"0", &seal(payload.into_bytes(), VERSION)]);
}

/// Appends the parts of a set.
fn write(out: &mut MarkedBytes, set: &BigVectorSet, options: ValueOptions) {
    write_head(out, set, options);
    let element = ElementWriter::new(set, options);
    for number in 0..set.len() {
        element.write(out, number, set.rows().row(number), &set.rows().vector(number));
    }
}

/// Appends everything before the elements.
fn write_head(out: &mut MarkedBytes, set: &BigVectorSet, options: ValueOptions) {
    let (rows, form) = (set.rows(), set.form());
    write_unsigned(out, rows.dimensions() as u64);
    write_unsigned(out, set.len() as u64);
    write_unsigned(out, rows.form().number() | u64::from(form.links) << 8);
    let has_projection = if form.projection.is_some() { HAS_PROJECTION } else { 0 };
    let has_attributes = if set.with_attributes() > 0 { HAS_ATTRIBUTES } else { 0 };
    write_unsigned(out, has_projection | has_attributes);
    if let Some(projection) = &form.projection {
        write_unsigned(out, projection.input as u64);
        let factors: Vec<u8> = projection.factors().flat_map(f32::to_le_bytes).collect();
        write_text(out, &factors, options.compression);
    }
}

/// Writes the elements of a set.
#[derive(Clone, Copy)]
struct ElementWriter {
    len: usize,
    last: u64,
    links: u16,
    has_attributes: bool,
    options: ValueOptions,
}

impl ElementWriter {
    fn new(set: &BigVectorSet, options: ValueOptions) -> Self {
        let (links, has_attributes) = (set.form().links, set.with_attributes() > 0);
        ElementWriter { len: set.len(), last: set.last(), links, has_attributes, options }
    }

    /// Returns the number that an element has in the graph. The last one has the highest that was ever given.
    fn id(&self, number: usize) -> u64 {
        if number + 1 == self.len { self.last } else { number as u64 + 1 }
    }

    /// Appends an element.
    fn write(&self, out: &mut MarkedBytes, number: usize, row: &VectorRow, vector: &KeptVector) {
        write_text(out, &row.name, self.options.compression);
        if self.has_attributes {
            write_text(out, row.attributes.as_deref().unwrap_or_default(), self.options.compression);
        }
        write_text(out, &vector.bytes(), Compression::Never);
        let steps = (0..usize::BITS).map(|bits| 1_usize << bits).take_while(|step| *step < self.len);
        let neighbours = steps.flat_map(|step| [number.checked_sub(step), number.checked_add(step)]);
        let links: Vec<usize> = neighbours.flatten().filter(|other| *other < self.len).collect();
        write_unsigned(out, (PARAMETERS_BESIDE_LINKS + links.len()) as u64);
        write_unsigned(out, self.id(number));
        write_unsigned(out, 0); // the lowest level, without weights of links
        write_unsigned(out, links.len() as u64);
        write_unsigned(out, links.len().max(2 * usize::from(self.links)) as u64);
        links.iter().for_each(|other| write_unsigned(out, self.id(*other)));
        write_unsigned(out, u64::from(vector.range.to_bits()) << 32 | u64::from(vector.norm.to_bits()));
    }
}

/// Reads a value; `None` if it violates the format.
fn read(version: u8, reader: &mut Reader<'_>, target: ValueTarget<'_>, options: ValueOptions) -> Option<Entry> {
    let mut parts = ModuleReader(reader);
    let dimensions = usize::try_from(parts.unsigned()?).ok()?;
    let count = parts.unsigned()?;
    let config = parts.unsigned()?;
    let quantisation = Quantisation::of_number(config & 0xff)?;
    let flags = parts.unsigned()?;
    if version != 0 || count == 0 || !(1..=DIMENSIONS_MAX).contains(&dimensions) {
        return None;
    }
    let projection = if flags & HAS_PROJECTION == 0 {
        None
    } else {
        let input = usize::try_from(parts.unsigned()?).ok()?;
        let factors = parts.text(options.len_max)?;
        Some(Projection::of_factors(input, dimensions, &factors).filter(|_| (1..=DIMENSIONS_MAX).contains(&input))?)
    };
    let links = match (config >> 8) as u16 {
        0 => LINKS_DEFAULT,
        links => links,
    };
    let mut set = BigVectorSet::new(quantisation, dimensions, VectorSetForm { links, projection });
    let mut last = 0;
    for _ in 0..count {
        let name = parts.text(options.len_max)?;
        let attributes = if flags & HAS_ATTRIBUTES == 0 { None } else { Some(parts.text(options.len_max)?) };
        let codes = parts.text(options.len_max)?;
        let (id, lengths) = read_parameters(&mut parts)?;
        let vector = KeptVector::of_bytes(&codes, (quantisation, dimensions), lengths)?;
        if set.find(&name).is_some() {
            return None;
        }
        set.add(&name, &vector, attributes.as_deref().filter(|attributes| !attributes.is_empty()));
        last = last.max(id);
    }
    set.set_last(last);
    Some(Entry::vector_set(target.key, set, target.deadline))
}

/// Reads the parameters of an element; returns its number, and the length of its vector and the range. What is between them
/// is about the graph.
fn read_parameters(parts: &mut ModuleReader<'_, '_>) -> Option<(u64, (f32, f32))> {
    let count = parts.unsigned()?;
    if count < PARAMETERS_BESIDE_LINKS as u64 {
        return None;
    }
    let id = parts.unsigned()?;
    for _ in 2..count {
        parts.unsigned()?;
    }
    let lengths = parts.unsigned()?;
    Some((id, (f32::from_bits(lengths as u32), f32::from_bits((lengths >> 32) as u32))))
}

/// Adds the set to a digest as Redis' module does, whatever the order of its elements.
fn digest(digest: &mut Digest, entry: &Entry) {
    digest.mix_type(5); // that of all types of modules
    let set = VectorSet::read(entry);
    let (mut all, mut one) = (Digest::default(), Digest::default());
    one.mix(itoa::Buffer::new().format(set.len()).as_bytes());
    one.mix(itoa::Buffer::new().format(set.rows().dimensions()).as_bytes());
    all.add_digest(&one);
    for number in 0..set.len() {
        let row = set.rows().row(number);
        one = Digest::default();
        one.mix(&set.rows().vector(number).bytes());
        one.mix(&row.name);
        row.attributes.iter().for_each(|attributes| one.mix(attributes));
        all.add_digest(&one);
    }
    digest.add_digest(&all);
}
