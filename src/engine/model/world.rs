//! The world of the model: a cluster, processes, their clients, messages between them, and a time. It executes one
//! event after the other, and checks the replies to clients and the state of the cluster.

mod claims;
mod ending;
mod next;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::engine::cluster::{
    ClusterChange, ClusterFailure, ClusterTransaction, NamedValue, ReportedChange, Revision, RevisionChanges,
    TransactionResult,
};
use crate::engine::core::EngineAction as Asked;
use crate::engine::lanes::Lanes;
use crate::engine::model::cluster::SimulatedCluster;
use crate::engine::model::history::{HistoryAction, HistoryOperation, Told};
use crate::engine::model::ledger::{LOCK, Ledger, OTHER_LOCK};
use crate::engine::model::mutant::Mutant;
use crate::engine::model::process::{LEASE_MS, ModelConnection, Process};
use crate::engine::model::requests::{ModelKey, ModelRequest};
use crate::engine::names::{EtcdName, NamePrefix};
use crate::engine::stored::FORMAT;

/// The base of fencing tokens.
const FENCE_BASE: &str = "1000000";
/// Largest advance of a clock over the real time, in milliseconds.
const CLOCKS_DIFFER_MS: u64 = 20;

/// A request to the cluster: the process that has sent it, and its number among those of the process.
pub(super) type MessageId = (usize, u64);

/// A possible event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorldEvent {
    /// A client sends its next request, or closes.
    Request(usize),
    /// A request reaches the cluster.
    Arrive(MessageId),
    /// The answer reaches the process.
    Answer(MessageId),
    /// The process gets no answer; the request may still reach the cluster.
    Lose(MessageId),
    /// The next change reaches a process.
    Step(usize),
    /// A process is told that there are no further changes.
    Progress(usize),
    /// A process begins to read all names, because its watch has missed changes.
    Reload(usize),
    /// The read of all names ends.
    Loaded(usize),
    /// A process is registered again.
    Register(usize),
    /// A process dies.
    Crash(usize),
    /// A dead process starts again.
    Start(usize),
    /// The lease of a process cannot be renewed from now on, or can again.
    CutOff(usize, bool),
    /// A script begins to hold up the core of a process, or ends.
    Stick(usize, bool),
    /// The cluster ends the lease of a process, by its number.
    EndLease(u64),
    /// The quota of the cluster is exceeded, or is not any more.
    Fill(bool),
    /// Another program changes something in the cluster.
    Elsewhere,
    /// Time passes, in milliseconds.
    Pass(u64),
}

/// A request to the cluster.
enum Query {
    /// A transaction on a lane.
    Commit(u32, ClusterTransaction),
    /// A transaction whose outcome is not reported.
    Aside(ClusterTransaction),
    Revision,
}

enum Answer {
    Commit(Result<TransactionResult, ClusterFailure>),
    Revision(Revision),
}

/// A request to the cluster in flight, or its answer.
struct Message {
    /// Number of the process.
    from: u64,
    query: Query,
    answer: Option<Answer>,
    /// True if no process waits for the answer any more.
    is_lost: bool,
}

pub(super) struct Agent {
    slot: usize,
    connection: ModelConnection,
    pub(super) script: VecDeque<ModelRequest>,
    /// The request in flight, with the index of its operation in the history of its key, and the time when it was sent.
    current: Option<(ModelRequest, usize, u64)>,
    /// The tokens with which the client was refused the lock.
    refused: Vec<i64>,
    /// The token of the lock that is bound to the connection.
    session: Option<i64>,
    /// The tokens of such locks that the client may have, but was not told of. Who waits for the lock then may wait for
    /// itself, and is refused although it has been handed the lock meanwhile.
    possible_sessions: Vec<i64>,
    /// True if the client may still be queued after an error: if it queues again, it waits for itself, and is refused.
    may_be_queued: bool,
}

