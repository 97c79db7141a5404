//! Rate limit on attempts at the password of the user who may release locks: a port that answers at once would be a
//! fast oracle.

use parking_lot::Mutex;

/// Number of wrong passwords in a row that are answered at once.
const BURST: u64 = 10;
/// Time after which one more attempt is allowed, in microseconds.
const REGAINED_US: u64 = 1_000_000;

/// Attempts that are left for all peers together: a peer that has used them up keeps all others out meanwhile. Commands
/// are not limited.
#[derive(Default)]
pub(super) struct AuthRateLimit(Mutex<Used>);

#[derive(Default)]
struct Used {
    count: u64,
    /// Time up to which attempts were regained, in monotonic microseconds.
    at_us: u64,
}

impl AuthRateLimit {
    /// Takes an attempt; returns false if none is left.
    pub(super) fn take(&self, now_us: u64) -> bool {
        let mut used = self.0.lock();
        let regained = now_us.saturating_sub(used.at_us) / REGAINED_US;
        match used.count.saturating_sub(regained) {
            0 => *used = Used { count: 0, at_us: now_us },
            left => *used = Used { count: left, at_us: used.at_us + regained * REGAINED_US },
        }
        let is_left = used.count < BURST;
        used.count += u64::from(is_left);
        is_left
    }

    /// Gives back an attempt whose password was right.
    pub(super) fn give_back(&self) {
        let mut used = self.0.lock();
        used.count = used.count.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_wrong_passwords_are_answered_and_then_one_a_second() {
        let guesses = AuthRateLimit::default();
        let taken = |at_s: u64| (0..20).filter(|_| guesses.take(at_s * 1_000_000 + 1)).count();
        assert_eq!([0, 0, 1, 3, 100].map(taken), [10, 0, 1, 2, 10]);
    }

    #[test]
    fn right_passwords_take_no_attempt() {
        let guesses = AuthRateLimit::default();
        for _ in 0..100 {
            assert!(guesses.take(1));
            guesses.give_back();
        }
    }
}
