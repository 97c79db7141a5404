//! What things take on the heap, and what the allocator holds beyond that.

pub(crate) mod heap;
pub(crate) mod resident;
