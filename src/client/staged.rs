//! State of a client's calls that an engine needs, where the data is in a cluster: the keys that the calls may access,
//! and the known freshness of the mirror.

use std::any::Any;
use std::sync::Arc;

use crate::error::Error;
use crate::resp::Mark;
use crate::store::{KeyName, LockMode};

/// State of a staged call: the keys that it may access, and the results to deliver once the cluster has it.
#[derive(Clone, Default)]
pub(crate) struct Staged {
    /// Declared keys, each with its database, once and in order.
    pub(crate) keys: Arc<[KeyName]>,
    /// Messages to publish, in order.
    pub(crate) messages: Vec<StagedMessage>,
    /// Keys read, if the client is to be told of their changes.
    pub(crate) read: Vec<Box<[u8]>>,
    /// Number of fencing tokens that the transaction has issued so far, including those of earlier calls.
    pub(crate) given_fences: u32,
    /// Places of such tokens in the reply, in order: their values are known when the cluster has the transaction.
    pub(crate) fence_replies: Vec<(Mark, NewFence)>,
    /// Demand of the client, if it is queued for a lock.
    pub(crate) demand: Option<LockDemand>,
    /// Locks that the call has acquired or renewed.
    pub(crate) held: Vec<HeldToken>,
    /// Lock operations to count when the cluster has the transaction.
    pub(crate) tally: LockTally,
    /// The libraries of functions, if this call or an earlier one of the same transaction has changed them.
    pub(crate) functions: Option<ChangedFunctions>,
}

/// Libraries of functions that the cluster does not have yet; a type that this layer does not know.
pub(crate) type ChangedFunctions = Arc<dyn Any + Send + Sync>;

/// A lock that is held with a token.
#[derive(Clone)]
pub(crate) struct HeldToken {
    pub(crate) key: KeyName,
    pub(crate) token: Box<[u8]>,
}

/// Demand of a client that is queued for a lock.
#[derive(Clone)]
pub(crate) struct LockDemand {
    pub(crate) token: Box<[u8]>,
    pub(crate) mode: LockMode,
    /// TTL of the lock in milliseconds, from when the client gets it; 0 for none.
    pub(crate) ttl_ms: u64,
    /// True if the lock is released when the connection closes.
    pub(crate) is_session: bool,
    /// True if the loss of the lock is announced.
    pub(crate) is_announced: bool,
    /// Text attached by the holder.
    pub(crate) meta: Option<Box<[u8]>>,
}

/// Lock operations of a call, as INFO counts them.
#[derive(Clone, Default)]
pub(crate) struct LockTally {
    /// Number of locks acquired.
    pub(crate) acquired: u32,
    /// Number of times that a lock was found held by another token.
    pub(crate) contended: u32,
    /// Hold durations of the released locks, in microseconds.
    pub(crate) held_us: Vec<u64>,
}

impl LockTally {
    /// Adds another tally.
    pub(crate) fn add(&mut self, other: LockTally) {
        self.acquired += other.acquired;
        self.contended += other.contended;
        self.held_us.extend(other.held_us);
    }
}

/// Fencing token of a transaction that the cluster does not have yet, as a number in the transaction: the first one is
/// 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewFence(pub(crate) u32);

impl NewFence {
    /// Returns the placeholder of the token in the record of a lock; it is negative, as no token is.
    pub(crate) fn placeholder(self) -> i64 {
        -i64::from(self.0)
    }

    /// Returns the token of a placeholder; `None` for a known token.
    pub(crate) fn of(fence: i64) -> Option<Self> {
        u32::try_from(fence.checked_neg()?).ok().filter(|number| *number > 0).map(NewFence)
    }
}

/// A message of a staged call, sent to the subscribers of all processes once the cluster has the call.
#[derive(Clone)]
pub(crate) struct StagedMessage {
    /// True for a message of SPUBLISH.
    pub(crate) is_sharded: bool,
    pub(crate) channel: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

/// Known freshness of the mirror for the requests of a client.
#[derive(Default)]
pub(crate) struct Freshness {
    /// Number of bytes that the client had sent when the mirror was last asked to be brought up to date: the mirror is
    /// fresh for the requests in them.
    pub(crate) bytes_in: u64,
    /// True if the mirror is fresh for the next request, too.
    pub(crate) is_fresh: bool,
    /// Error because of which the mirror cannot be brought up to date for the next request.
    pub(crate) failure: Option<Error>,
}
