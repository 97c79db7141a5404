//! Clients of this process that are blocked on keys.

use std::sync::Arc;

use crate::client::engine::StagedOutcome;
use crate::client::registry::{BlockedCall, BlockedOn, ClientWait, Suspended};
use crate::dispatch::serve::{readmit, serve_keys};
use crate::engine::cluster::Revision;
use crate::engine::core::Core;
use crate::engine::pending::{PendingWork, WorkItem};
use crate::store::{Cx, KeyName, Origin};

impl Core {
    /// Repeats the call of a blocked client, unless all of its keys are known to be deleted since, which the mirror
    /// will report.
    pub(in crate::engine) fn repeat(&mut self, wait: Arc<ClientWait>) {
        let is_gone = |key: &KeyName| self.ahead_of(key).is_some_and(|ahead| ahead.value.is_none());
        if wait.call(BlockedCall::keys).is_some_and(|keys| keys.iter().all(is_gone)) {
            return;
        }
        if let Some(again) = self.repeating.get_mut(&wait.number()) {
            *again = true;
            return;
        }
        let Some(call) = readmit(&self.namespace, self.handlers, &wait) else { return };
        self.repeating.insert(wait.number(), false);
        let keys = call.keys.clone();
        self.submit(WorkItem::Repeat(call, wait), keys);
    }

    /// Repeats the calls of clients that are blocked on some keys, as many as may be served. For a key that has changed
    /// since, this is done when the mirror has the change.
    pub(in crate::engine) fn pass_on(&mut self, mut keys: Vec<KeyName>) {
        let revision = self.mirror.revision();
        keys.retain(|key| self.ahead_of(key).is_none_or(|ahead| ahead.mod_revision <= revision));
        serve_keys(&self.namespace, self.handlers, self.now(), keys);
    }

    /// Blocks the client of a call on its keys, if the mirror has them as they were at the revision of the call. A call
    /// whose keys the mirror does not have yet, or has after a later change, is executed again.
    pub(super) fn block(&mut self, pending: PendingWork, suspended: Box<Suspended>, revision: Revision) {
        let newest = pending.keys.iter().filter_map(|key| self.ahead_of(key)).map(|ahead| ahead.revision).max();
        let revision = newest.unwrap_or(0).max(revision);
        if revision > self.mirror.revision() {
            self.later.entry(revision).or_default().push(pending);
            return;
        }
        if pending.keys.iter().any(|key| self.has_changed_since(key, revision, &suspended)) {
            self.queue.push(pending);
            return;
        }
        let hashes: Vec<u64> = suspended.keys.iter().map(|(hash, _)| *hash).collect();
        let namespace = self.namespace.clone();
        let mut hold = namespace.store.hold_patiently();
        let mut view = hold.view(suspended.db, &hashes, Cx::new(self.now(), Origin::HOST));
        suspended.join_queues(&mut view);
        if let WorkItem::Call(_, done) = self.close(pending)
            && let Err(StagedOutcome::Blocked(gone)) = done.send(StagedOutcome::Blocked(suspended))
        {
            gone.leave_queues(&mut view);
        }
    }

    /// Returns whether the mirror has a change of a key after a revision: it has woken the clients blocked on the key.
    fn has_changed_since(&self, key: &KeyName, revision: Revision, suspended: &Suspended) -> bool {
        let mod_revision = self.mirror.mod_revision(key);
        // A call that is woken by a deletion does not block on a missing key.
        let is_deleted = self.mirror.is_deleted(key)
            && matches!(suspended.place, Some(BlockedOn::Queue { wake_on_delete: true, .. }));
        mod_revision > revision || is_deleted
    }
}
