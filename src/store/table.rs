//! The hash table of a shard, and of a large hash, set or sorted set: linear hashing over cache-line buckets.
//!
//! ```text
//!   one bucket, 64 bytes
//! +----------------+------+------+------+------+------+------+----------+
//! | 6 tags, unused | slot | slot | slot | slot | slot | slot | overflow |
//! | 8 bytes        | one item each, 8 bytes                  | 8 bytes  |
//! +----------------+------+------+------+------+------+------+----------+
//! ```
//!
//! A look-up touches one bucket, compares tags (eight bits of the hash) and then usually one item.
//! Items beyond six lie in a list of exactly the length it needs (`table/overflow.rs`).
//! The table grows by splitting one bucket at a time and shrinks by merging one at a time, so no
//! insertion ever waits for a rehash, and a bucket's number is decided by the low bits of the hash.
//! Buckets are allocated 64 at a time; a table with fewer buckets has allocated the next power of two.
//! A scan walks the hash space with the bits reversed: a bucket is then one interval of it, splitting
//! cuts that interval in two, merging joins two, and a cursor keeps its meaning through both.
//!
//! The table knows no time, no watchers and no statistics; the shard has those.

mod bucket;
mod item;
mod overflow;

use std::collections::HashSet;
use std::ptr;

use crate::memory::heap::{allocation_len, list_len};
use crate::store::usage::{Dice, RandomSelection};
use bucket::{Bucket, SLOTS, tag};

pub(crate) use item::{Hasher, Item};

/// Number of positions of a scan of one table; a cursor is smaller.
pub(crate) const SCAN_POSITIONS: u64 = 1 << SCAN_BITS;

const SCAN_BITS: u32 = 40;
/// Number of buckets allocated at a time, so that growing moves only the first few.
const CHUNK: usize = 64;
/// Mean items per bucket above which one bucket is split, in thirds: 16/3. A sixth of the keys is then in overflow
/// lists; with 15/3 a seventh would be, for half a byte more per key.
const GROW_THIRDS: usize = 16;
/// Mean items per bucket below which one bucket is merged, in thirds: 5/3.
const SHRINK_THIRDS: usize = 5;

/// Number of items, in a bucket and its overflow list, up to which a random choice weighs them equally. At most one
/// bucket in ten thousand has more.
const REACH: usize = 4 * SLOTS;

/// Minimum number of items per sampled item from which on a sample is drawn item by item: drawing is cheaper then than
/// a pass over all items, and an item drawn twice is rare.
const DRAWN_SHARE: usize = 3;

/// Number of buckets between the prefetching of a bucket's items and their visit.
const BUCKETS_AHEAD: usize = 2;

/// Offset of the second prefetch in an entry, in bytes: past the header, the deadline and a common key.
const PREFETCH_AHEAD: usize = 40;

/// The position of an item, valid until the table changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotPosition {
    bucket: usize,
    /// The position in the bucket.
    at: usize,
}

/// Hash table of items with keys.
pub(crate) struct Table<T: Item> {
    /// Chunks of [`CHUNK`] buckets, except that a single one may be shorter.
    chunks: Vec<Box<[Bucket<T>]>>,
    /// Buckets in use: `mask + 1 <= buckets <= 2 * (mask + 1)`, or 0 before the first insertion.
    buckets: usize,
    /// Selects the hash bits that number the buckets not yet split in this round.
    mask: usize,
    len: usize,
    /// Bytes of overflow lists.
    overflow: usize,
    hasher: Hasher,
}

impl<T: Item> Table<T> {
    /// Creates an empty table, which allocates nothing until it is used.
    pub(crate) fn new(hasher: Hasher) -> Self {
        Table { chunks: Vec::new(), buckets: 0, mask: 0, len: 0, overflow: 0, hasher }
    }

    /// Counts the items and their memory again, after a change that may not have been completed.
    pub(crate) fn recount(&mut self) {
        let buckets = (0..self.buckets).map(|index| self.bucket(index));
        let counts = buckets.map(|bucket| (bucket.items().count(), bucket.outside()));
        (self.len, self.overflow) =
            counts.fold((0, 0), |(len, overflow), (items, outside)| (len + items, overflow + outside));
    }

    pub(crate) fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    pub(crate) fn count(&self) -> usize {
        self.len
    }

