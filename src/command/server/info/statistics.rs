//! Sections of INFO with counters: stats, command and error statistics, latency.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use crate::client::registry::ChannelKind;
use crate::command::server::info::{all_totals, field};
use crate::dispatch::Call;
use crate::push::tracking::Tracked;
use crate::spec::CommandSpec;
use crate::text::Dialect;

/// The divisor of `kbps`, in bytes.
const KILOBYTE: f64 = 1024.0;

pub(crate) fn stats(text: &mut String, call: &mut Call<'_>) {
    happened(text, call);
    keys(text, call);
    features(text, call.namespace.tracking.tracked());
    errors(text, call);
    turns(text, call);
    denials(text, call);
}

fn happened(text: &mut String, call: &Call<'_>) {
    let namespace = call.namespace;
    let rates = namespace.observed.sampler.rates();
    let kbps = |bytes: u64| format!("{:.2}", bytes as f64 / KILOBYTE);
    field(text, "total_connections_received", namespace.stats.connections(&namespace.clients));
    field(text, "total_commands_processed", namespace.observed.command_stats.all_calls().count);
    field(text, "instantaneous_ops_per_sec", rates.commands);
    field(text, "total_net_input_bytes", namespace.stats.bytes_in.load(Relaxed));
    field(text, "total_net_output_bytes", namespace.stats.bytes_out.load(Relaxed));
    field(text, "total_net_repl_input_bytes", 0);
    field(text, "total_net_repl_output_bytes", 0);
    field(text, "instantaneous_input_kbps", kbps(rates.bytes_in));
    field(text, "instantaneous_output_kbps", kbps(rates.bytes_out));
    field(text, "instantaneous_input_repl_kbps", "0.00");
    field(text, "instantaneous_output_repl_kbps", "0.00");
    field(text, "rejected_connections", namespace.stats.rejected_connections(&namespace.clients));
    field(text, "caught_panics", namespace.instance.panics.caught());
    field(text, "dropped_log_lines", namespace.instance.log_queue.as_ref().map_or(0, |queue| queue.dropped()));
    field(text, "sync_full", 0);
    field(text, "sync_partial_ok", 0);
    field(text, "sync_partial_err", 0);
}

fn keys(text: &mut String, call: &mut Call<'_>) {
    let (totals, now) = (all_totals(call), call.now());
    let (stats, hub) = (&call.namespace.stats, &call.namespace.hub);
    let turns = call.namespace.observed.command_stats.turns();
    let expired_fields = totals.expired_fields - stats.forgotten.expired_fields.load(Relaxed);
    field(text, "expired_subkeys", expired_fields);
    if call.config.dialect() == Dialect::Valkey {
        field(text, "expired_fields", expired_fields);
    }
    field(text, "expired_subkeys_active", totals.swept_fields - stats.forgotten.swept_fields.load(Relaxed));
    field(text, "expired_keys", totals.expired - stats.forgotten.expired.load(Relaxed));
    field(text, "expired_keys_active", totals.swept - stats.forgotten.swept.load(Relaxed));
    field(text, "expired_stale_perc", "0.00");
    field(text, "expired_time_cap_reached_count", 0);
    field(text, "expire_cycle_cpu_milliseconds", call.namespace.observed.command_stats.sweeps_ns() / 1_000_000);
    field(text, "evicted_keys", totals.evicted - stats.forgotten.evicted.load(Relaxed));
    field(text, "evicted_clients", call.namespace.clients.evicted() - stats.forgotten.evicted_clients.load(Relaxed));
    field(text, "evicted_scripts", stats.evicted_scripts.load(Relaxed));
    field(text, "total_eviction_exceeded_time", stats.shortage.total_ms(now));
    field(text, "current_eviction_exceeded_time", stats.shortage.current_ms(now));
    field(text, "keyspace_hits", turns.hits);
    field(text, "keyspace_misses", turns.misses);
    field(text, "pubsub_channels", hub.count(ChannelKind::Channel));
    field(text, "pubsub_patterns", hub.count(ChannelKind::Pattern));
    field(text, "pubsubshard_channels", hub.count(ChannelKind::ShardChannel));
}

fn features(text: &mut String, tracked: Tracked) {
    field(text, "latest_fork_usec", 0);
    field(text, "total_forks", 0);
    field(text, "migrate_cached_sockets", 0);
    field(text, "slave_expires_tracked_keys", 0);
    field(text, "active_defrag_hits", 0);
    field(text, "active_defrag_misses", 0);
    field(text, "active_defrag_key_hits", 0);
    field(text, "active_defrag_key_misses", 0);
    field(text, "total_active_defrag_time", 0);
    field(text, "current_active_defrag_time", 0);
    field(text, "tracking_total_keys", tracked.keys);
    field(text, "tracking_total_items", tracked.items);
    field(text, "tracking_total_prefixes", tracked.prefixes);
}

