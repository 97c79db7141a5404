//! Locks that no client claims any more: their holders are gone, or were not told that they have them.

use crate::engine::model::history::{HistoryAction, HistoryOperation, Told};
use crate::engine::model::requests::{ModelKey, ModelRequest};
use crate::engine::model::world::{CLOCKS_DIFFER_MS, World};

impl World {
    /// Records that no client claims the lock with a token any more: it is released without another request.
    pub(super) fn give_up(&mut self, token: i64) {
        self.ledgers.iter_mut().for_each(|ledger| _ = ledger.given_up.insert(token));
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
                self.ledgers[0].given_up.insert(token);
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
                self.ledgers[0].given_up.insert(token);
            }
        }
    }

    /// Records what a client knows of its locks after a reply.
    pub(super) fn claim(
        &mut self,
        at: usize,
        (request, asked_ms): (ModelRequest, u64),
        told: Option<Told>,
        reply: &str,
    ) {
        let Some(token) = request.token() else { return };
        let has_it = matches!(told, Some(Told::Fence | Told::Ok | Told::Number(1)));
        if !has_it {
            self.agents[at].refused.extend(told.map(|_| token));
            // A client whose conversion has failed still has the lock.
            if request.acquires().is_some() && !(request.is_conversion() && told.is_none()) {
                self.give_up(token);
            }
            return;
        }
        match request {
            ModelRequest::Convert(..) => self.seen.converted += 1,
            ModelRequest::AcquirePermits(..) => self.seen.permits += 1,
            ModelRequest::AcquireBoth(..) => self.seen.several += 1,
            _ => {}
        }
        let agent = &mut self.agents[at];
        if matches!(request, ModelRequest::AcquireSession(_)) || agent.possible_sessions.contains(&token) {
            agent.session = Some(token);
        }
        let mut fences = reply.split(' ').filter_map(|word| word.strip_prefix(':')?.parse().ok());
        for ledger in self.ledgers.iter_mut().filter(|ledger| request.locks().contains(&ledger.lock)) {
            ledger.given_up.remove(&token);
            let fence = if request.acquires().is_some() { fences.next() } else { None };
            if let Err(reason) = ledger.check_told(token, fence, (asked_ms, self.now_ms)) {
                self.failure.get_or_insert(reason);
            }
        }
    }

    /// Checks that clients which ask for both locks have got both of them at once.
    pub(super) fn check_both(&self) -> Result<(), String> {
        let asked = self.agents.iter().filter_map(|agent| match agent.current {
            Some((ModelRequest::AcquireBoth(token, _), ..)) => Some(token),
            _ => None,
        });
        let [one, other] = &self.ledgers;
        if one.is_rough {
            return Ok(()); // one of them may have been taken away in the same transaction
        }
        match asked.into_iter().find(|token| one.has_had(*token) != other.has_had(*token)) {
            Some(token) => Err(format!("token {token} has got one of two locks")),
            None => Ok(()),
        }
    }
}
