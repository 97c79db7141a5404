//! Outcomes of transactions: made, refused because keys have changed, or unknown, which another transaction on the same
//! lane settles.

use std::sync::atomic::Ordering::Relaxed;

use prost::Message as _;
use tracing::warn;

use crate::engine::cluster::{ClusterChange, ClusterFailure, ClusterTransaction, Revision, TransactionResult};
use crate::engine::core::{Ahead, Core, EngineAction, RETRY_MS};
use crate::engine::group::{CallGroup, Flight, State};
use crate::engine::guard::Guard;
use crate::engine::stored::StoredRecord;
use crate::error::Error;
use crate::time::clock::Now;

enum Outcome {
    Made(Revision),
    /// The transaction was not made and cannot be any more, because keys have changed, or because another one has taken
    /// its place.
    NotMade(Option<TransactionResult>),
    Refused(String),
    Unknown,
    /// The lane is gone, because the process' lease has expired. If `is_certain`, the transaction was not made.
    Lost {
        is_certain: bool,
    },
}

impl Core {
    /// Sends the changes of a group as a transaction on a lane.
    pub(super) fn commit(&mut self, mut group: CallGroup) {
        let Some((lane, test)) = self.lanes.as_mut().and_then(|lanes| {
            let lane = lanes.take()?;
            Some((lane, lanes.test(&self.prefix, lane)))
        }) else {
            return self.put_back(group);
        };
        self.stats.transactions.fetch_add(1, Relaxed);
        self.expect_waits(&group);
        self.reads.add(group.record.number, std::mem::take(&mut group.reads));
        let turns = self.ended_turns(&group);
        self.actions.push(EngineAction::Commit(lane, group.transaction(&self.prefix, test, turns)));
        let (number, sent_us, until_ms) = (group.record.number, self.now().mono_us(), self.until_ms());
        let (group, state, exhausted) = (Some(group), State::Sent, None);
        self.flights.insert(lane, Flight { number, group, state, exhausted, sent_us, until_ms });
    }

    /// Handles the answer to the transaction on a lane.
    pub(in crate::engine) fn done(&mut self, lane: u32, result: Result<TransactionResult, ClusterFailure>) {
        let Some(mut flight) = self.flights.remove(&lane) else { return };
        self.patience.hear(result.is_ok(), self.now());
        if let (State::Sent, Ok(done)) = (&flight.state, &result) {
            let took_us = self.now().mono_us().saturating_sub(flight.sent_us);
            self.stats.record_transaction(took_us);
            self.usual_transaction.record(took_us);
            self.stats.cluster_revision.fetch_max(done.revision, Relaxed);
        }
        let outcome = match flight.state {
            State::Sent => self.outcome_of_sent(lane, result, &mut flight.exhausted),
            State::Settling => self.outcome_of_settled(lane, &flight, result),
            State::Unsettled(_) => Outcome::Unknown,
        };
        if let Outcome::Made(_) | Outcome::NotMade(_) | Outcome::Refused(_) = outcome {
            self.free_lane(lane);
        }
        if !matches!(outcome, Outcome::Made(_) | Outcome::Unknown) {
            self.reads.forget(flight.number);
            if let Some(group) = &flight.group {
                self.forget_waits(group);
            }
        }
        match (outcome, flight.group) {
            (Outcome::Unknown, group) => self.settle_later(lane, Flight { group, ..flight }),
            (Outcome::Lost { is_certain }, group) => {
                if let Some(group) = group {
                    if is_certain {
                        self.put_back(group);
                    } else {
                        self.fail_group(group, &Error::Uncertain);
                    }
                }
                self.lose_registration();
            }
            (Outcome::Made(revision), Some(group)) => self.finish(group, revision),
            (Outcome::NotMade(done), Some(group)) => match done.and_then(|done| self.learn(&group, done)) {
                Some(revision) => self.run_later(group, revision),
                None => self.run_again(group),
            },
            (Outcome::Refused(reason), Some(group)) => {
                warn!("etcd has refused a transaction: {reason}");
                self.fail_group(group, &Error::other(format!("etcd: {reason}")));
            }
            (_, None) => {}
        }
    }

