//! The tokens that the clients of a namespace hold locks with.

use std::sync::Arc;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use parking_lot::Mutex;

use crate::store::MemoryAccount;

/// Number of parts that the tokens are divided into, each with a mutex of its own.
const PARTS: usize = 16;

/// Hashes of the tokens that hold locks, each with the number of its locks. The search for deadlocks reads them: a
/// client that waits and holds no lock cannot be part of a cycle.
///
/// Lock order: a shard, then a part.
#[derive(Default)]
pub(crate) struct HeldTokens {
    parts: [Mutex<HashTable<(u64, u32)>>; PARTS],
    memory_account: Arc<MemoryAccount>,
}

impl HeldTokens {
    /// Creates an empty set, whose memory is reported as used memory.
    pub(crate) fn new(memory_account: Arc<MemoryAccount>) -> Self {
        HeldTokens { memory_account, ..HeldTokens::default() }
    }

    /// Returns true if any lock is held with a token.
    pub(crate) fn contains(&self, token: u64) -> bool {
        self.part(token).lock().find(token, |(other, _)| *other == token).is_some()
    }

    /// Counts a lock that is held with a token from now on, or not any more.
    pub(super) fn count(&self, token: u64, is_held: bool) {
        let mut part = self.part(token).lock();
        let before = part.allocation_size();
        match part.entry(token, |(other, _)| *other == token, |(token, _)| *token) {
            Entry::Occupied(mut slot) => match (is_held, slot.get().1) {
                (true, count) => slot.get_mut().1 = count + 1,
                (false, 1) => _ = slot.remove(),
                (false, count) => slot.get_mut().1 = count - 1,
            },
            Entry::Vacant(slot) if is_held => _ = slot.insert((token, 1)),
            Entry::Vacant(_) => {}
        }
        if part.capacity() > 8 * part.len() {
            let len = part.len();
            part.shrink_to(2 * len, |(token, _)| *token);
        }
        if part.allocation_size() != before {
            self.memory_account.report_outside(before, part.allocation_size());
        }
    }

    fn part(&self, token: u64) -> &Mutex<HashTable<(u64, u32)>> {
        &self.parts[(token >> 32) as usize % PARTS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_held_as_long_as_any_lock_is_held_with_it() {
        let tokens = HeldTokens::default();
        (0..1000).for_each(|token| tokens.count(token << 20, true));
        tokens.count(7 << 20, true);
        tokens.count(7 << 20, false);
        assert!(tokens.contains(7 << 20) && !tokens.contains(7));
        (0..1000).for_each(|token| tokens.count(token << 20, false));
        assert!((0..1000).all(|token| !tokens.contains(token << 20)));
        assert!(tokens.parts.iter().all(|part| part.lock().allocation_size() == 0), "its memory is given back");
    }
}
