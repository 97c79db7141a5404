//! Clients of this process that are queued for locks, and the sessions that own locks.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::oneshot;

use crate::client::engine::{KEYS_MAX, StagedCall, StagedOutcome};
use crate::client::registry::{ClientWait, Suspended, Unblocked};
use crate::client::staged::LockTally;
use crate::command::lock::resume::held_with;
use crate::dispatch::serve::{examine_queued, grant_staged};
use crate::engine::cluster::Revision;
use crate::engine::core::{Core, RETRY_MS, Waiter};
use crate::engine::group::{CallGroup, Ended};
use crate::engine::locks::{LocalHandover, LockNews, NOBODY};
use crate::engine::pending::{PendingWork, QueueRemoval, Queued, WorkItem};
use crate::engine::stage::ChangedKey;
use crate::error::Error;
use crate::resp::{Output, Reply};
use crate::store::{Cx, KeyName, NEVER, Origin};
use crate::time::clock::Now;

/// Duration from which on an answer of the cluster is late in any case, in milliseconds.
const LATE_MS: u64 = 100;

impl Core {
    /// Executes a call that takes over locks on the keys that the mirror shows.
    pub(super) fn resume(&mut self, mut call: Box<StagedCall>, done: oneshot::Sender<StagedOutcome>) {
        let (db, namespace) = (call.caller.db, self.namespace.clone());
        let mut hold = namespace.store.hold_patiently();
        let mut view = hold.view(db, &[], Cx::new(self.now(), Origin::Replay));
        let found = held_with(&mut view, &namespace.store, call.request.as_request().arg(1));
        drop(view);
        drop(hold);
        let mut keys: Vec<KeyName> = found.into_iter().map(|key| (db, key)).collect();
        keys.sort_unstable();
        if keys.len() > KEYS_MAX {
            let error = Error::TooManyKeysForEngine(&call.command.name, KEYS_MAX);
            _ = done.send(StagedOutcome::Failed(error)); // the client may be gone
            return;
        }
        call.keys = keys.into();
        let keys = call.keys.clone();
        self.submit(WorkItem::Call(call, done), keys);
    }

    /// Ends the wait of a client for locks.
    pub(in crate::engine) fn leave_queue(
        &mut self,
        locks: Vec<KeyName>,
        number: u64,
        done: Option<oneshot::Sender<()>>,
    ) {
        self.waits.remove(&number);
        let leave = QueueRemoval { done, ..QueueRemoval::of(self.mirror.locks.own_wait(number)) };
        self.submit_leave(leave, locks);
    }

    fn submit_leave(&mut self, leave: QueueRemoval, mut locks: Vec<KeyName>) {
        locks.sort_unstable();
        self.submit(WorkItem::Leave(leave), locks.into());
    }

    /// Ends the session of a client, whose connection has closed, after some milliseconds: until then another connection
    /// can take its locks over.
    pub(in crate::engine) fn end_session_after(&mut self, client: u64, grace_ms: u64) {
        if grace_ms == 0 {
            return self.end_session(client);
        }
        self.departed.push((self.now().ms_later(grace_ms), client));
    }

    /// Ends the sessions of departed clients whose time is over.
    pub(super) fn end_departed(&mut self, now: Now) {
        let over: Vec<_> = self.departed.extract_if(.., |(until_ms, _)| *until_ms <= now.mono_ms()).collect();
        over.into_iter().for_each(|(_, client)| self.end_session(client));
    }

    /// Releases the locks that are bound to the connection of a client, which has closed.
    fn end_session(&mut self, client: u64) {
        for (process, key) in self.mirror.locks.bound_to(client) {
            self.submit(WorkItem::EndSession(process, client), Arc::new([key]));
        }
    }

    /// Ends the waits of clients that are queued for locks, if the lease of this process may be over: other processes
    /// may skip them.
    pub(super) fn check_lease(&mut self, now: Now) {
        let is_in_doubt = self.mirror.locks.lease.check(now);
        if is_in_doubt && !self.is_lease_in_doubt && self.lanes.is_some() {
            self.end_waits();
        }
        self.is_lease_in_doubt = is_in_doubt;
    }

    /// Returns the time at which the lease may be over, in monotonic milliseconds.
    pub(super) fn next_lease_check_ms(&self) -> Option<u64> {
        let lease = self.lanes.as_ref().map(|_| &self.mirror.locks.lease)?;
        lease.until_ms().or_else(|| (!self.is_lease_in_doubt).then(|| self.now().mono_ms()))
    }

    /// Ends the waits of the clients that are queued for locks.
    pub(super) fn end_waits(&mut self) {
        for (number, queued) in std::mem::take(&mut self.waits) {
            fail(&queued.wait, &Error::Unblocked);
            self.leave_queue(queued.locks, number, None);
        }
    }

