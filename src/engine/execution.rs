//! Execution of calls together on a stage, one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::client::engine::StagedCall;
use crate::client::staged::{ChangedFunctions, LockTally, Staged, StagedMessage};
use crate::dispatch::staged::run_staged;
use crate::dispatch::texts::changed_libraries;
use crate::dispatch::{Env, Handlers, Next};
use crate::engine::cluster::Revision;
use crate::engine::flushes::{Cleared, Flushes};
use crate::engine::group::{CallGroup, Ended, Replied};
use crate::engine::guard::Guard;
use crate::engine::pending::{PendingWork, WorkItem};
use crate::engine::reads::Reads;
use crate::engine::stage::{Copy, HandOver, Stage, StageCx, StageOutcome};
use crate::engine::stored::{StoredClient, StoredLibraries, StoredLibrary, StoredMessage, StoredRecord};
use crate::namespace::Namespace;
use crate::resp::{Output, Reply};
use crate::store::{Cx, Key, KeyName, Origin};
use crate::time::clock::Now;

/// State of keys known to the engine.
pub(super) trait KnownKeys {
    fn copy(&self, key: &KeyName, now: Now) -> Copy;

    /// Returns the revision of a watched key's last change, unless that was after the mirror's revision.
    fn watched(&self, key: &KeyName) -> Option<Revision>;

    /// Returns the context of a new stage, and the revision at which the fence base was last changed.
    fn stage_cx(&self, now: Now) -> (StageCx, Revision);

    fn is_dead(&self, process: u64) -> bool;

    /// Returns when which databases were emptied.
    fn flushes(&self) -> &Flushes;

    /// Returns the revision of the last change of the libraries of functions.
    fn libraries(&self) -> Revision;
}

/// Execution of calls on a stage.
pub(super) struct Execution<'e, K> {
    namespace: &'e Namespace,
    handlers: &'static Handlers,
    known: &'e K,
    stage: Stage,
    now: Now,
    tests: BTreeMap<KeyName, Revision>,
    guards: BTreeSet<Guard>,
    /// The libraries of functions, if a call has changed them.
    functions: Option<ChangedFunctions>,
    record: StoredRecord,
    /// The client of the calls so far; 0 for several.
    client: Option<u64>,
    reads: Vec<Reads>,
    tally: LockTally,
    /// The fence base, and the revision of its last change.
    fence_base: (i64, Revision),
}

impl<'e, K: KnownKeys> Execution<'e, K> {
    /// Executes calls on a stage, one after the other, as the transaction with this number.
    pub(super) fn run(
        (namespace, handlers): (&'e Namespace, &'static Handlers),
        known: &'e K,
        pending: Vec<PendingWork>,
        number: u64,
    ) -> CallGroup {
        let now = namespace.clock.now();
        let (cx, fence_revision) = known.stage_cx(now);
        let mut execution = Execution {
            namespace,
            handlers,
            known,
            fence_base: (cx.fence_base, fence_revision),
            stage: Stage::new(&namespace.store, cx),
            now,
            tests: BTreeMap::new(),
            guards: BTreeSet::new(),
            functions: None,
            record: StoredRecord { number, ..StoredRecord::default() },
            client: None,
            reads: Vec::new(),
            tally: LockTally::default(),
        };
        pending.iter().flat_map(|pending| &*pending.keys).for_each(|key| execution.load(key));
        let (mut members, mut overtaken) = (Vec::new(), None);
        for mut pending in execution.expire_awaited(pending) {
            let mut ended = Ended::Done; // and in another transaction, if the call comes too late for this one
            if overtaken.is_none() {
                let performed = namespace.instance.panics.catch("engine", || execution.perform(&mut pending));
                let Some(done) = performed else {
                    members.push((pending, Ended::Panicked));
                    overtaken = Some(members.len());
                    continue;
                };
                ended = done;
                overtaken = execution.stage.has_lost_hand_over().then_some(members.len());
                execution.hand_over();
            }
            members.push((pending, ended));
        }
        execution.end(members, overtaken)
    }

