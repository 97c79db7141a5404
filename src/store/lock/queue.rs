//! The queue for a lock.

use std::collections::VecDeque;
use std::ops::Deref;

use crate::memory::heap::list_len;
use crate::store::lock::{LockMode, LockWaiter};

/// The clients queued for a lock, in the order of their [ranks](LockWaiter::rank).
#[derive(Default)]
pub(in crate::store) struct LockQueue {
    waiters: VecDeque<LockWaiter>,
    /// Number of clients that ask for several locks; with 0, nothing searches a queue of ten thousand for them.
    several: usize,
}

impl Deref for LockQueue {
    type Target = VecDeque<LockWaiter>;

    fn deref(&self) -> &VecDeque<LockWaiter> {
        &self.waiters
    }
}

impl LockQueue {
    /// Returns true if any client asks for several locks.
    pub(in crate::store) fn has_several(&self) -> bool {
        self.several > 0
    }

    /// Adds a client: at the end, or if it upgrades the lock or returns, at the position of its rank.
    pub(in crate::store) fn push(&mut self, waiter: LockWaiter) {
        self.several += asks_for_several(&waiter);
        let place = self.waiters.partition_point(|other| other.rank() < waiter.rank());
        self.waiters.insert(place, waiter);
    }

    pub(in crate::store) fn clear(&mut self) {
        self.waiters.clear();
        self.several = 0;
    }

    /// Removes a client, by the number of its wait; returns true if it was the first, `None` if it was not queued.
    pub(in crate::store) fn remove(&mut self, number: u64) -> Option<bool> {
        let place = self.place(number)?;
        let was_first = self.is_first(place);
        self.several -= self.waiters.remove(place).as_ref().map_or(0, asks_for_several);
        Some(was_first)
    }

    /// Reserves the position of a disconnected client, by the number of its wait; returns true if it was the first,
    /// `None` if it was not queued.
    pub(in crate::store) fn reserve_slot(&mut self, number: u64) -> Option<bool> {
        let place = self.place(number)?;
        let was_first = self.is_first(place);
        self.waiters[place].is_away = true;
        Some(was_first)
    }

    /// Gives a client its reserved position, found by the number of its wait; returns false if there is none.
    pub(in crate::store) fn claim_slot(&mut self, waiter: LockWaiter) -> bool {
        let Some(place) = self.place(waiter.number) else { return false };
        self.several += asks_for_several(&waiter);
        self.several -= asks_for_several(&self.waiters[place]);
        self.waiters[place] = waiter;
        true
    }

    pub(in crate::store) fn memory(&self) -> usize {
        list_len::<LockWaiter>(self.waiters.capacity())
    }

    fn place(&self, number: u64) -> Option<usize> {
        let find = |is_last| self.waiters.binary_search_by_key(&(is_last, number), LockWaiter::rank).ok();
        find(true).or_else(|| find(false))
    }

    /// Returns true if the client at `place` is the first connected client.
    fn is_first(&self, place: usize) -> bool {
        !self.waiters[place].is_away && self.waiters.iter().take(place).all(|waiter| waiter.is_away)
    }
}

/// Returns 1 for a client that asks for several locks, otherwise 0.
fn asks_for_several(waiter: &LockWaiter) -> usize {
    usize::from(waiter.mode == LockMode::Several)
}
