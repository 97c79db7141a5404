//! The clients that are queued for locks, found by the tokens that they wait with.

use parking_lot::Mutex;

use crate::client::info::ClientInfo;
use crate::memory::ordered_map::OrderedMap;

/// Clients queued for locks, or about to be, as pairs of the hash of the token and the id of the client.
#[derive(Default)]
pub(crate) struct QueuedClients(Mutex<OrderedMap<(u64, u64), ()>>);

/// The memory of a client in [`QueuedClients`].
const PLACE_LEN: isize = OrderedMap::<(u64, u64), ()>::entry_len() as isize;

impl QueuedClients {
    /// Records that a client is queued with a token, or is about to be. Of two clients that do so at the same time and
    /// look for each other afterwards, at least one finds the other.
    pub(crate) fn enter(&self, info: &ClientInfo, token: u64) {
        let mut queued = self.0.lock();
        if queued.insert((token, info.id), ()).is_none() {
            info.buffers.add_kept_len(PLACE_LEN);
        }
        info.flags.set_queued(true);
    }

    /// Reverts [`QueuedClients::enter`].
    pub(crate) fn leave(&self, info: &ClientInfo, token: u64) {
        let mut queued = self.0.lock();
        if queued.remove(&(token, info.id)).is_some() {
            info.buffers.add_kept_len(-PLACE_LEN);
        }
        info.flags.set_queued(false);
    }

    /// Records that a client which this process does not have is queued with a token.
    pub(super) fn enter_id(&self, id: u64, token: u64) {
        self.0.lock().insert((token, id), ());
    }

    /// Reverts [`QueuedClients::enter_id`].
    pub(super) fn leave_id(&self, id: u64, token: u64) {
        self.0.lock().remove(&(token, id));
    }

    /// Returns the clients that are queued with a token, or about to be.
    pub(crate) fn with_token(&self, token: u64) -> Vec<u64> {
        self.0.lock().range((token, 0)..=(token, u64::MAX)).map(|((_, client), ())| *client).collect()
    }

    /// Returns true if no client is queued, or about to be.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Returns true if any client but `client` is queued with a token.
    pub(crate) fn has_another(&self, token: u64, client: u64) -> bool {
        let queued = self.0.lock();
        queued.range((token, 0)..=(token, u64::MAX)).any(|((_, other), ())| *other != client)
    }

    /// Returns true if any client is queued with a token.
    pub(crate) fn has_token(&self, token: u64) -> bool {
        self.0.lock().range((token, 0)..=(token, u64::MAX)).next().is_some()
    }
}
