//! The replicas that are sent one snapshot: replicas that read as fast as it is written are sent it directly, the
//! others get the rest from a file, each by a thread of its own. So the snapshot waits for no replica, and no client
//! waits for the snapshot.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;
use tracing::{info, warn};

use crate::client::replica::{SyncPart, WaitingReplica};
use crate::namespace::Namespace;
use crate::persist::LogReader;
use crate::persist::disk::{Disk, DiskFile, write_all};
use crate::text::system_text;

/// Least length of a part that is sent, in bytes.
pub(super) const PART_LEN: usize = 64 << 10;

/// The pause before the next attempt to send to a replica that does not read, and the number of pauses of one snapshot
/// before the rest goes through a file.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSES_MAX: u32 = 100;

/// The replicas that are sent one snapshot.
pub(super) struct SnapshotReceivers<'n> {
    namespace: &'n Arc<Namespace>,
    disk: &'n Arc<dyn Disk>,
    consumers: Vec<Consumer>,
    /// Number of bytes of the snapshot so far.
    len: u64,
    pauses_left: u32,
    /// The path of the file for replicas that are behind, and the file once it exists.
    path: PathBuf,
    spool: Option<Spool>,
    /// Set if no file can be created; a slow replica is then waited for, unless that makes clients wait.
    has_no_disk: bool,
}

struct Consumer {
    parts: Sender<SyncPart>,
    name: String,
    /// The position in the snapshot from which on it gets its bytes from the file, if it is behind.
    behind_from: Option<u64>,
}

/// A file with the bytes of a snapshot from a position on. Its name is removed when it is dropped.
struct Spool {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    begin: u64,
}

impl Drop for Spool {
    fn drop(&mut self) {
        let _ = self.disk.remove(&self.path); // an open file can still be read
    }
}

/// The result of an attempt to send.
enum Sent {
    Done,
    /// The replica has not read the parts sent before.
    Behind,
    /// The replica is gone, or the snapshot was cancelled.
    Gone,
}

impl<'n> SnapshotReceivers<'n> {
    /// Creates an empty list, with the path of the file for replicas that are behind.
    pub(super) fn new(namespace: &'n Arc<Namespace>, disk: &'n Arc<dyn Disk>, path: PathBuf) -> Self {
        let (consumers, pauses_left) = (Vec::new(), PAUSES_MAX);
        SnapshotReceivers { namespace, disk, consumers, len: 0, pauses_left, path, spool: None, has_no_disk: false }
    }

    /// Adds a replica, and tells it the position at which the log continues behind the snapshot.
    pub(super) fn begin(&mut self, WaitingReplica { replica, parts, .. }: WaitingReplica, reader: LogReader, id: &str) {
        let is_old = replica.is_old.load(Relaxed);
        let line = if is_old { String::new() } else { format!("+FULLRESYNC {id} {}\r\n", reader.position()) };
        if parts.blocking_send(SyncPart::Begin(line.into(), reader)).is_ok() {
            self.consumers.push(Consumer { parts, name: replica.shown_name(), behind_from: None });
        }
    }

    /// Sends bytes to all replicas that are still connected.
    ///
    /// # Errors
    /// An error if no replica is left.
    pub(super) fn send(&mut self, bytes: &Bytes) -> io::Result<()> {
        let mut consumers = std::mem::take(&mut self.consumers);
        consumers.retain_mut(|consumer| match consumer.behind_from {
            Some(_) => !consumer.parts.is_closed(),
            None => match self.offer(consumer, SyncPart::Bytes(bytes.clone())) {
                Sent::Gone => false,
                Sent::Done => true,
                Sent::Behind => {
                    consumer.behind_from = Some(self.len);
                    true
                }
            },
        });
        self.consumers = consumers;
        if let Some(spool) = &self.spool
            && let Err(cause) = write_all(&*spool.file, bytes)
        {
            self.cut_those_behind(&cause);
        }
        self.len += bytes.len() as u64;
        self.check()
    }

    /// Checks that a replica is left.
    ///
    /// # Errors
    /// An error if no replica is left.
    pub(super) fn check(&self) -> io::Result<()> {
        if self.consumers.iter().all(|consumer| consumer.parts.is_closed()) {
            return Err(io::Error::other("no replica is left"));
        }
        Ok(())
    }

    /// Ends the snapshot, after which the replicas may have to acknowledge it. Replicas that are behind are sent the
    /// rest by threads.
    ///
    /// # Errors
    /// Errors of reading the file, or of starting a thread.
    pub(super) fn end(mut self, waits: bool) -> io::Result<()> {
        for mut consumer in std::mem::take(&mut self.consumers) {
            if consumer.behind_from.is_none() {
                match self.offer(&mut consumer, SyncPart::End { waits }) {
                    Sent::Done | Sent::Gone => continue,
                    Sent::Behind => consumer.behind_from = Some(self.len),
                }
            }
            let from = consumer.behind_from.unwrap_or(self.len);
            let content: Box<dyn Read + Send> = match &self.spool {
                Some(spool) if from < self.len => {
                    let (mut reader, _) = self.disk.read(&spool.path)?;
                    io::copy(&mut (&mut reader).take(from - spool.begin), &mut io::sink())?;
                    reader
                }
                _ => Box::new(io::empty()),
            };
            let rest = SyncRemainder { line: None, content, left: self.len - from, waits };
            rest.send_by_thread(consumer, self.namespace)?;
        }
        Ok(())
    }

