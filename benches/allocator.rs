//! The allocator of the `keylatch` binary, for benchmarks that run the server in their own process.

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
