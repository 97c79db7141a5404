//! Log lines each second during a long load or save.

use tracing::info;

use crate::durability::worker::FilesWorker;
use crate::time::clock::Clock;

/// Microseconds between two lines.
const PERIOD_US: u64 = 1_000_000;

/// Schedule of these lines.
pub(super) struct LoadProgress<'c> {
    clock: &'c Clock,
    begun_us: u64,
    next_us: u64,
}

impl<'c> LoadProgress<'c> {
    /// Starts the schedule: the first line is due after a second.
    pub(super) fn new(clock: &'c Clock) -> Self {
        let begun_us = clock.now().mono_us();
        LoadProgress { clock, begun_us, next_us: begun_us + PERIOD_US }
    }

    /// Logs a line if one is due, from the result of `figures`: a description, the amount done and the total, and the
    /// number of bytes so far.
    pub(super) fn tell(&mut self, unit: &str, figures: impl FnOnce() -> (String, (u64, u64), u64)) {
        let now_us = self.clock.now().mono_us();
        if now_us < self.next_us {
            return;
        }
        self.next_us = now_us + PERIOD_US;
        let (what, (done, total), bytes) = figures();
        let seconds = (now_us - self.begun_us) as f64 / 1e6;
        let left = seconds * total.saturating_sub(done) as f64 / done.max(1) as f64;
        let rate = bytes as f64 / 1e6 / seconds;
        info!("{what}: {done} of {total} {unit}, {rate:.0} MB/s, about {left:.0} s left");
    }
}

impl FilesWorker {
    /// Notes the number of bytes read, and logs a line if one is due.
    pub(super) fn note_read(&self, read: u64, progress: &mut LoadProgress<'_>) {
        let total = self.namespace.persistence.update(|figures| {
            figures.loading.as_mut().map_or(0, |loading| {
                loading.read = read;
                loading.total
            })
        });
        progress.tell("bytes", || {
            let keys = self.namespace.persistence.read(|figures| figures.keys_loaded);
            (format!("Loading, {keys} keys so far"), (read, total), read)
        });
    }
}
