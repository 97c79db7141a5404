//! What remains to be done for a command when its call has returned.

use std::pin::Pin;
use std::time::Duration;

use crate::acl::Access;
use crate::client::registry::{Blocked, Unblocked};
use crate::client::session::DelayedReply;
use crate::dispatch::Env;
use crate::error::{Error, Result};
use crate::resp::{Reply, Request};
use crate::store::View;

/// What must be done after a request and before the next.
#[derive(Default)]
pub(crate) enum Next {
    /// Nothing.
    #[default]
    Done,
    /// Start another batch, because what is checked once per batch has changed.
    EndBatch,
    /// Start another batch with the same request, which was not executed: something was published since this batch began.
    Again,
    /// Retry the same request, which was not executed, when the server is no longer paused.
    Retry,
    /// Make the call again with the whole store locked: it has changed nothing, and has not replied.
    Exclusively,
    /// Nothing: a blocked call was made again and stays blocked, until a monotonic time at which it is to be made
    /// again.
    StayBlocked { retry_at_ms: u64 },
    /// Continue the command, whose reply is not written yet.
    Continue(Box<dyn Continuation>),
    /// Send a reply later: a fault holds it back.
    Delay(Box<DelayedReply>),
}

impl Next {
    /// Returns whether the reply of the request is not written yet.
    pub(crate) fn is_unfinished(&self) -> bool {
        matches!(self, Next::Retry | Next::StayBlocked { .. } | Next::Continue(_) | Next::Delay(_))
    }
}

/// The rest of a command that cannot be executed at once: it takes long, or has to wait. The connection alternates
/// between [`Continuation::wait`] and [`Continuation::step`]; other clients are served in between.
///
/// When the client disconnects during a wait, [`Continuation::abandon`] is called instead of the next step.
pub trait Continuation: Send {
    /// Returns what the next step has to wait for.
    fn wait(&mut self) -> Wait<'_> {
        Wait::Turn
    }

    /// Does about a millisecond's worth of work with no key locked beforehand. Returns whether the command is finished,
    /// having written its reply then.
    ///
    /// # Errors
    /// Why the command has failed, which also ends it.
    fn step(&mut self, env: Env<'_>, view: &mut View<'_>, reply: &mut Reply<'_>, woken: Unblocked) -> Result<bool>;

    /// Returns whether the step looks at no keys, so that it can be made even while a busy script has locked them.
    fn needs_no_keys(&self) -> bool {
        false
    }

    /// Undoes what the command has left in the store, after its client has disconnected; no key is locked beforehand.
    fn abandon(&mut self, _view: &mut View<'_>) {}

    /// Returns the call if it is one whose client was blocked, which is counted when it ends and not when it blocked.
    fn blocked_call(&self) -> Option<Halted<'_>> {
        None
    }
}

/// A call whose client was blocked.
#[derive(Clone, Copy)]
pub struct Halted<'a> {
    /// The request.
    pub request: Request<'a>,
    /// The time it took before it blocked, in nanoseconds.
    pub spent_ns: u64,
}

/// What a [`Continuation`] waits for.
pub enum Wait<'a> {
    /// Nothing: other clients are served first.
    Turn,
    /// Its client is blocked, until it is served, by CLIENT UNBLOCK or on timeout.
    Blocked(&'a Blocked),
    /// A future that holds no locks, such as an exchange with another server. It is dropped when the client
    /// disconnects.
    Work(Pin<Box<dyn Future<Output = ()> + Send + 'a>>),
    /// The clock of the namespace, which is steered, and with it everything that is due.
    TimeTravel(TimeTravel),
    /// The client's entry into another namespace, where the next step is made; in this one if it is refused.
    Entry(&'a mut Entry),
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
