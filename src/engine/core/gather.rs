//! The time at which waiting calls and readers are sent to the cluster: all that wait at the same time go together, and
//! after many a few wait a little for others, because what a request costs the cluster is then shared.

use std::sync::atomic::Ordering::Relaxed;

use crate::engine::barrier::are_enough;
use crate::engine::core::usual::UsualDuration;
use crate::engine::core::{Core, EngineAction};
use crate::engine::group::{Flight, State};
use crate::engine::lanes::Lanes;

/// Number of transactions in flight from which on quick calls wait for each other: with one more, each has fewer calls,
/// and costs the cluster as much.
const FLIGHTS_MAX: usize = 2;

/// Largest time for which a few calls or readers wait for others, in microseconds.
const GATHER_US_MAX: u64 = 2000;

/// Time for which calls are executed before new inputs are handled, in microseconds.
const TURN_US: u64 = 10_000;

impl Core {
    /// Executes waiting calls, as many as possible in a turn.
    pub(super) fn advance(&mut self) {
        let begun_us = self.now().mono_us();
        self.gathered_us = begun_us;
        while self.lanes.as_ref().is_some_and(Lanes::has_free) {
            self.gathered_us = self.now().mono_us();
            self.is_interrupted = self.gathered_us >= begun_us + TURN_US;
            if self.is_interrupted {
                return; // new inputs are not to wait for all calls
            }
            let calls = self.take_calls();
            if calls.is_empty() {
                return;
            }
            self.run(calls);
        }
    }

    /// Returns true if another transaction of quick calls may be sent.
    pub(super) fn has_room(&self) -> bool {
        let mut sent = self.flights.values().filter(|flight| matches!(flight.state, State::Sent));
        let is_followed = |flight: &Flight| {
            are_enough(self.queue.len(), flight.calls()) || self.has_come(self.followed_at_us(flight))
        };
        match sent.next() {
            None => true,
            Some(first) => is_followed(first) && sent.count() + 1 < FLIGHTS_MAX,
        }
    }

    /// Begins to read the cluster's revision, if there are waiters for that.
    pub(super) fn begin_barrier(&mut self) {
        if self.has_come(self.read_again_us) && self.barriers.begin(self.has_come(self.read_at_us())) {
            self.stats.barriers.fetch_add(1, Relaxed);
            self.read_us = self.now().mono_us();
            self.actions.push(EngineAction::ReadRevision);
        }
    }

    /// Returns the time at which calls or readers have waited long enough for others, in monotonic milliseconds.
    pub(super) fn next_gathered_ms(&self) -> Option<u64> {
        // Calls may be kept by something else, and then wait for an answer.
        let followed = self.flights.values().map(|flight| self.followed_at_us(flight)).max();
        let followed = followed.filter(|at_us| self.queue.len() > 0 && !self.has_come(*at_us));
        let read = self.barriers.is_wanted().then(|| self.read_at_us().max(self.read_again_us));
        [followed, read].into_iter().flatten().min().map(|at_us| at_us / 1000 + 1)
    }

    /// Returns the time from which on any number of calls may follow a transaction, in monotonic microseconds.
    fn followed_at_us(&self, flight: &Flight) -> u64 {
        flight.sent_us + patience_us(&self.usual_transaction)
    }

    /// Returns the time from which on the revision is read for any number of waiters, in monotonic microseconds.
    fn read_at_us(&self) -> u64 {
        self.known_us + patience_us(&self.usual_read)
    }

    /// Returns whether a time had come when calls were last taken. A clock that others steer may stand still.
    fn has_come(&self, us: u64) -> bool {
        self.clock().is_steered() || self.gathered_us >= us
    }
}

/// Returns for how long a few wait for others, in microseconds.
fn patience_us(usual: &UsualDuration) -> u64 {
    (usual.us() / 2).min(GATHER_US_MAX)
}