    fn outcome_of_sent(
        &mut self,
        lane: u32,
        result: Result<TransactionResult, ClusterFailure>,
        exhausted: &mut Option<String>,
    ) -> Outcome {
        match result {
            Ok(done) if done.is_committed => {
                self.advance_lane(lane);
                Outcome::Made(done.revision)
            }
            Ok(mut done) => {
                let version = self.lanes.as_ref().map(|lanes| lanes.version(lane));
                match done.read.pop().flatten() {
                    Some(pair) if Some(pair.version) == version => Outcome::NotMade(Some(done)),
                    _ => Outcome::Lost { is_certain: true },
                }
            }
            Err(ClusterFailure::Refused(reason)) => Outcome::Refused(reason),
            Err(ClusterFailure::LeaseExpired) => Outcome::Lost { is_certain: true },
            Err(ClusterFailure::Exhausted(reason)) => {
                *exhausted = Some(reason);
                Outcome::Unknown
            }
            Err(ClusterFailure::Unknown(_)) => {
                self.stats.unknown.fetch_add(1, Relaxed);
                Outcome::Unknown
            }
        }
    }

    fn outcome_of_settled(
        &mut self,
        lane: u32,
        flight: &Flight,
        result: Result<TransactionResult, ClusterFailure>,
    ) -> Outcome {
        match result {
            Ok(done) if done.is_committed => match &flight.exhausted {
                Some(reason) => Outcome::Refused(reason.clone()),
                None => {
                    self.advance_lane(lane); // this transaction has taken the place of the first one
                    Outcome::NotMade(None)
                }
            },
            Ok(mut done) => {
                let (pair, version) = (done.read.pop().flatten(), self.lanes.as_ref().map(|lanes| lanes.version(lane)));
                let is_next = |found: i64| version.is_some_and(|version| found == version + 1);
                match pair.filter(|pair| is_next(pair.version)) {
                    None => Outcome::Lost { is_certain: false },
                    Some(pair) => {
                        self.advance_lane(lane);
                        let is_it =
                            StoredRecord::decode(&pair.value[..]).is_ok_and(|record| record.number == flight.number);
                        if is_it { Outcome::Made(pair.mod_revision) } else { Outcome::NotMade(None) }
                    }
                }
            }
            Err(ClusterFailure::LeaseExpired) => Outcome::Lost { is_certain: false },
            Err(ClusterFailure::Refused(_) | ClusterFailure::Exhausted(_) | ClusterFailure::Unknown(_)) => {
                Outcome::Unknown
            }
        }
    }

    fn settle_later(&mut self, lane: u32, flight: Flight) {
        // At once the first time: most often only the connection has ended.
        let delay_ms = if matches!(flight.state, State::Sent) { 0 } else { RETRY_MS };
        let at_ms = self.now().mono_ms() + delay_ms;
        self.flights.insert(lane, Flight { state: State::Unsettled(at_ms), ..flight });
        self.continue_flights(self.now());
    }

    /// Sends due transactions on lanes whose last outcome is unknown, and answers calls that have waited too long.
    pub(super) fn continue_flights(&mut self, now: Now) {
        let lanes: Vec<u32> = self.flights.keys().copied().collect();
        for lane in lanes {
            let Some(mut flight) = self.flights.remove(&lane) else { continue };
            if let Some(group) = flight.group.take_if(|_| self.patience.is_over(flight.until_ms, now)) {
                self.forget_waits(&group);
                self.stats.uncertain.fetch_add(1, Relaxed);
                self.fail_group(group, &Error::Uncertain);
            }
            if let State::Unsettled(at_ms) = flight.state
                && at_ms <= now.mono_ms()
                && let Some(transaction) = self.settling(lane, flight.exhausted.is_some())
            {
                self.actions.push(EngineAction::Commit(lane, transaction));
                flight.state = State::Settling;
            }
            self.flights.insert(lane, flight);
        }
    }

