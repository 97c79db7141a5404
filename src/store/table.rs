//! The hash table of a shard: linear hashing over cache-line buckets.
//!
//! ```text
//!   one bucket, 64 bytes
//! +----------------+------+------+------+------+------+------+----------+
//! | 6 tags, unused | slot | slot | slot | slot | slot | slot | overflow |
//! | 8 bytes        | one pointer each, 8 bytes               | 8 bytes  |
//! +----------------+------+------+------+------+------+------+----------+
//! ```
//!
//! A look-up touches one bucket, compares tags (eight bits of the hash) and then usually one entry.
//! The table grows by splitting one bucket at a time and shrinks by merging one at a time, so no
//! insertion ever waits for a rehash, and a bucket's number is decided by the low bits of the hash.
//! A scan walks the hash space with the bits reversed: a bucket is then one interval of it, splitting
//! cuts that interval in two, merging joins two, and a cursor keeps its meaning whatever happens.
//!
//! It knows no time, no watchers and no statistics; those belong to the shard.

use ahash::RandomState;

use crate::store::compact::Moved;
use crate::store::entry::Entry;

/// How many positions a scan of one table has; a cursor is below this.
pub(crate) const SCAN_POSITIONS: u64 = 1 << SCAN_BITS;

const SCAN_BITS: u32 = 40;
const SLOTS: usize = 6;
/// Buckets are allocated by the chunk, so that growing never moves one.
const CHUNK: usize = 64;
/// Mean entries per bucket above which one bucket is split, in thirds: 15/3. An eighth of the keys is then in overflow
/// buckets; a lower limit would cost one more byte per key.
const GROW_THIRDS: usize = 15;
/// Mean entries per bucket below which one bucket is merged, in thirds: 5/3.
const SHRINK_THIRDS: usize = 5;

/// How far into an entry the second prefetch reaches, in bytes: past the header, the deadline and a common key.
const PREFETCH_AHEAD: usize = 40;

/// Hashes keys; its keys are random, so that a peer cannot choose keys that collide.
pub(crate) type Hasher = RandomState;

#[repr(align(64))]
#[derive(Default)]
struct Bucket {
    /// Tag of each slot, 0 where the slot is empty; the last two bytes are always 0.
    tags: [u8; 8],
    slots: [Option<Entry>; SLOTS],
    overflow: Option<Box<Bucket>>,
}

/// The position of an entry, valid until the table changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    bucket: usize,
    /// How many overflow buckets precede the entry's.
    depth: usize,
    slot: usize,
}

/// Maps keys to entries.
pub(crate) struct Table {
    chunks: Vec<Box<[Bucket]>>,
    /// Buckets in use: `mask + 1 <= buckets <= 2 * (mask + 1)`, or 0 before the first insertion.
    buckets: usize,
    /// Selects the hash bits that number the buckets not yet split in this round.
    mask: usize,
    len: usize,
    /// Overflow buckets.
    overflows: usize,
    hasher: Hasher,
}

impl Table {
    /// Creates an empty table, which allocates nothing until it is used.
    pub(crate) fn new(hasher: Hasher) -> Self {
        Table { chunks: Vec::new(), buckets: 0, mask: 0, len: 0, overflows: 0, hasher }
    }

    /// Returns what hashes the keys.
    pub(crate) fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    /// Returns the number of entries.
    pub(crate) fn count(&self) -> usize {
        self.len
    }

    /// Returns the bytes of the buckets in use, without the entries. The unused part of a chunk is left out: 64 shards
    /// with a key each would otherwise seem to take a quarter of a megabyte.
    pub(crate) fn memory(&self) -> usize {
        if self.len == 0 && self.buckets <= CHUNK {
            return 0;
        }
        (self.buckets + self.overflows) * size_of::<Bucket>()
    }

    /// Returns the number of buckets in use, without overflow buckets.
    pub(crate) fn buckets(&self) -> usize {
        self.buckets
    }

