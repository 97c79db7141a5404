//! What a replica tells its primary of what it has: from time to time, and when it is asked.

use std::io;
use std::time::Duration;

use crate::namespace::Namespace;
use crate::replication::wire::Wire;

/// How often the primary is told, in milliseconds.
const TELL_EVERY_MS: u64 = 1000;

/// How often to look whether what the primary has asked about is durable, and for how long, in milliseconds.
const LOOK_EVERY_MS: u64 = 10;
const LOOK_FOR_MS: u64 = 2 * TELL_EVERY_MS;

/// What the primary is told, and when.
pub(super) struct Acknowledgements {
    due_ms: u64,
    /// What the primary has asked about and is executed, but not durable; and when that is not waited for any more.
    awaited: Option<(u64, u64)>,
}

impl Acknowledgements {
    /// Begins with the first, which is due.
    pub(super) fn new(now_ms: u64) -> Self {
        Acknowledgements { due_ms: now_ms, awaited: None }
    }

    /// Tells the primary up to where everything is executed, and up to where it is durable if there is an append-only file:
    /// when that is due, when it has asked, and once more when what it has asked about is durable. Returns how long there is
    /// nothing to tell.
    pub(super) fn tell(&mut self, wire: &mut Wire, namespace: &Namespace, is_asked: bool) -> io::Result<Duration> {
        let (now_ms, synced) = (wire.now_ms(), namespace.persistence.synced_position());
        let is_synced = self.awaited.is_some_and(|(position, _)| synced.is_some_and(|synced| synced >= position));
        if is_asked || is_synced || self.due_ms <= now_ms {
            let position = namespace.log.end();
            send(wire, position, synced)?;
            self.due_ms = now_ms + TELL_EVERY_MS;
            if is_synced {
                self.awaited = None;
            }
            if is_asked && synced.is_some_and(|synced| synced < position) {
                self.awaited = Some((position, now_ms + LOOK_FOR_MS));
            }
        }
        self.awaited.take_if(|(_, until_ms)| *until_ms <= now_ms);
        let next_ms = if self.awaited.is_some() { self.due_ms.min(now_ms + LOOK_EVERY_MS) } else { self.due_ms };
        Ok(Duration::from_millis(next_ms - now_ms))
    }
}

fn send(wire: &mut Wire, position: u64, synced: Option<u64>) -> io::Result<()> {
    let (position, synced) = (position.to_string(), synced.map(|synced| synced.to_string()));
    let mut words = vec![&b"REPLCONF"[..], b"ACK", position.as_bytes()];
    if let Some(synced) = &synced {
        words.extend([&b"FACK"[..], synced.as_bytes()]);
    }
    wire.send(&words)
}
