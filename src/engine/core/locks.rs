//! Clients of this process that are queued for locks, and the sessions that own locks.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::oneshot;

use crate::client::engine::StagedOutcome;
use crate::client::registry::{ClientWait, Suspended, Unblocked};
use crate::client::staged::LockTally;
use crate::dispatch::serve::{examine_queued, grant_staged};
use crate::engine::cluster::Revision;
use crate::engine::core::{Core, RETRY_MS, Waiter};
use crate::engine::group::{CallGroup, Ended};
use crate::engine::locks::{LocalHandover, LockNews};
use crate::engine::pending::{PendingWork, QueueRemoval, Queued, WorkItem};
use crate::engine::stage::ChangedKey;
use crate::engine::stored::StoredWait;
use crate::error::Error;
use crate::resp::{Output, Reply};
use crate::store::{KeyName, NEVER};
use crate::time::clock::Now;

/// Duration from which on an answer of the cluster is late in any case, in milliseconds.
const LATE_MS: u64 = 100;

impl Core {
    /// Ends the wait of a client for a lock.
    pub(in crate::engine) fn leave_queue(&mut self, key: KeyName, number: u64, done: Option<oneshot::Sender<()>>) {
        self.waits.remove(&number);
        let wait = StoredWait { process: self.mirror.locks.holders.process, number };
        self.submit(WorkItem::Leave(QueueRemoval { done, ..QueueRemoval::of(wait) }), Arc::new([key]));
    }

    /// Releases the locks that are bound to the connection of a client, which has closed.
    pub(in crate::engine) fn end_session(&mut self, client: u64) {
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
            self.leave_queue(queued.key, number, None);
        }
    }

    /// Records the connections to which a transaction has bound locks, before their clients are told.
    pub(super) fn record_sessions(&self, changed: &[ChangedKey], revision: Revision) {
        let locks = changed.iter().filter_map(|changed| changed.value.as_ref()?.0.lock.as_ref());
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
                && let Some(key) = suspended.awaited_lock()
            {
                let queued = Queued { wait: suspended.blocked.shared_wait(), key, since: None };
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
        let key = pending.keys.first().cloned();
        if let WorkItem::Call(_, done) = self.close(pending)
            && done.send(StagedOutcome::Blocked(suspended)).is_err()
        {
            // the client is gone
            if let Some(key) = key {
                self.leave_queue(key, number, None);
            }
        }
    }

    /// Acts on changes of the mirror's locks.
    pub(super) fn follow_locks(&mut self) {
        let LockNews { granted, queued, ended } = self.mirror.locks.take_news();
        for (wait, key) in queued {
            if self.waits.contains_key(&wait.number) {
                self.examine(wait.number);
            } else {
                // The client was told that the outcome is unknown, or is gone.
                self.submit(WorkItem::Leave(QueueRemoval::of(wait)), Arc::new([key]));
            }
        }
        granted.into_iter().for_each(|handover| self.hand_over(handover));
        for (process, client, key) in ended {
            self.submit(WorkItem::EndSession(process, client), Arc::new([key]));
        }
    }

    /// Tells a client that it was handed a lock, once it is certain that the lock's TTL cannot be over.
    fn hand_over(&mut self, handover: LocalHandover) {
        let now = self.now();
        let ttl_ms = self.mirror.ttl(&handover.key).map(|ttl| ttl.left_ms(now));
        let age_ms = self.age_ms(now);
        if ttl_ms.is_some_and(|ttl_ms| age_ms.is_none_or(|age_ms| age_ms >= ttl_ms / 2)) {
            self.look_at_handover(Box::new(handover), now);
        } else {
            self.tell_handover(handover);
        }
    }

    /// Returns an upper bound of the age of the last change in the cluster, in milliseconds, if it is known.
    fn age_ms(&self, now: Now) -> Option<u64> {
        let (revision, asked_us) = self.known_at;
        (revision < self.mirror.revision()).then(|| now.mono_us().saturating_sub(asked_us) / 1000)
    }

    fn look_at_handover(&mut self, handover: Box<LocalHandover>, now: Now) {
        self.barriers.add(Waiter::Handover(handover, now.mono_ms()));
        self.begin_barrier();
    }

    /// Tells a client that it was handed a lock, if the lock was its own when the mirror was brought up to date;
    /// otherwise reports a timeout. Asks again if that answer was late itself.
    pub(super) fn pass_handover(&mut self, handover: Box<LocalHandover>, asked_ms: u64) {
        let (now, key) = (self.now(), &handover.key);
        let lock = self.mirror.locks.state(key).lock;
        let ttl_ms = self.mirror.ttl(key).map_or(NEVER, |ttl| ttl.left_ms(now));
        if lock.is_none_or(|lock| lock.fence != handover.fence) || ttl_ms == 0 {
            let queued = self.waits.remove(&handover.wait);
            if let Some(queued) = queued {
                queued.wait.answer(|_| Some(Unblocked::InTime));
            }
        } else if now.mono_ms().saturating_sub(asked_ms) >= (ttl_ms / 2).max(LATE_MS) {
            self.look_at_handover(handover, now); // the answer was late itself
        } else {
            self.tell_handover(*handover);
        }
    }

    fn tell_handover(&mut self, LocalHandover { wait, key, fence, waited_us }: LocalHandover) {
        let (queued, now) = (self.waits.remove(&wait), self.now());
        let until_ms = self.mirror.ttl(&key).map_or(NEVER, |ttl| now.ms_later(ttl.left_ms(now)));
        let grant = (fence, until_ms);
        let is_told = queued.is_some_and(|queued| grant_staged(&self.namespace, self.handlers, &queued.wait, grant));
        if is_told {
            self.namespace.observed.locks.record_acquired(waited_us);
        } else {
            self.leave_queue(key, wait, None);
        }
    }

    /// Refuses a queued client that would wait for a lock for ever (deadlock).
    fn examine(&mut self, number: u64) {
        let Some(queued) = self.waits.get(&number) else { return };
        let (wait, key) = (queued.wait.clone(), queued.key.clone());
        if let Some(out) = examine_queued(&self.namespace, self.handlers, &wait) {
            self.waits.remove(&number);
            let stored = StoredWait { process: self.mirror.locks.holders.process, number };
            let leave = QueueRemoval { answer: Some((wait, out)), ..QueueRemoval::of(stored) };
            self.submit(WorkItem::Leave(leave), Arc::new([key]));
        }
    }

    /// Ends waits that are missing in the mirror, after it was replaced as a whole: it is unknown if their clients were
    /// handed the locks.
    pub(super) fn fail_lost_waits(&mut self, revision: Revision) {
        let locks = &self.mirror.locks;
        let is_lost = |number: &u64, queued: &mut Queued| {
            queued.since.is_some_and(|since| since <= revision) && !locks.has_wait(&queued.key, *number)
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
    let Some(protocol) = wait.call(|call| call.caller.protocol) else { return };
    let mut out = Output::new();
    Reply::new(&mut out, protocol).error(&error.wire_text());
    wait.answer(|_| Some(Unblocked::Served(out)));
}
