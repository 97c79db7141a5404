//! The usual duration of requests to the cluster.

/// Largest time for which a few calls wait for others, in microseconds.
const GATHER_US_MAX: u64 = 2000;

/// Mean duration of the last requests of a kind.
#[derive(Default)]
pub(super) struct UsualDuration(u64);

impl UsualDuration {
    pub(super) fn record(&mut self, us: u64) {
        self.0 = (self.0 * 7 + us) / 8;
    }

    /// Returns for how long a few calls wait for others, in microseconds.
    pub(super) fn patience_us(&self) -> u64 {
        (self.0 / 2).min(GATHER_US_MAX)
    }
}
