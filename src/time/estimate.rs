//! Estimate of another server's clock by asking it for its time.
//!
//! The estimate is always the earliest possible time, so that a deadline by that clock passes here late by the duration
//! of a reply at most, and never early.

/// Maximum drift between two clocks from one sample to the next, in milliseconds. A larger difference means that the
/// clock was set.
pub(crate) const DRIFT_MAX_MS: i64 = 1000;

/// Reply to the question for the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeSample {
    /// Time when the question was sent, in microseconds of the own monotonic clock.
    pub(crate) sent_us: u64,
    /// Time in the reply, in microseconds since 1970.
    pub(crate) time_us: i64,
    /// Time when the reply was received, in microseconds of the own monotonic clock.
    pub(crate) received_us: u64,
}

impl TimeSample {
    /// Returns the bounds of the offset from the own monotonic clock to the other server's clock, in milliseconds.
    fn bounds_ms(self) -> (i64, i64) {
        let low_us = self.time_us.saturating_sub_unsigned(self.received_us);
        let high_us = self.time_us.saturating_sub_unsigned(self.sent_us);
        (low_us.div_euclid(1000), high_us.saturating_add(999).div_euclid(1000))
    }

    /// Returns the offset to adopt if there is no estimate, or if all existing deadlines were set by the present state
    /// of that clock.
    pub(crate) fn offset_ms(self) -> i64 {
        self.bounds_ms().0
    }

    /// Returns the offset to adopt if there is an estimate by which the existing deadlines were set. The estimate stays
    /// if the clock was set forward since: otherwise these deadlines would pass early.
    pub(crate) fn corrected_ms(self, present_ms: i64) -> i64 {
        let (low_ms, high_ms) = self.bounds_ms();
        let is_behind = low_ms > present_ms;
        if present_ms > high_ms || is_behind && !self.is_set_forward(present_ms) { low_ms } else { present_ms }
    }

    /// Returns whether the clock was set forward since an estimate.
    pub(crate) fn is_set_forward(self, present_ms: i64) -> bool {
        self.bounds_ms().0.saturating_sub(present_ms) > DRIFT_MAX_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(sent_us: u64, time_us: i64, received_us: u64) -> TimeSample {
        TimeSample { sent_us, time_us, received_us }
    }

    #[test]
    fn the_first_estimate_is_the_earliest_time_that_is_possible() {
        for (sent_us, time_us, received_us, expected) in [
            (5_000_000, 100_000_000, 5_000_000, 95_000),
            (5_000_000, 100_000_000, 7_000_000, 93_000),
            // A part of a millisecond counts as none.
            (5_000_000, 100_000_000, 5_000_001, 94_999),
            (5_000_000, 0, 6_000_000, -6_000),
            (0, i64::MAX, 0, i64::MAX / 1000),
            (0, i64::MIN, u64::MAX, i64::MIN / 1000 - 1),
        ] {
            assert_eq!(sample(sent_us, time_us, received_us).offset_ms(), expected, "{time_us}");
        }
    }

    #[test]
    fn a_later_estimate_is_corrected_unless_that_would_end_deadlines_early() {
        // Between 93,000 and 95,000 ms.
        let reply = sample(5_000_000, 100_000_000, 7_000_000);
        for (present_ms, expected, is_set_forward) in [
            (93_000, 93_000, false),
            (94_000, 94_000, false),
            (95_000, 95_000, false),
            // The clock was set back, or drifts.
            (95_001, 93_000, false),
            (9_000_000, 93_000, false),
            // A better bound, or drift.
            (92_999, 93_000, false),
            (92_000, 93_000, false),
            // It was set forward.
            (91_999, 91_999, true),
            (-9_000_000, -9_000_000, true),
            (i64::MIN, i64::MIN, true),
            (i64::MAX, 93_000, false),
        ] {
            assert_eq!(reply.corrected_ms(present_ms), expected, "{present_ms}");
            assert_eq!(reply.is_set_forward(present_ms), is_set_forward, "{present_ms}");
        }
    }

    #[test]
    fn an_estimate_is_never_ahead_of_a_clock_whatever_the_delays_are() {
        for to_us in [0, 1, 999, 1000, 1500, 70_000_000] {
            for from_us in [0, 1, 999, 1001, 80_000_000] {
                for offset_us in [0, 1, 999, -1, -5_000_001, 1_700_000_000_000_000] {
                    let sent_us = 123_456;
                    let time_us = offset_us + sent_us as i64 + to_us;
                    let reply = sample(sent_us, time_us, sent_us + to_us as u64 + from_us);
                    let estimates =
                        [reply.offset_ms(), reply.corrected_ms(i64::MAX), reply.corrected_ms(reply.offset_ms())];
                    assert!(estimates.iter().all(|ms| ms * 1000 <= offset_us), "{to_us} {from_us} {offset_us}");
                    assert!(offset_us - estimates[0] * 1000 <= to_us.max(0) + from_us as i64 + 1000);
                }
            }
        }
    }
}
