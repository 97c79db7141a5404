//! The locks and atomics used by our own protocols between threads: parking_lot's and the standard library's here, loom's
//! in `tests/loom`.

pub(super) use std::sync::atomic::{AtomicUsize, Ordering, fence};

pub(super) use parking_lot::Mutex;
