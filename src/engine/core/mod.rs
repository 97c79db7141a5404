//! The engine as a state machine: calls, answers and change notifications of the cluster come in, transactions and
//! reads go out. It uses no network and no thread, so that tests run it with a simulated cluster, in any order of
//! events.

mod admission;
mod again;
mod blocked;
mod follow;
mod gather;
mod hidden;
mod input;
mod locks;
mod outcome;
mod patience;
mod script_times;
mod turns;
mod usual;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::oneshot;

pub(in crate::engine) use self::input::ClientInput;
pub(in crate::engine) use self::patience::Patience;
use self::script_times::ScriptTimes;
use self::usual::UsualDuration;

use crate::client::engine::{StagedCall, StagedOutcome};
use crate::client::registry::{ClientWait, Unblocked};
use crate::dispatch::Handlers;
use crate::dispatch::serve::answer_staged;
use crate::engine::barrier::Barriers;
use crate::engine::cluster::{ClusterFailure, ClusterTransaction, Revision};
use crate::engine::execution::{Execution, KnownKeys};
use crate::engine::flushes::Flushes;
use crate::engine::group::{CallGroup, Ended, Flight};
use crate::engine::guard::Guard;
use crate::engine::lanes::Lanes;
use crate::engine::locks::LocalHandover;
use crate::engine::mirror::Mirror;
use crate::engine::names::NamePrefix;
use crate::engine::pending::{BarrierReader, PendingWork, QueueRemoval, Queued, WorkItem};
use crate::engine::queue::CallQueue;
use crate::engine::reads::PendingReads;
use crate::engine::stage::{ChangedKey, Copy, StageCx};
use crate::engine::stored::StoredKey;
use crate::engine::ttl::KeyTtls;
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::observe::EngineStats;
use crate::resp::{Output, Reply};
use crate::spec::marks::RESUMES_LOCKS;
use crate::store::{Cx, KeyName, NEVER, Origin};
use crate::time::clock::{Clock, Now};

/// Pause before another attempt at failed work, in milliseconds.
const RETRY_MS: u64 = 100;

/// Request of the engine to its driver.
#[derive(Debug)]
pub(super) enum EngineAction {
    /// A transaction on a lane.
    Commit(u32, ClusterTransaction),
    /// A transaction whose outcome the watch reports: it requests a turn of a key, ends one, or deletes hidden keys.
    Aside(ClusterTransaction),
    /// A read of the cluster's present revision.
    ReadRevision,
    /// Another registration of the process: its lease has expired.
    Register,
}

enum Waiter {
    /// A client that reads the mirror.
    Reader(BarrierReader),
    /// A group that has only read: are its reads the present state? Until a time by [`Patience`].
    Check(Box<CallGroup>, u64),
    /// A call that takes over locks, whose keys are found in the mirror; until a time by [`Patience`].
    Resume(Box<StagedCall>, oneshot::Sender<StagedOutcome>, u64),
    /// A client that was handed a lock: does it still have the lock? With the start of the wait, in monotonic
    /// milliseconds.
    Handover(Box<LocalHandover>, u64),
}

/// State of a key that the mirror does not have yet.
struct Ahead {
    /// The revision of this state.
    revision: Revision,
    mod_revision: Revision,
    value: Option<(StoredKey, KeyTtls)>,
}

