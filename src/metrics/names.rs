//! The names of metrics: a line for each figure of INFO that is one number.
//!
//! The names are those of redis_exporter where it has the figure, so its dashboards and alerts fit. A line is all that
//! a figure needs to become a metric; those with labels are in `exposition.rs`. Figures that are always zero here are
//! left out; `per` converts other units to base units.

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricKind {
    /// A value that goes up and down.
    Gauge,
    /// A value that only grows, until the server is restarted or CONFIG RESETSTAT resets it.
    Counter,
}

/// A metric with one value.
#[derive(Debug)]
pub(super) struct Metric {
    /// Field of INFO with the value.
    pub(super) field: &'static str,
    /// Name of the metric; `_total` of a counter is not part of it.
    pub(super) name: &'static str,
    pub(super) kind: MetricKind,
    /// Number of the field's units that make one unit of the metric.
    pub(super) divisor: f64,
    pub(super) help: &'static str,
}

impl Metric {
    const fn per(self, divisor: f64) -> Self {
        Metric { divisor, ..self }
    }
}

const fn gauge(field: &'static str, name: &'static str, help: &'static str) -> Metric {
    Metric { field, name, kind: MetricKind::Gauge, divisor: 1.0, help }
}

const fn counter(field: &'static str, name: &'static str, help: &'static str) -> Metric {
    Metric { field, name, kind: MetricKind::Counter, divisor: 1.0, help }
}

