//! Bloom and cuckoo filters, count-min sketches, Top-K and t-digests. Replies are those of the documentation and tests of
//! Redis' module.

pub mod rows;

#[cfg(feature = "probabilistic")]
mod bloom;
#[cfg(feature = "probabilistic")]
mod count_min_sketch;
#[cfg(feature = "probabilistic")]
mod cuckoo;
#[cfg(feature = "probabilistic")]
mod kept;
#[cfg(feature = "probabilistic")]
mod settings;
#[cfg(feature = "probabilistic")]
mod t_digest;
#[cfg(feature = "probabilistic")]
mod top_k;

/// The error for a key of another type.
#[cfg(feature = "probabilistic")]
const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
