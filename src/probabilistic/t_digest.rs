//! t-digests: clusters of observations, small ones at both ends, by which quantiles are estimated.
//!
//! ```text
//! compression f64 | smallest f64 | largest f64 | capacity u32 | merged u32 | unmerged u32 | 0 u32 |
//! compressions i64 | merged weight i64 | unmerged weight i64 | (mean f64 | weight i64) of each node ...
//! ```
//!
//! Observations are appended as nodes, and merged into clusters when the capacity is reached. To read, a copy is merged:
//! no command that reads changes a value.

mod read;
mod state;
#[cfg(test)]
mod tests;

use crate::probabilistic::NotAllocated;
use state::{compress, room};

pub(crate) use read::Clusters;
pub(crate) use state::{
    DigestAdd, DigestHeader, Node, add, create, is_compression, of_parts, reset, sorted_nodes, with_room,
};

/// Merges digests into a new one.
///
/// # Errors
/// [`NotAllocated`] if the memory is not available, or, as `Invalid`, if the sum of the weights would be too large.
pub(crate) fn merged<'b>(compression: f64, sources: impl Iterator<Item = &'b [u8]>) -> Result<Vec<u8>, NotAllocated> {
    let mut bytes = create(compression)?;
    for source in sources {
        compress(&mut bytes);
        for (mean, weight) in Clusters::of(source).nodes {
            while add(&mut bytes, mean, weight) != DigestAdd::Added {
                if room(&bytes) >= DigestHeader::of(&bytes).capacity as usize {
                    return Err(NotAllocated::Invalid);
                }
                bytes = with_room(&bytes)?;
            }
        }
    }
    Ok(bytes)
}
