//! INFO: how the server is doing, section by section.
//!
//! A field that Redis has and that means something here has Redis' name. Fields of features that do
//! not exist yet and that clients look at (`loading`, `role`) are there with the value that is true.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use super::Call;
use super::connection::REDIS_VERSION;
use crate::clients::{Class, Topic};
use crate::store::Totals;

type Section = fn(&mut String, &mut Call<'_>);

/// The sections in the order of the reply.
const SECTIONS: &[(&str, &str, Section)] = &[
    ("server", "Server", server),
    ("clients", "Clients", clients),
    ("memory", "Memory", memory),
    ("persistence", "Persistence", persistence),
    ("stats", "Stats", stats),
    ("replication", "Replication", replication),
    ("cpu", "CPU", cpu),
    ("modules", "Modules", |_, _| {}),
    ("errorstats", "Errorstats", |_, _| {}),
    ("cluster", "Cluster", |text, _| field(text, "cluster_enabled", 0)),
    ("keyspace", "Keyspace", keyspace),
];

/// Words that ask for every section.
const ALL: &[&str] = &["default", "all", "everything"];

/// Returns the sections asked for, all of them when none is named.
pub(super) fn text(call: &mut Call<'_>, wanted: &[Vec<u8>]) -> String {
    let is_wanted = |name: &str| wanted.iter().any(|word| word == name.as_bytes());
    let everything = wanted.is_empty() || ALL.iter().any(|word| is_wanted(word));
    let mut text = String::new();
    for (name, title, write) in SECTIONS {
        if everything || is_wanted(name) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            let _ = write!(text, "# {title}\r\n");
            write(&mut text, call);
        }
    }
    text
}

fn field(text: &mut String, name: &str, value: impl std::fmt::Display) {
    // Writing to a string cannot fail.
    let _ = write!(text, "{name}:{value}\r\n");
}

fn server(text: &mut String, call: &mut Call<'_>) {
    let server = call.server;
    let uptime_s = (call.now().mono_ms - server.started.mono_ms) / 1000;
    let path = |path: Option<&std::path::Path>| path.map(|path| path.display().to_string()).unwrap_or_default();
    field(text, "redis_version", REDIS_VERSION);
    field(text, "redis_git_sha1", "00000000");
    field(text, "redis_git_dirty", 0);
    field(text, "redis_build_id", 0);
    field(text, "redis_mode", "standalone");
    field(text, "keylatch_version", env!("CARGO_PKG_VERSION"));
    field(text, "os", std::env::consts::OS);
    field(text, "arch_bits", usize::BITS);
    field(text, "monotonic_clock", "POSIX clock_gettime");
    field(text, "multiplexing_api", "epoll");
    field(text, "process_id", std::process::id());
    field(text, "process_supervised", "no");
    field(text, "run_id", &server.run_id);
    field(text, "tcp_port", server.tcp_port.load(Relaxed));
    field(text, "server_time_usec", server.clock.wall_us());
    field(text, "uptime_in_seconds", uptime_s);
    field(text, "uptime_in_days", uptime_s / 86_400);
    field(text, "hz", call.config.hz);
    field(text, "configured_hz", call.config.hz);
    field(text, "executable", path(std::env::current_exe().ok().as_deref()));
    field(text, "config_file", path(server.config_file.as_deref()));
}

fn clients(text: &mut String, call: &mut Call<'_>) {
    field(text, "connected_clients", call.server.clients.len());
    field(text, "cluster_connections", 0);
    field(text, "maxclients", call.config.maxclients);
    let buffers: Vec<_> = call.server.clients.all().iter().map(|client| client.buffers()).collect();
    field(text, "client_recent_max_input_buffer", buffers.iter().map(|(input, _)| *input).max().unwrap_or(0));
    field(text, "client_recent_max_output_buffer", buffers.iter().map(|(_, output)| *output).max().unwrap_or(0));
    field(text, "blocked_clients", call.server.clients.blocked());
    field(text, "tracking_clients", 0);
    field(text, "pubsub_clients", call.server.clients.count_of(Class::Subscriber));
    field(text, "clients_in_timeout_table", call.server.clients.timed());
}

fn memory(text: &mut String, call: &mut Call<'_>) {
    let dataset = all_totals(call).memory;
    let allocator = call.server.allocator.map(|stats| stats());
    let config = call.server.settings.current();
    // What the shards have reported may be off by a little; what they hold is not.
    let used = dataset + call.server.store.pressure().outside();
    field(text, "used_memory", used);
    field(text, "used_memory_human", human(used));
    field(text, "used_memory_overhead", used.saturating_sub(dataset));
    field(text, "used_memory_dataset", dataset);
    field(text, "mem_clients_slaves", 0);
    field(text, "mem_clients_normal", call.server.clients.all().iter().map(|client| client.memory()).sum::<usize>());
    #[cfg(feature = "lua")]
    scripts(text, call);
    if let Some(allocator) = allocator {
        field(text, "allocator_allocated", allocator.allocated);
        field(text, "allocator_active", allocator.active);
        field(text, "allocator_resident", allocator.resident);
    }
    field(text, "maxmemory", config.maxmemory);
    field(text, "maxmemory_human", human(config.maxmemory as usize));
    field(text, "maxmemory_policy", config.maxmemory_policy.as_str());
    field(text, "mem_not_counted_for_evict", 0);
    // The version ends where jemalloc adds the commit it was built from.
    let name = allocator.map(|allocator| allocator.name.split('-').next().unwrap_or_default());
    field(text, "mem_allocator", name.map_or("libc".into(), |version| format!("jemalloc-{version}")));
}

