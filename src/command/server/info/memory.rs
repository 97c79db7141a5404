//! Memory usage, for INFO, MEMORY STATS and MEMORY DOCTOR.

use crate::command::server::info::{all_totals, field};
use crate::dispatch::Call;
use crate::observe::stats::ScriptUsage;

/// Memory usage by purpose, in bytes.
pub(crate) struct MemoryReport {
    pub(crate) used: usize,
    pub(crate) peak: usize,
    /// Used at startup.
    pub(crate) startup: usize,
    pub(crate) dataset: usize,
    pub(crate) keys: usize,
    /// The resident set size of the process.
    pub(crate) rss: usize,
    pub(crate) allocated: usize,
    pub(crate) active: usize,
    pub(crate) resident: usize,
    pub(crate) muzzy: usize,
    /// Pending output of clients.
    pub(crate) clients: usize,
    /// The allocator's name and version.
    pub(crate) allocator: String,
}

impl MemoryReport {
    /// Measures the present usage. Without an allocator that has statistics, only the data is counted.
    pub(crate) fn new(call: &mut Call<'_>) -> Self {
        let totals = all_totals(call);
        let allocator = call.namespace.instance.allocator.map(|stats| stats());
        // The shards' reports may be off by a little; their own counters are exact.
        let used = totals.memory + call.namespace.store.memory_account().outside();
        let sampler = &call.namespace.observed.sampler;
        MemoryReport {
            used,
            peak: sampler.note_memory(used),
            startup: sampler.startup_memory().min(used),
            dataset: totals.memory.min(used),
            keys: totals.keys,
            rss: resident_set(),
            allocated: allocator.map_or(used, |allocator| allocator.allocated),
            active: allocator.map_or(used, |allocator| allocator.active),
            resident: allocator.map_or(used, |allocator| allocator.resident),
            muzzy: allocator.map_or(0, |allocator| allocator.muzzy),
            clients: call.namespace.clients.all().iter().map(|client| client.memory()).sum(),
            // The version ends where jemalloc appends the commit it was built from.
            allocator: allocator.map_or("libc".into(), |allocator| {
                format!("jemalloc-{}", allocator.name.split('-').next().unwrap_or_default())
            }),
        }
    }

    /// Returns the usage besides data.
    pub(crate) fn overhead(&self) -> usize {
        self.used - self.dataset
    }

    /// Returns the growth since startup.
    pub(crate) fn net(&self) -> usize {
        (self.used - self.startup).max(1)
    }
}

/// Divides; 0 for a divisor of 0.
pub(crate) fn ratio(whole: usize, part: usize) -> f64 {
    whole as f64 / part.max(1) as f64
}

/// Subtracts; the result may be negative.
pub(crate) fn difference(whole: usize, part: usize) -> i64 {
    whole as i64 - part as i64
}

/// Reads the resident set size of this process, in bytes; 0 where the kernel does not report it.
fn resident_set() -> usize {
    const PAGE_LEN: usize = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0) * PAGE_LEN
}

/// Reads the memory of the machine, in bytes; 0 where the kernel does not report it.
fn system_memory() -> usize {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok());
    kib.unwrap_or(0) * 1024
}

pub(crate) fn memory(text: &mut String, call: &mut Call<'_>) {
    let report = MemoryReport::new(call);
    let (system, config) = (system_memory(), call.namespace.settings.current());
    with_human(text, "used_memory", report.used);
    with_human(text, "used_memory_rss", report.rss);
    with_human(text, "used_memory_peak", report.peak);
    field(text, "used_memory_peak_perc", format_args!("{:.2}%", ratio(report.used * 100, report.peak)));
    field(text, "used_memory_overhead", report.overhead());
    field(text, "used_memory_startup", report.startup);
    field(text, "used_memory_dataset", report.dataset);
    field(text, "used_memory_dataset_perc", format_args!("{:.2}%", ratio(report.dataset * 100, report.net())));
    field(text, "allocator_allocated", report.allocated);
    field(text, "allocator_active", report.active);
    field(text, "allocator_resident", report.resident);
    field(text, "allocator_muzzy", report.muzzy);
    with_human(text, "total_system_memory", system);
    scripts(text, &call.namespace.script_usage());
    with_human(text, "maxmemory", config.maxmemory as usize);
    field(text, "maxmemory_policy", config.maxmemory_policy.as_str());
    fragmentation(text, &report);
    field(text, "mem_not_counted_for_evict", call.namespace.store.memory_account().exempt());
    field(text, "mem_replication_backlog", 0);
    field(text, "mem_total_replication_buffers", 0);
    field(text, "mem_clients_slaves", 0);
    field(text, "mem_clients_normal", report.clients);
    field(text, "mem_cluster_links", 0);
    field(text, "mem_aof_buffer", 0);
    field(text, "mem_overhead_db_hashtable_rehashing", 0);
    field(text, "mem_allocator", &report.allocator);
    field(text, "active_defrag_running", 0);
    field(text, "lazyfree_pending_objects", call.namespace.store.reclaimer().pending());
    field(text, "lazyfreed_objects", call.namespace.store.reclaimer().freed());
}

fn scripts(text: &mut String, usage: &ScriptUsage) {
    field(text, "used_memory_lua", usage.eval_bytes);
    field(text, "used_memory_vm_eval", usage.eval_bytes);
    field(text, "used_memory_lua_human", human(usage.eval_bytes));
    field(text, "used_memory_scripts_eval", usage.scripts_bytes);
    field(text, "number_of_cached_scripts", usage.scripts);
    field(text, "number_of_functions", usage.functions);
    field(text, "number_of_libraries", usage.libraries);
    field(text, "used_memory_vm_functions", usage.functions_bytes);
    with_human(text, "used_memory_vm_total", usage.eval_bytes + usage.functions_bytes);
    field(text, "used_memory_functions", usage.libraries_bytes);
    with_human(text, "used_memory_scripts", usage.scripts_bytes + usage.libraries_bytes);
}

fn fragmentation(text: &mut String, report: &MemoryReport) {
    let mut pair = |name: &str, whole, part| {
        field(text, &format!("{name}_ratio"), format_args!("{:.2}", ratio(whole, part)));
        field(text, &format!("{name}_bytes"), difference(whole, part));
    };
    pair("allocator_frag", report.active, report.allocated);
    pair("allocator_rss", report.resident, report.active);
    pair("rss_overhead", report.rss, report.resident);
    pair("mem_fragmentation", report.rss, report.used);
}

/// Writes a number of bytes in plain and in human-readable form.
fn with_human(text: &mut String, name: &str, bytes: usize) {
    field(text, name, bytes);
    field(text, &format!("{name}_human"), human(bytes));
}

/// Formats a number of bytes in human-readable form: `1.50K`.
pub(crate) fn human(bytes: usize) -> String {
    let (mut value, mut units) = (bytes as f64, "KMGTP".chars());
    let mut unit = None;
    while value >= 1024.0 {
        value /= 1024.0;
        unit = units.next();
    }
    unit.map_or_else(|| format!("{bytes}B"), |unit| format!("{value:.2}{unit}"))
}
