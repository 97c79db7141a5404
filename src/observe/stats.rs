//! What has happened since the start: the counters of `INFO stats` that belong to no command.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::client::registry::Clients;
use crate::store::{NEVER, Totals};
use crate::time::clock::Now;

/// Sums up scripts and functions for INFO.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptUsage {
    /// What the interpreter of scripts takes, in bytes: `used_memory_vm_eval`, `used_memory_lua`.
    pub eval_bytes: usize,
    /// What the interpreter of functions takes, in bytes: `used_memory_vm_functions`.
    pub functions_bytes: usize,
    /// What the texts of scripts take, in bytes: `used_memory_scripts_eval`.
    pub scripts_bytes: usize,
    /// Scripts in the cache: `number_of_cached_scripts`.
    pub scripts: usize,
    /// Functions of all libraries: `number_of_functions`.
    pub functions: usize,
    /// Libraries: `number_of_libraries`.
    pub libraries: usize,
    /// What their texts take, in bytes: `used_memory_functions`.
    pub libraries_bytes: usize,
}

/// Counts what has happened since the start.
#[derive(Default)]
pub struct Stats {
    /// What was counted elsewhere before CONFIG RESETSTAT.
    pub forgotten: Forgotten,
    /// Reads that brought something.
    pub reads: AtomicU64,
    /// Writes of replies.
    pub writes: AtomicU64,
    /// Bytes read from clients.
    pub bytes_in: AtomicU64,
    /// Bytes written to clients.
    pub bytes_out: AtomicU64,
    /// Clients closed because of `client-output-buffer-limit`.
    pub output_limit_disconnections: AtomicU64,
    /// Clients closed because of `client-query-buffer-limit`.
    pub query_limit_disconnections: AtomicU64,
    /// Log-ins refused because of a wrong name or password.
    pub acl_denied_auth: AtomicU64,
    /// Commands refused because the user may not call them.
    pub acl_denied_command: AtomicU64,
    /// Commands refused because of a key.
    pub acl_denied_key: AtomicU64,
    /// Commands refused because of a channel.
    pub acl_denied_channel: AtomicU64,
    /// Scripts of EVAL that were evicted because there were too many.
    pub evicted_scripts: AtomicU64,
    /// Since when more memory has been used than may be.
    pub shortage: Shortage,
}

/// Measures for how long more memory was used than may be.
pub struct Shortage {
    /// In monotonic milliseconds, or [`NEVER`].
    since_ms: AtomicU64,
    past_ms: AtomicU64,
}

impl Default for Shortage {
    fn default() -> Self {
        Shortage { since_ms: AtomicU64::new(NEVER), past_ms: AtomicU64::new(0) }
    }
}

impl Shortage {
    /// Takes note of whether there is one.
    pub fn note(&self, is_short: bool, now: Now) {
        let since_ms = self.since_ms.load(Relaxed);
        if is_short && since_ms == NEVER {
            self.since_ms.store(now.mono_ms(), Relaxed);
        } else if !is_short && since_ms != NEVER {
            self.since_ms.store(NEVER, Relaxed);
            self.past_ms.fetch_add(now.mono_ms().saturating_sub(since_ms), Relaxed);
        }
    }

    /// Returns how many milliseconds the present one has lasted; 0 if there is none.
    pub fn current_ms(&self, now: Now) -> u64 {
        now.mono_ms().saturating_sub(self.since_ms.load(Relaxed))
    }

    /// Returns how many milliseconds all of them have lasted.
    pub fn total_ms(&self, now: Now) -> u64 {
        self.past_ms.load(Relaxed) + self.current_ms(now)
    }
}

/// Remembers what is not to be counted any more.
#[derive(Default)]
pub struct Forgotten {
    /// Keys that ended by their deadline.
    pub expired: AtomicU64,
    /// Those of them that the sweeper found.
    pub swept: AtomicU64,
    /// Keys that were removed for want of memory.
    pub evicted: AtomicU64,
    /// Clients that were closed for want of memory.
    pub evicted_clients: AtomicU64,
    connections: AtomicU64,
    refused: AtomicU64,
}

impl Stats {
    /// Returns how many connections came, served or not.
    pub fn connections(&self, clients: &Clients) -> u64 {
        clients.served() + clients.refused() - self.forgotten.connections.load(Relaxed)
    }

    /// Returns how many connections were refused because of `maxclients`.
    pub fn rejected_connections(&self, clients: &Clients) -> u64 {
        clients.refused() - self.forgotten.refused.load(Relaxed)
    }

    /// Starts from zero; `totals` are those of all databases.
    pub fn clear(&self, clients: &Clients, totals: &Totals) {
        let Stats { forgotten, reads, writes, bytes_in, bytes_out, .. } = self;
        [reads, writes, bytes_in, bytes_out].into_iter().for_each(|counter| counter.store(0, Relaxed));
        [&self.acl_denied_auth, &self.acl_denied_command, &self.acl_denied_key, &self.acl_denied_channel]
            .into_iter()
            .for_each(|counter| counter.store(0, Relaxed));
        self.output_limit_disconnections.store(0, Relaxed);
        self.query_limit_disconnections.store(0, Relaxed);
        self.evicted_scripts.store(0, Relaxed);
        forgotten.expired.store(totals.expired, Relaxed);
        forgotten.swept.store(totals.swept, Relaxed);
        forgotten.evicted.store(totals.evicted, Relaxed);
        forgotten.evicted_clients.store(clients.evicted(), Relaxed);
        forgotten.connections.store(clients.served() + clients.refused(), Relaxed);
        forgotten.refused.store(clients.refused(), Relaxed);
    }
}
