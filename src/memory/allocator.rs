//! Statistics and operations of the allocator, where it provides them.

/// Statistics of the allocator, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct AllocatorStats {
    /// Its name and version.
    pub name: &'static str,
    /// Allocated and not freed.
    pub allocated: usize,
    /// In pages with at least one allocation.
    pub active: usize,
    /// In pages that are mapped to physical memory.
    pub resident: usize,
    /// In pages that the operating system may reclaim but has not yet.
    pub muzzy: usize,
    /// Returns unused pages to the operating system; false on failure.
    pub purge: fn() -> bool,
    /// Runs a closure with the calling thread's cache of freed allocations disabled.
    pub without_cache: fn(&mut dyn FnMut()),
    /// Returns the allocator's own statistics report.
    pub report: fn() -> String,
}
