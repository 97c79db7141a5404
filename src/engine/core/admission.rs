//! Calls that were admitted before a change of the admission state: a pause, users, clients that were told to close.
//! The engine waits for those sent to the cluster, and checks the others again before they are sent.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::client::engine::StagedOutcome;
use crate::client::registry::{ClientWait, Unblocked};
use crate::dispatch::staged::{Withdrawal, admit_staged, record_withdrawal};
use crate::engine::core::Core;
use crate::engine::group::CallGroup;
use crate::engine::pending::{PendingWork, WorkItem};
use crate::resp::{Output, Protocol, Reply};
use crate::store::NEVER;
use crate::time::clock::Now;

impl Core {
    /// Signals `done` once the outcome of all transactions in flight is known, after a change of the admission state.
    pub(in crate::engine) fn settle(&mut self, done: oneshot::Sender<()>) {
        self.settling.push((self.number, done));
        self.look_at_paused(); // the change may be the end of the pause, or of a client
    }

    /// Answers a client once the outcome of all transactions in flight is known, whatever their clients were told.
    pub(super) fn confirm(&mut self, wait: Arc<ClientWait>) {
        self.confirming.push((self.number, wait));
    }

    /// Signals waiters whose transactions are settled, or whose clients were told that the outcome is unknown.
    pub(super) fn tell_settled(&mut self) {
        let flights = || self.flights.values().filter(|flight| flight.group.is_some());
        let oldest = flights().map(|flight| flight.number).min().unwrap_or(u64::MAX);
        for (_, done) in self.settling.extract_if(.., |(number, _)| *number < oldest) {
            let _ = done.send(()); // the client may be gone
        }
    }

    /// Answers clients that wait for transactions whose outcome is known by now.
    pub(super) fn tell_confirmed(&mut self) {
        if self.confirming.is_empty() {
            return;
        }
        let oldest = self.flights.values().map(|flight| flight.number).min().unwrap_or(u64::MAX);
        for (_, wait) in self.confirming.extract_if(.., |(number, _)| *number < oldest) {
            let (copies, mut out) = (self.stats.cluster.lock().copies(), Output::new());
            Reply::new(&mut out, Protocol::default()).int(copies as i64);
            wait.answer(|_| Some(Unblocked::Served(out)));
        }
        self.confirming.retain(|(_, wait)| wait.is_blocked());
    }

    /// Resumes calls that a pause has held back, if it is over.
    pub(super) fn end_pause(&mut self, now: Now) {
        if self.paused.1 <= now.mono_ms() {
            self.look_at_paused();
        }
    }

    fn look_at_paused(&mut self) {
        let (mut paused, _) = std::mem::replace(&mut self.paused, (Vec::new(), NEVER));
        let until_ms = self.until_ms();
        paused.iter_mut().for_each(|pending| pending.until_ms = until_ms);
        self.queue.put_back(paused);
    }

    /// Returns the calls of a batch that may be executed under the present admission state.
    pub(super) fn admit_again(&mut self, mut calls: Vec<PendingWork>) -> Vec<PendingWork> {
        let mut withdrawn = Vec::new();
        for at in (0..calls.len()).rev() {
            if let Err(withdrawal) = self.admit(&mut calls[at]) {
                withdrawn.push((calls.remove(at), withdrawal));
            }
        }
        if !withdrawn.is_empty() {
            self.queue.release(withdrawn.iter().flat_map(|(pending, _)| &*pending.keys));
            self.queue.hold(calls.iter().flat_map(|pending| &*pending.keys));
            withdrawn.into_iter().rev().for_each(|(pending, withdrawal)| self.withdraw(pending, withdrawal));
        }
        calls
    }

    /// Returns true if the calls of a group may still be sent as they were executed: a script may have taken long.
    pub(super) fn is_still_admitted(&self, group: &mut CallGroup) -> bool {
        group.members.iter_mut().all(|(pending, _)| matches!(self.admit(pending), Ok(false)))
    }

    fn admit(&self, pending: &mut PendingWork) -> Result<bool, Withdrawal> {
        match &mut pending.work {
            WorkItem::Call(call, _) | WorkItem::Repeat(call, _) => admit_staged(&self.namespace, self.handlers, call),
            WorkItem::Expire | WorkItem::Leave(_) | WorkItem::EndSession(..) => Ok(false),
        }
    }

    /// Ends a call that is not executed at present, or makes it wait.
    fn withdraw(&mut self, pending: PendingWork, withdrawal: Withdrawal) {
        if let Some(wait) = pending.wait() {
            wait.end_commit();
        }
        if let Withdrawal::Paused(until_ms) = withdrawal {
            self.paused.0.push(pending);
            self.paused.1 = self.paused.1.min(until_ms);
            return;
        }
        match (self.close(pending), withdrawal) {
            (WorkItem::Call(call, done), Withdrawal::Refused(error, denial)) => {
                record_withdrawal(&self.namespace, self.handlers, &call, denial);
                _ = done.send(StagedOutcome::Failed(error)); // the client may be gone
            }
            (WorkItem::Call(_, done), _) => _ = done.send(StagedOutcome::Withdrawn),
            (WorkItem::Repeat(_, wait), _) => self.again.push(wait), // answered when it is repeated
            _ => {}
        }
    }
}
