//! The payloads of hashes.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::persist::payload::{Options, Target};
use crate::rdb::{self, Reader, kind, legacy, write_length, write_string};
use crate::store::entry::Entry;
use crate::store::value::listpack::Listpack;
use crate::store::value::{Hash, HashGrowth, HashRef, Kind, Packing, Type};

/// Appends the number of the type and the value; returns the lowest version that includes the type.
pub(super) fn write(out: &mut Vec<u8>, hash: HashRef<'_>, options: Options) -> u16 {
    match hash {
        HashRef::Packed(packed) => {
            out.push(kind::HASH_LISTPACK);
            write_string(out, packed.bytes(), options.compresses);
        }
        HashRef::Big(_) => {
            out.push(kind::HASH);
            write_length(out, hash.len());
            hash.for_each(|field, value| {
                field.with(|field| write_string(out, field, options.compresses));
                value.with(|value| write_string(out, value, options.compresses));
            });
        }
    }
    rdb::VERSION
}

/// Reads a value; `None` if it violates the format.
pub(super) fn read(of: u8, reader: &mut Reader<'_>, target: Target<'_>, options: Options) -> Option<Entry> {
    if of == kind::HASH {
        let (count, mut filling) = (reader.length()?, Filling::new(target));
        filling.expect(usize::try_from(count).ok()?);
        for _ in 0..count {
            filling.add(&reader.string(options.len_max)?, &reader.string(options.len_max)?)?;
        }
        return filling.finish();
    }
    let packed = reader.string(options.len_max)?;
    match of {
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

/// Takes over the bytes of a listpack, unless there are too many fields for one.
fn read_listpack(bytes: &[u8], target: Target<'_>) -> Option<Entry> {
    let packed = Listpack::validate(bytes)?;
    let (count, mut fields) = (packed.len(), HashSet::new());
    let texts: Vec<Cow<'_, [u8]>> = packed.iter().step_by(2).map(|field| field.to_cow()).collect();
    if count == 0 || count % 2 != 0 || !texts.iter().all(|field| fields.insert(field)) {
        return None;
    }
    let mut entry = Entry::packed(target.key, Type::Hash, Packing::Listpack, bytes, target.deadline);
    Hash::write(&mut entry).expect_fields(count / 2, growth(target));
    Some(entry)
}

fn filled<'p>(target: Target<'_>, pairs: impl Iterator<Item = (&'p [u8], &'p [u8])>) -> Option<Entry> {
    let mut filling = Filling::new(target);
    for (field, value) in pairs {
        filling.add(field, value)?;
    }
    filling.finish()
}

fn growth(target: Target<'_>) -> HashGrowth<'_> {
    HashGrowth { limit: target.limits.hash, hasher: target.hasher }
}

/// A hash to which the fields of a payload are added.
struct Filling<'a> {
    entry: Entry,
    target: Target<'a>,
}

impl<'a> Filling<'a> {
    fn new(target: Target<'a>) -> Self {
        Filling { entry: Hash::create(target.key), target }
    }

    fn expect(&mut self, count: usize) {
        Hash::write(&mut self.entry).expect_fields(count, growth(self.target));
    }

    /// Adds a field; `None` if it was added before.
    fn add(&mut self, field: &[u8], value: &[u8]) -> Option<()> {
        Hash::write(&mut self.entry).set(field, value, growth(self.target)).then_some(())
    }

    /// Returns the entry; `None` without fields.
    fn finish(mut self) -> Option<Entry> {
        self.entry.set_deadline(self.target.deadline);
        (!Hash::is_empty(Hash::read(&self.entry))).then_some(self.entry)
    }
}
