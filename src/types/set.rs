//! The formats of sets, and their row in the table of data types. Deadlines of members are in records behind a set, see
//! `set_deadlines.rs`.

use parking_lot::Mutex;

use crate::memory::marked::MarkedBytes;
use crate::rdb::shape::PayloadPart::{Repeat, Str};
use crate::rdb::{Reader, kind, write_length, write_string};
use crate::store::entry::Entry;
use crate::store::value::intset::IntSet;
use crate::store::value::listpack::{Listpack, StoredElement};
use crate::store::value::{DataType, Packing, RecordBody, Set, SetRef, SetRules, Type, WalkedElement};
use crate::types::digest::Digest;
use crate::types::distinct::are_distinct;
use crate::types::elements::{ElementsWriter, large_elements};
use crate::types::options::{ValueOptions, ValueTarget};
use crate::types::set_deadlines::DeadlineRecords;
use crate::types::spec::{CommandFormat, PayloadFormat, TypeNumber, TypeSpec};

pub(super) const SPEC: TypeSpec = TypeSpec {
    of: Type::Set,
    encoding: |entry| Set::read(entry).encoding(),
    module: None,
    numbers: &[
        TypeNumber::new(kind::SET, &[Repeat(&[Str])]),
        TypeNumber::new(kind::SET_INTSET, &[Str]),
        TypeNumber::new(kind::SET_LISTPACK, &[Str]),
    ],
    payload: PayloadFormat {
        number: |entry, _| number_of(Set::read(entry)),
        write: |out, _, entry, options| write(out, Set::read(entry), options),
        begin: |out, _, entry, options| {
            let set = Set::read(entry);
            Some(RecordBody::new(set.len(), begin(out, set, options)))
        },
        read,
    },
    commands: Some(CommandFormat {
        write: |out, entry, _| {
            let set = Set::read(entry);
            let members = ElementsWriter::new(entry.key(), b"SADD", set.len());
            each(set, |member| members.write(member, out));
        },
        begin: |_, entry, _| Some(large_elements(entry, b"SADD", Set::read(entry).len())),
    }),
    digest: |digest, entry| {
        digest.mix_type(2);
        each(Set::read(entry), |member| match member {
            WalkedElement::TimedMember(member, Some(_)) => {
                let mut timed = Digest::default();
                member.with_text(|text| timed.mix(text));
                timed.add(b"!!sexpire!!");
                digest.add_digest(&timed);
            }
            WalkedElement::TimedMember(member, None) | WalkedElement::Member(member) => {
                member.with_text(|text| digest.add(text));
            }
            _ => {}
        });
    },
};

/// Returns the number of the type. A listpack is written as a plain set, because Redis 7.0 has none for sets.
fn number_of(set: SetRef<'_>) -> u8 {
    if matches!(set, SetRef::Ints(_)) { kind::SET_INTSET } else { kind::SET }
}

fn write(out: &mut MarkedBytes, set: SetRef<'_>, options: ValueOptions) {
    if let SetRef::Ints(ints) = set {
        return write_string(out, ints.bytes(), options.compression);
    }
    let write = begin(out, set, options);
    each(set, |member| write(member, out));
}

/// Visits the members of a set, with their deadlines where they may have any.
fn each(set: SetRef<'_>, mut visit: impl FnMut(WalkedElement<'_>)) {
    match set {
        SetRef::Timed(timed) => {
            timed.iter().for_each(|(member, deadline)| visit(WalkedElement::TimedMember(member, deadline)));
        }
        plain => plain.iter().for_each(|member| visit(WalkedElement::Member(member))),
    }
}

/// Appends everything before the members of a plain set; returns the function that appends a member, and the records
/// with deadlines behind the last one.
fn begin(
    out: &mut MarkedBytes,
    set: SetRef<'_>,
    options: ValueOptions,
) -> impl Fn(WalkedElement<'_>, &mut MarkedBytes) + use<> {
    write_length(out, set.len());
    let records = set.nearest_deadline().map(|_| Mutex::new(DeadlineRecords::new(set.len())));
    move |element, out| {
        let (member, deadline) = match element {
            WalkedElement::Member(member) => (member, None),
            WalkedElement::TimedMember(member, deadline) => (member, deadline),
            _ => return,
        };
        member.with_text(|text| write_string(out, text, options.compression));
        if let Some(records) = &records {
            records.lock().add(member, deadline, out);
        }
    }
}

/// Reads a value; `None` if it violates the format.
fn read(of: u8, reader: &mut Reader<'_>, target: ValueTarget<'_>, options: ValueOptions) -> Option<Entry> {
    let rules = SetRules::new(target.limits, target.hasher);
    if of == kind::SET {
        let count = usize::try_from(reader.length()?).ok()?;
        let mut entry = Set::draft(target.key, Packing::Other, target.deadline);
        let mut set = Set::write(&mut entry);
        if count > rules.packed_max() {
            set.expect(count, rules);
        }
        for _ in 0..count {
            let member = reader.string(options.len_max)?;
            set.add(StoredElement::of(&member), rules).then_some(())?;
        }
        return (count > 0).then_some(entry);
    }
    let bytes = reader.string(options.len_max)?;
    let (mut entry, count) = match of {
        kind::SET_INTSET => {
            let ints = IntSet::validate(&bytes)?;
            (Entry::packed(target.key, Type::Set, Packing::Other, &bytes, target.deadline), ints.len())
        }
        _ => read_listpack(&bytes, target, rules)?,
    };
    Set::write(&mut entry).expect(count, rules);
    Some(entry)
}

/// Adopts the bytes of a listpack, if it has members and none twice; also returns their number. Where an integer is
/// stored as text, the listpack is built again, because sets store integers as such.
fn read_listpack(bytes: &[u8], target: ValueTarget<'_>, rules: SetRules<'_>) -> Option<(Entry, usize)> {
    let listpack = Listpack::validate(bytes)?;
    if listpack.is_empty() || !are_distinct(listpack.iter(), target.hasher) {
        return None;
    }
    if listpack.iter().all(|item| item.with_text(|text| StoredElement::of(text) == item)) {
        let entry = Entry::packed(target.key, Type::Set, Packing::Listpack, bytes, target.deadline);
        return Some((entry, listpack.len()));
    }
    let mut entry = Set::draft(target.key, Packing::Listpack, target.deadline);
    let mut set = Set::write(&mut entry);
    for item in listpack.iter() {
        item.with_text(|text| set.add(StoredElement::of(text), rules));
    }
    Some((entry, listpack.len()))
}
