//! The primary's side of replication: readers of the log, and replicas that do not read.

use std::sync::Arc;

use tracing::{info, warn};

use crate::client::info::ClientInfo;
use crate::client::outbox::{END, OVERFLOW};
use crate::client::replica::{Replica, ReplicaState};
use crate::instance::random_hex;
use crate::namespace::Namespace;
use crate::persist::LogReader;
use crate::time::clock::Now;

impl Namespace {
    /// Enables logging if the log has readers, or may have later, and otherwise disables it; a replica logs the
    /// commands of its primary, and none of its own. The caller holds the whole store, so that no call is in the middle
    /// of its changes.
    pub(crate) fn follow_log_readers(&self) {
        let is_read = self.test_mode.is_some() || self.log.is_wanted();
        self.store.set_logged(is_read && !self.role.is_replica());
    }

    /// Returns the mark at the end of a snapshot whose length is not known in advance.
    pub(crate) fn snapshot_mark(&self) -> String {
        random_hex()
    }

    /// Retains the last changes for replicas that reconnect. The caller holds the whole store.
    pub(crate) fn keep_backlog(&self) {
        if !self.log.has_backlog() {
            self.tenant.history.begin(); // not all changes were counted since another server may have had this history
        }
        self.log.set_backlog(Some(self.settings.current().repl_backlog_size));
        self.follow_log_readers();
    }

    /// Returns a reader of the log for a replica that has the data up to a position in the history with an ID; `None`
    /// if the replica has other data, or lacks more than is kept.
    pub(crate) fn resume(&self, id: &[u8], position: u64) -> Option<LogReader> {
        let is_known = self.tenant.history.ids().has(id, position);
        is_known.then(|| self.log.resume(position)).flatten()
    }

    /// Returns a reader of the kept part of the log, for a replica that has the data up to a position in the history
    /// with an ID, and lacks more than is kept; `None` without an append-only file, which could have the rest.
    pub(crate) fn resume_late(&self, id: &[u8], position: u64) -> Option<LogReader> {
        let is_known = self.log.has_backlog() && self.tenant.history.ids().has(id, position);
        let is_behind = is_known && self.persistence.has_log() && position < self.log.kept().0;
        is_behind.then(|| self.log.resume_late())
    }

    /// Restores the backlog if it was freed after a replica was found to continue in it: the replica reads the log
    /// already.
    pub(crate) fn keep_backlog_of_replica(&self) {
        if self.store.is_logged() && self.log.is_wanted() && !self.log.has_backlog() {
            self.log.set_backlog(Some(self.settings.current().repl_backlog_size));
        }
    }

    /// Applies the settings to the backlog, if there is one.
    pub(super) fn follow_backlog_size(&self) {
        if self.log.has_backlog() {
            self.log.set_backlog(Some(self.settings.current().repl_backlog_size));
        }
    }

    /// Frees the backlog once there have been no replicas for as long as the settings say. The data then gets another
    /// replication ID: changes are not counted any more, so the present ID with an offset would name different data.
    pub(crate) fn free_idle_backlog(&self, now: Now) {
        let ttl_s = self.settings.current().repl_backlog_ttl_s;
        let is_idle = || self.replicas.idle_ms(now).is_some_and(|idle_ms| idle_ms > ttl_s.saturating_mul(1000));
        // A replica keeps its backlog for the time when it becomes the primary.
        if ttl_s == 0 || !self.log.has_backlog() || !is_idle() || self.role.is_replica() {
            return;
        }
        let _alone = self.store.exclusive();
        if is_idle() && !self.role.is_replica() {
            self.tenant.history.begin();
            self.log.set_backlog(None);
            self.follow_log_readers();
            info!("Replication backlog freed after {ttl_s} seconds without connected replicas.");
        }
    }

    /// Pings the replicas if that is due, disconnects silent ones, and checks that there are enough for writes.
    pub(crate) fn tend_replicas(&self, now: Now) {
        let config = self.settings.current();
        if !self.replicas.is_empty() && self.replicas.is_ping_due(config.repl_ping_replica_period_s, now) {
            self.ping_replicas();
        }
        let timeout_ms = config.repl_timeout_s.saturating_mul(1000);
        for (replica, client) in self.replica_clients() {
            let stalled_ms = replica.stalled_ms(client.traffic.bytes_out(), client.has_output(), now);
            let is_silent = match replica.state() {
                ReplicaState::Waiting => false,
                ReplicaState::Snapshot | ReplicaState::File => stalled_ms > timeout_ms,
                ReplicaState::Loading | ReplicaState::Online => {
                    replica.acknowledges() && replica.lag_ms(now) > timeout_ms
                }
            };
            if is_silent {
                let stage = if replica.state() == ReplicaState::Online { "streaming" } else { "full" };
                warn!("Disconnecting timedout replica ({stage} sync): {}", client.peer.addr);
                client.outbox.signal(END);
            } else if matches!(replica.state(), ReplicaState::Waiting | ReplicaState::Snapshot | ReplicaState::File) {
                replica.restart_lag(now);
            }
        }
        self.follow_replicas(now);
    }

    /// Disconnects replicas for which more of the log waits than their output limits allow.
    pub(crate) fn limit_replicas(&self, now: Now) {
        let config = self.settings.current();
        for (replica, client) in self.replica_clients() {
            let waiting = replica.position().map_or(0, |position| self.log.end().saturating_sub(position));
            client.buffers.set_log_waiting(waiting as usize);
            let limit = client.output_limit(&config);
            if limit.hard().is_some_and(|hard| client.waiting() as u64 > hard) {
                client.outbox.signal(OVERFLOW);
            }
            client.record_soft_limit(limit, now);
        }
    }

    /// Returns the replicas with a connection, which excludes those in the same process.
    pub(crate) fn replica_clients(&self) -> Vec<(Arc<Replica>, Arc<ClientInfo>)> {
        if self.replicas.is_empty() {
            return Vec::new();
        }
        let replicas = self.replicas.all().into_iter();
        replicas.filter_map(|replica| Some((replica.clone(), self.clients.find(replica.client)?))).collect()
    }
}
