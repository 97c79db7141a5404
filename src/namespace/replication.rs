//! Replication besides changes: requests to replicas, their number, and the change of the namespace's role.

use tracing::info;

use crate::config::HostPort;
use crate::namespace::Namespace;
use crate::namespace::history::HistoryPosition;
use crate::namespace::restrictions::{IS_READ_ONLY, IS_STALE, LACKS_REPLICAS};
use crate::namespace::role::{LinkState, LinkStatus};
use crate::persist::aof::HistoryId;
use crate::resp::write_command;
use crate::time::clock::Now;

/// Request for an acknowledgement of the replicas.
const GET_ACKNOWLEDGEMENT: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";
/// Start of the text of a PING with the bound of the fencing tokens that may have been given. Replicas of other servers
/// take it for a plain PING.
const FENCES_UP_TO: &str = "keylatch-fences-up-to:";
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

impl Namespace {
    /// Requests acknowledgements from the replicas.
    pub(crate) fn ask_replicas(&self) {
        if self.feeds_replicas() {
            self.log.append_aside(GET_ACKNOWLEDGEMENT);
        }
    }

    /// Sends the replicas a sign of life.
    pub(crate) fn ping_replicas(&self) {
        if self.feeds_replicas() {
            self.log.append_aside(PING);
        }
    }

    /// Sends the replicas a command that is not executed here.
    pub(crate) fn send_replicas(&self, words: &[&[u8]]) {
        if self.feeds_replicas() {
            let mut command = Vec::new();
            write_command(&mut command, words);
            self.log.append_aside(&command);
        }
    }

    /// Returns the fencing token of a new lock. Replicas are told before the lock is in the log, so that a promoted
    /// replica gives larger tokens, whatever its clock shows.
    pub(crate) fn give_fence(&self) -> i64 {
        let fence = self.lock_holders.next_fence(self.clock.wall_us());
        if self.log.has_backlog() {
            self.lock_holders.announce(fence, |bound| _ = self.log.append_aside(&announcement(bound)));
        }
        fence
    }

    /// Returns the command that tells a replica the bound of the fencing tokens that may have been given.
    pub(crate) fn fence_announcement(&self) -> Vec<u8> {
        announcement(self.lock_holders.fence_bound())
    }

    /// Takes over the bound of fencing tokens in the text of a primary's PING.
    pub(crate) fn hear_of_fences(&self, text: &[u8]) {
        let bound = text.strip_prefix(FENCES_UP_TO.as_bytes()).and_then(|bound| std::str::from_utf8(bound).ok());
        if let Some(bound) = bound.and_then(|bound| bound.parse().ok()) {
            self.lock_holders.continue_after(bound);
        }
    }

    /// Returns true if this server adds commands of its own to the stream for its replicas: a replica passes on the
    /// commands of its primary alone, and during a failover the new primary must be able to reach the end of the log.
    fn feeds_replicas(&self) -> bool {
        !self.replicas.is_empty() && !self.role.is_replica() && self.failover.stage().is_none()
    }

    /// Rejects writes, or ends that, by the settings and the number of replicas.
    pub(crate) fn follow_replicas(&self, now: Now) {
        let config = self.settings.current();
        let lag_ms = u64::from(config.min_replicas_max_lag_s) * 1000;
        let has_enough = || self.replicas.count_good(lag_ms, now) >= config.min_replicas_to_write as usize;
        let lacks = config.wants_replicas() && !self.role.is_replica() && !has_enough();
        if self.restrictions.set(LACKS_REPLICAS, lacks) {
            self.store.renew_generation();
        }
    }

    /// Makes the namespace a replica of a primary, from which it continues if it has the same history. The caller holds
    /// the whole store, so that no write is in progress.
    pub(crate) fn follow_primary(&self, primary: HostPort) {
        self.role.begin_term(Some(primary.clone()), true);
        self.keep_backlog();
        self.store.follow(true);
        self.clients.end_waits();
        self.lock_holders.forget_departed();
        self.lock_holders.forget_announced();
        self.role_has_changed(Some(primary));
    }

    /// Makes the namespace a replica from the start, if the settings say so.
    pub(super) fn begin_as_replica(&self) {
        let config = self.settings.current();
        if let Some(primary) = config.replicaof.clone().filter(|_| !self.tenant.is_private()) {
            self.role.begin_term(Some(primary), false);
            self.role.set_lacks_time(true);
            self.keep_backlog();
            self.store.follow(true);
            self.follow_role();
        }
    }

    /// Returns the replication ID and offset of the data, if other servers may have the same history. The caller holds
    /// the whole store.
    pub(crate) fn place(&self) -> Option<HistoryPosition> {
        let (id, position) = (self.tenant.replication_id(), self.log.end());
        self.log.has_backlog().then(|| HistoryPosition { id, position, db: self.log.selected_db() })
    }

    /// Returns the replication ID of the data, if other servers may have the same history.
    pub(crate) fn shared_history(&self) -> Option<HistoryId> {
        let id = self.log.has_backlog().then(|| self.tenant.replication_id());
        id.and_then(|id| id.as_bytes().try_into().ok())
    }

