//! The probabilistic types: their values in the encodings of RedisBloom.

pub(super) mod bloom;
pub(super) mod count_min_sketch;
pub(super) mod cuckoo;
pub(super) mod t_digest;
pub(super) mod top_k;

/// The name of the encoding of all values.
const ENCODING: &str = "raw";
