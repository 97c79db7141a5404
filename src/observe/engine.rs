//! Statistics of an engine for INFO: requests to the cluster, their durations and outcomes.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::observe::histogram::{Counts, Histogram};

/// Counters of an engine, and the durations of its requests.
#[derive(Default)]
pub(crate) struct EngineStats {
    /// Transactions that were sent for calls.
    pub(crate) transactions: AtomicU64,
    /// Calls that were executed for clients, or again for blocked ones.
    pub(crate) calls: AtomicU64,
    /// Number of times that calls were executed again because others had changed their keys.
    pub(crate) conflicts: AtomicU64,
    /// Reads of the cluster's revision.
    pub(crate) barriers: AtomicU64,
    /// Transactions whose outcome was not known at first.
    pub(crate) unknown: AtomicU64,
    /// Transactions whose clients were told that the outcome is not known.
    pub(crate) uncertain: AtomicU64,
    /// Number of times that a watch of the cluster's changes was begun.
    pub(crate) watches: AtomicU64,
    /// Number of times that all keys were loaded again.
    pub(crate) reloads: AtomicU64,
    /// Revision up to which the mirror is complete.
    pub(crate) revision: AtomicI64,
    /// Largest revision that the cluster has reported.
    pub(crate) cluster_revision: AtomicI64,
    /// Number of this process among those that serve the data.
    pub(crate) process: AtomicU64,
    /// State of the cluster, as far as known.
    pub(crate) cluster: Mutex<ClusterState>,
    durations: Mutex<Durations>,
}

/// State of the cluster, as far as known.
#[derive(Clone, Default)]
pub(crate) struct ClusterState {
    /// Endpoint in use.
    pub(crate) endpoint: String,
    /// Version of etcd at the endpoint.
    pub(crate) version: String,
    /// Leading member, as known to the endpoint; 0 while there is none.
    pub(crate) leader: u64,
    /// Size of the endpoint's database, in bytes.
    pub(crate) size: i64,
    /// Number of members that vote; 1 while it is not known.
    pub(crate) members: usize,
}

impl ClusterState {
    /// Returns how many members have what the cluster has confirmed, at least, besides one.
    pub(crate) fn copies(&self) -> usize {
        self.members / 2
    }
}

/// Histograms whose unit is the microsecond, so that they reach up to 1000 seconds.
#[derive(Default)]
struct Durations {
    transactions: Histogram,
    barriers: Histogram,
}

impl EngineStats {
    /// Records the duration of a transaction, in microseconds.
    pub(crate) fn record_transaction(&self, us: u64) {
        self.durations.lock().transactions.record(us);
    }

    /// Records the duration of a read of the cluster's revision, in microseconds.
    pub(crate) fn record_barrier(&self, us: u64) {
        self.durations.lock().barriers.record(us);
    }

    /// Returns the durations of transactions, in microseconds.
    pub(crate) fn transaction_durations(&self) -> Counts {
        self.durations.lock().transactions.counts()
    }

    /// Returns the durations of reads of the cluster's revision, in microseconds.
    pub(crate) fn barrier_durations(&self) -> Counts {
        self.durations.lock().barriers.counts()
    }

    pub(crate) fn clear(&self) {
        let counters = [&self.transactions, &self.calls, &self.conflicts, &self.barriers, &self.unknown];
        let counters = counters.into_iter().chain([&self.uncertain, &self.watches, &self.reloads]);
        counters.for_each(|counter| counter.store(0, Relaxed));
        *self.durations.lock() = Durations::default();
    }
}
