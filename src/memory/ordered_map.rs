//! An ordered map that counts its memory.
//!
//! The nodes of [`std::collections::BTreeMap`] are between five and eleven elevenths full, depending on the order of
//! the insertions, and a map does not report it: its memory can only be estimated. Here the entries are in sorted
//! chunks whose capacities are known. Entries that are added in ascending order fill the chunks, and take half of the
//! memory that they take in a `BTreeMap`.
//!
//! A look-up is a binary search for the chunk, and one in the chunk. A change moves the entries after it in its chunk,
//! and every 32nd insertion in the middle moves the chunks after its own: a word for every twenty entries of the map.

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::fmt;
use std::ops::{Bound, RangeBounds};

use crate::memory::heap::list_len;

/// Maximum number of entries of a chunk.
const CHUNK_MAX: usize = 64;
/// Number of entries below which a chunk is merged with a neighbour, if both fit into one chunk with room for more.
const CHUNK_MIN: usize = CHUNK_MAX / 4;
/// Maximum number of entries of merged chunks.
const MERGED_MAX: usize = CHUNK_MAX * 3 / 4;

type Chunk<K, V> = Vec<(K, V)>;

/// A map in the order of its keys.
pub(crate) struct OrderedMap<K, V> {
    /// Chunks, none of which is empty.
    chunks: VecDeque<Chunk<K, V>>,
    len: usize,
    /// Bytes allocated by the chunks.
    chunks_len: usize,
}

/// Position of an entry: the index of its chunk, and its index there.
type Position = (usize, usize);

impl<K, V> OrderedMap<K, V> {
    pub(crate) const EMPTY: Self = OrderedMap { chunks: VecDeque::new(), len: 0, chunks_len: 0 };

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes allocated, without memory that keys and values point to.
    pub(crate) fn memory(&self) -> usize {
        list_len::<Chunk<K, V>>(self.chunks.capacity()) + self.chunks_len
    }

    /// Returns the bytes of one of many entries, for callers that count entries one by one: chunks are full after
    /// insertions in ascending order, and seven tenths full after insertions in random order.
    pub(crate) const fn entry_len() -> usize {
        size_of::<(K, V)>() * 5 / 4
    }

    /// Iterates over the entries.
    pub(crate) fn iter(&self) -> Range<'_, K, V> {
        Range { chunks: &self.chunks, next: (0, 0), end: (self.chunks.len(), 0) }
    }

    /// Iterates over the keys.
    pub(crate) fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// Iterates over the values.
    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Takes the values out, in order.
    pub(crate) fn into_values(self) -> impl Iterator<Item = V> {
        self.chunks.into_iter().flatten().map(|(_, value)| value)
    }

    /// Iterates over the entries, with mutable values.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.chunks.iter_mut().flatten().map(|(key, value)| (&*key, value))
    }

    /// Returns the last entry.
    pub(crate) fn last_mut(&mut self) -> Option<(&K, &mut V)> {
        self.chunks.back_mut()?.last_mut().map(|(key, value)| (&*key, value))
    }

    /// Retains the entries for which `is_kept` returns true.
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(&K, &mut V) -> bool) {
        self.chunks.iter_mut().for_each(|chunk| {
            chunk.retain_mut(|(key, value)| is_kept(key, value));
            chunk.shrink_to_fit();
        });
        self.chunks.retain(|chunk| !chunk.is_empty());
        self.chunks.shrink_to_fit();
        self.recount();
    }

    /// Counts the entries and their memory.
    fn recount(&mut self) {
        self.len = self.chunks.iter().map(Vec::len).sum();
        self.chunks_len = self.chunks.iter().map(chunk_len).sum();
    }
}

impl<K: Ord, V> OrderedMap<K, V> {
    /// Returns the position of a key, or as an error the position to insert it at.
    fn position<Q: Ord + ?Sized>(&self, key: &Q) -> Result<Position, Position>
    where
        K: Borrow<Q>,
    {
        let chunk = match self.chunks.back() {
            // Almost always the key is after all others.
            Some(last) if last[0].0.borrow() <= key => self.chunks.len() - 1,
            Some(_) => self.chunks.partition_point(|chunk| chunk[0].0.borrow() <= key).saturating_sub(1),
            None => return Err((0, 0)),
        };
        let at = self.chunks[chunk].binary_search_by(|(other, _)| other.borrow().cmp(key));
        at.map(|at| (chunk, at)).map_err(|at| (chunk, at))
    }

