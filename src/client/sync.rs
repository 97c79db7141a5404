//! The locks used by our own lock protocols: parking_lot's here, loom's in `tests/loom.rs`.

pub(super) use parking_lot::Mutex;
