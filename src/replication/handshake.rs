//! Handshake of a replica with its primary, before it gets data.

use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering::Relaxed;

use tracing::{info, warn};

use crate::namespace::Namespace;
use crate::namespace::failover::FailoverStage;
use crate::namespace::history::ID_LEN;
use crate::replication::time::ask_time;
use crate::replication::wire::Wire;
use crate::time::estimate::TimeSample;

/// Answer of the primary to PSYNC.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Full resynchronisation, at a position in the history with a replication ID.
    Full { id: String, position: u64 },
    /// Partial resynchronisation from the requested position, perhaps under another ID.
    Continue { id: Option<String> },
}

/// Describes the replica to the primary, asks for its time, and requests the missing records, or all data.
///
/// # Errors
/// The reason for which the primary refuses at present.
pub(super) fn shake_hands(
    wire: &mut Wire,
    namespace: &Namespace,
    continues: bool,
) -> io::Result<(Answer, Option<TimeSample>)> {
    let config = namespace.settings.current();
    wire.send(&[b"PING"])?;
    let pong = wire.read_line()?;
    let needs_password =
        ["-NOAUTH", "-NOPERM", "-ERR operation not permitted"].iter().any(|text| pong.starts_with(text));
    if !pong.starts_with('+') && !needs_password {
        return Err(refused(format!("Error reply to PING from master: '{pong}'")));
    }
    info!("Master replied to PING, replication can continue...");
    wire.log_in(&config)?;
    let own = namespace.instance.tcp_port.load(Relaxed);
    let port = match (config.replica_announce_port, config.tls_port) {
        (0, tls_port) if config.tls_replication && tls_port != 0 => u64::from(tls_port),
        (0, _) => own,
        (port, _) => u64::from(port),
    };
    tell(wire, &[b"listening-port", port.to_string().as_bytes()])?;
    let time = ask_time(wire, &namespace.clock)?; // a primary that has heard of the replica notices if it is wrong soon after
    if let Some(ip) = &config.replica_announce_ip {
        tell(wire, &[b"ip-address", ip])?;
    }
    tell(wire, &[b"capa", b"eof", b"capa", b"psync2"])?;
    Ok((ask(wire, namespace, continues)?, time))
}

/// Sends a REPLCONF command that the primary may not understand.
fn tell(wire: &mut Wire, words: &[&[u8]]) -> io::Result<()> {
    let command: Vec<&[u8]> = [&b"REPLCONF"[..]].into_iter().chain(words.iter().copied()).collect();
    wire.send(&command)?;
    let reply = wire.read_line()?;
    if reply.starts_with('-') {
        let what = String::from_utf8_lossy(words[0]).into_owned();
        info!("(Non critical) Master does not understand REPLCONF {what}: {reply}");
    }
    Ok(())
}

/// Requests the records behind the replica's position.
fn ask(wire: &mut Wire, namespace: &Namespace, continues: bool) -> io::Result<Answer> {
    let (id, next) = (namespace.tenant.replication_id(), namespace.log.end() + 1);
    let next = next.to_string();
    let asked = [&b"PSYNC"[..], id.as_bytes(), next.as_bytes(), b"FAILOVER"];
    if continues {
        info!("Trying a partial resynchronization (request {id}:{next}).");
        let is_failover = namespace.failover.stage() == Some(FailoverStage::InProgress);
        wire.send(if is_failover { &asked } else { &asked[..3] })?;
    } else {
        info!("Partial resynchronization not possible (no cached master)");
        wire.send(&[b"PSYNC", b"?", b"-1"])?;
    }
    let reply = loop {
        let line = wire.read_line()?;
        if !line.is_empty() {
            break line; // empty lines are signs of life of the primary
        }
    };
    let words: Vec<&str> = reply.split(' ').collect();
    match words[..] {
        ["+FULLRESYNC", id, position] if id.len() == ID_LEN => {
            let position = position.parse().map_err(|_| refused(format!("it has replied {reply}")))?;
            info!("Full resync from master: {id}:{position}");
            Ok(Answer::Full { id: id.to_owned(), position })
        }
        ["+CONTINUE"] => Ok(Answer::Continue { id: None }),
        ["+CONTINUE", id] if id.len() == ID_LEN => Ok(Answer::Continue { id: Some(id.to_owned()) }),
        _ => {
            warn!("Master is currently unable to PSYNC but should be in the future: {reply}");
            Err(refused(format!("it has replied {reply}")))
        }
    }
}

fn refused(reason: String) -> io::Error {
    io::Error::new(ErrorKind::ConnectionRefused, reason)
}
