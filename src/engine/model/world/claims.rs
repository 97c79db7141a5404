//! Locks that no client claims any more: their holders are gone, or were not told that they have them.

use crate::engine::model::history::{HistoryAction, HistoryOperation};
use crate::engine::model::requests::{ModelKey, ModelRequest};
use crate::engine::model::world::{CLOCKS_DIFFER_MS, World};

impl World {
    /// Records that no client claims the lock with a token any more: it is released without another request.
    pub(super) fn give_up(&mut self, token: i64) {
        self.ledger.given_up.insert(token);
        let history = &mut self.histories[ModelKey::Lock as usize];
        let take = history.iter().find(|operation| operation.action == HistoryAction::Take(token));
        let called = take.map_or(self.tick, |take| if take.reply.is_some() { self.tick } else { take.called });
        history.push(HistoryOperation { action: HistoryAction::End(token), called, reply: None });
    }

    /// Records that clients of a process whose lease ends will not be told of the sessions that they are asking for.
    pub(super) fn give_up_sessions_of(&mut self, number: u64) {
        let processes = &self.processes;
        let is_of = |slot: usize| processes[slot].as_ref().is_some_and(|process| process.registration == Some(number));
        for agent in self.agents.iter().filter(|agent| is_of(agent.slot)) {
            if let Some((ModelRequest::AcquireSession(token), ..)) = agent.current {
                self.ledger.given_up.insert(token);
            }
        }
    }

    /// Records the end of a connection; returns the tokens that no client claims any more.
    pub(super) fn note_end(&mut self, at: usize) -> Vec<i64> {
        let agent = &mut self.agents[at];
        let acquired = agent.current.take().and_then(|(request, ..)| request.acquires());
        let tokens: Vec<i64> = acquired.into_iter().chain(agent.session.take()).collect();
        tokens.iter().for_each(|token| self.give_up(*token));
        tokens
    }

    /// Notes clients whose time in the queue is over: such a client may give the lock back before it is told that it
    /// has not got it.
    pub(super) fn note_timeouts(&mut self) {
        for agent in &self.agents {
            if let Some((ModelRequest::Acquire(token, _, Some(block_ms @ 1..)), _, asked_ms)) = agent.current
                && asked_ms + block_ms <= self.now_ms + CLOCKS_DIFFER_MS
            {
                self.ledger.given_up.insert(token);
            }
        }
    }
}