    /// Returns the value of a key.
    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (chunk, at) = self.position(key).ok()?;
        Some(&self.chunks[chunk][at].1)
    }

    /// Returns the value of a key mutably.
    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let (chunk, at) = self.position(key).ok()?;
        Some(&mut self.chunks[chunk][at].1)
    }

    /// Returns true if the map contains a key.
    pub(crate) fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.position(key).is_ok()
    }

    /// Returns the value of a key, which is added if it is missing.
    pub(crate) fn get_or_insert_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        let (chunk, at) = match self.position(&key) {
            Ok(position) => position,
            Err(position) => self.insert_at(position, (key, V::default())),
        };
        &mut self.chunks[chunk][at].1
    }

    /// Sets the value of a key; returns the former value.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.position(&key) {
            Ok((chunk, at)) => Some(std::mem::replace(&mut self.chunks[chunk][at].1, value)),
            Err(position) => {
                self.insert_at(position, (key, value));
                None
            }
        }
    }

    /// Inserts an entry at a position; returns its final position.
    fn insert_at(&mut self, (mut chunk, mut at): Position, entry: (K, V)) -> Position {
        self.len += 1;
        if self.chunks.get(chunk).is_none_or(|full| full.len() == CHUNK_MAX) {
            (chunk, at) = self.add_chunk(chunk, at);
        }
        self.change_chunk(chunk, |chunk| {
            reserve(chunk, 1);
            chunk.insert(at, entry);
        });
        (chunk, at)
    }

    /// Makes room in a full chunk, or creates the first one; returns the new position of the insertion.
    fn add_chunk(&mut self, chunk: usize, at: usize) -> Position {
        let is_last = chunk + 1 >= self.chunks.len();
        if is_last && at >= self.chunks.get(chunk).map_or(0, Vec::len) {
            self.chunks.push_back(Vec::new());
            return (self.chunks.len() - 1, 0);
        }
        const HALF: usize = CHUNK_MAX / 2;
        let right = self.change_chunk(chunk, |chunk| chunk.split_off(HALF));
        self.chunks_len += chunk_len(&right);
        self.chunks.insert(chunk + 1, right);
        if at > HALF { (chunk + 1, at - HALF) } else { (chunk, at) }
    }

    /// Removes a key; returns its value.
    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (chunk, at) = self.position(key).ok()?;
        let (_, value) = self.change_chunk(chunk, |chunk| chunk.remove(at));
        self.len -= 1;
        if self.chunks[chunk].len() < CHUNK_MIN {
            self.tidy(chunk);
        }
        Some(value)
    }

    /// Removes a chunk that has become empty, or merges a small one with a neighbour.
    fn tidy(&mut self, chunk: usize) {
        let len = self.chunks[chunk].len();
        let fits = |other: usize| self.chunks.get(other).is_some_and(|other| len + other.len() <= MERGED_MAX);
        let into = chunk.checked_sub(1).filter(|left| fits(*left));
        if len == 0 {
            self.take_chunk(chunk);
        } else if let Some(left) = into {
            let mut moved = self.take_chunk(chunk);
            self.change_chunk(left, |left| append(left, &mut moved));
        } else if fits(chunk + 1) {
            let mut moved = self.take_chunk(chunk + 1);
            self.change_chunk(chunk, |chunk| append(chunk, &mut moved));
        } else {
            self.change_chunk(chunk, |chunk| {
                if chunk.capacity() >= 4 * len {
                    chunk.shrink_to(2 * len);
                }
            });
        }
        if self.chunks.capacity() >= 16 && self.chunks.len() < self.chunks.capacity() / 4 {
            self.chunks.shrink_to(self.chunks.len() * 2);
        }
        if self.chunks.is_empty() {
            self.chunks = VecDeque::new();
        }
    }

    fn take_chunk(&mut self, chunk: usize) -> Chunk<K, V> {
        let taken = self.chunks.remove(chunk).unwrap_or_default();
        self.chunks_len -= chunk_len(&taken);
        taken
    }

    fn change_chunk<T>(&mut self, chunk: usize, change: impl FnOnce(&mut Chunk<K, V>) -> T) -> T {
        let chunk = &mut self.chunks[chunk];
        let before = chunk_len(chunk);
        let result = change(chunk);
        self.chunks_len = self.chunks_len + chunk_len(chunk) - before;
        result
    }

    /// Iterates over the entries whose keys are in a range.
    pub(crate) fn range(&self, range: impl RangeBounds<K>) -> Range<'_, K, V> {
        let after = |key: &K| match self.position(key) {
            Ok((chunk, at)) => (chunk, at + 1),
            Err(position) => position,
        };
        let at = |key: &K| self.position(key).unwrap_or_else(|position| position);
        let start = match range.start_bound() {
            Bound::Included(key) => at(key),
            Bound::Excluded(key) => after(key),
            Bound::Unbounded => (0, 0),
        };
        let end = match range.end_bound() {
            Bound::Included(key) => after(key),
            Bound::Excluded(key) => at(key),
            Bound::Unbounded => (self.chunks.len(), 0),
        };
        let (next, end) = (self.start_of_next(start), self.start_of_next(end));
        Range { chunks: &self.chunks, next: next.min(end), end }
    }

    /// Returns the entry with the largest key that is at most this key.
    pub(crate) fn floor_mut(&mut self, key: &K) -> Option<(&K, &mut V)> {
        let (chunk, at) = match self.position(key) {
            Ok(position) => position,
            // Only the first chunk may begin with a larger key.
            Err((chunk, at)) => (chunk, at.checked_sub(1)?),
        };
        let (key, value) = &mut self.chunks[chunk][at];
        Some((key, value))
    }

    /// Returns the start of the next chunk for a position after the end of a chunk, and any other position unchanged.
    fn start_of_next(&self, (chunk, at): Position) -> Position {
        match self.chunks.get(chunk) {
            Some(entries) if at == entries.len() => (chunk + 1, 0),
            _ => (chunk, at),
        }
    }
}

