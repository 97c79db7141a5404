//! The generation of what calls are admitted by: pauses, users, restrictions, clients that were told to close.
//!
//! A batch looks at all that once, before it has the gate. Who publishes a change of it renews the generation, and then
//! acquires and releases the gate exclusively before it replies (the *barrier*). A batch compares the generation with the
//! one it has looked at, after each time that it acquires the gate. So a call by the former state is over before the
//! reply, or is not made: either the barrier has waited for the batch to release the gate, or the batch has acquired the
//! gate after the barrier and sees the new generation. `tests/loom` checks every interleaving.

use crate::store::sync::{AtomicU64, Ordering};

/// A number that is larger after each change of what calls are admitted by.
#[derive(Debug)]
pub(crate) struct Generation(AtomicU64);

impl Generation {
    /// Creates the first generation.
    pub(crate) fn first() -> Self {
        Generation(AtomicU64::new(0))
    }

    /// Returns the present generation: what was published before it began is visible to the caller. To be read before
    /// that is looked at.
    #[inline]
    pub(crate) fn present(&self) -> u64 {
        // SeqCst, because a busy script lets publishers pass without the gate; as cheap as Acquire for a load.
        self.0.load(Ordering::SeqCst)
    }

    /// Begins a new generation: the caller has published a change.
    pub(crate) fn renew(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
