//! Requests in test mode: the journal of the calls received, injected faults, and checkpoints of the history.

use crate::client::session::Client;
use crate::dispatch::batch::BatchRun;
use crate::dispatch::checks::{FAULTS, Obstacle};
use crate::dispatch::host::HostCall;
use crate::dispatch::texts::forget_scripts;
use crate::dispatch::{history, post_call};
use crate::error::Error;
use crate::resp::Request;
use crate::spec::marks::RUNS_FUNCTION;
use crate::spec::{CommandSpec, Group};
use crate::store::Key;
use crate::test_mode::{CONTROL_CLIENT, FaultKind, ReceivedCall};

impl BatchRun<'_> {
    /// Makes a checkpoint of the history if one is due. Does nothing while a busy script holds the gate; a later request does
    /// it then.
    pub(super) fn make_checkpoint_if_due(&mut self) {
        let namespace = self.env.namespace;
        if !namespace.test_mode.as_ref().is_some_and(|test_mode| test_mode.recorder.is_checkpoint_due()) {
            return;
        }
        self.release_gate(); // the gate is not reentrant
        let cx = self.cx();
        if let Some(mut exclusive) = namespace.store.try_exclusive() {
            history::checkpoint(namespace, &mut exclusive.view(0, cx));
        }
        self.read_time();
    }

    /// Tries the faults at a request if it is admitted, and adds it to the journal; returns whether it is admitted then.
    pub(super) fn try_faults(
        &mut self,
        client: &Client,
        request: Request<'_>,
        command: Option<&'static CommandSpec>,
        admitted: Result<&'static CommandSpec, Obstacle>,
    ) -> Result<&'static CommandSpec, Obstacle> {
        let admitted = admitted
            .and_then(|command| self.admission(client, request, command).obstacle(&FAULTS).map_or(Ok(command), Err));
        self.record_received(client, request, command, admitted.as_ref().err());
        admitted
    }

    /// Adds a request to the journal of test mode, unless a pause holds it back: then it is executed, and recorded,
    /// later.
    fn record_received(
        &mut self,
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
            is_refused: matches!(obstacle, Some(Obstacle::Refused(..))),
            keys: command.map(|command| self.existing_keys(client.caller.db, command, request)).unwrap_or_default(),
            offset: self.env.namespace.log.end(),
        };
        test_mode.calls.lock().push(call, self.env.config.test_calls_max);
    }
}

impl BatchRun<'_> {
    /// Returns the keys of a request that exist, and whether each has a TTL; none while a busy script holds the gate.
    fn existing_keys(&mut self, db: usize, command: &CommandSpec, request: Request<'_>) -> Vec<(Box<[u8]>, bool)> {
        let store = &self.env.namespace.store;
        let keys: Vec<_> = command.keys_of(request).map(|(at, _)| store.key(request.arg(at))).collect();
        if keys.is_empty() {
            return Vec::new();
        }
        let (cx, hashes) = (self.cx(), keys.iter().map(|key| key.hash).collect::<Vec<_>>());
        let mut own = None;
        let guard = self.guard.as_mut().unwrap_or_else(|| own.insert(store.hold(1)));
        if guard.is_refused() {
            return Vec::new();
        }
        let mut view = guard.view(db, &hashes, cx);
        let found = |key: Key<'_>| Some((key.bytes.into(), view.deadline(key)?.is_some()));
        keys.into_iter().filter_map(found).collect()
    }

    /// Applies a fault before the call that it strikes; returns true if the call is executed afterwards. Data and
    /// scripts stay while a busy script holds the gate: then the call is refused.
    #[cold]
    pub(super) fn strike(&mut self, client: &mut Client, command: &CommandSpec, kind: &FaultKind) -> bool {
        self.release_gate(); // the gate is not reentrant
        if matches!(kind, FaultKind::DropAll | FaultKind::Failover) {
            self.cut_off_others(client);
        }
        if *kind == FaultKind::Failover || kind.is_of_data() {
            self.change_data(client.caller.db, command, kind);
        }
        if kind.is_of_data() {
            (client.session.was_struck, client.caller.is_short_of_memory) = (true, false);
            return true;
        }
        client.cut_off();
        false
    }

    fn change_data(&mut self, db: usize, command: &CommandSpec, kind: &FaultKind) {
        let namespace = self.env.namespace;
        let Some(mut host) = HostCall::try_begin(namespace, self.env.handlers) else { return };
        host.select(db);
        match kind {
            FaultKind::Expire(key) => {
                host.with(&[b"UNLINK", key], |call| call.args.key().is_ok_and(|key| call.view.expire_now(key)));
            }
            FaultKind::Evict(key) => {
                host.with(&[b"UNLINK", key], |call| call.args.key().is_ok_and(|key| call.view.evict_now(key)));
            }
            FaultKind::NoScript if command.is(RUNS_FUNCTION) => _ = host.execute(&[b"FUNCTION", b"FLUSH"]),
            FaultKind::NoScript => forget_scripts(namespace),
            FaultKind::Failover => {
                namespace.test_mode.iter().for_each(|test_mode| history::forget_last_write(&mut host, test_mode));
                forget_scripts(namespace);
            }
            _ => {}
        }
        drop(host);
        self.read_time();
    }

    /// Closes the connections of all other clients of the namespace, but those of the test itself.
    fn cut_off_others(&self, client: &Client) {
        let clients = &self.env.namespace.clients;
        let others = clients.all().into_iter().filter(|other| other.id != client.caller.info.id);
        others.filter(|other| &*other.names().name != CONTROL_CLIENT).for_each(|other| clients.kill(&other));
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
        (Err(Obstacle::Injected(kind)), Some(command)) if kind.is_of_reply() => {
            client.session.tampering = Some(Box::new(kind));
            Ok(command)
        }
        (admitted, _) => admitted,
    }
}
