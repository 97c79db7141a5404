//! The data types above the store: a file for each, with the formats of its values. How values are stored is in
//! `store/value/`.
//!
//! Each file ends up in one row, its [`TypeSpec`]. Layers that handle values of any type ask the table for the row, and
//! know no type.

pub(crate) mod digest;
mod distinct;
mod elements;
mod empty;
mod hash;
pub(crate) mod hash_template;
#[cfg(feature = "json")]
mod json;
mod list;
mod options;
#[cfg(all(feature = "internals", any(feature = "json", feature = "probabilistic", feature = "vectors")))]
pub(crate) mod parts;
pub(crate) mod payload;
#[cfg(feature = "probabilistic")]
mod probabilistic;
mod set;
pub(crate) mod set_deadlines;
mod sorted_set;
mod spec;
mod stream;
pub(crate) mod string;
#[cfg(test)]
mod toy;
#[cfg(feature = "vectors")]
mod vector_set;

use crate::rdb::module::ModuleId;
use crate::store::entry::Entry;
use crate::store::value::{DataType, Type};
use crate::store::{Producers, Stream};

pub(crate) use spec::{TypeNumber, TypeSpec};

/// The rows, in the order of [`Type`].
const TYPES: [&TypeSpec; Type::COUNT] = [
    &string::SPEC,
    &list::SPEC,
    &set::SPEC,
    &sorted_set::SPEC,
    &hash::SPEC,
    &stream::SPEC,
    #[cfg(feature = "vectors")]
    &vector_set::SPEC,
    #[cfg(feature = "json")]
    &json::SPEC,
    #[cfg(feature = "probabilistic")]
    &probabilistic::bloom::SPEC,
    #[cfg(feature = "probabilistic")]
    &probabilistic::cuckoo::SPEC,
    #[cfg(feature = "probabilistic")]
    &probabilistic::count_min_sketch::SPEC,
    #[cfg(feature = "probabilistic")]
    &probabilistic::top_k::SPEC,
    #[cfg(feature = "probabilistic")]
    &probabilistic::t_digest::SPEC,
    #[cfg(test)]
    &toy::SPEC,
];

/// The rows by the numbers of their types in payloads.
static NUMBERS: [Option<(&TypeSpec, &TypeNumber)>; 256] = numbers();

/// Returns the row of the type of a value.
pub(crate) fn spec_of(entry: &Entry) -> &'static TypeSpec {
    TYPES[entry.kind() as usize]
}

/// Returns the name of a value's encoding, as Redis would report it.
pub(crate) fn encoding_of(entry: &Entry) -> &'static str {
    (spec_of(entry).encoding)(entry)
}

/// Returns what a value has beside its form of a number in payloads, if there is anything: the producers of a stream.
pub(crate) fn beside_value(entry: &Entry, of: u8) -> Option<Vec<u8>> {
    let producers = entry.get::<Stream>().ok()?.producers()?;
    (!stream::has_producers(of)).then(|| producers.whole_text())
}

/// Makes a value adopt what [`beside_value`] has returned; returns false if it cannot.
pub(crate) fn adopt_beside_value(entry: &mut Entry, text: &[u8]) -> bool {
    entry.is_of(Type::Stream) && Producers::adopt(Stream::write(entry).producers_mut(), text)
}

/// Returns the row that a number in a payload denotes, if it does; and what the row says about the number.
pub(crate) fn spec_of_number(number: u8) -> Option<(&'static TypeSpec, &'static TypeNumber)> {
    NUMBERS[usize::from(number)]
}

/// Returns the row of a module type, in any version of its encoding.
pub(crate) fn spec_of_module(id: ModuleId) -> Option<&'static TypeSpec> {
    TYPES.into_iter().find(|spec| spec.module.is_some_and(|module| module.is_same_type(id)))
}

const fn numbers() -> [Option<(&'static TypeSpec, &'static TypeNumber)>; 256] {
    let (mut found, mut row) = ([None; 256], 0);
    while row < TYPES.len() {
        assert!(TYPES[row].of as usize == row, "the rows are in the order of the types");
        let (numbers, mut at) = (TYPES[row].numbers, 0);
        while at < numbers.len() {
            let slot = &mut found[numbers[at].number as usize];
            assert!(slot.is_none(), "each number is in one row");
            *slot = Some((TYPES[row], &numbers[at]));
            at += 1;
        }
        row += 1;
    }
    found
}
