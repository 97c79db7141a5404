//! The counters of `INFO stats` that belong to no command.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::client::registry::Clients;
use crate::store::{NEVER, Totals};
use crate::time::clock::Now;

/// Memory and counts of scripts and functions, for INFO.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptUsage {
    /// Memory of the interpreter of scripts, in bytes: `used_memory_vm_eval`, `used_memory_lua`.
    pub eval_bytes: usize,
    /// Memory of the interpreter of functions, in bytes: `used_memory_vm_functions`.
    pub functions_bytes: usize,
    /// Memory of the script texts, in bytes: `used_memory_scripts_eval`.
    pub scripts_bytes: usize,
    /// Scripts in the cache: `number_of_cached_scripts`.
    pub scripts: usize,
    /// Functions of all libraries: `number_of_functions`.
    pub functions: usize,
    /// Libraries: `number_of_libraries`.
    pub libraries: usize,
    /// Memory of the libraries' texts, in bytes: `used_memory_functions`.
    pub libraries_bytes: usize,
}

impl ScriptUsage {
    /// Returns the memory of both interpreters, in bytes.
    pub fn vm_bytes(&self) -> usize {
        self.eval_bytes + self.functions_bytes
    }

    /// Returns the memory of all texts, in bytes.
    pub fn texts_bytes(&self) -> usize {
        self.scripts_bytes + self.libraries_bytes
    }
}

/// Counters since the start or CONFIG RESETSTAT.
#[derive(Default)]
pub struct Stats {
    /// The values of other counters at the last CONFIG RESETSTAT.
    pub forgotten: Forgotten,
    /// Reads that returned data.
    pub reads: AtomicU64,
    /// Writes of replies.
    pub writes: AtomicU64,
    /// Bytes read from clients.
    pub bytes_in: AtomicU64,
    /// Bytes written to clients.
    pub bytes_out: AtomicU64,
    /// Bytes read from a primary; included in [`Stats::bytes_in`].
    pub link_bytes_in: AtomicU64,
    /// Bytes written to replicas; included in [`Stats::bytes_out`].
    pub link_bytes_out: AtomicU64,
    /// Clients closed because of `client-output-buffer-limit`.
    pub output_limit_disconnections: AtomicU64,
    /// Clients closed because of `client-query-buffer-limit`.
    pub query_limit_disconnections: AtomicU64,
    /// Failed authentications.
    pub acl_denied_auth: AtomicU64,
    /// Commands rejected for lack of permission.
    pub acl_denied_command: AtomicU64,
    /// Commands rejected for lack of permission for a key.
    pub acl_denied_key: AtomicU64,
    /// Commands rejected for lack of permission for a channel.
    pub acl_denied_channel: AtomicU64,
    /// EVAL scripts evicted because there were too many.
    pub evicted_scripts: AtomicU64,
    /// Full synchronisations of replicas.
    pub full_syncs: AtomicU64,
    /// Partial resynchronisations of replicas.
    pub partial_syncs: AtomicU64,
    /// Requests of replicas for a partial resynchronisation that were refused.
    pub refused_partial_syncs: AtomicU64,
    /// Commands of the primary, or of replicas, that have failed.
    pub replication_errors: AtomicU64,
    /// Time for which memory usage has exceeded the limit.
    pub shortage: OverMaxmemory,
}

/// Measurement of the time for which memory usage has exceeded the limit.
pub struct OverMaxmemory {
    /// Time since which the limit has been exceeded, in monotonic milliseconds, or [`NEVER`].
    since_ms: AtomicU64,
    past_ms: AtomicU64,
}

impl Default for OverMaxmemory {
    fn default() -> Self {
        OverMaxmemory { since_ms: AtomicU64::new(NEVER), past_ms: AtomicU64::new(0) }
    }
}

impl OverMaxmemory {
    /// Records whether the limit is exceeded now.
    pub fn note(&self, is_short: bool, now: Now) {
        let since_ms = self.since_ms.load(Relaxed);
        if is_short && since_ms == NEVER {
            self.since_ms.store(now.mono_ms(), Relaxed);
        } else if !is_short && since_ms != NEVER {
            self.since_ms.store(NEVER, Relaxed);
            self.past_ms.fetch_add(now.mono_ms().saturating_sub(since_ms), Relaxed);
        }
    }

