//! Blocked clients: by CLIENT PAUSE, or by what their command waits for.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::client::outbox::NUDGE;
use crate::client::registry::{ClientInfo, Clients};
use crate::client::ticket::Ticket;
use crate::store::NEVER;
use crate::time::clock::Now;

/// Says what a blocked client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// The end of a pause, which CLIENT UNBLOCK cannot bring.
    Pause,
    /// What its command waits for.
    Wait,
}

/// Says how a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unblocked {
    /// What was waited for has happened, or its time is over.
    InTime,
    /// CLIENT UNBLOCK ... ERROR asks for the command to fail.
    WithError,
}

/// Blocks a client for as long as it lives.
pub struct Blocked<'a> {
    clients: &'a Clients,
    info: &'a ClientInfo,
    ticket: Arc<Ticket<Block, Unblocked>>,
    until_ms: u64,
    is_timed: bool,
}

impl Blocked<'_> {
    /// Returns the outcome of the wait once it is over.
    pub fn ended(&self, now: Now) -> Option<Unblocked> {
        // An UNBLOCK at this moment comes first or has no effect.
        let is_over = || now.mono_ms() >= self.until_ms && self.ticket.take().is_some();
        self.ticket.fetch().or_else(|| is_over().then_some(Unblocked::InTime))
    }
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        self.ticket.take();
        self.clients.tickets.lock().remove(&self.info.id);
        self.info.is_blocked.store(false, Relaxed);
        self.clients.timed.fetch_sub(usize::from(self.is_timed), Relaxed);
    }
}

impl Clients {
    /// Blocks a client until a time, in monotonic milliseconds, or until it is unblocked.
    pub fn block<'a>(&'a self, info: &'a ClientInfo, block: Block, until_ms: u64) -> Blocked<'a> {
        let is_timed = block == Block::Wait && until_ms != NEVER;
        self.timed.fetch_add(usize::from(is_timed), Relaxed);
        let ticket = Arc::new(Ticket::new(block));
        self.tickets.lock().insert(info.id, ticket.clone());
        info.is_blocked.store(true, Relaxed);
        Blocked { clients: self, info, ticket, until_ms, is_timed }
    }

    /// Ends a client's wait as if its time were over, or with an error; returns whether it waited.
    pub fn unblock(&self, id: u64, unblocked: Unblocked) -> bool {
        self.end_wait(id, Block::Wait, unblocked)
    }

    /// Unblocks all clients that wait for the end of a pause.
    pub fn end_pause(&self) {
        let blocked: Vec<u64> = self.tickets.lock().keys().copied().collect();
        for id in blocked {
            self.end_wait(id, Block::Pause, Unblocked::InTime);
        }
    }

    fn end_wait(&self, id: u64, block: Block, unblocked: Unblocked) -> bool {
        let ticket = self.tickets.lock().get(&id).cloned();
        let (Some(client), Some(ticket)) = (self.find(id), ticket) else { return false };
        let is_over = ticket.serve(|waits_for| (*waits_for == block).then_some(unblocked));
        if is_over {
            client.outbox.signal(NUDGE);
        }
        is_over
    }

    /// Makes every blocked client look at the time: it was moved by hand.
    pub fn nudge_blocked(&self) {
        self.all().iter().filter(|client| client.is_blocked()).for_each(|client| client.outbox.signal(NUDGE));
    }

    /// Returns how many clients are blocked.
    pub fn blocked(&self) -> usize {
        self.tickets.lock().len()
    }

    /// Returns how many clients wait for something with a time limit of their own.
    pub fn timed(&self) -> usize {
        self.timed.load(Relaxed)
    }
}