    /// Records the connections to which a transaction has bound locks, before their clients are told.
    pub(super) fn record_sessions(&self, changed: &[ChangedKey], revision: Revision) {
        let locks = changed.iter().filter_map(|changed| changed.value.as_ref()).flat_map(|(stored, _)| stored.locks());
        for session in locks.filter_map(|lock| lock.session.as_ref()) {
            if self.mirror.locks.holders.is_own(session.process) && revision > self.mirror.revision() {
                self.mirror.locks.lease.bind_ahead(session.process, session.id, revision);
            }
        }
    }

    /// Schedules another attempt at failed work.
    pub(super) fn retry(&mut self, work: WorkItem, keys: Arc<[KeyName]>) {
        // The queue positions of a process that is not registered any more are skipped.
        let is_over =
            matches!(&work, WorkItem::Leave(leave) if leave.wait.process != self.mirror.locks.holders.process);
        if !is_over {
            self.retry_work.push((self.now().ms_later(RETRY_MS), work, keys));
        }
    }

    /// Adds the clients that a group, which is about to be sent, queues for locks.
    pub(super) fn expect_waits(&mut self, group: &CallGroup) {
        for (_, ended) in &group.members {
            if let Ended::Blocked(suspended) = ended
                && suspended.is_in_lock_queue()
            {
                let (wait, locks) = (suspended.blocked.shared_wait(), suspended.awaited_locks());
                let queued = Queued { wait, locks, is_several: suspended.asks_for_several(), since: None };
                self.waits.insert(suspended.blocked.number(), queued);
            }
        }
    }

    /// Reverts [`Core::expect_waits`].
    pub(super) fn forget_waits(&mut self, group: &CallGroup) {
        for (_, ended) in &group.members {
            if let Ended::Blocked(suspended) = ended {
                self.waits.remove(&suspended.blocked.number());
            }
        }
    }

    /// Blocks the client of a call that is queued for a lock since a revision.
    pub(super) fn stay_queued(&mut self, pending: PendingWork, suspended: Box<Suspended>, revision: Revision) {
        let number = suspended.blocked.number();
        self.waits.entry(number).and_modify(|queued| queued.since = Some(revision));
        let locks = suspended.awaited_locks();
        if let WorkItem::Call(_, done) = self.close(pending)
            && done.send(StagedOutcome::Blocked(suspended)).is_err()
        {
            self.leave_queue(locks, number, None); // the client is gone
        }
        if revision <= self.replaced {
            self.fail_lost_waits(self.replaced, |other| other == number); // the mirror was replaced meanwhile
        }
    }

    /// Acts on changes of the mirror's locks.
    pub(super) fn follow_locks(&mut self) {
        let LockNews { granted, awaited, refused, queued, ended } = self.mirror.locks.take_news();
        for (wait, key) in queued {
            if self.waits.contains_key(&wait.number) {
                self.examine(wait.number);
            } else {
                // The client was told that the outcome is unknown, or is gone.
                self.submit(WorkItem::Leave(QueueRemoval::of(wait)), Arc::new([key]));
            }
        }
        for (number, error) in refused {
            if let Some(queued) = self.waits.remove(&number) {
                refuse(&queued.wait, &error);
            }
        }
        granted.into_iter().for_each(|handover| self.hand_over(handover));
        let grace_ms = self.namespace.settings.current().session_grace_ms;
        for (process, client, key) in ended {
            let is_lost = client != NOBODY && !self.mirror.locks.holders.is_own(process);
            if is_lost && grace_ms > 0 {
                // Its clients may come to another process.
                let at_ms = self.now().ms_later(grace_ms);
                self.retry_work.push((at_ms, WorkItem::EndSession(process, client), Arc::new([key])));
            } else {
                self.submit(WorkItem::EndSession(process, client), Arc::new([key]));
            }
        }
        awaited.iter().for_each(|key| self.serve_queue(key));
    }

    /// Hands a lock over to the first client in the queue, if it is one of this process and may have the lock, unless
    /// that is under way.
    pub(super) fn serve_queue(&mut self, key: &KeyName) {
        if self.mirror.is_servable(key, self.now()) && self.expiring.insert(key.clone()) {
            self.submit(WorkItem::Expire, Arc::new([key.clone()]));
        }
    }

    /// Tells a client that it was handed locks, once it is certain that their TTLs cannot be over.
    fn hand_over(&mut self, handover: LocalHandover) {
        let now = self.now();
        let left_ms = self.left_ms(&handover, now);
        let age_ms = self.age_ms(now);
        if left_ms.is_some_and(|left_ms| age_ms.is_none_or(|age_ms| age_ms >= left_ms / 2)) {
            self.look_at_handover(Box::new(handover), now);
        } else {
            self.tell_handover(handover);
        }
    }

    /// Returns the shortest rest of a TTL of locks that were handed over, in milliseconds; `None` if none has a TTL.
    fn left_ms(&self, LocalHandover { wait, locks, .. }: &LocalHandover, now: Now) -> Option<u64> {
        locks.iter().filter_map(|(key, _)| self.mirror.granted_ttl(key, *wait)).map(|ttl| ttl.left_ms(now)).min()
    }

