//! The end of a history: all messages arrive, all TTLs end, and the final state is checked.

use crate::engine::model::history::{HistoryAction, is_linearizable};
use crate::engine::model::ledger::{LOCK, OTHER_LOCK};
use crate::engine::model::requests::{ModelKey, ModelRequest};
use crate::engine::model::world::{World, WorldEvent};
use crate::engine::names::EtcdName;

/// Number and duration, in milliseconds, of the rounds for which clients may wait at the end, until all queued ones
/// were served.
const LAST_ROUNDS: usize = 80;
const LAST_ROUND_MS: u64 = 500;
/// Least number of these rounds, until all requests have an outcome.
const SETTLING_ROUNDS: usize = 14;

impl World {
    /// Delivers all messages in flight, in order.
    pub(in crate::engine::model) fn deliver_all(&mut self) {
        for _ in 0..10_000 {
            let is_of_client = |event: &WorldEvent| matches!(event, WorldEvent::Request(_));
            let Some(next) = self.enabled().into_iter().find(|event| !is_of_client(event)) else { return };
            if self.failure.is_some() {
                return;
            }
            self.execute(next);
        }
        self.fail("there is always something on the way".into());
    }

    /// Closes the connections that do not wait: the locks that are bound to them end.
    fn close_idle(&mut self) {
        for at in 0..self.agents.len() {
            if !self.agents[at].connection.is_waiting() && !self.agents[at].connection.is_closed() {
                self.close(at);
                self.settle(self.agents[at].slot);
            }
        }
    }

    /// Delivers all messages, ends all TTLs, and checks the final state.
    pub(in crate::engine::model) fn finish(&mut self) {
        self.agents.iter_mut().for_each(|agent| agent.script.clear());
        if self.may_fill {
            self.execute(WorldEvent::Fill(false));
        }
        for slot in self.living() {
            self.execute(WorldEvent::CutOff(slot, false));
            self.execute(WorldEvent::Stick(slot, false));
        }
        for round in 0..LAST_ROUNDS {
            self.deliver_all();
            self.close_idle();
            self.deliver_all();
            let is_over = round < SETTLING_ROUNDS || self.is_over_by(self.now_ms + LAST_ROUNDS as u64 * LAST_ROUND_MS);
            if self.failure.is_some() || !is_over || !self.agents.iter().any(|agent| agent.connection.is_waiting()) {
                break;
            }
            self.execute(WorldEvent::Pass(LAST_ROUND_MS));
        }
        self.check();
        self.seen.hand_overs = self.ledgers.iter().map(|ledger| ledger.hand_overs).sum();
        let over = self.histories[ModelKey::Lock as usize]
            .iter()
            .filter(|operation| matches!(operation.action, HistoryAction::End(_)));
        self.seen.expired = over.count();
    }

    /// Returns true if the present locks are over by a time, at the latest, or are free.
    fn is_over_by(&self, ms: u64) -> bool {
        self.ledgers.iter().all(|ledger| ledger.is_over_by(ms))
    }

    /// Checks the state after all messages were delivered.
    fn check(&mut self) {
        if self.failure.is_some() {
            return;
        }
        let waiting = self.agents.iter().filter(|agent| agent.connection.is_waiting());
        let waiting: Vec<Option<ModelRequest>> =
            waiting.map(|agent| agent.current.map(|(request, ..)| request)).collect();
        if let Some(request) = waiting.iter().flatten().next()
            && (!request.may_queue() || self.is_over_by(self.now_ms.saturating_sub(LAST_ROUND_MS)))
        {
            return self.fail(format!("{request:?} waits for ever"));
        }
        for key in [ModelKey::Number.name(), LOCK, OTHER_LOCK] {
            let name = (0, Box::from(key.as_bytes()));
            let present =
                self.cluster.read(&self.prefix.name(&EtcdName::Key(name.clone()))).map_or(0, |pair| pair.mod_revision);
            let mirrors = self.processes.iter().flatten().map(|process| process.core.mirror.mod_revision(&name));
            if mirrors.into_iter().any(|mirrored| mirrored != present) {
                return self.fail(format!("a mirror has not what the cluster has of the key {key}"));
            }
        }
        for key in [ModelKey::Number, ModelKey::Lock] {
            let is_of_one = key != ModelKey::Lock || self.is_exclusive;
            if is_of_one && !is_linearizable(&self.histories[key as usize]) {
                let lines: Vec<String> = self.histories[key as usize].iter().map(|each| format!("{each:?}")).collect();
                return self.fail(format!("no order explains what is told of {}:\n{}", key.name(), lines.join("\n")));
            }
        }
    }
}
