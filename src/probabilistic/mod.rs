//! Probabilistic data structures, each in one flat string of bytes: a header and arrays, little-endian, without pointers
//! and without alignment.
//!
//! A file for each structure has functions that read the bytes and functions that change them in place. A change that
//! needs more room says so and changes nothing; the caller then replaces the bytes by longer ones, and repeats it.
//! Hash functions and layouts are those of RedisBloom, so that dumps can be exchanged with Redis.
//!
//! Invariant: all bytes passed to these functions were made by them, or verified by one of the functions that read
//! foreign bytes (`of_header`, `of_parts`). These refuse what would index outside of the bytes, allocate more than
//! [`BYTES_MAX`], or take more than some milliseconds for one item.

pub(crate) mod bloom;
pub(crate) mod count_min_sketch;
pub(crate) mod cuckoo;
pub(crate) mod t_digest;
#[cfg(test)]
mod testing;
pub(crate) mod top_k;

use zerocopy::FromZeros;

/// Maximum length of one structure: 4 GiB of arrays, and headers. A Bloom filter of the largest capacity that can be
/// reserved, 2^30 items, fits down to an error rate of 0.0000002.
pub(crate) const BYTES_MAX: u64 = (1 << 32) + (1 << 17);

/// The longest chunk of a dump.
pub(crate) const CHUNK_MAX: usize = 16 << 20;

/// The error of a structure that is not created or does not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAllocated {
    /// The parameters, or the bytes of a header, permit no structure.
    Invalid,
    /// The memory is not available, or more than [`BYTES_MAX`].
    Memory,
}

/// The error of a chunk that does not belong to a dump of the structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadChunk {
    /// The iterator is too small for the length of the chunk.
    Position,
    /// The iterator names no part of the structure.
    Offset,
    /// The chunk is longer than the rest of the part.
    Length,
}

/// Allocates zeroed bytes, which the operating system need not touch before they are written.
fn zeroed(len: u64) -> Result<Vec<u8>, NotAllocated> {
    if len > BYTES_MAX {
        return Err(NotAllocated::Memory);
    }
    let len = usize::try_from(len).map_err(|_| NotAllocated::Memory)?;
    u8::new_vec_zeroed(len).map_err(|_| NotAllocated::Memory)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    i64::from_le_bytes(array_at(bytes, at))
}

fn f64_at(bytes: &[u8], at: usize) -> f64 {
    f64::from_le_bytes(array_at(bytes, at))
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("lengths were verified when the bytes were made")
}

/// Writes a part of the bytes.
fn put<const N: usize>(bytes: &mut [u8], at: usize, part: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&part);
}
