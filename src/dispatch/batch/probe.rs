//! Fate of a request, determined without executing it: for the test that compares the mask with the list of checks.

use crate::client::session::Client;
use crate::dispatch::batch::BatchRun;
use crate::dispatch::batch::call::is_shut;
use crate::dispatch::checks::{FAULTS, Obstacle, busy};
use crate::dispatch::plan::find;
use crate::resp::{Output, Request};
use crate::spec::registry::Hashes;
use crate::spec::{CommandSpec, NO_QUEUE};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The request is executed, and needs no work besides its reply.
    Executed,
    /// The request is executed for a client whose calls need more than a reply.
    ExecutedWithExtraWork,
    Queued,
    Refused(Vec<u8>),
    Paused,
    Injected,
}

impl BatchRun<'_> {
    /// Returns two fates of a request: by the mask alone, `None` if that demands an examination, and by all checks.
    pub(crate) fn fates(&mut self, client: &mut Client, request: Request<'_>) -> (Option<Fate>, Fate) {
        let command = find(request, self.env.namespace.names(self.env.config));
        let unchecked = command.filter(|command| self.passes_unchecked(command, request));
        let masked = unchecked.map(|command| self.shut_out(command, request).unwrap_or(Fate::Executed));
        self.make_room(client, &mut Output::new());
        let admitted = self.admit(client, request, command);
        client.caller.is_short_of_memory = false;
        let fate = match admitted {
            Ok(command) => self.fate_of_admitted(client, command, request),
            Err(obstacle) => fate_by(obstacle),
        };
        (masked, fate)
    }

    fn fate_of_admitted(&mut self, client: &Client, command: &'static CommandSpec, request: Request<'_>) -> Fate {
        if let Some(obstacle) = self.admission(client, request, command).obstacle(&FAULTS) {
            return fate_by(obstacle);
        }
        if client.session.transaction.is_some() && command.flags & NO_QUEUE == 0 {
            return Fate::Queued;
        }
        let executed = if self.has_extra_work { Fate::ExecutedWithExtraWork } else { Fate::Executed };
        self.shut_out(command, request).unwrap_or(executed)
    }

    /// Returns the rejection by the store's gate of a call that was admitted, if it rejects the call.
    fn shut_out(&mut self, command: &CommandSpec, request: Request<'_>) -> Option<Fate> {
        let mut hashes = Hashes::new();
        command.hash_keys(request, &self.env.namespace.store, &mut hashes);
        self.release_gate();
        assert!(self.acquire_gate_for(command, request, None), "nothing is published meanwhile");
        let is_shut = self.guard.as_ref().is_some_and(|guard| is_shut(guard, command, &hashes));
        is_shut.then(|| Fate::Refused(busy(self.env.namespace).wire_text().to_vec()))
    }
}

fn fate_by(obstacle: Obstacle) -> Fate {
    match obstacle {
        Obstacle::Refused(error, _) => Fate::Refused(error.wire_text().to_vec()),
        Obstacle::Paused => Fate::Paused,
        Obstacle::Injected(_) => Fate::Injected,
    }
}
