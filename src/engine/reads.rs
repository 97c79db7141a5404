//! Reads of clients with client-side caching, in calls that have changed keys, too.
//!
//! Such a client is told of changes of these keys from the execution of its call on the stage on. The change by its own
//! call is the last one that this tracking covers. So when the mirror has that change, the keys are tracked once more:
//! later changes concern the values that the client has read after its own change.

use std::collections::HashMap;
use std::sync::Arc;

use crate::client::info::ClientInfo;
use crate::engine::cluster::Revision;
use crate::namespace::Namespace;

/// A client with client-side caching, and the keys that it has read.
pub(super) type Reads = (Arc<ClientInfo>, Vec<Box<[u8]>>);

/// Reads by the calls of transactions that the mirror does not have yet.
#[derive(Default)]
pub(super) struct PendingReads {
    /// The reads by number of the transaction, with its revision once that is known.
    waiting: HashMap<u64, (Vec<Reads>, Option<Revision>)>,
}

impl PendingReads {
    /// Adds the reads of a transaction that is about to be sent.
    pub(super) fn add(&mut self, number: u64, reads: Vec<Reads>) {
        if !reads.is_empty() {
            self.waiting.insert(number, (reads, None));
        }
    }

    /// Removes the reads of a transaction that was not made.
    pub(super) fn forget(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// Records the revision of a transaction.
    pub(super) fn record_revision(&mut self, number: u64, revision: Revision) {
        self.waiting.entry(number).and_modify(|(_, at)| *at = Some(revision));
    }

    /// Tracks the reads of a transaction that is the latest in the mirror.
    pub(super) fn remember(&mut self, number: u64, namespace: &Namespace) {
        let Some((reads, _)) = self.waiting.remove(&number) else { return };
        let (config, now) = (namespace.settings.current(), namespace.clock.now());
        for (client, keys) in reads {
            let (keys, max_keys) = (keys.iter().map(|key| &**key), config.tracking_table_max_keys);
            namespace.push.tracking.remember(&client, keys, max_keys, (&config, now));
        }
    }

    /// Removes reads up to a revision that the mirror has reached as a whole: clients were told of each changed key.
    pub(super) fn skip(&mut self, revision: Revision) {
        self.waiting.retain(|_, (_, at)| at.is_none_or(|at| at > revision));
    }
}
