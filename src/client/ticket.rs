//! A blocked call as a value: the party that takes it answers it.
//!
//! A blocked call may be ended by a command that makes a key ready, by its timeout, by CLIENT UNBLOCK, and by a
//! disconnect, all at the same moment and on different threads. The ticket lets exactly one of them answer.
//! `tests/loom` checks every interleaving.
//!
//! Lock order: shards before tickets, tickets before outboxes. No two tickets are locked at once.

use crate::client::sync::Mutex;

/// A blocked call, and then its answer until the client's task fetches it.
pub(crate) struct Ticket<C, A> {
    state: Mutex<State<C, A>>,
}

enum State<C, A> {
    /// The call is blocked.
    Blocked(C),
    /// The call is answered; the client's task has not fetched the answer.
    Answered(A),
    /// The client's task has the answer, or the client has disconnected.
    Over,
}

impl<C, A> Ticket<C, A> {
    /// Creates the ticket of a call that is now blocked.
    pub(crate) fn new(call: C) -> Self {
        Ticket { state: Mutex::new(State::Blocked(call)) }
    }

    /// Calls `serve` to answer the call, if it is still blocked; without an answer it stays blocked. Returns true if
    /// the call was answered: the client's task must be woken then.
    pub(crate) fn serve(&self, serve: impl FnOnce(&mut C) -> Option<A>) -> bool {
        let mut state = self.state.lock();
        let State::Blocked(call) = &mut *state else { return false };
        let Some(answer) = serve(call) else { return false };
        *state = State::Answered(answer);
        true
    }

    /// Returns true if there is an answer that the client's task has not fetched.
    pub(crate) fn is_answered(&self) -> bool {
        matches!(*self.state.lock(), State::Answered(_))
    }

    /// Returns true while the call is blocked: nobody has answered it or taken it back.
    pub(crate) fn is_blocked(&self) -> bool {
        matches!(*self.state.lock(), State::Blocked(_))
    }

    /// Fetches the answer, if there is one; called by the client's task.
    pub(crate) fn fetch(&self) -> Option<A> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Over) {
            State::Answered(answer) => Some(answer),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Takes the call back, unless it is answered, so that no other party answers it; called by the client's task on
    /// disconnect.
    pub(crate) fn take(&self) -> Option<C> {
        self.take_if(|_| true)
    }

    /// Takes the call back, like [`Ticket::take`], if it meets a condition; called by the client's task on timeout.
    pub(crate) fn take_if(&self, may_end: impl FnOnce(&C) -> bool) -> Option<C> {
        let mut state = self.state.lock();
        if matches!(&*state, State::Blocked(call) if !may_end(call)) {
            return None;
        }
        match std::mem::replace(&mut *state, State::Over) {
            State::Blocked(call) => Some(call),
            other => {
                *state = other;
                None
            }
        }
    }
}
