//! Sections of INFO with counters: stats, command and error statistics, latency.

use std::sync::atomic::Ordering::Relaxed;

use crate::client::info::ChannelKind;
use crate::command::server::info::field::{InfoField, InfoValue, family, field, fixed, optional, parts, zero};
use crate::command::server::info::reading::Reading;
use crate::text::Dialect;

#[rustfmt::skip] // a table
pub(super) const STATS: &[InfoField] = &[
    field("total_connections_received", |from| from.stats().connections(&from.namespace().clients).into()),
    field("total_commands_processed", |from| from.calls().count.into()),
    field("instantaneous_ops_per_sec", |from| from.rates().commands.into()),
    field("total_net_input_bytes", |from| from.stats().bytes_in.load(Relaxed).into()),
    field("total_net_output_bytes", |from| from.stats().bytes_out.load(Relaxed).into()),
    field("total_net_repl_input_bytes", |from| from.stats().link_bytes_in.load(Relaxed).into()),
    field("total_net_repl_output_bytes", |from| from.stats().link_bytes_out.load(Relaxed).into()),
    field("instantaneous_input_kbps", |from| kbps(from.rates().bytes_in)),
    field("instantaneous_output_kbps", |from| kbps(from.rates().bytes_out)),
    field("instantaneous_input_repl_kbps", |from| kbps(from.rates().link_bytes_in)),
    field("instantaneous_output_repl_kbps", |from| kbps(from.rates().link_bytes_out)),
    field("rejected_connections", |from| from.stats().rejected_connections(&from.namespace().clients).into()),
    field("caught_panics", |from| from.namespace().instance.panics.caught().into()),
    field("dropped_log_lines", |from| {
        from.namespace().instance.log_queue.as_ref().map_or(0, |queue| queue.dropped()).into()
    }),
    field("sync_full", |from| from.stats().full_syncs.load(Relaxed).into()),
    field("sync_partial_ok", |from| from.stats().partial_syncs.load(Relaxed).into()),
    field("sync_partial_err", |from| from.stats().refused_partial_syncs.load(Relaxed).into()),

    field("expired_subkeys", |from| expired_fields(from).into()),
    optional("expired_fields", |from| {
        (from.dialect() == Dialect::Valkey).then(|| expired_fields(from).into())
    }),
    field("expired_subkeys_active", |from| {
        (from.totals().swept_fields - from.stats().forgotten.swept_fields.load(Relaxed)).into()
    }),
    field("expired_keys", |from| (from.totals().expired - from.stats().forgotten.expired.load(Relaxed)).into()),
    field("expired_keys_active", |from| (from.totals().swept - from.stats().forgotten.swept.load(Relaxed)).into()),
    fixed("expired_stale_perc", "0.00"),
    zero("expired_time_cap_reached_count"),
    field("expire_cycle_cpu_milliseconds", |from| {
        (from.namespace().observed.command_stats.sweeps_ns() / 1_000_000).into()
    }),
    field("evicted_keys", |from| (from.totals().evicted - from.stats().forgotten.evicted.load(Relaxed)).into()),
    field("evicted_clients", |from| {
        (from.namespace().clients.evicted() - from.stats().forgotten.evicted_clients.load(Relaxed)).into()
    }),
    field("evicted_scripts", |from| from.stats().evicted_scripts.load(Relaxed).into()),
    field("total_eviction_exceeded_time", |from| from.stats().shortage.total_ms(from.call.now()).into()),
    field("current_eviction_exceeded_time", |from| from.stats().shortage.current_ms(from.call.now()).into()),
    field("keyspace_hits", |from| from.turns().hits.into()),
    field("keyspace_misses", |from| from.turns().misses.into()),
    field("pubsub_channels", |from| from.namespace().push.hub.count(ChannelKind::Channel).into()),
    field("pubsub_patterns", |from| from.namespace().push.hub.count(ChannelKind::Pattern).into()),
    field("pubsubshard_channels", |from| from.namespace().push.hub.count(ChannelKind::ShardChannel).into()),

    zero("latest_fork_usec"),
    // Nothing is forked: jobs are counted for which Redis forks.
    field("total_forks", |from| from.files().begun_in_background.into()),
    zero("migrate_cached_sockets"),
    zero("slave_expires_tracked_keys"),
    zero("active_defrag_hits"),
    zero("active_defrag_misses"),
    zero("active_defrag_key_hits"),
    zero("active_defrag_key_misses"),
    zero("total_active_defrag_time"),
    zero("current_active_defrag_time"),
    field("tracking_total_keys", |from| from.namespace().push.tracking.tracked().keys.into()),
    field("tracking_total_items", |from| from.namespace().push.tracking.tracked().items.into()),
    field("tracking_total_prefixes", |from| from.namespace().push.tracking.tracked().prefixes.into()),

    field("unexpected_error_replies", |from| from.stats().replication_errors.load(Relaxed).into()),
    field("total_error_replies", |from| from.namespace().observed.errors.total().into()),
    zero("dump_payload_sanitizations"),
    field("total_reads_processed", |from| from.stats().reads.load(Relaxed).into()),
    field("total_writes_processed", |from| from.stats().writes.load(Relaxed).into()),
    zero("io_threaded_reads_processed"),
    zero("io_threaded_writes_processed"),
    zero("io_threaded_total_prefetch_batches"),
    zero("io_threaded_total_prefetch_entries"),
    field("client_query_buffer_limit_disconnections", |from| {
        from.stats().query_limit_disconnections.load(Relaxed).into()
    }),
    field("client_output_buffer_limit_disconnections", |from| {
        from.stats().output_limit_disconnections.load(Relaxed).into()
    }),
    zero("reply_buffer_shrinks"),
    zero("reply_buffer_expands"),

    // The event loop statistics of Redis 7.2: here a cycle is the execution of a batch, or a round of background work.
    field("eventloop_cycles", |from| from.turns().count.into()),
    field("eventloop_duration_sum", |from| (from.turns().ns / 1000).into()),
    field("eventloop_duration_cmd_sum", |from| (from.calls().ns / 1000).into()),
    field("instantaneous_eventloop_cycles_per_sec", |from| from.rates().turns.into()),
    field("instantaneous_eventloop_duration_usec", |from| from.rates().turns_us.into()),

    field("acl_access_denied_auth", |from| from.stats().acl_denied_auth.load(Relaxed).into()),
    field("acl_access_denied_cmd", |from| from.stats().acl_denied_command.load(Relaxed).into()),
    field("acl_access_denied_key", |from| from.stats().acl_denied_key.load(Relaxed).into()),
    field("acl_access_denied_channel", |from| from.stats().acl_denied_channel.load(Relaxed).into()),
];

