//! Scalable Bloom filters: a chain of filters, of which each new one is larger and has half the error rate of the one
//! before.
//!
//! The bytes are those of `BF.SCANDUMP`: the header of the chain, a header for each filter, and their bits.
//!
//! ```text
//! size u64 | filters u32 | options u32 | expansion u32 |
//! (bytes u64 | bits u64 | size u64 | error f64 | bits per item f64 | hashes u32 | capacity u64 | exponent u8) ... | bits ...
//! ```

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::murmur::{murmur_hash_32, murmur_hash_64a};
use crate::probabilistic::{
    BYTES_MAX, BadChunk, CHUNK_MAX, NotAllocated, array_at, f64_at, put, u32_at, u64_at, zeroed,
};

/// Length of the header of a chain.
const HEADER: usize = 20;
/// Length of the header of one filter.
const LINK: usize = 53;
/// Position of the number of filters in the header.
const FILTERS: usize = 8;
/// Position of the items in the header of one filter.
const LINK_SIZE: usize = 16;

/// Option: the number of bits is not rounded up to a power of two.
const NOT_ROUNDED: u32 = 1;
/// Option: the capacity of a filter is given as the binary logarithm of its bits.
const BITS_GIVEN: u32 = 2;
/// Option: hashes of 64 bits.
const HASH_64: u32 = 4;
/// Option: no filter is added.
const FIXED: u32 = 8;
const OPTIONS: u32 = NOT_ROUNDED | BITS_GIVEN | HASH_64 | FIXED;

/// Error rate of a filter, relative to that of the one before.
const TIGHTENING: f64 = 0.5;
/// Natural logarithm of two, and its square, with the digits by which RedisBloom computes numbers of hashes and bits.
#[expect(clippy::approx_constant, reason = "more digits would round other numbers of hashes")]
const LN_2: f64 = 0.693147180559945;
const LN_2_SQUARED: f64 = 0.480453013918201;

/// Maximum number of filters in a chain. The error rate of a chain that began with any other falls to zero before.
const FILTERS_MAX: usize = 2048;
/// Maximum number of hashes of an item; the smallest error rate that can be expressed needs 1075.
const HASHES_MAX: u32 = 1100;

/// Sizes that Redis reports for its own structures.
const REPORTED_CHAIN: u64 = 32;
const REPORTED_LINK: u64 = 64;

/// The parameters of a new filter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BloomShape {
    pub(crate) capacity: u64,
    pub(crate) error_rate: f64,
    /// Capacity of each new filter of the chain, relative to the one before.
    pub(crate) expansion: u32,
    /// No filter is added to the first one.
    pub(crate) is_fixed: bool,
}

/// The result of adding an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BloomAdd {
    Added,
    /// The item, or others that set the same bits, had been added before.
    Present,
    /// Nothing was changed: a filter must be added first, see [`grown`].
    NeedsFilter,
    /// Nothing was changed: the filter is full, and none is added.
    Full,
}

/// One filter of a chain, as in a dump.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BloomLink {
    pub(crate) bytes: u64,
    pub(crate) bits: u64,
    /// Number of items added.
    pub(crate) size: u64,
    pub(crate) error: f64,
    pub(crate) bits_per_item: f64,
    pub(crate) hashes: u32,
    pub(crate) capacity: u64,
    /// Binary logarithm of the number of bits in use; 0 if all of them are.
    pub(crate) exponent: u8,
}

/// The header of a chain, as in a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BloomHeader {
    /// Number of items added.
    pub(crate) size: u64,
    pub(crate) options: u32,
    pub(crate) expansion: u32,
}

/// Creates an empty filter.
///
/// # Errors
/// [`NotAllocated`] if the parameters permit no filter, or the memory is not available.
pub(crate) fn create(shape: BloomShape) -> Result<Vec<u8>, NotAllocated> {
    let options = HASH_64 | NOT_ROUNDED | if shape.is_fixed { FIXED } else { 0 };
    let error = if shape.is_fixed { shape.error_rate } else { shape.error_rate * TIGHTENING };
    let link = BloomLink::new(shape.capacity, error, options)?;
    let header = BloomHeader { size: 0, options, expansion: shape.expansion };
    let mut bytes = zeroed((HEADER + LINK) as u64 + link.bytes)?;
    header.write(&mut bytes, 1);
    link.write(&mut bytes, 0);
    Ok(bytes)
}

/// Returns true if an item, or others that set the same bits, was added.
pub(crate) fn contains(bytes: &[u8], item: &[u8]) -> bool {
    has(bytes, ItemHash::of(item, BloomHeader::read(bytes).options))
}

