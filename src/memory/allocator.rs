//! What the allocator tells of itself, where it is one that can be asked.

/// What the allocator holds, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct AllocatorStats {
    /// Its name and version.
    pub name: &'static str,
    /// Handed out and not given back.
    pub allocated: usize,
    /// In pages that hold any of that.
    pub active: usize,
    /// In pages that the operating system has provided.
    pub resident: usize,
    /// In pages that the operating system may take back, and has not yet.
    pub muzzy: usize,
    /// Has it give back the pages it does not use; returns whether that went well.
    pub purge: fn() -> bool,
    /// Does something without the calling thread's cache of places that it has freed.
    pub without_cache: fn(&mut dyn FnMut()),
    /// Returns what it says of itself, in its own words.
    pub report: fn() -> String,
}
