//! The steps of a failover.

use std::sync::Arc;

use tracing::info;

use crate::client::replica::{Replica, ReplicaState};
use crate::config::HostPort;
use crate::namespace::Namespace;
use crate::namespace::failover::{FailoverOptions, FailoverStage, OngoingFailover};

impl Namespace {
    /// Begins a failover: clients do not write from now on. The caller holds the whole store.
    pub(crate) fn begin_failover(&self, terms: FailoverOptions) {
        let paused_before = self.hold_writes();
        *self.failover.current.lock() = Some(OngoingFailover { terms, stage: FailoverStage::Waiting, paused_before });
        self.failover.begun.notify_one();
    }

    /// Performs the next step of the failover, if one is due.
    pub(crate) fn continue_failover(&self) {
        let _alone = self.store.exclusive();
        let Some(terms) = self.failover.current.lock().as_ref().map(|handover| handover.terms.clone()) else { return };
        if self.failover.stage() != Some(FailoverStage::Waiting) {
            return;
        }
        let is_late = terms.until_ms.is_some_and(|until_ms| until_ms <= self.clock.now().mono_ms());
        match (is_late, terms.is_forced, terms.target) {
            (true, true, Some(target)) => {
                info!("FAILOVER to {}:{} time out exceeded, failing over.", target.host, target.port);
                self.promote(target);
            }
            (true, ..) => self.give_failover_up("Replica never caught up before timeout"),
            (false, _, target) => {
                if let Some(target) = self.complete_replica(target.as_ref()) {
                    info!("Failover target {}:{} is synced, failing over.", target.host, target.port);
                    self.promote(target);
                }
            }
        }
    }

    /// Ends the failover without success; the caller holds the whole store. Returns false if there is none.
    pub(crate) fn abort_failover(&self, reason: &str) -> bool {
        let is_there = self.failover.stage().is_some();
        if is_there {
            self.give_failover_up(reason);
        }
        is_there
    }

    /// Ends the failover with success: the replica is the primary.
    pub(crate) fn end_failover(&self) {
        if let Some(handover) = self.failover.current.lock().take() {
            self.release_writes(handover.paused_before);
        }
    }

    /// Returns the replica with an address.
    pub(crate) fn find_replica(&self, address: &HostPort) -> Option<Arc<Replica>> {
        let is_it = |replica: &Arc<Replica>| {
            let own = replica.address();
            own.port == address.port && own.host.eq_ignore_ascii_case(&address.host)
        };
        self.replicas.all().into_iter().find(is_it)
    }

    /// Returns the address of a replica that has all records: of `wanted`, if it is given.
    fn complete_replica(&self, wanted: Option<&HostPort>) -> Option<HostPort> {
        let end = self.log.end();
        let replicas = match wanted {
            Some(wanted) => self.find_replica(wanted).into_iter().collect(),
            None => self.replicas.all(),
        };
        let is_complete =
            |replica: &Arc<Replica>| replica.state() == ReplicaState::Online && replica.acknowledged() == end;
        replicas.into_iter().find(is_complete).map(|replica| replica.address())
    }

    fn promote(&self, target: HostPort) {
        if let Some(handover) = &mut *self.failover.current.lock() {
            handover.stage = FailoverStage::InProgress;
        }
        self.follow_primary(target);
    }

    fn give_failover_up(&self, reason: &str) {
        let Some(handover) = self.failover.current.lock().take() else { return };
        match &handover.terms.target {
            Some(HostPort { host, port }) => info!("FAILOVER to {host}:{port} aborted: {reason}"),
            None => info!("FAILOVER to any replica aborted: {reason}"),
        }
        if handover.stage == FailoverStage::InProgress {
            self.become_primary();
        }
        self.release_writes(handover.paused_before);
    }
}
