//! What a client's calls need of an engine, where the data is in a cluster: the keys that they may access, and how old what they
//! read may be.

use std::sync::Arc;

use crate::client::info::LockName;
use crate::error::Error;
use crate::resp::Mark;

/// What a staged call may access, and what it has sent.
#[derive(Clone, Default)]
pub(crate) struct Staged {
    /// The keys that it has declared, each with its database, once and in order.
    pub(crate) keys: Arc<[LockName]>,
    /// Its messages, in order.
    pub(crate) messages: Vec<StagedMessage>,
    /// The keys that it has read, if its client is to be told of their changes.
    pub(crate) read: Vec<Box<[u8]>>,
    /// How many fencing tokens the transaction has given so far, those of the calls before included.
    pub(crate) given_fences: u32,
    /// Where such tokens belong in the reply, in order: they are known when the cluster has the transaction.
    pub(crate) fence_replies: Vec<(Mark, NewFence)>,
    /// What its client waits for, if it is queued for a lock.
    pub(crate) demand: Option<LockDemand>,
    /// What is to be counted of locks when the cluster has the transaction.
    pub(crate) tally: LockTally,
}

/// What a client asks for that is queued for a lock.
#[derive(Clone)]
pub(crate) struct LockDemand {
    /// The token.
    pub(crate) token: Box<[u8]>,
    /// The TTL of the lock from when the client gets it, in milliseconds; 0 for none.
    pub(crate) ttl_ms: u64,
    /// Whether the lock is released when the connection closes.
    pub(crate) is_session: bool,
    /// Whether its loss is announced.
    pub(crate) is_announced: bool,
    /// A text of the holder's own.
    pub(crate) meta: Option<Box<[u8]>>,
}

/// What a call has done with locks, as INFO counts it.
#[derive(Clone, Default)]
pub(crate) struct LockTally {
    /// How many it has acquired.
    pub(crate) acquired: u32,
    /// How often it has found a lock held by another token.
    pub(crate) contended: u32,
    /// For how long those were held that it has released, in microseconds.
    pub(crate) held_us: Vec<u64>,
}

impl LockTally {
    /// Adds another one.
    pub(crate) fn add(&mut self, other: LockTally) {
        self.acquired += other.acquired;
        self.contended += other.contended;
        self.held_us.extend(other.held_us);
    }
}

/// A fencing token of a transaction that the cluster does not have yet: the first one is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewFence(pub(crate) u32);

impl NewFence {
    /// Returns what stands for the token in the record of a lock: no token is negative.
    pub(crate) fn placeholder(self) -> i64 {
        -i64::from(self.0)
    }

    /// Returns the token that a placeholder stands for; `None` for a token that is known.
    pub(crate) fn of(fence: i64) -> Option<Self> {
        u32::try_from(fence.checked_neg()?).ok().filter(|number| *number > 0).map(NewFence)
    }
}

/// A message of a staged call: it is sent to the subscribers of all processes once the cluster has it.
#[derive(Clone)]
pub(crate) struct StagedMessage {
    /// Whether it is one of SPUBLISH.
    pub(crate) is_sharded: bool,
    pub(crate) channel: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

/// What is known of how old the mirror may be for the requests of a client.
#[derive(Default)]
pub(crate) struct Freshness {
    /// How many bytes the client had sent when the mirror was last asked to be up to date: the mirror is for the requests in
    /// them.
    pub(crate) bytes_in: u64,
    /// Whether it is for the next request, too.
    pub(crate) is_fresh: bool,
    /// Why it cannot be brought up to date for the next request.
    pub(crate) failure: Option<Error>,
}
