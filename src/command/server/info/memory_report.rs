//! Memory usage by purpose, for INFO, MEMORY STATS and MEMORY DOCTOR.

use crate::dispatch::Call;
use crate::memory::heap::QUANTUM;
use crate::store::Totals;

/// Memory usage by purpose, in bytes.
pub(crate) struct MemoryReport {
    pub(crate) used: usize,
    pub(crate) peak: usize,
    /// The memory used at startup.
    pub(crate) startup: usize,
    pub(crate) dataset: usize,
    pub(crate) keys: usize,
    /// The resident set size of the process.
    pub(crate) rss: usize,
    pub(crate) allocated: usize,
    pub(crate) active: usize,
    pub(crate) resident: usize,
    pub(crate) muzzy: usize,
    /// The buffers of clients other than replicas.
    pub(crate) clients: usize,
    /// The buffers of replicas, without the log, which exists once for all of them.
    pub(crate) replicas: usize,
    /// The part of the log that is kept for replicas that may return.
    pub(crate) backlog: usize,
    pub(crate) allocator: String,
    /// The distance between the allocator's smallest size classes; 0 if it is not known.
    pub(crate) quantum: usize,
}

impl MemoryReport {
    /// Measures the present usage. Without an allocator that has statistics, only the data is counted.
    pub(crate) fn new(call: &mut Call<'_>) -> Self {
        let totals = all_totals(call);
        let allocator = call.namespace.instance.allocator.map(|stats| stats());
        // The shards' reports may be off by a little; their own counters are exact.
        let used = totals.memory + call.namespace.store.memory_account().outside();
        let sampler = &call.namespace.observed.sampler;
        let (replicas, clients): (Vec<_>, Vec<_>) =
            call.namespace.clients.all().into_iter().partition(|client| client.is_replica());
        let log = &call.namespace.log;
        MemoryReport {
            used,
            peak: sampler.record_memory(used),
            startup: sampler.startup_memory().min(used),
            dataset: totals.memory.min(used),
            keys: totals.keys,
            rss: resident_set(),
            allocated: allocator.map_or(used, |allocator| allocator.allocated),
            active: allocator.map_or(used, |allocator| allocator.active),
            resident: allocator.map_or(used, |allocator| allocator.resident),
            muzzy: allocator.map_or(0, |allocator| allocator.muzzy),
            clients: clients.iter().map(|client| client.memory()).sum(),
            replicas: replicas.iter().map(|client| client.memory_of_its_own()).sum(),
            backlog: if log.has_backlog() { log.kept_len() } else { 0 },
            // The version is cut where jemalloc appends the commit from which it was built.
            allocator: allocator.map_or("libc".into(), |allocator| {
                format!("jemalloc-{}", allocator.name.split('-').next().unwrap_or_default())
            }),
            quantum: allocator.map_or(0, |_| QUANTUM),
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

/// Adds up the totals of all databases in use.
pub(super) fn all_totals(call: &mut Call<'_>) -> Totals {
    let mut sum = Totals::default();
    call.view.used_databases().into_iter().for_each(|db| sum += call.view.in_db(db, |view| view.totals()));
    sum
}

/// Reads the resident set size of this process, in bytes; 0 where the kernel does not report it.
fn resident_set() -> usize {
    const PAGE_LEN: usize = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0) * PAGE_LEN
}

/// Reads the memory of the machine, in bytes; 0 where the kernel does not report it.
pub(super) fn system_memory() -> usize {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok());
    kib.unwrap_or(0) * 1024
}
