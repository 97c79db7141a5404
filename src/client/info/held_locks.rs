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
type Bound = OrderedMap<LockName, usize>;

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
    pub(super) fn bound(&self) -> Vec<LockName> {
        self.bound.lock().iter().flat_map(|bound| bound.keys().cloned()).collect()
    }
}