/// The section that is shown only when requested by its name.
#[rustfmt::skip] // a table
pub(super) const DEBUG: &[InfoField] = &[
    zero("eventloop_duration_aof_sum"),
    field("eventloop_duration_cron_sum", |from| (from.namespace().observed.command_stats.chores_ns() / 1000).into()),
    field("eventloop_duration_max", |from| (from.turns().max_ns / 1000).into()),
    field("eventloop_cmd_per_cycle_max", |from| from.turns().max_requests.into()),
    field("allocator_allocated_lua", |from| from.scripts().vm_bytes().into()),
    field("allocator_active_lua", |from| from.scripts().vm_bytes().into()),
    field("allocator_resident_lua", |from| from.scripts().vm_bytes().into()),
    zero("allocator_frag_bytes_lua"),
];

pub(super) const COMMAND_STATS: &[InfoField] = &[family("cmdstat_", calls_of_commands)];
pub(super) const ERROR_STATS: &[InfoField] = &[family("errorstat_", errors)];
pub(super) const LATENCY_STATS: &[InfoField] = &[family("latency_percentiles_usec_", percentiles)];

fn kbps(bytes: u64) -> InfoValue {
    /// The bytes of a kilobyte.
    const KILOBYTE: f64 = 1024.0;
    InfoValue::Decimal(bytes as f64 / KILOBYTE, 2)
}

fn expired_fields(from: &mut Reading<'_, '_>) -> u64 {
    from.totals().expired_fields - from.stats().forgotten.expired_fields.load(Relaxed)
}

/// Returns the statistics of the commands that were called.
fn calls_of_commands(from: &mut Reading<'_, '_>) -> Vec<(String, InfoValue)> {
    let namespace = from.namespace();
    let mut shown = Vec::new();
    for command in namespace.commands.every() {
        let calls = namespace.observed.command_stats.calls(command);
        if calls.count + calls.rejected + calls.failed > 0 {
            let us = calls.ns / 1000;
            let per_call = if calls.count == 0 { 0.0 } else { us as f32 / calls.count as f32 };
            let facts = [
                ("calls", calls.count.into()),
                ("usec", us.into()),
                ("usec_per_call", InfoValue::Decimal(per_call.into(), 2)),
                ("rejected_calls", calls.rejected.into()),
                ("failed_calls", calls.failed.into()),
            ];
            shown.push((command.shown_name().to_owned(), parts(facts)));
        }
    }
    shown
}

/// Returns the numbers of errors, by their first words.
fn errors(from: &mut Reading<'_, '_>) -> Vec<(String, InfoValue)> {
    // Characters that would end the name or the line become `_`.
    let safe = |byte: &u8| if b"#:\n\r".contains(byte) { '_' } else { char::from(*byte) };
    let by_prefix = from.namespace().observed.errors.by_prefix().into_iter();
    by_prefix.map(|(prefix, count)| (prefix.iter().map(safe).collect(), parts([("count", count.into())]))).collect()
}

/// Returns the percentiles of the durations of the commands that were called.
fn percentiles(from: &mut Reading<'_, '_>) -> Vec<(String, InfoValue)> {
    let (namespace, settings) = (from.namespace(), from.settings());
    if !settings.latency_tracking {
        return Vec::new();
    }
    let mut shown = Vec::new();
    for command in namespace.commands.every() {
        let Some(durations) = namespace.observed.command_stats.durations(command) else { continue };
        let wanted = settings.latency_tracking_info_percentiles.iter();
        let at = |percent: &f64| InfoValue::Decimal(durations.at_percentile(*percent) as f64 / 1000.0, 3);
        let facts = wanted.map(|percent| (format!("p{percent}").into(), at(percent))).collect();
        shown.push((command.shown_name().to_owned(), InfoValue::Parts(facts)));
    }
    shown
}