    /// Continues the history of the data that was loaded at the start: a replica in the history of its primary, and a
    /// primary with another ID, as its replicas may have seen more than was saved.
    pub(crate) fn continue_from(&self, HistoryPosition { id, position, db }: HistoryPosition) {
        let _alone = self.store.exclusive();
        self.log.continue_at(position, db);
        self.tenant.history.adopt(id);
        if self.role.is_replica() {
            return self.role.may_continue();
        }
        self.tenant.history.continue_as(None, position);
        self.log.end_copy();
        self.log.set_backlog(Some(self.settings.current().repl_backlog_size));
        self.follow_log_readers();
    }

    /// Continues as a replica with the present data, perhaps under another replication ID, which the own replicas have
    /// to learn; returns false in another term.
    pub(crate) fn continue_with_primary(&self, term: u64, id: Option<String>) -> bool {
        let _held = self.store.exclusive();
        if self.role.term() != term {
            return false;
        }
        if let Some(id) = id.filter(|id| *id != self.tenant.replication_id()) {
            info!("Master replication ID changed to {id}");
            self.tenant.history.continue_as(Some(id), self.log.end());
            self.disconnect_replicas();
        }
        true
    }

    /// Makes a replica a primary, whose history continues that of the former primary. The caller holds the whole store.
    pub(crate) fn become_primary(&self) {
        self.role.begin_term(None, false);
        self.role.set_lacks_time(false); // from now on the present clock counts
        self.tenant.history.continue_as(None, self.log.end());
        self.log.end_copy();
        self.follow_log_readers();
        self.store.follow(false);
        self.disconnect_replicas();
        self.end_former_sessions_later();
        self.role_has_changed(None);
    }

    /// Disconnects the replicas, so that they reconnect and learn of another history.
    pub(crate) fn disconnect_replicas(&self) {
        let connected = self.replicas.all().into_iter().filter_map(|replica| self.clients.find(replica.client));
        connected.for_each(|client| self.clients.kill(&client));
    }

    /// Begins another history, because the data is not the result of the log any more: replicas get all of it again,
    /// and so does this server if it is a replica itself.
    pub(crate) fn leave_history(&self) {
        let _alone = self.store.exclusive();
        self.tenant.history.begin();
        self.disconnect_replicas();
        self.role.hang_up();
    }

    fn role_has_changed(&self, primary: Option<HostPort>) {
        // No check can refuse this setting.
        let _ = self.settings.update(|config| {
            let mut config = config.clone();
            config.replicaof = primary;
            Ok(config)
        });
        self.follow_replicas(self.clock.now());
        self.follow_role();
        self.store.renew_generation();
    }

    /// Updates the state of the link to the primary, if the term is the present one; returns true if it is.
    pub(crate) fn update_link(&self, term: u64, change: impl FnOnce(&mut LinkStatus)) -> bool {
        let is_current = self.role.update(term, change);
        self.follow_role();
        is_current
    }

    /// Notes that the link receives changes from now on, if the term is the present one; returns true if it is.
    pub(crate) fn link_is_up(&self, term: u64) -> bool {
        let now = self.clock.now();
        self.role.show_client(term, |peer| {
            let client = self.clients.primary(peer, now);
            client.session.set_db(self.log.copied_db().unwrap_or(0));
            client
        });
        self.update_link(term, |link| {
            link.state = LinkState::Connected;
            link.down_since_ms = None;
            link.hear(now);
        })
    }

    /// Counts bytes of changes that were received and executed; returns true if the term is the present one.
    pub(crate) fn hear_primary(&self, term: u64, len: usize) -> bool {
        let now = self.clock.now();
        self.observed.stats.count_link_input(len);
        if let Some(client) = self.role.client() {
            client.traffic.count_bytes_in(len);
            client.touch(now, None, 0);
            client.session.set_db(self.log.copied_db().unwrap_or(0));
        }
        self.role.update(term, |link| link.hear(now))
    }

    /// Returns true if keys are evicted only by commands of the primary.
    pub(super) fn leaves_eviction_to_primary(&self) -> bool {
        self.role.is_replica() && self.settings.current().replica_ignore_maxmemory
    }

    /// Rejects commands that a replica must not execute, or ends that, by the settings and the state of its link.
    pub(crate) fn follow_role(&self) {
        let config = self.settings.current();
        let is_replica = self.role.is_replica();
        if let Some(queue) = self.instance.log_queue.as_ref().filter(|_| !self.tenant.is_private()) {
            queue.set_replica(is_replica);
        }
        let is_stale = is_replica && !config.replica_serve_stale_data && self.role.link().state != LinkState::Connected;
        let is_read_only = is_replica && config.replica_read_only;
        if self.restrictions.set(IS_READ_ONLY, is_read_only) | self.restrictions.set(IS_STALE, is_stale) {
            self.store.renew_generation();
        }
    }
}

/// Returns the command that tells replicas the bound of the fencing tokens that may have been given.
fn announcement(bound: i64) -> Vec<u8> {
    let mut command = Vec::new();
    write_command(&mut command, &[b"PING", format!("{FENCES_UP_TO}{bound}").as_bytes()]);
    command
}