/// Makes room for `more` entries, doubling the capacity of a chunk, up to its maximum.
fn reserve<K, V>(chunk: &mut Chunk<K, V>, more: usize) {
    let needed = chunk.len() + more;
    if needed > chunk.capacity() {
        let capacity = (chunk.capacity() * 2).max(needed).clamp(4, CHUNK_MAX);
        chunk.reserve_exact(capacity - chunk.len());
    }
}

fn append<K, V>(chunk: &mut Chunk<K, V>, moved: &mut Chunk<K, V>) {
    reserve(chunk, moved.len());
    chunk.append(moved);
}

/// Returns the bytes allocated by a chunk.
fn chunk_len<K, V>(chunk: &Chunk<K, V>) -> usize {
    list_len::<(K, V)>(chunk.capacity())
}

impl<K, V> Default for OrderedMap<K, V> {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The copy has no spare room.
impl<K: Clone, V: Clone> Clone for OrderedMap<K, V> {
    fn clone(&self) -> Self {
        let mut copy = OrderedMap { chunks: self.chunks.clone(), len: 0, chunks_len: 0 };
        copy.recount();
        copy
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for OrderedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for OrderedMap<K, V> {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(entries: T) -> Self {
        let mut map = OrderedMap::EMPTY;
        entries.into_iter().for_each(|(key, value)| _ = map.insert(key, value));
        map
    }
}

impl<'a, K, V> IntoIterator for &'a OrderedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Range<'a, K, V>;

    fn into_iter(self) -> Range<'a, K, V> {
        self.iter()
    }
}

/// An iterator over entries of an [`OrderedMap`].
pub(crate) struct Range<'a, K, V> {
    chunks: &'a VecDeque<Chunk<K, V>>,
    next: Position,
    end: Position,
}

