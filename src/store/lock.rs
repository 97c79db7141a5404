//! Locks: what is known of a lock besides its key and value, and the clients queued for it.
//!
//! A lock is an ordinary string key whose value is its owner's token; one that [several](crate::store::holders) can hold at
//! once has another value. What `LOCK.*` adds lies beside the keys of a shard,
//! with the key's other [interests](crate::store::interest), and only while the lock is held through `LOCK.*`, has been
//! asked for its fence, or is waited for. The store knows of a holder only what this file says; it is a client.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::memory::heap::allocation_len;
use crate::store::key::{SHARDS, shard_of};
use crate::time::clock::us_between;

/// A client that holds locks.
pub trait LockHolder: Any + Send + Sync {
    /// Returns the client's id.
    fn id(&self) -> u64;

    /// Returns whether its connection has closed, or has left for another instance, or is about to.
    fn is_gone(&self) -> bool;

    /// Returns the name of its user.
    fn user(&self) -> Option<Arc<[u8]>>;

    /// Counts a lock that it holds from now on, or holds no longer, by the hash of its token.
    fn count_lock(&self, token: u64, is_held: bool);

    /// Remembers that a lock is to be released when its connection closes.
    fn bind_lock(&self, db: usize, key: &[u8]);

    /// Reverts [`LockHolder::bind_lock`].
    fn unbind_lock(&self, db: usize, key: &[u8]);
}

/// The right of a client to a lock; counted as long as it exists.
pub struct Hold {
    holder: Arc<dyn LockHolder>,
    /// The hash of the token.
    token: u64,
}

impl Hold {
    /// Counts a lock for a client that holds it with a token, of which the hash is given; 0 in the mirror of an engine, where
    /// tokens are not counted.
    pub fn new(holder: Arc<dyn LockHolder>, token: u64) -> Self {
        holder.count_lock(token, true);
        Hold { holder, token }
    }

    /// Returns the client, without the right.
    pub fn share(&self) -> Arc<dyn LockHolder> {
        self.holder.clone()
    }

    /// Returns the client.
    pub fn holder(&self) -> &dyn LockHolder {
        &*self.holder
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.holder.count_lock(self.token, false);
    }
}

/// What is known of a holder of a lock.
pub struct LockRecord {
    /// Its token: the value of the key, unless several can hold the lock.
    pub token: Box<[u8]>,
    /// The fencing token: larger than those of all locks before.
    pub fence: i64,
    /// Since when the lock has been held, in monotonic microseconds, negative if that was before the start. Of a lock
    /// that was not taken by LOCK.ACQUIRE it is since when there has been a record.
    pub since_us: i64,
    /// The client that has acquired it; `None` if it was taken by another command.
    pub hold: Option<Hold>,
    /// The client whose end releases it.
    pub session: Option<Arc<dyn LockHolder>>,
    /// Whether its loss is announced.
    pub is_announced: bool,
    /// A text of the holder's own.
    pub meta: Option<Box<[u8]>>,
}

impl LockRecord {
    /// Returns for how long the lock has been held at a time in monotonic microseconds.
    pub(crate) fn held_us(&self, at_us: u64) -> u64 {
        us_between(self.since_us, at_us)
    }

    /// Returns whether the lock is released when this client's connection closes.
    pub fn is_bound_to(&self, client: u64) -> bool {
        self.session.as_ref().is_some_and(|session| session.id() == client)
    }

    /// Returns whether a client has acquired the lock with this token.
    pub(crate) fn is_held_by(&self, client: u64, token: &[u8]) -> bool {
        *self.token == *token && self.hold.as_ref().is_some_and(|hold| hold.holder().id() == client)
    }

    /// Lets the end of its session release the lock, which is this key.
    pub(super) fn bind(&self, db: usize, key: &[u8]) {
        self.session.iter().for_each(|session| session.bind_lock(db, key));
    }

    /// Reverts [`LockRecord::bind`].
    pub(super) fn unbind(&self, db: usize, key: &[u8]) {
        self.session.iter().for_each(|session| session.unbind_lock(db, key));
    }

    /// Lets the end of another session release the lock, which is this key.
    pub(crate) fn set_session(&mut self, session: Arc<dyn LockHolder>, (db, key): (usize, &[u8])) {
        self.unbind(db, key);
        self.session = Some(session);
        self.bind(db, key);
    }

