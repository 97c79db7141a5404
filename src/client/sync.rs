//! Locks and atomics of the protocols between threads: those of parking_lot and the standard library here, loom's in
//! `tests/loom`.

pub(super) use std::sync::atomic::{AtomicUsize, Ordering, fence};

pub(super) use parking_lot::Mutex;
