//! Maps of fields that describe a master, a replica or a sentinel, in Redis' order.

use crate::topology::sentinel::command::view::{ReplyFields, SentinelView};
use crate::topology::sentinel::instance::{DataInstance, InstanceLink, KnownSentinel, WatchedInstance};
use crate::topology::sentinel::master::{MonitoredMaster, MonitoredReplica, Reconf};
use crate::topology::sentinel::place::Addresses;
use crate::topology::sentinel::world::NodeState;

/// Period of INFO while a failover is near or a replica's link is down.
const URGENT_INFO_PERIOD_MS: u64 = 1000;

/// Commands that are sent to a data node or to a sentinel on each attempt to connect.
const DATA_GREETING: u64 = 3;
const SENTINEL_GREETING: u64 = 2;

/// Priority of a replica of which nothing is known.
const DEFAULT_PRIORITY: u32 = 100;

/// The parts of the fields that all kinds of instances have.
struct Common<'a> {
    base: &'a WatchedInstance,
    name: String,
    flags: String,
    greeting: u64,
    refcount: usize,
}

impl SentinelView<'_> {
    pub(super) fn master_fields(&self, master: &MonitoredMaster, addresses: &dyn Addresses) -> ReplyFields {
        let mut flags = self.base_flags(&master.data.base, master.o_down_since_ms.is_some(), "master");
        flags.extend(master.failover.stage.map(|_| "failover_in_progress"));
        flags.extend(master.failover.is_forced.then_some("force_failover"));
        let common = Common {
            base: &master.data.base,
            name: master.name.clone(),
            flags: flags.join(","),
            greeting: DATA_GREETING,
            refcount: 1,
        };
        let mut fields = self.common_fields(&common, addresses);
        fields.extend(master.failover.stage.map(|stage| ("failover-state", stage.name().to_owned())));
        self.add_times(&mut fields, &master.data.base, master);
        let o_down = master.o_down_since_ms.map(|since_ms| self.since(since_ms));
        fields.extend(o_down.map(|ms| ("o-down-time", ms.to_string())));
        add_number(&mut fields, "down-after-milliseconds", master.settings.down_after_ms);
        self.add_role(&mut fields, &master.data, self.process().periods.info);
        add_number(&mut fields, "config-epoch", master.config_epoch);
        add_number(&mut fields, "num-slaves", master.replicas.len());
        add_number(&mut fields, "num-other-sentinels", master.sentinels.len());
        add_number(&mut fields, "quorum", master.settings.quorum);
        add_number(&mut fields, "failover-timeout", master.settings.failover_timeout_ms);
        add_number(&mut fields, "parallel-syncs", master.settings.parallel_syncs);
        fields
    }

    pub(super) fn replica_fields(
        &self,
        master: &MonitoredMaster,
        replica: &MonitoredReplica,
        addresses: &dyn Addresses,
    ) -> ReplyFields {
        let data = &replica.data;
        let mut flags = self.base_flags(&data.base, false, "slave");
        flags.extend(master.is_promoted(replica).then_some("promoted"));
        flags.extend(match replica.reconf {
            Reconf::None => None,
            Reconf::Sent { .. } => Some("reconf_sent"),
            Reconf::InProgress => Some("reconf_inprog"),
            Reconf::Done => Some("reconf_done"),
        });
        let common = Common {
            base: &data.base,
            name: data.base.place.joined(addresses),
            flags: flags.join(","),
            greeting: DATA_GREETING,
            refcount: 1,
        };
        let mut fields = self.common_fields(&common, addresses);
        self.add_times(&mut fields, &data.base, master);
        add_number(&mut fields, "down-after-milliseconds", master.settings.down_after_ms);
        let is_urgent = master.o_down_since_ms.is_some()
            || master.failover.stage.is_some()
            || data.info.as_ref().is_some_and(|info| info.link_down_ms > 0);
        let info_period_ms = if is_urgent { URGENT_INFO_PERIOD_MS } else { self.process().periods.info };
        self.add_role(&mut fields, data, info_period_ms);
        self.add_replication(&mut fields, data, addresses);
        fields
    }

    pub(super) fn sentinel_fields(
        &self,
        master: &MonitoredMaster,
        sentinel: &KnownSentinel,
        addresses: &dyn Addresses,
    ) -> ReplyFields {
        let mut flags = self.base_flags(&sentinel.base, false, "sentinel");
        flags.extend(sentinel.says_down.then_some("master_down"));
        let masters = self.process().masters.iter();
        let common = Common {
            base: &sentinel.base,
            name: sentinel.id.clone(),
            flags: flags.join(","),
            greeting: SENTINEL_GREETING,
            refcount: masters.filter(|master| master.sentinel_by_id(&sentinel.id).is_some()).count(),
        };
        let mut fields = self.common_fields(&common, addresses);
        self.add_times(&mut fields, &sentinel.base, master);
        add_number(&mut fields, "down-after-milliseconds", master.settings.down_after_ms);
        let hello_ms = self.age(sentinel.base.link, self.process().periods.publish);
        add_number(&mut fields, "last-hello-message", hello_ms);
        fields.push(("voted-leader", sentinel.vote.clone().unwrap_or_else(|| "?".to_owned())));
        add_number(&mut fields, "voted-leader-epoch", sentinel.vote_epoch);
        fields
    }

    /// Returns the flags of the base, with the kind of the instance.
    fn base_flags(&self, base: &WatchedInstance, is_o_down: bool, kind: &'static str) -> Vec<&'static str> {
        let state = base.place.node.and_then(|node| self.world().process(node)).map(|process| process.state);
        let is_refused = !base.is_linked() && matches!(state, None | Some(NodeState::Stopped));
        let flags = [
            base.is_s_down().then_some("s_down"),
            is_o_down.then_some("o_down"),
            Some(kind),
            is_refused.then_some("disconnected"),
        ];
        flags.into_iter().flatten().collect()
    }

    fn common_fields(&self, common: &Common<'_>, addresses: &dyn Addresses) -> ReplyFields {
        let (host, port) = common.base.place.address(addresses);
        let mut fields = vec![("name", common.name.clone()), ("ip", host)];
        add_number(&mut fields, "port", port);
        fields.push(("runid", common.base.run_id.clone().unwrap_or_default()));
        fields.push(("flags", common.flags.clone()));
        add_number(&mut fields, "link-pending-commands", if common.base.is_linked() { 0 } else { common.greeting });
        add_number(&mut fields, "link-refcount", common.refcount);
        fields
    }

    /// Adds the times of pings, and since when the instance is down.
    fn add_times(&self, fields: &mut ReplyFields, base: &WatchedInstance, master: &MonitoredMaster) {
        let reply_ms = self.age(base.link, self.process().periods.ping.min(master.settings.down_after_ms));
        add_number(fields, "last-ping-sent", base.silent_since_ms().map_or(0, |since_ms| self.since(since_ms)));
        add_number(fields, "last-ok-ping-reply", reply_ms);
        add_number(fields, "last-ping-reply", reply_ms);
        fields.extend(base.s_down_since_ms.map(|since_ms| ("s-down-time", self.since(since_ms).to_string())));
    }

    fn add_role(&self, fields: &mut ReplyFields, data: &DataInstance, info_period_ms: u64) {
        let info_ms = match (&data.info, data.base.link) {
            (None, _) => 0,
            (Some(info), InstanceLink::Silent { .. }) => self.since(info.read_ms),
            (Some(_), link) => self.age(link, info_period_ms),
        };
        add_number(fields, "info-refresh", info_ms);
        fields.push(("role-reported", data.reported.name().to_owned()));
        add_number(fields, "role-reported-time", self.since(data.reported_ms));
    }

    fn add_replication(&self, fields: &mut ReplyFields, data: &DataInstance, addresses: &dyn Addresses) {
        let info = data.info.as_ref();
        let node = data.readable(self.world());
        let last_ms = info.map_or(0, |info| info.link_down_ms);
        let link_down_ms = node.map_or(last_ms, |node| self.world().link_down_ms(node));
        let is_link_up = info.is_some_and(|info| info.is_link_up);
        let (host, port) = data.primary().map_or_else(|| ("?".to_owned(), 0), |node| addresses.address(node));
        add_number(fields, "master-link-down-time", link_down_ms);
        fields.push(("master-link-status", if is_link_up { "ok" } else { "err" }.to_owned()));
        fields.push(("master-host", host));
        add_number(fields, "master-port", port);
        add_number(fields, "slave-priority", info.map_or(DEFAULT_PRIORITY, |info| info.priority));
        add_number(fields, "slave-repl-offset", info.map_or(0, |info| info.offset));
        add_number(fields, "replica-announced", 1);
    }

    /// Returns the time since the last of the answers that arrive once in a period.
    pub(super) fn age(&self, link: InstanceLink, period_ms: u64) -> u64 {
        match link {
            InstanceLink::Up { since_ms } => self.since(since_ms) % period_ms.max(1),
            InstanceLink::Silent { since_ms } => self.since(since_ms),
        }
    }

    pub(super) fn since(&self, time_ms: u64) -> u64 {
        self.world().now_ms.saturating_sub(time_ms)
    }
}

fn add_number(fields: &mut ReplyFields, name: &'static str, value: impl ToString) {
    fields.push((name, value.to_string()));
}
