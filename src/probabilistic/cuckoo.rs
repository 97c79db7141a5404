//! Cuckoo filters: fingerprints of items in buckets, two for each item; when an item finds no room, a filter is added.
//!
//! The bytes are a header as in `CF.SCANDUMP`, and the buckets of the filters.
//!
//! ```text
//! items u64 | buckets u64 | deleted u64 | filters u64 | bucket size u16 | iterations u16 | expansion u16 | fingerprints ...
//! ```
//!
//! A filter has `expansion` times the buckets of the one before. Fingerprint 0 is a free slot.

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::murmur::murmur_hash_64a;
use crate::probabilistic::{BYTES_MAX, BadChunk, CHUNK_MAX, NotAllocated, put, u16_at, u64_at, zeroed};

/// Length of the header.
pub(crate) const HEADER: usize = 38;
const FREE: u8 = 0;

/// Maximum number of filters, for which Redis has 16 bits.
const FILTERS_MAX: u64 = 64;
const BUCKET_SIZE_MAX: u16 = 255;
const EXPANSION_MAX: u16 = 32768;
/// Share of deleted items from which their slots are filled by items of newer filters.
const COMPACTED_SHARE: f64 = 0.1;

/// Sizes that Redis reports for its own structures.
const REPORTED_HEADER: u64 = 40;
const REPORTED_FILTER: u64 = 16;

/// The parameters of a new filter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CuckooShape {
    pub(crate) capacity: u64,
    pub(crate) bucket_size: u16,
    /// Number of fingerprints that are moved to make room for an item.
    pub(crate) iterations: u16,
    /// Size of each new filter, relative to the one before; 0 if none is added.
    pub(crate) expansion: u16,
}

/// The result of adding an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CuckooAdd {
    Added,
    /// Nothing was changed: the item, or one with the same fingerprint and buckets, was there.
    Present,
    /// Nothing was changed: a filter must be added first, see [`grown`].
    NeedsFilter,
    /// Nothing was changed: there is no room, and no filter is added.
    Full,
}

/// The header of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CuckooHeader {
    pub(crate) items: u64,
    /// Number of buckets of the first filter.
    pub(crate) buckets: u64,
    /// Number of items deleted since the last compaction.
    pub(crate) deleted: u64,
    pub(crate) filters: u64,
    pub(crate) bucket_size: u16,
    pub(crate) iterations: u16,
    pub(crate) expansion: u16,
}

/// An item: its fingerprint, and the hashes of its buckets.
#[derive(Clone, Copy)]
struct Fingerprint {
    print: u8,
    hashes: [u64; 2],
}

/// Creates an empty filter.
///
/// # Errors
/// [`NotAllocated`] if the capacity is too small for two buckets, or the memory is not available.
pub(crate) fn create(shape: CuckooShape) -> Result<Vec<u8>, NotAllocated> {
    if shape.bucket_size == 0 || shape.capacity < u64::from(shape.bucket_size) * 2 {
        return Err(NotAllocated::Invalid);
    }
    let buckets = (shape.capacity / u64::from(shape.bucket_size)).checked_next_power_of_two();
    let header = CuckooHeader {
        items: 0,
        buckets: buckets.ok_or(NotAllocated::Memory)?,
        deleted: 0,
        filters: 1,
        bucket_size: shape.bucket_size,
        iterations: shape.iterations,
        expansion: if shape.expansion == 0 { 0 } else { shape.expansion.next_power_of_two() },
    };
    header.empty()
}

/// Returns true if an item, or one with the same fingerprint and buckets, was added.
pub(crate) fn contains(bytes: &[u8], item: &[u8]) -> bool {
    has(bytes, Fingerprint::of(item))
}

fn has(bytes: &[u8], item: Fingerprint) -> bool {
    let header = CuckooHeader::of(bytes);
    (0..header.filters).any(|number| {
        let slots = &bytes[header.range(number)];
        header.both(number, item).into_iter().any(|bucket| slots[bucket].contains(&item.print))
    })
}

/// Returns how often an item was added, which is never too little.
pub(crate) fn count(bytes: &[u8], item: &[u8]) -> u64 {
    let (header, item) = (CuckooHeader::of(bytes), Fingerprint::of(item));
    let in_filter = |number| {
        let slots = &bytes[header.range(number)];
        let in_bucket =
            |bucket: Range<usize>| slots[bucket].iter().filter(|print| **print == item.print).count() as u64;
        header.both(number, item).into_iter().map(in_bucket).sum::<u64>()
    };
    (0..header.filters).map(in_filter).sum()
}

