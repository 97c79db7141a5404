//! The gate of the store: a reader-writer lock whose waiters give up when its exclusive holder takes too long.
//!
//! A [`ShardedLock`] alone would block its waiters until the lock is free, and a script may hold it for ever. So an
//! exclusive holder takes the only [`BusyFlag`] before the lock, and a thread that finds the lock held waits on the
//! flag instead. A script that has run for too long marks the flag ([`BusyFlag::stay`]): waiters wake up and return
//! without the lock, to answer their clients with BUSY.
//!
//! Invariant: the flag is taken before the lock is requested and released after the lock. So when the lock cannot be
//! acquired shared while the flag is free, it is being released or requested right now, and a retry succeeds soon.

use std::sync::Arc;
use std::sync::TryLockError;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::SeqCst};

use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
use parking_lot::{Condvar, Mutex};

use crate::store::generation::Generation;

const FREE: u8 = 0;
const TAKEN: u8 = 1;
/// Taken by a holder that will hold the lock for long.
const OCCUPIED: u8 = 2;

/// A value behind a reader-writer lock.
pub(super) struct Gate<T> {
    lock: ShardedLock<T>,
    busy_flag: Arc<BusyFlag>,
    /// Generation of the admission state, read after each acquisition of the lock.
    pub(super) generation: Generation,
}

/// Shared access to the value.
pub(super) struct SharedGuard<'a, T> {
    pub(super) value: ShardedLockReadGuard<'a, T>,
    /// True if the lock was contended.
    pub(super) has_waited: bool,
}

/// Exclusive access to the value.
pub(super) struct ExclusiveGuard<'a, T> {
    /// The value. It is released before the busy flag: fields are dropped in this order.
    pub(super) value: ShardedLockWriteGuard<'a, T>,
    _seat: Taken<'a>,
    /// True if the lock was contended.
    pub(super) has_waited: bool,
}

/// Flag that an exclusive holder is present, and that it will stay for long.
#[derive(Default)]
pub struct BusyFlag {
    state: AtomicU8,
    /// Number of threads that wait for a change of the state.
    waiting: AtomicUsize,
    /// Number of finished waits.
    ended_waits: Mutex<usize>,
    /// Signals a change of the state.
    changed: Condvar,
    /// Signals that a wait is over, or that the holder stays for long.
    passed: Condvar,
}

/// Guard that releases the busy flag when it is dropped.
struct Taken<'a>(&'a BusyFlag);

impl<T> Gate<T> {
    pub(super) fn new(value: T) -> Self {
        Gate { lock: ShardedLock::new(value), busy_flag: Arc::default(), generation: Generation::first() }
    }

    /// Returns true if a thread waits for exclusive access while the caller has shared access.
    pub(super) fn is_awaited(&self) -> bool {
        self.busy_flag.state.load(SeqCst) != FREE
    }

    /// Gives precedence to a thread that waits for the lock, unless the present holder stays for long; the caller has
    /// just released the lock. The lock alone would admit the caller again before a thread that has to wake up first.
    pub(super) fn yield_to_waiter(&self) {
        self.busy_flag.let_one_pass();
        self.busy_flag.wait_while(|state| state == TAKEN);
    }

    pub(super) fn busy_flag(&self) -> &Arc<BusyFlag> {
        &self.busy_flag
    }

    /// Acquires the value shared; returns `None` if an exclusive holder stays for long.
    #[inline]
    pub(super) fn share(&self) -> Option<SharedGuard<'_, T>> {
        let mut has_waited = false;
        loop {
            match self.lock.try_read() {
                Ok(value) => return Some(SharedGuard { value, has_waited }),
                // A poisoned lock is safe to use: shards recover from a panic.
                Err(TryLockError::Poisoned(poisoned)) => {
                    return Some(SharedGuard { value: poisoned.into_inner(), has_waited });
                }
                Err(TryLockError::WouldBlock) if self.busy_flag.is_free_after_waiting() => has_waited = true,
                Err(TryLockError::WouldBlock) => return None,
            }
        }
    }

    /// Acquires the value exclusively; returns `None` if another exclusive holder stays for long.
    #[inline]
    pub(super) fn exclude(&self) -> Option<ExclusiveGuard<'_, T>> {
        let mut has_waited = false;
        while !self.busy_flag.take() {
            if !self.busy_flag.is_free_after_waiting() {
                return None;
            }
            has_waited = true;
        }
        let busy_flag = Taken(&self.busy_flag);
        let value = match self.lock.try_write() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                has_waited = true;
                self.lock.write().unwrap_or_else(|poisoned| poisoned.into_inner())
            }
        };
        Some(ExclusiveGuard { value, _seat: busy_flag, has_waited })
    }
}

