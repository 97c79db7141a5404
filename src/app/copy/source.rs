//! The server that is read: its databases, their keys, and for each key the value and the TTL at one instant.
//!
//! Keys are read in batches. MEMORY USAGE tells the approximate size of a value beforehand, so that a batch is limited
//! in bytes as well.

use std::collections::{HashSet, VecDeque};

use bytes::Bytes;

use crate::app::copy::options::CopyOptions;
use crate::app::copy::peer::{CopyConnection, readable};
use crate::app::copy::tally::CopyTally;
use crate::app::endpoint::Endpoint;
use crate::resp::{Frame, write_command};

/// Number of keys that a call of SCAN is to return.
const SCAN_COUNT: &[u8] = b"1000";

/// Maximum number of keys of a batch.
const BATCH_KEYS: usize = 256;

/// Maximum size of the values of a batch, in bytes by MEMORY USAGE; a larger value is a batch of its own.
const BATCH_BYTES: u64 = 8 * 1024 * 1024;

/// Maximum length of the request for a batch, in bytes, unless it is for one key. It fits into the buffers of a socket:
/// a server that reads no further before its replies are read does not wait forever for this client.
const REQUEST_BYTES: usize = 32 * 1024;

/// Number of bytes of the request for a key, besides the key.
const REQUEST_OVERHEAD: usize = 96;

/// The assumed size of a value where the server does not tell.
const UNKNOWN_BYTES: u64 = BATCH_BYTES / 16;

/// Maximum number of keys that are remembered.
const RECENT_KEYS: usize = 64 * 1024;
/// Maximum length of all keys that are remembered, in bytes.
const RECENT_BYTES: usize = 8 * 1024 * 1024;

/// A key that was read.
pub(super) struct SourceKey {
    pub key: Bytes,
    /// TTL in milliseconds; 0 for none, as in RESTORE.
    pub ttl_ms: i64,
    /// Value as DUMP returns it; empty in a dry run.
    pub payload: Bytes,
}

/// The server, and the position of the scan.
pub(super) struct Source {
    peer: CopyConnection,
    pattern: Option<Vec<u8>>,
    dry_run: bool,
    /// Cursor of the next page; `None` after the last one.
    cursor: Option<Bytes>,
    /// Keys that SCAN has returned, each with the size of its value.
    found: VecDeque<(Bytes, u64)>,
    recent: Recent,
}

impl Source {
    /// Connects.
    ///
    /// # Errors
    /// If there is no connection, or the server refuses it.
    pub(super) fn connect(options: &CopyOptions) -> Result<Self, String> {
        let peer = CopyConnection::connect(&options.from, &options.tls)?;
        let (pattern, dry_run) = (options.pattern.clone(), options.dry_run);
        Ok(Source { peer, pattern, dry_run, cursor: None, found: VecDeque::new(), recent: Recent::default() })
    }

    /// Returns the databases to copy: the only one, or all that have keys.
    ///
    /// # Errors
    /// If the server does not tell.
    pub(super) fn databases(&mut self, endpoint: &Endpoint) -> Result<Vec<u32>, String> {
        if let Some(database) = endpoint.database {
            return Ok(vec![database]);
        }
        let info = match self.peer.ask(&[b"INFO", b"keyspace"])? {
            Frame::Error(text) => return Err(self.peer.refused("INFO keyspace", &text)),
            info => readable(info.as_bytes().unwrap_or_default()),
        };
        let number = |line: &str| line.strip_prefix("db")?.split_once(':')?.0.parse().ok();
        Ok(info.lines().filter_map(number).collect())
    }

    /// Begins with a database.
    ///
    /// # Errors
    /// If the server refuses it.
    pub(super) fn open(&mut self, database: u32) -> Result<(), String> {
        if let Some(refusal) = self.peer.select(database)? {
            return Err(self.peer.refused(&format!("SELECT {database}"), refusal.as_bytes()));
        }
        (self.cursor, self.recent) = (Some(Bytes::from_static(b"0")), Recent::default());
        Ok(())
    }

    /// Returns the keys of the next batch; none at the end of the database.
    ///
    /// # Errors
    /// If the connection fails, or SCAN is refused.
    pub(super) fn next_keys(&mut self) -> Result<Vec<Bytes>, String> {
        while self.found.is_empty()
            && let Some(cursor) = self.cursor.take()
        {
            self.scan(&cursor)?;
        }
        let (mut keys, mut bytes, mut request) = (Vec::new(), 0u64, 0);
        while let Some((key, size)) = self.found.front() {
            (bytes, request) = (bytes.saturating_add(*size), request + REQUEST_OVERHEAD + 2 * key.len());
            let is_full = keys.len() == BATCH_KEYS || bytes > BATCH_BYTES || request > REQUEST_BYTES;
            if is_full && !keys.is_empty() {
                break;
            }
            keys.extend(self.found.pop_front().map(|(key, _)| key));
        }
        Ok(keys)
    }

    /// Reads a page of keys with the sizes of their values.
    fn scan(&mut self, cursor: &[u8]) -> Result<(), String> {
        let mut words = vec![&b"SCAN"[..], cursor, b"COUNT", SCAN_COUNT];
        words.extend(self.pattern.iter().flat_map(|pattern| [&b"MATCH"[..], pattern]));
        let reply = match self.peer.ask(&words)? {
            Frame::Error(text) => return Err(self.peer.refused("SCAN", &text)),
            Frame::Array(reply) => <[Frame; 2]>::try_from(reply).ok(),
            _ => None,
        };
        let Some([Frame::Bulk(next), Frame::Array(page)]) = reply else {
            return Err(self.peer.refused("SCAN", b"the reply has another form"));
        };
        self.cursor = (*next != *b"0").then_some(next);
        let mut keys: Vec<Bytes> =
            page.into_iter().filter_map(|key| if let Frame::Bulk(key) = key { Some(key) } else { None }).collect();
        keys.retain(|key| self.recent.insert(key));
        let sizes = if self.dry_run { vec![0; keys.len()] } else { self.sizes(&keys)? };
        self.found.extend(keys.into_iter().zip(sizes));
        Ok(())
    }