/// Numbers of the events seen.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenCounts {
    pub(super) replies: usize,
    pub(super) errors: usize,
    pub(super) conflicts: usize,
    pub(super) lost: usize,
    pub(super) late: usize,
    pub(super) hand_overs: usize,
    pub(super) expired: usize,
    pub(super) crashes: usize,
    pub(super) lost_leases: usize,
    pub(super) stuck: usize,
    pub(super) full: usize,
    pub(super) converted: usize,
    pub(super) permits: usize,
    pub(super) several: usize,
}

pub(super) struct World {
    cluster: SimulatedCluster,
    prefix: NamePrefix,
    mutant: Mutant,
    skews_ms: Vec<i64>,
    processes: Vec<Option<Process>>,
    /// The numbers of dead processes whose leases last.
    ghosts: Vec<u64>,
    pub(super) agents: Vec<Agent>,
    messages: BTreeMap<MessageId, Message>,
    /// Number of requests that each process has sent, and number of registrations.
    sent: Vec<u64>,
    registered: u64,
    now_ms: u64,
    tick: u64,
    histories: [Vec<HistoryOperation>; 2],
    /// The records of the locks.
    pub(super) ledgers: [Ledger; 2],
    /// The first failure.
    pub(super) failure: Option<String>,
    pub(super) seen: SeenCounts,
    /// Number of further answers that may be lost, the process that may crash, and the one that may read all names again.
    pub(super) losses_left: usize,
    pub(super) may_crash: Option<usize>,
    pub(super) may_reload: Option<usize>,
    /// True if the cluster may have no space for some time.
    pub(super) may_fill: bool,
    /// True if one client holds the lock at a time, so that its history is that of a value.
    is_exclusive: bool,
    /// The passages of time that may come.
    pub(super) passages: VecDeque<u64>,
    /// The events so far, as text.
    pub(super) log: Vec<String>,
}

impl World {
    /// Creates a world of processes whose wall clocks are wrong by the given milliseconds.
    pub(super) fn new(skews_ms: &[i64], mutant: Mutant) -> Self {
        let prefix = NamePrefix::new(b"keylatch/");
        let started: Vec<Process> = skews_ms.iter().map(|skew_ms| Process::start(&prefix, *skew_ms)).collect();
        let mut world = World {
            cluster: SimulatedCluster::default(),
            ledgers: [LOCK, OTHER_LOCK].map(|lock| Ledger::new(started[0].namespace.clone(), &prefix, lock)),
            prefix,
            mutant,
            skews_ms: skews_ms.to_vec(),
            processes: Vec::new(),
            ghosts: Vec::new(),
            agents: Vec::new(),
            messages: BTreeMap::new(),
            sent: vec![0; skews_ms.len()],
            registered: 0,
            now_ms: 0,
            tick: 0,
            histories: Default::default(),
            failure: None,
            seen: SeenCounts::default(),
            losses_left: 0,
            may_crash: None,
            may_reload: None,
            may_fill: false,
            is_exclusive: true,
            passages: VecDeque::new(),
            log: Vec::new(),
        };
        let (format, fence) = (world.prefix.name(&EtcdName::Format), world.prefix.name(&EtcdName::Fence));
        let changes = vec![ClusterChange::Put(format, FORMAT.to_vec()), ClusterChange::Put(fence, FENCE_BASE.into())];
        let first = ClusterTransaction { changes, ..ClusterTransaction::default() };
        world.cluster.commit(&first, 0).expect("nothing forbids it");
        let numbers: Vec<u64> = started.iter().map(|_| world.new_registration()).collect();
        for (mut process, number) in started.into_iter().zip(numbers) {
            world.load(&mut process);
            process.register(number);
            world.processes.push(Some(process));
        }
        world.observe();
        world
    }

