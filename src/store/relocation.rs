//! Moves of entries to other places in memory; see [`compact`](crate::store::compact).

use crate::store::entry::Entry;

/// Number of entries, or of bytes, moved at a time: a quarter of a millisecond's work.
const ENTRIES_MAX: usize = 512;
const BYTES_MAX: usize = 1 << 20;

/// The entries that one step has moved.
#[derive(Default)]
pub(crate) struct Moved {
    /// Old allocations of the entries.
    pub left: Vec<Entry>,
    /// Number of bytes copied.
    pub bytes: usize,
}

impl Moved {
    /// Returns true if the step has moved enough.
    pub(crate) fn is_enough(&self) -> bool {
        self.left.len() >= ENTRIES_MAX || self.bytes >= BYTES_MAX
    }

    /// Reallocates entries. Returns the growth of their memory in bytes.
    pub(crate) fn relocate<'e>(&mut self, entries: impl Iterator<Item = &'e mut Entry>) -> isize {
        let mut growth = 0;
        for entry in entries {
            let left = entry.relocate();
            self.bytes += left.own_memory();
            growth += entry.own_memory() as isize - left.own_memory() as isize;
            self.left.push(left);
        }
        growth
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
        let (mut table, mut moved): (Table<Entry>, _) = (Table::new(hasher.clone()), Moved::default());
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
            moved.relocate(table.items_mut(bucket));
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
