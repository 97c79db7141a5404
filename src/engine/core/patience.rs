//! Time limits of waits for the cluster: they only pass while no majority answers, and not while this thread was held
//! up.

use crate::time::clock::Now;

/// The time by which waits are limited: monotonic milliseconds without those in which this thread handled no input,
/// because of a script or because the process was stopped. Answers that the cluster has sent meanwhile are handled
/// first.
#[derive(Default)]
pub(in crate::engine) struct Patience {
    held_up_ms: u64,
    /// Time of the last answer of a majority of the cluster.
    heard_ms: u64,
}

impl Patience {
    /// Adds time in which this thread was held up.
    pub(in crate::engine) fn forgive(&mut self, ms: u64) {
        self.held_up_ms += ms;
    }

    /// Records an answer of the cluster, if it is one of a majority.
    pub(super) fn hear(&mut self, is_of_majority: bool, now: Now) {
        if is_of_majority {
            self.heard_ms = self.now_ms(now);
        }
    }

    /// Returns the time limit of a wait that begins now.
    pub(super) fn until_ms(&self, timeout_ms: u64, now: Now) -> u64 {
        now.ms_later(timeout_ms).saturating_sub(self.held_up_ms)
    }

    /// Returns true if a time limit has passed.
    pub(super) fn is_over(&self, until_ms: u64, now: Now) -> bool {
        until_ms <= self.now_ms(now)
    }

    /// Returns true if the time limit of a wait for other calls has passed: it does not while the cluster answers
    /// these.
    pub(super) fn is_over_unanswered(&self, until_ms: u64, timeout_ms: u64, now: Now) -> bool {
        self.is_over(until_ms.max(self.heard_ms.saturating_add(timeout_ms)), now)
    }

    fn now_ms(&self, now: Now) -> u64 {
        now.mono_ms().saturating_sub(self.held_up_ms)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::time::clock::Clock;

    #[test]
    fn a_wait_is_over_when_nothing_was_answered_while_this_thread_could_hear_it() {
        let (clock, mut patience) = (Clock::manual(), Patience::default());
        let advance = |ms: u64| {
            clock.advance(Duration::from_millis(ms));
            clock.now()
        };
        let until_ms = patience.until_ms(1000, clock.now());
        assert!(!patience.is_over(until_ms, advance(999)));
        patience.forgive(900);
        assert!(!patience.is_over(until_ms, advance(900)));
        patience.hear(true, clock.now());
        assert!(patience.is_over(until_ms, advance(1)));
        assert!(!patience.is_over_unanswered(until_ms, 1000, advance(998)));
        patience.hear(false, clock.now());
        assert!(patience.is_over_unanswered(until_ms, 1000, advance(1)));
    }
}