    /// Returns the bytes allocated, without the items. The last bucket of an empty table is left out: a shard in which
    /// keys come and go one at a time has one.
    pub(crate) fn memory(&self) -> usize {
        let chunk = match &self.chunks[..] {
            [] => return 0,
            [only] if self.len == 0 && only.len() == 1 => return 0,
            [first, ..] => allocation_len(size_of_val(&**first)),
        };
        self.chunks.len() * chunk + list_len::<Box<[Bucket<T>]>>(self.chunks.capacity()) + self.overflow
    }

    /// Returns the number of buckets in use.
    pub(crate) fn buckets(&self) -> usize {
        self.buckets
    }

    /// Finds the item of a key and its position.
    #[inline]
    pub(crate) fn locate(&self, hash: u64, key: T::Key<'_>) -> Option<(SlotPosition, &T)> {
        let bucket = self.bucket_of(hash)?;
        let (at, item) = self.bucket(bucket).find(tag(hash), key)?;
        Some((SlotPosition { bucket, at }, item))
    }

    /// Returns the item at a located position; the table must not have changed since.
    #[inline]
    pub(crate) fn at(&self, place: SlotPosition) -> Option<&T> {
        self.bucket(place.bucket).at(place.at)
    }

    /// Returns the item at a located position mutably; the table must not have changed since.
    #[inline]
    pub(crate) fn at_mut(&mut self, place: SlotPosition) -> Option<&mut T> {
        self.bucket_mut(place.bucket).at_mut(place.at)
    }

    /// Finds the item of a key.
    pub(crate) fn find(&self, hash: u64, key: T::Key<'_>) -> Option<&T> {
        self.locate(hash, key).map(|(_, item)| item)
    }

    /// Finds the item of a key, to change it.
    #[inline]
    pub(crate) fn find_mut(&mut self, hash: u64, key: T::Key<'_>) -> Option<&mut T> {
        let index = self.bucket_of(hash)?;
        let bucket = self.bucket_mut(index);
        let (at, _) = bucket.find(tag(hash), key)?;
        bucket.at_mut(at)
    }

    /// Reserves buckets for `items` items in an empty table: inserting them splits no bucket.
    pub(crate) fn reserve(&mut self, items: usize) {
        let buckets = items.saturating_mul(3).div_ceil(GROW_THIRDS);
        while self.len == 0 && self.buckets < buckets {
            self.add_bucket();
        }
    }

    /// Adds an item whose key is known to be absent. Returns the bucket that was split to make room, and the new
    /// bucket, if any.
    pub(crate) fn insert(&mut self, hash: u64, item: T) -> Option<(usize, usize)> {
        if self.buckets == 0 {
            self.add_bucket();
        }
        self.place(hash, item);
        self.len += 1;
        (self.len * 3 > self.buckets * GROW_THIRDS).then(|| self.split())
    }

    /// Removes the item of a key, as [`Table::remove_at`] does.
    pub(crate) fn remove(&mut self, hash: u64, key: T::Key<'_>) -> Option<(T, Option<(usize, usize)>)> {
        let (place, _) = self.locate(hash, key)?;
        self.remove_at(place)
    }

    /// Removes the item at a located position; the table must not have changed since. Returns the item, and if buckets
    /// were merged, the number of the last bucket and the number of the bucket into which it was merged.
    #[inline]
    pub(crate) fn remove_at(&mut self, place: SlotPosition) -> Option<(T, Option<(usize, usize)>)> {
        let (item, freed) = self.bucket_mut(place.bucket).take_at(place.at)?;
        self.len -= 1;
        self.overflow -= freed;
        let merged = (self.buckets > 1 && self.len * 3 < self.buckets * SHRINK_THIRDS).then(|| self.merge());
        Some((item, merged))
    }

    /// Returns the number of the bucket a hash belongs to; `None` in a table that was never used.
    #[inline]
    pub(crate) fn bucket_of(&self, hash: u64) -> Option<usize> {
        let wide = hash as usize & (self.mask * 2 + 1);
        let index = if wide < self.buckets { wide } else { hash as usize & self.mask };
        (index < self.buckets).then_some(index)
    }

    /// Prefetches the bucket of a hash: the first step of a coming look-up.
    #[inline]
    pub(crate) fn prefetch_bucket(&self, hash: u64) {
        if let Some(index) = self.bucket_of(hash) {
            prefetch(self.bucket(index));
        }
    }

