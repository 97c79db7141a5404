//! Calls that were executed together on a stage, and are one transaction; that transaction in flight.

use std::collections::BTreeSet;

use prost::Message as _;

use crate::client::engine::KEYS_MAX;
use crate::client::registry::Suspended;
use crate::client::staged::{LockTally, NewFence};
use crate::engine::cluster::{ClusterChange, ClusterTransaction, Revision, Test};
use crate::engine::guard::Guard;
use crate::engine::locks::{FENCES_OF_A_REVISION, fence_of};
use crate::engine::names::{EtcdName, NamePrefix};
use crate::engine::pending::PendingWork;
use crate::engine::reads::Reads;
use crate::engine::stage::ChangedKey;
use crate::engine::stored::{StoredFlushes, StoredKey, StoredLibraries, StoredRecord, StoredWaiter};
use crate::error::Error;
use crate::resp::{Mark, Output};
use crate::store::KeyName;
use crate::time::clock::Now;

/// Largest number of bytes that a transaction writes: etcd refuses requests of 1.5 MB.
const BYTES_MAX: usize = 1 << 20;
/// Largest number of tests in a transaction, as etcd limits them.
const TESTS_MAX: usize = 128;

/// The outcome of a call on the stage.
pub(super) enum Ended {
    /// The call has panicked, or was interrupted after some of its changes.
    Panicked,
    /// The call has a reply.
    Replied(Replied),
    /// The client is to be blocked.
    Blocked(Box<Suspended>),
    /// The client stays blocked; the call is to be repeated at this monotonic time, in milliseconds.
    StaysBlocked(u64),
    /// The work was no call of a client.
    Done,
}

pub(super) struct Replied {
    pub(super) out: Output,
    /// The database selected by the client after the call.
    pub(super) db: usize,
    /// Positions of the transaction's fencing tokens in the reply, in order.
    pub(super) fences: Vec<(Mark, NewFence)>,
}

impl Replied {
    /// Returns the reply, once the transaction was made at a revision.
    pub(super) fn at(self, base: i64, revision: Revision) -> Output {
        let Replied { mut out, fences, .. } = self;
        for (mark, new) in fences.into_iter().rev() {
            out.insert(mark, format!(":{}\r\n", fence_of(base, revision, new)).into());
        }
        out
    }
}

pub(super) struct CallGroup {
    /// The calls, each with its outcome on the stage.
    pub(super) members: Vec<(PendingWork, Ended)>,
    /// The keys copied to the stage, each with its revision.
    pub(super) tests: Vec<(KeyName, Revision)>,
    /// The new list of emptied databases, if the calls have emptied any; it takes effect before their other changes.
    pub(super) flushed: Option<StoredFlushes>,
    /// The new libraries of functions, if a call has changed them.
    pub(super) libraries: Option<StoredLibraries>,
    pub(super) changed: Vec<ChangedKey>,
    pub(super) record: StoredRecord,
    /// Reads of clients that are to be told of changes.
    pub(super) reads: Vec<Reads>,
    /// Conditions of the transaction besides the keys.
    pub(super) guards: BTreeSet<Guard>,
    /// Number of fencing tokens given to the calls, and their base.
    pub(super) given_fences: u32,
    pub(super) fence_base: i64,
    /// Counters of lock operations.
    pub(super) tally: LockTally,
    /// Time of the execution on the stage.
    pub(super) staged: Now,
    /// Index of the first call that has changed a lock which the calls before it have handed over: the cluster must
    /// have the handover first, because only then the client is told.
    pub(super) overtaken: Option<usize>,
}

impl CallGroup {
    /// Returns true if the calls have changed nothing, so that only their reads have to be confirmed.
    pub(super) fn is_read(&self) -> bool {
        let changes_nothing = self.changed.is_empty() && self.flushed.is_none() && self.libraries.is_none();
        changes_nothing && self.record.messages.is_empty()
    }

    /// Returns the index of a call that has panicked: the stage is not as the calls after it would have to find it.
    pub(super) fn panicked(&self) -> Option<usize> {
        self.members.iter().position(|(_, ended)| matches!(ended, Ended::Panicked))
    }

