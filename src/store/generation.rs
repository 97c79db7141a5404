//! Generation of the admission state: pauses, users, restrictions, clients that were told to close.
//!
//! A batch looks at that state once, before it acquires the gate. Code that publishes a change of the state renews the
//! generation, and then acquires and releases the gate exclusively before it replies (the *barrier*). A batch compares
//! the generation with the one it has read, after each time that it acquires the gate. So a call admitted by the former
//! state is over before the reply, or is not made: either the barrier has waited for the batch to release the gate, or
//! the batch has acquired the gate after the barrier and sees the new generation. `tests/loom` checks every
//! interleaving.

use crate::store::sync::{AtomicU64, Ordering};

/// A number that grows with each change of the admission state.
#[derive(Debug)]
pub(crate) struct Generation(AtomicU64);

impl Generation {
    /// Creates the first generation.
    pub(crate) fn first() -> Self {
        Generation(AtomicU64::new(0))
    }

    /// Returns the present generation: changes published before it began are visible to the caller. The generation must
    /// be read before the admission state.
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
