//! What things take on the heap, and what the allocator holds beyond that.

pub mod heap;
pub mod resident;
