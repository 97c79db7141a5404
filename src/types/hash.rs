//! The formats of hashes, and their row in the table of data types.

use crate::memory::marked::MarkedBytes;
use crate::rdb::shape::PayloadPart::{Bytes, Length, Repeat, Str};
use crate::rdb::{Reader, VERSION_7_4, kind, legacy, write_length, write_string};
use crate::store::entry::Entry;
use crate::store::value::listpack::Listpack;
use crate::store::value::{DataType, Hash, HashGrowth, HashRef, Packing, RecordBody, Type, WalkedElement};
use crate::types::digest::Digest;
use crate::types::distinct::are_distinct;
use crate::types::elements::{ElementsWriter, large_elements};
use crate::types::options::{ValueOptions, ValueTarget};
use crate::types::spec::{CommandFormat, PayloadFormat, TypeNumber, TypeSpec};

/// The end of the range of fields' deadlines.
const DEADLINE_END_MS: i64 = 1 << 48;

pub(super) const SPEC: TypeSpec = TypeSpec {
    of: Type::Hash,
    encoding: |entry| Hash::read(entry).encoding(),
    module: None,
    numbers: &[
        TypeNumber::new(kind::HASH, &[Repeat(&[Str, Str])]),
        TypeNumber::new(kind::HASH_ZIPMAP, &[Str]),
        TypeNumber::new(kind::HASH_ZIPLIST, &[Str]),
        TypeNumber::new(kind::HASH_LISTPACK, &[Str]),
        TypeNumber::new(kind::HASH_METADATA, &[Bytes(8), Repeat(&[Length, Str, Str])]).since(VERSION_7_4),
        TypeNumber::new(kind::HASH_LISTPACK_EX, &[Bytes(8), Str]).since(VERSION_7_4),
    ],
    payload: PayloadFormat {
        number: |entry, _| number_of(Hash::read(entry)),
        write: |out, _, entry, options| write(out, Hash::read(entry), options),
        begin: |out, _, entry, options| {
            let hash = Hash::read(entry);
            Some(RecordBody::new(hash.len(), begin(out, hash, options)))
        },
        read,
    },
    commands: Some(CommandFormat {
        write: |out, entry, _| {
            let hash = Hash::read(entry);
            let fields = ElementsWriter::new(entry.key(), b"HMSET", hash.len());
            hash.for_each_timed(|field, value, deadline| {
                field.with(|field| value.with(|value| fields.write(WalkedElement::Field(field, value, deadline), out)));
            });
        },
        begin: |_, entry, _| Some(large_elements(entry, b"HMSET", Hash::read(entry).len())),
    }),
    digest: |digest, entry| {
        digest.mix_type(4);
        Hash::read(entry).for_each_timed(|field, value, deadline| {
            let mut pair = Digest::default();
            field.with(|field| pair.mix(field));
            value.with(|value| pair.mix(value));
            if deadline.is_some() {
                pair.add(b"!!hexpire!!");
            }
            digest.add_digest(&pair);
        });
    },
};

fn number_of(hash: HashRef<'_>) -> u8 {
    match hash {
        HashRef::Packed(packed) if packed.has_deadlines() => kind::HASH_LISTPACK_EX,
        HashRef::Packed(_) => kind::HASH_LISTPACK,
        HashRef::Big(_) if hash.nearest_deadline().is_some() => kind::HASH_METADATA,
        HashRef::Big(_) => kind::HASH,
    }
}

fn write(out: &mut MarkedBytes, hash: HashRef<'_>, options: ValueOptions) {
    match (hash, hash.nearest_deadline()) {
        (HashRef::Packed(packed), nearest_ms) => {
            if packed.has_deadlines() {
                out.extend_from_slice(&nearest_ms.unwrap_or(0).to_le_bytes());
            }
            write_string(out, packed.listpack().bytes(), options.compression);
        }
        (HashRef::Big(_), _) => {
            let write = begin(out, hash, options);
            hash.for_each_timed(|field, value, deadline| {
                field.with(|field| value.with(|value| write(WalkedElement::Field(field, value, deadline), out)));
            });
        }
    }
}

/// Appends everything before the fields of a big hash; returns the function that appends a field. Where some fields
/// have deadlines, each field is preceded by its deadline relative to the earliest: 0 for none, and 1 for the earliest
/// itself.
fn begin(
    out: &mut MarkedBytes,
    hash: HashRef<'_>,
    options: ValueOptions,
) -> impl Fn(WalkedElement<'_>, &mut MarkedBytes) + use<> {
    let nearest_ms = hash.nearest_deadline();
    if let Some(nearest_ms) = nearest_ms {
        out.extend_from_slice(&nearest_ms.to_le_bytes());
    }
    write_length(out, hash.len());
    move |element, out| {
        let WalkedElement::Field(field, value, deadline) = element else { return };
        if let Some(nearest_ms) = nearest_ms {
            let relative = deadline.map_or(0, |at_ms| at_ms - nearest_ms + 1);
            write_length(out, usize::try_from(relative).unwrap_or(0));
        }
        write_string(out, field, options.compression);
        write_string(out, value, options.compression);
    }
}

