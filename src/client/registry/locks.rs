//! The locks of a client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::client::registry::{ClientInfo, Clients};
use crate::memory::heap::allocation_len;
use crate::memory::ordered_map::OrderedMap;
use crate::store::LockHolder;

/// A lock's database and key.
pub(crate) type LockName = (usize, Box<[u8]>);

/// How many locks a client holds, and which of them its connection's end releases.
///
/// Lock order: a shard, then these.
#[derive(Default)]
pub(super) struct ClientLocks {
    held: AtomicUsize,
    #[allow(clippy::box_collection, reason = "rarely there, and part of every client")]
    bound: Mutex<Option<Box<OrderedMap<LockName, ()>>>>,
}

/// The clients in line for locks, or about to be, each with the hash of its token: first the token, then the client.
#[derive(Default)]
pub(super) struct InLine(Mutex<OrderedMap<(u64, u64), ()>>);

/// The memory of a client in [`InLine`].
const PLACE_LEN: isize = OrderedMap::<(u64, u64), ()>::entry_len() as isize;

/// Returns the memory of a name in [`ClientLocks`].
fn bound_len(key: &[u8]) -> usize {
    allocation_len(key.len()) + OrderedMap::<LockName, ()>::entry_len()
}

impl LockHolder for ClientInfo {
    fn id(&self) -> u64 {
        self.id
    }

    fn is_gone(&self) -> bool {
        self.outbox.is_ending()
    }

    fn count_lock(&self, is_held: bool) {
        match is_held {
            true => self.locks.held.fetch_add(1, Relaxed),
            false => self.locks.held.fetch_sub(1, Relaxed),
        };
    }

    fn bind_lock(&self, db: usize, key: &[u8]) {
        if self.locks.bound.lock().get_or_insert_default().insert((db, key.into()), ()).is_none() {
            self.add_kept_len(bound_len(key) as isize);
        }
    }

    fn unbind_lock(&self, db: usize, key: &[u8]) {
        let mut bound = self.locks.bound.lock();
        if let Some(names) = &mut *bound {
            if names.remove(&(db, Box::from(key))).is_some() {
                self.add_kept_len(-(bound_len(key) as isize));
            }
            if names.is_empty() {
                *bound = None;
            }
        }
    }
}

impl ClientInfo {
    /// Returns how many locks the client holds through `LOCK.*`.
    pub(crate) fn held_locks(&self) -> usize {
        self.locks.held.load(Relaxed)
    }

    /// Returns whether the client waits in line for a lock, or is about to.
    pub(crate) fn is_in_line(&self) -> bool {
        self.is_in_line.load(Relaxed)
    }

    /// Returns whether locks are released when its connection closes.
    pub(crate) fn has_bound_locks(&self) -> bool {
        self.locks.bound.lock().is_some()
    }

    /// Returns the locks that are released when its connection closes.
    pub(crate) fn bound_locks(&self) -> Vec<LockName> {
        self.locks.bound.lock().iter().flat_map(|names| names.keys().cloned()).collect()
    }

    /// Returns the client as the holder of a lock.
    pub(crate) fn as_lock_holder(self: &Arc<Self>) -> Arc<dyn LockHolder> {
        self.clone()
    }
}

impl Clients {
    /// Records that a client waits in line with a token, or is about to. Of two clients that do so at the same time and
    /// look for each other afterwards, at least one finds the other.
    pub(crate) fn enter_line(&self, info: &ClientInfo, token: u64) {
        let mut in_line = self.in_line.0.lock();
        if in_line.insert((token, info.id), ()).is_none() {
            info.add_kept_len(PLACE_LEN);
        }
        info.is_in_line.store(true, Relaxed);
    }

    /// Reverts [`Clients::enter_line`].
    pub(crate) fn leave_line(&self, info: &ClientInfo, token: u64) {
        let mut in_line = self.in_line.0.lock();
        if in_line.remove(&(token, info.id)).is_some() {
            info.add_kept_len(-PLACE_LEN);
        }
        info.is_in_line.store(false, Relaxed);
    }

    /// Returns the clients that wait in line with a token, or are about to.
    pub(crate) fn in_line_with(&self, token: u64) -> Vec<u64> {
        self.in_line.0.lock().range((token, 0)..=(token, u64::MAX)).map(|((_, client), ())| *client).collect()
    }

    /// Returns whether any does.
    pub(crate) fn is_any_in_line_with(&self, token: u64) -> bool {
        self.in_line.0.lock().range((token, 0)..=(token, u64::MAX)).next().is_some()
    }
}