impl BusyFlag {
    #[inline]
    fn take(&self) -> bool {
        self.state.compare_exchange(FREE, TAKEN, SeqCst, SeqCst).is_ok()
    }

    /// Returns true if an exclusive holder stays for long.
    #[inline]
    pub fn is_occupied(&self) -> bool {
        self.state.load(SeqCst) == OCCUPIED
    }

    /// Marks that the caller, which holds the flag, stays for long, and wakes all waiters.
    pub fn stay(&self) {
        self.state.store(OCCUPIED, SeqCst);
        self.wake();
    }

    /// Waits without limit until the flag is free.
    pub fn wait_until_free(&self) {
        self.wait_while(|state| state != FREE);
    }

    /// Waits while the flag is taken; returns false if its holder stays for long.
    #[cold]
    fn is_free_after_waiting(&self) -> bool {
        self.wait_while(|state| state == TAKEN);
        !self.is_occupied()
    }

    fn wait_while(&self, condition: impl Fn(u8) -> bool) {
        let mut ended_waits = self.ended_waits.lock();
        // Incremented before the state is read; `wake` reads the count after the state was written: one of the two sees
        // the other.
        self.waiting.fetch_add(1, SeqCst);
        while condition(self.state.load(SeqCst)) {
            self.changed.wait(&mut ended_waits);
        }
        self.waiting.fetch_sub(1, SeqCst);
        *ended_waits = ended_waits.wrapping_add(1);
        self.passed.notify_all();
    }

    /// Waits until the wait of another thread is over, if any waits.
    fn let_one_pass(&self) {
        let mut ended_waits = self.ended_waits.lock();
        let before = *ended_waits;
        while *ended_waits == before && self.waiting.load(SeqCst) > 0 && !self.is_occupied() {
            self.passed.wait(&mut ended_waits);
        }
    }

    #[inline]
    fn leave(&self) {
        self.state.store(FREE, SeqCst);
        if self.waiting.load(SeqCst) > 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        // A waiter that has read the state and does not sleep yet holds the mutex.
        let _lock = self.ended_waits.lock();
        self.changed.notify_all();
        self.passed.notify_all();
    }
}

impl Drop for Taken<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_learns_that_someone_stays() {
        let gate = Gate::new(0);
        let holder = gate.exclude().expect("no other holder");
        std::thread::scope(|scope| {
            let (sharing, excluding) =
                (scope.spawn(|| gate.share().is_none()), scope.spawn(|| gate.exclude().is_none()));
            gate.busy_flag().stay();
            assert!(sharing.join().expect("no panic") && excluding.join().expect("no panic"));
        });
        drop(holder);
        assert!(gate.share().is_some() && gate.exclude().is_some());
    }

    #[test]
    fn who_has_waited_passes_before_the_holder_comes_back() {
        let gate = Gate::new(0);
        for _ in 0..100 {
            let holder = gate.exclude().expect("no other holder");
            std::thread::scope(|scope| {
                scope.spawn(|| drop(gate.share()));
                while gate.busy_flag().waiting.load(SeqCst) == 0 {
                    std::thread::yield_now();
                }
                drop(holder);
                gate.yield_to_waiter();
                assert_eq!(gate.busy_flag().waiting.load(SeqCst), 0);
            });
        }
        gate.yield_to_waiter(); // nobody waits
    }

    #[test]
    fn no_message_is_lost_while_many_clients_come_and_go() {
        const ROUNDS: usize = 2_000;
        let gate = Gate::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..ROUNDS).for_each(|_| *gate.exclude().expect("no holder stays").value += 1));
                scope.spawn(|| {
                    (0..ROUNDS).for_each(|_| assert!(*gate.share().expect("no holder stays").value <= 3 * ROUNDS))
                });
            }
        });
        assert_eq!(*gate.share().expect("no holder stays").value, 3 * ROUNDS);
    }
}
