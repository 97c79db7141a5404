//! Counter of the processor, which is faster to read than the system's clock. Its ticks measure durations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Duration of a tick of [`Clock::ticks`](crate::time::clock::Clock::ticks): nanoseconds, with 32 fractional bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TickRate(u64);

impl TickRate {
    pub(super) const NANOSECOND: TickRate = TickRate(1 << 32);

    /// Converts ticks to nanoseconds.
    #[inline]
    pub(crate) fn ns(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.0)) >> 32) as u64
    }

    /// Converts nanoseconds, up to four seconds, to ticks.
    pub(crate) fn ticks(self, ns: u32) -> u64 {
        (u64::from(ns) << 32) / self.0.max(1)
    }
}

/// Processor's counter and its calibration.
#[derive(Debug)]
pub(super) struct Counter {
    /// True if the counter runs at a constant rate, in step on all processors.
    pub(super) is_trusted: bool,
    /// Value of the counter when the clock was created.
    origin: u64,
    /// Bits of a [`TickRate`]. Measured over the clock's whole life, so that it becomes more and more exact.
    rate: AtomicU64,
}

impl Counter {
    pub(super) fn new() -> Self {
        Counter { is_trusted: is_trusted(), origin: read(), rate: AtomicU64::new(TickRate::NANOSECOND.0) }
    }

    /// Returns the duration of a tick, by the calibration so far.
    pub(super) fn rate(&self) -> TickRate {
        if self.is_trusted { TickRate(self.rate.load(Ordering::Relaxed)) } else { TickRate::NANOSECOND }
    }

    /// Updates the rate from the time elapsed since the clock was created.
    pub(super) fn calibrate(&self, elapsed: Duration) {
        let ticks = read().wrapping_sub(self.origin);
        if self.is_trusted && ticks > 0 {
            let rate = (elapsed.as_nanos() << 32) / u128::from(ticks);
            self.rate.store(rate as u64, Ordering::Relaxed);
        }
    }
}

/// Returns whether the counter runs at a constant rate. Only then does the kernel list it as a clock source.
#[cfg(target_arch = "x86_64")]
fn is_trusted() -> bool {
    const LIST: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    std::fs::read_to_string(LIST).is_ok_and(|list| list.split_ascii_whitespace().any(|name| name == "tsc"))
}

#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn read() -> u64 {
    tick_counter::x86_64_tick_counter()
}

/// Returns true: the architecture guarantees a constant rate.
#[cfg(target_arch = "aarch64")]
fn is_trusted() -> bool {
    true
}

#[cfg(target_arch = "aarch64")]
#[inline]
pub(super) fn read() -> u64 {
    tick_counter::aarch64_tick_counter()
}

/// Returns false: there is no counter.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn is_trusted() -> bool {
    false
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn read() -> u64 {
    0
}
