//! Lanes: names by which the process learns if a transaction was made.
//!
//! Every transaction is made on a lane, a name of its own in the cluster, whose version it tests and raises. At most
//! one transaction is in flight on each lane. If its outcome is unknown, another transaction is made on the same lane,
//! with a test of the same version: either it finds the version of the first one, or it takes its place, and then the
//! first one can never be made.

use crate::engine::cluster::{ClusterChange, Test};
use crate::engine::names::{EtcdName, NamePrefix};

/// Number of lanes of a process, and so of transactions in flight at once.
pub(super) const LANES: u32 = 48;

pub(super) struct Lanes {
    process: u64,
    /// The version of each lane in the cluster.
    versions: Vec<i64>,
    free: Vec<u32>,
}

impl Lanes {
    /// Returns the lanes that a process has just created.
    pub(super) fn created(process: u64) -> Self {
        Lanes { process, versions: vec![1; LANES as usize], free: (0..LANES).rev().collect() }
    }

    /// Returns the changes that create the lanes of a process.
    pub(super) fn create(prefix: &NamePrefix, process: u64) -> impl Iterator<Item = ClusterChange> {
        (0..LANES).map(move |lane| ClusterChange::PutLeased(prefix.name(&EtcdName::Lane(process, lane)), Vec::new()))
    }

    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    pub(super) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Returns a lane on which no transaction is in flight.
    pub(super) fn give(&mut self, lane: u32) {
        self.free.push(lane);
    }

    pub(super) fn name(&self, prefix: &NamePrefix, lane: u32) -> Vec<u8> {
        prefix.name(&EtcdName::Lane(self.process, lane))
    }

    /// Returns the test that no transaction unknown to the process was made on a lane.
    pub(super) fn test(&self, prefix: &NamePrefix, lane: u32) -> Test {
        Test::Version(self.name(prefix, lane), self.versions[lane as usize])
    }

    pub(super) fn version(&self, lane: u32) -> i64 {
        self.versions[lane as usize]
    }

    /// Records that a transaction was made on a lane.
    pub(super) fn advance(&mut self, lane: u32) {
        self.versions[lane as usize] += 1;
    }
}
