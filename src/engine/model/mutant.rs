//! Faults of the protocol that the model must find. Each is made by changing messages between the core and the cluster:
//! the code of the engine has none of them.

use prost::Message as _;

use crate::engine::cluster::{ClusterChange, ClusterTransaction, NamedValue, Test, TransactionResult};
use crate::engine::model::cluster::SimulatedCluster;
use crate::engine::names::{EtcdName, NamePrefix};
use crate::engine::stored::StoredKey;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// The protocol as it is.
    None,
    /// Reads do not wait for a barrier: each is answered from the mirror.
    NoBarrier,
    /// A TTL is counted from the time when it was set, by the wall clock of the writer.
    WritersClock,
    /// Transactions do not test their lanes: one without an answer is taken for failed, and sent again.
    NoLane,
    /// A lock is released by one transaction, and handed over by another one.
    TwoTransactions,
}

impl Mutant {
    /// Returns a transaction as this fault changes it, and a part split off, to be sent later.
    pub(super) fn changed(
        self,
        transaction: &ClusterTransaction,
        cluster: &SimulatedCluster,
        prefix: &NamePrefix,
    ) -> (ClusterTransaction, Option<ClusterTransaction>) {
        let (mut changed, mut rest) = (transaction.clone(), None);
        if self == Mutant::NoLane {
            changed.tests.retain(|test| !matches!(test, Test::Version(..)));
        }
        if self == Mutant::TwoTransactions {
            let lock_of = |value: &[u8]| StoredKey::decode(value).ok().and_then(|stored| stored.lock);
            for change in &mut changed.changes {
                let ClusterChange::Put(name, value) = change else { continue };
                let before = cluster.read(name).and_then(|pair| lock_of(&pair.value)).map(|lock| lock.granted);
                let granted = lock_of(value).map(|lock| lock.granted).unwrap_or_default();
                let is_key = matches!(prefix.parse(name), Some(EtcdName::Key(_)));
                if is_key && !granted.is_empty() && before.is_some_and(|before| before != granted) {
                    let tests = vec![Test::Unchanged(name.clone(), 0)];
                    let changes = vec![ClusterChange::Put(name.clone(), value.clone())];
                    rest = Some(ClusterTransaction { tests, changes, reads: Vec::new() });
                    *change = ClusterChange::Delete(name.clone());
                }
            }
        }
        (changed, rest)
    }

    /// Changes an answer to that of a lane on which no transaction was made.
    pub(super) fn hide_lane(self, transaction: &ClusterTransaction, done: &mut TransactionResult) {
        if self == Mutant::NoLane
            && let Some(Test::Version(name, version)) = transaction.tests.last()
            && let Some(read) = done.read.last_mut()
        {
            *read = Some(NamedValue { name: name.clone(), value: Vec::new(), mod_revision: 1, version: *version });
        }
    }

    /// Changes the TTL of a key as if it were counted from the write, by the wall clocks of the writer and of the
    /// reader.
    pub(super) fn count_by_date(self, pair: &mut NamedValue, wall_ms: i64) {
        if self == Mutant::WritersClock
            && let Ok(mut stored) = StoredKey::decode(&pair.value[..])
            && let Some(ttl) = &mut stored.ttl
        {
            ttl.left_ms = ttl.wall_ms.saturating_sub(wall_ms).max(0).unsigned_abs();
            pair.value = stored.encode_to_vec();
        }
    }
}
