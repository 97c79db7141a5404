//! Interface of an engine, which executes calls where the data is in a cluster and not in this process alone. The store
//! of such a namespace is a copy, the mirror, which only the engine changes.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::client::caller::Caller;
use crate::client::registry::{ClientWait, Suspended};
use crate::client::session::{Transaction, Watch};
use crate::error::{Error, Result};
use crate::resp::{Output, OwnedRequest};
use crate::spec::marks::{OF_FUNCTIONS, RUNS_DIGEST, RUNS_FUNCTION, RUNS_TEXT};
use crate::spec::{CommandSpec, Group};
use crate::store::KeyName;
use crate::topology::ClusterView;

/// Maximum number of keys of a writing call, including the keys that its client watches: a transaction of the cluster
/// has a limit on tests and changes.
pub(crate) const KEYS_MAX: usize = 120;

/// Engine that stores the data of a namespace in a cluster.
pub(crate) trait Engine: Send + Sync {
    /// Reports when the mirror has everything that was acknowledged before.
    fn refresh(&self, done: oneshot::Sender<Result<()>>);

    /// Executes a call that may write, and reports its outcome.
    fn execute(&self, call: StagedCall, done: oneshot::Sender<StagedOutcome>);

    /// Reports when, after a change of the admission state, the outcomes are known of the calls that were sent to the
    /// cluster before the change: from then on, no call is executed that was admitted by the former state.
    fn settle(&self, done: oneshot::Sender<()>);

    /// Answers a client with the number of members, besides one, that have all changes so far, when the outcomes are
    /// known of all transactions that were sent, also of those whose clients were told that they are not known.
    fn confirm(&self, wait: Arc<ClientWait>);

    /// Carries out the work that is due after the clock was moved.
    fn follow_clock(&self);

    /// Makes the call of a blocked client again, because one of its keys has changed or its time has come.
    fn repeat(&self, wait: Arc<ClientWait>);

    /// Makes the calls of the other clients blocked on `keys` again, whose queues a client has left: that client may
    /// have been called in their place, and have taken nothing.
    fn pass_on(&self, keys: Vec<KeyName>);

    /// Ends the wait of a client for locks, by the number of the wait: the client does not get the locks any more, or
    /// gives them back. Reports when that is done.
    fn leave_queue(&self, locks: Vec<KeyName>, wait: u64, done: Option<oneshot::Sender<()>>);

    /// Releases the locks that are bound to the connection of a client, which has closed, after some milliseconds.
    fn end_session(&self, client: u64, grace_ms: u64);

    /// Returns the number of this process among those that serve the data.
    fn process(&self) -> u64;

    /// Returns the cluster whose nodes are the processes that serve the data, as this one sees it; `None` if this one is no node.
    fn cluster_view(&self) -> Option<ClusterView>;
}

/// A call that may write, as the engine executes it: on copies of its keys, and again if others have changed them
/// meanwhile.
pub(crate) struct StagedCall {
    pub(crate) command: &'static CommandSpec,
    pub(crate) request: Arc<OwnedRequest>,
    /// A copy of the caller.
    pub(crate) caller: Caller,
    /// Keys that the call may access, each with its database.
    pub(crate) keys: Arc<[KeyName]>,
    /// Queued commands of EXEC.
    pub(crate) transaction: Option<Box<Transaction>>,
    /// Watched keys, on which EXEC depends.
    pub(crate) watch: Option<Watch>,
    /// Generation of the admission state, see [`Store::generation`](crate::store::Store::generation); `None` if the
    /// state is to be looked at before the call is executed.
    pub(crate) generation: Option<u64>,
}

impl StagedCall {
    /// Returns true if the call runs scripts.
    pub(crate) fn runs_scripts(&self) -> bool {
        self.commands().any(|command| command.command.group == Group::Scripting)
    }

    /// Returns the script that the call runs by itself: its text, its digest, or the name of the function.
    pub(crate) fn script(&self) -> Option<&[u8]> {
        let is_run = self.command.is(RUNS_TEXT | RUNS_DIGEST | RUNS_FUNCTION) && self.request.as_request().len() > 1;
        is_run.then(|| self.request.as_request().arg(1))
    }

    /// Returns true if the call depends on the libraries of functions, or changes them.
    pub(crate) fn depends_on_functions(&self) -> bool {
        self.commands().any(|command| command.is(OF_FUNCTIONS))
    }

    /// Returns the command of the call, and those of its transaction.
    fn commands(&self) -> impl Iterator<Item = &'static CommandSpec> {
        let queue = self.transaction.iter().flat_map(|transaction| &transaction.queue);
        queue.map(|(queued, _)| *queued).chain([self.command])
    }
}

/// The outcome of a staged call.
pub(crate) enum StagedOutcome {
    /// The reply, and the database that the client has selected by now.
    Replied(Output, usize),
    /// The client is blocked.
    Blocked(Box<Suspended>),
    /// The call was not executed, or it is not known whether it was.
    Failed(Error),
    /// The call was not executed, because its client is about to be closed.
    Withdrawn,
}
