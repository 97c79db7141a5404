//! The continuation of SHUTDOWN while the server waits for replicas or a snapshot.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::client::info::ClientInfo;
use crate::client::registry::{Blocked, Blocking, Clients, Unblocked};
use crate::dispatch::{Continuation, Env, Wait};
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::store::{NEVER, View};

/// The continuation of SHUTDOWN, with a reply only to failures: when the server stops, the connection closes.
pub(super) struct Stopping {
    goes_on: CancellationToken,
    /// The registration that shows the client as blocked. CLIENT UNBLOCK does not end this wait, like that of a pause.
    _shown: Blocked,
}

impl Stopping {
    /// Begins to wait.
    pub(super) fn new(goes_on: CancellationToken, clients: &Arc<Clients>, info: &Arc<ClientInfo>) -> Self {
        Stopping { goes_on, _shown: clients.block(info, Blocking::Pause, NEVER) }
    }
}

impl Continuation for Stopping {
    fn wait(&mut self) -> Wait<'_> {
        Wait::Work(Box::pin(self.goes_on.cancelled()))
    }

    fn step(&mut self, _: Env<'_>, _: &mut View<'_>, _: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        Err(failed())
    }

    fn needs_no_keys(&self) -> bool {
        true
    }
}

/// Returns the error of a SHUTDOWN after which the server continues.
pub(super) fn failed() -> Error {
    Error::other("Errors trying to SHUTDOWN. Check logs.")
}
