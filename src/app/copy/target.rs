//! The server that is written.
//!
//! Several connections share a batch: a cluster confirms the write of a connection before it executes the next one.

use bytes::Bytes;

use crate::app::copy::options::CopyOptions;
use crate::app::copy::peer::{CopyConnection, readable};
use crate::app::copy::source::SourceKey;
use crate::app::copy::tally::CopyTally;
use crate::resp::{Frame, begin_command, begin_word, write_command, write_word};

/// Number of connections that write.
const CONNECTIONS: usize = 8;

/// Length from which on a payload is sent without a copy in the request, in bytes.
const LARGE: usize = 64 * 1024;

/// The longest payload that a server accepts, in bytes: the default of `proto-max-bulk-len`. A longer one would end the
/// connection.
const PAYLOAD_MAX: usize = 512 * 1024 * 1024;

/// The server that is written.
pub(super) struct TargetServer {
    peers: Vec<CopyConnection>,
    replace: bool,
    dry_run: bool,
}

impl TargetServer {
    /// Connects.
    ///
    /// # Errors
    /// If there is no connection, or the server refuses it.
    pub(super) fn connect(options: &CopyOptions) -> Result<Self, String> {
        let count = if options.dry_run { 1 } else { CONNECTIONS };
        let peers = (0..count).map(|_| CopyConnection::connect(&options.to, &options.tls)).collect::<Result<_, _>>()?;
        Ok(TargetServer { peers, replace: options.replace, dry_run: options.dry_run })
    }

    /// Selects a database; returns the server's refusal, if any.
    ///
    /// # Errors
    /// If a connection fails.
    pub(super) fn select(&mut self, database: u32) -> Result<Option<String>, String> {
        for peer in &mut self.peers {
            if let Some(refusal) = peer.select(database)? {
                return Ok(Some(refusal));
            }
        }
        Ok(None)
    }

    /// Writes keys, or in a dry run asks whether they exist.
    ///
    /// # Errors
    /// If a connection fails.
    pub(super) fn put(&mut self, mut items: Vec<SourceKey>, tally: &mut CopyTally) -> Result<(), String> {
        items.retain(|item| {
            let fits = item.payload.len() <= PAYLOAD_MAX;
            if !fits {
                tally.refused(&item.key, &format!("its dump has {} bytes, too many for RESTORE", item.payload.len()));
            }
            fits
        });
        let share = items.len().div_ceil(self.peers.len()).max(1);
        for (peer, items) in self.peers.iter_mut().zip(items.chunks(share)) {
            if self.dry_run {
                ask_for(peer, items)?;
            } else {
                restore(peer, items, self.replace)?;
            }
        }
        for (peer, items) in self.peers.iter_mut().zip(items.chunks(share)) {
            for item in items {
                match peer.receive()? {
                    Frame::Error(text) if text.starts_with(b"BUSYKEY") => tally.existing(&item.key),
                    Frame::Error(text) => tally.refused(&item.key, &readable(&text)),
                    Frame::Integer(1) if !self.replace => tally.existing(&item.key),
                    _ => tally.copied(item.ttl_ms > 0, item.payload.len()),
                }
            }
        }
        Ok(())
    }
}

fn ask_for(peer: &mut CopyConnection, items: &[SourceKey]) -> Result<(), String> {
    let mut request = Vec::new();
    items.iter().for_each(|item| write_command(&mut request, &[b"EXISTS", &item.key]));
    peer.write(&request)?;
    peer.flush()
}

fn restore(peer: &mut CopyConnection, items: &[SourceKey], replace: bool) -> Result<(), String> {
    let mut request = Vec::new();
    for SourceKey { key, ttl_ms, payload } in items {
        begin_command(&mut request, if replace { 5 } else { 4 });
        [&b"RESTORE"[..], key, ttl_ms.to_string().as_bytes()].iter().for_each(|word| write_word(&mut request, word));
        write_payload(peer, &mut request, payload)?;
        if replace {
            write_word(&mut request, b"REPLACE");
        }
    }
    peer.write(&request)?;
    peer.flush()
}

/// Appends a payload to a request; if the payload is large, sends the request so far, and the payload.
fn write_payload(peer: &mut CopyConnection, request: &mut Vec<u8>, payload: &Bytes) -> Result<(), String> {
    if payload.len() < LARGE {
        write_word(request, payload);
        return Ok(());
    }
    begin_word(request, payload.len());
    peer.write(request)?;
    peer.write(payload)?;
    request.clear();
    request.extend_from_slice(b"\r\n");
    Ok(())
}