    /// Connects a client with a script to a process.
    pub(super) fn connect(&mut self, slot: usize, script: &[ModelRequest]) -> usize {
        let process = self.processes[slot].as_ref().expect("it lives");
        let connection = ModelConnection::open(&process.namespace);
        let script = script.iter().copied().collect();
        self.agents.push(Agent {
            slot,
            connection,
            script,
            current: None,
            refused: Vec::new(),
            session: None,
            possible_sessions: Vec::new(),
            may_be_queued: false,
        });
        self.agents.len() - 1
    }

    /// Registers another process in the cluster; returns its number.
    fn new_registration(&mut self) -> u64 {
        self.registered += 1;
        let number = self.registered;
        self.cluster.leases.insert(number, self.now_ms + LEASE_MS);
        let marker = self.prefix.name(&EtcdName::Process(number));
        let changes =
            std::iter::once(ClusterChange::PutLeased(marker, Vec::new())).chain(Lanes::create(&self.prefix, number));
        let transaction = ClusterTransaction { changes: changes.collect(), ..ClusterTransaction::default() };
        let is_full = std::mem::take(&mut self.cluster.is_full); // otherwise the commit would fail
        self.cluster.commit(&transaction, number).expect("its lease has just begun");
        self.cluster.is_full = is_full;
        number
    }

    /// Loads all names into a process at once.
    fn load(&self, process: &mut Process) {
        process.core.replace(self.mirrored(), self.cluster.revision());
        process.told = self.cluster.history.len();
    }

    /// Returns all names that a mirror follows.
    fn mirrored(&self) -> Vec<NamedValue> {
        self.cluster.read_all().into_iter().filter(|pair| self.prefix.is_mirrored(&pair.name)).collect()
    }

    /// Records a failure, unless there is one.
    fn fail(&mut self, reason: String) {
        self.failure.get_or_insert(reason);
    }

    /// Examines the cluster after a possible change.
    fn observe(&mut self) {
        for ledger in &mut self.ledgers {
            let (before, result) = (ledger.shown(), ledger.observe(&self.cluster, self.now_ms));
            let shown = ledger.shown();
            if shown != before {
                self.log.push(format!("  the lock {shown}"));
            }
            if let Err(reason) = result {
                self.failure.get_or_insert(reason);
            }
        }
        if let Err(reason) = self.check_both() {
            self.fail(reason);
        }
    }

    /// Returns the process of a client.
    pub(super) fn slot_of(&self, client: usize) -> usize {
        self.agents[client].slot
    }

    /// Returns true if a request to the cluster only reads its revision.
    pub(super) fn is_read(&self, id: MessageId) -> bool {
        self.messages.get(&id).is_some_and(|message| matches!(message.query, Query::Revision))
    }

    /// Returns true if the next request of a client may end a lock.
    pub(super) fn gives_up_next(&self, client: usize) -> bool {
        let next = self.agents[client].script.front();
        next.is_some_and(|next| matches!(next, ModelRequest::Release(_) | ModelRequest::Del(_) | ModelRequest::Close))
    }

    /// Returns true if the time at which a process learns of changes may matter: it has clients that wait or will, or
    /// other processes may die.
    pub(super) fn is_busy(&self, slot: usize) -> bool {
        let is_active =
            |agent: &Agent| agent.slot == slot && (agent.connection.is_waiting() || !agent.script.is_empty());
        self.may_crash.is_some() || self.seen.crashes > 0 || self.agents.iter().any(is_active)
    }

    fn is_stuck(&self, slot: usize) -> bool {
        self.processes[slot].as_ref().is_some_and(|process| process.is_stuck)
    }

    /// Returns the processes that are alive.
    pub(super) fn living(&self) -> Vec<usize> {
        (0..self.processes.len()).filter(|slot| self.processes[*slot].is_some()).collect()
    }

    /// Returns the numbers of processes whose leases may end.
    pub(super) fn overdue_leases(&self) -> Vec<u64> {
        let overdue = self.cluster.leases.iter().filter(|(_, until_ms)| **until_ms <= self.now_ms);
        overdue.map(|(number, _)| *number).collect()
    }