/// Returns true if one of the filters has all bits of a hash, the newest asked first.
fn has(bytes: &[u8], hash: ItemHash) -> bool {
    let mut end = bytes.len();
    (0..filters(bytes)).rev().any(|number| {
        let link = BloomLink::read(bytes, number);
        let start = end - link.bytes as usize;
        let bits = &bytes[start..end];
        end = start;
        link.has(bits, hash)
    })
}

/// Adds an item.
pub(crate) fn add(bytes: &mut [u8], item: &[u8]) -> BloomAdd {
    let mut header = BloomHeader::read(bytes);
    let hash = ItemHash::of(item, header.options);
    if has(bytes, hash) {
        return BloomAdd::Present;
    }
    let count = filters(bytes);
    let mut link = BloomLink::read(bytes, count - 1);
    if link.size >= link.capacity {
        return if header.options & FIXED == 0 { BloomAdd::NeedsFilter } else { BloomAdd::Full };
    }
    let start = bytes.len() - link.bytes as usize;
    let bits = &mut bytes[start..];
    for bit in link.bits_of(hash) {
        bits[(bit >> 3) as usize] |= 1 << (bit & 7);
    }
    link.size += 1;
    header.size = header.size.wrapping_add(1);
    link.write(bytes, count - 1);
    header.write(bytes, count);
    BloomAdd::Added
}

/// Returns the bytes with one more filter.
///
/// # Errors
/// [`NotAllocated`] if the error rate cannot be halved once more, or the memory is not available.
pub(crate) fn grown(bytes: &[u8]) -> Result<Vec<u8>, NotAllocated> {
    let (header, count) = (BloomHeader::read(bytes), filters(bytes));
    let last = BloomLink::read(bytes, count - 1);
    let capacity = last.capacity.saturating_mul(u64::from(header.expansion));
    let link = BloomLink::new(capacity, last.error * TIGHTENING, header.options)?;
    if count == FILTERS_MAX {
        return Err(NotAllocated::Invalid);
    }
    let mut longer = zeroed((bytes.len() + LINK) as u64 + link.bytes)?;
    let data = data_at(count);
    longer[..data].copy_from_slice(&bytes[..data]);
    longer[data + LINK..][..bytes.len() - data].copy_from_slice(&bytes[data..]);
    header.write(&mut longer, count + 1);
    link.write(&mut longer, count);
    Ok(longer)
}

/// Returns the number of filters in the chain.
pub(crate) fn filters(bytes: &[u8]) -> usize {
    u32_at(bytes, FILTERS) as usize
}

/// Returns the number of items added.
pub(crate) fn items(bytes: &[u8]) -> u64 {
    BloomHeader::read(bytes).size
}

/// Returns the number of items for which there is room in all filters.
pub(crate) fn capacity(bytes: &[u8]) -> u64 {
    links(bytes).fold(0, |all, (link, _)| all.wrapping_add(link.capacity))
}

/// Returns the relative capacity of each new filter; `None` if none is added.
pub(crate) fn expansion(bytes: &[u8]) -> Option<u32> {
    let header = BloomHeader::read(bytes);
    (header.options & FIXED == 0).then_some(header.expansion)
}

/// Returns the number of bits of the hashes.
pub(crate) fn hash_width(bytes: &[u8]) -> u32 {
    if BloomHeader::read(bytes).options & HASH_64 == 0 { 32 } else { 64 }
}

/// Returns the size that Redis would report.
pub(crate) fn reported_size(bytes: &[u8]) -> u64 {
    links(bytes).fold(REPORTED_CHAIN, |all, (link, _)| all + REPORTED_LINK + link.bytes)
}

/// Returns the filters with their bits.
pub(crate) fn links(bytes: &[u8]) -> impl Iterator<Item = (BloomLink, &[u8])> {
    let mut rest = &bytes[data_at(filters(bytes))..];
    (0..filters(bytes)).map(move |number| {
        let link = BloomLink::read(bytes, number);
        let (bits, others) = rest.split_at(link.bytes as usize);
        rest = others;
        (link, bits)
    })
}

/// Returns the first part of a dump.
pub(crate) fn header(bytes: &[u8]) -> &[u8] {
    &bytes[..data_at(filters(bytes))]
}

/// Returns the part of a dump at an iterator, and the next iterator; `None` at the end.
pub(crate) fn chunk(bytes: &[u8], iterator: i64) -> Option<(i64, &[u8])> {
    let (range, offset) = link_at(bytes, iterator)?;
    let rest = &bytes[range][offset..];
    let part = &rest[..rest.len().min(CHUNK_MAX)];
    Some((iterator + part.len() as i64, part))
}