    /// Prefetches the item that probably has this hash; the bucket should be in the cache by now.
    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: u64) {
        let Some(index) = self.bucket_of(hash) else { return };
        for address in self.bucket(index).near(tag(hash)).filter_map(T::address) {
            prefetch(address);
            // Half of the short entries begin in one cache line and have the end of their key in the next one.
            prefetch(address.wrapping_add(PREFETCH_AHEAD));
        }
    }

    /// Returns an item that probably has this hash, without comparing keys.
    #[inline]
    pub(crate) fn candidate(&self, hash: u64) -> Option<&T> {
        self.bucket(self.bucket_of(hash)?).candidate(tag(hash))
    }

    /// Calls `visit` for every item of a bucket.
    pub(crate) fn for_each_in(&self, bucket: usize, visit: impl FnMut(&T)) {
        self.bucket(bucket).items().for_each(visit);
    }

    /// Borrows the items of a bucket to be changed; their keys must stay the same.
    pub(crate) fn items_mut(&mut self, bucket: usize) -> impl Iterator<Item = &mut T> {
        self.bucket_mut(bucket).items_mut()
    }

    /// Visits the bucket at a scan position; returns the position after it, or `None` at the end.
    ///
    /// Every item that is present from the first position to the end is visited, however the table grows or shrinks in
    /// between, and no item twice.
    pub(crate) fn scan(&self, position: u64, mut visit: impl FnMut(&T)) -> Option<u64> {
        let index = self.bucket_at(position)?;
        // A bucket numbered by n bits of the hash covers the positions that begin with those n bits.
        let is_split = index > self.mask || index + self.mask + 1 < self.buckets;
        let bits = (self.mask + 1).trailing_zeros() + u32::from(is_split);
        let width = SCAN_POSITIONS >> bits;
        // A bucket that was merged since the last step holds items whose positions were visited before.
        let is_merged = position & (width - 1) != 0;
        let next = (position & !(width - 1)) + width;
        self.prefetch_ahead(self.bucket_at(next), self.bucket_at(next + width));
        self.for_each_in(index, |item| {
            if !is_merged || self.position_of(item) >= position {
                visit(item);
            }
        });
        (next < SCAN_POSITIONS).then_some(next)
    }

    /// Returns the bucket at a scan position, if there is one; after the end, a bucket at the beginning.
    fn bucket_at(&self, position: u64) -> Option<usize> {
        self.bucket_of(position.reverse_bits() >> (u64::BITS - SCAN_BITS))
    }

    /// Prefetches the items of the first bucket, which should be in the cache by now, and the second bucket.
    fn prefetch_ahead(&self, first: Option<usize>, second: Option<usize>) {
        if let Some(index) = second {
            prefetch(self.bucket(index));
        }
        let items = first.into_iter().flat_map(|index| self.bucket(index).in_slots());
        for address in items.filter_map(T::address) {
            prefetch(address);
            prefetch(address.wrapping_add(PREFETCH_AHEAD));
        }
    }

    fn position_of(&self, item: &T) -> u64 {
        scan_position(item.hash(&self.hasher))
    }

    /// Puts an item into its bucket.
    fn place(&mut self, hash: u64, item: T) {
        let index = self.bucket_of(hash).expect("a table that is inserted into has a bucket");
        self.overflow += self.bucket_mut(index).place(tag(hash), item);
    }

    /// Moves part of the items of the next bucket to split into a new one at the end.
    fn split(&mut self) -> (usize, usize) {
        let to = self.buckets;
        self.add_bucket(); // widens the mask when a round begins
        let from = to & self.mask;
        self.place_all_of(from);
        // The items of the next buckets to split lie anywhere in memory.
        self.prefetch_ahead(Some((to + 1) & self.mask), Some((to + 2) & self.mask));
        (from, to)
    }

    /// Removes the last bucket, the reverse of `split`.
    fn merge(&mut self) -> (usize, usize) {
        let last = self.buckets - 1;
        if last == self.mask {
            self.mask >>= 1;
        }
        let into = last & self.mask;
        let orphans = std::mem::take(self.bucket_mut(last));
        self.buckets = last;
        self.replace_items(orphans);
        self.give_back();
        (last, into)
    }

    fn place_all_of(&mut self, index: usize) {
        let old = std::mem::take(self.bucket_mut(index));
        self.replace_items(old);
    }

    fn replace_items(&mut self, bucket: Bucket<T>) {
        self.overflow -= bucket.outside();
        bucket.into_each(|item| self.place(item.hash(&self.hasher), item));
    }

    fn add_bucket(&mut self) {
        if self.buckets == self.capacity() {
            self.grow();
        }
        self.buckets += 1;
        if self.buckets > 2 * (self.mask + 1) {
            self.mask = self.mask * 2 + 1;
        }
    }

    /// Returns the number of buckets allocated.
    fn capacity(&self) -> usize {
        match &self.chunks[..] {
            [only] => only.len(),
            chunks => chunks.len() * CHUNK,
        }
    }

    /// Allocates a chunk, or doubles the only one.
    #[inline(never)]
    fn grow(&mut self) {
        match &mut self.chunks[..] {
            [] => {
                self.chunks.reserve_exact(1);
                self.chunks.push(chunk(1));
            }
            [only] if only.len() < CHUNK => resize(only, only.len() * 2),
            _ => self.chunks.push(chunk(CHUNK)),
        }
    }

    /// Frees a chunk that is no longer used, or half of the only one. It is not allocated again soon: the number of
    /// items must triple before a bucket is split.
    fn give_back(&mut self) {
        if let [only] = &mut self.chunks[..] {
            if self.buckets * 2 <= only.len() {
                resize(only, only.len() / 2);
            }
        } else if (self.chunks.len() - 1) * CHUNK >= self.buckets {
            self.chunks.pop();
            if self.chunks.len() * 4 <= self.chunks.capacity() {
                self.chunks.shrink_to(self.chunks.len() * 2);
            }
        }
    }

    fn bucket(&self, index: usize) -> &Bucket<T> {
        &self.chunks[index / CHUNK][index % CHUNK]
    }

    fn bucket_mut(&mut self, index: usize) -> &mut Bucket<T> {
        &mut self.chunks[index / CHUNK][index % CHUNK]
    }
}

