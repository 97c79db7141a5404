//! Requests in test mode: the journal of the calls received, injected faults, and checkpoints of the history.

use crate::client::session::Client;
use crate::dispatch::batch::BatchRun;
use crate::dispatch::checks::Obstacle;
use crate::dispatch::{history, post_call};
use crate::error::Error;
use crate::resp::Request;
use crate::spec::{CommandSpec, Group};
use crate::test_mode::{FaultKind, ReceivedCall};

impl BatchRun<'_> {
    /// Makes a checkpoint of the history. Does nothing while a busy script holds the gate; a later request does it
    /// then.
    #[cold]
    pub(super) fn make_checkpoint(&mut self) {
        self.release_gate(); // the gate is not reentrant
        let cx = self.cx();
        if let Some(mut exclusive) = self.env.namespace.store.try_exclusive() {
            history::checkpoint(self.env.namespace, &mut exclusive.view(0, cx));
        }
        self.read_time();
    }

    /// Adds a request to the journal of test mode, unless a pause holds it back: then it is executed, and recorded,
    /// later.
    pub(super) fn record_received(
        &self,
        client: &Client,
        request: Request<'_>,
        command: Option<&'static CommandSpec>,
        obstacle: Option<&Obstacle>,
    ) {
        let Some(test_mode) = self.env.namespace.test_mode.as_deref() else { return };
        let is_control = command.is_some_and(|command| command.command.group == Group::Test);
        if is_control || matches!(obstacle, Some(Obstacle::Paused)) {
            return;
        }
        let args = match command {
            Some(command) => post_call::visible(command, request),
            None => request.args().collect(),
        };
        let fault = match obstacle {
            Some(Obstacle::Injected(kind)) => Some(kind.name()),
            _ => None,
        };
        let info = &client.caller.info;
        let call = ReceivedCall {
            unix_ms: self.now.wall_ms(),
            client_id: info.id,
            client_name: info.names().name.into(),
            command,
            args: args.into_iter().map(Box::from).collect(),
            fault,
        };
        test_mode.calls.lock().push(call, self.env.config.test_calls_max);
    }
}

/// Admits a call whose injected fault concerns its reply only, and rejects a call whose fault comes before it.
pub(super) fn apply_fault(
    client: &mut Client,
    command: Option<&'static CommandSpec>,
    admitted: Result<&'static CommandSpec, Obstacle>,
) -> Result<&'static CommandSpec, Obstacle> {
    match (admitted, command) {
        (Err(Obstacle::Injected(FaultKind::Error(line))), _) => Err(Error::Injected(line).into()),
        (Err(Obstacle::Injected(kind)), Some(command)) if kind != FaultKind::Drop => {
            client.session.tampering = Some(Box::new(kind));
            Ok(command)
        }
        (admitted, _) => admitted,
    }
}