    /// Expires locks that are due and have queues first: queued clients come before the calls, which would find the
    /// locks free.
    fn expire_awaited(&self, mut pending: Vec<PendingWork>) -> Vec<PendingWork> {
        let Some(until_ms) = pending.first().map(|first| first.until_ms) else { return pending };
        for key in &self.stage.due {
            let mut first = pending.iter().take_while(|pending| matches!(pending.work, WorkItem::Expire));
            if !first.any(|pending| pending.keys.contains(key)) {
                let keys = Arc::new([key.clone()]);
                pending.insert(0, PendingWork::new(WorkItem::Expire, keys, until_ms));
            }
        }
        pending
    }

    fn load(&mut self, key: &KeyName) {
        if !self.tests.contains_key(key) {
            let copy = self.known.copy(key, self.now);
            self.tests.insert(key.clone(), copy.mod_revision);
            self.stage.load(key, copy);
        }
    }

    fn perform(&mut self, pending: &mut PendingWork) -> Ended {
        let PendingWork { work, keys, took_us, .. } = pending;
        match work {
            WorkItem::Expire => keys.iter().for_each(|key| self.expire(key)),
            WorkItem::Leave(leave) => keys.iter().for_each(|key| self.stage.leave_queue(key, leave.wait)),
            WorkItem::EndSession(process, id) => keys.iter().for_each(|key| self.end_session(key, (*process, *id))),
            WorkItem::Call(call, _) => {
                if self.is_touched(call) {
                    return refuse(call);
                }
                let clock = &self.namespace.clock;
                let begun_us = clock.now().mono_us();
                let ended = self.execute(call, None);
                *took_us = clock.now().mono_us() - begun_us;
                return ended;
            }
            WorkItem::Repeat(call, _) => {
                let mut next = Next::Done;
                let ended = self.execute(call, Some(&mut next));
                return match next {
                    Next::StayBlocked { retry_at_ms } => Ended::StaysBlocked(retry_at_ms),
                    _ => ended,
                };
            }
        }
        Ended::Done
    }

    /// Hands over the locks on the stage that are free now.
    fn hand_over(&mut self) {
        let cleared = self.stage.cleared();
        loop {
            let now = self.namespace.clock.now();
            let HandOver { processes, missing } = self.stage.hand_over(now, |process| self.known.is_dead(process));
            self.guards.extend(processes.into_iter().map(Guard::Lives));
            if missing.is_empty() {
                return;
            }
            missing.iter().for_each(|key| self.load_late(key, &cleared));
        }
    }

    /// Adds a key that no call has declared, for the clients queued for it.
    fn load_late(&mut self, key: &KeyName, cleared: &Cleared) {
        if self.stage.has_loaded(key) {
            return;
        }
        let copy = self.known.copy(key, self.now);
        self.tests.entry(key.clone()).or_insert(copy.mod_revision); // that of a watched key is known
        if cleared.has(key.0) {
            self.stage.load_queue(key, copy);
        } else {
            self.stage.load(key, copy);
        }
    }

    fn end(mut self, members: Vec<(PendingWork, Ended)>, overtaken: Option<usize>) -> CallGroup {
        let (given_fences, (fence_base, fence_revision)) = (self.stage.given_fences, self.fence_base);
        if given_fences > 0 {
            self.guards.insert(Guard::FenceBase(fence_revision));
        }
        let ended = self.namespace.clock.now();
        let StageOutcome { cleared, changed, events, losses, refusals } = self.stage.end(ended);
        let flushes = self.known.flushes();
        self.guards.insert(Guard::Flushes(flushes.changed));
        let flushed = (cleared != Cleared::Nothing).then(|| flushes.after(&cleared));
        let texts = self.functions.as_ref().and_then(|functions| changed_libraries(self.namespace, functions));
        let stored = |(id, text)| StoredLibrary { id, text };
        let libraries = texts.map(|texts| StoredLibraries { libraries: texts.into_iter().map(stored).collect() });
        let mut record = self.record;
        (record.events, record.losses, record.refusals) = (events, losses, refusals);
        CallGroup {
            members,
            tests: self.tests.into_iter().collect(),
            flushed,
            libraries,
            changed,
            record,
            reads: self.reads,
            guards: self.guards,
            given_fences,
            fence_base,
            tally: self.tally,
            staged: ended,
            overtaken,
        }
    }

