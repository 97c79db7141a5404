//! What a client's calls need of an engine, where the data is in a cluster: the keys that they may access, and how old what they
//! read may be.

use std::sync::Arc;

use crate::client::info::LockName;
use crate::error::Error;

/// What a staged call may access, and what it has sent.
#[derive(Clone, Default)]
pub(crate) struct Staged {
    /// The keys that it has declared, each with its database, once and in order.
    pub(crate) keys: Arc<[LockName]>,
    /// Its messages, in order.
    pub(crate) messages: Vec<StagedMessage>,
    /// The keys that it has read, if its client is to be told of their changes.
    pub(crate) read: Vec<Box<[u8]>>,
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
