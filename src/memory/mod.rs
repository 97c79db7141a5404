//! Heap usage of data structures, the binary's allocator and its statistics.

pub(crate) mod allocator;
#[cfg(feature = "jemalloc")]
pub(crate) mod global;
pub(crate) mod heap;
pub(crate) mod marked;
pub(crate) mod ordered_map;
pub(crate) mod slab;