/// Creates a filter by the first part of a dump; its bits follow in chunks.
///
/// # Errors
/// [`NotAllocated`] if the header is damaged, or the memory is not available.
pub(crate) fn of_header(header: &[u8]) -> Result<Vec<u8>, NotAllocated> {
    let len = len_by_header(header)?;
    let mut bytes = zeroed(len)?;
    bytes[..header.len()].copy_from_slice(header);
    Ok(bytes)
}

/// Overwrites the bits with a chunk of a dump, whose iterator is that of the next one.
///
/// # Errors
/// [`BadChunk`] if the chunk has no place in the filter.
pub(crate) fn load_chunk(bytes: &mut [u8], iterator: i64, chunk: &[u8]) -> Result<(), BadChunk> {
    let start =
        usize::try_from(iterator).ok().and_then(|end| end.checked_sub(chunk.len())).ok_or(BadChunk::Position)?;
    if iterator <= 0 {
        return Err(BadChunk::Position);
    }
    let (range, offset) = link_at(bytes, start as i64).ok_or(BadChunk::Offset)?;
    bytes[range][offset..].get_mut(..chunk.len()).ok_or(BadChunk::Length)?.copy_from_slice(chunk);
    Ok(())
}

/// Creates a filter of parts that were read from a dump: its header, and its filters with their bits.
pub(crate) fn of_parts(header: BloomHeader, links: &[(BloomLink, Vec<u8>)]) -> Option<Vec<u8>> {
    if links.is_empty() || links.len() > FILTERS_MAX {
        return None;
    }
    let mut head = vec![0; data_at(links.len())];
    header.write(&mut head, links.len());
    for (number, (link, _)) in links.iter().enumerate() {
        link.write(&mut head, number);
    }
    let len = len_by_header(&head).ok()?;
    let mut bytes = zeroed(len).ok()?;
    let (start, mut rest) = bytes.split_at_mut(head.len());
    start.copy_from_slice(&head);
    for (_, bits) in links {
        let (place, others) = rest.split_at_mut_checked(bits.len())?;
        place.copy_from_slice(bits);
        rest = others;
    }
    rest.is_empty().then_some(bytes)
}

/// Verifies a header; returns the length of the filter with its bits.
fn len_by_header(header: &[u8]) -> Result<u64, NotAllocated> {
    let links = header.get(HEADER..).ok_or(NotAllocated::Invalid)?;
    let count = filters(header);
    let is_whole = links.len() == count.saturating_mul(LINK) && count > 0 && count <= FILTERS_MAX;
    let chain = BloomHeader::read(header);
    if !is_whole || chain.options & !OPTIONS != 0 {
        return Err(NotAllocated::Invalid);
    }
    let (mut size, mut len) = (0u64, header.len() as u64);
    for number in 0..count {
        let link = BloomLink::read(header, number);
        size = size.checked_add(link.size).filter(|_| link.is_valid()).ok_or(NotAllocated::Invalid)?;
        len = len.saturating_add(link.bytes);
    }
    if size != chain.size {
        return Err(NotAllocated::Invalid);
    }
    if len > BYTES_MAX { Err(NotAllocated::Memory) } else { Ok(len) }
}

/// Returns the range of the filter at an iterator, and the offset in it.
fn link_at(bytes: &[u8], iterator: i64) -> Option<(Range<usize>, usize)> {
    let mut offset = u64::try_from(iterator).ok()?.checked_sub(1)?;
    let mut start = data_at(filters(bytes));
    for (link, bits) in links(bytes) {
        if offset < link.bytes {
            return Some((start..start + bits.len(), offset as usize));
        }
        offset -= link.bytes;
        start += bits.len();
    }
    None
}

/// Returns the position of the bits behind the headers.
fn data_at(count: usize) -> usize {
    HEADER + count * LINK
}

impl BloomHeader {
    fn read(bytes: &[u8]) -> Self {
        BloomHeader { size: u64_at(bytes, 0), options: u32_at(bytes, 12), expansion: u32_at(bytes, 16) }
    }

    /// Returns the header of a filter.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::read(bytes)
    }

    fn write(self, bytes: &mut [u8], count: usize) {
        put(bytes, 0, self.size.to_le_bytes());
        put(bytes, FILTERS, (count as u32).to_le_bytes());
        put(bytes, 12, self.options.to_le_bytes());
        put(bytes, 16, self.expansion.to_le_bytes());
    }
}

