//! Locks: the state of a lock besides its key and value, and the clients queued for it.
//!
//! A lock is an ordinary string key whose value is its holder's token; a lock that [several
//! clients](crate::store::lock::holders) can hold at once has another value. The state added by `LOCK.*` is stored apart from
//! the keys of a shard, with the other [interests](crate::store::interest) in the key, and only while the lock is held
//! through `LOCK.*`, has been asked for its fence, or has clients queued for it. The store knows holders only by the
//! trait in this file; they are clients.

mod held;
mod holders;
mod image;
mod queue;
mod text;

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::memory::heap::allocation_len;
use crate::store::cx::Removal;
use crate::store::key::{SHARDS, shard_of};
use crate::time::clock::us_between;

pub(crate) use held::{HeldLock, SeenLock};
pub(super) use held::{Lock, LockIndex};
pub(crate) use holders::{Holder, Holders, Sharing, is_shared_value};
pub(super) use image::HolderImage;
pub(crate) use image::LockImage;
pub(super) use text::{decode, encode};

/// A client that holds locks.
pub trait LockHolder: Any + Send + Sync {
    /// Returns the client's id.
    fn id(&self) -> u64;

    /// Returns true if the client's connection has closed, or has left for another instance, or is about to.
    fn is_gone(&self) -> bool;

    /// Returns the name of the client's user.
    fn user(&self) -> Option<Arc<[u8]>>;

    /// Counts a lock that the client holds from now on, or no longer holds, by the hash of its token.
    fn count_lock(&self, token: u64, is_held: bool);

    /// Remembers to release a lock when the client's connection closes.
    fn bind_lock(&self, db: usize, key: &[u8]);

    /// Reverts [`LockHolder::bind_lock`].
    fn unbind_lock(&self, db: usize, key: &[u8]);
}

/// The hold of a client on a lock; counted as long as it exists.
pub struct HoldGuard {
    holder: Arc<dyn LockHolder>,
    /// Hash of the token.
    token: u64,
}

impl HoldGuard {
    /// Counts a lock that a client holds with the token of this hash; 0 in the mirror of an engine, where tokens are
    /// not counted.
    pub fn new(holder: Arc<dyn LockHolder>, token: u64) -> Self {
        holder.count_lock(token, true);
        HoldGuard { holder, token }
    }

    /// Returns the client. The returned reference does not count as a hold.
    pub fn share(&self) -> Arc<dyn LockHolder> {
        self.holder.clone()
    }

    /// Returns the client.
    pub fn holder(&self) -> &dyn LockHolder {
        &*self.holder
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        self.holder.count_lock(self.token, false);
    }
}

/// The state of a holder of a lock.
pub struct LockRecord {
    /// The holder's token: the value of the key, unless several clients can hold the lock.
    pub token: Box<[u8]>,
    /// The fencing token: larger than the tokens of all locks before.
    pub fence: i64,
    /// Start of the hold, in monotonic microseconds, negative if before the start of the server. If the lock was not
    /// acquired by LOCK.ACQUIRE, it is the time when the record was made.
    pub since_us: i64,
    /// The client that has acquired the lock; `None` if it was acquired by another command.
    pub hold: Option<HoldGuard>,
    /// The client whose disconnection releases the lock.
    pub session: Option<Arc<dyn LockHolder>>,
    /// True if the loss of the lock is announced to the client.
    pub is_announced: bool,
    /// Text stored by the holder.
    pub meta: Option<Box<[u8]>>,
}

impl LockRecord {
    /// Returns the time for which the lock has been held, at `at_us` (monotonic microseconds).
    pub(crate) fn held_us(&self, at_us: u64) -> u64 {
        us_between(self.since_us, at_us)
    }

    /// Returns true if the lock is released when this client's connection closes.
    pub fn is_bound_to(&self, client: u64) -> bool {
        self.session.as_ref().is_some_and(|session| session.id() == client)
    }

    /// Returns true if this client has acquired the lock with this token.
    pub(crate) fn is_held_by(&self, client: u64, token: &[u8]) -> bool {
        *self.token == *token && self.hold.as_ref().is_some_and(|hold| hold.holder().id() == client)
    }

    /// Binds the lock of this key to its session, whose end releases the lock.
    pub(super) fn bind(&self, db: usize, key: &[u8]) {
        if let Some(session) = &self.session {
            session.bind_lock(db, key);
        }
    }

    /// Reverts [`LockRecord::bind`].
    pub(super) fn unbind(&self, db: usize, key: &[u8]) {
        if let Some(session) = &self.session {
            session.unbind_lock(db, key);
        }
    }

    /// Binds the lock of this key to another session.
    pub(crate) fn set_session(&mut self, session: Arc<dyn LockHolder>, (db, key): (usize, &[u8])) {
        self.unbind(db, key);
        self.session = Some(session);
        self.bind(db, key);
    }

    /// Returns the heap memory of the record.
    pub(super) fn heap_len(&self) -> usize {
        allocation_len(self.token.len()) + self.meta.as_ref().map_or(0, |meta| allocation_len(meta.len()))
    }
}

/// Reason why a lock is no longer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossReason {
    /// The lock's TTL is over.
    Expired,
    /// The lock's key was deleted.
    Deleted,
    /// The lock's key has another value.
    Overwritten,
    /// The lock's key was renamed.
    Renamed,
    /// The lock's key was moved to another database.
    Moved,
    /// All keys were deleted.
    Flushed,
    /// The lock's database was swapped with another one.
    Swapped,
    /// The lock's key was evicted.
    Evicted,
    /// Another client has released the lock with its token.
    Released,
    /// The connection that the lock was bound to has closed.
    Session,
}

