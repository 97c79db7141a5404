//! Deferred work of a worker, done after everything that was ready has been executed: one write to the disk for many
//! clients, or one wakeup of another thread.
//!
//! A worker's replies depend on that work anyway, and it sends none before it has executed everything that is ready.

use std::cell::RefCell;
use std::sync::Arc;

use parking_lot::Condvar;

/// Number of batches of requests after which a worker that always has work does its deferred work: clients of other
/// workers may wait for its records.
const BATCHES_MAX: usize = 64;

thread_local! {
    /// Deferred work of this thread; `None` if it defers none.
    static DUE: RefCell<Option<Due>> = const { RefCell::new(None) };
}

/// Work that can be deferred.
pub(crate) trait Deferred: Send + Sync {
    fn run(&self);
}

impl Deferred for Condvar {
    fn run(&self) {
        self.notify_all();
    }
}

#[derive(Default)]
struct Due {
    work: Vec<Arc<dyn Deferred>>,
    /// Number of batches executed since the oldest work was deferred.
    batches: usize,
}

/// Defers work if this thread is a worker. Returns false, and does nothing, on other threads.
pub(crate) fn defer<T: Deferred + 'static>(work: &Arc<T>) -> bool {
    DUE.with_borrow_mut(|due| {
        let Some(due) = due else { return false };
        let is_same = |other: &Arc<dyn Deferred>| Arc::as_ptr(other).cast::<()>() == Arc::as_ptr(work).cast::<()>();
        if !due.work.iter().any(is_same) {
            due.work.push(work.clone());
        }
        true
    })
}

/// Runs the deferred work of this thread. Every worker calls it before it waits for work; a thread defers work only
/// after its first call.
pub(crate) fn before_worker_waits() {
    let work = DUE.with_borrow_mut(|due| due.get_or_insert_default().take());
    run(work);
}

/// Runs the deferred work of this thread, if any.
pub(crate) fn run_deferred() {
    if let Some(work) = DUE.with_borrow_mut(|due| due.as_mut().map(Due::take)) {
        run(work);
    }
}

/// Counts a batch of requests executed by this thread.
pub(crate) fn count_batch() {
    let work = DUE.with_borrow_mut(|due| {
        let due = due.as_mut().filter(|due| !due.work.is_empty())?;
        due.batches += 1;
        (due.batches >= BATCHES_MAX).then(|| due.take())
    });
    if let Some(work) = work {
        run(work);
    }
}

/// Ends the deferring of work on this thread, which is no worker any more.
pub(crate) fn leave_worker() {
    if let Some(mut due) = DUE.take() {
        run(due.take());
    }
}

/// Runs the work, and keeps the list's memory for later work.
fn run(mut work: Vec<Arc<dyn Deferred>>) {
    work.drain(..).for_each(|work| work.run());
    DUE.with_borrow_mut(|due| {
        if let Some(due) = due.as_mut().filter(|due| due.work.is_empty()) {
            due.work = work;
        }
    });
}

impl Due {
    fn take(&mut self) -> Vec<Arc<dyn Deferred>> {
        self.batches = 0;
        std::mem::take(&mut self.work)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use parking_lot::Mutex;

    use super::*;

    /// Runs `act` with a condition variable on which a thread waits, and with a test for its wakeup. `act` must wake
    /// it.
    fn with_a_waiting_thread(act: impl FnOnce(&Arc<Condvar>, &dyn Fn() -> bool)) {
        let (place, lock, (send, messages)) = (Arc::new(Condvar::new()), Mutex::new(()), mpsc::channel());
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut held = lock.lock();
                let _ = send.send(());
                place.wait(&mut held);
                let _ = send.send(());
            });
            messages.recv().expect("that it waits");
            drop(lock.lock()); // the other thread holds it until it waits
            act(&place, &|| messages.try_recv().is_ok());
        });
    }

    fn until(is_woken: &dyn Fn() -> bool) {
        while !is_woken() {
            thread::yield_now();
        }
    }

    #[test]
    fn a_thread_that_is_no_worker_puts_nothing_off() {
        with_a_waiting_thread(|place, is_woken| {
            assert!(!defer(place));
            place.run();
            until(is_woken);
        });
    }

    #[test]
    fn a_worker_wakes_before_it_waits_or_after_many_batches_or_when_it_ceases_to_be_one() {
        let many_batches = || (0..BATCHES_MAX).for_each(|_| count_batch());
        for way in [before_worker_waits, run_deferred, many_batches, leave_worker] {
            with_a_waiting_thread(|place, is_woken| {
                before_worker_waits();
                many_batches(); // with nothing to wake
                assert!(defer(place) && defer(place));
                (1..BATCHES_MAX).for_each(|_| count_batch());
                assert!(!is_woken());
                way();
                until(is_woken);
            });
        }
    }
}
