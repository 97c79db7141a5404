//! The holders of locks: a client; a copy of the facts of one that is elsewhere; and the stand-in for the holders of
//! restored locks.

use std::any::Any;
use std::sync::Arc;

use crate::client::info::held_locks::ClientLocks;
use crate::client::info::{ClientInfo, HeldTokens};
use crate::store::{KeyName, LockHolder, MemoryAccount};

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
    pub(crate) fn bound_locks(&self) -> Vec<KeyName> {
        self.locks.bound()
    }

    /// Returns the client as the holder of a lock.
    pub(crate) fn as_lock_holder(self: &Arc<Self>) -> Arc<dyn LockHolder> {
        self.clone()
    }
}

/// Bit in the ids of clients of other processes, which no client of this process has in its id.
const REMOTE: u64 = 1 << 63;

/// Visible facts of a client that holds locks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RemoteClient {
    /// Number of the client's process; `None` for this process.
    pub(crate) process: Option<u64>,
    /// Id of the client in its process.
    pub(crate) id: u64,
    pub(crate) addr: String,
    pub(crate) name: String,
    /// Name of the client's library.
    pub(crate) lib: String,
    /// Name of the client's user.
    pub(crate) user: Vec<u8>,
}

impl RemoteClient {
    /// Returns a copy of a client of this process.
    pub(crate) fn of(client: &ClientInfo) -> Self {
        let names = client.names();
        RemoteClient {
            process: None,
            id: client.id,
            addr: client.peer.addr.to_string(),
            name: names.name.into(),
            lib: names.lib_name.into(),
            user: client.user().map_or_else(Vec::new, |user| user.to_vec()),
        }
    }

    /// Returns a copy of the holder of a lock; `None` if it is no client.
    pub(crate) fn of_holder(holder: &dyn LockHolder) -> Option<Self> {
        let holder = holder as &dyn Any;
        let own = || holder.downcast_ref::<ClientInfo>().map(RemoteClient::of);
        holder.downcast_ref::<RemoteClient>().cloned().or_else(own)
    }
}

/// The process of the client counts its locks, and releases them when its connection closes.
impl RemoteClient {
    /// Returns the ID, in this process, of a client by its process, `None` for this one, and its ID there.
    pub(crate) fn id_in(process: Option<u64>, id: u64) -> u64 {
        match process {
            Some(process) => REMOTE | (process.rotate_left(24) ^ id),
            None => id,
        }
    }
}

impl LockHolder for RemoteClient {
    fn id(&self) -> u64 {
        RemoteClient::id_in(self.process, self.id)
    }

    fn is_gone(&self) -> bool {
        false
    }

    fn user(&self) -> Option<Arc<[u8]>> {
        Some((&*self.user).into())
    }

    fn count_lock(&self, _: u64, _: bool) {}

    fn bind_lock(&self, _: usize, _: &[u8]) {}

    fn unbind_lock(&self, _: usize, _: &[u8]) {}
}

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
    pub(crate) fn bound_locks(&self) -> Vec<KeyName> {
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