impl<'a, K, V> Iterator for Range<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.end {
            return None;
        }
        let (chunk, at) = self.next;
        let entries = &self.chunks[chunk];
        self.next = if at + 1 == entries.len() { (chunk + 1, 0) } else { (chunk, at + 1) };
        Some((&entries[at].0, &entries[at].1))
    }
}

impl<K, V> DoubleEndedIterator for Range<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.next == self.end {
            return None;
        }
        let (chunk, at) = match self.end {
            (chunk, 0) => (chunk - 1, self.chunks[chunk - 1].len() - 1),
            (chunk, at) => (chunk, at - 1),
        };
        self.end = (chunk, at);
        let (key, value) = &self.chunks[chunk][at];
        Some((key, value))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Returns the next number of a pseudo-random sequence.
    fn random(seed: &mut u64) -> u64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 33
    }

    fn expect_same(map: &OrderedMap<u64, u64>, model: &BTreeMap<u64, u64>) {
        assert!(map.iter().eq(model.iter()) && map.iter().rev().eq(model.iter().rev()));
        assert_eq!(map.len(), model.len());
        let chunks: usize = map.chunks.iter().map(chunk_len).sum();
        assert_eq!(map.chunks_len, chunks);
        assert!(map.chunks.iter().all(|chunk| !chunk.is_empty() && chunk.capacity() <= CHUNK_MAX));
    }

    #[test]
    fn it_is_the_ordered_map_of_the_standard_library() {
        let (mut map, mut model, mut seed) = (OrderedMap::EMPTY, BTreeMap::new(), 7);
        for round in 0..30_000u64 {
            // The map grows, is emptied but for a few entries, and grows again.
            let (key, grows) = (random(&mut seed) % 2000, round % 10_000 < 5000);
            match random(&mut seed) % 4 {
                0 if grows => assert_eq!(map.remove(&key), model.remove(&key)),
                1.. if !grows => assert_eq!(map.remove(&key), model.remove(&key)),
                _ => assert_eq!(map.insert(key, round), model.insert(key, round)),
            }
            assert_eq!(map.get(&key), model.get(&key));
            let (low, high) = (key, key + random(&mut seed) % 300);
            assert!(map.range(low..high).eq(model.range(low..high)));
            assert!(map.range(..=low).rev().take(3).eq(model.range(..=low).rev().take(3)));
            let above = (Bound::Excluded(low), Bound::Unbounded);
            assert!(map.range(above).take(3).eq(model.range(above).take(3)));
            let floor = map.floor_mut(&low).map(|(key, value)| (*key, *value));
            assert_eq!(floor, model.range(..=low).next_back().map(|(key, value)| (*key, *value)));
            if round % 97 == 0 {
                expect_same(&map, &model);
                expect_same(&map.clone(), &model);
            }
        }
        map.retain(|key, _| key % 3 == 0);
        model.retain(|key, _| key % 3 == 0);
        expect_same(&map, &model);
        model.keys().for_each(|key| _ = map.remove(key));
        assert_eq!((map.len(), map.memory()), (0, 0));
    }

    #[test]
    fn entries_in_ascending_order_fill_the_chunks() {
        let map: OrderedMap<u64, u64> = (0..100_000).map(|key| (key, key)).collect();
        let payload = map.len() * 16;
        assert!(map.memory() >= payload && map.memory() < payload * 21 / 20, "{} for {payload}", map.memory());
        let mut acknowledged = map;
        (0..99_990).for_each(|key| _ = acknowledged.remove(&key));
        assert!(acknowledged.memory() < 2048, "{}", acknowledged.memory());
    }

    #[test]
    fn entries_in_random_order_leave_less_than_half_of_the_chunks_free() {
        let (mut map, mut seed) = (OrderedMap::EMPTY, 3);
        (0..100_000).for_each(|at| _ = map.insert(random(&mut seed), at));
        let payload = map.len() * 16;
        assert!(map.memory() < payload * 8 / 5, "{} for {payload}", map.memory());
    }
}
