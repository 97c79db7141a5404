//! The most frequent items, by HeavyKeeper: rows of buckets, each with the fingerprint of one item and a count that other
//! items make decay, and a heap of the items with the highest counts.
//!
//! ```text
//! k u32 | width u32 | depth u32 | used u32 | decay f64 | chance u64 |
//! (fingerprint u32 | count u32) of each bucket ... |
//! (fingerprint u32 | count u32 | position u32 | room u32 | length + 1 or 0 u32) of each place in the heap ... | items ...
//! ```
//!
//! Decay depends on random numbers, whose state (`chance`) is a part of the value, and on products of doubles alone: the
//! same calls on the same bytes have the same results everywhere. So a call can be repeated on a replica.

#[cfg(test)]
mod tests;

use crate::murmur::murmur_hash_32;
use crate::probabilistic::{NotAllocated, f64_at, put, u32_at, u64_at, zeroed};

/// Length of the header.
const HEADER: usize = 32;
/// Length of a bucket.
const BUCKET: usize = 8;
/// Length of a place in the heap.
const PLACE: usize = 20;
/// Length of a place in the heap as Redis dumps it.
pub(crate) const DUMPED_PLACE: usize = 24;
/// Positions in the header.
const USED: usize = 12;
const DECAY: usize = 16;
const CHANCE: usize = 24;

/// Maximum number of rows; an item has a bucket in each.
const DEPTH_MAX: u32 = 1 << 6;
/// Seed of fingerprints.
const PRINT_SEED: u32 = 1919;
/// Room for items is allocated in multiples of this.
const ROUND: usize = 8;

/// The parameters of a new structure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TopKShape {
    /// Number of items in the heap.
    pub(crate) k: u32,
    pub(crate) width: u32,
    pub(crate) depth: u32,
    /// Probability by which a count of 1 decays; its power is that of a higher count.
    pub(crate) decay: f64,
}

/// A place in the heap. The one with the smallest count is the first.
#[derive(Clone, Copy, Default)]
struct Place {
    print: u32,
    count: u32,
    /// Position of the item behind the heap.
    at: u32,
    /// Length up to which an item may lie there.
    room: u32,
    /// Length of the item, plus 1; 0 if there is none.
    len: u32,
}

/// Creates an empty structure.
///
/// # Errors
/// [`NotAllocated`] if a parameter is 0 or out of range, or the memory is not available.
pub(crate) fn create(shape: TopKShape) -> Result<Vec<u8>, NotAllocated> {
    let room = (shape.k as usize).min(64) * 2 * ROUND;
    shape.empty(room)
}

/// Returns the parameters.
pub(crate) fn shape(bytes: &[u8]) -> TopKShape {
    TopKShape { k: u32_at(bytes, 0), width: u32_at(bytes, 4), depth: u32_at(bytes, 8), decay: f64_at(bytes, DECAY) }
}

/// Returns true if an item can be added to the bytes without [`with_room`].
pub(crate) fn has_room(bytes: &[u8], item: &[u8]) -> bool {
    let shape = shape(bytes);
    Place::read(bytes, shape.place(0)).room as usize >= item.len() || free(bytes, shape) >= item.len() + ROUND
}

/// Returns the bytes with room for an item of a length, and some more.
///
/// # Errors
/// [`NotAllocated`] if the memory is not available.
pub(crate) fn with_room(bytes: &[u8], len: usize) -> Result<Vec<u8>, NotAllocated> {
    let shape = shape(bytes);
    let items = (0..shape.k as usize).map(|number| rounded(Place::read(bytes, shape.place(number)).len as usize));
    let room = items.sum::<usize>() + rounded(len) + ROUND;
    let mut new = shape.empty(room + room / 2)?;
    new[USED + 4..shape.heap()].copy_from_slice(&bytes[USED + 4..shape.heap()]);
    for number in 0..shape.k as usize {
        let old = Place::read(bytes, shape.place(number));
        let mut place = Place { at: 0, room: 0, ..old };
        if let Some(item) = old.item(bytes, shape) {
            place.store(&mut new, shape, item);
        }
        place.write(&mut new, shape.place(number));
    }
    Ok(new)
}

