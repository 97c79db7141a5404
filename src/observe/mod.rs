//! Observability: counters, latency, the slow log, MONITOR.
//!
//! Nothing here makes decisions; `dispatch` records after each call, and the commands that report it only read. Every
//! call pays only for [`command_stats`]; all else is rare.

pub(crate) mod command_stats;
mod engine;
pub(crate) mod errors;
pub(crate) mod handovers;
pub(crate) mod histogram;
pub(crate) mod hot_keys;
pub(crate) mod latency;
pub(crate) mod locks;
pub(crate) mod monitor;
pub(crate) mod sampler;
pub(crate) mod slow_log;
pub(crate) mod stats;
pub(crate) mod unknown;

pub(crate) use command_stats::{AllCommandStats, CallTimer};
pub(crate) use engine::EngineStats;
pub(crate) use errors::ErrorCounts;
pub(crate) use hot_keys::HotKeys;
pub(crate) use latency::LatencyEvents;
pub(crate) use locks::LockStats;
pub(crate) use monitor::Monitors;
pub(crate) use sampler::Sampler;
pub(crate) use slow_log::SlowLog;
pub(crate) use unknown::UnknownCommands;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::Notify;

use crate::client::registry::Clients;
use crate::config::Config;
use crate::observe::sampler::SampledCounters;
use crate::observe::stats::Stats;
use crate::store::{MemoryAccount, Totals};

/// The statistics of one namespace.
pub struct Observed {
    /// The counters of INFO that belong to no command.
    pub stats: Stats,
    /// Command statistics.
    pub command_stats: AllCommandStats,
    /// Error statistics.
    pub errors: ErrorCounts,
    /// The slow log.
    pub slow_log: SlowLog,
    /// The log of large requests.
    pub large_requests: SlowLog,
    /// The log of large replies.
    pub large_replies: SlowLog,
    /// The keys that cost most.
    pub(crate) hot_keys: HotKeys,
    /// The latency monitor.
    pub latency: LatencyEvents,
    /// The clients that run MONITOR.
    pub monitors: Monitors,
    /// Rates per second.
    pub sampler: Sampler,
    /// Wakes the publisher of the state, every second, after the rates were computed.
    pub sampled: Notify,
    /// Unknown commands that clients have called.
    pub unknown: UnknownCommands,
    /// Statistics of locks.
    pub locks: Arc<LockStats>,
    /// Statistics of the engine, if the data is in a cluster.
    pub(crate) engine: Arc<EngineStats>,
}

impl Observed {
    /// Creates the statistics of an instance whose `commands` commands and subcommands are executed by `threads`
    /// threads; the logs of calls count as used memory.
    pub fn new(threads: usize, commands: usize, memory_account: &Arc<MemoryAccount>) -> Self {
        Observed {
            stats: Stats::default(),
            command_stats: AllCommandStats::new(threads, commands),
            errors: ErrorCounts::default(),
            slow_log: SlowLog::new(memory_account),
            large_requests: SlowLog::new(memory_account),
            large_replies: SlowLog::new(memory_account),
            hot_keys: HotKeys::default(),
            latency: LatencyEvents::default(),
            monitors: Monitors::default(),
            sampler: Sampler::default(),
            sampled: Notify::new(),
            unknown: UnknownCommands::default(),
            locks: Arc::default(),
            engine: Arc::default(),
        }
    }

    /// Samples the counters, once a second, for the rates that INFO shows.
    pub(crate) fn sample(&self, now_ms: u64, used_memory: usize) {
        let turns = self.command_stats.turns();
        let counted = SampledCounters {
            commands: self.command_stats.all_calls().count,
            bytes_in: self.stats.bytes_in.load(Relaxed),
            bytes_out: self.stats.bytes_out.load(Relaxed),
            link_bytes_in: self.stats.link_bytes_in.load(Relaxed),
            link_bytes_out: self.stats.link_bytes_out.load(Relaxed),
            turns: turns.count,
            turns_us: turns.ns.div_ceil(1000),
            transactions: self.engine.transactions.load(Relaxed),
            barriers: self.engine.barriers.load(Relaxed),
        };
        self.sampler.look(counted, now_ms, used_memory);
        self.sampled.notify_one();
    }

    /// Resets the statistics that CONFIG RESETSTAT covers; `totals` are those of all databases, and the caller holds
    /// the store exclusively.
    pub fn clear(&self, clients: &Clients, totals: &Totals, now_ms: u64) {
        self.stats.clear(clients, totals, now_ms);
        self.command_stats.clear();
        self.errors.clear();
        self.sampler.clear(now_ms);
        self.locks.clear();
        self.engine.clear();
    }

    /// Returns the duration in nanoseconds from which a call must be reported: 0 while there are monitors, large requests
    /// or replies are logged, or hot keys are tracked.
    pub fn record_from_ns(&self, config: &Config) -> u64 {
        let logs_large = config.commandlog_request_larger_than >= 0 || config.commandlog_reply_larger_than >= 0;
        if logs_large || self.hot_keys.is_active() || !self.monitors.is_empty() {
            return 0;
        }
        let slow_us = u64::try_from(config.slowlog_log_slower_than).unwrap_or(u64::MAX);
        let event_ms = config.latency_monitor_threshold;
        let event_ns = if event_ms == 0 { u64::MAX } else { event_ms.saturating_mul(1_000_000) };
        event_ns.min(slow_us.saturating_mul(1000))
    }
}