    /// Returns an upper bound of the age of the last change in the cluster, in milliseconds, if it is known.
    fn age_ms(&self, now: Now) -> Option<u64> {
        let (revision, asked_us) = self.known_at;
        (revision < self.mirror.revision()).then(|| now.mono_us().saturating_sub(asked_us) / 1000)
    }

    fn look_at_handover(&mut self, handover: Box<LocalHandover>, now: Now) {
        self.barriers.add(Waiter::Handover(handover, now.mono_ms()));
    }

    /// Tells a client that it was handed locks, if they were its own when the mirror was brought up to date; otherwise
    /// reports a timeout. Asks again if that answer was late itself.
    pub(super) fn pass_handover(&mut self, handover: Box<LocalHandover>, asked_ms: u64) {
        let now = self.now();
        let wait = self.mirror.locks.own_wait(handover.wait);
        let is_held = |(key, fence): &(KeyName, i64)| self.mirror.locks.was_granted(key, wait, *fence);
        let left_ms = self.left_ms(&handover, now).unwrap_or(NEVER);
        if left_ms == 0 || !handover.locks.iter().all(is_held) {
            let queued = self.waits.remove(&handover.wait);
            if let Some(queued) = queued {
                queued.wait.answer(|_| Some(Unblocked::InTime));
            }
        } else if now.mono_ms().saturating_sub(asked_ms) >= (left_ms / 2).max(LATE_MS) {
            self.look_at_handover(handover, now); // the answer was late itself
        } else {
            self.tell_handover(*handover);
        }
    }

    fn tell_handover(&mut self, handover: LocalHandover) {
        let now = self.now();
        let until_ms = self.left_ms(&handover, now).map_or(NEVER, |left_ms| now.ms_later(left_ms));
        let LocalHandover { wait, locks, waited_us } = handover;
        let queued = self.waits.remove(&wait);
        let is_told = queued.is_some_and(|queued| {
            let fence_of = |key: &KeyName| locks.iter().find(|(of, _)| of == key).map_or(0, |(_, fence)| *fence);
            let fences = queued.locks.iter().map(fence_of).collect();
            grant_staged(&self.namespace, self.handlers, &queued.wait, (fences, queued.is_several, until_ms))
        });
        if is_told {
            locks.iter().for_each(|_| self.namespace.observed.locks.record_acquired(waited_us));
        } else {
            self.leave_queue(locks.into_iter().map(|(key, _)| key).collect(), wait, None);
        }
    }

    /// Refuses a queued client that would wait for a lock for ever (deadlock).
    fn examine(&mut self, number: u64) {
        let Some(queued) = self.waits.get(&number) else { return };
        let (wait, locks) = (queued.wait.clone(), queued.locks.clone());
        if let Some(out) = examine_queued(&self.namespace, self.handlers, &wait) {
            self.waits.remove(&number);
            let stored = self.mirror.locks.own_wait(number);
            self.submit_leave(QueueRemoval { answer: Some((wait, out)), ..QueueRemoval::of(stored) }, locks);
        }
    }

    /// Ends those of some waits that are missing in the mirror, after it was replaced as a whole at a revision: it is
    /// unknown if their clients were handed the locks.
    pub(super) fn fail_lost_waits(&mut self, revision: Revision, is_meant: impl Fn(u64) -> bool) {
        let locks = &self.mirror.locks;
        let is_lost = |number: &u64, queued: &mut Queued| {
            let is_known = || queued.locks.iter().all(|key| locks.has_wait(key, *number));
            is_meant(*number) && queued.since.is_some_and(|since| since <= revision) && !is_known()
        };
        let lost: Vec<Queued> = self.waits.extract_if(is_lost).map(|(_, queued)| queued).collect();
        lost.into_iter().for_each(|queued| fail(&queued.wait, &Error::Uncertain));
    }

    /// Counts the lock operations of calls.
    pub(super) fn count_locks(&self, tally: LockTally) {
        let LockTally { acquired, contended, held_us } = tally;
        let locks = &self.namespace.observed.locks;
        locks.contended.fetch_add(contended.into(), Relaxed);
        (0..acquired).for_each(|_| locks.record_acquired(0));
        held_us.into_iter().for_each(|held_us| locks.record_ended(held_us));
    }
}

/// Answers a blocked client with an error.
fn fail(wait: &ClientWait, error: &Error) {
    refuse(wait, &error.wire_text());
}

/// Answers a blocked client with the text of an error, or with null if it is empty.
fn refuse(wait: &ClientWait, error: &[u8]) {
    let Some(protocol) = wait.call(|call| call.caller.protocol) else { return };
    let mut out = Output::new();
    let mut reply = Reply::new(&mut out, protocol);
    if error.is_empty() {
        reply.null();
    } else {
        reply.error(error);
    }
    wait.answer(|_| Some(Unblocked::Served(out)));
}
