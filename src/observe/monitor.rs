//! Who watches every call (MONITOR), and how a call is written for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::client::outbox::PushFrame;
use crate::client::registry::ClientInfo;
use crate::config::Config;
use crate::text::quote;
use crate::time::clock::Now;

/// Lists the clients that watch.
#[derive(Default)]
pub struct Monitors {
    clients: Mutex<Vec<Arc<ClientInfo>>>,
    /// Their number, which is asked for at the beginning of every turn.
    count: AtomicUsize,
}

impl Monitors {
    /// Returns whether nobody watches.
    pub fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Returns how many watch.
    pub fn len(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Returns whether a client watches.
    pub fn has(&self, id: u64) -> bool {
        self.clients.lock().iter().any(|client| client.id == id)
    }

    /// Lets a client watch from now on.
    pub fn add(&self, client: Arc<ClientInfo>) {
        let mut clients = self.clients.lock();
        clients.push(client);
        self.count.store(clients.len(), Relaxed);
    }

    /// Lets a client watch no more.
    pub fn remove(&self, id: u64) {
        if self.is_empty() {
            return;
        }
        let mut clients = self.clients.lock();
        clients.retain(|client| client.id != id);
        self.count.store(clients.len(), Relaxed);
    }

    /// Shows everybody a line but one client, who has seen it. The lock keeps the lines in one order for all.
    pub fn show(&self, line: &[u8], but: u64, config: &Config, now: Now) {
        let write = |reply: &mut crate::resp::Reply<'_>| reply.raw(line);
        let mut letter = PushFrame::new(&write);
        for client in self.clients.lock().iter().filter(|client| client.id != but) {
            client.push(&mut letter, config, now);
        }
    }
}

/// Writes a call as a line: when, in which database, by whom, and what.
pub(crate) fn line<'a>(unix_us: i64, db: usize, caller: &str, words: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let (seconds, micros) = (unix_us.div_euclid(1_000_000), unix_us.rem_euclid(1_000_000));
    let mut line = format!("+{seconds}.{micros:06} [{db} {caller}]").into_bytes();
    for word in words {
        line.push(b' ');
        line.extend_from_slice(quote(word).as_bytes());
    }
    line.extend_from_slice(b"\r\n");
    line
}