/// State of the engine.
pub(super) struct Core {
    namespace: Arc<Namespace>,
    handlers: &'static Handlers,
    prefix: NamePrefix,
    pub(super) mirror: Mirror,
    /// `None` while the process is not registered.
    lanes: Option<Lanes>,
    queue: CallQueue<PendingWork>,
    flights: BTreeMap<u32, Flight>,
    barriers: Barriers<Waiter>,
    /// Start of the read in progress, in monotonic microseconds.
    read_us: u64,
    /// End of the last read, in monotonic microseconds.
    known_us: u64,
    /// Time at which calls were last taken from the queue, in monotonic microseconds.
    gathered_us: u64,
    /// Time from which on a read that has failed is repeated, in monotonic microseconds.
    read_again_us: u64,
    /// The revision of the last barrier, and the start of its read, in monotonic microseconds: changes with a larger
    /// revision were made afterwards.
    known_at: (Revision, u64),
    ahead: HashMap<KeyName, Ahead, ahash::RandomState>,
    /// The keys of `ahead` by their revisions.
    ahead_by_revision: BTreeMap<Revision, Vec<KeyName>>,
    /// Calls that wait until the mirror has a revision.
    later: BTreeMap<Revision, Vec<PendingWork>>,
    reads: PendingReads,
    /// Blocked calls that are being repeated, by number of the wait; true if they are to be repeated once more
    /// afterwards.
    repeating: HashMap<u64, bool>,
    expiring: HashSet<KeyName>,
    /// Blocked calls to repeat at the next tick, or at a time in monotonic milliseconds.
    again: Vec<Arc<ClientWait>>,
    retry_at: Vec<(u64, Arc<ClientWait>)>,
    /// Clients that are queued for locks, by the numbers of their waits.
    waits: HashMap<u64, Queued>,
    /// The revision at which the mirror was last replaced as a whole.
    replaced: Revision,
    /// True if the lease of this process may have been over at the last check.
    is_lease_in_doubt: bool,
    /// True if calls were left for the next turn, because those before them have taken long.
    is_interrupted: bool,
    /// Departed clients, each with the end of its session in monotonic milliseconds.
    departed: Vec<(u64, u64)>,
    /// Work to try again at a time in monotonic milliseconds.
    retry_work: Vec<(u64, WorkItem, Arc<[KeyName]>)>,
    /// The number of the last transaction.
    number: u64,
    usual_transaction: UsualDuration,
    usual_read: UsualDuration,
    script_times: ScriptTimes,
    pub(super) stats: Arc<EngineStats>,
    actions: Vec<EngineAction>,
    pub(super) patience: Patience,
    /// Keys with requested turns that are not in the mirror yet, each with the time of the request, in monotonic
    /// milliseconds.
    asking: HashMap<KeyName, u64>,
    /// Calls that a pause holds back, and the end of the pause, in monotonic milliseconds.
    paused: (Vec<PendingWork>, u64),
    /// Waiters for the outcome of all transactions up to a number.
    settling: Vec<(u64, oneshot::Sender<()>)>,
    /// Clients that wait for the outcome of all transactions up to a number, whatever the clients of these were told.
    confirming: Vec<(u64, Arc<ClientWait>)>,
}

impl KnownKeys for Core {
    fn copy(&self, key: &KeyName, now: Now) -> Copy {
        match self.ahead_of(key) {
            Some(ahead) => self.mirror.copy_of(key, ahead.mod_revision, ahead.value.as_ref()),
            None => self.mirror.copy(key, now),
        }
    }

    fn watched(&self, key: &KeyName) -> Option<Revision> {
        let Some(ahead) = self.ahead_of(key) else { return Some(self.mirror.mod_revision(key)) };
        let value_revision = ahead.value.as_ref().map_or(0, |(stored, _)| stored.value_revision);
        // Only the lock state has changed.
        (value_revision != 0 && value_revision <= self.mirror.revision()).then_some(ahead.mod_revision)
    }

    fn stage_cx(&self, now: Now) -> (StageCx, Revision) {
        let locks = &self.mirror.locks;
        let (fence_base, revision) = locks.fence_base;
        (StageCx { holders: locks.holders.clone(), fence_base, now }, revision)
    }

    fn is_dead(&self, process: u64) -> bool {
        self.mirror.locks.is_dead(process)
    }

    fn flushes(&self) -> &Flushes {
        self.mirror.flushes()
    }

    fn libraries(&self) -> Revision {
        self.mirror.libraries
    }
}

