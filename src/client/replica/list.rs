//! All replicas: those that wait for a snapshot, and how many have acknowledged what.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use crate::client::replica::awaited::{Awaited, Waiters};
use crate::client::replica::one::{Replica, ReplicaState, Wanted};
use crate::client::replica::part::Part;
use crate::persist::LogReader;
use crate::time::clock::Now;

/// All replicas.
#[derive(Default)]
pub(crate) struct Replicas {
    /// In the order in which they asked.
    all: Mutex<Vec<Arc<Replica>>>,
    /// How many there are: a cheap check.
    count: AtomicUsize,
    /// The clients that wait for acknowledgements.
    pub(super) waiters: Waiters,
    /// Wakes who waits for the next acknowledgement.
    acknowledged: Notify,
    /// Those that wait for a snapshot.
    waiting: Mutex<Vec<Waiting>>,
    /// Those that may continue with what an append-only file has.
    behind: Mutex<Vec<Behind>>,
    /// When the last one has left, in monotonic milliseconds.
    left_ms: AtomicU64,
    /// When they were pinged last, in monotonic milliseconds.
    pinged_ms: AtomicU64,
}

/// A replica that lacks more of the log than is kept in memory.
pub(crate) struct Behind {
    pub(crate) waiting: Waiting,
    /// Up to where it has everything.
    pub(crate) position: u64,
    /// Reads what is kept.
    pub(crate) reader: LogReader,
}

/// A replica that waits for a snapshot.
pub(crate) struct Waiting {
    pub(crate) replica: Arc<Replica>,
    /// Takes the parts.
    pub(crate) parts: mpsc::Sender<Part>,
    /// Since when, in monotonic milliseconds.
    pub(crate) since_ms: u64,
}

impl Replicas {
    /// Adds a replica.
    pub(crate) fn add(&self, replica: Arc<Replica>, now: Now) {
        replica.restart(now);
        let mut all = self.all.lock();
        all.push(replica);
        self.count.store(all.len(), Relaxed);
    }

    /// Removes the replica that is a client.
    pub(crate) fn remove(&self, client: u64, now: Now) {
        let mut all = self.all.lock();
        all.retain(|replica| replica.client != client);
        self.left_ms.store(now.mono_ms(), Relaxed);
        self.count.store(all.len(), Relaxed);
    }

    /// Returns for how many milliseconds there have been none; `None` if there are some.
    pub(crate) fn idle_ms(&self, now: Now) -> Option<u64> {
        let idle_ms = now.mono_ms().saturating_sub(self.left_ms.load(Relaxed));
        Some(idle_ms).filter(|_| self.is_empty())
    }

    /// Returns whether they are to be pinged, which they are then not again for a time, unless that becomes shorter.
    pub(crate) fn is_ping_due(&self, period_s: u64, now: Now) -> bool {
        let silent_ms = now.mono_ms().saturating_sub(self.pinged_ms.load(Relaxed));
        let is_due = silent_ms >= period_s.saturating_mul(1000);
        if is_due {
            self.pinged_ms.store(now.mono_ms(), Relaxed);
        }
        is_due
    }

    /// Returns whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Returns all of them.
    pub(crate) fn all(&self) -> Vec<Arc<Replica>> {
        self.all.lock().clone()
    }

    /// Lets a replica be sent the next snapshot.
    pub(crate) fn await_snapshot(&self, waiting: Waiting) {
        self.waiting.lock().push(waiting);
    }

    /// Lets a replica be sent what it lacks, if an append-only file has that.
    pub(crate) fn await_missing(&self, behind: Behind) {
        self.behind.lock().push(behind);
    }

    /// Takes those that wait for what they lack.
    pub(crate) fn take_behind(&self) -> Vec<Behind> {
        std::mem::take(&mut *self.behind.lock())
    }

    /// Returns those that wait for the next snapshot, which is of what the first one wants: since when it waits, in monotonic
    /// milliseconds, and how many there are.
    pub(crate) fn waiting_since(&self) -> Option<(u64, usize)> {
        let mut waiting = self.waiting.lock();
        waiting.retain(|waiting| !waiting.parts.is_closed());
        let first = waiting.first()?;
        let wanted = *first.replica.wanted.lock();
        let count = waiting.iter().filter(|waiting| *waiting.replica.wanted.lock() == wanted).count();
        Some((first.since_ms, count))
    }

    /// Takes those that wait for the next snapshot, and what of the data it is to have.
    pub(crate) fn take_waiting(&self) -> Option<(Wanted, Vec<Waiting>)> {
        let mut waiting = self.waiting.lock();
        waiting.retain(|waiting| !waiting.parts.is_closed());
        let wanted = *waiting.first()?.replica.wanted.lock();
        Some((wanted, waiting.extract_if(.., |waiting| *waiting.replica.wanted.lock() == wanted).collect()))
    }

    /// Wakes who waits for the next acknowledgement.
    pub(crate) fn note_acknowledgement(&self) {
        self.acknowledged.notify_waiters();
    }

    /// Returns how many replicas have what a client waits for.
    pub(crate) fn count(&self, awaited: &Awaited) -> usize {
        self.count_online(|replica| replica.has(awaited))
    }

    /// Returns whether any is sent the changes.
    pub(crate) fn is_any_online(&self) -> bool {
        !self.is_empty() && self.count_online(|_| true) > 0
    }

    fn count_online(&self, holds: impl Fn(&Replica) -> bool) -> usize {
        let counts = |replica: &&Arc<Replica>| replica.state() == ReplicaState::Online && holds(replica);
        self.all.lock().iter().filter(counts).count()
    }

    /// Returns how many replicas are online and have said so for a time, in milliseconds.
    pub(crate) fn count_good(&self, lag_ms_max: u64, now: Now) -> usize {
        self.count_online(|replica| replica.lag_ms(now) <= lag_ms_max)
    }

    /// Waits for the next acknowledgement of a replica.
    pub(crate) async fn next_acknowledgement(&self) {
        self.acknowledged.notified().await;
    }
}