/// Adds to the count of an item, for which there is room; returns the item that left the heap for it.
pub(crate) fn add(bytes: &mut [u8], item: &[u8], by: u32) -> Option<Vec<u8>> {
    let shape = shape(bytes);
    let print = print_of(item);
    let count = count_in_buckets(bytes, shape, item, by);
    let first = Place::read(bytes, shape.place(0));
    if count < first.count {
        return None;
    }
    if let Some(number) = find(bytes, shape, item) {
        let place = Place { count, ..Place::read(bytes, shape.place(number)) };
        place.write(bytes, shape.place(number));
        sift_down(bytes, shape, number);
        return None;
    }
    let expelled = first.item(bytes, shape).map(<[u8]>::to_vec);
    let mut place = Place { print, count, ..first };
    place.store(bytes, shape, item);
    place.write(bytes, shape.place(0));
    sift_down(bytes, shape, 0);
    expelled
}

/// Adds to the buckets of an item; returns its highest count there.
fn count_in_buckets(bytes: &mut [u8], shape: TopKShape, item: &[u8], by: u32) -> u32 {
    let print = print_of(item);
    let mut chance = u64_at(bytes, CHANCE);
    let mut highest = 0;
    for row in 0..shape.depth {
        let at = shape.bucket(row, item);
        let (owner, count) = (u32_at(bytes, at), u32_at(bytes, at + 4));
        let (new_owner, new_count) = if count == 0 {
            (print, by)
        } else if owner == print {
            (print, count.saturating_add(by))
        } else {
            match decayed(count, by, shape.decay, &mut chance) {
                (0, rest) => (print, rest),
                (count, _) => (owner, count),
            }
        };
        if new_owner == print {
            highest = highest.max(new_count);
        }
        put(bytes, at, new_owner.to_le_bytes());
        put(bytes, at + 4, new_count.to_le_bytes());
    }
    put(bytes, CHANCE, chance.to_le_bytes());
    highest
}

/// Decays a count once with each unit of an increment, each time with a probability; returns the count that is left,
/// and, if that is 0, the units that are left, the last one included.
fn decayed(mut count: u32, by: u32, decay: f64, chance: &mut u64) -> (u32, u32) {
    let mut limit = threshold(decay, count);
    for left in (1..=by).rev() {
        if limit == 0 {
            return (count, 0); // no number is smaller
        }
        if next(chance) < limit {
            count -= 1;
            if count == 0 {
                return (0, left);
            }
            limit = threshold(decay, count);
        }
    }
    (count, 0)
}

/// Returns the power of a probability, as the share of 64-bit numbers below the result.
fn threshold(decay: f64, count: u32) -> u64 {
    let (mut power, mut square, mut bits) = (1.0, decay, count);
    while bits > 0 {
        if bits & 1 != 0 {
            power *= square;
        }
        square *= square;
        bits >>= 1;
    }
    (power * 2f64.powi(64)) as u64
}

/// Returns the next random number (SplitMix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Returns true if an item is in the heap.
pub(crate) fn contains(bytes: &[u8], item: &[u8]) -> bool {
    find(bytes, shape(bytes), item).is_some()
}

/// Returns the estimated count of an item.
pub(crate) fn count(bytes: &[u8], item: &[u8]) -> u32 {
    let (shape, print) = (shape(bytes), print_of(item));
    let lowest = Place::read(bytes, shape.place(0)).count;
    let least = if contains(bytes, item) { lowest } else { 0 };
    let counts = (0..shape.depth).map(|row| {
        let at = shape.bucket(row, item);
        if u32_at(bytes, at) == print { u32_at(bytes, at + 4) } else { 0 }
    });
    counts.filter(|count| *count >= least).max().unwrap_or(0)
}

