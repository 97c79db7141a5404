//! What things take on the heap, and what the allocator holds beyond that.

pub(crate) mod allocator;
pub(crate) mod heap;
