//! What the rest of a command waits for, and the blocked call of which it is the rest.

use std::pin::Pin;
use std::time::Duration;

use crate::acl::Access;
use crate::client::registry::Blocked;
use crate::error::Error;
use crate::resp::Request;

/// A call whose client was blocked.
#[derive(Clone, Copy)]
pub struct BlockedRequest<'a> {
    /// The request.
    pub request: Request<'a>,
    /// The time it took before it blocked, in nanoseconds.
    pub spent_ns: u64,
}

/// What a [`Continuation`](crate::dispatch::Continuation) waits for.
pub enum Wait<'a> {
    /// Nothing: other clients are served first.
    Turn,
    /// Its client is blocked, until it is served, by CLIENT UNBLOCK or on timeout.
    Blocked(&'a Blocked),
    /// A future that holds no locks, such as an exchange with another server. It is dropped when the client
    /// disconnects.
    Work(Pin<Box<dyn Future<Output = ()> + Send + 'a>>),
    /// A future of the same kind, which tells what a cluster has done: it is not dropped because the client sends nothing more.
    Commit(Pin<Box<dyn Future<Output = ()> + Send + 'a>>),
    /// The clock of the namespace, which is steered, and with it everything that is due.
    TimeTravel(TimeTravel),
    /// A private namespace that is made a replica of this one.
    Replica(&'a mut NewReplica),
    /// The client's entry into another namespace, where the next step is made; in this one if it is refused.
    Entry(&'a mut Entry),
}

/// A private namespace that does not exist, and is to be a replica.
pub struct NewReplica {
    /// Its name, which is that of its user.
    pub name: Box<[u8]>,
    /// Why it cannot be made, if so.
    pub refusal: Option<Error>,
}

/// A client's entry into another namespace.
pub struct Entry {
    /// Where to.
    pub destination: Destination,
    /// Why it was refused, once it was.
    pub refusal: Option<Error>,
}

/// A namespace that a client enters by authenticating.
pub enum Destination {
    /// The main one, with these permissions.
    Main(Access),
    /// The private one of a user.
    Private {
        /// The user's name.
        user: Box<[u8]>,
        /// The password; any is right as long as the user needs none.
        password: Box<[u8]>,
    },
}

/// How a clock is steered.
#[derive(Clone, Copy, Debug)]
pub enum TimeTravel {
    /// Moves it forward by a duration.
    By(Duration),
    /// Moves it forward to a wall-clock time in milliseconds since 1970, or sets only the wall clock back.
    To { unix_ms: i64 },
    /// Stops it.
    Stop,
    /// Lets it run on.
    Run,
}
