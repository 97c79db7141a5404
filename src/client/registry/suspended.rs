//! Suspended calls of blocked clients, until another party answers them or their time is over.

use std::sync::Arc;

use crate::client::registry::Blocked;
use crate::resp::{OwnedRequest, Reply};
use crate::store::value::Type;
use crate::store::{Key, KeyName, LockMode, LockWaiter, View};

/// Function that writes the reply on timeout.
pub(crate) type OnTimeout = Box<dyn Fn(&mut Reply<'_>) + Send>;

/// Queue in which a blocked client waits for its keys.
#[derive(Clone, Copy)]
pub(crate) enum BlockedOn {
    /// The queue for a lock, or for several.
    LockQueue(QueuePlace),
    /// The queue for a value of a type.
    Queue { awaited: Type, wake_on_delete: bool },
}

/// A place in the queue for a lock, or for several.
#[derive(Clone, Copy)]
pub(crate) struct QueuePlace {
    /// Number of the wait, or of an earlier wait whose place was kept.
    pub(crate) number: u64,
    /// Requested mode of the lock.
    pub(crate) mode: LockMode,
    /// Hash of the client's token.
    pub(crate) token: u64,
    /// Time since which the client has waited, in monotonic microseconds.
    pub(crate) since_us: u64,
    /// True if the client is to hold the lock for its session.
    pub(crate) is_session: bool,
}

/// A call whose client is blocked.
pub(crate) struct Suspended {
    /// Guard that ends the wait when it is dropped.
    pub(crate) blocked: Blocked,
    /// Queue of the client; `None` if it waits for its timeout alone.
    pub(crate) place: Option<BlockedOn>,
    /// Hashes of the awaited keys, and their positions in the request.
    pub(crate) keys: Box<[(u64, usize)]>,
    /// Database of the keys.
    pub(crate) db: usize,
    pub(crate) client: u64,
    pub(crate) on_timeout: OnTimeout,
    /// The request as the client sent it.
    pub(crate) shown: Arc<OwnedRequest>,
    /// Time spent before the call blocked, in nanoseconds.
    pub(crate) spent_ns: u64,
}

impl Suspended {
    /// Returns true if the client is queued for locks, which are its keys.
    pub(crate) fn is_in_lock_queue(&self) -> bool {
        matches!(self.place, Some(BlockedOn::LockQueue(_)))
    }

    /// Returns true if the client is queued for several locks at the same time.
    pub(crate) fn asks_for_several(&self) -> bool {
        matches!(self.place, Some(BlockedOn::LockQueue(QueuePlace { mode: LockMode::Several, .. })))
    }

    /// Returns the locks that a client of an engine is queued for, in the order named.
    pub(crate) fn awaited_locks(&self) -> Vec<KeyName> {
        self.keys().filter(|_| self.is_in_lock_queue()).map(|key| (self.db, key.bytes.into())).collect()
    }

    /// Returns the keys that the client waits for.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key<'_>> {
        let request = self.shown.as_request();
        self.keys.iter().map(move |(hash, position)| Key { bytes: request.arg(*position), hash: *hash })
    }

    /// Adds the client to the queues of its keys.
    pub(crate) fn join_queues(&self, view: &mut View<'_>) {
        self.keys().for_each(|key| match self.place {
            Some(BlockedOn::LockQueue(place)) => view.locks().join_queue(key, self.lock_waiter(place)),
            Some(BlockedOn::Queue { awaited, wake_on_delete }) => {
                view.waiting().enqueue(key, self.blocked.waiter(awaited, wake_on_delete));
            }
            None => {}
        });
    }

    /// Returns the client's entry for the queue of a lock, at a place.
    pub(crate) fn lock_waiter(&self, place: QueuePlace) -> LockWaiter {
        let QueuePlace { number, mode, token, since_us, .. } = place;
        LockWaiter { client: self.client, number, mode, token, since_us, is_away: false }
    }

    /// Reverts [`Suspended::join_queues`].
    pub(crate) fn leave_queues(&self, view: &mut View<'_>) {
        let number = match self.place {
            Some(BlockedOn::LockQueue(place)) => place.number,
            _ => self.blocked.number(),
        };
        self.keys().for_each(|key| view.waiting().dequeue(self.db, key, number));
    }
}
