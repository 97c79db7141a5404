//! The allocator of the `keylatch` binary, for benchmarks that run the server in their own process.

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: keylatch::Jemalloc = keylatch::Jemalloc;
