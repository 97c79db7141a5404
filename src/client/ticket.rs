//! A blocked call as a value: the one that takes it answers it.
//!
//! A blocked call may be ended by a command that makes a key ready, by its timeout, by CLIENT UNBLOCK, and by its client
//! leaving, all at the same moment and on different threads. Each of them asks the ticket, which lets one of them answer.
//! `tests/loom.rs` tries every interleaving.
//!
//! Lock order: shards before tickets, tickets before outboxes. No two tickets are locked at once.

use crate::client::sync::Mutex;

/// Holds a blocked call, and then its answer until the client's task fetches it.
pub(crate) struct Ticket<C, A> {
    state: Mutex<State<C, A>>,
}

enum State<C, A> {
    /// The call is blocked.
    Blocked(C),
    /// The call is answered, and the client's task does not know yet.
    Answered(A),
    /// The client's task has the answer, or the client has left.
    Over,
}

impl<C, A> Ticket<C, A> {
    /// Creates the ticket of a call that is blocked from now on.
    pub(crate) fn new(call: C) -> Self {
        Ticket { state: Mutex::new(State::Blocked(call)) }
    }

    /// Lets `serve` try to answer the call, if it is still blocked; it stays blocked where that gives no answer. Returns
    /// whether it was answered: the client's task is to be woken then.
    pub(crate) fn serve(&self, serve: impl FnOnce(&mut C) -> Option<A>) -> bool {
        let mut state = self.state.lock();
        let State::Blocked(call) = &mut *state else { return false };
        let Some(answer) = serve(call) else { return false };
        *state = State::Answered(answer);
        true
    }

    /// Fetches the answer, if there is one; for the client's task.
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

    /// Takes the call back, unless it is answered, so that nobody answers it any more; for the client's task, when the time
    /// is over or the client leaves.
    pub(crate) fn take(&self) -> Option<C> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Over) {
            State::Blocked(call) => Some(call),
            other => {
                *state = other;
                None
            }
        }
    }
}