    /// Deletes a key that is due, or what is due of its fields or members.
    fn expire(&self, (db, bytes): &KeyName) {
        let key = Key { bytes, hash: self.namespace.store.hash(bytes) };
        let mut hold = self.stage.hold();
        hold.view(*db, Cx::new(self.now, Origin::Expiry)).expire(key);
    }

    /// Ends the session of a client that a lock may be bound to, and removes waits of dead processes for the lock.
    fn end_session(&mut self, key: &KeyName, (process, id): (u64, u64)) {
        let holders = self.known.stage_cx(self.now).0.holders;
        let client = holders.copied(&StoredClient { process, id, ..StoredClient::default() }).id();
        self.stage.end_session(key, client);
        self.stage.remove_dead(key, |process| self.known.is_dead(process));
        if !holders.is_own(process) {
            self.guards.insert(Guard::IsGone(process));
        }
    }

    /// Returns true if one of the watched keys of a call has changed since; otherwise adds the keys to the tests.
    fn is_touched(&mut self, call: &StagedCall) -> bool {
        let Some(watch) = &call.watch else { return false };
        if watch.flag.is_raised() {
            return true;
        }
        for (key, ()) in watch.keys.iter() {
            if self.stage.has_changed(key) {
                return true; // by an earlier call of the same execution
            }
            match self.known.watched(key) {
                Some(revision) => _ = self.tests.entry(key.clone()).or_insert(revision),
                None => return true,
            }
        }
        false
    }

    /// Executes a call for its client, or repeats that of a blocked client.
    fn execute(&mut self, call: &StagedCall, again: Option<&mut Next>) -> Ended {
        let (namespace, handlers, client) = (self.namespace, self.handlers, call.caller.info.id);
        let is_one = self.client.is_none_or(|first| first == client);
        self.record.client = if is_one { client } else { 0 };
        self.client = Some(self.record.client);
        if call.depends_on_functions() {
            self.guards.insert(Guard::Libraries(self.known.libraries()));
        }
        // A script that takes long marks the mirror as busy, so the mirror must be held.
        let _mirror = call.runs_scripts().then(|| namespace.store.exclusive());
        let (mut hold, mut out) = (self.stage.hold(), Output::new());
        let mut view = hold.view(call.caller.db, Cx::new(self.now, Origin::Client(client)));
        let (given_fences, functions) = (self.stage.given_fences, self.functions.take());
        let again = (again, Staged { given_fences, functions, ..Staged::default() });
        let end =
            Env::with_present(namespace, handlers, client, |env| run_staged(env, &mut view, call, again, &mut out));
        drop(view);
        drop(hold);
        let Staged { messages, read, given_fences, fence_replies: fences, demand, held, tally, functions, .. } =
            end.staged;
        self.functions = functions;
        let stored = |StagedMessage { is_sharded, channel, payload }| StoredMessage { is_sharded, channel, payload };
        self.record.messages.extend(messages.into_iter().map(stored));
        if !read.is_empty() {
            self.reads.push((call.caller.info.clone(), read));
        }
        self.stage.given_fences = given_fences;
        self.stage.record_held(held);
        self.tally.add(tally);
        match end.suspended {
            _ if end.is_half_done => Ended::Panicked,
            Some(suspended) => {
                if let Some(demand) = demand {
                    self.stage.queue(&suspended, demand, &call.caller.info);
                }
                Ended::Blocked(suspended)
            }
            None => Ended::Replied(Replied { out, db: end.db, fences }),
        }
    }
}

/// Returns the reply of EXEC after a change of a watched key.
fn refuse(call: &StagedCall) -> Ended {
    let mut out = Output::new();
    Reply::new(&mut out, call.caller.protocol).null_array();
    Ended::Replied(Replied { out, db: call.caller.db, fences: Vec::new() })
}