    /// Forgets the time before `now_ms`, in monotonic milliseconds.
    fn clear(&self, now_ms: u64) {
        self.past_ms.store(0, Relaxed);
        // Fails only while the limit is not exceeded, when there is nothing to reset.
        let _ = self.since_ms.fetch_update(Relaxed, Relaxed, |since_ms| (since_ms != NEVER).then_some(now_ms));
    }

    /// Returns how long the limit has been exceeded, in milliseconds; 0 if it is not.
    pub fn current_ms(&self, now: Now) -> u64 {
        now.mono_ms().saturating_sub(self.since_ms.load(Relaxed))
    }

    /// Returns how long the limit was exceeded in total, in milliseconds.
    pub fn total_ms(&self, now: Now) -> u64 {
        self.past_ms.load(Relaxed) + self.current_ms(now)
    }
}

/// Values of counters at the last CONFIG RESETSTAT, which are subtracted from the present ones.
#[derive(Default)]
pub struct Forgotten {
    /// Expired keys.
    pub expired: AtomicU64,
    /// Expired keys that the sweeper deleted.
    pub swept: AtomicU64,
    /// Expired fields of hashes.
    pub expired_fields: AtomicU64,
    /// Expired fields of hashes that the sweeper removed.
    pub swept_fields: AtomicU64,
    /// Evicted keys.
    pub evicted: AtomicU64,
    /// Evicted clients.
    pub evicted_clients: AtomicU64,
    connections: AtomicU64,
    refused: AtomicU64,
}

impl Stats {
    /// Returns how many connections were received, served or not.
    pub fn connections(&self, clients: &Clients) -> u64 {
        clients.served() + clients.refused() - self.forgotten.connections.load(Relaxed)
    }

    /// Returns how many connections were refused because of `maxclients`.
    pub fn rejected_connections(&self, clients: &Clients) -> u64 {
        clients.refused() - self.forgotten.refused.load(Relaxed)
    }

    /// Counts bytes that a primary has sent.
    pub(crate) fn count_link_input(&self, len: usize) {
        self.bytes_in.fetch_add(len as u64, Relaxed);
        self.link_bytes_in.fetch_add(len as u64, Relaxed);
    }

    /// Resets the counters; `totals` are those of all databases.
    pub fn clear(&self, clients: &Clients, totals: &Totals, now_ms: u64) {
        let Stats { forgotten, reads, writes, bytes_in, bytes_out, link_bytes_in, link_bytes_out, .. } = self;
        [reads, writes, bytes_in, bytes_out, link_bytes_in, link_bytes_out]
            .into_iter()
            .for_each(|counter| counter.store(0, Relaxed));
        [&self.full_syncs, &self.partial_syncs, &self.refused_partial_syncs, &self.replication_errors]
            .into_iter()
            .for_each(|counter| counter.store(0, Relaxed));
        self.shortage.clear(now_ms);
        [&self.acl_denied_auth, &self.acl_denied_command, &self.acl_denied_key, &self.acl_denied_channel]
            .into_iter()
            .for_each(|counter| counter.store(0, Relaxed));
        self.output_limit_disconnections.store(0, Relaxed);
        self.query_limit_disconnections.store(0, Relaxed);
        self.evicted_scripts.store(0, Relaxed);
        forgotten.expired.store(totals.expired, Relaxed);
        forgotten.swept.store(totals.swept, Relaxed);
        forgotten.expired_fields.store(totals.expired_fields, Relaxed);
        forgotten.swept_fields.store(totals.swept_fields, Relaxed);
        forgotten.evicted.store(totals.evicted, Relaxed);
        forgotten.evicted_clients.store(clients.evicted(), Relaxed);
        forgotten.connections.store(clients.served() + clients.refused(), Relaxed);
        forgotten.refused.store(clients.refused(), Relaxed);
    }
}
