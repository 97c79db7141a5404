//! How much happens in a second, and how much memory was used at most: what has to be looked at from time to time.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

/// What was counted since the start, of everything whose rate is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Commands carried out.
    pub commands: u64,
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Batches executed.
    pub turns: u64,
    /// Microseconds that took.
    pub turns_us: u64,
}

/// Watches counters over time.
#[derive(Default)]
pub struct Sampler {
    inner: Mutex<Inner>,
    peak: AtomicUsize,
    startup: AtomicUsize,
}

#[derive(Default)]
struct Inner {
    last: Counted,
    last_ms: u64,
    rates: Counted,
}

impl Sampler {
    /// Looks at the counters; the rates are those since the last look.
    pub fn look(&self, counted: Counted, now_ms: u64, used_memory: usize) {
        self.note_memory(used_memory);
        let mut inner = self.inner.lock();
        let elapsed_ms = now_ms.saturating_sub(inner.last_ms);
        if elapsed_ms == 0 {
            return;
        }
        let last = inner.last;
        let rate = |now: u64, last: u64| now.saturating_sub(last).saturating_mul(1000) / elapsed_ms;
        inner.rates = Counted {
            commands: rate(counted.commands, last.commands),
            bytes_in: rate(counted.bytes_in, last.bytes_in),
            bytes_out: rate(counted.bytes_out, last.bytes_out),
            turns: rate(counted.turns, last.turns),
            // Not a rate: how long a turn took.
            turns_us: counted.turns_us.saturating_sub(last.turns_us) / counted.turns.saturating_sub(last.turns).max(1),
        };
        (inner.last, inner.last_ms) = (counted, now_ms);
    }

    /// Returns how much happens in a second; of the time that turns take, how long one takes.
    pub fn rates(&self) -> Counted {
        self.inner.lock().rates
    }

    /// Notes how much memory is used, and returns how much it was at most.
    pub fn note_memory(&self, used: usize) -> usize {
        self.peak.fetch_max(used, Relaxed).max(used)
    }

    /// Notes how much memory is used before the first client comes.
    pub fn note_startup(&self, used: usize) {
        self.startup.store(used, Relaxed);
    }

    /// Returns how much memory was used before the first client came.
    pub fn startup_memory(&self) -> usize {
        self.startup.load(Relaxed)
    }

    /// Starts from zero, because what is counted does; the peak of the memory stays.
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
        let counted = |commands, turns, turns_us| Counted { commands, turns, turns_us, ..Counted::default() };
        sampler.look(counted(100, 10, 50), 500, 7);
        assert_eq!(sampler.rates(), counted(200, 20, 5));
        sampler.look(counted(100, 10, 50), 500, 9);
        assert_eq!(sampler.rates(), counted(200, 20, 5));
        sampler.look(counted(1100, 10, 50), 2500, 3);
        assert_eq!(sampler.rates(), counted(500, 0, 0));
        assert_eq!(sampler.note_memory(1), 9);
        sampler.clear(2500);
        sampler.look(counted(3, 1, 1), 3500, 1);
        assert_eq!(sampler.rates(), counted(3, 1, 1));
    }
}
