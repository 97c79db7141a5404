//! Vector sets, which are never packed: an entry holds a [`BigVectorSet`] behind a pointer (`big/vector_set.rs`).

use crate::store::entry::Entry;
use crate::store::value::{DataType, Type, Value};
use crate::time::clock::Deadline;

pub(crate) use crate::store::value::big::vector_set::{BigVectorSet, VectorSetForm};

/// The data type of vector sets.
pub(crate) enum VectorSet {}

impl Entry {
    /// Creates an entry that holds a vector set.
    pub(crate) fn vector_set(key: &[u8], set: BigVectorSet, deadline: Option<Deadline>) -> Self {
        Entry::boxed(key, Type::VectorSet, Box::new(Value::VectorSet(Box::new(set))), deadline)
    }
}

impl DataType for VectorSet {
    const TYPE: Type = Type::VectorSet;
    type Ref<'e> = &'e BigVectorSet;
    type Mut<'e> = &'e mut BigVectorSet;

    fn read(entry: &Entry) -> &BigVectorSet {
        match entry.value() {
            Some(Value::VectorSet(set)) => set,
            _ => unreachable!("the type of the value was checked"),
        }
    }

    fn write(entry: &mut Entry) -> &mut BigVectorSet {
        match entry.value_mut() {
            Some(Value::VectorSet(set)) => set,
            _ => unreachable!("the type of the value was checked"),
        }
    }

    fn nothing<'e>() -> &'e BigVectorSet {
        const { &BigVectorSet::EMPTY }
    }

    /// Creates an entry with a set whose form is to be set before anything is added.
    fn create(key: &[u8]) -> Entry {
        Entry::vector_set(key, BigVectorSet::EMPTY, None)
    }

    fn is_empty(entry: &Entry) -> bool {
        Self::read(entry).len() == 0
    }
}
