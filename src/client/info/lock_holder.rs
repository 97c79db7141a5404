//! A client as the holder of locks.

use std::sync::Arc;

use crate::client::info::{ClientInfo, LockName};
use crate::store::LockHolder;

impl LockHolder for ClientInfo {
    fn id(&self) -> u64 {
        self.id
    }

    fn is_gone(&self) -> bool {
        self.outbox.is_ending()
    }

    fn user(&self) -> Option<Arc<[u8]>> {
        ClientInfo::user(self)
    }

    fn count_lock(&self, token: u64, is_held: bool) {
        self.locks.count(token, is_held);
    }

    fn bind_lock(&self, db: usize, key: &[u8]) {
        self.buffers.add_kept_len(self.locks.bind(db, key, self.outbox.memory_account()));
    }

    fn unbind_lock(&self, db: usize, key: &[u8]) {
        self.buffers.add_kept_len(self.locks.unbind(db, key, self.outbox.memory_account()));
    }
}

impl ClientInfo {
    /// Returns how many locks the client holds through `LOCK.*`.
    pub(crate) fn held_locks(&self) -> usize {
        self.locks.held()
    }

    /// Returns true if locks are released when the client's connection closes.
    pub(crate) fn has_bound_locks(&self) -> bool {
        self.locks.is_any_bound()
    }

    /// Returns the locks that are released when the client's connection closes.
    pub(crate) fn bound_locks(&self) -> Vec<LockName> {
        self.locks.bound()
    }

    /// Returns the client as the holder of a lock.
    pub(crate) fn as_lock_holder(self: &Arc<Self>) -> Arc<dyn LockHolder> {
        self.clone()
    }
}
