//! MONITOR: the clients that run it, and the format of its lines.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::client::info::ClientInfo;
use crate::client::outbox::PushFrame;
use crate::config::Config;
use crate::text::quote;
use crate::time::clock::Now;

/// The clients that run MONITOR.
#[derive(Default)]
pub struct Monitors {
    clients: Mutex<Vec<Arc<ClientInfo>>>,
    /// Number of the clients, which is read at the beginning of every batch.
    count: AtomicUsize,
}

impl Monitors {
    /// Returns true if no client runs MONITOR.
    pub fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Returns how many clients run MONITOR.
    pub fn len(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Returns true if a client runs MONITOR.
    pub fn has(&self, id: u64) -> bool {
        self.clients.lock().iter().any(|client| client.id == id)
    }

    /// Adds a client.
    pub fn add(&self, client: Arc<ClientInfo>) {
        let mut clients = self.clients.lock();
        clients.push(client);
        self.count.store(clients.len(), Relaxed);
    }

    /// Removes a client.
    pub fn remove(&self, id: u64) {
        if self.is_empty() {
            return;
        }
        let mut clients = self.clients.lock();
        clients.retain(|client| client.id != id);
        self.count.store(clients.len(), Relaxed);
    }

    /// Sends a line to all monitors but one. The lock keeps the lines in the same order for all.
    pub fn show(&self, line: &[u8], but: u64, config: &Config, now: Now) {
        let write = |reply: &mut crate::resp::Reply<'_>| reply.raw(line);
        let mut push_frame = PushFrame::new(&write);
        for client in self.clients.lock().iter().filter(|client| client.id != but) {
            client.push(&mut push_frame, config, now);
        }
    }
}

/// Formats a call as a line: time, database, caller and arguments.
pub(crate) fn line<'a>(unix_us: i64, db: usize, caller: &str, args: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let (seconds, micros) = (unix_us.div_euclid(1_000_000), unix_us.rem_euclid(1_000_000));
    let mut line = format!("+{seconds}.{micros:06} [{db} {caller}]").into_bytes();
    for word in args {
        line.push(b' ');
        line.extend_from_slice(quote(word).as_bytes());
    }
    line.extend_from_slice(b"\r\n");
    line
}
