//! Calls that are executed again: their keys were changed, or a group was divided.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

use crate::client::registry::Unblocked;
use crate::engine::cluster::Revision;
use crate::engine::core::Core;
use crate::engine::group::CallGroup;
use crate::engine::pending::PendingWork;
use crate::engine::queue::split;
use crate::store::KeyName;

impl Core {
    /// Returns the first `count` calls of a batch; the others wait for their turn again.
    pub(super) fn take_first(&mut self, mut pending: Vec<PendingWork>, count: usize) -> Vec<PendingWork> {
        let rest = pending.split_off(count);
        self.queue.release(rest.iter().flat_map(|pending| &*pending.keys));
        self.queue.hold(pending.iter().flat_map(|pending| &*pending.keys));
        self.queue.put_back(rest);
        pending
    }

    /// Executes the calls of a group again, because other processes have changed their keys: those with changed keys
    /// apart from the others, which these are not to hold up.
    pub(super) fn run_again(&mut self, group: CallGroup) {
        self.stats.conflicts.fetch_add(1, Relaxed);
        let is_changed = |(key, at): &&(KeyName, Revision)| self.mod_revision(key) != *at;
        let changed: HashSet<KeyName> = group.tests.iter().filter(is_changed).map(|(key, _)| key.clone()).collect();
        let (mut conflicting, others) = split(group.into_pending(), changed);
        self.note_conflict(&mut conflicting);
        if self.is_turn_of_another(&conflicting) {
            self.wait_again(conflicting);
        } else {
            self.run(conflicting);
        }
        self.run(others);
    }

    /// Takes the call at a position out of a group; the others are to be executed again.
    pub(super) fn take_out(&mut self, group: CallGroup, at: usize) -> (PendingWork, Vec<PendingWork>) {
        let mut others = group.into_pending();
        self.queue.release(others.iter().flat_map(|pending| &*pending.keys));
        let out = others.remove(at);
        self.queue.hold(others.iter().flat_map(|pending| &*pending.keys));
        (out, others)
    }

    /// Executes the calls of a group again, without the call at a position, whose client is gone.
    pub(super) fn run_without(&mut self, group: CallGroup, at: usize) {
        let (over, others) = self.take_out(group, at);
        self.close(over);
        self.run(others);
    }

    /// Ends a call that has panicked: its client is told that the outcome is unknown.
    pub(super) fn end_panicked(&mut self, pending: PendingWork) {
        let wait = pending.wait().cloned();
        if let Some(wait) = wait {
            self.repeating.remove(&wait.number());
            wait.answer(|_| Some(Unblocked::Panicked));
        }
        self.close(pending);
    }

    /// Makes the calls of a group wait for their turn again.
    pub(super) fn put_back(&mut self, group: CallGroup) {
        self.wait_again(group.into_pending());
    }

    pub(super) fn wait_again(&mut self, pending: Vec<PendingWork>) {
        self.queue.release(pending.iter().flat_map(|pending| &*pending.keys));
        self.queue.put_back(pending);
    }
}