    /// Finds the entry of a key and its position.
    #[inline]
    pub(crate) fn locate(&self, hash: u64, key: &[u8]) -> Option<(Place, &Entry)> {
        let index = self.bucket_of(hash)?;
        let (mut bucket, mut depth) = (self.bucket(index), 0);
        loop {
            if let Some(slot) = bucket.position(tag(hash), key) {
                return Some((Place { bucket: index, depth, slot }, bucket.slots[slot].as_ref()?));
            }
            bucket = bucket.overflow.as_deref()?;
            depth += 1;
        }
    }

    /// Returns the entry at a located position; the table must not have changed since.
    #[inline]
    pub(crate) fn at(&self, place: Place) -> Option<&Entry> {
        let mut bucket = self.bucket(place.bucket);
        for _ in 0..place.depth {
            bucket = bucket.overflow.as_deref()?;
        }
        bucket.slots[place.slot].as_ref()
    }

    /// Returns the entry at a located position mutably; the table must not have changed since.
    pub(crate) fn at_mut(&mut self, place: Place) -> Option<&mut Entry> {
        let mut bucket = self.bucket_mut(place.bucket);
        for _ in 0..place.depth {
            bucket = bucket.overflow.as_deref_mut()?;
        }
        bucket.slots[place.slot].as_mut()
    }

    /// Finds the entry of a key.
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<&Entry> {
        self.locate(hash, key).map(|(_, entry)| entry)
    }

    /// Finds the entry of a key, to change it.
    #[inline]
    pub(crate) fn find_mut(&mut self, hash: u64, key: &[u8]) -> Option<&mut Entry> {
        let index = self.bucket_of(hash)?;
        let mut bucket = self.bucket_mut(index);
        loop {
            if let Some(slot) = bucket.position(tag(hash), key) {
                return bucket.slots[slot].as_mut();
            }
            bucket = bucket.overflow.as_deref_mut()?;
        }
    }

    /// Adds an entry whose key is known to be absent. Returns the bucket that was split to make room and the new
    /// bucket, if any.
    pub(crate) fn insert(&mut self, hash: u64, entry: Entry) -> Option<(usize, usize)> {
        if self.buckets == 0 {
            self.add_bucket();
        }
        self.place(hash, entry);
        self.len += 1;
        (self.len * 3 > self.buckets * GROW_THIRDS).then(|| self.split())
    }

    /// Removes the entry of a key. Returns it, and the bucket into which the last one was merged, if any.
    pub(crate) fn remove(&mut self, hash: u64, key: &[u8]) -> Option<(Entry, Option<(usize, usize)>)> {
        let index = self.bucket_of(hash)?;
        let (entry, dropped) = self.bucket_mut(index).take(tag(hash), key)?;
        self.len -= 1;
        self.overflows -= dropped;
        let merged = (self.buckets > CHUNK && self.len * 3 < self.buckets * SHRINK_THIRDS).then(|| self.merge());
        Some((entry, merged))
    }

    /// Returns the number of the bucket a hash belongs to; `None` in a table that was never used.
    #[inline]
    pub(crate) fn bucket_of(&self, hash: u64) -> Option<usize> {
        let wide = hash as usize & (self.mask * 2 + 1);
        let index = if wide < self.buckets { wide } else { hash as usize & self.mask };
        (index < self.buckets).then_some(index)
    }

    /// Asks the processor to bring the bucket of a hash into its cache; the first step of a coming look-up.
    #[inline]
    pub(crate) fn prefetch_bucket(&self, hash: u64) {
        if let Some(index) = self.bucket_of(hash) {
            prefetch(self.bucket(index));
        }
    }