/// Operations that only the tables of values need.
impl<T: Item> Table<T> {
    /// Returns the hash of a key.
    #[inline]
    pub(crate) fn hash(&self, key: T::Key<'_>) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Visits all items, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| {
            chunk.iter().enumerate().flat_map(|(at, bucket)| {
                // Items lie anywhere in memory.
                let addresses = chunk.get(at + BUCKETS_AHEAD).into_iter().flat_map(Bucket::in_slots);
                addresses.filter_map(T::address).for_each(prefetch);
                bucket.items()
            })
        })
    }

    /// Returns a random item, or `None` if there is none.
    ///
    /// A bucket is chosen, and rejected in proportion to its empty slots, so that each item of a bucket with at most
    /// [`REACH`] items is as likely as any other.
    pub(crate) fn random(&self, dice: &mut Dice) -> Option<&T> {
        if self.len == 0 {
            return None;
        }
        let reach = if self.overflow == 0 { SLOTS } else { REACH };
        loop {
            let bucket = self.bucket(dice.below(self.buckets));
            let count = bucket.items().count();
            let chosen = dice.below(reach.max(count));
            if chosen < count {
                return bucket.items().nth(chosen);
            }
        }
    }

    /// Returns `count` different random items, or all if there are fewer. A few of many are drawn one by one, more are
    /// selected in one pass over all items.
    pub(crate) fn sample(&self, count: usize, dice: &mut Dice) -> Vec<&T> {
        if count.saturating_mul(DRAWN_SHARE) >= self.len {
            let mut selection = RandomSelection::new(count, self.len);
            return self.iter().filter(|_| selection.takes(dice)).collect();
        }
        let (mut drawn, mut sample) = (HashSet::with_capacity(count), Vec::with_capacity(count));
        while sample.len() < count
            && let Some(item) = self.random(dice)
        {
            if drawn.insert(ptr::from_ref(item)) {
                sample.push(item);
            }
        }
        sample
    }
}

/// Returns the position at which a scan visits the item with a hash.
pub(crate) fn scan_position(hash: u64) -> u64 {
    hash.reverse_bits() >> (u64::BITS - SCAN_BITS)
}

fn chunk<T: Item>(buckets: usize) -> Box<[Bucket<T>]> {
    std::iter::repeat_with(Bucket::default).take(buckets).collect()
}

/// Changes the number of buckets; removed buckets are empty.
fn resize<T: Item>(chunk: &mut Box<[Bucket<T>]>, buckets: usize) {
    let mut resized = std::mem::take(chunk).into_vec();
    resized.reserve_exact(buckets.saturating_sub(resized.len()));
    resized.resize_with(buckets, Bucket::default);
    *chunk = resized.into_boxed_slice();
}

/// Prefetches the cache line at an address, where the processor supports it.
#[inline]
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    // SAFETY: a prefetch reads nothing into the program and cannot fault, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch(address.cast::<i8>(), _MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests;
