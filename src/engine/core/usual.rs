//! The usual duration of something that is done again and again, such as requests to the cluster.

/// Largest time for which a few calls wait for others, in microseconds.
const GATHER_US_MAX: u64 = 2000;

/// Mean of the last durations, in microseconds.
#[derive(Default)]
pub(super) struct UsualDuration(Option<u64>);

impl UsualDuration {
    pub(super) fn record(&mut self, us: u64) {
        self.0 = Some(self.0.map_or(us, |before| (before * 7 + us) / 8));
    }

    pub(super) fn us(&self) -> u64 {
        self.0.unwrap_or(0)
    }

    /// Returns for how long a few calls wait for others, in microseconds.
    pub(super) fn patience_us(&self) -> u64 {
        (self.us() / 2).min(GATHER_US_MAX)
    }
}
