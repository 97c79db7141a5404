//! The formats of sorted sets, and their row in the table of data types.

use std::borrow::Cow;

use crate::memory::marked::MarkedBytes;
use crate::rdb::shape::PayloadPart::{Bytes, Repeat, Str, TextScore};
use crate::rdb::{Reader, kind, legacy, write_length, write_string};
use crate::resp::format_general;
use crate::store::entry::Entry;
use crate::store::value::listpack::{Listpack, StoredElement};
use crate::store::value::sorted_set::{ScoreTable, checked_score};
use crate::store::value::{DataType, Packing, RecordBody, SortedSet, SortedSetRef, Type, WalkedElement};
use crate::types::digest::Digest;
use crate::types::distinct::are_distinct;
use crate::types::elements::{ElementsWriter, large_elements};
use crate::types::options::{ValueOptions, ValueTarget};
use crate::types::spec::{CommandFormat, PayloadFormat, TypeNumber, TypeSpec};

// Lengths of scores written as text that stand for a score without text.
const NAN: u8 = 253;
const INFINITY: u8 = 254;
const NEG_INFINITY: u8 = 255;

/// The significant digits of scores in a digest.
const SCORE_DIGITS: i32 = 17;

pub(super) const SPEC: TypeSpec = TypeSpec {
    of: Type::SortedSet,
    encoding: |entry| SortedSet::read(entry).encoding(),
    module: None,
    numbers: &[
        TypeNumber::new(kind::ZSET, &[Repeat(&[Str, TextScore])]),
        TypeNumber::new(kind::ZSET_2, &[Repeat(&[Str, Bytes(8)])]),
        TypeNumber::new(kind::ZSET_ZIPLIST, &[Str]),
        TypeNumber::new(kind::ZSET_LISTPACK, &[Str]),
    ],
    payload: PayloadFormat {
        number: |entry, _| number_of(SortedSet::read(entry)),
        write: |out, _, entry, options| write(out, SortedSet::read(entry), options),
        begin: |out, _, entry, options| {
            let set = SortedSet::read(entry);
            Some(RecordBody::new(set.len(), begin(out, set, options)))
        },
        read,
    },
    commands: Some(CommandFormat {
        write: |out, entry, _| {
            let set = SortedSet::read(entry);
            let members = ElementsWriter::new(entry.key(), b"ZADD", set.len());
            for (member, score) in set.iter() {
                member.with_text(|member| members.write(WalkedElement::Scored(member, score.get()), out));
            }
        },
        begin: |_, entry, _| Some(large_elements(entry, b"ZADD", SortedSet::read(entry).len())),
    }),
    digest: |digest, entry| {
        digest.mix_type(3);
        for (member, score) in SortedSet::read(entry).iter() {
            let mut element = Digest::default();
            member.with_text(|member| element.mix(member));
            element.mix(format_general(score.get(), SCORE_DIGITS).as_bytes());
            digest.add_digest(&element);
        }
    },
};

fn number_of(set: SortedSetRef<'_>) -> u8 {
    match set {
        SortedSetRef::Packed(_) => kind::ZSET_LISTPACK,
        SortedSetRef::Big(_) => kind::ZSET_2,
    }
}

fn write(out: &mut MarkedBytes, set: SortedSetRef<'_>, options: ValueOptions) {
    match set {
        SortedSetRef::Packed(packed) => write_string(out, packed.bytes(), options.compression),
        SortedSetRef::Big(_) => {
            let write = begin(out, set, options);
            // As in Redis, the highest score comes first.
            for (member, score) in set.elements(0..set.len(), true) {
                member.with_text(|member| write(WalkedElement::Scored(member, score.get()), out));
            }
        }
    }
}

/// Appends everything before the members of a big sorted set; returns the function that appends a member.
fn begin(
    out: &mut MarkedBytes,
    set: SortedSetRef<'_>,
    options: ValueOptions,
) -> impl Fn(WalkedElement<'_>, &mut MarkedBytes) + use<> {
    write_length(out, set.len());
    move |element, out| {
        let WalkedElement::Scored(member, score) = element else { return };
        write_string(out, member, options.compression);
        out.extend(score.to_le_bytes());
    }
}