/// Adds an item, though it may be there.
pub(crate) fn add(bytes: &mut [u8], item: &[u8]) -> CuckooAdd {
    insert(bytes, Fingerprint::of(item))
}

/// Adds an item unless it is there.
pub(crate) fn add_new(bytes: &mut [u8], item: &[u8]) -> CuckooAdd {
    let item = Fingerprint::of(item);
    if has(bytes, item) { CuckooAdd::Present } else { insert(bytes, item) }
}

fn insert(bytes: &mut [u8], item: Fingerprint) -> CuckooAdd {
    let mut header = CuckooHeader::of(bytes);
    let newest = header.filters - 1;
    let is_placed = (0..header.filters).rev().any(|number| {
        let (buckets, slots) = (header.both(number, item), &mut bytes[header.range(number)]);
        place(slots, buckets, item.print)
    }) || header.make_room(&mut bytes[header.range(newest)], header.buckets_of(newest), item);
    if is_placed {
        header.items = header.items.wrapping_add(1);
        header.write(bytes);
        CuckooAdd::Added
    } else if header.expansion == 0 {
        CuckooAdd::Full
    } else {
        CuckooAdd::NeedsFilter
    }
}

/// Returns the bytes with one more filter.
///
/// # Errors
/// [`NotAllocated`] if the memory is not available.
pub(crate) fn grown(bytes: &[u8]) -> Result<Vec<u8>, NotAllocated> {
    let mut header = CuckooHeader::of(bytes);
    header.filters += 1;
    let mut longer = header.empty().map_err(|_| NotAllocated::Memory)?;
    longer[HEADER..bytes.len()].copy_from_slice(&bytes[HEADER..]);
    Ok(longer)
}

/// Deletes an item once; returns true if it was there. The caller then shortens the bytes to [`kept`].
pub(crate) fn delete(bytes: &mut [u8], item: &[u8]) -> bool {
    let (mut header, item) = (CuckooHeader::of(bytes), Fingerprint::of(item));
    let slot = (0..header.filters).rev().find_map(|number| {
        let filter = header.range(number);
        let in_bucket = |bucket: Range<usize>| {
            let found = bytes[filter.clone()][bucket.clone()].iter().position(|print| *print == item.print)?;
            Some(filter.start + bucket.start + found)
        };
        header.both(number, item).into_iter().find_map(in_bucket)
    });
    let Some(slot) = slot else { return false };
    bytes[slot] = FREE;
    header.items = header.items.saturating_sub(1);
    header.deleted = header.deleted.saturating_add(1);
    if header.filters > 1 && header.deleted as f64 > header.items as f64 * COMPACTED_SHARE {
        header.compact(bytes, false);
    }
    header.write(bytes);
    true
}

/// Moves fingerprints to free slots of older filters. The caller then shortens the bytes to [`kept`].
pub(crate) fn compact(bytes: &mut [u8]) {
    let mut header = CuckooHeader::of(bytes);
    header.compact(bytes, true);
    header.write(bytes);
}

/// Returns the length up to which the bytes belong to filters; less than all when a compaction has emptied the newest.
pub(crate) fn kept(bytes: &[u8]) -> usize {
    let header = CuckooHeader::of(bytes);
    header.range(header.filters - 1).end
}

/// Returns the size that Redis would report.
pub(crate) fn reported_size(bytes: &[u8]) -> u64 {
    let header = CuckooHeader::of(bytes);
    REPORTED_HEADER + header.filters * REPORTED_FILTER + (bytes.len() - HEADER) as u64
}

/// Returns the first part of a dump.
pub(crate) fn header(bytes: &[u8]) -> &[u8] {
    &bytes[..HEADER]
}

/// Returns the part of a dump at an iterator, and the next iterator; `None` at the end. A filter that fits into one chunk
/// is always returned as a whole.
pub(crate) fn chunk(bytes: &[u8], iterator: i64) -> Option<(i64, &[u8])> {
    let (filter, offset) = filter_at(bytes, usize::try_from(iterator).ok()?.checked_sub(1)?)?;
    let slots = &bytes[filter];
    let part = if slots.len() <= CHUNK_MAX { slots } else { &slots[offset..slots.len().min(offset + CHUNK_MAX)] };
    Some((iterator + part.len() as i64, part))
}