/// Reads a value; `None` if it violates the format.
fn read(of: u8, reader: &mut Reader<'_>, target: ValueTarget<'_>, options: ValueOptions) -> Option<Entry> {
    if of == kind::HASH {
        let (count, mut filling) = (reader.length()?, Filling::new(target));
        filling.expect(usize::try_from(count).ok()?);
        for _ in 0..count {
            filling.add(&reader.string(options.len_max)?, &reader.string(options.len_max)?)?;
        }
        return filling.finish();
    }
    if of == kind::HASH_METADATA {
        return read_with_deadlines(reader, target, options);
    }
    if of == kind::HASH_LISTPACK_EX {
        reader.array::<8>()?; // the earliest deadline, which is in the listpack, too
    }
    let packed = reader.string(options.len_max)?;
    match of {
        kind::HASH_LISTPACK_EX => read_timed_listpack(&packed, target),
        kind::HASH_LISTPACK => read_listpack(&packed, target),
        kind::HASH_ZIPLIST => {
            let elements = legacy::ziplist(&packed)?;
            let (pairs, []) = elements.as_chunks::<2>() else { return None };
            filled(target, pairs.iter().map(|[field, value]| (&**field, &**value)))
        }
        kind::HASH_ZIPMAP => filled(target, legacy::zipmap(&packed)?.into_iter()),
        _ => None,
    }
}

/// Reads a hash some of whose fields have deadlines, in the format that [`begin`] describes.
fn read_with_deadlines(reader: &mut Reader<'_>, target: ValueTarget<'_>, options: ValueOptions) -> Option<Entry> {
    let (nearest_ms, count) = (i64::from_le_bytes(reader.array()?), reader.length()?);
    let mut filling = Filling::new(target);
    filling.expect(usize::try_from(count).ok()?);
    for _ in 0..count {
        let relative = i64::try_from(reader.length()?).ok()?;
        let (field, value) = (reader.string(options.len_max)?, reader.string(options.len_max)?);
        let deadline = match relative {
            0 => None,
            _ => Some(nearest_ms.checked_add(relative - 1)?),
        };
        filling.add(&field, &value)?;
        filling.limit_life(&field, deadline)?;
    }
    filling.finish()
}

/// Reads a hash of Valkey, in which every field has a deadline of 8 bytes; `None` if it violates the format.
pub(crate) fn read_of_valkey(reader: &mut Reader<'_>, target: ValueTarget<'_>, options: ValueOptions) -> Option<Entry> {
    /// The deadline of a field that does not expire.
    const NEVER_MS: i64 = -1;
    let (count, mut filling) = (reader.length()?, Filling::new(target));
    filling.expect(usize::try_from(count).ok()?);
    for _ in 0..count {
        let (field, value) = (reader.string(options.len_max)?, reader.string(options.len_max)?);
        let at_ms = i64::from_le_bytes(reader.array()?);
        filling.add(&field, &value)?;
        // A deadline beyond the range is moved to its end: the field has expired, or does not for long.
        let deadline = (at_ms != NEVER_MS).then(|| at_ms.clamp(1, DEADLINE_END_MS - 1));
        filling.limit_life(&field, deadline)?;
    }
    filling.finish()
}

/// Reads a listpack of fields, values and deadlines, and restores the order of the deadlines.
fn read_timed_listpack(bytes: &[u8], target: ValueTarget<'_>) -> Option<Entry> {
    let mut items = Listpack::validate(bytes)?.iter();
    let mut filling = Filling::new(target);
    while let Some(field) = items.next() {
        let (field, value, at_ms) = (field.to_cow(), items.next()?.to_cow(), items.next()?.to_int()?);
        filling.add(&field, &value)?;
        filling.limit_life(&field, Some(at_ms).filter(|at_ms| *at_ms != 0))?;
        if at_ms == 0 {
            Hash::write(&mut filling.entry).set_deadline(&field, None); // keeps the form of the payload
        }
    }
    filling.finish()
}

/// Adopts the bytes of a listpack, unless it has too many fields.
fn read_listpack(bytes: &[u8], target: ValueTarget<'_>) -> Option<Entry> {
    let packed = Listpack::validate(bytes)?;
    let count = packed.len();
    if count == 0 || count % 2 != 0 || !are_distinct(packed.iter().step_by(2), target.hasher) {
        return None;
    }
    let mut entry = Entry::packed(target.key, Type::Hash, Packing::Listpack, bytes, target.deadline);
    Hash::write(&mut entry).expect_fields(count / 2, growth(target));
    Some(entry)
}

fn filled<'p>(target: ValueTarget<'_>, pairs: impl Iterator<Item = (&'p [u8], &'p [u8])>) -> Option<Entry> {
    let mut filling = Filling::new(target);
    for (field, value) in pairs {
        filling.add(field, value)?;
    }
    filling.finish()
}

fn growth(target: ValueTarget<'_>) -> HashGrowth<'_> {
    HashGrowth { limit: target.limits.hash, hasher: target.hasher }
}

/// A hash to which the fields of a payload are added.
pub(super) struct Filling<'a> {
    entry: Entry,
    target: ValueTarget<'a>,
}

impl<'a> Filling<'a> {
    pub(super) fn new(target: ValueTarget<'a>) -> Self {
        Filling { entry: Hash::create(target.key), target }
    }

    pub(super) fn expect(&mut self, count: usize) {
        Hash::write(&mut self.entry).expect_fields(count, growth(self.target));
    }

    /// Adds a field; `None` if it was added before.
    pub(super) fn add(&mut self, field: &[u8], value: &[u8]) -> Option<()> {
        Hash::write(&mut self.entry).set(field, value, growth(self.target)).then_some(())
    }

    /// Sets the deadline of a field that was added; `None` if it is out of range.
    fn limit_life(&mut self, field: &[u8], deadline: Option<i64>) -> Option<()> {
        if let Some(at_ms) = deadline {
            (1..DEADLINE_END_MS).contains(&at_ms).then_some(())?;
            Hash::write(&mut self.entry).set_deadline(field, deadline);
        }
        Some(())
    }

    /// Returns the entry; `None` without fields.
    pub(super) fn finish(mut self) -> Option<Entry> {
        self.entry.set_deadline(self.target.deadline);
        (!Hash::is_empty(&self.entry)).then_some(self.entry)
    }
}
