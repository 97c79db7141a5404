//! Registry of replicas: all of them, those that wait for a snapshot, and their acknowledgements.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use crate::client::replica::SyncPart;
use crate::client::replica::{AwaitedReplicas, Waiters};
use crate::client::replica::{Replica, ReplicaState, WantedData};
use crate::persist::LogReader;
use crate::time::clock::Now;

/// Registry of replicas.
#[derive(Default)]
pub(crate) struct Replicas {
    /// Replicas, in the order in which they asked for data.
    all: Mutex<Vec<Arc<Replica>>>,
    /// Number of replicas, for a cheap check.
    count: AtomicUsize,
    /// The clients that wait for acknowledgements.
    pub(super) waiters: Waiters,
    /// Wakes the tasks that wait for the next acknowledgement.
    acknowledged: Notify,
    /// Replicas that wait for a snapshot.
    waiting: Mutex<Vec<WaitingReplica>>,
    /// Replicas that may continue with the content of an append-only file.
    behind: Mutex<Vec<LaggingReplica>>,
    /// Time at which the last replica has left, in monotonic milliseconds.
    left_ms: AtomicU64,
    /// Time of the last PING to the replicas, in monotonic milliseconds.
    pinged_ms: AtomicU64,
}

/// A replica that lacks more of the log than is kept in memory.
pub(crate) struct LaggingReplica {
    pub(crate) waiting: WaitingReplica,
    /// Position up to which the replica has the log.
    pub(crate) position: u64,
    /// Reader of the part of the log that is kept in memory.
    pub(crate) reader: LogReader,
}

/// A replica that waits for a snapshot.
pub(crate) struct WaitingReplica {
    pub(crate) replica: Arc<Replica>,
    /// Sender of the parts of the snapshot.
    pub(crate) parts: mpsc::Sender<SyncPart>,
    /// Time since which the replica has waited, in monotonic milliseconds.
    pub(crate) since_ms: u64,
}

impl Replicas {
    pub(crate) fn add(&self, replica: Arc<Replica>, now: Now) {
        replica.restart(now);
        let mut all = self.all.lock();
        all.push(replica);
        self.count.store(all.len(), Relaxed);
    }

    /// Removes the replica of a client.
    pub(crate) fn remove(&self, client: u64, now: Now) {
        let mut all = self.all.lock();
        all.retain(|replica| replica.client != client);
        self.left_ms.store(now.mono_ms(), Relaxed);
        self.count.store(all.len(), Relaxed);
    }

    /// Returns for how many milliseconds there have been no replicas; `None` if there are some.
    pub(crate) fn idle_ms(&self, now: Now) -> Option<u64> {
        let idle_ms = now.mono_ms().saturating_sub(self.left_ms.load(Relaxed));
        Some(idle_ms).filter(|_| self.is_empty())
    }

    /// Returns true if a PING to the replicas is due, and then begins the next period; its length may change meanwhile.
    pub(crate) fn is_ping_due(&self, period_s: u64, now: Now) -> bool {
        let silent_ms = now.mono_ms().saturating_sub(self.pinged_ms.load(Relaxed));
        let is_due = silent_ms >= period_s.saturating_mul(1000);
        if is_due {
            self.pinged_ms.store(now.mono_ms(), Relaxed);
        }
        is_due
    }

    /// Returns true if there are no replicas.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    pub(crate) fn all(&self) -> Vec<Arc<Replica>> {
        self.all.lock().clone()
    }

    /// Adds a replica that is to be sent the next snapshot.
    pub(crate) fn await_snapshot(&self, waiting: WaitingReplica) {
        self.waiting.lock().push(waiting);
    }

    /// Adds a replica that is to be sent the part of the log that it lacks, if an append-only file has that.
    pub(crate) fn await_missing(&self, behind: LaggingReplica) {
        self.behind.lock().push(behind);
    }

    /// Takes the replicas that lack a part of the log.
    pub(crate) fn take_behind(&self) -> Vec<LaggingReplica> {
        std::mem::take(&mut *self.behind.lock())
    }

    /// Returns the time since which the first replica has waited for a snapshot, in monotonic milliseconds, and the
    /// number of replicas that wait for the same kind of snapshot.
    pub(crate) fn waiting_since(&self) -> Option<(u64, usize)> {
        let mut waiting = self.waiting.lock();
        waiting.retain(|waiting| !waiting.parts.is_closed());
        let first = waiting.first()?;
        let wanted = *first.replica.wanted.lock();
        let count = waiting.iter().filter(|waiting| *waiting.replica.wanted.lock() == wanted).count();
        Some((first.since_ms, count))
    }

    /// Takes the replicas that wait for the next snapshot, and the kind of snapshot that they have asked for.
    pub(crate) fn take_waiting(&self) -> Option<(WantedData, Vec<WaitingReplica>)> {
        let mut waiting = self.waiting.lock();
        waiting.retain(|waiting| !waiting.parts.is_closed());
        let wanted = *waiting.first()?.replica.wanted.lock();
        Some((wanted, waiting.extract_if(.., |waiting| *waiting.replica.wanted.lock() == wanted).collect()))
    }

    /// Wakes the tasks that wait for the next acknowledgement.
    pub(crate) fn note_acknowledgement(&self) {
        self.acknowledged.notify_waiters();
    }

    /// Returns how many replicas have acknowledged what a client waits for.
    pub(crate) fn count(&self, awaited: &AwaitedReplicas) -> usize {
        self.count_online(|replica| replica.has(awaited))
    }

    /// Returns true if any replica is online.
    pub(crate) fn is_any_online(&self) -> bool {
        !self.is_empty() && self.count_online(|_| true) > 0
    }

    fn count_online(&self, holds: impl Fn(&Replica) -> bool) -> usize {
        let counts = |replica: &&Arc<Replica>| replica.state() == ReplicaState::Online && holds(replica);
        self.all.lock().iter().filter(counts).count()
    }

    /// Returns how many replicas are online and have sent a sign of life in the last `lag_ms_max` milliseconds.
    pub(crate) fn count_good(&self, lag_ms_max: u64, now: Now) -> usize {
        self.count_online(|replica| replica.lag_ms(now) <= lag_ms_max)
    }

    /// Waits for the next acknowledgement of a replica.
    pub(crate) async fn next_acknowledgement(&self) {
        self.acknowledged.notified().await;
    }
}