    /// Asks the processor to bring in the entry that a hash probably belongs to; the bucket should be in the cache by
    /// now.
    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: u64) {
        let Some(index) = self.bucket_of(hash) else { return };
        let bucket = self.bucket(index);
        for entry in bucket.candidates(tag(hash)).filter_map(|slot| bucket.slots.get(slot)?.as_ref()) {
            prefetch(entry.address());
            // Half of the short entries begin in one cache line and have the end of their key in the next.
            prefetch(entry.address().wrapping_add(PREFETCH_AHEAD));
        }
    }

    /// Calls `visit` for every entry of a bucket.
    pub(crate) fn for_each_in(&self, bucket: usize, mut visit: impl FnMut(&Entry)) {
        let mut bucket = Some(self.bucket(bucket));
        while let Some(current) = bucket {
            current.slots.iter().flatten().for_each(&mut visit);
            bucket = current.overflow.as_deref();
        }
    }

    /// Reallocates the entries of a bucket. Returns by how many bytes their memory has grown.
    pub(crate) fn move_entries(&mut self, bucket: usize, moved: &mut Moved) -> isize {
        let (mut bucket, mut growth) = (self.bucket_mut(bucket), 0);
        loop {
            for entry in bucket.slots.iter_mut().flatten() {
                let left = entry.relocate();
                moved.bytes += left.own_memory();
                growth += entry.own_memory() as isize - left.own_memory() as isize;
                moved.left.push(left);
            }
            match &mut bucket.overflow {
                Some(next) => bucket = next,
                None => return growth,
            }
        }
    }

    /// Visits the bucket at a scan position; returns the position after it, or `None` at the end.
    ///
    /// Every entry that is present from the first position to the end is visited, however the table
    /// grows or shrinks in between, and none twice.
    pub(crate) fn scan(&self, position: u64, mut visit: impl FnMut(&Entry)) -> Option<u64> {
        let low_bits = position.reverse_bits() >> (u64::BITS - SCAN_BITS);
        let index = self.bucket_of(low_bits)?;
        // A bucket numbered by n bits of the hash covers the positions that begin with those n bits.
        let is_split = index > self.mask || index + self.mask + 1 < self.buckets;
        let bits = (self.mask + 1).trailing_zeros() + u32::from(is_split);
        let width = SCAN_POSITIONS >> bits;
        // A bucket that was merged since the last step holds entries of positions visited before.
        let is_merged = position & (width - 1) != 0;
        self.for_each_in(index, |entry| {
            if !is_merged || self.position_of(entry) >= position {
                visit(entry);
            }
        });
        let next = (position & !(width - 1)) + width;
        (next < SCAN_POSITIONS).then_some(next)
    }

    fn position_of(&self, entry: &Entry) -> u64 {
        self.hasher.hash_one(entry.key()).reverse_bits() >> (u64::BITS - SCAN_BITS)
    }

    /// Puts an entry into the first free slot of its bucket.
    fn place(&mut self, hash: u64, entry: Entry) {
        let index = self.bucket_of(hash).expect("a table that is inserted into has a bucket");
        let mut bucket = self.bucket_mut(index);
        let mut added = 0;
        loop {
            if let Some(slot) = bucket.slots.iter().position(Option::is_none) {
                bucket.tags[slot] = tag(hash);
                bucket.slots[slot] = Some(entry);
                break;
            }
            bucket = bucket.overflow.get_or_insert_with(|| {
                added = 1;
                Box::default()
            });
        }
        self.overflows += added;
    }

    /// Moves part of the entries of the next bucket to split into a new one at the end.
    fn split(&mut self) -> (usize, usize) {
        let to = self.buckets;
        self.add_bucket(); // which widens the mask when a round begins
        let from = to & self.mask;
        self.place_all_of(from);
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
        self.replace_entries(orphans);
        if self.chunks.len() * CHUNK > self.buckets + 2 * CHUNK {
            self.chunks.pop();
        }
        (last, into)
    }

    fn place_all_of(&mut self, index: usize) {
        let old = std::mem::take(self.bucket_mut(index));
        self.replace_entries(old);
    }

    fn replace_entries(&mut self, mut bucket: Bucket) {
        loop {
            for entry in bucket.slots.iter_mut().filter_map(Option::take) {
                self.place(self.hasher.hash_one(entry.key()), entry);
            }
            match bucket.overflow.take() {
                Some(next) => {
                    self.overflows -= 1;
                    bucket = *next;
                }
                None => return,
            }
        }
    }

    fn add_bucket(&mut self) {
        if self.buckets == self.chunks.len() * CHUNK {
            self.chunks.push(std::iter::repeat_with(Bucket::default).take(CHUNK).collect());
        }
        self.buckets += 1;
        if self.buckets > 2 * (self.mask + 1) {
            self.mask = self.mask * 2 + 1;
        }
    }

    fn bucket(&self, index: usize) -> &Bucket {
        &self.chunks[index / CHUNK][index % CHUNK]
    }

    fn bucket_mut(&mut self, index: usize) -> &mut Bucket {
        &mut self.chunks[index / CHUNK][index % CHUNK]
    }
}