impl BloomLink {
    /// Computes the sizes of an empty filter.
    fn new(capacity: u64, error: f64, options: u32) -> Result<Self, NotAllocated> {
        // Also false for an error rate that is not a number.
        let is_possible = capacity > 0 && error > 0.0 && error < 1.0;
        if !is_possible {
            return Err(NotAllocated::Invalid);
        }
        let bits_per_item = (error.ln() / LN_2_SQUARED).abs();
        let wanted = capacity as f64 * bits_per_item;
        let (bits, capacity, exponent) = if options & BITS_GIVEN != 0 {
            let bits = u32::try_from(capacity).ok().and_then(|exponent| 1u64.checked_shl(exponent));
            let bits = bits.ok_or(NotAllocated::Invalid)?;
            (bits, (bits as f64 / bits_per_item) as u64, capacity as u8)
        } else if options & NOT_ROUNDED != 0 {
            ((wanted as u64).max(1), capacity, 0)
        } else {
            let exponent = wanted.log2().floor().max(0.0) + 1.0;
            let bits = 1u64.checked_shl(exponent as u32).ok_or(NotAllocated::Invalid)?;
            let more = ((bits as f64 - wanted) as u64) as f64 / bits_per_item;
            (bits, capacity.saturating_add(more as u64), exponent as u8)
        };
        let bytes = bits.div_ceil(64).saturating_mul(8);
        if bytes > BYTES_MAX {
            return Err(NotAllocated::Memory);
        }
        let hashes = (LN_2 * bits_per_item).ceil() as u32;
        Ok(BloomLink { bytes, bits: bytes * 8, size: 0, error, bits_per_item, hashes, capacity, exponent })
    }

    /// Returns true if the sizes agree, and no item has a bit outside of the bytes.
    fn is_valid(&self) -> bool {
        let is_rate = self.error > 0.0 && self.error < 1.0;
        let holds = self.exponent == 0 || self.exponent < 64 && self.bits >= 1 << self.exponent;
        let is_whole = self.bits != 0 && self.bytes.checked_mul(8) == Some(self.bits);
        let hashes = (LN_2 * self.bits_per_item).ceil();
        is_rate && holds && is_whole && self.hashes <= HASHES_MAX && hashes == f64::from(self.hashes)
    }

    fn read(bytes: &[u8], number: usize) -> Self {
        let at = data_at(number);
        BloomLink {
            bytes: u64_at(bytes, at),
            bits: u64_at(bytes, at + 8),
            size: u64_at(bytes, at + LINK_SIZE),
            error: f64_at(bytes, at + 24),
            bits_per_item: f64_at(bytes, at + 32),
            hashes: u32_at(bytes, at + 40),
            capacity: u64_at(bytes, at + 44),
            exponent: array_at::<1>(bytes, at + 52)[0],
        }
    }

    fn write(&self, bytes: &mut [u8], number: usize) {
        let at = data_at(number);
        put(bytes, at, self.bytes.to_le_bytes());
        put(bytes, at + 8, self.bits.to_le_bytes());
        put(bytes, at + LINK_SIZE, self.size.to_le_bytes());
        put(bytes, at + 24, self.error.to_le_bytes());
        put(bytes, at + 32, self.bits_per_item.to_le_bytes());
        put(bytes, at + 40, self.hashes.to_le_bytes());
        put(bytes, at + 44, self.capacity.to_le_bytes());
        put(bytes, at + 52, [self.exponent]);
    }

    /// Returns the numbers of the bits of an item.
    fn bits_of(&self, hash: ItemHash) -> impl Iterator<Item = u64> + use<> {
        let (bits, mask) = (self.bits, (1u64 << self.exponent) - 1);
        (0..u64::from(self.hashes)).map(move |number| {
            let mixed = hash.first.wrapping_add(number.wrapping_mul(hash.second));
            if mask == 0 { mixed % bits } else { mixed & mask }
        })
    }

    /// Returns true if all bits of an item are set.
    fn has(&self, bits: &[u8], hash: ItemHash) -> bool {
        self.bits_of(hash).all(|bit| bits[(bit >> 3) as usize] & 1 << (bit & 7) != 0)
    }
}

/// The two hashes of an item, from which the numbers of its bits are computed.
#[derive(Clone, Copy)]
struct ItemHash {
    first: u64,
    second: u64,
}

impl ItemHash {
    fn of(item: &[u8], options: u32) -> Self {
        if options & HASH_64 == 0 {
            let first = murmur_hash_32(item, 0x9747_b28c);
            return ItemHash { first: u64::from(first), second: u64::from(murmur_hash_32(item, first)) };
        }
        let first = murmur_hash_64a(item, 0xc6a4_a793_5bd1_e995);
        ItemHash { first, second: murmur_hash_64a(item, first) }
    }
}