    /// Returns the messages whose answer was not lost.
    pub(super) fn losable(&self) -> Vec<MessageId> {
        let losable = self.messages.iter().filter(|(id, message)| !message.is_lost && !self.is_stuck(id.0));
        losable.map(|(id, _)| *id).collect()
    }

    /// Executes an event.
    pub(super) fn execute(&mut self, event: WorldEvent) {
        self.tick += 1;
        self.log.push(format!("{event:?}"));
        match event {
            WorldEvent::Request(at) => self.request(at),
            WorldEvent::Arrive(id) => self.arrive(id),
            WorldEvent::Answer(id) => self.answer(id),
            WorldEvent::Lose(id) => self.lose(id),
            WorldEvent::Step(slot) => self.tell(slot),
            WorldEvent::Progress(slot) => {
                let revision = self.cluster.revision();
                self.with(slot, |process| process.core.progress(revision));
            }
            WorldEvent::Reload(slot) => {
                self.may_reload = None;
                let loading = (self.mirrored(), self.cluster.revision(), self.cluster.history.len());
                self.with(slot, |process| process.loading = Some(loading));
            }
            WorldEvent::Loaded(slot) => self.end_reload(slot),
            WorldEvent::Register(slot) => {
                let number = self.new_registration();
                self.with(slot, |process| process.register(number));
            }
            WorldEvent::Crash(slot) => self.crash(slot),
            WorldEvent::Start(slot) => self.start(slot),
            WorldEvent::CutOff(slot, is_cut_off) => self.with(slot, |process| process.is_cut_off = is_cut_off),
            WorldEvent::Stick(slot, is_stuck) => {
                self.seen.stuck += usize::from(is_stuck);
                self.with(slot, |process| process.is_stuck = is_stuck);
            }
            WorldEvent::EndLease(number) => {
                self.give_up_sessions_of(number);
                self.cluster.end_lease(number);
                self.ghosts.retain(|ghost| *ghost != number);
                self.observe();
            }
            WorldEvent::Fill(is_full) => {
                self.seen.full += usize::from(is_full);
                self.cluster.is_full = is_full;
                // A client that could not leave the queue for want of space may queue again, and is then refused as
                // waiting for itself.
                self.ledgers.iter_mut().for_each(|ledger| ledger.is_rough = true);
            }
            WorldEvent::Elsewhere => self.cluster.change_elsewhere(),
            WorldEvent::Pass(ms) => self.pass(ms),
        }
    }

    /// Calls `act` with a process, if it is alive, and executes everything that follows.
    fn with(&mut self, slot: usize, act: impl FnOnce(&mut Process)) {
        if let Some(process) = &mut self.processes[slot] {
            act(process);
        }
        self.settle(slot);
    }

    /// Executes the actions of a process' core, and serves its clients, until nothing is left to do.
    fn settle(&mut self, slot: usize) {
        loop {
            let Some(process) = &mut self.processes[slot] else { return };
            let (actions, mut is_busy) = if process.is_stuck { Default::default() } else { process.turn() };
            actions.into_iter().for_each(|action| self.send(slot, action));
            for at in (0..self.agents.len()).filter(|at| self.agents[*at].slot == slot).collect::<Vec<_>>() {
                is_busy |= self.serve(at);
            }
            if !is_busy {
                return;
            }
        }
    }

    /// Sends the request of a core to the cluster.
    fn send(&mut self, slot: usize, action: Asked) {
        let Some(process) = &mut self.processes[slot] else { return };
        let query = match action {
            Asked::Commit(lane, transaction) => Query::Commit(lane, transaction),
            Asked::Aside(transaction) => Query::Aside(transaction),
            Asked::ReadRevision => Query::Revision,
            Asked::Register => {
                process.registration = None;
                self.seen.lost_leases += 1;
                return;
            }
        };
        if matches!(query, Query::Commit(..) | Query::Aside(_)) && process.registration.is_none() {
            return; // as the driver does
        }
        let from = process.registration.unwrap_or(0);
        self.sent[slot] += 1;
        let is_lost = matches!(query, Query::Aside(_));
        self.messages.insert((slot, self.sent[slot]), Message { from, query, answer: None, is_lost });
    }

