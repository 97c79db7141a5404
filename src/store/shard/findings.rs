//! Measurements of an entry after a panic; see [`recount`](super::recount).

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::store::entry::Entry;
use crate::store::shard::field_deadlines::nearest_deadline;
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
            is_empty: entry.is_empty(),
        };
        catch_unwind(AssertUnwindSafe(look)).unwrap_or_default()
    }
}