/// Creates a filter by the first part of a dump; its fingerprints follow in chunks.
///
/// # Errors
/// [`NotAllocated`] if the header is damaged, or the memory is not available.
pub(crate) fn of_header(header: &[u8]) -> Result<Vec<u8>, NotAllocated> {
    if header.len() != HEADER {
        return Err(NotAllocated::Invalid);
    }
    CuckooHeader::of(header).empty()
}

/// Overwrites the fingerprints with a chunk of a dump, whose iterator is that of the next one.
///
/// # Errors
/// [`BadChunk`] if the chunk has no place in the filter.
pub(crate) fn load_chunk(bytes: &mut [u8], iterator: i64, chunk: &[u8]) -> Result<(), BadChunk> {
    let end = usize::try_from(iterator).ok().and_then(|end| end.checked_sub(1)).filter(|_| !chunk.is_empty());
    let start = end.and_then(|end| end.checked_sub(chunk.len())).ok_or(BadChunk::Position)?;
    let (filter, offset) = filter_at(bytes, start).ok_or(BadChunk::Offset)?;
    bytes[filter][offset..].get_mut(..chunk.len()).ok_or(BadChunk::Length)?.copy_from_slice(chunk);
    Ok(())
}

/// Returns the filters: the number of buckets of each, and its fingerprints.
pub(crate) fn parts(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let header = CuckooHeader::of(bytes);
    (0..header.filters).map(move |number| (header.buckets_of(number), &bytes[header.range(number)]))
}

/// Creates a filter of parts that were read from a dump: its header, and the fingerprints of its filters.
pub(crate) fn of_parts(header: CuckooHeader, filters: &[Vec<u8>]) -> Option<Vec<u8>> {
    if header.filters != filters.len() as u64 {
        return None;
    }
    let mut bytes = header.empty().ok()?;
    for (number, slots) in (0..).zip(filters) {
        let filter = &mut bytes[header.range(number)];
        if filter.len() != slots.len() {
            return None;
        }
        filter.copy_from_slice(slots);
    }
    Some(bytes)
}

/// Returns the range of the filter that has a byte behind the header, and the offset in it.
fn filter_at(bytes: &[u8], mut offset: usize) -> Option<(Range<usize>, usize)> {
    let header = CuckooHeader::of(bytes);
    for number in 0..header.filters {
        let filter = header.range(number);
        if offset < filter.len() {
            return Some((filter, offset));
        }
        offset -= filter.len();
    }
    None
}

/// Puts a fingerprint into a free slot of one of two buckets.
fn place(slots: &mut [u8], buckets: [Range<usize>; 2], print: u8) -> bool {
    buckets.into_iter().any(|bucket| match slots[bucket].iter_mut().find(|slot| **slot == FREE) {
        Some(slot) => {
            *slot = print;
            true
        }
        None => false,
    })
}

/// Returns the hash of the other bucket of a fingerprint; applied twice, it returns the first one.
fn other_hash(print: u8, hash: u64) -> u64 {
    hash ^ (u64::from(print) * 0x5bd1_e995)
}

impl Fingerprint {
    fn of(item: &[u8]) -> Self {
        let hash = murmur_hash_64a(item, 0);
        Self::with((hash % 255) as u8 + 1, hash)
    }

    fn with(print: u8, hash: u64) -> Self {
        Fingerprint { print, hashes: [hash, other_hash(print, hash)] }
    }
}