    /// Continues a client's request; returns true if there was progress.
    fn serve(&mut self, at: usize) -> bool {
        let agent = &mut self.agents[at];
        let Some(process) = &self.processes[agent.slot] else { return false };
        if agent.connection.is_to_close() {
            self.close(at);
            return true;
        }
        match agent.connection.poll(&process.namespace) {
            Some(reply) => {
                self.replied(at, &reply);
                true
            }
            None => false,
        }
    }

    /// Sends the next request of a client.
    fn request(&mut self, at: usize) {
        let agent = &mut self.agents[at];
        let Some(request) = agent.script.pop_front() else { return };
        self.log.push(format!("  client {at} of process {}: {request:?}", agent.slot));
        let slot = agent.slot;
        let Some((key, action)) = request.action() else {
            self.close(at);
            return self.settle(slot);
        };
        if let HistoryAction::Release(token) = action {
            if agent.refused.contains(&token) {
                return;
            }
            let released = self.ledgers.iter_mut().filter(|ledger| request.locks().contains(&ledger.lock));
            released.for_each(|ledger| _ = ledger.given_up.insert(token));
        }
        self.is_exclusive &= request.is_exclusive();
        if let Some(token) = request.acquires().filter(|_| agent.may_be_queued && request.may_queue()) {
            self.ledgers.iter_mut().for_each(|ledger| _ = ledger.given_up.insert(token));
        }
        let is_rough = matches!(request, ModelRequest::Del(ModelKey::Lock) | ModelRequest::FlushAll)
            || !agent.possible_sessions.is_empty() && request.may_queue();
        self.ledgers.iter_mut().for_each(|ledger| ledger.is_rough |= is_rough);
        if request == ModelRequest::FlushAll {
            let of_other = HistoryOperation { action, called: self.tick, reply: None };
            self.histories[ModelKey::Number as usize].push(of_other);
        }
        let history = &mut self.histories[key as usize];
        history.push(HistoryOperation { action, called: self.tick, reply: None });
        agent.current = Some((request, history.len() - 1, self.now_ms));
        let Some(process) = &self.processes[slot] else { return };
        if let Some(reply) = agent.connection.send(&process.namespace, &request.words()) {
            self.replied(at, &reply);
        }
        self.settle(slot);
    }

    /// Records the reply to a client.
    fn replied(&mut self, at: usize, reply: &str) {
        self.tick += 1;
        self.log.push(format!("  client {at} is told {reply}"));
        let agent = &mut self.agents[at];
        let Some((request, place, asked_ms)) = agent.current.take() else { return };
        let Some((key, _)) = request.action() else { return };
        let told = request.told(reply);
        self.seen.replies += 1;
        let operation = &mut self.histories[key as usize][place];
        match told {
            Some(Told::Null) if request.may_queue() => {} // the client may have had the lock, and have given it back
            Some(told) => operation.reply = Some((self.tick, told)),
            None => {
                self.seen.errors += 1;
                agent.may_be_queued |= request.may_queue();
                if let ModelRequest::AcquireSession(token) = request {
                    agent.possible_sessions.push(token);
                }
                if reply.starts_with("-NOQUORUM") || reply.ends_with("database space exceeded") {
                    operation.action = HistoryAction::End(i64::MIN); // the operation was not executed
                } else if !ModelRequest::is_known_error(reply) {
                    self.failure.get_or_insert(format!("{request:?} is told {reply}"));
                }
            }
        }
        if request == ModelRequest::FlushAll {
            let flush = operation.clone();
            let mut of_other = self.histories[ModelKey::Number as usize].iter_mut();
            let of_other = of_other.find(|other| other.action == HistoryAction::Flush && other.called == flush.called);
            of_other.into_iter().for_each(|other| *other = flush.clone());
        }
        self.claim(at, (request, asked_ms), told, reply);
    }

