//! What is left to do of a command when its call has returned.

use std::pin::Pin;

use crate::client::registry::{Blocked, Unblocked};
use crate::error::Result;
use crate::resp::Reply;
use crate::store::View;

/// Says what is to be done after a request and before the next.
#[derive(Default)]
pub(crate) enum Next {
    /// Nothing.
    #[default]
    Done,
    /// To start another batch, because what is asked once in a batch has changed.
    EndBatch,
    /// To come back to the same request, which was not executed, when the server is no longer paused.
    Retry,
    /// To go on with the command, whose reply is not written yet.
    Continue(Box<dyn Continuation>),
}

impl Next {
    /// Returns whether the request is not answered yet.
    pub(crate) fn is_unfinished(&self) -> bool {
        matches!(self, Next::Retry | Next::Continue(_))
    }
}

/// The rest of a command that cannot be executed in one go: it takes long, or has to wait. The connection carries it out, in
/// turns of [`Continuation::wait`] and [`Continuation::step`]; other clients are served in between.
///
/// When the client leaves while it waits, [`Continuation::abandon`] takes the place of the next step.
pub trait Continuation: Send {
    /// Says what the next step has to wait for.
    fn wait(&mut self) -> Wait<'_> {
        Wait::Turn
    }

    /// Does about a millisecond's worth of work with no key locked beforehand. Returns whether the command is finished,
    /// having written its reply then.
    ///
    /// # Errors
    /// Why the command has failed; this ends it, too.
    fn step(&mut self, view: &mut View<'_>, reply: &mut Reply<'_>, woken: Unblocked) -> Result<bool>;

    /// Undoes what the command has left in the store, for a client that leaves; no key is locked beforehand.
    fn abandon(&mut self, _view: &mut View<'_>) {}
}

/// What a [`Continuation`] waits for.
pub enum Wait<'a> {
    /// Only for the others to have their turn.
    Turn,
    /// For what its client is blocked by, or CLIENT UNBLOCK.
    Blocked(&'a Blocked),
    /// For work that locks nothing, such as talking to another server. It is dropped half done when the client leaves.
    Work(Pin<Box<dyn Future<Output = ()> + Send + 'a>>),
}