impl CuckooHeader {
    /// Reads the header of a filter.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        CuckooHeader {
            items: u64_at(bytes, 0),
            buckets: u64_at(bytes, 8),
            deleted: u64_at(bytes, 16),
            filters: u64_at(bytes, 24),
            bucket_size: u16_at(bytes, 32),
            iterations: u16_at(bytes, 34),
            expansion: u16_at(bytes, 36),
        }
    }

    fn write(&self, bytes: &mut [u8]) {
        put(bytes, 0, self.items.to_le_bytes());
        put(bytes, 8, self.buckets.to_le_bytes());
        put(bytes, 16, self.deleted.to_le_bytes());
        put(bytes, 24, self.filters.to_le_bytes());
        put(bytes, 32, self.bucket_size.to_le_bytes());
        put(bytes, 34, self.iterations.to_le_bytes());
        put(bytes, 36, self.expansion.to_le_bytes());
    }

    /// Creates the filters of a header, which is verified, without fingerprints.
    fn empty(&self) -> Result<Vec<u8>, NotAllocated> {
        let is_valid = self.buckets.is_power_of_two()
            && (1..=FILTERS_MAX).contains(&self.filters)
            && (1..=BUCKET_SIZE_MAX).contains(&self.bucket_size)
            && self.iterations > 0
            && self.expansion <= EXPANSION_MAX
            && (self.expansion > 0 || self.filters == 1);
        if !is_valid {
            return Err(NotAllocated::Invalid);
        }
        let (mut len, mut size) = (HEADER as u64, self.buckets.saturating_mul(u64::from(self.bucket_size)));
        for _ in 0..self.filters {
            len = len.saturating_add(size);
            size = size.saturating_mul(u64::from(self.expansion));
            if len > BYTES_MAX {
                return Err(NotAllocated::Memory);
            }
        }
        let mut bytes = zeroed(len)?;
        self.write(&mut bytes);
        Ok(bytes)
    }

    /// Returns the number of buckets of a filter.
    fn buckets_of(&self, number: u64) -> u64 {
        self.buckets * u64::from(self.expansion).pow(number as u32)
    }

    /// Returns the range of a filter in the bytes.
    fn range(&self, number: u64) -> Range<usize> {
        let (first, factor) = (self.buckets * u64::from(self.bucket_size), u64::from(self.expansion));
        let size = first * factor.pow(number as u32);
        let before = match factor {
            0 => 0,
            1 => first * number,
            _ => (size - first) / (factor - 1),
        };
        let start = HEADER + before as usize;
        start..start + size as usize
    }

    /// Returns the ranges of both buckets of an item in a filter.
    fn both(&self, number: u64, item: Fingerprint) -> [Range<usize>; 2] {
        let buckets = self.buckets_of(number);
        item.hashes.map(|hash| self.bucket((hash % buckets) as usize))
    }

    fn bucket(&self, number: usize) -> Range<usize> {
        let size = usize::from(self.bucket_size);
        number * size..(number + 1) * size
    }

    /// Adds an item to full buckets by moving other fingerprints; moves all back if none finds a free slot.
    fn make_room(&self, slots: &mut [u8], buckets: u64, item: Fingerprint) -> bool {
        let size = usize::from(self.bucket_size);
        let (mut print, mut bucket, mut victim) = (item.print, item.hashes[0] % buckets, 0);
        for _ in 0..self.iterations {
            std::mem::swap(&mut slots[bucket as usize * size + victim], &mut print);
            bucket = other_hash(print, bucket) % buckets;
            if let Some(free) = slots[self.bucket(bucket as usize)].iter_mut().find(|slot| **slot == FREE) {
                *free = print;
                return true;
            }
            victim = (victim + 1) % size;
        }
        for _ in 0..self.iterations {
            victim = (victim + size - 1) % size;
            bucket = other_hash(print, bucket) % buckets;
            std::mem::swap(&mut slots[bucket as usize * size + victim], &mut print);
        }
        false
    }

    /// Moves fingerprints to free slots of older filters, beginning with the newest filter, which is dropped if that
    /// empties it; stops at the first that is not emptied, unless it is to go on.
    fn compact(&mut self, bytes: &mut [u8], goes_on: bool) {
        for number in (1..self.filters).rev() {
            let is_emptied = self.move_down(bytes, number);
            if is_emptied && number == self.filters - 1 {
                self.filters -= 1;
            }
            if !is_emptied && !goes_on {
                break;
            }
        }
        self.deleted = 0;
    }

    /// Moves the fingerprints of a filter to older ones; returns true if all found a place.
    fn move_down(&self, bytes: &mut [u8], number: u64) -> bool {
        let filter = self.range(number);
        let (older, slots) = bytes[..filter.end].split_at_mut(filter.start);
        let mut is_emptied = true;
        for (at, slot) in slots.iter_mut().enumerate().filter(|(_, slot)| **slot != FREE) {
            let item = Fingerprint::with(*slot, (at / usize::from(self.bucket_size)) as u64);
            let is_moved = (0..number).any(|to| place(&mut older[self.range(to)], self.both(to, item), item.print));
            if is_moved {
                *slot = FREE;
            } else {
                is_emptied = false;
            }
        }
        is_emptied
    }
}
