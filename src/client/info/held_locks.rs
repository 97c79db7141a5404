//! The locks that a client holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::client::info::held_tokens::HeldTokens;
use crate::memory::heap::allocation_len;
use crate::memory::ordered_map::OrderedMap;
use crate::store::MemoryAccount;

/// A lock's database and key.
pub(crate) type LockName = (usize, Box<[u8]>);

/// How many locks a client holds, and which of them its connection's end releases.
///
/// Lock order: a shard, then these.
pub(super) struct ClientLocks {
    held: AtomicUsize,
    /// The tokens of all clients that hold locks.
    tokens: Arc<HeldTokens>,
    /// Rarely there, and part of every client.
    bound: Mutex<Option<Box<Bound>>>,
}

/// The locks that the connection's end releases, each with how often the client holds it: a shared one by several tokens.
type Bound = OrderedMap<LockName, usize>;

/// Returns the memory of the name of a lock that the connection's end releases.
fn bound_len(key: &[u8]) -> usize {
    allocation_len(key.len()) + Bound::entry_len()
}

impl ClientLocks {
    /// Creates those of a client that holds none.
    pub(super) fn new(tokens: Arc<HeldTokens>) -> Self {
        ClientLocks { held: AtomicUsize::new(0), tokens, bound: Mutex::default() }
    }

    /// Returns how many are held.
    pub(super) fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// Counts one that is held from now on, or not any more, by the hash of its token.
    pub(super) fn count(&self, token: u64, is_held: bool) {
        self.tokens.count(token, is_held);
        match is_held {
            true => self.held.fetch_add(1, Relaxed),
            false => self.held.fetch_sub(1, Relaxed),
        };
    }

    /// Lets the connection's end release one; reports its memory, and returns by how many bytes that has grown.
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

    /// Reverts [`ClientLocks::bind`]; returns by how many bytes this has grown, which is negative.
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

    /// Returns whether the connection's end releases any.
    pub(super) fn is_any_bound(&self) -> bool {
        self.bound.lock().is_some()
    }

    /// Returns those that the connection's end releases.
    pub(super) fn bound(&self) -> Vec<LockName> {
        self.bound.lock().iter().flat_map(|bound| bound.keys().cloned()).collect()
    }
}