#[cfg(feature = "lua")]
fn scripts(text: &mut String, call: &mut Call<'_>) {
    let usage = call.server.scripts.usage();
    field(text, "used_memory_lua", usage.eval_bytes);
    field(text, "used_memory_vm_eval", usage.eval_bytes);
    field(text, "used_memory_scripts_eval", usage.scripts_bytes);
    field(text, "number_of_cached_scripts", usage.scripts);
    field(text, "number_of_functions", usage.functions);
    field(text, "number_of_libraries", usage.libraries);
    field(text, "used_memory_vm_functions", usage.functions_bytes);
    field(text, "used_memory_vm_total", usage.eval_bytes + usage.functions_bytes);
}

fn persistence(text: &mut String, call: &mut Call<'_>) {
    field(text, "loading", 0);
    field(text, "async_loading", 0);
    field(text, "rdb_changes_since_last_save", all_totals(call).changes);
    field(text, "rdb_bgsave_in_progress", 0);
    field(text, "rdb_last_bgsave_status", "ok");
    field(text, "aof_enabled", 0);
    field(text, "aof_rewrite_in_progress", 0);
    field(text, "aof_rewrite_scheduled", 0);
    field(text, "aof_last_bgrewrite_status", "ok");
    field(text, "aof_last_write_status", "ok");
}

fn stats(text: &mut String, call: &mut Call<'_>) {
    let (stats, clients) = (&call.server.stats, &call.server.clients);
    field(text, "total_connections_received", clients.served() + clients.refused());
    field(text, "total_commands_processed", stats.commands.load(Relaxed));
    field(text, "total_net_input_bytes", stats.bytes_in.load(Relaxed));
    field(text, "total_net_output_bytes", stats.bytes_out.load(Relaxed));
    field(text, "rejected_connections", clients.refused());
    let (totals, now) = (all_totals(call), call.now());
    field(text, "expired_keys", totals.expired);
    field(text, "evicted_keys", totals.evicted);
    field(text, "evicted_clients", clients.evicted());
    field(text, "total_eviction_exceeded_time", stats.shortage.total_ms(now));
    field(text, "current_eviction_exceeded_time", stats.shortage.current_ms(now));
    field(text, "pubsub_channels", call.server.hub.count(Topic::Channel));
    field(text, "pubsub_patterns", call.server.hub.count(Topic::Pattern));
    field(text, "pubsubshard_channels", call.server.hub.count(Topic::ShardChannel));
    field(text, "client_query_buffer_limit_disconnections", stats.query_limit_disconnections.load(Relaxed));
    field(text, "client_output_buffer_limit_disconnections", stats.output_limit_disconnections.load(Relaxed));
    field(text, "acl_access_denied_auth", stats.acl_denied_auth.load(Relaxed));
    field(text, "acl_access_denied_cmd", stats.acl_denied_command.load(Relaxed));
    field(text, "acl_access_denied_key", stats.acl_denied_key.load(Relaxed));
    field(text, "acl_access_denied_channel", stats.acl_denied_channel.load(Relaxed));
    field(text, "total_error_replies", call.server.stats.errors.load(Relaxed));
}

fn replication(text: &mut String, call: &mut Call<'_>) {
    field(text, "role", "master");
    field(text, "connected_slaves", 0);
    field(text, "master_failover_state", "no-failover");
    field(text, "master_replid", &call.server.run_id);
    field(text, "master_replid2", "0".repeat(40));
    field(text, "master_repl_offset", 0);
    field(text, "second_repl_offset", -1);
    field(text, "repl_backlog_active", 0);
}

/// CPU time of the process, from the kernel's accounting in clock ticks of 10 ms.
fn cpu(text: &mut String, _: &mut Call<'_>) {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may hold blanks; user and system time are fields 14 and 15 of the line.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let mut ticks = after_name.split_whitespace().skip(11).map(|field| field.parse().unwrap_or(0.0));
    let (user, system): (f64, f64) = (ticks.next().unwrap_or(0.0), ticks.next().unwrap_or(0.0));
    field(text, "used_cpu_sys", format_args!("{:.6}", system / TICKS_PER_SECOND));
    field(text, "used_cpu_user", format_args!("{:.6}", user / TICKS_PER_SECOND));
}

fn keyspace(text: &mut String, call: &mut Call<'_>) {
    for db in 0..call.config.databases as usize {
        let totals = call.view.whole_again(db).totals();
        if totals.keys > 0 {
            field(text, &format!("db{db}"), format_args!("keys={},expires={},avg_ttl=0", totals.keys, totals.timed));
        }
    }
}

fn all_totals(call: &mut Call<'_>) -> Totals {
    let mut sum = Totals::default();
    (0..call.config.databases as usize).for_each(|db| sum += call.view.whole_again(db).totals());
    sum
}

/// Writes a number of bytes as people read it: `1.50K`.
fn human(bytes: usize) -> String {
    let (mut value, mut units) = (bytes as f64, "KMGTP".chars());
    let mut unit = None;
    while value >= 1024.0 {
        value /= 1024.0;
        unit = units.next();
    }
    unit.map_or_else(|| format!("{bytes}B"), |unit| format!("{value:.2}{unit}"))
}
