//! What clients with client-side caching have read in calls that have changed keys, too.
//!
//! Such a client is told of the changes of these keys from the moment on in which its call was executed on the stage. The
//! change that its own call makes is the last of them that this covers. So when the mirror has that, the keys are remembered
//! once more: its later changes concern what the client has read after its own.

use std::collections::HashMap;
use std::sync::Arc;

use crate::client::info::ClientInfo;
use crate::engine::cluster::Revision;
use crate::namespace::Namespace;

/// A client with client-side caching, and the keys that it has read.
pub(super) type Reads = (Arc<ClientInfo>, Vec<Box<[u8]>>);

/// What the calls of transactions have read that the mirror does not have yet.
#[derive(Default)]
pub(super) struct PendingReads {
    /// By the number of the transaction, with its revision once that is known.
    waiting: HashMap<u64, (Vec<Reads>, Option<Revision>)>,
}

impl PendingReads {
    /// Adds what the calls of a transaction have read, which is about to be sent.
    pub(super) fn add(&mut self, number: u64, reads: Vec<Reads>) {
        if !reads.is_empty() {
            self.waiting.insert(number, (reads, None));
        }
    }

    /// Forgets what was read by a transaction that was not made.
    pub(super) fn forget(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// Records at which revision a transaction was made.
    pub(super) fn record_revision(&mut self, number: u64, revision: Revision) {
        self.waiting.entry(number).and_modify(|(_, at)| *at = Some(revision));
    }

    /// Remembers what was read by a transaction that the mirror has now, and nothing later.
    pub(super) fn remember(&mut self, number: u64, namespace: &Namespace) {
        let Some((reads, _)) = self.waiting.remove(&number) else { return };
        let (config, now) = (namespace.settings.current(), namespace.clock.now());
        for (client, keys) in reads {
            let (keys, max_keys) = (keys.iter().map(|key| &**key), config.tracking_table_max_keys);
            namespace.push.tracking.remember(&client, keys, max_keys, (&config, now));
        }
    }

    /// Forgets what the mirror has come past as a whole: clients were told of each key that had changed.
    pub(super) fn skip(&mut self, revision: Revision) {
        self.waiting.retain(|_, (_, at)| at.is_none_or(|at| at > revision));
    }
}
