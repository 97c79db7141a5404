//! An etcd in memory: names with revisions and leases, transactions, and the history of changes for watches.

use std::collections::BTreeMap;

use crate::engine::cluster::{
    ClusterChange, ClusterFailure, ClusterTransaction, NamedValue, ReportedChange, Revision, RevisionChanges, Test,
    TransactionResult,
};

/// The value of a name.
struct Stored {
    value: Vec<u8>,
    mod_revision: Revision,
    version: i64,
    /// The process with whose lease the name ends.
    lease: Option<u64>,
}

#[derive(Default)]
pub(super) struct SimulatedCluster {
    revision: Revision,
    names: BTreeMap<Vec<u8>, Stored>,
    /// All changes, in order.
    pub(super) history: Vec<RevisionChanges>,
    /// True while the quota is exceeded: transactions that write are refused, or applied with an error.
    pub(super) is_full: bool,
    /// Number of writing transactions while it was full.
    exhausted: usize,
    /// The time until which each lease lasts at least, in milliseconds, by process.
    pub(super) leases: BTreeMap<u64, u64>,
}

impl SimulatedCluster {
    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    pub(super) fn read(&self, name: &[u8]) -> Option<NamedValue> {
        self.names.get(name).map(|stored| pair(name, stored))
    }

    pub(super) fn read_all(&self) -> Vec<NamedValue> {
        self.names.iter().map(|(name, stored)| pair(name, stored)).collect()
    }

    /// Applies a transaction of a process.
    pub(super) fn commit(
        &mut self,
        transaction: &ClusterTransaction,
        process: u64,
    ) -> Result<TransactionResult, ClusterFailure> {
        if !transaction.tests.iter().all(|test| self.holds(test)) {
            let read = transaction.reads.iter().map(|name| self.read(name)).collect();
            return Ok(TransactionResult { revision: self.revision, is_committed: false, read });
        }
        let mut put: Vec<&Vec<u8>> = Vec::new();
        for change in &transaction.changes {
            match change {
                ClusterChange::PutLeased(..) if !self.leases.contains_key(&process) => {
                    return Err(ClusterFailure::LeaseExpired);
                }
                ClusterChange::Put(name, _) | ClusterChange::PutLeased(name, _) => put.push(name),
                ClusterChange::Delete(_) | ClusterChange::DeleteRange(..) => {}
            }
        }
        let exhausted = self.is_full && !put.is_empty();
        self.exhausted += usize::from(exhausted);
        if exhausted && self.exhausted.is_multiple_of(2) {
            return Err(ClusterFailure::Exhausted("etcdserver: mvcc: database space exceeded".into()));
        }
        let is_in = |from: &Vec<u8>, end: &Vec<u8>| put.iter().any(|name| *name >= from && *name < end);
        let is_twice = put.iter().enumerate().any(|(at, name)| put[..at].contains(name));
        let is_both = transaction.changes.iter().any(|change| match change {
            ClusterChange::Delete(name) => put.contains(&name),
            ClusterChange::DeleteRange(from, end) => is_in(from, end),
            _ => false,
        });
        if is_twice || is_both {
            return Err(ClusterFailure::Refused("etcdserver: duplicate key given in txn request".into()));
        }
        let changes = transaction.changes.iter();
        let news = changes.flat_map(|change| self.change(change, process)).collect();
        self.record(news);
        if exhausted {
            Err(ClusterFailure::Exhausted("etcdserver: mvcc: database space exceeded".into()))
        } else {
            Ok(TransactionResult { revision: self.revision, is_committed: true, read: Vec::new() })
        }
    }

    fn holds(&self, test: &Test) -> bool {
        match test {
            Test::Unchanged(name, revision) => {
                self.names.get(name).map_or(0, |stored| stored.mod_revision) == *revision
            }
            Test::Version(name, version) => self.names.get(name).map_or(0, |stored| stored.version) == *version,
            Test::Exists(name) => self.names.contains_key(name),
            Test::Older(from, end, before) => {
                let mut names = self.names.range(from.clone()..end.clone());
                names.all(|(_, stored)| stored.mod_revision < *before)
            }
        }
    }

    /// Applies a change as one of the next revision.
    fn change(&mut self, change: &ClusterChange, process: u64) -> Vec<ReportedChange> {
        let mod_revision = self.revision + 1;
        match change {
            ClusterChange::Put(name, value) | ClusterChange::PutLeased(name, value) => {
                let lease = matches!(change, ClusterChange::PutLeased(..)).then_some(process);
                let version = self.names.get(name).map_or(1, |stored| stored.version + 1);
                let stored = Stored { value: value.clone(), mod_revision, version, lease };
                let news = ReportedChange::Put(pair(name, &stored));
                self.names.insert(name.clone(), stored);
                vec![news]
            }
            ClusterChange::Delete(name) => {
                self.names.remove(name).map(|_| ReportedChange::Deleted(name.clone())).into_iter().collect()
            }
            ClusterChange::DeleteRange(from, end) => {
                let found: Vec<Vec<u8>> =
                    self.names.range(from.clone()..end.clone()).map(|(name, _)| name.clone()).collect();
                found.iter().for_each(|name| _ = self.names.remove(name));
                found.into_iter().map(ReportedChange::Deleted).collect()
            }
        }
    }

    fn record(&mut self, news: Vec<ReportedChange>) {
        if !news.is_empty() {
            self.revision += 1;
            self.history.push(RevisionChanges { revision: self.revision, news });
        }
    }

    /// Makes a change under another prefix, which no watch reports.
    pub(super) fn change_elsewhere(&mut self) {
        self.revision += 1;
    }

    /// Ends the lease of a process: all names put under it are removed in one revision.
    pub(super) fn end_lease(&mut self, process: u64) {
        self.leases.remove(&process);
        let gone = self.names.iter().filter(|(_, stored)| stored.lease == Some(process));
        let gone: Vec<Vec<u8>> = gone.map(|(name, _)| name.clone()).collect();
        gone.iter().for_each(|name| _ = self.names.remove(name));
        self.record(gone.into_iter().map(ReportedChange::Deleted).collect());
    }
}

fn pair(name: &[u8], stored: &Stored) -> NamedValue {
    let Stored { value, mod_revision, version, .. } = stored;
    NamedValue { name: name.to_vec(), value: value.clone(), mod_revision: *mod_revision, version: *version }
}