impl Bucket {
    /// Finds the slot of a key: the few whose tags match are compared by key.
    #[inline]
    fn position(&self, tag: u8, key: &[u8]) -> Option<usize> {
        self.candidates(tag).find(|slot| {
            self.slots.get(*slot).is_some_and(|slot| slot.as_ref().is_some_and(|entry| entry.key() == key))
        })
    }

    /// Finds the slots with a tag, by comparing all tags at once.
    #[inline]
    fn candidates(&self, tag: u8) -> impl Iterator<Item = usize> + use<> {
        const LOW: u64 = 0x0101_0101_0101_0101;
        let differing = u64::from_le_bytes(self.tags) ^ (LOW * u64::from(tag));
        // The highest bit of a byte is set where `differing` is zero; a false positive is settled by the key.
        let mut matches = differing.wrapping_sub(LOW) & !differing & (LOW << 7);
        std::iter::from_fn(move || {
            let slot = (matches != 0).then(|| (matches.trailing_zeros() / 8) as usize)?;
            matches &= matches - 1;
            Some(slot)
        })
    }

    /// Removes a key's entry from the chain and drops overflow buckets that become empty; returns how many.
    fn take(&mut self, tag: u8, key: &[u8]) -> Option<(Entry, usize)> {
        if let Some(slot) = self.position(tag, key) {
            let entry = self.slots[slot].take()?;
            self.tags[slot] = 0;
            return Some((entry, self.refill(slot)));
        }
        let overflow = self.overflow.as_deref_mut()?;
        let (entry, dropped) = overflow.take(tag, key)?;
        Some((entry, dropped + self.drop_empty()))
    }

    /// Fills an empty slot from the overflow bucket, so that churn leaves no chains of half-empty buckets; returns how
    /// many buckets were dropped.
    fn refill(&mut self, slot: usize) -> usize {
        let Some(overflow) = self.overflow.as_deref_mut() else { return 0 };
        let Some(last) = overflow.slots.iter().rposition(Option::is_some) else { return 0 };
        self.slots[slot] = overflow.slots[last].take();
        self.tags[slot] = std::mem::take(&mut overflow.tags[last]);
        overflow.refill(last) + self.drop_empty()
    }

