//! Stand-in holder of restored locks, one per user.

use std::sync::Arc;

use crate::client::info::HeldTokens;
use crate::client::info::LockName;
use crate::client::info::held_locks::ClientLocks;
use crate::store::{LockHolder, MemoryAccount};

/// Bit in the ids of former clients, which no connected client has in its id.
const FORMER: u64 = 1 << 62;

/// Stand-in for the clients of a user that have acquired locks before the server was started, or at its primary.
pub(crate) struct RestoredHolder {
    id: u64,
    user: Arc<[u8]>,
    locks: ClientLocks,
    memory_account: Arc<MemoryAccount>,
}

impl RestoredHolder {
    /// Creates the stand-in for a user, with a number of its own; its memory is reported as used memory, and `tokens`
    /// are those of all clients that hold locks.
    pub(crate) fn new(number: u64, user: &[u8], memory_account: Arc<MemoryAccount>, tokens: Arc<HeldTokens>) -> Self {
        RestoredHolder { id: FORMER | number, user: user.into(), locks: ClientLocks::new(tokens), memory_account }
    }

    /// Returns the locks that belong to the sessions of the former clients.
    pub(crate) fn bound_locks(&self) -> Vec<LockName> {
        self.locks.bound()
    }
}

impl LockHolder for RestoredHolder {
    fn id(&self) -> u64 {
        self.id
    }

    fn is_gone(&self) -> bool {
        true
    }

    fn user(&self) -> Option<Arc<[u8]>> {
        Some(self.user.clone())
    }

    fn count_lock(&self, token: u64, is_held: bool) {
        self.locks.count(token, is_held);
    }

    fn bind_lock(&self, db: usize, key: &[u8]) {
        self.locks.bind(db, key, &self.memory_account);
    }

    fn unbind_lock(&self, db: usize, key: &[u8]) {
        self.locks.unbind(db, key, &self.memory_account);
    }
}