impl Core {
    /// Creates the engine of a process that is not registered yet.
    pub(super) fn new(
        (namespace, handlers): (Arc<Namespace>, &'static Handlers),
        prefix: NamePrefix,
        mirror: Mirror,
    ) -> Self {
        let stats = namespace.observed.engine.clone();
        Core {
            namespace,
            handlers,
            prefix,
            mirror,
            lanes: None,
            queue: CallQueue::default(),
            flights: BTreeMap::new(),
            barriers: Barriers::default(),
            read_us: 0,
            known_us: 0,
            gathered_us: 0,
            read_again_us: 0,
            known_at: (0, 0),
            replaced: 0,
            ahead: HashMap::default(),
            ahead_by_revision: BTreeMap::new(),
            later: BTreeMap::new(),
            reads: PendingReads::default(),
            repeating: HashMap::new(),
            expiring: HashSet::new(),
            again: Vec::new(),
            retry_at: Vec::new(),
            waits: HashMap::new(),
            is_lease_in_doubt: false,
            is_interrupted: false,
            departed: Vec::new(),
            retry_work: Vec::new(),
            number: 0,
            usual_transaction: UsualDuration::default(),
            usual_read: UsualDuration::default(),
            script_times: ScriptTimes::default(),
            stats,
            actions: Vec::new(),
            patience: Patience::default(),
            asking: HashMap::new(),
            paused: (Vec::new(), NEVER),
            settling: Vec::new(),
            confirming: Vec::new(),
        }
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.namespace.clock
    }

    /// Returns the fence base for a cluster that has none yet: without a cluster, tokens come from the microseconds
    /// since 1970.
    pub(super) fn first_fence(&self) -> i64 {
        self.namespace.clock.wall_us()
    }

    fn now(&self) -> Now {
        self.namespace.clock.now()
    }

    fn timeout_ms(&self) -> u64 {
        self.namespace.settings.current().etcd_timeout_ms
    }

    /// Returns the time limit of a wait that begins now, by [`Patience`].
    fn until_ms(&self) -> u64 {
        self.patience.until_ms(self.timeout_ms(), self.now())
    }

    /// Takes the requests to the cluster.
    pub(super) fn take_actions(&mut self) -> Vec<EngineAction> {
        std::mem::take(&mut self.actions)
    }

    /// Executes a call for a client.
    pub(super) fn call(&mut self, call: Box<StagedCall>, done: oneshot::Sender<StagedOutcome>) {
        if call.command.is(RESUMES_LOCKS) {
            return self.barriers.add(Waiter::Resume(call, done, self.until_ms()));
        }
        let keys = call.keys.clone();
        self.submit(WorkItem::Call(call, done), keys);
    }

    fn submit(&mut self, work: WorkItem, keys: Arc<[KeyName]>) {
        self.stats.calls.fetch_add(1, Relaxed);
        let is_quick = work.script().is_none_or(|script| self.script_times.is_quick(script));
        let is_quick = is_quick && work.goes_with_others();
        self.queue.push(PendingWork { is_quick, ..PendingWork::new(work, keys, self.until_ms()) });
    }

    /// Signals `done` once the mirror has everything acknowledged by now.
    pub(super) fn refresh(&mut self, done: oneshot::Sender<Result<()>>) {
        self.barriers.add(Waiter::Reader(BarrierReader { done, until_ms: self.until_ms() }));
    }

    /// Handles the result of a read of the revision.
    pub(super) fn barrier(&mut self, revision: std::result::Result<Revision, ClusterFailure>) {
        self.patience.hear(revision.is_ok(), self.now());
        match revision {
            Ok(revision) => {
                self.known_us = self.now().mono_us();
                let took_us = self.known_us.saturating_sub(self.read_us);
                self.stats.record_barrier(took_us);
                self.usual_read.record(took_us);
                self.stats.cluster_revision.fetch_max(revision, Relaxed);
                self.known_at = (revision, self.read_us);
                self.barriers.reach(revision);
                self.pass_barriers();
            }
            Err(_) => {
                self.barriers.fail();
                self.read_again_us = self.now().mono_us() + RETRY_MS * 1000;
            }
        }
    }

    /// Returns true if calls or barriers wait for the mirror to reach a revision.
    pub(super) fn awaits_mirror(&self) -> bool {
        self.barriers.is_following() || !self.later.is_empty()
    }

    fn pass_barriers(&mut self) {
        for waiter in self.barriers.take_until(self.mirror.revision()) {
            match waiter {
                Waiter::Reader(reader) => _ = reader.done.send(Ok(())), // the client may be gone
                Waiter::Check(group, _) => self.check(*group),
                Waiter::Resume(call, done, _) => self.resume(call, done),
                Waiter::Handover(handover, asked_ms) => self.pass_handover(handover, asked_ms),
            }
        }
    }

    /// Ends calls that have changed nothing, if their reads are the present state.
    fn check(&mut self, group: CallGroup) {
        let is_present = |(key, at): &(KeyName, Revision)| self.mod_revision(key) == *at;
        let is_met = |guard: &Guard| match guard {
            Guard::Flushes(at) => *at == self.mirror.flushes().changed,
            Guard::Libraries(at) => *at == self.mirror.libraries,
            Guard::Lives(_) | Guard::IsGone(_) | Guard::FenceBase(_) => true, // of changes only
        };
        if group.guards.iter().all(is_met) && group.tests.iter().all(is_present) {
            self.finish(group, self.mirror.revision());
        } else {
            self.run_again(group);
        }
    }

    fn ahead_of(&self, key: &KeyName) -> Option<&Ahead> {
        self.ahead.get(key).filter(|ahead| ahead.revision > self.mirror.revision())
    }

    fn know(&mut self, key: KeyName, ahead: Ahead) {
        let revision = ahead.revision;
        if revision > self.mirror.revision() && self.ahead.get(&key).is_none_or(|known| known.revision < revision) {
            self.ahead_by_revision.entry(revision).or_default().push(key.clone());
            self.ahead.insert(key, ahead);
        }
    }

    /// Executes calls on a stage, and then sends their changes, or has their reads confirmed.
    fn run(&mut self, mut calls: Vec<PendingWork>) {
        loop {
            calls = self.admit_again(calls);
            if calls.is_empty() {
                return;
            }
            self.number += 1;
            let Some(mut group) = self.stage(calls) else { return };
            if let Some(at) = group.panicked() {
                let (panicked, others) = self.take_out(group, at);
                self.end_panicked(panicked);
                calls = others;
                continue;
            }
            if !self.is_still_admitted(&mut group) {
                calls = group.into_pending();
                continue;
            }
            if let Some(at) = group.overtaken {
                calls = self.take_first(group.into_pending(), at);
                continue;
            }
            let Some(error) = group.fault(self.namespace.settings.current().etcd_value_max) else {
                return self.send(group);
            };
            let pending = group.into_pending();
            if pending.len() == 1 {
                self.queue.release(pending.iter().flat_map(|pending| &*pending.keys));
                return pending.into_iter().for_each(|pending| self.fail(pending, error.clone()));
            }
            // In halves, so that only the call which the cluster does not take fails.
            let half = pending.len() / 2;
            calls = self.take_first(pending, half);
        }
    }

    /// Executes calls on a stage; `None` if one of them has panicked: their clients are told that the outcome is
    /// unknown.
    fn stage(&mut self, calls: Vec<PendingWork>) -> Option<CallGroup> {
        let keys: Vec<KeyName> = calls.iter().flat_map(|pending| &*pending.keys).cloned().collect();
        let waits: Vec<Arc<ClientWait>> = calls.iter().filter_map(PendingWork::wait).cloned().collect();
        let namespace = self.namespace.clone();
        let panics = &namespace.instance.panics;
        let staged =
            panics.catch("engine", || Execution::run((&self.namespace, self.handlers), self, calls, self.number));
        if staged.is_none() {
            self.queue.release(&keys);
            keys.iter().for_each(|key| _ = self.expiring.remove(key));
            for wait in waits {
                self.repeating.remove(&wait.number());
                wait.answer(|_| Some(Unblocked::Panicked));
            }
        }
        for (pending, _) in staged.iter().flat_map(|group| &group.members) {
            if let Some(script) = pending.work.script() {
                self.script_times.record(script, pending.took_us);
            }
        }
        staged
    }

    /// Returns the latest known revision of a key's last change.
    fn mod_revision(&self, key: &KeyName) -> Revision {
        self.ahead_of(key).map_or_else(|| self.mirror.mod_revision(key), |ahead| ahead.mod_revision)
    }

    fn send(&mut self, group: CallGroup) {
        if group.is_read() {
            return self.barriers.add(Waiter::Check(Box::new(group), self.until_ms()));
        }
        // The client of a blocked call may have given up meanwhile.
        let is_over = |(pending, _): &(PendingWork, Ended)| match &pending.work {
            WorkItem::Repeat(_, wait) => !wait.begin_commit(),
            _ => false,
        };
        match group.members.iter().position(is_over) {
            None => self.commit(group),
            Some(at) => self.run_without(group, at),
        }
    }

    /// Ends the calls of a group whose changes were committed at a revision, or whose reads were confirmed at it.
    fn finish(&mut self, group: CallGroup, revision: Revision) {
        let now = self.now();
        if group.is_read() && !group.record.events.is_empty() {
            self.mirror.emit_alone(&group.record.events, now);
        }
        let CallGroup { members, changed, staged, record, fence_base, tally, .. } = group;
        self.count_locks(tally);
        self.record_sessions(&changed, revision);
        self.reads.record_revision(record.number, revision);
        for ChangedKey { key, value } in changed {
            let mod_revision = if value.is_some() { revision } else { 0 };
            let value = value.map(|(stored, ttls)| (stored, ttls.confirmed(staged, now)));
            self.know(key, Ahead { revision, mod_revision, value });
        }
        for (pending, ended) in members {
            self.queue.release(&*pending.keys);
            self.conclude(pending, ended, (fence_base, revision));
        }
    }

    /// Ends a call with its outcome on the stage.
    fn conclude(&mut self, pending: PendingWork, ended: Ended, (fence_base, revision): (i64, Revision)) {
        if let Ended::Blocked(suspended) = ended {
            if suspended.is_in_lock_queue() {
                return self.stay_queued(pending, suspended, revision);
            }
            return self.block(pending, suspended, revision);
        }
        let keys = pending.keys.clone();
        match (self.close(pending), ended) {
            (WorkItem::Expire, _) => {
                self.look_again(&keys);
                keys.iter().for_each(|key| self.serve_queue(key));
            }
            // The client may be gone.
            (WorkItem::Call(_, done), Ended::Replied(replied)) => {
                let db = replied.db;
                _ = done.send(StagedOutcome::Replied(replied.at(fence_base, revision), db));
            }
            (WorkItem::Repeat(_, wait), Ended::Replied(replied)) => {
                answer_staged(&self.namespace, self.handlers, &wait, replied.at(fence_base, revision));
            }
            (WorkItem::Leave(leave), _) => leave.conclude(),
            (WorkItem::Repeat(_, wait), Ended::StaysBlocked(retry_at_ms)) => wait.stay_blocked(retry_at_ms),
            _ => {}
        }
    }

    /// Delays the deletion of keys that still exist: a state ahead of the mirror may count their TTL from a later time.
    fn look_again(&mut self, keys: &[KeyName]) {
        for key in keys.iter().filter(|key| self.mirror.due_ms(key).is_some()).cloned().collect::<Vec<_>>() {
            self.mirror.delay_due(key, self.now().ms_later(RETRY_MS));
        }
    }

    /// Ends a call whose effect is known, or that has none.
    fn close(&mut self, pending: PendingWork) -> WorkItem {
        match &pending.work {
            WorkItem::Call(call, _) => self.stop_watching(call),
            WorkItem::Repeat(_, wait) => {
                if self.repeating.remove(&wait.number()) == Some(true) {
                    self.again.push(wait.clone());
                }
            }
            WorkItem::Expire => pending.keys.iter().for_each(|key| _ = self.expiring.remove(key)),
            WorkItem::Leave(_) | WorkItem::EndSession(..) => {}
        }
        pending.work
    }

    /// Ends a call with an error.
    fn fail(&mut self, pending: PendingWork, error: Error) {
        let (now, keys) = (self.now(), pending.keys.clone());
        match self.close(pending) {
            WorkItem::Call(_, done) => _ = done.send(StagedOutcome::Failed(error)), // the client may be gone
            // The call may have been executed, so it must not be executed again.
            WorkItem::Repeat(call, wait) if matches!(error, Error::Uncertain) => {
                let mut out = Output::new();
                Reply::new(&mut out, call.caller.protocol).error(&error.wire_text());
                answer_staged(&self.namespace, self.handlers, &wait, out);
            }
            WorkItem::Repeat(_, wait) => {
                wait.end_commit();
                self.retry_at.push((now.ms_later(RETRY_MS), wait));
            }
            WorkItem::Expire => {
                keys.iter().for_each(|key| self.mirror.delay_due(key.clone(), now.ms_later(RETRY_MS)));
                // A free lock that is not due has to be handed over.
                if keys.iter().any(|key| self.mirror.locks.has_queue(key)) {
                    self.retry(WorkItem::Expire, keys);
                }
            }
            WorkItem::Leave(leave) => {
                let wait = leave.wait;
                leave.conclude();
                self.retry(WorkItem::Leave(QueueRemoval::of(wait)), keys);
            }
            work @ WorkItem::EndSession(..) => self.retry(work, keys),
        }
    }

    /// Ends the calls of a group with an error.
    fn fail_group(&mut self, group: CallGroup, error: &Error) {
        for pending in group.into_pending() {
            self.queue.release(&*pending.keys);
            self.fail(pending, error.clone());
        }
    }

    /// Ends the watches of an EXEC.
    fn stop_watching(&self, call: &StagedCall) {
        let Some(watch) = &call.watch else { return };
        let mut hold = self.namespace.store.hold_patiently();
        let mut view = hold.view(0, &[], Cx::new(self.now(), Origin::HOST));
        watch.end(&call.caller.info, &mut view, &self.namespace.store);
    }

    /// Performs due work after all inputs that have come: deletes keys, repeats failed work, ends waits that have taken
    /// too long, and executes waiting calls, so that calls that came together go together.
    pub(super) fn tick(&mut self) {
        let now = self.now();
        self.check_lease(now);
        for key in self.mirror.take_due(now) {
            if self.expiring.insert(key.clone()) {
                self.submit(WorkItem::Expire, Arc::new([key]));
            }
        }
        let (patience, timeout_ms, is_registered) = (&self.patience, self.timeout_ms(), self.lanes.is_some());
        let mut overdue = self.queue.remove(|pending| {
            if is_registered {
                patience.is_over_unanswered(pending.until_ms, timeout_ms, now)
            } else {
                patience.is_over(pending.until_ms, now)
            }
        });
        for waiting in self.later.values_mut() {
            overdue.extend(waiting.extract_if(.., |pending| patience.is_over(pending.until_ms, now)));
        }
        self.later.retain(|_, waiting| !waiting.is_empty());
        overdue.into_iter().for_each(|pending| self.fail(pending, Error::NoQuorum));
        let patience = &self.patience;
        let is_overdue = |waiter: &Waiter| match waiter {
            Waiter::Reader(BarrierReader { until_ms, .. })
            | Waiter::Check(_, until_ms)
            | Waiter::Resume(_, _, until_ms) => patience.is_over(*until_ms, now),
            Waiter::Handover(..) => false, // the client waits on, like those in the queue
        };
        for waiter in self.barriers.take_overdue(is_overdue) {
            match waiter {
                Waiter::Reader(reader) => _ = reader.done.send(Err(Error::NoQuorum)), // the client may be gone
                Waiter::Check(group, _) => self.fail_group(*group, &Error::NoQuorum),
                Waiter::Resume(_, done, _) => _ = done.send(StagedOutcome::Failed(Error::NoQuorum)),
                Waiter::Handover(..) => {}
            }
        }
        self.end_unused_turns(now);
        self.delete_hidden(now);
        self.continue_flights(now);
        self.end_departed(now);
        self.end_pause(now);
        self.tell_settled();
        self.tell_confirmed();
        let due = self.retry_at.extract_if(.., |(at_ms, _)| *at_ms <= now.mono_ms()).map(|(_, wait)| wait);
        self.again.extend(due.collect::<Vec<_>>());
        std::mem::take(&mut self.again).into_iter().for_each(|wait| self.repeat(wait));
        let due: Vec<_> = self.retry_work.extract_if(.., |(at_ms, ..)| *at_ms <= now.mono_ms()).collect();
        due.into_iter().for_each(|(_, work, keys)| self.submit(work, keys));
        self.advance();
        self.begin_barrier();
    }

    /// Returns the time of the next due work, in monotonic milliseconds, or [`NEVER`].
    pub(super) fn next_tick_ms(&self) -> u64 {
        let is_waiting = !self.mirror.turns.is_empty()
            || self.queue.len() > 0
            || !self.later.is_empty()
            || !self.barriers.is_empty();
        let is_busy = is_waiting || !self.flights.is_empty();
        let look = is_busy.then(|| self.now().ms_later(RETRY_MS));
        let again = (self.is_interrupted || !self.again.is_empty()).then(|| self.now().mono_ms());
        let retry = self.retry_at.iter().map(|(at_ms, _)| *at_ms);
        let departed = self.departed.iter().map(|(until_ms, _)| *until_ms);
        let retry = retry.chain(self.retry_work.iter().map(|(at_ms, ..)| *at_ms)).chain(departed).min();
        let paused = Some(self.paused.1);
        let hidden = self.mirror.hidden.due_ms();
        [
            hidden,
            self.mirror.next_due_ms(),
            self.next_settling_ms(),
            self.next_lease_check_ms(),
            look,
            self.next_gathered_ms(),
            again,
            retry,
            paused,
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(NEVER)
    }

    /// Starts to send transactions on the lanes of a process that was registered.
    pub(super) fn registered(&mut self, process: u64) {
        self.mirror.set_process(process);
        self.lanes = Some(Lanes::created(process));
    }
}
