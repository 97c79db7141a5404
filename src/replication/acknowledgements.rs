//! Acknowledgements of a replica to its primary: from time to time, and on request (`REPLCONF GETACK`).

use std::io;
use std::time::Duration;

use crate::namespace::Namespace;
use crate::replication::wire::Wire;

/// Interval of acknowledgements, in milliseconds.
const TELL_EVERY_MS: u64 = 1000;

/// Interval of checks that the requested position is in the append-only file, and time limit of these checks, in
/// milliseconds.
const LOOK_EVERY_MS: u64 = 1;
const LOOK_FOR_MS: u64 = 2 * TELL_EVERY_MS;

pub(super) struct Acknowledgements {
    due_ms: u64,
    /// A request of the primary that is not answered in full.
    open: Option<AckRequest>,
}

/// A request of the primary, which needs a second acknowledgement.
#[derive(Clone, Copy)]
struct AckRequest {
    /// The position behind everything that was executed at the time of the request.
    position: u64,
    /// True if the position was acknowledged, but is not durable.
    is_acknowledged: bool,
    until_ms: u64,
}

impl Acknowledgements {
    /// Creates the state in which the first acknowledgement is due.
    pub(super) fn new(now_ms: u64) -> Self {
        Acknowledgements { due_ms: now_ms, open: None }
    }

    /// Sends the primary the position up to which everything is executed and, if there is an append-only file, is in it
    /// as its policy asks for; and the position up to which it is durable there. Sends when an acknowledgement is due,
    /// on request, and again when more of the requested range is in the file. Returns the time for which there is
    /// nothing to send.
    pub(super) fn tell(&mut self, wire: &mut Wire, namespace: &Namespace, is_asked: bool) -> io::Result<Duration> {
        let end = namespace.log.end();
        if namespace.log.confirmed() < end {
            namespace.log.flush();
        }
        let now_ms = wire.now_ms();
        let (position, synced) = (end.min(namespace.log.confirmed()), namespace.persistence.synced_position());
        let is_answered = self.open.as_mut().is_some_and(|open| open.is_answered(position, synced));
        if is_asked || is_answered || self.due_ms <= now_ms {
            send(wire, position, synced)?;
            self.due_ms = now_ms + TELL_EVERY_MS;
        }
        if is_asked {
            self.open =
                Some(AckRequest { position: end, is_acknowledged: position >= end, until_ms: now_ms + LOOK_FOR_MS });
        }
        self.open.take_if(|open| open.is_over(synced) || open.until_ms <= now_ms);
        let next_ms = if self.open.is_some() { self.due_ms.min(now_ms + LOOK_EVERY_MS) } else { self.due_ms };
        Ok(Duration::from_millis(next_ms - now_ms))
    }
}

impl AckRequest {
    /// Returns true if the position can be acknowledged now, or is durable now.
    fn is_answered(&mut self, acknowledged: u64, synced: Option<u64>) -> bool {
        let is_new = !self.is_acknowledged && acknowledged >= self.position;
        self.is_acknowledged |= is_new;
        is_new || self.is_durable(synced)
    }

    fn is_durable(&self, synced: Option<u64>) -> bool {
        synced.is_some_and(|synced| synced >= self.position)
    }

    /// Returns true if nothing more has to be sent.
    fn is_over(&self, synced: Option<u64>) -> bool {
        self.is_acknowledged && (synced.is_none() || self.is_durable(synced))
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
