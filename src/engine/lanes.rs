//! Lanes: how the process knows which of its transactions were made.
//!
//! Every transaction is made on a lane, a name of its own in the cluster, whose version it tests and raises. One is on the
//! way on each. When it is not known whether it was made, another transaction is made on the same lane, which tests the same
//! version: either it finds that of the first one, or it takes its place, and then the first one can never be made.

use crate::engine::cluster::{Change, Test};
use crate::engine::names::{Name, Prefix};

/// How many lanes a process has, and so how many transactions are on the way at once.
pub(super) const LANES: u32 = 48;

/// The lanes of a process.
pub(super) struct Lanes {
    process: u64,
    /// The version of each in the cluster.
    versions: Vec<i64>,
    free: Vec<u32>,
}

impl Lanes {
    /// Returns the lanes that a process has just created.
    pub(super) fn created(process: u64) -> Self {
        Lanes { process, versions: vec![1; LANES as usize], free: (0..LANES).rev().collect() }
    }

    /// Returns the changes that create the lanes of a process.
    pub(super) fn create(prefix: &Prefix, process: u64) -> impl Iterator<Item = Change> {
        (0..LANES).map(move |lane| Change::PutLeased(prefix.name(&Name::Lane(process, lane)), Vec::new()))
    }

    /// Returns whether a lane is free.
    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Takes a lane.
    pub(super) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Gives a lane back on which nothing is on the way.
    pub(super) fn give(&mut self, lane: u32) {
        self.free.push(lane);
    }

    /// Returns the name of a lane.
    pub(super) fn name(&self, prefix: &Prefix, lane: u32) -> Vec<u8> {
        prefix.name(&Name::Lane(self.process, lane))
    }

    /// Returns the test that nothing was made on a lane that the process does not know of.
    pub(super) fn test(&self, prefix: &Prefix, lane: u32) -> Test {
        Test::Version(self.name(prefix, lane), self.versions[lane as usize])
    }

    /// Returns the version of a lane.
    pub(super) fn version(&self, lane: u32) -> i64 {
        self.versions[lane as usize]
    }

    /// Records that a transaction was made on a lane.
    pub(super) fn advance(&mut self, lane: u32) {
        self.versions[lane as usize] += 1;
    }
}
