//! Notices of maintenance, by which clients that have asked for them (`CLIENT MAINT_NOTIFICATIONS`) leave a server before it
//! ends, or wait longer for replies meanwhile. Their shapes are those that client libraries parse.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::client::info::{ClientInfo, NoticeMode};
use crate::client::outbox::PushFrame;
use crate::config::Config;
use crate::resp::{Protocol, Reply, parse_int};
use crate::time::clock::Now;

/// A notice of maintenance.
#[derive(Clone, Debug)]
pub(crate) enum MaintenanceNotice {
    /// The client is to go to another address within so many seconds; without an address to connect again.
    Moving { seconds: i64, address: Option<Box<[u8]>> },
    /// Something begins that takes about so many seconds, at these shards.
    Begins { kind: &'static str, seconds: i64, shards: Box<[u8]> },
    /// It is over.
    Ends { kind: &'static str, shards: Box<[u8]> },
    /// Slots begin to move.
    SlotsMigrating(Box<[u8]>),
    /// Slots have moved: source, destination, slots.
    SlotsMigrated(Vec<[Box<[u8]>; 3]>),
}

impl MaintenanceNotice {
    /// Returns true if a text is a host and a port, to which a client can be sent.
    pub(crate) fn is_address(text: &[u8]) -> bool {
        let Some(at) = text.iter().rposition(|byte| *byte == b':') else { return false };
        let (host, port) = (&text[..at], parse_int(&text[at + 1..]));
        !host.is_empty()
            && host.iter().all(u8::is_ascii_graphic)
            && port.is_some_and(|port| (1..=65535).contains(&port))
    }

    /// Writes the notice for a client; one without addresses is told none.
    fn write(&self, reply: &mut Reply<'_>, number: i64, has_addresses: bool) {
        let begin = |reply: &mut Reply<'_>, len: usize, kind: &str| {
            reply.push(len);
            reply.bulk(kind.as_bytes());
            reply.int(number);
        };
        match self {
            MaintenanceNotice::Moving { seconds, address } => {
                begin(reply, 4, "MOVING");
                reply.int(*seconds);
                match address.as_deref().filter(|_| has_addresses) {
                    Some(address) => reply.bulk(address),
                    None => reply.null(),
                }
            }
            MaintenanceNotice::Begins { kind, seconds, shards } => {
                begin(reply, 4, kind);
                reply.int(*seconds);
                reply.bulk(shards);
            }
            MaintenanceNotice::Ends { kind, shards } => {
                begin(reply, 3, kind);
                reply.bulk(shards);
            }
            MaintenanceNotice::SlotsMigrating(slots) => {
                begin(reply, 3, "SMIGRATING");
                reply.bulk(slots);
            }
            MaintenanceNotice::SlotsMigrated(moves) => {
                begin(reply, 3, "SMIGRATED");
                reply.array(moves.len());
                for triple in moves {
                    reply.array(triple.len());
                    triple.iter().for_each(|text| reply.bulk(text));
                }
            }
        }
    }
}

/// The notices of a namespace.
#[derive(Debug, Default)]
pub struct Maintenance {
    /// The number of the last notice.
    last: AtomicI64,
    /// The notice for clients that ask for notices from now on: the server is being drained.
    draining: Mutex<Option<(i64, MaintenanceNotice)>>,
}

impl Maintenance {
    /// Sends a notice to those of these clients that have asked for notices; returns how many these are.
    pub(crate) fn announce(
        &self,
        notice: &MaintenanceNotice,
        clients: &[Arc<ClientInfo>],
        at: (&Config, Now),
    ) -> usize {
        let number = self.last.fetch_add(1, Relaxed) + 1;
        clients.iter().filter(|client| send(notice, number, client, at)).count()
    }

    /// Announces that clients are to go to another server, also to those that ask for notices later.
    pub(crate) fn drain(&self, notice: MaintenanceNotice, clients: &[Arc<ClientInfo>], at: (&Config, Now)) {
        let mut draining = self.draining.lock();
        self.announce(&notice, clients, at);
        *draining = Some((self.last.load(Relaxed), notice));
    }

    /// Ends what [`Maintenance::drain`] has begun.
    pub(crate) fn stay(&self) {
        *self.draining.lock() = None;
    }

    /// Sends a client that has asked for notices the one that is in force.
    pub(crate) fn welcome(&self, client: &ClientInfo, at: (&Config, Now)) {
        if let Some((number, notice)) = &*self.draining.lock() {
            send(notice, *number, client, at);
        }
    }
}

/// Sends a notice to a client; returns false if it has not asked for notices.
fn send(notice: &MaintenanceNotice, number: i64, client: &ClientInfo, (config, now): (&Config, Now)) -> bool {
    let mode = client.flags.notices();
    if mode == NoticeMode::Off || client.session.protocol() != Protocol::Resp3 {
        return false;
    }
    let write = |reply: &mut Reply<'_>| notice.write(reply, number, mode == NoticeMode::WithAddresses);
    client.push(&mut PushFrame::new(&write), config, now)
}
