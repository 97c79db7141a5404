//! How a process counts the TTL of a key: never too short, whatever the clocks of other machines say.
//!
//! It counts from the moment at which it has learned of the TTL, by its monotonic clock. That is after the client has asked
//! for it, so no process ends a lock before its holder thinks that it is over. A key stays for a thousandth of the TTL and
//! ten milliseconds more, because the clocks of two machines do not run equally fast: 500 ppm of an hour are 1.8 seconds.
//! Writes that keep a TTL keep its number, too, by which a process that knows it already counts on.

use crate::engine::stored::StoredTtl;
use crate::time::clock::{Deadline, Now};

/// By what part of a TTL the clocks of two machines may differ over its duration, as its denominator: 1000 ppm.
const DRIFT: u64 = 1000;
/// For how many milliseconds a key stays at least after its TTL is over.
const SLACK_MIN_MS: u64 = 10;

/// A TTL as this process counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ttl {
    id: u64,
    /// When it is over as clients are shown; a deadline that does not pass by itself.
    deadline: Deadline,
    /// From when on the key may be deleted, in monotonic milliseconds.
    due_ms: u64,
    slack_ms: u64,
}

impl Ttl {
    /// Returns the TTL that a command has set as a deadline.
    pub(super) fn new(deadline: Deadline, now: Now) -> Self {
        let left_ms = deadline.remaining_ms(now).max(0).unsigned_abs();
        let slack_ms = left_ms / DRIFT + SLACK_MIN_MS;
        let due_ms = now.ms_later(left_ms.saturating_add(slack_ms));
        Ttl { id: rand_id(), deadline: deadline.kept(), due_ms, slack_ms }
    }

    /// Returns the TTL of a key that this process has just learned of. `known` is what it has known of the key before.
    pub(super) fn learned(stored: StoredTtl, known: Option<Ttl>, now: Now) -> Self {
        match known.filter(|known| known.id == stored.id) {
            Some(known) => known,
            None => Self::counted(stored, now),
        }
    }

    /// Returns the TTL of a key that this process finds when it starts, if the wall clocks differ by no more than some
    /// milliseconds: it was set some time ago.
    pub(super) fn found(stored: StoredTtl, skew_max_ms: u64, now: Now) -> Self {
        let until_ms = stored.wall_ms.saturating_add_unsigned(skew_max_ms);
        let left_ms = until_ms.saturating_sub(now.wall_ms()).max(0).unsigned_abs();
        Self::counted(StoredTtl { left_ms: left_ms.min(stored.left_ms), ..stored }, now)
    }

    /// Returns a TTL that counts from now on.
    fn counted(stored: StoredTtl, now: Now) -> Self {
        let deadline = match stored.is_date {
            true => Deadline::at_wall_ms(stored.wall_ms),
            false => Deadline::after(now, stored.left_ms),
        };
        let due_ms = now.ms_later(stored.left_ms.saturating_add(stored.slack_ms));
        Ttl { id: stored.id, deadline: deadline.kept(), due_ms, slack_ms: stored.slack_ms }
    }

    /// Returns the same TTL as it counts from a later moment, at which the cluster has confirmed it.
    pub(super) fn confirmed(self, staged: Now, now: Now) -> Self {
        let passed_ms = now.mono_ms().saturating_sub(staged.mono_ms());
        Ttl { due_ms: self.due_ms.saturating_add(passed_ms), ..self }
    }

    /// Returns whether the key may be deleted.
    pub(super) fn is_due(&self, now: Now) -> bool {
        self.due_ms <= now.mono_ms()
    }

    /// Returns from when on the key may be deleted, in monotonic milliseconds.
    pub(super) fn due_ms(&self) -> u64 {
        self.due_ms
    }

    /// Returns the deadline that clients are shown.
    pub(super) fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// Returns how many milliseconds are left of it.
    pub(super) fn left_ms(&self, now: Now) -> u64 {
        self.due_ms.saturating_sub(self.slack_ms).saturating_sub(now.ms_later(0))
    }

    /// Returns the TTL as it is written now. What [`Now::ms_later`] rounded up is subtracted, so that no client of another
    /// process sees a longer TTL than was set.
    pub(super) fn stored(&self, now: Now) -> StoredTtl {
        StoredTtl {
            id: self.id,
            left_ms: self.left_ms(now),
            slack_ms: self.slack_ms,
            wall_ms: self.deadline.wall_ms(now),
            is_date: self.deadline.is_wall(),
        }
    }
}

/// Returns a number that no other TTL has.
fn rand_id() -> u64 {
    getrandom::u64().unwrap_or_default()
}
