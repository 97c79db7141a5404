//! The locks of the protocols between threads that are our own: parking_lot's here, loom's in `tests/loom.rs`.

pub(super) use parking_lot::Mutex;
