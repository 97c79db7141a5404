//! What a replica lacks that is not in memory any more: it is sent that from the append-only file, if it is all there.
//!
//! The file is read twice. The first time decides whether the replica may continue, which cannot be taken back.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use bytes::Bytes;
use tracing::{info, warn};

use crate::client::replica::{Behind, Part, Waiting};
use crate::durability::full_sync::{PAUSE, send};
use crate::durability::worker::Worker;
use crate::persist::LogReader;
use crate::persist::aof::{HistoryId, LogRange, WrittenFiles, read_range};
use crate::text::system_text;

impl Worker {
    /// Sends replicas what they lack, where the append-only file has it; the others wait for a snapshot.
    pub(super) fn send_missing(&mut self) {
        let namespace = self.namespace.clone();
        for behind in namespace.replicas.take_behind() {
            // One that has lost its place is disconnected.
            if !behind.waiting.parts.is_closed() && !behind.reader.has_lost_place() {
                namespace.persistence.begin_job();
                // A replica for which this panics is disconnected.
                namespace.instance.panics.catch("partial synchronization", || self.send_what_is_missing(behind));
            }
        }
    }

    fn send_what_is_missing(&self, Behind { waiting, position, reader }: Behind) {
        let (namespace, name) = (&*self.namespace, waiting.replica.shown_name());
        let (ids, aside) = (namespace.tenant.history.ids(), namespace.fence_announcement());
        let is_of_history = |id: &HistoryId, end: u64| ids.has(id, end);
        let range = LogRange { from: position, to: reader.position(), is_of_history: &is_of_history, aside: &aside };
        let stats = &namespace.observed.stats;
        match self.find(&range) {
            Err(reason) => {
                info!("Replica {name} cannot continue with the append only file: {reason}");
                stats.refused_partial_syncs.fetch_add(1, Relaxed);
                stats.full_syncs.fetch_add(1, Relaxed);
                namespace.replicas.await_snapshot(waiting);
            }
            Ok(files) => {
                stats.partial_syncs.fetch_add(1, Relaxed);
                let len = range.to - range.from;
                match self.send_range(&files, &range, &waiting, reader, &ids.id) {
                    Ok(()) => info!("Replica {name} was sent {len} bytes from the append only file"),
                    Err(cause) => {
                        let cause = system_text(&cause);
                        warn!("Replica {name} was not sent all of {len} bytes from the append only file: {cause}");
                    }
                }
            }
        }
    }

    /// Returns the files that have a part of the log.
    ///
    /// # Errors
    /// Why there are none.
    fn find(&self, range: &LogRange<'_>) -> Result<WrittenFiles, String> {
        let files = self.written_files(range.to)?;
        let cancelled = self.namespace.persistence.cancelled();
        let found = read_range(&*self.disk, &files, range, &mut |_| match cancelled.load(Relaxed) {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => Ok(()),
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
            // It was just written, and the writer is about to say so.
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

    /// Sends a part of the log; `reader` has what follows.
    fn send_range(
        &self,
        files: &WrittenFiles,
        range: &LogRange<'_>,
        Waiting { replica, parts: target, .. }: &Waiting,
        reader: LogReader,
        id: &str,
    ) -> io::Result<()> {
        let cancelled = self.namespace.persistence.cancelled();
        let send = |part| match send(target, part, cancelled) {
            true => Ok(()),
            false => Err(io::Error::other("it is gone, or the server stops")),
        };
        send(Part::Begin(Bytes::new(), reader))?;
        // With this line: an empty one that tells that the link is alive would count as a part of the log behind it.
        send(Part::File(replica.continue_line(id)))?;
        read_range(&*self.disk, files, range, &mut |bytes| send(Part::Bytes(bytes)))?;
        send(Part::End { waits: false })
    }
}
