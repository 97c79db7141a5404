//! The locks that a client holds, and the tokens that the clients of a namespace hold locks with.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use parking_lot::Mutex;

use crate::memory::heap::allocation_len;
use crate::memory::ordered_map::OrderedMap;
use crate::store::{KeyName, MemoryAccount};

/// Number of locks that a client holds, and the locks that are released when its connection closes.
///
/// Lock order: a shard, then these.
pub(super) struct ClientLocks {
    held: AtomicUsize,
    /// The tokens of all clients that hold locks.
    tokens: Arc<HeldTokens>,
    /// Boxed, because it is rarely set, and part of every client.
    bound: Mutex<Option<Box<Bound>>>,
}

/// Locks bound to the connection, each with the number of its holds by this client: a shared lock may be held with
/// several tokens.
type Bound = OrderedMap<KeyName, usize>;

/// Returns the memory of the name of a bound lock.
fn bound_len(key: &[u8]) -> usize {
    allocation_len(key.len()) + Bound::entry_len()
}

impl ClientLocks {
    /// Creates the state of a client that holds no locks.
    pub(super) fn new(tokens: Arc<HeldTokens>) -> Self {
        ClientLocks { held: AtomicUsize::new(0), tokens, bound: Mutex::default() }
    }

    pub(super) fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// Counts a lock that is held from now on, or not any more, by the hash of its token.
    pub(super) fn count(&self, token: u64, is_held: bool) {
        self.tokens.count(token, is_held);
        if is_held {
            self.held.fetch_add(1, Relaxed);
        } else {
            self.held.fetch_sub(1, Relaxed);
        }
    }

    /// Binds a lock to the connection, so that it is released with it; reports the memory, and returns its growth in
    /// bytes.
    pub(super) fn bind(&self, db: usize, key: &[u8], memory_account: &MemoryAccount) -> isize {
        let (mut bound, name) = (self.bound.lock(), (db, key.into()));
        let bound = bound.get_or_insert_with(|| Box::new(Bound::EMPTY));
        if let Some(count) = bound.get_mut(&name) {
            *count += 1;
            return 0;
        }
        bound.insert(name, 1);
        memory_account.report_outside(0, bound_len(key));
        bound_len(key) as isize
    }

    /// Reverts [`ClientLocks::bind`]; returns the growth of the memory in bytes, which is negative.
    pub(super) fn unbind(&self, db: usize, key: &[u8], memory_account: &MemoryAccount) -> isize {
        let (mut all, name) = (self.bound.lock(), (db, key.into()));
        let Some(bound) = &mut *all else { return 0 };
        match bound.get_mut(&name) {
            None => return 0,
            Some(1) => _ = bound.remove(&name),
            Some(count) => {
                *count -= 1;
                return 0;
            }
        }
        all.take_if(|bound| bound.is_empty());
        memory_account.report_outside(bound_len(key), 0);
        -(bound_len(key) as isize)
    }

    /// Returns true if any lock is bound to the connection.
    pub(super) fn is_any_bound(&self) -> bool {
        self.bound.lock().is_some()
    }

    /// Returns the locks bound to the connection.
    pub(super) fn bound(&self) -> Vec<KeyName> {
        self.bound.lock().iter().flat_map(|bound| bound.keys().cloned()).collect()
    }
}

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