    fn close(&mut self, at: usize) {
        self.note_end(at);
        let agent = &mut self.agents[at];
        if let Some(process) = &self.processes[agent.slot] {
            agent.connection.close(&process.namespace);
        }
    }

    /// Delivers a request to the cluster.
    fn arrive(&mut self, id: MessageId) {
        let Some(message) = self.messages.get_mut(&id) else { return };
        let answer = match &message.query {
            Query::Revision => Answer::Revision(self.cluster.revision()),
            Query::Aside(transaction) => Answer::Commit(self.cluster.commit(transaction, message.from)),
            Query::Commit(_, transaction) => {
                let (transaction, rest) = self.mutant.changed(transaction, &self.cluster, &self.prefix);
                let mut result = self.cluster.commit(&transaction, message.from);
                if let Err(ClusterFailure::Refused(reason)) = &result {
                    self.failure.get_or_insert(format!("the cluster refuses a transaction: {reason}"));
                }
                if let Ok(done) = &mut result {
                    self.seen.conflicts += usize::from(!done.is_committed);
                    self.seen.late += usize::from(message.is_lost && done.is_committed);
                    if let Query::Commit(_, original) = &message.query {
                        self.mutant.hide_lane(original, done);
                    }
                }
                let from = message.from;
                if let Some(rest) = rest.filter(|_| result.as_ref().is_ok_and(|done| done.is_committed)) {
                    self.sent[id.0] += 1;
                    let rest = Message { from, query: Query::Commit(0, rest), answer: None, is_lost: true };
                    self.messages.insert((id.0, self.sent[id.0]), rest);
                }
                Answer::Commit(result)
            }
        };
        match self.messages.get_mut(&id).filter(|message| !message.is_lost) {
            Some(message) => message.answer = Some(answer),
            None => _ = self.messages.remove(&id),
        }
        self.observe();
    }

    /// Delivers an answer to its process.
    fn answer(&mut self, id: MessageId) {
        let Some(Message { from, query, answer: Some(answer), .. }) = self.messages.remove(&id) else { return };
        let lane = if let Query::Commit(lane, _) = query { lane } else { 0 };
        let mutant = self.mutant;
        self.with(id.0, |process| match answer {
            Answer::Revision(revision) => {
                let revision = if mutant == Mutant::NoBarrier { process.core.mirror.revision() } else { revision };
                process.core.barrier(Ok(revision));
            }
            Answer::Commit(mut result) => {
                let wall_ms = process.namespace.clock.now().wall_ms();
                let pairs = result.iter_mut().flat_map(|done| done.read.iter_mut().flatten());
                pairs.for_each(|pair| mutant.count_by_date(pair, wall_ms));
                if process.registration == Some(from) {
                    process.core.done(lane, result);
                }
            }
        });
    }

    /// Loses the answer for a process.
    fn lose(&mut self, id: MessageId) {
        let Some(message) = self.messages.get_mut(&id) else { return };
        self.losses_left = self.losses_left.saturating_sub(1);
        self.seen.lost += 1;
        message.is_lost = true;
        let (from, lane) = (message.from, if let Query::Commit(lane, _) = message.query { Some(lane) } else { None });
        let believed = match (&message.query, self.mutant) {
            (Query::Commit(_, transaction), Mutant::NoLane) => {
                let read = transaction.reads.iter().map(|name| self.cluster.read(name)).collect();
                let mut done = TransactionResult { revision: self.cluster.revision(), is_committed: false, read };
                self.mutant.hide_lane(transaction, &mut done);
                Ok(done)
            }
            _ => Err(ClusterFailure::Unknown("no answer".into())),
        };
        if message.answer.is_some() || lane.is_none() {
            self.messages.remove(&id);
        }
        self.with(id.0, |process| match lane {
            Some(lane) if process.registration == Some(from) => process.core.done(lane, believed),
            Some(_) => {}
            None => process.core.barrier(Err(ClusterFailure::Unknown("no answer".into()))),
        });
    }

