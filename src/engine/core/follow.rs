//! The mirror's advance by what the cluster reports, and what follows from it.

use std::sync::atomic::Ordering::Relaxed;

use crate::dispatch::serve::serve_remaining_keys;
use crate::engine::cluster::{NamedValue, Revision, RevisionChanges};
use crate::engine::core::Core;

impl Core {
    /// Applies the changes of a revision to the mirror.
    pub(in crate::engine) fn step(&mut self, step: RevisionChanges) {
        if let Some(number) = self.mirror.apply(step, self.now()) {
            self.reads.remember(number, &self.namespace);
        }
        self.follow_locks();
        self.follow_mirror();
    }

    /// Handles a progress notification: there are no further changes up to a revision.
    pub(in crate::engine) fn progress(&mut self, revision: Revision) {
        self.mirror.advance(revision);
        self.follow_mirror();
    }

    /// Replaces the mirror by the cluster's state at a revision.
    pub(in crate::engine) fn replace(&mut self, pairs: Vec<NamedValue>, revision: Revision) {
        self.mirror.replace(pairs, revision);
        self.reads.skip(revision);
        self.follow_locks();
        self.replaced = revision;
        self.fail_lost_waits(revision, |_| true);
        self.follow_mirror();
    }

    /// Acts on an advance of the mirror's revision.
    pub(super) fn follow_mirror(&mut self) {
        let revision = self.mirror.revision();
        self.mirror.locks.lease.follow_mirror(revision);
        self.stats.revision.store(revision, Relaxed);
        self.stats.cluster_revision.fetch_max(revision, Relaxed);
        while let Some(entry) = self.ahead_by_revision.first_entry().filter(|entry| *entry.key() <= revision) {
            for key in entry.remove() {
                if self.ahead.get(&key).is_some_and(|ahead| ahead.revision <= revision) {
                    self.ahead.remove(&key);
                }
            }
        }
        self.namespace.push.broadcast(&self.namespace.settings, self.now());
        serve_remaining_keys(&self.namespace, self.handlers);
        while let Some(entry) = self.later.first_entry().filter(|entry| *entry.key() <= revision) {
            entry.remove().into_iter().for_each(|pending| self.queue.push(pending));
        }
        self.pass_barriers();
    }
}
