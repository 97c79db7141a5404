//! Copy of the visible facts of a client that holds locks: a client of another process that serves the same data, or
//! one whose call is executed on copies of its keys and may not take effect.

use std::any::Any;
use std::sync::Arc;

use crate::client::info::ClientInfo;
use crate::store::LockHolder;

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
impl LockHolder for RemoteClient {
    fn id(&self) -> u64 {
        match self.process {
            Some(process) => REMOTE | (process.rotate_left(24) ^ self.id),
            None => self.id,
        }
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
