//! The usual duration of something that is done again and again, such as requests to the cluster.

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
}
