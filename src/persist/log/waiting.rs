//! Clients that wait for a confirmation.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Waker;

use parking_lot::Mutex;

/// The clients that wait for a confirmation, by number.
#[derive(Default)]
pub(super) struct ConfirmationWaiters {
    clients: Mutex<HashMap<u64, Client>>,
    /// Number of tickets so far.
    tickets: AtomicU64,
}

struct Client {
    position: u64,
    waker: Waker,
    /// Time at which the client was first seen to wait while the file could not be written, in monotonic milliseconds.
    seen_ms: Option<u64>,
}

/// A number for a task that waits and is no client; its wait ends once the ticket is dropped.
pub(super) struct WaitNumber<'w> {
    waiting: &'w ConfirmationWaiters,
    pub(super) number: u64,
}

impl ConfirmationWaiters {
    /// Has a client wait for a position unless it is confirmed; returns true if the client waits.
    pub(super) fn add(&self, client: u64, position: u64, waker: &Waker, confirmed: &AtomicU64) -> bool {
        let mut clients = self.clients.lock();
        let is_early = confirmed.load(Relaxed) < position; // read with the list locked, so that no client is missed
        if is_early {
            let seen_ms = clients.get(&client).and_then(|client| client.seen_ms);
            clients.insert(client, Client { position, waker: waker.clone(), seen_ms });
        }
        is_early
    }

    /// Removes a client that does not wait any more; always returns false.
    pub(super) fn remove(&self, client: u64) -> bool {
        self.clients.lock().remove(&client);
        false
    }

    /// Sets the confirmed position, and wakes the clients that have waited for it.
    pub(super) fn confirm(&self, position: u64, confirmed: &AtomicU64) {
        let mut clients = self.clients.lock();
        confirmed.store(position, Relaxed);
        clients.extract_if(|_, client| client.position <= position).for_each(|(_, client)| client.waker.wake());
    }

    /// Wakes all clients.
    pub(super) fn wake_all(&self) {
        self.clients.lock().drain().for_each(|(_, client)| client.waker.wake());
    }

    /// Returns the number of waiting clients.
    pub(super) fn count(&self) -> usize {
        self.clients.lock().len()
    }

    /// Returns the clients that have waited for longer than `patience_ms` since the first call of this function during
    /// their wait.
    pub(super) fn overdue(&self, now_ms: u64, patience_ms: u64) -> Vec<u64> {
        let mut clients = self.clients.lock();
        let is_overdue = |client: &mut Client| {
            let seen_ms = *client.seen_ms.get_or_insert(now_ms);
            now_ms.saturating_sub(seen_ms) >= patience_ms
        };
        clients.iter_mut().filter_map(|(number, client)| is_overdue(client).then_some(*number)).collect()
    }

    /// Returns a number that no client has: clients' numbers rise from one.
    pub(super) fn ticket(&self) -> WaitNumber<'_> {
        WaitNumber { waiting: self, number: u64::MAX - self.tickets.fetch_add(1, Relaxed) }
    }
}

impl Drop for WaitNumber<'_> {
    fn drop(&mut self) {
        self.waiting.remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_wait_for_too_long_are_found() {
        let (waiting, confirmed) = (ConfirmationWaiters::default(), AtomicU64::new(0));
        let waits = |client, position| waiting.add(client, position, Waker::noop(), &confirmed);
        assert!(waits(1, 10) && waiting.overdue(1000, 5000).is_empty());
        assert!(waits(2, 20) && waiting.overdue(3000, 5000).is_empty());
        assert!(waits(1, 10), "it was polled again");
        assert_eq!(waiting.overdue(6000, 5000), [1]);
        waiting.confirm(10, &confirmed);
        assert!(!waits(1, 10) && waiting.overdue(7999, 5000).is_empty());
        assert_eq!(waiting.overdue(8000, 5000), [2]);
    }

    #[test]
    fn a_ticket_that_is_dropped_waits_no_longer() {
        let (waiting, confirmed) = (ConfirmationWaiters::default(), AtomicU64::new(0));
        let (one, other) = (waiting.ticket(), waiting.ticket());
        assert!(waiting.add(one.number, 10, Waker::noop(), &confirmed));
        assert!(waiting.add(other.number, 10, Waker::noop(), &confirmed));
        drop(one);
        assert_eq!(waiting.count(), 1);
        drop(other);
        assert_eq!(waiting.count(), 0);
    }
}