    /// Requests the approximate sizes of values.
    fn sizes(&mut self, keys: &[Bytes]) -> Result<Vec<u64>, String> {
        let mut request = Vec::new();
        keys.iter().for_each(|key| write_command(&mut request, &[b"MEMORY", b"USAGE", key]));
        self.peer.write(&request)?;
        self.peer.flush()?;
        let size = |reply| match reply {
            Frame::Integer(size) => u64::try_from(size).unwrap_or(0),
            Frame::Null => 0,
            _ => UNKNOWN_BYTES,
        };
        keys.iter().map(|_| self.peer.receive().map(size)).collect()
    }

    /// Requests keys, each in a transaction of its own: a value with the TTL of an earlier one could be a lock that
    /// ends early.
    ///
    /// # Errors
    /// If the connection fails.
    pub(super) fn request(&mut self, keys: &[Bytes]) -> Result<(), String> {
        let mut request = Vec::new();
        for key in keys {
            if self.dry_run {
                write_command(&mut request, &[b"PTTL", key]);
                continue;
            }
            write_command(&mut request, &[b"MULTI"]);
            write_command(&mut request, &[b"PTTL", key]);
            write_command(&mut request, &[b"DUMP", key]);
            write_command(&mut request, &[b"EXEC"]);
        }
        self.peer.write(&request)?;
        self.peer.flush()
    }

    /// Waits for keys that were requested; skips keys that exist no more.
    ///
    /// # Errors
    /// If the connection fails.
    pub(super) fn take(&mut self, keys: Vec<Bytes>, tally: &mut CopyTally) -> Result<Vec<SourceKey>, String> {
        let mut items = Vec::with_capacity(keys.len());
        for key in keys {
            let read = if self.dry_run {
                read_ttl(&[self.peer.receive()?])
            } else {
                let mut replies = Vec::with_capacity(4);
                for _ in 0..4 {
                    replies.push(self.peer.receive()?);
                }
                read_value(&replies)
            };
            match read {
                Ok(Some((ttl_ms, payload))) => items.push(SourceKey { key, ttl_ms, payload }),
                Ok(None) => {}
                Err(reason) => tally.refused(&key, &format!("the source says: {reason}")),
            }
        }
        Ok(items)
    }
}

/// Reads the replies of a transaction: the TTL as in RESTORE, and the value; `None` if the key exists no more.
fn read_value(replies: &[Frame]) -> Result<Option<(i64, Bytes)>, String> {
    let Some(Frame::Array(results)) = replies.last() else { return Err(error_of(replies)) };
    match &results[..] {
        [Frame::Integer(_), Frame::Null] => Ok(None),
        [ttl @ Frame::Integer(_), Frame::Bulk(payload)] => {
            Ok(read_ttl(std::slice::from_ref(ttl))?.map(|(ttl_ms, _)| (ttl_ms, payload.clone())))
        }
        _ => Err(error_of(results)),
    }
}

/// Reads the reply of PTTL. A key that expires in this very millisecond has a TTL of 0, which means none in RESTORE.
fn read_ttl(replies: &[Frame]) -> Result<Option<(i64, Bytes)>, String> {
    match replies {
        [Frame::Integer(-1)] => Ok(Some((0, Bytes::new()))),
        [Frame::Integer(ttl_ms @ 0..)] => Ok(Some(((*ttl_ms).max(1), Bytes::new()))),
        [Frame::Integer(_)] => Ok(None),
        _ => Err(error_of(replies)),
    }
}

/// Returns the first error among replies.
fn error_of(replies: &[Frame]) -> String {
    let error = replies.iter().find_map(|reply| if let Frame::Error(text) = reply { Some(text) } else { None });
    error.map_or_else(|| "the reply has another form".into(), |text| readable(text))
}

/// Keys that SCAN has returned last. While the server resizes its table, SCAN may return a key again, and then soon.
#[derive(Default)]
struct Recent {
    keys: HashSet<Bytes>,
    order: VecDeque<Bytes>,
    bytes: usize,
}

impl Recent {
    /// Remembers a key; returns true if it is new.
    fn insert(&mut self, key: &[u8]) -> bool {
        if self.keys.contains(key) {
            return false;
        }
        let key = Bytes::copy_from_slice(key); // otherwise the key would keep the whole reply
        self.bytes += key.len();
        self.order.push_back(key.clone());
        self.keys.insert(key);
        while self.order.len() > RECENT_KEYS || self.bytes > RECENT_BYTES {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= oldest.len();
            self.keys.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_remembered_up_to_a_limit() {
        let mut recent = Recent::default();
        assert!(recent.insert(b"a") && !recent.insert(b"a"));
        let long = vec![b'x'; RECENT_BYTES];
        assert!(recent.insert(&long) && !recent.insert(&long) && recent.insert(b"a"));
        assert_eq!((recent.keys.len(), recent.bytes), (1, 1));
    }

    #[test]
    fn a_ttl_of_no_time_is_not_none() {
        let ttl = |ms| read_ttl(&[Frame::Integer(ms)]).map(|read| read.map(|(ttl_ms, _)| ttl_ms));
        assert_eq!([ttl(-2), ttl(-1), ttl(0), ttl(1), ttl(70)], [None, Some(0), Some(1), Some(1), Some(70)].map(Ok));
    }
}
