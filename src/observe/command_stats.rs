//! Command statistics: calls, time, failures and latency of each command, and keyspace hits and misses.
//!
//! A server has one [`CommandStats`] per thread that executes commands, and a spare one: while a script runs for long,
//! another thread takes over the other work of its thread. A batch leases one, so counting is a plain load and store in
//! memory that only this thread writes; readers add all of them up. The clock's counter is read once per command: the
//! end of one call is the beginning of the next.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use Ordering::Relaxed;
use crossbeam_utils::CachePadded;

use crate::observe::histogram::{Counts, Histogram};
use crate::spec::CommandSpec;
use crate::store::LookupCounts;
use crate::time::clock::Clock;
use crate::time::counter::TickRate;

/// Command statistics of one thread.
pub(crate) struct CommandStats {
    is_leased: AtomicBool,
    turns: AtomicU64,
    turns_ns: AtomicU64,
    /// The duration of the longest batch.
    turn_max_ns: AtomicU64,
    /// The number of requests of the largest batch.
    turn_max_requests: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    /// One row for each command and subcommand, by [`CommandSpec::number`].
    rows: Box<[Row]>,
}

/// The counters of one command.
#[derive(Default)]
#[repr(align(64))]
struct Row {
    calls: AtomicU64,
    ns: AtomicU64,
    failed: AtomicU64,
    durations: Histogram,
}

/// Totals of one command, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTotals {
    /// Number of calls executed.
    pub count: u64,
    /// Total time of the calls, in nanoseconds.
    pub ns: u64,
    /// Number of calls that failed.
    pub failed: u64,
    /// Number of calls rejected before execution.
    pub rejected: u64,
}

/// Totals of the batches of all threads, and of the look-ups in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchTotals {
    /// Number of batches executed.
    pub count: u64,
    /// Total time of the batches, in nanoseconds.
    pub ns: u64,
    /// Time of the longest batch, in nanoseconds.
    pub max_ns: u64,
    /// Number of requests of the largest batch.
    pub max_requests: u64,
    /// Number of keys read that existed.
    pub hits: u64,
    /// Number of keys read that did not exist.
    pub misses: u64,
}

/// Adds to a counter that no other thread writes.
#[inline]
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed) + more, Relaxed);
}

impl CommandStats {
    fn new(commands: usize) -> Self {
        CommandStats {
            is_leased: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            turns_ns: AtomicU64::new(0),
            turn_max_ns: AtomicU64::new(0),
            turn_max_requests: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            rows: std::iter::repeat_with(Row::default).take(commands).collect(),
        }
    }

    fn clear(&self) {
        let longest = [&self.turn_max_ns, &self.turn_max_requests];
        let sums = [&self.turns, &self.turns_ns, &self.hits, &self.misses];
        sums.into_iter().chain(longest).for_each(|counter| counter.store(0, Relaxed));
        for row in &self.rows {
            [&row.calls, &row.ns, &row.failed].into_iter().for_each(|counter| counter.store(0, Relaxed));
            row.durations.clear();
        }
    }
}

/// The command statistics of a server.
pub struct AllCommandStats {
    /// One per thread, and a last one that is shared when all others are leased.
    by_thread: Box<[CachePadded<CommandStats>]>,
    /// Rejected calls by command; rare enough for one counter for all threads.
    rejected: Box<[AtomicU64]>,
    housekeeping: Chores,
    sweeps: Chores,
}

/// Time spent on background work.
#[derive(Default)]
struct Chores {
    count: AtomicU64,
    ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Chores {
    fn note(&self, ns: u64) {
        self.count.fetch_add(1, Relaxed);
        self.ns.fetch_add(ns, Relaxed);
        self.max_ns.fetch_max(ns, Relaxed);
    }

    fn clear(&self) {
        [&self.count, &self.ns, &self.max_ns].into_iter().for_each(|counter| counter.store(0, Relaxed));
    }
}

impl AllCommandStats {
    /// Creates the statistics of `threads` threads for `commands` commands and subcommands.
    pub fn new(threads: usize, commands: usize) -> Self {
        let meter = || CachePadded::new(CommandStats::new(commands));
        AllCommandStats {
            by_thread: std::iter::repeat_with(meter).take(threads.max(1) + 1).collect(),
            rejected: std::iter::repeat_with(AtomicU64::default).take(commands).collect(),
            housekeeping: Chores::default(),
            sweeps: Chores::default(),
        }
    }

