//! The queue for a lock.

use std::collections::VecDeque;
use std::ops::Deref;

use crate::memory::heap::list_len;
use crate::store::lock::{LockMode, LockWaiter};

/// The clients queued for a lock, in the order in which they have arrived.
#[derive(Default)]
pub(super) struct LockQueue {
    waiters: VecDeque<LockWaiter>,
    /// How many of them ask for several locks: others need not look for them among ten thousand.
    several: usize,
}

impl Deref for LockQueue {
    type Target = VecDeque<LockWaiter>;

    fn deref(&self) -> &VecDeque<LockWaiter> {
        &self.waiters
    }
}

impl LockQueue {
    /// Returns whether any asks for several locks.
    pub(super) fn has_several(&self) -> bool {
        self.several > 0
    }

    /// Adds a client: at the end, unless it comes back, whose number tells its place.
    pub(super) fn push(&mut self, waiter: LockWaiter) {
        self.several += asks_for_several(&waiter);
        let place = self.waiters.partition_point(|other| other.number < waiter.number);
        self.waiters.insert(place, waiter);
    }

    /// Removes all.
    pub(super) fn clear(&mut self) {
        self.waiters.clear();
        self.several = 0;
    }

    /// Removes a client, by the number of its wait; returns whether it was the first, if it was there.
    pub(super) fn remove(&mut self, number: u64) -> Option<bool> {
        let place = self.place(number)?;
        let was_first = self.is_first(place);
        self.several -= self.waiters.remove(place).as_ref().map_or(0, asks_for_several);
        Some(was_first)
    }

    /// Keeps the place of a client, by the number of its wait, while it is away; returns whether it was the first, if it was
    /// there.
    pub(super) fn leave_for_now(&mut self, number: u64) -> Option<bool> {
        let place = self.place(number)?;
        let was_first = self.is_first(place);
        self.waiters[place].is_away = true;
        Some(was_first)
    }

    /// Lets a client take up a place that was kept, which has its number; returns false if it is not there.
    pub(super) fn take_up(&mut self, waiter: LockWaiter) -> bool {
        let Some(place) = self.place(waiter.number) else { return false };
        self.several += asks_for_several(&waiter);
        self.several -= asks_for_several(&self.waiters[place]);
        self.waiters[place] = waiter;
        true
    }

    /// Returns the memory that it takes.
    pub(super) fn memory(&self) -> usize {
        list_len::<LockWaiter>(self.waiters.capacity())
    }

    fn place(&self, number: u64) -> Option<usize> {
        self.waiters.binary_search_by_key(&number, |waiter| waiter.number).ok()
    }

    /// Returns whether a client that is there has nobody before it who is, too.
    fn is_first(&self, place: usize) -> bool {
        !self.waiters[place].is_away && self.waiters.iter().take(place).all(|waiter| waiter.is_away)
    }
}

/// Returns 1 for a client that asks for several locks, otherwise 0.
fn asks_for_several(waiter: &LockWaiter) -> usize {
    usize::from(waiter.mode == LockMode::Several)
}