fn errors(text: &mut String, call: &Call<'_>) {
    let stats = &call.namespace.stats;
    field(text, "unexpected_error_replies", 0);
    field(text, "total_error_replies", call.namespace.observed.errors.total());
    field(text, "dump_payload_sanitizations", 0);
    field(text, "total_reads_processed", stats.reads.load(Relaxed));
    field(text, "total_writes_processed", stats.writes.load(Relaxed));
    field(text, "io_threaded_reads_processed", 0);
    field(text, "io_threaded_writes_processed", 0);
    field(text, "io_threaded_total_prefetch_batches", 0);
    field(text, "io_threaded_total_prefetch_entries", 0);
    field(text, "client_query_buffer_limit_disconnections", stats.query_limit_disconnections.load(Relaxed));
    field(text, "client_output_buffer_limit_disconnections", stats.output_limit_disconnections.load(Relaxed));
    field(text, "reply_buffer_shrinks", 0);
    field(text, "reply_buffer_expands", 0);
}

fn denials(text: &mut String, call: &Call<'_>) {
    let stats = &call.namespace.stats;
    field(text, "acl_access_denied_auth", stats.acl_denied_auth.load(Relaxed));
    field(text, "acl_access_denied_cmd", stats.acl_denied_command.load(Relaxed));
    field(text, "acl_access_denied_key", stats.acl_denied_key.load(Relaxed));
    field(text, "acl_access_denied_channel", stats.acl_denied_channel.load(Relaxed));
}

/// The event loop statistics of Redis 7.2: here a cycle is the execution of a batch, or a round of background work.
fn turns(text: &mut String, call: &Call<'_>) {
    let observed = &call.namespace.observed;
    let (turns, calls, rates) =
        (observed.command_stats.turns(), observed.command_stats.all_calls(), observed.sampler.rates());
    field(text, "eventloop_cycles", turns.count);
    field(text, "eventloop_duration_sum", turns.ns / 1000);
    field(text, "eventloop_duration_cmd_sum", calls.ns / 1000);
    field(text, "instantaneous_eventloop_cycles_per_sec", rates.turns);
    field(text, "instantaneous_eventloop_duration_usec", rates.turns_us);
}

/// The section that is shown only by its name.
pub(crate) fn debug(text: &mut String, call: &mut Call<'_>) {
    let (command_stats, usage) = (&call.namespace.observed.command_stats, call.namespace.script_usage());
    let turns = command_stats.turns();
    let lua_bytes = usage.eval_bytes + usage.functions_bytes;
    field(text, "eventloop_duration_aof_sum", 0);
    field(text, "eventloop_duration_cron_sum", command_stats.chores_ns() / 1000);
    field(text, "eventloop_duration_max", turns.max_ns / 1000);
    field(text, "eventloop_cmd_per_cycle_max", turns.max_requests);
    field(text, "allocator_allocated_lua", lua_bytes);
    field(text, "allocator_active_lua", lua_bytes);
    field(text, "allocator_resident_lua", lua_bytes);
    field(text, "allocator_frag_bytes_lua", 0);
}

/// All clients are served by the threads of `worker-threads`, which are not listed separately.
pub(crate) fn threads(text: &mut String, call: &mut Call<'_>) {
    let (stats, clients) = (&call.namespace.stats, call.namespace.clients.len());
    let (reads, writes) = (stats.reads.load(Relaxed), stats.writes.load(Relaxed));
    field(text, "io_thread_0", format_args!("clients={clients},reads={reads},writes={writes}"));
}

pub(crate) fn command_stats(text: &mut String, call: &mut Call<'_>) {
    for command in call.namespace.commands.every() {
        let calls = call.namespace.observed.command_stats.calls(command);
        if calls.count + calls.rejected + calls.failed > 0 {
            let us = calls.ns / 1000;
            let per_call = if calls.count == 0 { 0.0 } else { us as f32 / calls.count as f32 };
            let (count, rejected, failed) = (calls.count, calls.rejected, calls.failed);
            let value = format_args!(
                "calls={count},usec={us},usec_per_call={per_call:.2},rejected_calls={rejected},failed_calls={failed}"
            );
            field(text, &format!("cmdstat_{}", command.name), value);
        }
    }
}

pub(crate) fn error_stats(text: &mut String, call: &mut Call<'_>) {
    for (prefix, count) in call.namespace.observed.errors.by_prefix() {
        // Characters that would end the name or the line become `_`.
        let safe = |byte: &u8| if b"#:\n\r".contains(byte) { '_' } else { char::from(*byte) };
        let name: String = prefix.iter().map(safe).collect();
        field(text, &format!("errorstat_{name}"), format_args!("count={count}"));
    }
}

pub(crate) fn latency_stats(text: &mut String, call: &mut Call<'_>) {
    let config = call.namespace.settings.current();
    if config.latency_tracking {
        for command in call.namespace.commands.every() {
            percentiles(text, call, command, &config.latency_tracking_info_percentiles);
        }
    }
}

fn percentiles(text: &mut String, call: &Call<'_>, command: &CommandSpec, wanted: &[f64]) {
    let Some(durations) = call.namespace.observed.command_stats.durations(command) else { return };
    let mut shown = String::new();
    for percent in wanted {
        let us = durations.at_percentile(*percent) as f64 / 1000.0;
        let comma = if shown.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(shown, "{comma}p{percent}={us:.3}");
    }
    field(text, &format!("latency_percentiles_usec_{}", command.name), shown);
}
