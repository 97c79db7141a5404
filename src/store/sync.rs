//! The atomics of the protocols between threads that are our own: the standard library's here, loom's in `tests/loom.rs`.

pub(super) use std::sync::atomic::{AtomicU64, Ordering};
