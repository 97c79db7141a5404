//! What a replica tells its primary of what it has: from time to time, and when it is asked.

use std::io;
use std::time::Duration;

use crate::namespace::Namespace;
use crate::replication::wire::Wire;

/// How often the primary is told, in milliseconds.
const TELL_EVERY_MS: u64 = 1000;

/// How often to look whether what the primary has asked about is in the file, and for how long, in milliseconds.
const LOOK_EVERY_MS: u64 = 1;
const LOOK_FOR_MS: u64 = 2 * TELL_EVERY_MS;

/// The state of what the primary is told.
pub(super) struct Acknowledgements {
    due_ms: u64,
    /// A question of the primary that is not answered in full.
    open: Option<Question>,
}

/// A question of the primary, which has to be told again.
#[derive(Clone, Copy)]
struct Question {
    /// The position behind all that was executed by then.
    position: u64,
    /// The position was acknowledged, but is not durable.
    is_acknowledged: bool,
    until_ms: u64,
}

impl Acknowledgements {
    /// Begins with the first, which is due.
    pub(super) fn new(now_ms: u64) -> Self {
        Acknowledgements { due_ms: now_ms, open: None }
    }

    /// Tells the primary up to where everything is executed, and, if there is an append-only file, is in it as its policy
    /// asks for; and up to where it is durable there. It is told when that is due, when it has asked, and again when more of
    /// what it has asked about is in the file. Returns how long there is nothing to tell.
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
                Some(Question { position: end, is_acknowledged: position >= end, until_ms: now_ms + LOOK_FOR_MS });
        }
        self.open.take_if(|open| open.is_over(synced) || open.until_ms <= now_ms);
        let next_ms = if self.open.is_some() { self.due_ms.min(now_ms + LOOK_EVERY_MS) } else { self.due_ms };
        Ok(Duration::from_millis(next_ms - now_ms))
    }
}

impl Question {
    /// Returns whether there is news: the position can be acknowledged now, or is durable now.
    fn is_answered(&mut self, acknowledged: u64, synced: Option<u64>) -> bool {
        let is_new = !self.is_acknowledged && acknowledged >= self.position;
        self.is_acknowledged |= is_new;
        is_new || self.is_durable(synced)
    }

    fn is_durable(&self, synced: Option<u64>) -> bool {
        synced.is_some_and(|synced| synced >= self.position)
    }

    /// Returns whether there is nothing more to tell.
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
