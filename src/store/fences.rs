//! Fences of keys: the largest fencing token that a string was written with, so that writes with a smaller one are
//! refused.
//!
//! Fences are stored apart from the keys of a shard, because few keys have one. A fence belongs to the value: it is
//! kept while the value is changed in place, and forgotten when the key gets another value. When the key is removed,
//! its fence is *retired*: a late writer must be refused then, too, so the fence is remembered for `fence-memory-ms`,
//! or until there are [`RETIRED_MAX`] later ones, or the names of the later keys take [`RETIRED_BYTES_MAX`] together,
//! or memory is needed for keys.

use std::collections::VecDeque;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;

use crate::memory::heap::{allocation_len, list_len};
use crate::store::key::Key;

/// Limit of retired fences in a shard: a quarter of a million in a database.
pub(super) const RETIRED_MAX: usize = 4096;
/// Limit of the memory for the names of removed keys with retired fences in a shard, in bytes: 16 MB in a database.
pub(super) const RETIRED_BYTES_MAX: usize = 256 << 10;
/// Number of stale entries allowed in the queue of removed keys, besides as many as there are removed keys.
const STALE_MAX: usize = 64;

/// A key with its fence.
struct Fenced {
    hash: u64,
    key: Box<[u8]>,
    fence: i64,
    /// Time of the key's removal, in monotonic milliseconds, negative before the start of the server; [`LIVE`] while
    /// the key exists.
    retired_ms: i64,
}

/// Value of `retired_ms` for a key that exists.
const LIVE: i64 = i64::MAX;

/// The fence of a removed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retired {
    pub(crate) fence: i64,
    /// Time of the key's removal, in monotonic milliseconds, negative before the start of the server.
    pub(crate) at_ms: i64,
}

/// The fences of the keys of a shard. Takes no memory while there are none.
#[derive(Default)]
pub(super) struct Fences(Option<Box<Table>>);

#[derive(Default)]
struct Table {
    keys: HashTable<Fenced>,
    /// Memory of the keys' names.
    bytes: usize,
    /// Queue of the removed keys, by time and hash, in order. An entry is stale if the key got another fence since.
    retired: VecDeque<(i64, u64)>,
    /// Number of entries dropped from the front of the queue.
    taken: u64,
    /// Number of removed keys, and the memory of their names.
    removed: usize,
    removed_bytes: usize,
}

impl Fenced {
    fn retired(&self) -> Option<Retired> {
        (self.retired_ms != LIVE).then_some(Retired { fence: self.fence, at_ms: self.retired_ms })
    }

    /// Returns true if the key has this hash and was removed at this time.
    fn is_retired_at(&self, at_ms: i64, hash: u64) -> bool {
        self.hash == hash && self.retired_ms == at_ms
    }
}

impl Table {
    fn count_removed(&mut self, key_len: usize) {
        self.removed += 1;
        self.removed_bytes += allocation_len(key_len);
    }

    /// Removes a key from the count of removed keys.
    fn discount_removed(&mut self, key_len: usize) {
        self.removed -= 1;
        self.removed_bytes -= allocation_len(key_len);
    }

    /// Drops the stale entries of the queue, if there are many. The positions of the entries after a dropped one grow,
    /// so that a visit in progress may see a key twice, and misses none.
    fn drop_stale(&mut self) {
        if self.retired.len() > 2 * self.removed + STALE_MAX {
            let (keys, before) = (&self.keys, self.retired.len());
            let is_valid =
                |at_ms: i64, hash: u64| keys.find(hash, |fenced| fenced.is_retired_at(at_ms, hash)).is_some();
            self.retired.retain(|(at_ms, hash)| is_valid(*at_ms, *hash));
            self.taken += (before - self.retired.len()) as u64;
            self.retired.shrink_to(2 * self.retired.len() + STALE_MAX);
        }
    }
}

