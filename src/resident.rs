//! How much more the allocator holds than was asked of it: pages that are partly empty, and pages not given back yet.
//!
//! `maxmemory` is compared with what was asked of the allocator, as in Redis. Where values of many sizes come and go, the
//! process takes far more than that. So with a limit and a policy that evicts keys, the allocator is asked whenever a small
//! part of the limit has been evicted: what partly empty pages lose beyond a twelfth of the limit is made up for by evicting
//! more keys, and unused pages beyond a thirty-second part are given back at once, on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::AcqRel, Ordering::Relaxed, Ordering::Release};
use std::thread;

use tracing::warn;

use crate::namespace::AllocatorStats;
use crate::store::Pressure;

/// The allocator is asked when this part of the limit has been evicted.
const LOOK_SHARE: usize = 64;
/// Partly empty pages may lose this part of the limit, or [`LOSS_MIN`].
const LOSS_SHARE: usize = 12;
/// Less loss than this is not made up for, in bytes: the allocator needs some for itself.
const LOSS_MIN: usize = 8 << 20;
/// Unused pages may be this part of the limit before they are given back, or [`UNUSED_MIN`].
const UNUSED_SHARE: usize = 32;
/// Fewer unused pages are left to the allocator, which gives them back after ten seconds, in bytes.
const UNUSED_MIN: usize = 2 << 20;

/// Watches what the allocator holds.
#[derive(Default)]
pub struct Resident {
    /// Bytes evicted since the allocator was asked.
    evicted: AtomicUsize,
    is_purging: Arc<AtomicBool>,
}

impl Resident {
    /// Takes note that keys were evicted, and asks the allocator when they were many.
    pub fn note_evicted(&self, bytes: usize, pressure: &Pressure, allocator: Option<fn() -> AllocatorStats>) {
        let (Some(allocator), Some(limit)) = (allocator, pressure.limit()) else { return };
        if self.evicted.fetch_add(bytes, Relaxed).saturating_add(bytes) >= limit / LOOK_SHARE {
            self.evicted.store(0, Relaxed);
            self.look(pressure, limit, allocator());
        }
    }

    /// Looks at what the allocator holds, if keys are evicted or what it loses is made up for.
    pub fn look_again(&self, pressure: &Pressure, allocator: Option<fn() -> AllocatorStats>) {
        if let (Some(allocator), Some(limit)) = (allocator, pressure.limit())
            && (pressure.loss() > 0 || self.evicted.swap(0, Relaxed) > 0)
        {
            self.look(pressure, limit, allocator());
        }
    }

    fn look(&self, pressure: &Pressure, limit: usize, stats: AllocatorStats) {
        let lost = stats.active.saturating_sub(stats.allocated);
        pressure.set_loss(lost.saturating_sub(LOSS_MIN.max(limit / LOSS_SHARE)));
        let unused = stats.resident.saturating_sub(stats.active);
        if unused > UNUSED_MIN.max(limit / UNUSED_SHARE) && !self.is_purging.swap(true, AcqRel) {
            let is_purging = self.is_purging.clone();
            let purge = move || {
                (stats.purge)();
                is_purging.store(false, Release);
            };
            if let Err(error) = thread::Builder::new().name("purge".into()).spawn(purge) {
                warn!(cause = %error, "failed to give unused memory back");
                self.is_purging.store(false, Release);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats() -> AllocatorStats {
        const MB: usize = 1 << 20;
        let (purge, report) = (|| true, String::new);
        AllocatorStats { name: "", allocated: 100 * MB, active: 130 * MB, resident: 130 * MB, muzzy: 0, purge, report }
    }

    #[test]
    fn what_pages_lose_is_made_up_for_once_enough_was_evicted_and_never_without_a_limit() {
        let (resident, pressure) = (Resident::default(), Pressure::default());
        resident.note_evicted(1 << 30, &pressure, Some(stats));
        assert_eq!(pressure.loss(), 0);
        pressure.set_limit(100 << 20);
        resident.note_evicted(1 << 20, &pressure, Some(stats));
        assert_eq!(pressure.loss(), 0);
        resident.note_evicted(2 << 20, &pressure, Some(stats));
        assert_eq!(pressure.loss(), (30 << 20) - (100 << 20) / LOSS_SHARE);
        pressure.report_outside(0, 90 << 20);
        assert!(pressure.is_over());
        pressure.set_loss(0);
        assert!(!pressure.is_over());
    }
}
