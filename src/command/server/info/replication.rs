//! The section of INFO about replication.

use std::sync::atomic::Ordering::Relaxed;

use crate::client::replica::{Replica, ReplicaState};
use crate::command::server::info::field::{InfoField, InfoValue, family, field, optional};
use crate::command::server::info::reading::Reading;
use crate::config::Setting;
use crate::namespace::failover::FailoverStage;
use crate::namespace::role::{LinkState, LinkStatus};
use crate::time::clock::Now;

#[rustfmt::skip] // a table
pub(super) const REPLICATION: &[InfoField] = &[
    field("role", |from| if from.namespace().role.is_replica() { "slave" } else { "master" }.into()),
    optional("master_host", |from| from.namespace().role.primary().map(|primary| primary.host.into())),
    optional("master_port", |from| from.namespace().role.primary().map(|primary| u64::from(primary.port).into())),
    optional("master_link_status", |from| link(from).map(|link| if link.is_up() { "up" } else { "down" }.into())),
    optional("master_last_io_seconds_ago", |from| {
        let now = from.call.now();
        link(from).map(|link| if link.is_up() { silent_s(&link, now) as i64 } else { -1 }.into())
    }),
    optional("master_sync_in_progress", |from| link(from).map(|link| u64::from(link.state == LinkState::Sync).into())),
    optional("slave_read_repl_offset", |from| link(from).map(|_| from.namespace().log.end().into())),
    optional("slave_repl_offset", |from| link(from).map(|_| from.namespace().log.end().into())),
    // The value is 0 while the length is not known, as that of a stream.
    optional("master_sync_total_bytes", |from| synchronizing(from).map(|link| link.total.unwrap_or(0).into())),
    optional("master_sync_read_bytes", |from| synchronizing(from).map(|link| link.received.into())),
    optional("master_sync_left_bytes", |from| synchronizing(from).map(|link| left(&link).into())),
    optional("master_sync_perc", |from| synchronizing(from).map(|link| {
        let total = link.total.unwrap_or(0);
        InfoValue::Decimal(if total == 0 { 0.0 } else { link.received as f64 * 100.0 / total as f64 }, 2)
    })),
    optional("master_sync_last_io_seconds_ago", |from| {
        let now = from.call.now();
        synchronizing(from).map(|link| silent_s(&link, now).into())
    }),
    optional("master_link_down_since_seconds", |from| {
        let now = from.call.now();
        link(from).filter(|link| !link.is_up()).map(|link| match link.down_since_ms {
            Some(since_ms) => (now.mono_ms().saturating_sub(since_ms) / 1000).into(),
            None => InfoValue::Int(-1),
        })
    }),
    optional("slave_priority", |from| { let value = u64::from(from.settings().replica_priority); of_replica(from, value) }),
    optional("slave_read_only", |from| { let value = u64::from(from.settings().replica_read_only); of_replica(from, value) }),
    optional("replica_announced", |from| { let value = u64::from(from.settings().replica_announced); of_replica(from, value) }),
    field("connected_slaves", |from| from.namespace().replicas.all().len().into()),
    optional("min_slaves_good_slaves", |from| {
        let now = from.call.now();
        let config = from.settings();
        let lag_ms = u64::from(config.min_replicas_max_lag_s) * 1000;
        config.wants_replicas().then(|| from.namespace().replicas.count_good(lag_ms, now).into())
    }),
    family("slave", |from| {
        let now = from.call.now();
        let replicas = from.namespace().replicas.all();
        replicas.iter().enumerate().map(|(number, replica)| (number.to_string(), shown_replica(replica, now))).collect()
    }),
    field("master_failover_state", |from| FailoverStage::name(from.namespace().failover.stage()).into()),
    field("master_replid", |from| from.namespace().tenant.replication_id().into()),
    field("master_replid2", |from| from.namespace().tenant.history.ids().shown_former().0.into()),
    field("master_repl_offset", |from| from.namespace().log.end().into()),
    field("second_repl_offset", |from| from.namespace().tenant.history.ids().shown_former().1.into()),
    field("repl_backlog_active", |from| u64::from(from.namespace().log.has_backlog()).into()),
    field("repl_backlog_size", |from| {
        let size = Setting::find(b"repl-backlog-size").map(|(_, size)| size.get(from.settings()));
        String::from_utf8_lossy(&size.unwrap_or_default()).into_owned().into()
    }),
    field("repl_backlog_first_byte_offset", |from| {
        let first = if from.namespace().log.has_backlog() { from.namespace().log.kept().0 + 1 } else { 0 };
        first.into()
    }),
    field("repl_backlog_histlen", |from| {
        let (begin, end) = from.namespace().log.kept();
        (end - begin).into()
    }),
];

/// Returns the state of the link of a replica; `None` on a primary.
fn link(from: &Reading<'_, '_>) -> Option<LinkStatus> {
    let role = &from.namespace().role;
    role.is_replica().then(|| role.link())
}

/// Returns the result of [`link`] during a full synchronisation, otherwise `None`.
fn synchronizing(from: &Reading<'_, '_>) -> Option<LinkStatus> {
    link(from).filter(|link| link.state == LinkState::Sync)
}

/// Returns a value that only replicas show.
fn of_replica(from: &Reading<'_, '_>, value: u64) -> Option<InfoValue> {
    link(from).map(|_| value.into())
}

fn silent_s(link: &LinkStatus, now: Now) -> u64 {
    now.mono_ms().saturating_sub(link.heard_ms) / 1000
}

/// Returns the number of bytes not yet received; negative while the length is not known, as in Redis.
fn left(link: &LinkStatus) -> i64 {
    link.total.unwrap_or(0) as i64 - link.received as i64
}

fn shown_replica(replica: &Replica, now: Now) -> InfoValue {
    let lag_s = match replica.state() {
        ReplicaState::Online => replica.lag_ms(now) / 1000,
        _ => 0,
    };
    let parts: [(&'static str, InfoValue); 5] = [
        ("ip", replica.ip.lock().clone().into()),
        ("port", replica.port.load(Relaxed).into()),
        ("state", replica.state().name().into()),
        ("offset", replica.acknowledged().into()),
        ("lag", lag_s.into()),
    ];
    InfoValue::Parts(parts.into_iter().map(|(name, value)| (name.into(), value)).collect())
}