    /// Leases statistics that no other batch uses. Clients are assigned to threads in rotation, so each client's search
    /// begins at the statistics of its thread. There are as many as threads; an additional thread, which exists while a
    /// script keeps another one busy, gets the last one, which may be shared: a count may be lost but nothing blocks.
    #[inline]
    fn lease(&self, client: u64) -> &CommandStats {
        let own = self.by_thread.len() - 1;
        let mut at = if own == 1 { 0 } else { client as usize % own };
        for _ in 0..own {
            if !self.by_thread[at].is_leased.swap(true, Ordering::Acquire) {
                return &self.by_thread[at];
            }
            at = (at + 1) % own;
        }
        &self.by_thread[own]
    }

    /// Counts a rejected call.
    pub fn reject(&self, command: &CommandSpec) {
        self.rejected[command.number].fetch_add(1, Relaxed);
    }

    /// Returns the totals of one command.
    pub fn calls(&self, command: &CommandSpec) -> CallTotals {
        let mut sum = CallTotals { rejected: self.rejected[command.number].load(Relaxed), ..CallTotals::default() };
        for row in self.by_thread.iter().map(|meter| &meter.rows[command.number]) {
            sum.count += row.calls.load(Relaxed);
            sum.ns += row.ns.load(Relaxed);
            sum.failed += row.failed.load(Relaxed);
        }
        sum
    }

    /// Returns the totals of all commands.
    pub fn all_calls(&self) -> CallTotals {
        let mut sum = CallTotals::default();
        for row in self.by_thread.iter().flat_map(|meter| &meter.rows) {
            sum.count += row.calls.load(Relaxed);
            sum.ns += row.ns.load(Relaxed);
            sum.failed += row.failed.load(Relaxed);
        }
        sum.rejected = self.rejected.iter().map(|count| count.load(Relaxed)).sum();
        sum
    }

    /// Returns the latency histogram of one command; `None` when nothing was recorded.
    pub fn durations(&self, command: &CommandSpec) -> Option<Counts> {
        let mut counts = Counts::default();
        self.by_thread.iter().for_each(|meter| meter.rows[command.number].durations.add_to(&mut counts));
        (counts.total() > 0).then_some(counts)
    }

    /// Records the time of housekeeping.
    pub fn record_housekeeping(&self, ns: u64) {
        self.housekeeping.note(ns);
    }

    /// Records the time of an expiry sweep.
    pub fn record_sweep(&self, ns: u64) {
        self.sweeps.note(ns);
    }

    /// Returns the total time of expiry sweeps, in nanoseconds.
    pub fn sweeps_ns(&self) -> u64 {
        self.sweeps.ns.load(Relaxed)
    }

    /// Returns the total time of background work, in nanoseconds.
    pub fn chores_ns(&self) -> u64 {
        self.sweeps_ns() + self.housekeeping.ns.load(Relaxed)
    }

    /// Returns the totals of the batches of all threads, including background work.
    pub fn turns(&self) -> BatchTotals {
        let mut sum = BatchTotals::default();
        for meter in &self.by_thread {
            sum.count += meter.turns.load(Relaxed);
            sum.ns += meter.turns_ns.load(Relaxed);
            sum.max_ns = sum.max_ns.max(meter.turn_max_ns.load(Relaxed));
            sum.max_requests = sum.max_requests.max(meter.turn_max_requests.load(Relaxed));
            sum.hits += meter.hits.load(Relaxed);
            sum.misses += meter.misses.load(Relaxed);
        }
        for chores in [&self.housekeeping, &self.sweeps] {
            sum.count += chores.count.load(Relaxed);
            sum.ns += chores.ns.load(Relaxed);
            sum.max_ns = sum.max_ns.max(chores.max_ns.load(Relaxed));
        }
        sum
    }

    /// Resets everything; the caller holds the store exclusively, so no thread counts meanwhile.
    pub fn clear(&self) {
        self.by_thread.iter().for_each(|meter| meter.clear());
        [&self.housekeeping, &self.sweeps].into_iter().for_each(|chores| chores.clear());
        self.rejected.iter().for_each(|count| count.store(0, Relaxed));
    }
}

/// Measures the calls of one batch.
pub struct CallTimer<'n> {
    meter: &'n CommandStats,
    rows: &'n [Row],
    clock: &'n Clock,
    rate: TickRate,
    begun: u64,
    /// End of the last call, in ticks.
    last: Cell<u64>,
    lookups: Cell<LookupCounts>,
    /// Duration in nanoseconds from which a call must be reported to the caller.
    record_from_ns: Cell<u64>,
    tracks: Cell<bool>,
}

