//! INFO: the state of the server, by section.
//!
//! It has every field of Redis 8.4, in its order; a field of a feature that does not exist is zero. A section is a
//! short function and a field is one line of it.

mod memory;
mod statistics;

use std::collections::{HashSet, VecDeque};
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use crate::client::registry::Class;
use crate::config::{Config, Setting};
use crate::dispatch::Call;
use crate::store::{Key, LockRecord, LockWaiter, Totals};
use crate::text::{Dialect, REDIS_VERSION};

pub(crate) use memory::{MemoryReport, difference, ratio};

/// A function that writes the fields of a section.
type Section = fn(&mut String, &mut Call<'_>);

/// When a section is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// By default.
    Unasked,
    /// On request, or with `all`.
    ForAll,
    /// On request only.
    ByName,
}
use Shown::{ByName, ForAll, Unasked};

/// The sections in order: the names that request each, its title, and when it is shown.
const SECTIONS: &[(&[&str], &str, Shown, Section)] = &[
    (&["server"], "Server", Unasked, namespace),
    (&["clients"], "Clients", Unasked, clients),
    (&["memory"], "Memory", Unasked, memory::memory),
    (&["persistence"], "Persistence", Unasked, persistence),
    (&["threads"], "Threads", Unasked, statistics::threads),
    (&["stats"], "Stats", Unasked, statistics::stats),
    (&["replication"], "Replication", Unasked, replication),
    (&["cpu"], "CPU", Unasked, cpu),
    (&["modules", "module_list"], "Modules", Unasked, |_, _| {}),
    (&["commandstats"], "Commandstats", ForAll, statistics::command_stats),
    (&["errorstats"], "Errorstats", Unasked, statistics::error_stats),
    (&["latencystats"], "Latencystats", ForAll, statistics::latency_stats),
    (&["cluster"], "Cluster", Unasked, |text, _| field(text, "cluster_enabled", 0)),
    (&["keyspace"], "Keyspace", Unasked, keyspace),
    // Keys are not counted by size: the section exists and is empty.
    (&["keysizes"], "Keysizes", Unasked, |_, _| {}),
    (&["locks"], "Locks", ForAll, locks),
    (&["debug"], "Debug", ByName, statistics::debug),
];

/// Names that request every section.
const ALL: &[&str] = &["all", "everything"];

