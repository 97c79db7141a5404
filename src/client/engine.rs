//! What a client's call is handed to where the data is in a cluster and not in this process alone: an engine. The store of
//! such a namespace is a copy, the mirror, which only the engine changes.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::client::caller::Caller;
use crate::client::info::LockName;
use crate::client::registry::{Suspended, Wait};
use crate::client::session::{Transaction, Watch};
use crate::error::{Error, Result};
use crate::resp::{Output, OwnedRequest};
use crate::spec::CommandSpec;

/// How many keys a call may access that writes, those that its client watches included: a transaction of the cluster has a
/// limit on tests and changes.
pub(crate) const KEYS_MAX: usize = 120;

/// Keeps the data of a namespace in a cluster.
pub(crate) trait Engine: Send + Sync {
    /// Says when the mirror has everything that was acknowledged before.
    fn refresh(&self, done: oneshot::Sender<Result<()>>);

    /// Executes a call that may write, and reports its outcome.
    fn execute(&self, call: StagedCall, done: oneshot::Sender<StagedOutcome>);

    /// Says when the outcome is known of the calls that were sent to the cluster before something was published by which calls
    /// are admitted: no other one is carried out then that was admitted without it.
    fn settle(&self, done: oneshot::Sender<()>);

    /// Does what is due, after the clock was moved.
    fn follow_clock(&self);

    /// Makes the call of a blocked client again: one of its keys has changed, or its time has come.
    fn repeat(&self, wait: Arc<Wait>);

    /// Makes the calls of others again that are blocked on some keys, of which a client has left the queues: it may have been
    /// called, and have taken nothing.
    fn pass_on(&self, keys: Vec<LockName>);

    /// Ends the wait of a client for a lock, by its number: it does not get the lock any more, or gives it back. Reports when
    /// that is done.
    fn leave_queue(&self, lock: LockName, wait: u64, done: Option<oneshot::Sender<()>>);

    /// Releases the locks that are bound to the connection of a client, which has closed.
    fn end_session(&self, client: u64);

    /// Returns the number of this process among those that serve the data.
    fn process(&self) -> u64;
}

/// A call that may write, as the engine executes it: on copies of its keys, and again if others have changed them meanwhile.
pub(crate) struct StagedCall {
    /// The command.
    pub(crate) command: &'static CommandSpec,
    /// The request.
    pub(crate) request: Arc<OwnedRequest>,
    /// A copy of the caller.
    pub(crate) caller: Caller,
    /// The keys that it may access, each with its database.
    pub(crate) keys: Arc<[LockName]>,
    /// What EXEC executes.
    pub(crate) transaction: Option<Box<Transaction>>,
    /// The watched keys, on which EXEC depends.
    pub(crate) watch: Option<Watch>,
    /// The generation of what it was admitted by, see [`Store::generation`](crate::store::Store::generation); `None` if that is
    /// to be looked at before it is executed.
    pub(crate) generation: Option<u64>,
}

/// The outcome of a staged call.
pub(crate) enum StagedOutcome {
    /// With a reply; the database that the client has selected since.
    Replied(Output, usize),
    /// Its client is blocked.
    Blocked(Box<Suspended>),
    /// It was not executed, or it is not known whether it was.
    Failed(Error),
    /// It was not executed, because its client is about to be closed.
    Withdrawn,
}
