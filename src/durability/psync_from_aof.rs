//! Partial resynchronisation from the append-only file: a replica whose records are not in memory any more is sent them
//! from the file, if it has all of them.
//!
//! The file is read twice. The first time decides if the replica may continue, which cannot be taken back. The second
//! time is on a thread of its own, which sends as the replica reads; files that it may need are not removed meanwhile.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tracing::{info, warn};

use crate::client::replica::{LaggingReplica, SyncPart, WaitingReplica};
use crate::durability::consumers::gone;
use crate::durability::worker::FilesWorker;
use crate::namespace::history::ReplicationIds;
use crate::persist::aof::{HistoryId, LogRange, WrittenFiles, read_range};
use crate::persist::disk::Disk;
use crate::text::system_text;

/// Interval of checks that the writer has written the last records.
const PAUSE: Duration = Duration::from_millis(1);

impl FilesWorker {
    /// Sends replicas their missing records, if the append-only file has them; the other replicas wait for a snapshot.
    pub(super) fn send_missing(&mut self) {
        let namespace = self.namespace.clone();
        for behind in namespace.replicas.take_behind() {
            // A replica that has lost its place is disconnected.
            if !behind.waiting.parts.is_closed() && !behind.reader.has_lost_place() {
                namespace.persistence.begin_job();
                // A replica for which this panics is disconnected.
                namespace.instance.panics.catch("partial synchronization", || self.send_what_is_missing(behind));
            }
        }
    }

    fn send_what_is_missing(&self, behind: LaggingReplica) {
        let (namespace, name) = (&*self.namespace, behind.waiting.replica.shown_name());
        let (ids, aside) = (namespace.tenant.history.ids(), namespace.fence_announcement());
        let found = with_range(&ids, (behind.position, behind.reader.position()), &aside, |range| self.find(range));
        let stats = &namespace.observed.stats;
        match found {
            Err(reason) => {
                info!("Replica {name} cannot continue with the append only file: {reason}");
                stats.refused_partial_syncs.fetch_add(1, Relaxed);
                stats.full_syncs.fetch_add(1, Relaxed);
                namespace.replicas.await_snapshot(behind.waiting);
            }
            Ok(files) => {
                stats.partial_syncs.fetch_add(1, Relaxed);
                let (instance, disk, pin) = (namespace.instance.clone(), self.disk.clone(), self.pin.clone());
                let send = move || {
                    let send = || send_range(&*disk, (&ids, &aside), &files, behind, &name);
                    // A replica for which this panics is disconnected.
                    instance.panics.catch("partial synchronization", send);
                    drop(pin);
                };
                // A replica for which no thread can be started is disconnected, too.
                if let Err(cause) = thread::Builder::new().name("continue".into()).spawn(send) {
                    warn!("A replica is not sent what it lacks: {}", system_text(&cause));
                }
            }
        }
    }

    /// Returns the files that contain a part of the log.
    ///
    /// # Errors
    /// The reason for which no files contain it.
    fn find(&self, range: &LogRange<'_>) -> Result<WrittenFiles, String> {
        let files = self.written_files(range.to)?;
        let cancelled = self.namespace.persistence.cancelled();
        let found = read_range(&*self.disk, &files, range, &mut |_| {
            if cancelled.load(Relaxed) { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
        });
        found.map_err(|cause| system_text(&cause)).map(|()| files)
    }

    /// Returns the files once everything before a position is written.
    fn written_files(&self, position: u64) -> Result<WrittenFiles, String> {
        let log = self.log.as_ref().ok_or("there is none")?;
        log.sync()?;
        if log.dir.is_detached() {
            return Err("it begins again with other data".into());
        }
        let mut status = log.handle.status();
        while status.written < position {
            // The records were just written, and the writer is about to update its status.
            if self.namespace.persistence.cancelled().load(Relaxed) || status.needs_rewrite.is_some() {
                return Err("it is not written".into());
            }
            thread::park_timeout(PAUSE);
            status = log.handle.status();
        }
        let mut parts = log.dir.parts().map_err(|error| error.to_string())?;
        if let Some(last) = parts.last_mut() {
            last.len = status.file_len;
        }
        Ok(WrittenFiles { parts, last_begin: status.file_begin })
    }
}

/// Calls `act` with the part of the log between two positions; `aside` replaces commands that are in no file.
fn with_range<T>(
    ids: &ReplicationIds,
    (from, to): (u64, u64),
    aside: &[u8],
    act: impl FnOnce(&LogRange<'_>) -> T,
) -> T {
    let is_of_history = |id: &HistoryId, end: u64| ids.has(id, end);
    act(&LogRange { from, to, is_of_history: &is_of_history, aside })
}

/// Sends a replica its missing records as it reads them. Housekeeping disconnects a replica that does not read, which
/// ends the function.
fn send_range(
    disk: &dyn Disk,
    (ids, aside): (&ReplicationIds, &[u8]),
    files: &WrittenFiles,
    LaggingReplica { waiting: WaitingReplica { replica, parts, .. }, position, reader }: LaggingReplica,
    name: &str,
) {
    let to = reader.position();
    let send = |part| parts.blocking_send(part).map_err(|_| gone());
    let sent = send(SyncPart::Begin(Bytes::new(), reader)).and_then(|()| {
        // Sent with this line: an empty line as a sign of life would count as a part of the log behind it.
        send(SyncPart::File(replica.continue_line(&ids.id)))?;
        with_range(ids, (position, to), aside, |range| {
            read_range(disk, files, range, &mut |bytes| send(SyncPart::Bytes(bytes)))
        })?;
        send(SyncPart::End { waits: false })
    });
    let len = to - position;
    match sent {
        Ok(()) => info!("Replica {name} was sent {len} bytes from the append only file"),
        Err(cause) => {
            let cause = system_text(&cause);
            warn!("Replica {name} was not sent all of {len} bytes from the append only file: {cause}");
        }
    }
}