#[rustfmt::skip] // a table
pub(super) const METRICS: &[Metric] = &[
    gauge("uptime_in_seconds", "redis_uptime_in_seconds", "Seconds since the start of the server"),
    gauge("process_id", "redis_process_id", "Process id of the server"),

    gauge("connected_clients", "redis_connected_clients", "Connected clients"),
    gauge("maxclients", "redis_max_clients", "Limit of connected clients"),
    gauge("blocked_clients", "redis_blocked_clients", "Clients that wait: for a lock, for keys, or for the end of a pause"),
    gauge("tracking_clients", "redis_tracking_clients", "Clients that use client-side caching"),
    gauge("pubsub_clients", "redis_pubsub_clients", "Clients with subscriptions"),
    gauge("watching_clients", "redis_watching_clients", "Clients that watch keys"),
    gauge("clients_in_timeout_table", "redis_clients_in_timeout_table", "Clients that wait with a timeout"),
    gauge("total_watched_keys", "redis_total_watched_keys", "Keys that are watched"),
    gauge("total_blocking_keys", "redis_total_blocking_keys", "Keys that clients are blocked on"),
    gauge("client_recent_max_input_buffer", "redis_client_recent_max_input_buffer_bytes", "Largest input buffer of a client"),
    gauge("client_recent_max_output_buffer", "redis_client_recent_max_output_buffer_bytes", "Largest output buffer of a client"),

    gauge("used_memory", "redis_memory_used_bytes", "Memory that the server has allocated"),
    gauge("used_memory_rss", "redis_memory_used_rss_bytes", "Resident memory of the process"),
    gauge("used_memory_peak", "redis_memory_used_peak_bytes", "Largest memory that the server has allocated so far"),
    gauge("used_memory_overhead", "redis_memory_used_overhead_bytes", "Memory used for anything but the data"),
    gauge("used_memory_startup", "redis_memory_used_startup_bytes", "Memory used after the start"),
    gauge("used_memory_dataset", "redis_memory_used_dataset_bytes", "Memory used for the data"),
    gauge("used_memory_lua", "redis_memory_used_lua_bytes", "Memory of the interpreter of scripts"),
    gauge("used_memory_scripts", "redis_memory_used_scripts_bytes", "Memory of the texts of scripts and functions"),
    gauge("number_of_cached_scripts", "redis_number_of_cached_scripts", "Scripts in the cache"),
    gauge("number_of_functions", "redis_number_of_functions", "Functions of all libraries"),
    gauge("maxmemory", "redis_memory_max_bytes", "Limit of the memory used, 0 without a limit"),
    gauge("allocator_active", "redis_allocator_active_bytes", "Memory in pages that the allocator uses"),
    gauge("allocator_allocated", "redis_allocator_allocated_bytes", "Memory allocated by the allocator"),
    gauge("allocator_resident", "redis_allocator_resident_bytes", "Resident memory of the allocator"),
    gauge("mem_fragmentation_ratio", "redis_mem_fragmentation_ratio", "Resident memory divided by the memory used"),
    gauge("mem_clients_normal", "redis_mem_clients_normal", "Memory of clients, in bytes"),
    gauge("lazyfree_pending_objects", "redis_lazyfree_pending_objects", "Values that are still to be freed in the background"),

    gauge("loading", "redis_loading_dump_file", "Whether data is being loaded"),
    gauge("rdb_changes_since_last_save", "redis_rdb_changes_since_last_save", "Changes since the last successful snapshot"),
    gauge("rdb_last_save_time", "redis_rdb_last_save_timestamp_seconds", "When the last successful snapshot began, since 1970; the start of the server before the first"),
    gauge("rdb_last_save_age_seconds", "keylatch_rdb_last_save_age_seconds", "Seconds since the last successful snapshot began"),
    gauge("rdb_bgsave_in_progress", "redis_rdb_bgsave_in_progress", "Whether a snapshot is being saved"),
    gauge("aof_enabled", "redis_aof_enabled", "Whether there is an append-only file"),
    gauge("aof_rewrite_in_progress", "redis_aof_rewrite_in_progress", "Whether the append-only file is being rewritten"),
    gauge("aof_current_size", "redis_aof_current_size_bytes", "Length of the append-only file"),
    gauge("aof_base_size", "redis_aof_base_size_bytes", "Length of the append-only file when it was rewritten"),

    counter("total_connections_received", "redis_connections_received", "Connections accepted"),
    counter("rejected_connections", "redis_rejected_connections", "Connections rejected because of maxclients"),
    counter("total_commands_processed", "redis_commands_processed", "Commands executed"),
    counter("total_net_input_bytes", "redis_net_input_bytes", "Bytes read from clients"),
    counter("total_net_output_bytes", "redis_net_output_bytes", "Bytes written to clients"),
    counter("keyspace_hits", "redis_keyspace_hits", "Reads that found their key"),
    counter("keyspace_misses", "redis_keyspace_misses", "Reads that did not find their key"),
    counter("expired_keys", "redis_expired_keys", "Keys expired"),
    counter("expired_subkeys", "redis_expired_subkeys", "Fields of hashes expired"),
    counter("evicted_keys", "redis_evicted_keys", "Keys evicted because of maxmemory"),
    counter("evicted_clients", "redis_evicted_clients", "Clients closed because of maxmemory-clients"),
    counter("evicted_scripts", "redis_evicted_scripts", "Scripts removed from the cache"),
    counter("eventloop_cycles", "redis_eventloop_cycles", "Batches executed"),
    counter("client_query_buffer_limit_disconnections", "redis_client_query_buffer_limit_disconnections", "Clients closed because of client-query-buffer-limit"),
    counter("client_output_buffer_limit_disconnections", "redis_client_output_buffer_limit_disconnections", "Clients closed because of client-output-buffer-limit"),
    counter("acl_access_denied_auth", "redis_acl_access_denied_auth", "Failed authentications"),
    counter("acl_access_denied_cmd", "redis_acl_access_denied_cmd", "Commands rejected for lack of permission"),
    counter("acl_access_denied_key", "redis_acl_access_denied_key", "Commands rejected for lack of permission for a key"),
    counter("acl_access_denied_channel", "redis_acl_access_denied_channel", "Commands rejected for lack of permission for a channel"),
    gauge("pubsub_channels", "redis_pubsub_channels", "Channels with subscribers"),
    gauge("pubsub_patterns", "redis_pubsub_patterns", "Patterns with subscribers"),
    gauge("pubsubshard_channels", "redis_pubsubshard_channels", "Shard channels with subscribers"),
    gauge("tracking_total_keys", "redis_tracking_total_keys", "Keys that clients have cached"),
    gauge("connected_slaves", "redis_connected_slaves", "Connected replicas"),
    gauge("master_repl_offset", "redis_master_repl_offset", "Offset of the replication stream"),

    counter("used_cpu_sys", "redis_cpu_sys_seconds", "CPU time of the process in the kernel"),
    counter("used_cpu_user", "redis_cpu_user_seconds", "CPU time of the process outside of the kernel"),

    gauge("held", "keylatch_locks_held", "Locks that are held through LOCK.ACQUIRE"),
    gauge("waiting", "keylatch_locks_waiting", "Clients in line for locks"),
    gauge("longest_wait_ms", "keylatch_locks_longest_wait_seconds", "For how long the client has waited that is in line for longest").per(1000.0),
    counter("acquired_total", "keylatch_lock_acquired", "Locks acquired by LOCK.ACQUIRE"),
    counter("contended_total", "keylatch_lock_contended", "Calls of LOCK.ACQUIRE that found the lock held"),
    counter("timed_out_total", "keylatch_lock_timed_out", "Waits for locks that timed out"),
    counter("deadlocks_total", "keylatch_lock_deadlocks", "Calls of LOCK.ACQUIRE that were refused because they would have waited for ever"),
    counter("deadlock_steps_total", "keylatch_lock_deadlock_steps", "Locks, holders and clients looked at to find deadlocks"),
    counter("expired_while_held_total", "keylatch_lock_expired", "Locks that expired before they were released"),
    gauge("engine_revision", "keylatch_engine_revision", "Revision of etcd up to which the server has everything"),
    gauge("engine_revisions_behind", "keylatch_engine_revisions_behind", "Revisions of etcd that the server has heard of and does not have yet"),
    gauge("engine_members", "keylatch_engine_members", "Members of etcd that vote"),
    gauge("engine_size", "keylatch_engine_size_bytes", "Size of etcd's database"),
    counter("engine_calls", "keylatch_engine_calls", "Calls that the engine has executed, those of blocked clients each time"),
    counter("engine_transactions", "keylatch_engine_transactions", "Transactions sent to etcd"),
    counter("engine_barriers", "keylatch_engine_barriers", "Reads of etcd's revision, each for all reads that wait"),
    counter("engine_conflicts", "keylatch_engine_conflicts", "Transactions that were executed again because another server had changed their keys"),
    counter("engine_unknown_outcomes", "keylatch_engine_unknown_outcomes", "Transactions whose outcome was not known at first"),
    counter("engine_uncertain_replies", "keylatch_engine_uncertain_replies", "Transactions whose clients were told that the outcome is not known"),
    counter("engine_watches", "keylatch_engine_watches", "How often the changes of etcd were followed from another place"),
    counter("engine_reloads", "keylatch_engine_reloads", "How often all keys were loaded again"),

    counter("caught_panics", "keylatch_caught_panics", "Panics that were caught, each of them a bug"),
    counter("dropped_log_lines", "keylatch_dropped_log_lines", "Log lines dropped because the log was not written fast enough"),
];