    /// Returns the memory of what it points to.
    pub(super) fn heap_len(&self) -> usize {
        allocation_len(self.token.len()) + self.meta.as_ref().map_or(0, |meta| allocation_len(meta.len()))
    }
}

/// Why a lock is no longer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its TTL is over.
    Expired,
    /// Its key was deleted.
    Deleted,
    /// Its key has another value.
    Overwritten,
    /// Its key was renamed.
    Renamed,
    /// Its key was moved to another database.
    Moved,
    /// All keys were deleted.
    Flushed,
    /// Its database was swapped with another one.
    Swapped,
    /// Its key was evicted.
    Evicted,
    /// Another client has released it with its token.
    Released,
    /// The connection that it was bound to has closed.
    Session,
}

impl Loss {
    const ALL: [Loss; 10] = [
        Loss::Expired,
        Loss::Deleted,
        Loss::Overwritten,
        Loss::Renamed,
        Loss::Moved,
        Loss::Flushed,
        Loss::Swapped,
        Loss::Evicted,
        Loss::Released,
        Loss::Session,
    ];

    /// Returns the reason that a word is sent for.
    pub(crate) fn of(word: &str) -> Option<Self> {
        Loss::ALL.into_iter().find(|loss| loss.as_str() == word)
    }

    /// Returns the word that the holder is sent.
    pub fn as_str(self) -> &'static str {
        match self {
            Loss::Expired => "expired",
            Loss::Deleted => "deleted",
            Loss::Overwritten => "overwritten",
            Loss::Renamed => "renamed",
            Loss::Moved => "moved",
            Loss::Flushed => "flushed",
            Loss::Swapped => "swapped",
            Loss::Evicted => "evicted",
            Loss::Released => "released",
            Loss::Session => "session",
        }
    }
}

/// A lock that is no longer held, although its holder has not released it.
pub struct LostLock<'a> {
    /// The lock's key.
    pub key: &'a [u8],
    /// What was known of it.
    pub record: &'a LockRecord,
    /// Why it is lost.
    pub loss: Loss,
    /// When, in monotonic microseconds.
    pub at_us: u64,
    /// If others are queued for it, its database and the hash of its key.
    pub awaited: Option<(usize, u64)>,
}

/// How a client asks for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// Alone.
    Exclusive,
    /// Alone, with others at the same time.
    Several,
    /// With other readers.
    Shared,
    /// For as many permits of a semaphore, which had so many in all when the client began to wait.
    Permits { count: u32, size: u32 },
}

impl LockMode {
    /// Returns how many permits of a semaphore are asked for.
    pub(crate) fn count(self) -> Option<u32> {
        if let LockMode::Permits { count, .. } = self { Some(count) } else { None }
    }

    /// Returns how many permits the semaphore had that is asked for.
    pub(crate) fn size(self) -> Option<u32> {
        if let LockMode::Permits { size, .. } = self { Some(size) } else { None }
    }
}

/// A client queued for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockWaiter {
    /// Its id.
    pub(crate) client: u64,
    /// The number of its wait, larger than those of all that began before.
    pub(crate) number: u64,
    /// How it asks for the lock.
    pub(crate) mode: LockMode,
    /// The hash of its token.
    pub(crate) token: u64,
    /// Since when it has waited, in monotonic microseconds.
    pub(crate) since_us: u64,
    /// Whether its connection has ended, and its place is kept: nobody waits for it meanwhile.
    pub(crate) is_away: bool,
}

/// Returns the first client in a queue that is there.
pub(crate) fn first_of(queue: &VecDeque<LockWaiter>) -> Option<&LockWaiter> {
    queue.iter().find(|waiter| !waiter.is_away)
}

/// Returns the position of a lock among all of a database, in the order of its shard and then of its hash: this is a
/// permutation of the bits of the hash.
pub(crate) fn lock_position(hash: u64) -> u64 {
    const LOW: u32 = 40;
    const SHARD: u32 = SHARDS.ilog2();
    (shard_of(hash) as u64) << (u64::BITS - SHARD) | hash >> (LOW + SHARD) << LOW | hash & ((1 << LOW) - 1)
}

/// Returns the shard that a position belongs to.
pub(crate) fn shard_at(position: u64) -> usize {
    (position >> (u64::BITS - SHARDS.ilog2())) as usize
}