    /// Returns the reason for which the cluster does not accept the changes, if it does not.
    pub(super) fn fault(&self, value_max: usize) -> Option<Error> {
        let mut largest = self.libraries.as_ref().map_or(0, StoredLibraries::encoded_len);
        let mut size = self.record.encoded_len() + largest;
        for ChangedKey { key, value } in &self.changed {
            size += key.1.len();
            if let Some((stored, _)) = value {
                size += stored.encoded_len();
                largest = largest.max(stored.body.len() + queue_len(stored));
            }
        }
        let is_too_large = size > BYTES_MAX
            || largest > value_max
            || self.changed.len() > KEYS_MAX
            || self.tests.len() + self.guards.len() >= TESTS_MAX
            || i64::from(self.given_fences) >= FENCES_OF_A_REVISION;
        is_too_large.then_some(Error::TooLargeForEngine)
    }

    /// Returns the transaction that makes the changes on a lane, with the lane's test, and that ends turns.
    pub(super) fn transaction(&self, prefix: &NamePrefix, lane: Test, turns: Vec<ClusterChange>) -> ClusterTransaction {
        let name = |key: &KeyName| prefix.name(&EtcdName::Key(key.clone()));
        let Test::Version(lane_name, _) = &lane else { unreachable!("the test of a lane is one of its version") };
        let lane_name = lane_name.clone();
        let mut tests: Vec<Test> = self.tests.iter().map(|(key, at)| Test::Unchanged(name(key), *at)).collect();
        tests.extend(self.guards.iter().map(|guard| guard.test(prefix)));
        tests.push(lane);
        let was_there = |key: &KeyName| {
            let at = self.tests.binary_search_by(|(tested, _)| tested.cmp(key));
            at.is_ok_and(|at| self.tests[at].1 != 0)
        };
        let change = |changed: &ChangedKey| match &changed.value {
            Some((stored, _)) => Some(ClusterChange::Put(name(&changed.key), stored.encode_to_vec())),
            // A key that was created and deleted on the stage was never in the cluster.
            None => was_there(&changed.key).then(|| ClusterChange::Delete(name(&changed.key))),
        };
        let mut changes: Vec<ClusterChange> = self.changed.iter().filter_map(change).collect();
        let flushed = self.flushed.as_ref().map(StoredFlushes::encode_to_vec);
        changes.extend(flushed.map(|flushed| ClusterChange::Put(prefix.name(&EtcdName::Flushes), flushed)));
        let libraries = self.libraries.as_ref().map(StoredLibraries::encode_to_vec);
        changes.extend(libraries.map(|libraries| ClusterChange::Put(prefix.name(&EtcdName::Libraries), libraries)));
        changes.push(ClusterChange::PutLeased(lane_name.clone(), self.record.encode_to_vec()));
        changes.extend(turns);
        let guarded = self.guards.iter().map(|guard| guard.name(prefix));
        let reads = self.tests.iter().map(|(key, _)| name(key)).chain(guarded).chain([lane_name]).collect();
        ClusterTransaction { tests, changes, reads }
    }

    /// Returns the calls, to be executed again.
    pub(super) fn into_pending(self) -> Vec<PendingWork> {
        self.members.into_iter().map(|(pending, _)| pending).collect()
    }
}

/// Returns the number of bytes that the queue for the lock takes in a key's value.
fn queue_len(stored: &StoredKey) -> usize {
    stored.queue.iter().map(StoredWaiter::encoded_len).sum()
}

/// The transaction in flight on a lane.
pub(super) struct Flight {
    pub(super) number: u64,
    /// The calls of the transaction; `None` once their clients were told that its outcome is unknown.
    pub(super) group: Option<CallGroup>,
    pub(super) state: State,
    /// The exceeded limit of the cluster, if it has answered so: no part of the transaction is in flight any more.
    pub(super) exhausted: Option<String>,
    /// Time at which the transaction was sent, in monotonic microseconds.
    pub(super) sent_us: u64,
    /// Time limit for an unknown outcome, by [`Patience`](crate::engine::core::Patience).
    pub(super) until_ms: u64,
}

impl Flight {
    /// Returns the number of calls whose clients wait for the outcome.
    pub(super) fn calls(&self) -> usize {
        self.group.as_ref().map_or(0, |group| group.members.len())
    }
}

/// State of a transaction in flight.
pub(super) enum State {
    Sent,
    /// Another transaction was sent, because the outcome is unknown.
    Settling,
    /// Another transaction is due at this time, in monotonic milliseconds.
    Unsettled(u64),
}