impl Fences {
    /// Returns the number of retired fences, and the memory of their names.
    pub(super) fn remembered(&self) -> (usize, usize) {
        self.0.as_deref().map_or((0, 0), |table| (table.removed, table.removed_bytes))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the fence of an existing key; 0 if there is none.
    pub(super) fn get(&self, key: Key<'_>) -> i64 {
        self.find(key).filter(|fenced| fenced.retired_ms == LIVE).map_or(0, |fenced| fenced.fence)
    }

    /// Returns the fence of a key, or its retired fence unless the key was removed before `since_ms`; 0 if there is
    /// none.
    pub(super) fn get_since(&self, key: Key<'_>, since_ms: i64) -> i64 {
        self.find(key).filter(|fenced| fenced.retired_ms >= since_ms).map_or(0, |fenced| fenced.fence)
    }

    /// Returns the retired fence of a removed key.
    pub(super) fn retired(&self, key: Key<'_>) -> Option<Retired> {
        self.find(key).and_then(Fenced::retired)
    }

    /// Calls `visit` with removed keys, by time, from a position on, until it returns true; returns the position after
    /// the last key then, or `None` at the end of the queue. Positions stay valid while keys are removed and forgotten.
    pub(super) fn visit_retired(&self, from: u64, mut visit: impl FnMut(&[u8], Retired) -> bool) -> Option<u64> {
        let table = self.0.as_deref()?;
        let first = from.max(table.taken);
        let skipped = usize::try_from(first - table.taken).unwrap_or(usize::MAX);
        for ((at_ms, hash), position) in table.retired.iter().skip(skipped).zip(first..) {
            let fenced = table.keys.find(*hash, |fenced| fenced.is_retired_at(*at_ms, *hash));
            if let Some((fenced, retired)) = fenced.and_then(|fenced| Some((fenced, fenced.retired()?)))
                && visit(&fenced.key, retired)
            {
                return Some(position + 1);
            }
        }
        None
    }

    fn find(&self, key: Key<'_>) -> Option<&Fenced> {
        self.0.as_deref()?.keys.find(key.hash, |fenced| *fenced.key == *key.bytes)
    }

    /// Sets the fence of a key.
    pub(super) fn set(&mut self, key: Key<'_>, fence: i64) {
        let table = self.0.get_or_insert_default();
        match table.keys.entry(key.hash, |fenced| *fenced.key == *key.bytes, |fenced| fenced.hash) {
            Slot::Occupied(mut slot) => {
                let fenced = slot.get_mut();
                let was_removed = fenced.retired_ms != LIVE;
                (fenced.fence, fenced.retired_ms) = (fence, LIVE);
                if was_removed {
                    table.discount_removed(key.bytes.len());
                    table.drop_stale();
                }
            }
            Slot::Vacant(slot) => {
                slot.insert(Fenced { hash: key.hash, key: key.bytes.into(), fence, retired_ms: LIVE });
                table.bytes += allocation_len(key.bytes.len());
            }
        }
    }

    /// Adds a key that an earlier process has removed, unless a fence at least as large is known.
    pub(super) fn load_retired(&mut self, key: Key<'_>, Retired { fence, at_ms }: Retired) {
        if self.find(key).is_some_and(|fenced| fenced.fence >= fence) {
            return;
        }
        self.forget(key);
        self.set(key, fence);
        let Some(table) = &mut self.0 else { return };
        if let Some(fenced) = table.keys.find_mut(key.hash, |fenced| *fenced.key == *key.bytes) {
            fenced.retired_ms = at_ms;
            table.count_removed(key.bytes.len());
            let place = table.retired.partition_point(|(before_ms, _)| *before_ms <= at_ms);
            table.retired.insert(place, (at_ms, key.hash));
        }
        self.forget_excess();
    }

    /// Records the removal of a key.
    pub(super) fn retire(&mut self, key: Key<'_>, now_ms: i64) {
        let Some(table) = &mut self.0 else { return };
        if let Some(fenced) = table.keys.find_mut(key.hash, |fenced| *fenced.key == *key.bytes)
            && fenced.retired_ms == LIVE
        {
            fenced.retired_ms = now_ms;
            table.count_removed(key.bytes.len());
            table.retired.push_back((now_ms, key.hash));
            self.forget_excess();
        }
    }

    /// Forgets the oldest retired fences while there are too many, or their names take too much memory.
    fn forget_excess(&mut self) {
        let is_excess = |table: &Table| table.removed > RETIRED_MAX || table.removed_bytes > RETIRED_BYTES_MAX;
        while self.0.as_deref().is_some_and(is_excess) {
            self.forget_first();
        }
    }

    /// Forgets the fences of keys that were removed at `until_ms` or before.
    pub(super) fn forget_retired(&mut self, until_ms: i64) {
        while self.0.as_ref().and_then(|table| table.retired.front()).is_some_and(|(at_ms, _)| *at_ms <= until_ms) {
            self.forget_first();
        }
    }

    /// Forgets the oldest retired fence.
    fn forget_first(&mut self) {
        let Some(table) = &mut self.0 else { return };
        let first = table.retired.pop_front();
        table.taken += u64::from(first.is_some());
        if let Some((at_ms, hash)) = first
            && let Ok(slot) = table.keys.find_entry(hash, |fenced| fenced.is_retired_at(at_ms, hash))
        {
            let len = slot.get().key.len();
            slot.remove();
            table.bytes -= allocation_len(len);
            table.discount_removed(len);
        }
        self.shrink();
    }

    pub(super) fn forget(&mut self, key: Key<'_>) {
        let Some(table) = &mut self.0 else { return };
        if let Ok(slot) = table.keys.find_entry(key.hash, |fenced| *fenced.key == *key.bytes) {
            let was_removed = slot.get().retired_ms != LIVE;
            slot.remove();
            table.bytes -= allocation_len(key.bytes.len());
            if was_removed {
                table.discount_removed(key.bytes.len());
                table.drop_stale();
            }
        }
        self.shrink();
    }

    /// Frees memory that is no longer needed.
    fn shrink(&mut self) {
        let Some(table) = &mut self.0 else { return };
        if table.keys.is_empty() {
            self.0 = None;
        } else if table.keys.capacity() > 8 * table.keys.len() {
            table.keys.shrink_to(2 * table.keys.len(), |fenced| fenced.hash);
        }
    }

    /// Returns the memory of the fences.
    pub(super) fn memory(&self) -> usize {
        let table = self.0.as_deref();
        table.map_or(0, |table| {
            let queue = list_len::<(i64, u64)>(table.retired.capacity());
            allocation_len(size_of::<Table>()) + table.keys.allocation_size() + queue + table.bytes
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_take_memory_only_while_there_are_some() {
        let mut fences = Fences::default();
        let keys: Vec<Vec<u8>> = (0..1000).map(|number| format!("key:{number}").into_bytes()).collect();
        // All of them collide.
        let key = |at: usize| Key { bytes: &keys[at], hash: 7 };
        for at in 0..keys.len() {
            fences.set(key(at), at as i64 + 1);
        }
        assert!((0..keys.len()).all(|at| fences.get(key(at)) == at as i64 + 1));
        assert!(fences.memory() > keys.len() * size_of::<Fenced>());
        for at in 0..keys.len() {
            fences.forget(key(at));
            assert_eq!(fences.get(key(at)), 0);
        }
        assert!(fences.is_empty() && fences.memory() == 0);
    }

    #[test]
    fn the_fence_of_a_removed_key_is_remembered_for_a_time_and_up_to_a_number() {
        let mut fences = Fences::default();
        let keys: Vec<Vec<u8>> = (0..RETIRED_MAX + 2).map(|number| format!("key:{number}").into_bytes()).collect();
        let key = |at: usize| Key { bytes: &keys[at], hash: 7 * at as u64 };
        for at in 0..keys.len() {
            fences.set(key(at), 5);
            fences.retire(key(at), 100 + at as i64);
            assert_eq!((fences.get(key(at)), fences.get_since(key(at), 99)), (0, 5));
        }
        // The first two had to go.
        assert_eq!((0..4).map(|at| fences.get_since(key(at), 99)).collect::<Vec<_>>(), [0, 0, 5, 5]);
        assert_eq!((fences.get_since(key(2), 102), fences.get_since(key(2), 103)), (5, 0));
        fences.set(key(3), 6);
        fences.forget_retired(103);
        assert_eq!((fences.get(key(3)), fences.get_since(key(2), 0), fences.get_since(key(4), 0)), (6, 0, 5));
        fences.forget_retired(i64::MAX - 1);
        assert_eq!((fences.get(key(3)), fences.is_empty()), (6, false));
        fences.forget(key(3));
        assert!(fences.is_empty() && fences.memory() == 0);
    }

    #[test]
    fn a_key_that_is_set_and_removed_again_and_again_pushes_no_other_one_out() {
        let mut fences = Fences::default();
        let keys: Vec<Vec<u8>> = (0..400).map(|number| format!("key:{number}").into_bytes()).collect();
        let key = |at: usize| Key { bytes: &keys[at], hash: 7 * at as u64 };
        for at in 0..keys.len() {
            fences.set(key(at), 5);
            fences.retire(key(at), at as i64);
        }
        let position = fences.visit_retired(0, |_, _| true).expect("there are others");
        let before = fences.memory();
        for round in 0..3 * RETIRED_MAX as i64 {
            fences.set(key(7), 6 + round);
            fences.retire(key(7), 1000 + round);
        }
        assert_eq!(fences.remembered().0, keys.len());
        assert!((0..keys.len()).all(|at| fences.get_since(key(at), 0) >= 5), "all are remembered");
        assert!(fences.memory() < 3 * before, "{} bytes, {before} before", fences.memory());
        let (mut seen, mut from) = (std::collections::HashSet::new(), Some(position));
        while let Some(position) = from {
            from = fences.visit_retired(position, |key, _| {
                seen.insert(key.to_vec());
                true
            });
        }
        assert!(keys[1..].iter().all(|key| seen.contains(key)), "a visit that was under way has missed one");
    }

    #[test]
    fn the_names_of_removed_keys_take_bounded_memory() {
        let mut fences = Fences::default();
        let names: Vec<Vec<u8>> = (0..100).map(|number| vec![number; RETIRED_BYTES_MAX / 10]).collect();
        for (hash, name) in (0..).zip(&names) {
            fences.set(Key { bytes: name, hash }, 5);
            fences.retire(Key { bytes: name, hash }, 1);
            assert!(fences.remembered().1 <= RETIRED_BYTES_MAX && fences.memory() < 2 * RETIRED_BYTES_MAX);
        }
        assert_eq!(fences.get_since(Key { bytes: &names[99], hash: 99 }, 0), 5);
        fences.forget_retired(i64::MAX);
        assert!(fences.is_empty());
    }

    #[test]
    fn what_a_former_process_has_removed_is_remembered_by_its_time() {
        let mut fences = Fences::default();
        let keys = [b"a", b"b", b"c"];
        let key = |at: usize| Key { bytes: keys[at], hash: 7 };
        let retired = |fence, at_ms| Retired { fence, at_ms };
        fences.load_retired(key(0), retired(5, -10));
        fences.load_retired(key(1), retired(6, -20));
        fences.load_retired(key(0), retired(4, 3)); // a smaller one
        fences.set(key(2), 8);
        let mut seen = Vec::new();
        let mut position = Some(0);
        while let Some(from) = position {
            position = fences.visit_retired(from, |key, retired| {
                seen.push((key.to_vec(), retired));
                true
            });
        }
        assert_eq!(seen, [(b"b".to_vec(), retired(6, -20)), (b"a".to_vec(), retired(5, -10))]);
        assert_eq!((fences.retired(key(1)), fences.retired(key(2))), (Some(retired(6, -20)), None));
        let second = fences.visit_retired(0, |_, _| true).expect("there is another");
        fences.forget_retired(-15);
        assert_eq!(fences.visit_retired(second, |key, _| key == b"a"), Some(2));
        assert_eq!((fences.get_since(key(0), -10), fences.get_since(key(1), i64::MIN)), (5, 0));
        fences.load_retired(key(0), retired(9, -30)); // a greater one
        fences.forget_retired(-20);
        assert_eq!((fences.get_since(key(0), i64::MIN), fences.get(key(2))), (0, 8));
    }
}
