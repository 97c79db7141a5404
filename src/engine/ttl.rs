//! Local counting of a key's TTL: never too short, whatever the clocks of other machines show.
//!
//! A process counts a TTL from the time when it has learned of it, by its monotonic clock. This is after the client's
//! request, so no process ends a lock before its holder thinks that it is over. A key stays for a thousandth of the TTL
//! and ten milliseconds more, because the clocks of two machines do not run equally fast: 500 ppm of an hour are 1.8
//! seconds. Writes that keep a TTL keep its ID, too, by which a process that knows the TTL counts on.

use std::collections::HashMap;

use crate::engine::stored::{StoredKey, StoredTtl};
use crate::time::clock::{Deadline, Now};

/// Denominator of the part of a TTL by which the clocks of two machines may differ over its duration: 1000 ppm.
const DRIFT: u64 = 1000;
/// Least time for which a key stays after its TTL is over, in milliseconds.
const SLACK_MIN_MS: u64 = 10;

/// A TTL as this process counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CountedTtl {
    id: u64,
    /// End of the TTL as shown to clients; a deadline that does not pass by itself.
    deadline: Deadline,
    /// Time from which on the key may be deleted, in monotonic milliseconds.
    due_ms: u64,
    slack_ms: u64,
}

impl CountedTtl {
    /// Creates the TTL that a command has set as a deadline.
    pub(super) fn new(deadline: Deadline, now: Now) -> Self {
        let left_ms = deadline.remaining_ms(now).max(0).unsigned_abs();
        let slack_ms = left_ms / DRIFT + SLACK_MIN_MS;
        let due_ms = now.ms_later(left_ms.saturating_add(slack_ms));
        CountedTtl { id: rand_id(), deadline: deadline.kept(), due_ms, slack_ms }
    }

    /// Returns the TTL of a key that this process has just learned of. `known` is the TTL of the key before, if it was
    /// known.
    pub(super) fn learned(stored: StoredTtl, known: Option<CountedTtl>, now: Now) -> Self {
        match known.filter(|known| known.id == stored.id) {
            Some(known) => known,
            None => Self::counted(stored, now),
        }
    }

    /// Returns the TTL of a key that this process finds when it starts, if the wall clocks differ by at most
    /// `skew_max_ms`: the TTL was set some time ago.
    pub(super) fn found(stored: StoredTtl, skew_max_ms: u64, now: Now) -> Self {
        let until_ms = stored.wall_ms.saturating_add_unsigned(skew_max_ms);
        let left_ms = until_ms.saturating_sub(now.wall_ms()).max(0).unsigned_abs();
        Self::counted(StoredTtl { left_ms: left_ms.min(stored.left_ms), ..stored }, now)
    }

    /// Creates a TTL that counts from now on.
    fn counted(stored: StoredTtl, now: Now) -> Self {
        let deadline =
            if stored.is_date { Deadline::at_wall_ms(stored.wall_ms) } else { Deadline::after(now, stored.left_ms) };
        let due_ms = now.ms_later(stored.left_ms.saturating_add(stored.slack_ms));
        CountedTtl { id: stored.id, deadline: deadline.kept(), due_ms, slack_ms: stored.slack_ms }
    }

    /// Returns the same TTL counted from a later time, when the cluster has confirmed it.
    pub(super) fn confirmed(self, staged: Now, now: Now) -> Self {
        let passed_ms = now.mono_ms().saturating_sub(staged.mono_ms());
        CountedTtl { due_ms: self.due_ms.saturating_add(passed_ms), ..self }
    }

    /// Returns true if the key may be deleted.
    pub(super) fn is_due(&self, now: Now) -> bool {
        self.due_ms <= now.mono_ms()
    }

    /// Returns the time from which on the key may be deleted, in monotonic milliseconds.
    pub(super) fn due_ms(&self) -> u64 {
        self.due_ms
    }

    /// Returns the deadline that clients are shown.
    pub(super) fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// Returns the deadline that clients are shown, in monotonic milliseconds; never 0.
    pub(super) fn shown_ms(&self, now: Now) -> u64 {
        self.deadline.shown_mono_ms(now).max(1)
    }

    /// Returns the rest of the TTL, in milliseconds.
    pub(super) fn left_ms(&self, now: Now) -> u64 {
        self.due_ms.saturating_sub(self.slack_ms).saturating_sub(now.ms_later(0))
    }

    /// Converts the TTL to its stored form. The rounding of [`Now::ms_later`] is subtracted, so that no client of
    /// another process sees a longer TTL than was set.
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

/// The TTLs of a key: its own, and those of the holders of a shared lock or a semaphore.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyTtls {
    pub(super) key: Option<CountedTtl>,
    /// The TTLs of the holders, in the order of the holders.
    pub(super) holders: Box<[Option<CountedTtl>]>,
}

impl KeyTtls {
    /// Returns the TTLs of a key that this process has just learned of, as [`CountedTtl::learned`] does.
    pub(super) fn learned(stored: &StoredKey, known: Option<&KeyTtls>, now: Now) -> Self {
        let known_key = known.and_then(|known| known.key);
        let key = stored.ttl.map(|ttl| CountedTtl::learned(ttl, known_key, now));
        let of_holders = known.into_iter().flat_map(|known| known.holders.iter().flatten());
        let by_id: HashMap<u64, CountedTtl> = of_holders.map(|ttl| (ttl.id, *ttl)).collect();
        let holders =
            stored.holder_ttls().map(|ttl| ttl.map(|ttl| CountedTtl::learned(ttl, by_id.get(&ttl.id).copied(), now)));
        KeyTtls { key, holders: holders.collect() }
    }

    /// Returns the TTLs of a key that this process finds when it starts, as [`CountedTtl::found`] does.
    pub(super) fn found(stored: &StoredKey, skew_max_ms: u64, now: Now) -> Self {
        let found = |ttl| CountedTtl::found(ttl, skew_max_ms, now);
        KeyTtls { key: stored.ttl.map(found), holders: stored.holder_ttls().map(|ttl| ttl.map(found)).collect() }
    }

    /// Returns the same TTLs counted from a later time, when the cluster has confirmed them.
    pub(super) fn confirmed(self, staged: Now, now: Now) -> Self {
        let confirmed = |ttl: Option<CountedTtl>| ttl.map(|ttl| ttl.confirmed(staged, now));
        KeyTtls { key: confirmed(self.key), holders: self.holders.into_iter().map(confirmed).collect() }
    }

    /// Returns the time from which on the key or one of its holders may be removed, in monotonic milliseconds.
    pub(super) fn due_ms(&self) -> Option<u64> {
        self.key.iter().chain(self.holders.iter().flatten()).map(CountedTtl::due_ms).min()
    }
}

fn rand_id() -> u64 {
    getrandom::u64().unwrap_or_default()
}