/// Reads a value; `None` if it violates the format.
fn read(of: u8, reader: &mut Reader<'_>, target: ValueTarget<'_>, options: ValueOptions) -> Option<Entry> {
    match of {
        kind::ZSET | kind::ZSET_2 => {
            let mut filling = Filling::new(target);
            for _ in 0..reader.length()? {
                let member = reader.string(options.len_max)?;
                let score = match of {
                    kind::ZSET_2 => f64::from_le_bytes(reader.array()?),
                    _ => read_text_score(reader)?,
                };
                filling.add(&member, score)?;
            }
            filling.finish()
        }
        kind::ZSET_LISTPACK => read_listpack(&reader.string(options.len_max)?, target),
        kind::ZSET_ZIPLIST => {
            let packed = reader.string(options.len_max)?;
            let elements = legacy::ziplist(&packed)?;
            let (pairs, []) = elements.as_chunks::<2>() else { return None };
            let mut filling = Filling::new(target);
            for [member, score] in pairs {
                filling.add(member, checked_score(StoredElement::Text(score))?)?;
            }
            filling.finish()
        }
        _ => None,
    }
}

fn read_text_score(reader: &mut Reader<'_>) -> Option<f64> {
    match reader.array()? {
        [NAN] => None,
        [INFINITY] => Some(f64::INFINITY),
        [NEG_INFINITY] => Some(f64::NEG_INFINITY),
        [len] => checked_score(StoredElement::Text(reader.bytes(u64::from(len))?)),
    }
}

/// Adopts the bytes of a listpack, if its elements are in order and not too many.
fn read_listpack(bytes: &[u8], target: ValueTarget<'_>) -> Option<Entry> {
    let packed = Listpack::validate(bytes)?;
    if packed.is_empty() || packed.len() % 2 != 0 || !are_distinct(packed.iter().step_by(2), target.hasher) {
        return None;
    }
    let (mut last, mut is_ascending) = (None, true);
    let mut items = packed.iter();
    while let (Some(member), Some(score)) = (items.next(), items.next()) {
        let (member, score) = (member.to_cow(), checked_score(score)?);
        let is_in_order =
            |(last_score, last): &(f64, Cow<'_, [u8]>)| *last_score < score || *last_score == score && **last < *member;
        is_ascending &= last.as_ref().is_none_or(is_in_order);
        last = Some((score, member));
    }
    if is_ascending && target.limits.zset.admits(packed.len() / 2, 0) {
        return Some(Entry::packed(target.key, Type::SortedSet, Packing::Listpack, bytes, target.deadline));
    }
    let (set, mut filling) = (SortedSetRef::Packed(packed), Filling::new(target));
    set.iter().try_for_each(|(member, score)| member.with_text(|member| filling.add(member, score.get())))?;
    filling.finish()
}

/// A sorted set to which the elements of a payload are added.
struct Filling<'a> {
    elements: ScoreTable,
    target: ValueTarget<'a>,
}

impl<'a> Filling<'a> {
    fn new(target: ValueTarget<'a>) -> Self {
        Filling { elements: ScoreTable::new(target.hasher), target }
    }

    /// Adds an element; `None` if its member was added before, or its score is not a number.
    fn add(&mut self, member: &[u8], score: f64) -> Option<()> {
        let mut is_new = true;
        self.elements.add(member, score, |score, _| {
            is_new = false;
            score
        });
        (is_new && !score.is_nan()).then_some(())
    }

    /// Returns the entry; `None` without elements.
    fn finish(self) -> Option<Entry> {
        let ValueTarget { key, deadline, limits, .. } = self.target;
        let mut entry = SortedSet::entry_of(key, self.elements.finish(), limits.zset);
        entry.set_deadline(deadline);
        (!SortedSet::is_empty(&entry)).then_some(entry)
    }
}
