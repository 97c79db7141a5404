//! Defragmentation: moves entries together where eviction has left the allocator's pages partly empty.
//!
//! The allocator fills its oldest pages first. So an entry that is allocated again usually moves to a fuller page, and
//! the page that it leaves becomes empty in the end. Old allocations are freed many at a time: the allocator reuses
//! first what a thread has freed last, so that entries moved one by one would only swap places.

use crate::store::entry::Entry;
use crate::store::{GateGuard, SHARDS, Store};

/// How many entries, or how many bytes of them, are moved at a time: a quarter of a millisecond's work.
const ENTRIES_MAX: usize = 512;
const BYTES_MAX: usize = 1 << 20;

/// The position of the next entries to move.
#[derive(Default)]
pub(super) struct Cursor {
    /// The index of the database among those in use.
    at: usize,
    shard: usize,
    bucket: usize,
}

/// The entries that one step has moved.
#[derive(Default)]
pub(crate) struct Moved {
    /// The allocations that the entries were moved from.
    pub left: Vec<Entry>,
    /// Bytes that were copied.
    pub bytes: usize,
}

impl Moved {
    /// Returns whether the step has moved enough.
    pub(crate) fn is_enough(&self) -> bool {
        self.left.len() >= ENTRIES_MAX || self.bytes >= BYTES_MAX
    }
}

impl Store {
    /// Moves some entries, cycling through the whole store. Returns how many bytes were copied.
    pub fn compact(&self, hold: &mut GateGuard<'_>) -> usize {
        let mut cursor = self.compacting.lock();
        let (used, mut moved) = (hold.used(), Moved::default());
        for _ in 0..used.len() * SHARDS {
            let Cursor { at, shard, bucket } = *cursor;
            let db = used[at % used.len()];
            let next = hold.with_shard(db, shard, |shard| shard.compact(bucket, &mut moved)).flatten();
            *cursor = match next {
                Some(bucket) => Cursor { at, shard, bucket },
                None if shard + 1 < SHARDS => Cursor { at, shard: shard + 1, bucket: 0 },
                None => Cursor { at: (at + 1) % used.len(), shard: 0, bucket: 0 },
            };
            if moved.is_enough() {
                break;
            }
        }
        moved.bytes
    }
}

#[cfg(test)]
mod tests {
    use crate::store::table::{Hasher, Table};
    use crate::time::clock::Now;

    use super::*;

    #[test]
    fn entries_that_move_stay_what_they_are() {
        let hasher = Hasher::new();
        let (mut table, mut moved): (Table, _) = (Table::new(hasher.clone()), Moved::default());
        let key = |number: usize| [format!("{number}:").as_bytes(), &vec![b'k'; number % 300]].concat();
        let value = |number: usize| vec![number as u8; number * 37 % 20_000];
        let deadline = |number: usize| {
            (number.is_multiple_of(3)).then(|| crate::time::clock::Deadline::after(Now::at_ms(5, 5), 1000))
        };
        for number in 0..3000 {
            let mut entry = Entry::text(&key(number), &value(number), deadline(number));
            entry.set_usage(number as u32);
            if number.is_multiple_of(5) {
                entry.write_range(value(number).len(), b"more");
            }
            table.insert(hasher.hash_one(&key(number)[..]), entry);
        }
        (0..table.buckets()).for_each(|bucket| {
            table.move_entries(bucket, &mut moved);
        });
        assert_eq!(moved.left.len(), 3000);
        drop(moved);
        for number in 0..3000 {
            let entry = table.find(hasher.hash_one(&key(number)[..]), &key(number)).expect("still there");
            let more = if number.is_multiple_of(5) { &b"more"[..] } else { b"" };
            assert!(entry.string().as_slice() == [&value(number), more].concat());
            assert_eq!((entry.usage(), entry.deadline()), (number as u32, deadline(number)));
        }
    }
}