    /// Returns the time of the next transaction on a lane whose last outcome is unknown.
    pub(super) fn next_settling_ms(&self) -> Option<u64> {
        let due_ms = |flight: &Flight| match flight.state {
            State::Unsettled(at_ms) => Some(at_ms),
            State::Sent | State::Settling => None,
        };
        self.flights.values().filter_map(due_ms).min()
    }

    /// Returns a transaction that takes the place of the previous one on a lane, if that was not made. With
    /// `only_looks` it only reads: the previous one cannot be made any more, and a full cluster accepts no other
    /// transaction.
    fn settling(&self, lane: u32, only_looks: bool) -> Option<ClusterTransaction> {
        let lanes = self.lanes.as_ref()?;
        let name = lanes.name(&self.prefix, lane);
        let changes = if only_looks { Vec::new() } else { vec![ClusterChange::PutLeased(name.clone(), Vec::new())] };
        Some(ClusterTransaction { tests: vec![lanes.test(&self.prefix, lane)], changes, reads: vec![name] })
    }

    fn advance_lane(&mut self, lane: u32) {
        if let Some(lanes) = &mut self.lanes {
            lanes.advance(lane);
        }
    }

    fn free_lane(&mut self, lane: u32) {
        if let Some(lanes) = &mut self.lanes {
            lanes.give(lane);
        }
    }

    /// Records the present state of a group's keys that differ from the stage, and of its guards. Returns the revision
    /// that the mirror must reach before the calls can be executed again, if that is necessary.
    fn learn(&mut self, group: &CallGroup, mut done: TransactionResult) -> Option<Revision> {
        let guarded = done.read.split_off(group.tests.len().min(done.read.len()));
        for ((key, at), pair) in group.tests.iter().zip(done.read) {
            let mod_revision = pair.as_ref().map_or(0, |pair| pair.mod_revision);
            if mod_revision != *at {
                let value = pair.map(|pair| self.mirror.learn(key, &pair));
                self.know(key.clone(), Ahead { revision: done.revision, mod_revision, value });
            }
        }
        let mut awaited = None;
        for (guard, pair) in group.guards.iter().zip(guarded) {
            let changed = pair.as_ref().map_or(0, |pair| pair.mod_revision);
            match guard {
                Guard::Lives(process) if pair.is_none() => self.mirror.locks.record_gone(*process),
                Guard::Flushes(at) | Guard::Libraries(at) | Guard::FenceBase(at) if changed != *at => {
                    awaited = Some(done.revision);
                }
                Guard::IsGone(_) if pair.is_some() => awaited = Some(done.revision),
                _ => {}
            }
        }
        awaited
    }

    /// Executes the calls of a group again when the mirror has reached a revision.
    fn run_later(&mut self, group: CallGroup, revision: Revision) {
        self.stats.conflicts.fetch_add(1, Relaxed);
        let mut pending = group.into_pending();
        self.note_conflict(&mut pending);
        for pending in pending {
            self.queue.release(&*pending.keys);
            if revision > self.mirror.revision() {
                self.later.entry(revision).or_default().push(pending);
            } else {
                self.queue.push(pending);
            }
        }
    }

    /// Ends all transactions in flight: none can be made any more on the lanes of a process whose lease has expired.
    pub(in crate::engine) fn lose_registration(&mut self) {
        if self.lanes.take().is_none() {
            return;
        }
        self.mirror.locks.lease.end();
        self.end_waits();
        for flight in std::mem::take(&mut self.flights).into_values() {
            if let Some(group) = flight.group {
                self.forget_waits(&group);
                self.fail_group(group, &Error::Uncertain);
            }
        }
        self.actions.push(EngineAction::Register);
    }
}
