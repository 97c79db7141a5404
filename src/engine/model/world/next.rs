//! Choice of the next event.

use crate::engine::model::requests::ModelRequest;
use crate::engine::model::world::{Agent, World, WorldEvent};

impl World {
    /// Returns the possible next events besides accidents, in a deterministic order.
    pub(in crate::engine::model) fn enabled(&self) -> Vec<WorldEvent> {
        let mut events: Vec<WorldEvent> = Vec::new();
        let can_send = |agent: &Agent| {
            let next = agent.script.front();
            !agent.connection.is_closed()
                && next.is_some_and(|next| !agent.connection.is_waiting() || *next == ModelRequest::Close)
        };
        events.extend((0..self.agents.len()).filter(|at| can_send(&self.agents[*at])).map(WorldEvent::Request));
        for (id, message) in &self.messages {
            if self.is_stuck(id.0) && message.answer.is_some() {
                continue;
            }
            events.push(if message.answer.is_some() { WorldEvent::Answer(*id) } else { WorldEvent::Arrive(*id) });
        }
        for (slot, process) in self.processes.iter().enumerate() {
            let Some(process) = process.as_ref().filter(|process| !process.is_stuck) else { continue };
            if process.loading.is_some() {
                events.push(WorldEvent::Loaded(slot));
            } else if process.told < self.cluster.history.len() {
                events.push(WorldEvent::Step(slot));
            } else if process.core.awaits_mirror() {
                events.push(WorldEvent::Progress(slot));
            }
            if process.registration.is_none() {
                events.push(WorldEvent::Register(slot));
            }
        }
        events.extend(self.ghosts.iter().copied().map(WorldEvent::EndLease));
        events
    }

    pub(in crate::engine::model) fn accidents(&self) -> Vec<WorldEvent> {
        let mut events: Vec<WorldEvent> = Vec::new();
        if self.losses_left > 0 {
            events.extend(
                self.messages.iter().filter(|(_, message)| !message.is_lost).map(|(id, _)| WorldEvent::Lose(*id)),
            );
        }
        events.extend(self.may_crash.map(WorldEvent::Crash));
        events.extend(self.may_reload.map(WorldEvent::Reload));
        events.extend(self.passages.front().copied().map(WorldEvent::Pass));
        events
    }
}