    fn drop_empty(&mut self) -> usize {
        let next = self.overflow.take_if(|overflow| overflow.slots.iter().all(Option::is_none));
        let was_empty = next.is_some();
        if let Some(mut empty) = next {
            self.overflow = empty.overflow.take();
        }
        usize::from(was_empty)
    }
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

/// Returns eight bits of the hash that are not used to number buckets; never 0, which marks an empty slot.
fn tag(hash: u64) -> u8 {
    ((hash >> 56) as u8) | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    fn key(number: u32) -> Vec<u8> {
        format!("key:{number}").into_bytes()
    }

    fn filled(count: u32) -> (Table, Hasher) {
        let hasher = Hasher::new();
        let mut table = Table::new(hasher.clone());
        for number in 0..count {
            table.insert(hasher.hash_one(&key(number)[..]), Entry::text(&key(number), b"", None));
        }
        (table, hasher)
    }

    #[test]
    fn a_bucket_is_one_cache_line() {
        assert_eq!((size_of::<Bucket>(), align_of::<Bucket>()), (64, 64));
    }

    #[test]
    fn it_behaves_as_a_plain_map_while_it_grows_and_shrinks() {
        let hasher = Hasher::new();
        let mut table = Table::new(hasher.clone());
        let mut model = HashMap::new();
        let mut random = 1u64;
        for step in 0..200_000u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = key((random >> 33) as u32 % 5_000);
            let hash = hasher.hash_one(&key[..]);
            // Phases of mostly adding and mostly removing, so that buckets split and merge many times.
            let adding = (step / 20_000) % 2 == 0;
            if ((random >> 20) % 10 < 8) == adding {
                if table.find(hash, &key).is_none() {
                    table.insert(hash, Entry::text(&key, &step.to_le_bytes(), None));
                    model.insert(key, step);
                }
            } else {
                assert_eq!(table.remove(hash, &key).is_some(), model.remove(&key).is_some());
            }
            assert_eq!(table.count(), model.len());
        }
        for (key, step) in &model {
            let entry = table.find(hasher.hash_one(&key[..]), key).expect("present");
            assert_eq!(entry.string().as_slice(), step.to_le_bytes());
        }
    }

    #[test]
    fn a_scan_returns_every_key_that_stays_while_the_table_grows_and_shrinks() {
        for (added, removed) in [(0, 0), (20_000, 0), (0, 1_900), (5_000, 1_000)] {
            let (mut table, hasher) = filled(2_000);
            let staying: Vec<_> = (removed..2_000).map(key).collect();
            let (mut seen, mut position, mut steps) = (HashSet::new(), Some(0), 0);
            while let Some(at) = position {
                position = table.scan(at, |entry| {
                    seen.insert(entry.key().to_vec());
                });
                steps += 1;
                if steps == 100 {
                    for number in 0..added {
                        let key = key(1_000_000 + number);
                        table.insert(hasher.hash_one(&key[..]), Entry::text(&key, b"", None));
                    }
                    for key in (0..removed).map(key) {
                        table.remove(hasher.hash_one(&key[..]), &key).expect("present");
                    }
                }
            }
            assert!(staying.iter().all(|key| seen.contains(key)), "added {added}, removed {removed}");
        }
    }

    #[test]
    fn overflow_buckets_are_counted() {
        let (mut table, hasher) = filled(50_000);
        let count = |table: &Table| {
            let chain = |bucket: &Bucket| {
                std::iter::successors(bucket.overflow.as_deref(), |next| next.overflow.as_deref()).count()
            };
            table.chunks.iter().flatten().map(chain).sum::<usize>()
        };
        assert!(table.overflows > 100);
        assert_eq!(table.overflows, count(&table));
        for key in (0..49_000).map(key) {
            table.remove(hasher.hash_one(&key[..]), &key).expect("present");
        }
        assert_eq!(table.overflows, count(&table));
    }

    #[test]
    fn keys_that_come_and_go_take_no_more_room_than_those_that_stay() {
        let (mut table, hasher) = filled(20_000);
        let filled = table.memory();
        for number in 0..200_000 {
            let (old, new) = (key(number), key(20_000 + number));
            table.remove(hasher.hash_one(&old[..]), &old).expect("present");
            table.insert(hasher.hash_one(&new[..]), Entry::text(&new, b"", None));
        }
        assert_eq!(table.count(), 20_000);
        assert!(table.memory() < filled * 102 / 100, "{} instead of {filled}", table.memory());
    }

    #[test]
    fn an_emptied_table_gives_its_buckets_back() {
        let (mut table, hasher) = filled(100_000);
        let full = table.memory();
        for key in (0..100_000).map(key) {
            table.remove(hasher.hash_one(&key[..]), &key).expect("present");
        }
        assert_eq!(table.count(), 0);
        assert!(table.memory() < full / 50);
    }
}