impl<'n> CallTimer<'n> {
    /// Starts to measure a batch of the client with this id.
    #[inline]
    pub fn new(command_stats: &'n AllCommandStats, clock: &'n Clock, client: u64) -> Self {
        let (meter, begun) = (command_stats.lease(client), clock.ticks());
        CallTimer {
            meter,
            rows: &meter.rows,
            clock,
            rate: clock.tick_rate(),
            begun,
            last: Cell::new(begun),
            lookups: Cell::new(LookupCounts::default()),
            record_from_ns: Cell::new(u64::MAX),
            tracks: Cell::new(true),
        }
    }

    /// Sets the duration in nanoseconds from which a call is reported, and whether latency is recorded.
    pub fn set_recording(&self, record_from_ns: u64, tracks: bool) {
        self.record_from_ns.set(record_from_ns);
        self.tracks.set(tracks);
    }

    /// Records the number of requests in this batch.
    #[inline]
    pub fn record_requests(&self, count: usize) {
        if count as u64 > self.meter.turn_max_requests.load(Relaxed) {
            self.meter.turn_max_requests.store(count as u64, Relaxed);
        }
    }

    /// Returns how many nanoseconds have passed since the counter stood at `ticks`.
    pub fn ns_since(&self, ticks: u64) -> u64 {
        self.rate.ns(self.clock.ticks().saturating_sub(ticks))
    }

    /// Returns the value of the counter `ns` nanoseconds after `ticks`.
    pub fn ticks_after(&self, ticks: u64, ns: u32) -> u64 {
        ticks.saturating_add(self.rate.ticks(ns))
    }

    /// Begins a call at the end of the previous one. The time since then, for example to find its keys, is part of the
    /// call.
    #[inline]
    pub fn begin(&self) -> u64 {
        self.last.get()
    }

    /// Begins the next call now instead of at the end of the last one.
    pub fn begin_now(&self) {
        self.last.set(self.clock.ticks());
    }

    /// Requests a report of the running call, however short it is.
    pub fn report_next(&self) {
        self.record_from_ns.set(0);
    }

    /// Counts a call whose client was blocked, and which took `ns` nanoseconds in all.
    pub fn count_unblocked(&self, command: &CommandSpec, ns: u64, tracks: bool) {
        self.begin_now();
        let row = &self.rows[command.number];
        add(&row.calls, 1);
        add(&row.ns, ns);
        if tracks {
            row.durations.record(ns);
        }
    }

    /// Takes back a call that has just been counted, because it has blocked its client and is counted when it ends.
    pub fn take_back(&self, command: &CommandSpec, ns: u64) {
        let row = &self.rows[command.number];
        row.calls.store(row.calls.load(Relaxed).saturating_sub(1), Relaxed);
        row.ns.store(row.ns.load(Relaxed).saturating_sub(ns), Relaxed);
        if self.tracks.get() {
            row.durations.forget(ns);
        }
    }

    /// Counts a call that has just ended, and its look-ups; returns its duration in nanoseconds if it must be reported.
    #[inline(always)]
    pub fn end(&self, command: &CommandSpec, begun: u64, lookups: LookupCounts) -> Option<u64> {
        let now = self.clock.ticks();
        self.last.set(now);
        let ns = self.rate.ns(now.saturating_sub(begun));
        let row = &self.rows[command.number];
        add(&row.calls, 1);
        add(&row.ns, ns);
        if self.tracks.get() {
            row.durations.record(ns);
        }
        self.lookups.set(self.lookups.get() + lookups);
        (ns >= self.record_from_ns.get()).then_some(ns)
    }

    /// Adds the time since the last call or slice to a command that runs in slices.
    pub fn go_on(&self, command: &CommandSpec) {
        let now = self.clock.ticks();
        let begun = self.last.replace(now);
        add(&self.meter.rows[command.number].ns, self.rate.ns(now.saturating_sub(begun)));
    }

    /// Counts the running call as failed.
    pub fn fail(&self, command: &CommandSpec) {
        add(&self.meter.rows[command.number].failed, 1);
    }
}

impl Drop for CallTimer<'_> {
    fn drop(&mut self) {
        let ns = self.rate.ns(self.last.get().saturating_sub(self.begun));
        let lookups = self.lookups.get();
        add(&self.meter.hits, u64::from(lookups.hits()));
        add(&self.meter.misses, u64::from(lookups.misses()));
        add(&self.meter.turns, 1);
        add(&self.meter.turns_ns, ns);
        if ns > self.meter.turn_max_ns.load(Relaxed) {
            self.meter.turn_max_ns.store(ns, Relaxed);
        }
        self.meter.is_leased.store(false, Ordering::Release);
    }
}
