//! Heap usage of data structures, the binary's allocator and its statistics.

#[cfg(feature = "jemalloc")]
pub(crate) mod global;
pub(crate) mod heap;
pub(crate) mod marked;
pub(crate) mod ordered_map;
pub(crate) mod slab;

/// Statistics of the allocator, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct AllocatorStats {
    /// Name and version of the allocator.
    pub name: &'static str,
    /// Bytes allocated and not freed.
    pub allocated: usize,
    /// Bytes in pages with at least one allocation.
    pub active: usize,
    /// Bytes in pages that are mapped to physical memory.
    pub resident: usize,
    /// Bytes in pages that the operating system may reclaim but has not yet.
    pub muzzy: usize,
    /// Function that returns unused pages to the operating system; false on failure.
    pub purge: fn() -> bool,
    /// Function that runs a closure with the calling thread's cache of freed allocations disabled.
    pub without_cache: fn(&mut dyn FnMut()),
    /// Function that returns the allocator's own statistics report.
    pub report: fn() -> String,
}
