//! What INFO shows of an engine: what it has asked of the cluster, how long that took, and what became of it.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::observe::histogram::{Counts, Histogram};

/// Counters of an engine, and how long its requests took.
#[derive(Default)]
pub(crate) struct EngineStats {
    /// Transactions that were sent for calls.
    pub(crate) transactions: AtomicU64,
    /// Calls that were executed for clients, or again for blocked ones.
    pub(crate) calls: AtomicU64,
    /// How often calls were executed again because others had changed their keys.
    pub(crate) conflicts: AtomicU64,
    /// Reads of the cluster's revision.
    pub(crate) barriers: AtomicU64,
    /// Transactions whose outcome was not known at first.
    pub(crate) unknown: AtomicU64,
    /// Transactions whose clients were told that it is not known.
    pub(crate) uncertain: AtomicU64,
    /// How often the changes of the cluster were followed from another place.
    pub(crate) watches: AtomicU64,
    /// How often all keys were loaded again.
    pub(crate) reloads: AtomicU64,
    /// Everything up to this revision is in the mirror.
    pub(crate) revision: AtomicI64,
    /// The largest revision that the cluster has told.
    pub(crate) cluster_revision: AtomicI64,
    /// The number of this process among those that serve the data.
    pub(crate) process: AtomicU64,
    /// What is known of the cluster.
    pub(crate) cluster: Mutex<ClusterState>,
    durations: Mutex<Durations>,
}

/// What is known of the cluster.
#[derive(Clone, Default)]
pub(crate) struct ClusterState {
    /// The endpoint that is asked.
    pub(crate) endpoint: String,
    /// Its version.
    pub(crate) version: String,
    /// The member that leads, as that endpoint knows; 0 while none does.
    pub(crate) leader: u64,
    /// The size of its database, in bytes.
    pub(crate) size: i64,
}

/// Histograms whose unit is the microsecond, so that they reach up to 1000 seconds.
#[derive(Default)]
struct Durations {
    transactions: Histogram,
    barriers: Histogram,
}

impl EngineStats {
    /// Records how long a transaction took, in microseconds.
    pub(crate) fn record_transaction(&self, us: u64) {
        self.durations.lock().transactions.record(us);
    }

    /// Records how long a read of the cluster's revision took, in microseconds.
    pub(crate) fn record_barrier(&self, us: u64) {
        self.durations.lock().barriers.record(us);
    }

    /// Returns how long transactions took, in microseconds.
    pub(crate) fn transaction_durations(&self) -> Counts {
        self.durations.lock().transactions.counts()
    }

    /// Returns how long reads of the cluster's revision took, in microseconds.
    pub(crate) fn barrier_durations(&self) -> Counts {
        self.durations.lock().barriers.counts()
    }

    /// Resets the counters and durations.
    pub(crate) fn clear(&self) {
        let counters = [&self.transactions, &self.calls, &self.conflicts, &self.barriers, &self.unknown];
        let counters = counters.into_iter().chain([&self.uncertain, &self.watches, &self.reloads]);
        counters.for_each(|counter| counter.store(0, Relaxed));
        *self.durations.lock() = Durations::default();
    }
}
