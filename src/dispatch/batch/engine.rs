//! Requests of a namespace whose data is in a cluster.

use tokio::sync::oneshot;

use crate::client::session::Client;
use crate::client::staged::Freshness;
use crate::config::EtcdReads;
use crate::dispatch::Next;
use crate::dispatch::batch::BatchRun;
use crate::dispatch::checks::busy;
use crate::dispatch::staged::{Need, SettledRest, StagedRest, need_of, staged_call};
use crate::resp::{Output, Request};
use crate::spec::marks::EXECUTES_QUEUE;
use crate::spec::{ADMIN, CommandSpec};
use crate::store::GateGuard;

impl BatchRun<'_> {
    /// Defers an admitted request to the engine if that has to execute it or to bring the mirror up to date first;
    /// returns the work then left. Returns `None` if the handler is to be called with the keys of this store.
    pub(super) fn defer_to_engine(
        &mut self,
        client: &mut Client,
        command: &'static CommandSpec,
        request: Request<'_>,
        out: &mut Output,
    ) -> Option<Next> {
        let engine = self.env.namespace.engine()?;
        if let Some(error) = client.session.freshness.as_mut().and_then(|freshness| freshness.failure.take()) {
            self.reject(client, request, Some(command), &error, out);
            return Some(Next::Done);
        }
        let need = need_of(self.env.namespace, client, command, request);
        if !matches!(need, Need::Nothing) && self.guard.as_ref().is_some_and(GateGuard::is_refused) {
            self.reject(client, request, Some(command), &busy(self.env.namespace), out);
            return Some(Next::Done);
        }
        match need {
            Need::Nothing => None,
            Need::Fresh if self.env.namespace.settings.current().etcd_reads == EtcdReads::Local => None,
            Need::Fresh => {
                let bytes_in = client.caller.info.traffic.bytes_in();
                let freshness = client.session.freshness.get_or_insert_with(|| Box::new(Freshness::default()));
                if std::mem::take(&mut freshness.is_fresh) || freshness.bytes_in == bytes_in {
                    return None;
                }
                freshness.bytes_in = bytes_in;
                self.release_gate();
                let (done, refreshed) = oneshot::channel();
                engine.refresh(done);
                Some(Next::Refresh(refreshed))
            }
            Need::Staged => {
                let admitted = (self.env.namespace, self.generation);
                let call = match staged_call(admitted, client, command, request) {
                    Ok(call) => call,
                    Err(error) => {
                        self.reject(client, request, Some(command), &error, out);
                        return Some(Next::Done);
                    }
                };
                self.release_gate();
                client.session.freshness = None; // the client is to see its own writes
                Some(Next::Continue(Box::new(StagedRest::begin(engine, call))))
            }
        }
    }

    /// Asks the engine, if there is one, to report when it has settled all calls that it has sent and that were
    /// admitted before a call of this command has changed the admission state. Returns `None` if the command cannot
    /// have changed it (another client has), and during a busy script, whose calls may never end.
    pub(super) fn settle(&self, command: &CommandSpec) -> Option<oneshot::Receiver<()>> {
        if command.flags & ADMIN == 0 && !command.is(EXECUTES_QUEUE) {
            return None;
        }
        let (done, settled) = oneshot::channel();
        self.env.namespace.engine()?.settle(done);
        (!self.env.namespace.store.busy_flag().is_occupied()).then_some(settled)
    }

    /// Defers the reply of a call until such calls are settled.
    #[cold]
    pub(super) fn reply_when_settled(&self, settled: oneshot::Receiver<()>, reply: Output) -> Next {
        let busy_flag = self.env.namespace.store.busy_flag().clone();
        Next::Continue(Box::new(SettledRest::new(settled, busy_flag, reply)))
    }
}
