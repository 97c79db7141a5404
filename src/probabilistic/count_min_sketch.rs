//! Count-min sketches: rows of counters, of which an item has one in each row; the smallest is its count.
//!
//! ```text
//! width u64 | depth u64 | count u64 | counters u32 ...
//! ```

#[cfg(test)]
mod tests;

use crate::murmur::murmur_hash_32;
use crate::probabilistic::{NotAllocated, i64_at, put, u32_at, u64_at, zeroed};

/// Length of the header.
const HEADER: usize = 24;
/// Length of a counter.
const COUNTER: usize = 4;
/// Position of the count of all items in the header.
const COUNT: usize = 16;
/// Maximum number of rows, which an item's counters are looked up in.
const DEPTH_MAX: u64 = 1 << 16;

/// Creates an empty sketch.
///
/// # Errors
/// [`NotAllocated`] if a dimension is 0, or the memory is not available.
pub(crate) fn create(width: u64, depth: u64) -> Result<Vec<u8>, NotAllocated> {
    if width == 0 || depth == 0 {
        return Err(NotAllocated::Invalid);
    }
    let counters = width.checked_mul(depth).filter(|_| depth <= DEPTH_MAX);
    let len = counters.and_then(|counters| counters.checked_mul(COUNTER as u64)).ok_or(NotAllocated::Memory)?;
    let mut bytes = zeroed(len.saturating_add(HEADER as u64))?;
    put(&mut bytes, 0, width.to_le_bytes());
    put(&mut bytes, 8, depth.to_le_bytes());
    Ok(bytes)
}

/// Returns width and depth of a sketch whose counts are at most an error, relative to the count of all items, too high,
/// except with a probability.
pub(crate) fn dimensions(error: f64, probability: f64) -> (u64, u64) {
    let width = (2.0 / error).ceil();
    let depth = ((probability as f32).log10() / 0.5f32.log10()).ceil();
    (width as u64, depth as u64)
}

pub(crate) fn width(bytes: &[u8]) -> u64 {
    u64_at(bytes, 0)
}

pub(crate) fn depth(bytes: &[u8]) -> u64 {
    u64_at(bytes, 8)
}

/// Returns the count of all items.
pub(crate) fn total(bytes: &[u8]) -> i64 {
    i64_at(bytes, COUNT)
}

/// Returns the counters, as in a dump.
pub(crate) fn counters(bytes: &[u8]) -> &[u8] {
    &bytes[HEADER..]
}

/// Adds to the count of an item; returns the new count. At the maximum, counters stay.
pub(crate) fn increase(bytes: &mut [u8], item: &[u8], by: u64) -> u32 {
    let width = width(bytes);
    let mut count = u32::MAX;
    for row in 0..depth(bytes) {
        let at = position(width, row, item);
        let counter = u64::from(u32_at(bytes, at)).saturating_add(by).min(u64::from(u32::MAX)) as u32;
        put(bytes, at, counter.to_le_bytes());
        count = count.min(counter);
    }
    let total = total(bytes).wrapping_add_unsigned(by);
    put(bytes, COUNT, total.to_le_bytes());
    count
}

/// Returns the count of an item, which is never too small.
pub(crate) fn count(bytes: &[u8], item: &[u8]) -> u32 {
    let width = width(bytes);
    let counters = (0..depth(bytes)).map(|row| u32_at(bytes, position(width, row, item)));
    counters.min().unwrap_or_default()
}

/// Returns the weighted sum of sketches of the same dimensions; `None` if a counter would overflow or be negative.
///
/// # Errors
/// [`NotAllocated`] if the memory is not available.
pub(crate) fn merged(sources: &[(&[u8], i64)]) -> Result<Option<Vec<u8>>, NotAllocated> {
    let (first, _) = sources.first().ok_or(NotAllocated::Invalid)?;
    let mut bytes = create(width(first), depth(first))?;
    let sum_of = |value_of: &dyn Fn(&[u8]) -> i128| {
        sources.iter().try_fold(0i64, |sum, (source, weight)| {
            let product = i64::try_from(value_of(source) * i128::from(*weight)).ok()?;
            sum.checked_add(product)
        })
    };
    // A count that is shown as negative has overflowed; it is added as what it is without a sign.
    let total = sum_of(&|source| i128::from(total(source) as u64)).filter(|total| *total >= 0);
    let Some(total) = total else { return Ok(None) };
    put(&mut bytes, COUNT, total.to_le_bytes());
    for at in (HEADER..bytes.len()).step_by(COUNTER) {
        match sum_of(&|source| i128::from(u32_at(source, at))).map(u32::try_from) {
            Some(Ok(0)) => {}
            Some(Ok(counter)) => put(&mut bytes, at, counter.to_le_bytes()),
            _ => return Ok(None),
        }
    }
    Ok(Some(bytes))
}

/// Creates a sketch of parts that were read from a dump.
pub(crate) fn of_parts(width: u64, depth: u64, total: u64, counters: &[u8]) -> Option<Vec<u8>> {
    let expected = width.checked_mul(depth)?.checked_mul(COUNTER as u64)?;
    if expected != counters.len() as u64 {
        return None;
    }
    let mut bytes = create(width, depth).ok()?;
    put(&mut bytes, COUNT, total.to_le_bytes());
    bytes[HEADER..].copy_from_slice(counters);
    Some(bytes)
}

/// Returns the position of an item's counter in a row.
fn position(width: u64, row: u64, item: &[u8]) -> usize {
    let column = u64::from(murmur_hash_32(item, row as u32)) % width;
    HEADER + (row * width + column) as usize * COUNTER
}
