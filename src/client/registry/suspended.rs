//! What remains of a call whose client is blocked, until another party answers it or its time is over.

use std::sync::Arc;

use crate::client::info::LockName;
use crate::client::registry::Blocked;
use crate::resp::{OwnedRequest, Reply};
use crate::store::value::Type;
use crate::store::{Key, LockMode, LockWaiter, View};

/// Replies on timeout.
pub(crate) type OnTimeout = Box<dyn Fn(&mut Reply<'_>) + Send>;

/// Where a blocked client waits for a key.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// In the queue for a lock, or for several.
    LockQueue(QueuePlace),
    /// Among those that wait for a value of a type.
    Queue { awaited: Type, heeds_absence: bool },
}

/// A place in the queue for a lock, or for several.
#[derive(Clone, Copy)]
pub(crate) struct QueuePlace {
    /// The number of the wait, or of the former one whose place was kept.
    pub(crate) number: u64,
    /// How the client asks for the lock.
    pub(crate) mode: LockMode,
    /// The hash of its token.
    pub(crate) token: u64,
    /// Since when it has waited, in monotonic microseconds.
    pub(crate) since_us: u64,
    /// Whether it is to hold the lock for its session.
    pub(crate) is_session: bool,
}

/// A call whose client is blocked.
pub(crate) struct Suspended {
    /// Ends the wait when it is dropped.
    pub(crate) blocked: Blocked,
    /// Where it waits for the keys; `None` if it waits for its timeout alone.
    pub(crate) place: Option<Place>,
    /// The keys that it waits for, by their positions in the request, with their hashes.
    pub(crate) keys: Box<[(u64, usize)]>,
    /// Their database.
    pub(crate) db: usize,
    /// The client's id.
    pub(crate) client: u64,
    /// Replies on timeout.
    pub(crate) on_timeout: OnTimeout,
    /// The request as the client sent it.
    pub(crate) shown: Arc<OwnedRequest>,
    /// The time it took before it blocked, in nanoseconds.
    pub(crate) spent_ns: u64,
}

impl Suspended {
    /// Returns whether the client is queued for locks, its keys.
    pub(crate) fn is_in_lock_queue(&self) -> bool {
        matches!(self.place, Some(Place::LockQueue(_)))
    }

    /// Returns the lock that the client is queued for, with an engine.
    pub(crate) fn awaited_lock(&self) -> Option<LockName> {
        let key = self.keys().next().filter(|_| self.is_in_lock_queue())?;
        Some((self.db, key.bytes.into()))
    }

    /// Returns the keys that it waits for.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key<'_>> {
        let request = self.shown.as_request();
        self.keys.iter().map(move |(hash, position)| Key { bytes: request.arg(*position), hash: *hash })
    }

    /// Lets the client join the queues of its keys.
    pub(crate) fn join_queues(&self, view: &mut View<'_>) {
        self.keys().for_each(|key| match self.place {
            Some(Place::LockQueue(place)) => view.locks().join_queue(key, self.lock_waiter(place)),
            Some(Place::Queue { awaited, heeds_absence }) => {
                view.waiting().enqueue(key, self.blocked.waiter(awaited, heeds_absence));
            }
            None => {}
        });
    }

    /// Returns the client as it stands in the queue for a lock, at a place.
    pub(crate) fn lock_waiter(&self, place: QueuePlace) -> LockWaiter {
        let QueuePlace { number, mode, token, since_us, .. } = place;
        LockWaiter { client: self.client, number, mode, token, since_us, is_away: false }
    }

    /// Reverts [`Suspended::join_queues`].
    pub(crate) fn leave_queues(&self, view: &mut View<'_>) {
        let number = match self.place {
            Some(Place::LockQueue(place)) => place.number,
            _ => self.blocked.number(),
        };
        self.keys().for_each(|key| view.waiting().dequeue(self.db, key, number));
    }
}
