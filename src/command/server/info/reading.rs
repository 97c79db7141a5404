//! The sources of INFO's fields. Values that several fields need are computed once, when the first field needs them.

use std::sync::Arc;

use crate::client::info::ClientInfo;
use crate::command::server::info::memory_report::{MemoryReport, all_totals, system_memory};
use crate::config::Config;
use crate::dispatch::Call;
use crate::namespace::Namespace;
use crate::observe::command_stats::{BatchTotals, CallTotals};
use crate::observe::sampler::SampledCounters;
use crate::observe::stats::{ScriptUsage, Stats};
use crate::persist::FileFigures;
use crate::profile::Identity;
use crate::store::Totals;
use crate::text::Dialect;

/// The state of the server at the time of a call.
pub(super) struct Reading<'c, 'n> {
    pub(super) call: &'c mut Call<'n>,
    clients: Option<Vec<Arc<ClientInfo>>>,
    memory: Option<MemoryReport>,
    system_memory: Option<usize>,
    totals: Option<Totals>,
    turns: Option<BatchTotals>,
    calls: Option<CallTotals>,
    scripts: Option<ScriptUsage>,
    settings: Option<Arc<Config>>,
    cpu: Option<CpuSeconds>,
    files: Option<FileFigures>,
}

/// CPU time of the process and of its main thread, in seconds: user and system, then those of terminated children.
#[derive(Clone, Copy)]
pub(super) struct CpuSeconds {
    pub(super) process: [f64; 4],
    pub(super) main: [f64; 4],
}

impl<'c, 'n> Reading<'c, 'n> {
    /// Begins to read; nothing is computed yet.
    pub(super) fn new(call: &'c mut Call<'n>) -> Self {
        Reading {
            call,
            clients: None,
            memory: None,
            system_memory: None,
            totals: None,
            turns: None,
            calls: None,
            scripts: None,
            settings: None,
            cpu: None,
            files: None,
        }
    }

    pub(super) fn namespace(&self) -> &'n Namespace {
        self.call.namespace
    }

    pub(super) fn stats(&self) -> &'n Stats {
        &self.namespace().observed.stats
    }

    /// Returns the latest settings; those of the call may be older.
    pub(super) fn settings(&mut self) -> &Config {
        self.settings.get_or_insert_with(|| self.call.namespace.settings.current())
    }

    /// Returns the figures of files.
    pub(super) fn files(&mut self) -> &FileFigures {
        self.files.get_or_insert_with(|| self.call.namespace.persistence.figures())
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.call.config.dialect()
    }

    pub(super) fn identity(&self) -> &'static Identity {
        self.call.config.identity()
    }

    /// Returns the totals of all databases.
    pub(super) fn totals(&mut self) -> Totals {
        *self.totals.get_or_insert_with(|| all_totals(self.call))
    }

    pub(super) fn memory(&mut self) -> &MemoryReport {
        self.memory.get_or_insert_with(|| MemoryReport::new(self.call))
    }

    /// Returns the memory of the machine, in bytes.
    pub(super) fn system_memory(&mut self) -> usize {
        *self.system_memory.get_or_insert_with(system_memory)
    }

    pub(super) fn clients(&mut self) -> &[Arc<ClientInfo>] {
        self.clients.get_or_insert_with(|| self.call.namespace.clients.all())
    }

    /// Returns the totals of the batches.
    pub(super) fn turns(&mut self) -> BatchTotals {
        *self.turns.get_or_insert_with(|| self.call.namespace.observed.command_stats.turns())
    }

    /// Returns the totals of the calls of all commands.
    pub(super) fn calls(&mut self) -> CallTotals {
        *self.calls.get_or_insert_with(|| self.call.namespace.observed.command_stats.all_calls())
    }

    pub(super) fn rates(&self) -> SampledCounters {
        self.namespace().observed.sampler.rates()
    }

    pub(super) fn scripts(&mut self) -> ScriptUsage {
        *self.scripts.get_or_insert_with(|| self.call.namespace.script_usage())
    }

    pub(super) fn cpu(&mut self) -> CpuSeconds {
        *self.cpu.get_or_insert_with(|| CpuSeconds {
            process: cpu_seconds("/proc/self/stat"),
            main: cpu_seconds(&format!("/proc/self/task/{}/stat", std::process::id())),
        })
    }
}

/// Reads CPU time from the kernel's accounting in ticks of 10 ms.
pub(crate) fn cpu_seconds(path: &str) -> [f64; 4] {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string(path).unwrap_or_default();
    // The name in parentheses may contain blanks; the times are fields 14 to 17 of the line.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let mut ticks = after_name.split_whitespace().skip(11).map(|field| field.parse().unwrap_or(0.0));
    [(); 4].map(|()| ticks.next().unwrap_or(0.0) / TICKS_PER_SECOND)
}
