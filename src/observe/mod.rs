//! What can be seen of a running server: counters, durations, what was slow, and who watches.
//!
//! Nothing here decides anything; `command::post_call` brings it up to date after a call, and the commands that show it
//! only read. What every call pays for is in [`command_stats`]; all else happens seldom or when somebody asks.

pub(crate) mod command_stats;
pub(crate) mod errors;
pub(crate) mod histogram;
pub(crate) mod latency;
pub(crate) mod monitor;
pub(crate) mod sampler;
pub(crate) mod slow_log;
pub(crate) mod stats;
pub(crate) mod unknown;

pub(crate) use command_stats::{AllStats, CallTimer};
pub(crate) use errors::ErrorCounts;
pub(crate) use latency::LatencyEvents;
pub(crate) use monitor::Monitors;
pub(crate) use sampler::Sampler;
pub(crate) use slow_log::SlowLog;
pub(crate) use unknown::UnknownCommands;

use std::sync::Arc;

use crate::config::Config;
use crate::store::MemoryAccount;

/// Holds what can be seen of one instance.
pub struct Observed {
    /// What commands cost.
    pub meters: AllStats,
    /// Which errors were replied.
    pub errors: ErrorCounts,
    /// Which calls took long.
    pub slow_log: SlowLog,
    /// What else took long, and when.
    pub latency: LatencyEvents,
    /// Who watches every call.
    pub monitors: Monitors,
    /// How much happens in a second.
    pub sampler: Sampler,
    /// Which commands were asked for in vain.
    pub unknown: UnknownCommands,
}

impl Observed {
    /// Creates the statistics of an instance whose `commands` commands and subcommands are executed by `threads` threads; the slow
    /// log counts as used memory.
    pub fn new(threads: usize, commands: usize, memory_account: &Arc<MemoryAccount>) -> Self {
        Observed {
            meters: AllStats::new(threads, commands),
            errors: ErrorCounts::default(),
            slow_log: SlowLog::new(memory_account),
            latency: LatencyEvents::default(),
            monitors: Monitors::default(),
            sampler: Sampler::default(),
            unknown: UnknownCommands::default(),
        }
    }

    /// Forgets what CONFIG RESETSTAT is for; only for calls that hold the store exclusively.
    pub fn clear(&self, now_ms: u64) {
        self.meters.clear();
        self.errors.clear();
        self.sampler.clear(now_ms);
    }

    /// Returns from how many nanoseconds on somebody wants to know of a call: all of them while there are monitors.
    pub fn notable_ns(&self, config: &Config) -> u64 {
        if !self.monitors.is_empty() {
            return 0;
        }
        let slow_us = u64::try_from(config.slowlog_log_slower_than).unwrap_or(u64::MAX);
        let event_ms = config.latency_monitor_threshold;
        let event_ns = if event_ms == 0 { u64::MAX } else { event_ms.saturating_mul(1_000_000) };
        event_ns.min(slow_us.saturating_mul(1000))
    }
}