/// Returns the items in the heap with their counts, the most frequent first.
pub(crate) fn list(bytes: &[u8]) -> Vec<(&[u8], u32)> {
    let shape = shape(bytes);
    let places = (0..shape.k as usize).map(|number| Place::read(bytes, shape.place(number)));
    let mut items: Vec<_> = places
        .filter(|place| place.count > 0)
        .filter_map(|place| place.item(bytes, shape).map(|item| (item, place.count)))
        .collect();
    items.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    items
}

/// Returns the buckets, as in a dump.
pub(crate) fn buckets(bytes: &[u8]) -> &[u8] {
    &bytes[HEADER..shape(bytes).heap()]
}

/// Returns the items of the heap in its order.
pub(crate) fn heap_items(bytes: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let shape = shape(bytes);
    (0..shape.k as usize).map(move |number| Place::read(bytes, shape.place(number)).item(bytes, shape))
}

/// Returns the heap as Redis dumps it. A pointer, which no reader heeds, is the state of the random numbers.
pub(crate) fn dumped_heap(bytes: &[u8]) -> Vec<u8> {
    let shape = shape(bytes);
    let mut dumped = vec![0; shape.k as usize * DUMPED_PLACE];
    for (number, part) in dumped.chunks_exact_mut(DUMPED_PLACE).enumerate() {
        let place = Place::read(bytes, shape.place(number));
        put(part, 0, place.print.to_le_bytes());
        put(part, 4, place.len.saturating_sub(1).to_le_bytes());
        put(part, 8, if number == 0 { u64_at(bytes, CHANCE) } else { 0 }.to_le_bytes());
        put(part, 16, place.count.to_le_bytes());
    }
    dumped
}

/// Creates a structure of parts that were read from a dump: its parameters, its buckets, the heap as Redis dumps it, and
/// the items, each followed by a zero.
pub(crate) fn of_parts(shape: TopKShape, buckets: &[u8], heap: &[u8], items: &[Vec<u8>]) -> Option<Vec<u8>> {
    let is_rate = shape.decay > 0.0 && shape.decay <= 1.0;
    let count = shape.k as usize;
    if !is_rate || items.len() != count || heap.len() as u64 != count as u64 * DUMPED_PLACE as u64 {
        return None;
    }
    let room: usize = items.iter().map(|item| rounded(item.len())).sum();
    let mut bytes = shape.empty(room).ok()?;
    let place = &mut bytes[HEADER..shape.heap()];
    if place.len() != buckets.len() {
        return None;
    }
    place.copy_from_slice(buckets);
    if let Some(chance) = heap.get(8..16) {
        bytes[CHANCE..CHANCE + 8].copy_from_slice(chance);
    }
    for (number, (part, item)) in heap.chunks_exact(DUMPED_PLACE).zip(items).enumerate() {
        let (zero, item) = item.split_last()?;
        let mut place = Place { print: u32_at(part, 0), count: u32_at(part, 16), ..Place::default() };
        // An empty item is dumped like none; its fingerprint tells them apart.
        let is_there = !item.is_empty() || place.print == print_of(b"");
        if *zero != 0 {
            return None;
        }
        if is_there {
            place.store(&mut bytes, shape, item);
        }
        place.write(&mut bytes, shape.place(number));
    }
    Some(bytes)
}

/// Returns the place of an item in the heap.
fn find(bytes: &[u8], shape: TopKShape, item: &[u8]) -> Option<usize> {
    let print = print_of(item);
    (0..shape.k as usize).rev().find(|number| {
        let place = Place::read(bytes, shape.place(*number));
        place.print == print && place.item(bytes, shape) == Some(item)
    })
}

