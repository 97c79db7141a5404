//! Heap usage of data structures, and the statistics of the allocator.

pub(crate) mod allocator;
pub(crate) mod heap;
