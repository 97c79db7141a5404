//! Lazy freeing: frees large values on a background thread, so that no client waits for it.
//!
//! All removals of values (commands, expiry, eviction, overwriting, FLUSHALL) pass them here. Small values are freed at
//! once; the rest is queued for a thread that exists only while the queue is not empty.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::store::entry::Entry;
use crate::store::table::Table;

/// The effort, in allocations and pages, from which a value is freed in the background: about a millisecond's work.
/// Starting a thread takes a twentieth of that.
const EFFORT_MIN: usize = 10_000;

/// Something to free.
pub(super) enum Garbage {
    /// A key with its value.
    Entry(#[expect(dead_code, reason = "it is kept only to be dropped")] Entry),
    /// All keys of some shards.
    Tables(Vec<Table>),
}

impl Garbage {
    /// Returns the number of keys.
    fn objects(&self) -> usize {
        match self {
            Garbage::Entry(_) => 1,
            Garbage::Tables(tables) => tables.iter().map(Table::count).sum(),
        }
    }
}

/// Starts a thread that runs a closure.
type Start = fn(Box<dyn FnOnce() + Send>) -> io::Result<()>;

/// Frees values at once or in the background. Shared by a store and its shards.
pub struct Reclaimer {
    queue: Mutex<Queue>,
    pending: AtomicUsize,
    freed: AtomicU64,
    start: Start,
}

#[derive(Default)]
struct Queue {
    garbage: VecDeque<Garbage>,
    /// Whether the thread is running.
    is_running: bool,
}

impl Default for Reclaimer {
    fn default() -> Self {
        Self::new(|work| std::thread::Builder::new().name("free".into()).spawn(work).map(drop))
    }
}

impl Reclaimer {
    fn new(start: Start) -> Self {
        Reclaimer { queue: Mutex::default(), pending: AtomicUsize::new(0), freed: AtomicU64::new(0), start }
    }

    /// Returns how many keys are queued to be freed.
    pub fn pending(&self) -> usize {
        self.pending.load(Relaxed)
    }

    /// Returns how many keys have been freed in the background.
    pub fn freed(&self) -> u64 {
        self.freed.load(Relaxed)
    }

    /// Resets the counter of freed keys.
    pub fn reset_freed(&self) {
        self.freed.store(0, Relaxed);
    }

    /// Frees an entry.
    #[inline]
    pub(super) fn free(self: &Arc<Self>, entry: Entry) {
        if entry.effort() >= EFFORT_MIN {
            self.queue(Garbage::Entry(entry));
        }
    }

    /// Frees whole tables.
    pub(super) fn free_tables(self: &Arc<Self>, tables: Vec<Table>) {
        let garbage = Garbage::Tables(tables);
        if garbage.objects() >= EFFORT_MIN {
            self.queue(garbage);
        }
    }

    #[cold]
    #[inline(never)] // keeps the path of every removal short
    fn queue(self: &Arc<Self>, garbage: Garbage) {
        self.pending.fetch_add(garbage.objects(), Relaxed);
        let mut queue = self.queue.lock();
        queue.garbage.push_back(garbage);
        if std::mem::replace(&mut queue.is_running, true) {
            return;
        }
        drop(queue);
        let reclaimer = self.clone();
        if (self.start)(Box::new(move || reclaimer.run())).is_err() {
            self.run(); // no thread could be started: the caller frees
        }
    }

    /// Frees queued values until the queue is empty.
    fn run(&self) {
        while let Some(garbage) = self.next() {
            let objects = garbage.objects();
            drop(garbage);
            self.pending.fetch_sub(objects, Relaxed);
            self.freed.fetch_add(objects as u64, Relaxed);
        }
    }

    fn next(&self) -> Option<Garbage> {
        let mut queue = self.queue.lock();
        let next = queue.garbage.pop_front();
        queue.is_running = next.is_some();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long_text() -> Entry {
        Entry::text(b"key", &vec![0; EFFORT_MIN * 4096], None)
    }

    /// Returns a reclaimer whose thread is never scheduled: the test gets its closure.
    fn reclaimer_without_time() -> Arc<Reclaimer> {
        Arc::new(Reclaimer::new(|_| Ok(())))
    }

    #[test]
    fn only_what_takes_long_is_queued() {
        let reclaimer = reclaimer_without_time();
        reclaimer.free(Entry::text(b"key", &[0; 100_000], None));
        reclaimer.free_tables(Vec::new());
        assert_eq!(reclaimer.pending(), 0);
        reclaimer.free(long_text());
        reclaimer.free(long_text());
        assert_eq!((reclaimer.pending(), reclaimer.freed()), (2, 0));
        reclaimer.run();
        assert_eq!((reclaimer.pending(), reclaimer.freed()), (0, 2));
    }

    #[test]
    fn a_thread_is_started_for_what_is_queued_after_the_last_one_has_ended() {
        let reclaimer = reclaimer_without_time();
        reclaimer.free(long_text());
        assert!(reclaimer.queue.lock().is_running);
        reclaimer.run();
        assert!(!reclaimer.queue.lock().is_running);
        reclaimer.free(long_text());
        assert!(reclaimer.queue.lock().is_running);
    }

    #[test]
    fn where_no_thread_can_be_started_it_is_freed_in_place() {
        let reclaimer = Arc::new(Reclaimer::new(|_| Err(io::ErrorKind::OutOfMemory.into())));
        reclaimer.free(long_text());
        assert_eq!((reclaimer.pending(), reclaimer.freed()), (0, 1));
        assert!(!reclaimer.queue.lock().is_running);
    }
}
