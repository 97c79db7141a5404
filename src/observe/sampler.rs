//! Rates per second and peak memory, sampled from the counters at intervals.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

/// Values of the counters whose rates are shown, since the start; or these rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampledCounters {
    /// Commands executed.
    pub commands: u64,
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Bytes read from a primary.
    pub link_bytes_in: u64,
    /// Bytes written to replicas.
    pub link_bytes_out: u64,
    /// Batches executed.
    pub turns: u64,
    /// The time of the batches, in microseconds.
    pub turns_us: u64,
    /// Transactions that the engine has sent.
    pub transactions: u64,
    /// Reads of the cluster's revision by the engine.
    pub barriers: u64,
}

/// Rates and peak memory, computed from samples of the counters.
#[derive(Default)]
pub struct Sampler {
    inner: Mutex<Inner>,
    peak: AtomicUsize,
    startup: AtomicUsize,
}

#[derive(Default)]
struct Inner {
    last: SampledCounters,
    last_ms: u64,
    rates: SampledCounters,
}

impl Sampler {
    /// Samples the counters; the rates are those since the last sample.
    pub fn look(&self, counted: SampledCounters, now_ms: u64, used_memory: usize) {
        self.record_memory(used_memory);
        let mut inner = self.inner.lock();
        let elapsed_ms = now_ms.saturating_sub(inner.last_ms);
        if elapsed_ms == 0 {
            return;
        }
        let last = inner.last;
        let rate = |now: u64, last: u64| now.saturating_sub(last).saturating_mul(1000) / elapsed_ms;
        inner.rates = SampledCounters {
            commands: rate(counted.commands, last.commands),
            bytes_in: rate(counted.bytes_in, last.bytes_in),
            bytes_out: rate(counted.bytes_out, last.bytes_out),
            link_bytes_in: rate(counted.link_bytes_in, last.link_bytes_in),
            link_bytes_out: rate(counted.link_bytes_out, last.link_bytes_out),
            turns: rate(counted.turns, last.turns),
            // Not a rate but the mean duration of a batch.
            turns_us: counted.turns_us.saturating_sub(last.turns_us) / counted.turns.saturating_sub(last.turns).max(1),
            transactions: rate(counted.transactions, last.transactions),
            barriers: rate(counted.barriers, last.barriers),
        };
        (inner.last, inner.last_ms) = (counted, now_ms);
    }

    /// Returns the rates per second; for the time of batches, the mean duration.
    pub fn rates(&self) -> SampledCounters {
        self.inner.lock().rates
    }

    /// Records the memory in use, and returns its peak.
    pub fn record_memory(&self, used: usize) -> usize {
        self.peak.fetch_max(used, Relaxed).max(used)
    }

    /// Records the memory in use at startup.
    pub fn record_startup(&self, used: usize) {
        self.startup.store(used, Relaxed);
    }

    /// Returns the memory in use at startup.
    pub fn startup_memory(&self) -> usize {
        self.startup.load(Relaxed)
    }

    /// Resets the rates together with their counters; the memory peak stays.
    pub fn clear(&self, now_ms: u64) {
        *self.inner.lock() = Inner { last_ms: now_ms, ..Inner::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_per_second_since_the_last_look() {
        let sampler = Sampler::default();
        let counted =
            |commands, turns, turns_us| SampledCounters { commands, turns, turns_us, ..SampledCounters::default() };
        sampler.look(counted(100, 10, 50), 500, 7);
        assert_eq!(sampler.rates(), counted(200, 20, 5));
        sampler.look(counted(100, 10, 50), 500, 9);
        assert_eq!(sampler.rates(), counted(200, 20, 5));
        sampler.look(counted(1100, 10, 50), 2500, 3);
        assert_eq!(sampler.rates(), counted(500, 0, 0));
        assert_eq!(sampler.record_memory(1), 9);
        sampler.clear(2500);
        sampler.look(counted(3, 1, 1), 3500, 1);
        assert_eq!(sampler.rates(), counted(3, 1, 1));
    }
}