    /// Delivers the next change to a process.
    fn tell(&mut self, slot: usize) {
        let Some(process) = &mut self.processes[slot] else { return };
        let Some(step) = self.cluster.history.get(process.told) else { return };
        process.told += 1;
        let (mutant, wall_ms) = (self.mutant, process.namespace.clock.now().wall_ms());
        let changed = |news: &ReportedChange| {
            let mut news = news.clone();
            if let ReportedChange::Put(pair) = &mut news {
                mutant.count_by_date(pair, wall_ms);
            }
            news
        };
        let step = RevisionChanges { revision: step.revision, news: step.news.iter().map(changed).collect() };
        self.with(slot, |process| process.core.step(step));
    }

    fn end_reload(&mut self, slot: usize) {
        self.with(slot, |process| {
            if let Some((pairs, revision, told)) = process.loading.take() {
                process.core.replace(pairs, revision);
                process.told = process.told.max(told);
            }
        });
    }

    fn crash(&mut self, slot: usize) {
        let Some(process) = self.processes[slot].take() else { return };
        self.may_crash = None;
        self.seen.crashes += 1;
        self.ghosts.extend(process.registration.filter(|number| self.cluster.leases.contains_key(number)));
        for at in (0..self.agents.len()).filter(|at| self.agents[*at].slot == slot).collect::<Vec<_>>() {
            let tokens = self.note_end(at);
            self.ledgers.iter_mut().for_each(|ledger| ledger.orphaned.extend(&tokens));
            self.agents[at].connection.lose();
        }
        self.messages.retain(|(of, _), message| *of != slot || message.answer.is_none());
        self.messages
            .retain(|(of, _), message| *of != slot || matches!(message.query, Query::Commit(..) | Query::Aside(_)));
        self.messages.iter_mut().filter(|((of, _), _)| *of == slot).for_each(|(_, message)| message.is_lost = true);
    }

    /// Starts a dead process again.
    fn start(&mut self, slot: usize) {
        if self.processes[slot].is_some() {
            return;
        }
        let mut process = Process::start(&self.prefix, self.skews_ms[slot]);
        let number = self.new_registration();
        self.load(&mut process);
        process.register(number);
        self.processes[slot] = Some(process);
        self.observe();
        self.settle(slot);
    }

    /// Advances the time: the clocks run a little differently, and leases are renewed.
    fn pass(&mut self, ms: u64) {
        self.passages.pop_front();
        self.now_ms += ms;
        let over = self.ledgers.iter_mut().flat_map(|ledger| ledger.take_over(self.now_ms));
        let ends =
            over.map(|token| HistoryOperation { action: HistoryAction::End(token), called: self.tick, reply: None });
        self.histories[ModelKey::Lock as usize].extend(ends);
        self.note_timeouts();
        for slot in 0..self.processes.len() {
            let Some(process) = &mut self.processes[slot] else { continue };
            let drift_us = ms * [0, 300, 150][slot % 3] / 1000; // up to 300 ppm
            process.namespace.clock.advance(Duration::from_micros(ms * 1000 + drift_us));
            process.core.mirror.locks.lease.check(process.namespace.clock.now());
            if let Some(number) = process.registration.filter(|_| !process.is_cut_off) {
                match self.cluster.leases.get_mut(&number) {
                    Some(until_ms) => {
                        *until_ms = self.now_ms + LEASE_MS;
                        process.hold_lease();
                    }
                    None if process.is_stuck => process.core.mirror.locks.lease.end(),
                    None => process.core.lose_registration(),
                }
            }
            self.settle(slot);
        }
    }
}