    /// Sends all of a file of length `len` by threads, and removes its name.
    ///
    /// # Errors
    /// Errors of reading the file, or of starting a thread.
    pub(super) fn send_file(mut self, len: u64) -> io::Result<()> {
        let opened: io::Result<Vec<_>> = self.consumers.iter().map(|_| self.disk.read(&self.path)).collect();
        let _ = self.disk.remove(&self.path); // an open file can still be read
        for (consumer, (content, _)) in std::mem::take(&mut self.consumers).into_iter().zip(opened?) {
            let line = Some(SyncPart::File(format!("${len}\r\n").into()));
            SyncRemainder { line, content, left: len, waits: false }.send_by_thread(consumer, self.namespace)?;
        }
        Ok(())
    }

    /// Tries to send a part to a replica that is not behind.
    fn offer(&mut self, consumer: &mut Consumer, mut part: SyncPart) -> Sent {
        loop {
            part = match consumer.parts.try_send(part) {
                Ok(()) => return Sent::Done,
                Err(TrySendError::Closed(_)) => return Sent::Gone,
                Err(TrySendError::Full(back)) => back,
            };
            if self.namespace.persistence.cancelled().load(Relaxed) {
                return Sent::Gone;
            }
            let reclaimer = self.namespace.store.reclaimer();
            if self.has_no_disk && (reclaimer.is_behind() || reclaimer.has_given_up()) {
                warn!("Disconnecting replica {}: it reads slowly, and others would wait for it", consumer.name);
                return Sent::Gone;
            }
            if !self.has_no_disk && self.pauses_left == 0 && self.begin_spool() {
                return Sent::Behind;
            }
            self.pauses_left = self.pauses_left.saturating_sub(1);
            thread::park_timeout(PAUSE);
        }
    }

    /// Begins the file for replicas that are behind, unless it exists; returns true if it exists then.
    fn begin_spool(&mut self) -> bool {
        if self.spool.is_none() {
            match self.namespace.persistence.begin_file(|| self.disk.create(&self.path)) {
                Ok(file) => {
                    let (disk, path, begin) = (self.disk.clone(), self.path.clone(), self.len);
                    self.spool = Some(Spool { disk, path, file, begin });
                }
                Err(cause) => {
                    let (path, cause) = (self.path.display(), system_text(&cause));
                    warn!("A slow replica is waited for, as {path} cannot be created for it: {cause}");
                    self.has_no_disk = true;
                }
            }
        }
        self.spool.is_some()
    }

    /// Disconnects the replicas that are behind, as the file cannot be written.
    fn cut_those_behind(&mut self, cause: &io::Error) {
        let cause = system_text(cause);
        self.consumers.retain(|consumer| {
            let is_behind = consumer.behind_from.is_some();
            if is_behind {
                let name = &consumer.name;
                warn!("Disconnecting replica {name}: it reads slowly, and the rest cannot be written for it: {cause}");
            }
            !is_behind
        });
        (self.spool, self.has_no_disk) = (None, true);
    }
}

/// The rest of a synchronisation for one replica.
struct SyncRemainder {
    /// The line before the bytes, if there is one.
    line: Option<SyncPart>,
    content: Box<dyn Read + Send>,
    left: u64,
    waits: bool,
}

impl SyncRemainder {
    /// Starts a thread that sends the rest as the replica reads it. Housekeeping disconnects a replica that does not
    /// read, which ends the thread; an error disconnects the replica, too.
    fn send_by_thread(self, Consumer { parts, name, .. }: Consumer, namespace: &Namespace) -> io::Result<()> {
        let instance = namespace.instance.clone();
        let send = move || {
            instance.panics.catch("synchronization", || match self.send(&parts) {
                Ok(()) => info!("Synchronization with replica {name} succeeded"),
                Err(cause) => warn!("Synchronization with replica {name} failed: {}", system_text(&cause)),
            });
        };
        thread::Builder::new().name("synchronize".into()).spawn(send).map(drop)
    }

    fn send(self, target: &Sender<SyncPart>) -> io::Result<()> {
        let SyncRemainder { line, mut content, mut left, waits } = self;
        let send = |part| target.blocking_send(part).map_err(|_| gone());
        line.map_or(Ok(()), send)?;
        while left > 0 {
            let mut part = vec![0; PART_LEN.min(usize::try_from(left).unwrap_or(PART_LEN))];
            content.read_exact(&mut part)?;
            left -= part.len() as u64;
            send(SyncPart::Bytes(part.into()))?;
        }
        send(SyncPart::End { waits })
    }
}

/// Returns the error for a replica that is gone.
pub(super) fn gone() -> io::Error {
    io::Error::other("it is gone")
}
