//! Clients that wait: for the end of a pause, or for what their command waits for.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use crate::client::registry::{ClientInfo, Clients};
use crate::time::clock::Now;

/// Says what a client that is blocked waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// The end of a pause.
    Pause,
    /// What its command waits for.
    Wait,
}

/// Says how a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unblocked {
    /// Its time was over, or somebody said so.
    InTime,
    /// Somebody wanted the command to fail.
    WithError,
}

/// The states of a client between running and blocked.
pub(super) mod state {
    pub(crate) const FREE: u8 = 0;
    pub(crate) const PAUSED: u8 = 1;
    pub(crate) const WAITING: u8 = 2;
    pub(crate) const LET_GO: u8 = 3;
    pub(crate) const LET_GO_WITH_ERROR: u8 = 4;
}

/// Blocks a client as long as it lives.
pub struct Blocked<'a> {
    pub(super) clients: &'a Clients,
    pub(super) info: &'a ClientInfo,
    pub(super) until_ms: u64,
    pub(super) is_timed: bool,
}

impl Blocked<'_> {
    /// Returns the outcome of the wait once it is over.
    pub fn ended(&self, now: Now) -> Option<Unblocked> {
        if now.mono_ms() >= self.until_ms {
            // An UNBLOCK at this moment comes first or has no effect.
            let _ = self.info.blocked.compare_exchange(state::WAITING, state::LET_GO, AcqRel, Relaxed);
            let _ = self.info.blocked.compare_exchange(state::PAUSED, state::LET_GO, AcqRel, Relaxed);
        }
        match self.info.blocked.load(Acquire) {
            state::LET_GO => Some(Unblocked::InTime),
            state::LET_GO_WITH_ERROR => Some(Unblocked::WithError),
            _ => None,
        }
    }
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        self.info.blocked.store(state::FREE, Relaxed);
        self.clients.blocked.fetch_sub(1, Relaxed);
        self.clients.timed.fetch_sub(usize::from(self.is_timed), Relaxed);
    }
}
