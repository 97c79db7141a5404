//! Conditions that the rest of a command waits for, and the blocked call that the rest belongs to.

use std::pin::Pin;
use std::time::Duration;

use crate::acl::Access;
use crate::client::registry::Blocked;
use crate::error::Error;
use crate::resp::Request;

/// A call whose client was blocked.
#[derive(Clone, Copy)]
pub struct BlockedRequest<'a> {
    pub request: Request<'a>,
    /// Duration of the call before it blocked, in nanoseconds.
    pub spent_ns: u64,
}

/// Condition that a [`Continuation`](crate::dispatch::Continuation) waits for.
pub enum Wait<'a> {
    /// None: other clients are served first.
    Turn,
    /// The end of the client's blocking: it is served, unblocked by CLIENT UNBLOCK, or its timeout is over.
    Blocked(&'a Blocked),
    /// A future that holds no locks, such as an exchange with another server. It is dropped when the client
    /// disconnects.
    Work(Pin<Box<dyn Future<Output = ()> + Send + 'a>>),
    /// A future of the same kind that waits for the outcome of a change in a cluster. A client that has closed its
    /// writing side does not drop it.
    Commit(Pin<Box<dyn Future<Output = ()> + Send + 'a>>),
    /// A move of the namespace's steered clock, with the work that is due in between.
    TimeTravel(TimeTravel),
    /// A private namespace that is made a replica of this one.
    Replica(&'a mut NewReplica),
    /// The client's entry into another namespace, where the next step is executed; if it is refused, the step is
    /// executed here.
    Entry(&'a mut NamespaceEntry),
}

/// A private namespace that is to be created as a replica.
pub struct NewReplica {
    /// Name of the namespace, equal to its user's name.
    pub name: Box<[u8]>,
    /// Reason for which it cannot be created, if it cannot.
    pub refusal: Option<Error>,
}

/// A client's entry into another namespace.
pub struct NamespaceEntry {
    /// Namespace to be entered.
    pub destination: Destination,
    /// Reason for which the entry was refused, once it was.
    pub refusal: Option<Error>,
}

/// A namespace that a client enters by authenticating.
pub enum Destination {
    /// The main namespace, with these permissions.
    Main(Access),
    /// The private namespace of a user.
    Private {
        user: Box<[u8]>,
        /// Password of the user; any password is accepted if the user needs none.
        password: Box<[u8]>,
    },
}

/// Command to a steered clock.
#[derive(Clone, Copy, Debug)]
pub enum TimeTravel {
    /// Moves the clock forward by a duration.
    By(Duration),
    /// Moves the clock forward to a wall-clock time in milliseconds since 1970, or sets only the wall clock back.
    To { unix_ms: i64 },
    /// Stops the clock.
    Stop,
    /// Makes a stopped clock run again.
    Run,
}
