//! Wakes the threads that wait for records when a worker has executed what was ready, not at the first record: the disk
//! then syncs once for the writes of many clients, and the worker wakes another thread once.
//!
//! A worker's replies wait for the disk anyway, and it sends none before it has executed what is ready.

use std::cell::RefCell;
use std::sync::Arc;

use parking_lot::Condvar;

/// After how many batches of requests threads are woken, by a worker that always has work: clients of other workers may
/// wait for its records.
const BATCHES_MAX: usize = 64;

thread_local! {
    /// What this thread has to wake; `None` if it wakes at once.
    static DUE: RefCell<Option<Due>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct Due {
    /// Where threads wait.
    places: Vec<Arc<Condvar>>,
    /// How many batches were executed since the first of them.
    batches: usize,
}

/// Wakes the threads that wait at a place; on a worker's thread, later.
pub(crate) fn wake(place: &Arc<Condvar>) {
    DUE.with_borrow_mut(|due| match due {
        Some(due) if due.places.iter().any(|other| Arc::ptr_eq(other, place)) => {}
        Some(due) => due.places.push(place.clone()),
        None => _ = place.notify_all(),
    });
}

/// Wakes the threads that this one has not woken yet. Every worker calls it before it waits for work, and only what it
/// logs after a call is put off.
pub(crate) fn before_worker_waits() {
    DUE.with_borrow_mut(|due| notify(due.get_or_insert_default()));
}

/// Counts a batch of requests that this thread has executed.
pub(crate) fn count_batch() {
    DUE.with_borrow_mut(|due| {
        if let Some(due) = due.as_mut().filter(|due| !due.places.is_empty()) {
            due.batches += 1;
            if due.batches >= BATCHES_MAX {
                notify(due);
            }
        }
    });
}

/// Lets this thread wake others at once, as it is no worker any more.
pub(crate) fn leave_worker() {
    DUE.take().iter_mut().for_each(notify);
}

fn notify(due: &mut Due) {
    due.places.drain(..).for_each(|place| _ = place.notify_all());
    due.batches = 0;
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use parking_lot::Mutex;

    use super::*;

    /// Runs `act` with a place at which a thread waits, and with what tells whether that was woken. It must wake it.
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
            drop(lock.lock()); // the other one has it until it waits
            act(&place, &|| messages.try_recv().is_ok());
        });
    }

    fn until(is_woken: &dyn Fn() -> bool) {
        while !is_woken() {
            thread::yield_now();
        }
    }

    #[test]
    fn a_thread_that_is_no_worker_wakes_at_once() {
        with_a_waiting_thread(|place, is_woken| {
            wake(place);
            until(is_woken);
        });
    }

    #[test]
    fn a_worker_wakes_before_it_waits_or_after_many_batches_or_when_it_ceases_to_be_one() {
        let many_batches = || (0..BATCHES_MAX).for_each(|_| count_batch());
        for way in [before_worker_waits, many_batches, leave_worker] {
            with_a_waiting_thread(|place, is_woken| {
                before_worker_waits();
                many_batches(); // with nothing to wake
                wake(place);
                (1..BATCHES_MAX).for_each(|_| count_batch());
                assert!(!is_woken());
                way();
                until(is_woken);
            });
        }
    }
}