/// Returns the requested sections, by lower-case names; the default ones without any.
pub(crate) fn text(call: &mut Call<'_>, wanted: &[Vec<u8>]) -> String {
    let is_wanted = |name: &&str| wanted.iter().any(|word| word == name.as_bytes());
    let by_default = wanted.is_empty() || is_wanted(&"default");
    let everything = ALL.iter().any(is_wanted);
    let mut text = String::new();
    for (names, title, shown, write) in SECTIONS {
        let is_implied = everything && *shown != ByName || by_default && *shown == Unasked;
        if is_implied || names.iter().any(is_wanted) {
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

fn namespace(text: &mut String, call: &mut Call<'_>) {
    let namespace = call.namespace;
    let uptime_s = (call.now().mono_ms() - namespace.started.mono_ms()) / 1000;
    let (wall_us, tcp_port) = (namespace.clock.wall_us(), namespace.instance.tcp_port.load(Relaxed));
    let path = |path: Option<&Path>| path.map(|path| path.display().to_string()).unwrap_or_default();
    field(text, "redis_version", REDIS_VERSION);
    let dialect = call.config.dialect();
    if dialect == Dialect::Valkey {
        field(text, "server_name", dialect.name());
        field(text, "valkey_version", dialect.version());
    }
    field(text, "redis_git_sha1", "00000000");
    field(text, "redis_git_dirty", 0);
    field(text, "redis_build_id", 0);
    field(text, dialect.choose("redis_mode", "server_mode"), "standalone");
    field(text, "keylatch_version", env!("CARGO_PKG_VERSION"));
    field(text, "os", operating_system());
    field(text, "arch_bits", usize::BITS);
    field(text, "monotonic_clock", "POSIX clock_gettime");
    field(text, "multiplexing_api", "epoll");
    field(text, "atomicvar_api", "c11-builtin");
    field(text, "gcc_version", "0.0.0");
    field(text, "process_id", std::process::id());
    field(text, "process_supervised", call.config.supervised.detected().unwrap_or("no"));
    field(text, "run_id", &namespace.instance.run_id);
    field(text, "tcp_port", if tcp_port == 0 { u64::from(call.config.tls_port) } else { tcp_port });
    field(text, "server_time_usec", wall_us);
    field(text, "uptime_in_seconds", uptime_s);
    field(text, "uptime_in_days", uptime_s / 86_400);
    field(text, "hz", call.config.hz);
    field(text, "configured_hz", call.config.hz);
    field(text, "lru_clock", wall_us.div_euclid(1_000_000) & 0xff_ffff);
    field(text, "executable", path(std::env::current_exe().ok().as_deref()));
    field(text, "config_file", path(namespace.instance.config_file.as_deref()));
    field(text, "io_threads_active", 0);
    listeners(text, &namespace.settings.current(), tcp_port);
}

/// Lists the listeners, numbered by kind.
fn listeners(text: &mut String, config: &Config, tcp_port: u64) {
    let at = |port: u64| {
        let addresses: String = config.bind.iter().map(|address| format!("bind={address},")).collect();
        format!("{addresses}port={port}")
    };
    if tcp_port != 0 {
        field(text, "listener0", format_args!("name=tcp,{}", at(tcp_port)));
    }
    if let Some(path) = &config.unixsocket {
        field(text, "listener1", format_args!("name=unix,bind={}", path.display()));
    }
    if config.tls_port != 0 {
        field(text, "listener2", format_args!("name=tls,{}", at(u64::from(config.tls_port))));
    }
}

/// Returns the kernel's name, its version and the processor's architecture, as `uname` does.
fn operating_system() -> String {
    let fact = |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    let (name, release) = (fact("ostype"), fact("osrelease"));
    let name = if name.is_empty() { std::env::consts::OS } else { name.trim_end() };
    format!("{name} {} {}", release.trim_end(), std::env::consts::ARCH)
}

fn clients(text: &mut String, call: &mut Call<'_>) {
    field(text, "connected_clients", call.namespace.clients.len());
    field(text, "cluster_connections", 0);
    field(text, "maxclients", call.config.maxclients);
    let clients = call.namespace.clients.all();
    let buffers: Vec<_> = clients.iter().map(|client| client.buffers()).collect();
    field(text, "client_recent_max_input_buffer", buffers.iter().map(|(input, _)| *input).max().unwrap_or(0));
    field(text, "client_recent_max_output_buffer", buffers.iter().map(|(_, output)| *output).max().unwrap_or(0));
    field(text, "blocked_clients", call.namespace.clients.blocked());
    field(text, "tracking_clients", call.namespace.tracking.tracked().clients);
    field(text, "pubsub_clients", call.namespace.clients.count_of(Class::Subscriber));
    field(text, "watching_clients", clients.iter().filter(|client| client.watched() > 0).count());
    field(text, "clients_in_timeout_table", call.namespace.clients.timed());
    field(text, "total_watched_keys", all_totals(call).watched);
    field(text, "total_blocking_keys", all_totals(call).blocking);
    field(text, "total_blocking_keys_on_nokey", keys_awaited_even_absent(call));
}

/// Returns how many keys have blocked clients that are also to be woken by the key's deletion.
fn keys_awaited_even_absent(call: &Call<'_>) -> usize {
    let mut keys: HashSet<(usize, Vec<u8>)> = HashSet::new();
    call.namespace.clients.each_blocked_call(|blocked| {
        if blocked.heeds_absence {
            let request = blocked.request.as_request();
            let named = blocked.command.keys_of(request).map(|(position, _)| request.arg(position).to_vec());
            keys.extend(named.map(|key| (blocked.caller.db, key)));
        }
    });
    keys.len()
}

fn persistence(text: &mut String, call: &mut Call<'_>) {
    let grace_left_ms = call.namespace.grace_left_ms(call.now());
    let (config, stats) = (call.namespace.settings.current(), &call.namespace.stats);
    field(text, "loading", u8::from(grace_left_ms.is_some()));
    field(text, "async_loading", 0);
    field(text, "current_cow_peak", 0);
    field(text, "current_cow_size", 0);
    field(text, "current_cow_size_age", 0);
    field(text, "current_fork_perc", "0.00");
    field(text, "current_save_keys_processed", 0);
    field(text, "current_save_keys_total", 0);
    field(text, "rdb_changes_since_last_save", all_totals(call).changes);
    field(text, "rdb_bgsave_in_progress", 0);
    field(text, "rdb_last_save_time", call.namespace.started.wall_ms().div_euclid(1000));
    field(text, "rdb_last_bgsave_status", status(config.asks_for_snapshots() || stats.save_failed.load(Relaxed)));
    field(text, "rdb_last_bgsave_time_sec", -1);
    field(text, "rdb_current_bgsave_time_sec", -1);
    field(text, "rdb_saves", 0);
    field(text, "rdb_last_cow_size", 0);
    field(text, "rdb_last_load_keys_expired", 0);
    field(text, "rdb_last_load_keys_loaded", 0);
    field(text, "aof_enabled", 0);
    field(text, "aof_rewrite_in_progress", 0);
    field(text, "aof_rewrite_scheduled", 0);
    field(text, "aof_last_rewrite_time_sec", -1);
    field(text, "aof_current_rewrite_time_sec", -1);
    field(text, "aof_last_bgrewrite_status", status(stats.rewrite_failed.load(Relaxed)));
    field(text, "aof_rewrites", 0);
    field(text, "aof_rewrites_consecutive_failures", 0);
    field(text, "aof_last_write_status", status(config.asks_for_log()));
    field(text, "aof_last_cow_size", 0);
    field(text, "module_fork_in_progress", 0);
    field(text, "module_fork_last_cow_size", 0);
    if let Some(left_ms) = grace_left_ms {
        // By this clients wait until the server is ready.
        field(text, "loading_start_time", call.namespace.started.wall_ms().div_euclid(1000));
        field(text, "loading_eta_seconds", left_ms.div_ceil(1000));
    }
}

/// Returns the state of what Redis would have written: it has failed if somebody asked for it.
fn status(has_failed: bool) -> &'static str {
    if has_failed { "err" } else { "ok" }
}

fn replication(text: &mut String, call: &mut Call<'_>) {
    field(text, "role", "master");
    field(text, "connected_slaves", 0);
    field(text, "master_failover_state", "no-failover");
    field(text, "master_replid", call.namespace.replication_id());
    field(text, "master_replid2", "0".repeat(40));
    field(text, "master_repl_offset", 0);
    field(text, "second_repl_offset", -1);
    field(text, "repl_backlog_active", 0);
    let size = Setting::find(b"repl-backlog-size").map(|(_, size)| size.get(&call.namespace.settings.current()));
    field(text, "repl_backlog_size", String::from_utf8_lossy(&size.unwrap_or_default()));
    field(text, "repl_backlog_first_byte_offset", 0);
    field(text, "repl_backlog_histlen", 0);
}

fn cpu(text: &mut String, _: &mut Call<'_>) {
    let id = std::process::id();
    let process = cpu_seconds("/proc/self/stat");
    let main = cpu_seconds(&format!("/proc/self/task/{id}/stat"));
    let mut seconds = |name: &str, value: f64| field(text, name, format_args!("{value:.6}"));
    seconds("used_cpu_sys", process[1]);
    seconds("used_cpu_user", process[0]);
    seconds("used_cpu_sys_children", process[3]);
    seconds("used_cpu_user_children", process[2]);
    seconds("used_cpu_sys_main_thread", main[1]);
    seconds("used_cpu_user_main_thread", main[0]);
}

/// Reads CPU time from the kernel's accounting in ticks of 10 ms: user and system, then those of terminated children.
fn cpu_seconds(path: &str) -> [f64; 4] {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string(path).unwrap_or_default();
    // The name in parentheses may contain blanks; the times are fields 14 to 17 of the line.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let mut ticks = after_name.split_whitespace().skip(11).map(|field| field.parse().unwrap_or(0.0));
    [(); 4].map(|()| ticks.next().unwrap_or(0.0) / TICKS_PER_SECOND)
}

fn keyspace(text: &mut String, call: &mut Call<'_>) {
    let with_deadlines = call.config.dialect().choose("subexpiry", "keys_with_volatile_items");
    for db in call.view.used_databases() {
        let (Totals { keys, with_ttl, with_field_ttl, .. }, avg_ttl) = call.view.in_db(db, |view| {
            let totals = view.totals();
            (totals, if totals.with_ttl > 0 { view.mean_ttl_ms() } else { 0 })
        });
        if keys > 0 {
            field(
                text,
                &format!("db{db}"),
                format_args!("keys={keys},expires={with_ttl},avg_ttl={avg_ttl},{with_deadlines}={with_field_ttl}"),
            );
        }
    }
}

fn all_totals(call: &mut Call<'_>) -> Totals {
    let mut sum = Totals::default();
    call.view.used_databases().into_iter().for_each(|db| sum += call.view.in_db(db, |view| view.totals()));
    sum
}

fn locks(text: &mut String, call: &mut Call<'_>) {
    let totals = all_totals(call);
    let (locks, now) = (call.namespace.observed.locks.clone(), call.now());
    field(text, "held", totals.locks);
    field(text, "waiting", totals.in_line);
    field(text, "acquired_total", locks.acquired.load(Relaxed));
    field(text, "contended_total", locks.contended.load(Relaxed));
    field(text, "timed_out_total", locks.timed_out.load(Relaxed));
    field(text, "deadlocks_total", locks.deadlocks.load(Relaxed));
    field(text, "expired_while_held_total", locks.expired.load(Relaxed));
    let since_us = if totals.in_line > 0 { longest_waiting_since_us(call) } else { None };
    field(text, "longest_wait_ms", since_us.map_or(0, |since_us| now.ms_since(since_us)));
    for (name, durations) in [("lock_wait_usec", locks.waits()), ("lock_hold_usec", locks.holds())] {
        let [p50, p99, p999] = [50.0, 99.0, 99.9].map(|percent| durations.at_percentile(percent));
        field(text, name, format_args!("p50={p50},p99={p99},p99.9={p999}"));
    }
}

/// Returns since when the client has waited that has been in line for a lock for longest, in monotonic microseconds.
fn longest_waiting_since_us(call: &mut Call<'_>) -> Option<u64> {
    let mut longest = None;
    for db in call.view.used_databases() {
        call.view.in_db(db, |view| {
            let first = |_: Key<'_>, _, _: Option<&LockRecord>, line: &VecDeque<LockWaiter>| {
                let firsts = longest.into_iter().chain(line.front().map(|waiter| waiter.since_us));
                longest = firsts.min();
            };
            view.for_each_lock(first);
        });
    }
    longest
}
