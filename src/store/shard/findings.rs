//! Measurements of an entry after a panic; see [`recount`](super::recount).

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::store::entry::Entry;
use crate::store::shard::field_deadlines::nearest_deadline;
use crate::store::value::{DataType, Hash, List, Set, SortedSet, Type};
use crate::time::clock::Deadline;

/// Measurements of an entry; all zero for a value that panics even when it is read.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) memory: usize,
    pub(super) deadline: Option<Deadline>,
    pub(super) field_deadline: Option<i64>,
    pub(super) is_empty: bool,
}

impl Findings {
    pub(super) fn of(entry: &Entry) -> Self {
        let look = || Findings {
            memory: entry.memory(),
            deadline: entry.deadline(),
            field_deadline: nearest_deadline(entry),
            is_empty: is_empty(entry),
        };
        catch_unwind(AssertUnwindSafe(look)).unwrap_or_default()
    }
}

/// Returns true if the value is an empty collection, whose key is deleted.
fn is_empty(entry: &Entry) -> bool {
    match entry.kind() {
        Type::Hash => Hash::is_empty(entry),
        Type::List => List::is_empty(entry),
        Type::Set => Set::is_empty(entry),
        Type::SortedSet => SortedSet::is_empty(entry),
        Type::String | Type::Stream => false,
    }
}