impl From<Removal> for LossReason {
    fn from(removal: Removal) -> Self {
        match removal {
            Removal::Deleted => LossReason::Deleted,
            Removal::Expired => LossReason::Expired,
            Removal::Evicted => LossReason::Evicted,
            Removal::Renamed => LossReason::Renamed,
            Removal::Moved => LossReason::Moved,
            Removal::Flushed => LossReason::Flushed,
            Removal::Swapped => LossReason::Swapped,
        }
    }
}

impl LossReason {
    const ALL: [LossReason; 10] = [
        LossReason::Expired,
        LossReason::Deleted,
        LossReason::Overwritten,
        LossReason::Renamed,
        LossReason::Moved,
        LossReason::Flushed,
        LossReason::Swapped,
        LossReason::Evicted,
        LossReason::Released,
        LossReason::Session,
    ];

    /// Returns the reason with this name.
    pub(crate) fn of(word: &str) -> Option<Self> {
        LossReason::ALL.into_iter().find(|loss| loss.as_str() == word)
    }

    /// Returns the name of the reason, as it is sent to the holder.
    pub fn as_str(self) -> &'static str {
        match self {
            LossReason::Expired => "expired",
            LossReason::Deleted => "deleted",
            LossReason::Overwritten => "overwritten",
            LossReason::Renamed => "renamed",
            LossReason::Moved => "moved",
            LossReason::Flushed => "flushed",
            LossReason::Swapped => "swapped",
            LossReason::Evicted => "evicted",
            LossReason::Released => "released",
            LossReason::Session => "session",
        }
    }
}

/// A lock that is no longer held, although its holder has not released it.
pub struct LostLock<'a> {
    /// The lock's key.
    pub key: &'a [u8],
    /// The last state of the holder.
    pub record: &'a LockRecord,
    /// The reason for the loss.
    pub loss: LossReason,
    /// The time of the loss, in monotonic microseconds.
    pub at_us: u64,
    /// The lock's database and the hash of its key, if clients are queued for it.
    pub awaited: Option<(usize, u64)>,
    /// True if the loss was announced where it has happened: a log that has it is repeated.
    pub is_repeated: bool,
}

impl LostLock<'_> {
    /// Returns the message about the loss: its channel and its text, without the token.
    pub(crate) fn message(&self) -> (Vec<u8>, String) {
        ([b"__lock__:", self.key].concat(), format!("{} {}", self.loss.as_str(), self.record.fence))
    }
}

/// Kind of a request for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// An exclusive lock.
    Exclusive,
    /// An exclusive lock, together with others at the same time.
    Several,
    /// A lock shared with other readers.
    Shared,
    /// `count` permits of a semaphore, whose size was `size` when the client began to wait.
    Permits { count: u32, size: u32 },
    /// An exclusive lock for a client that shares it until then.
    Upgrade,
    /// A shared lock for a client that holds it exclusively until then.
    Downgrade,
}

impl LockMode {
    /// Returns the number of permits asked for.
    pub(crate) fn count(self) -> Option<u32> {
        if let LockMode::Permits { count, .. } = self { Some(count) } else { None }
    }

    /// Returns the size of the semaphore when the client began to wait.
    pub(crate) fn size(self) -> Option<u32> {
        if let LockMode::Permits { size, .. } = self { Some(size) } else { None }
    }

    /// Returns true if the client's own hold of the lock does not keep it from getting what it asks for.
    pub(crate) fn passes_own_hold(self) -> bool {
        matches!(self, LockMode::Several | LockMode::Upgrade)
    }
}

/// A client queued for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockWaiter {
    /// Id of the client.
    pub(crate) client: u64,
    /// Number of the wait, larger than the numbers of all waits that began before.
    pub(crate) number: u64,
    pub(crate) mode: LockMode,
    /// Hash of the client's token.
    pub(crate) token: u64,
    /// Start of the wait, in monotonic microseconds.
    pub(crate) since_us: u64,
    /// True while the client is disconnected and its position is reserved.
    pub(crate) is_away: bool,
}

impl LockWaiter {
    /// Returns the rank in the queue: clients that upgrade a lock come first, in the order of their arrival like the
    /// others. They share the lock, so a client before them would wait for its release by them.
    pub(super) fn rank(&self) -> (bool, u64) {
        (self.mode != LockMode::Upgrade, self.number)
    }
}

/// Returns the first connected client in a queue.
pub(crate) fn first_of(queue: &VecDeque<LockWaiter>) -> Option<&LockWaiter> {
    queue.iter().find(|waiter| !waiter.is_away)
}

/// Returns the position of a lock in the order of all locks of a database, by shard and then by hash: a permutation of
/// the bits of the hash.
pub(crate) fn lock_position(hash: u64) -> u64 {
    const LOW: u32 = 40;
    const SHARD: u32 = SHARDS.ilog2();
    (shard_of(hash) as u64) << (u64::BITS - SHARD) | hash >> (LOW + SHARD) << LOW | hash & ((1 << LOW) - 1)
}

/// Returns the shard that a position belongs to.
pub(crate) fn shard_at(position: u64) -> usize {
    (position >> (u64::BITS - SHARDS.ilog2())) as usize
}
