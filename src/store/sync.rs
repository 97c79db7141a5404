//! Atomics of the lock-free protocols: the standard library's here, loom's in `tests/loom`.

pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