/// Moves a place of the heap down until no child has a smaller count. Among equal counts a child goes up, but only at
/// the first step, as in Redis: that decides the order of items with equal counts.
fn sift_down(bytes: &mut [u8], shape: TopKShape, start: usize) {
    let len = shape.k as usize;
    let moved = Place::read(bytes, shape.place(start));
    let mut at = start;
    while let Some(left) = Some(2 * at + 1).filter(|left| *left < len) {
        let (mut child, mut below) = (left, Place::read(bytes, shape.place(left)));
        if left + 1 < len {
            let right = Place::read(bytes, shape.place(left + 1));
            if right.count < below.count {
                (child, below) = (left + 1, right);
            }
        }
        let goes_up = if at == start { below.count <= moved.count } else { below.count < moved.count };
        if !goes_up {
            break;
        }
        below.write(bytes, shape.place(at));
        at = child;
    }
    moved.write(bytes, shape.place(at));
}

/// Returns the free room behind the items.
fn free(bytes: &[u8], shape: TopKShape) -> usize {
    bytes.len() - shape.items() - u32_at(bytes, USED) as usize
}

fn print_of(item: &[u8]) -> u32 {
    murmur_hash_32(item, PRINT_SEED)
}

fn rounded(len: usize) -> usize {
    len.next_multiple_of(ROUND)
}

impl TopKShape {
    /// Creates a structure without items, but with room for them.
    fn empty(self, room: usize) -> Result<Vec<u8>, NotAllocated> {
        if self.k == 0 || self.width == 0 || self.depth == 0 {
            return Err(NotAllocated::Invalid);
        }
        let buckets = u64::from(self.width) * u64::from(self.depth.min(DEPTH_MAX)) * BUCKET as u64;
        let heap = u64::from(self.k) * PLACE as u64;
        let len = buckets.saturating_add(heap).saturating_add((HEADER + room) as u64);
        // Positions of items are 32 bits long.
        if self.depth > DEPTH_MAX || room > u32::MAX as usize {
            return Err(NotAllocated::Memory);
        }
        let mut bytes = zeroed(len)?;
        put(&mut bytes, 0, self.k.to_le_bytes());
        put(&mut bytes, 4, self.width.to_le_bytes());
        put(&mut bytes, 8, self.depth.to_le_bytes());
        put(&mut bytes, DECAY, self.decay.to_le_bytes());
        Ok(bytes)
    }

    /// Returns the position of an item's bucket in a row.
    fn bucket(self, row: u32, item: &[u8]) -> usize {
        let column = murmur_hash_32(item, row) % self.width;
        HEADER + (row as usize * self.width as usize + column as usize) * BUCKET
    }

    /// Returns the position of the heap.
    fn heap(self) -> usize {
        HEADER + self.width as usize * self.depth as usize * BUCKET
    }

    /// Returns the position of a place in the heap.
    fn place(self, number: usize) -> usize {
        self.heap() + number * PLACE
    }

    /// Returns the position of the items.
    fn items(self) -> usize {
        self.place(self.k as usize)
    }
}

impl Place {
    fn read(bytes: &[u8], at: usize) -> Self {
        let field = |number: usize| u32_at(bytes, at + 4 * number);
        Place { print: field(0), count: field(1), at: field(2), room: field(3), len: field(4) }
    }

    fn write(self, bytes: &mut [u8], at: usize) {
        for (number, field) in [self.print, self.count, self.at, self.room, self.len].into_iter().enumerate() {
            put(bytes, at + 4 * number, field.to_le_bytes());
        }
    }

    fn item(self, bytes: &[u8], shape: TopKShape) -> Option<&[u8]> {
        let len = self.len.checked_sub(1)? as usize;
        Some(&bytes[shape.items() + self.at as usize..][..len])
    }

    /// Writes an item where the former one was, or behind all others, where there is room.
    fn store(&mut self, bytes: &mut [u8], shape: TopKShape, item: &[u8]) {
        if (self.room as usize) < item.len() {
            let used = u32_at(bytes, USED);
            (self.at, self.room) = (used, rounded(item.len()) as u32);
            put(bytes, USED, (used + self.room).to_le_bytes());
        }
        self.len = item.len() as u32 + 1;
        bytes[shape.items() + self.at as usize..][..item.len()].copy_from_slice(item);
    }
}
