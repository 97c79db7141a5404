//! A full synchronisation: one snapshot for all replicas that wait for one and want the same. It is sent as it is written,
//! or where that is not possible, written to a file first.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;
use tracing::{info, warn};

use crate::client::replica::{Part, Waiting, Wanted};
use crate::dispatch::texts;
use crate::durability::save::{head, snapshot_options, totals, unfinished};
use crate::durability::worker::Worker;
use crate::memory::marked::MarkedBytes;
use crate::namespace::Namespace;
use crate::persist::disk::write_all;
use crate::persist::snapshot::{Form, Snapshot, SnapshotOptions, Written, write_without_keys};
use crate::persist::{LogReader, Purpose};
use crate::rdb;
use crate::rdb::file::{self, FileOptions};
use crate::text::system_text;

/// How many bytes are sent in one part, at least.
const PART_LEN: usize = 64 << 10;
/// How long to wait before it is tried again to send to a replica that does not read.
pub(super) const PAUSE: Duration = Duration::from_millis(1);

impl Worker {
    /// Returns whether there are replicas, or some may come back.
    pub(super) fn serves_replicas(&self) -> bool {
        !self.namespace.replicas.is_empty() || self.namespace.log.has_backlog()
    }

    /// Sends a snapshot to the replicas that wait for one, if the first has waited for long enough for others.
    pub(super) fn synchronize_if_due(&mut self) {
        let Some((since_ms, count)) = self.namespace.replicas.waiting_since() else { return };
        let config = self.namespace.settings.current();
        let waited_ms = self.namespace.clock.now().mono_ms().saturating_sub(since_ms);
        let is_full = config.repl_diskless_sync_max_replicas > 0 && count >= config.repl_diskless_sync_max_replicas;
        let is_early = waited_ms < config.repl_diskless_sync_delay_s.saturating_mul(1000) && !is_full;
        if config.repl_diskless_sync && is_early {
            return;
        }
        let Some((wanted, waiting)) = self.namespace.replicas.take_waiting() else { return };
        let count = waiting.len();
        self.namespace.persistence.begin_job();
        let namespace = self.namespace.clone();
        let sent = namespace.instance.panics.catch("synchronization", || self.send_snapshot(wanted, waiting));
        namespace.persistence.update(|figures| figures.sent_since_ms = None);
        match sent.unwrap_or_else(|| Err(io::Error::other("the thread has panicked"))) {
            Ok(len) => info!("Synchronization with {count} replicas succeeded: {len} bytes"),
            Err(cause) => warn!("Synchronization with {count} replicas failed: {}", system_text(&cause)),
        }
    }

    /// Sends a snapshot; returns its length.
    fn send_snapshot(&mut self, wanted: Wanted, waiting: Vec<Waiting>) -> io::Result<u64> {
        let (namespace, config) = (self.namespace.clone(), self.namespace.settings.current());
        let is_streamed =
            config.repl_diskless_sync && waiting.iter().all(|waiting| waiting.replica.has_eof.load(Relaxed));
        let version = self.sync_version.unwrap_or(rdb::VERSION);
        let (data, readers) = cut(&namespace, wanted, version, waiting.len());
        let id = namespace.tenant.replication_id();
        let mut targets = Targets { parts: Vec::new(), is_cancelled: namespace.persistence.cancelled() };
        for (waiting, reader) in waiting.into_iter().zip(readers) {
            targets.begin(waiting, reader, &id);
        }
        match is_streamed {
            true => self.stream(data, &mut targets),
            false => self.send_file(data, &mut targets),
        }
    }

    /// Sends a snapshot as it is written. Its length is not known before, so a mark is at its end.
    fn stream(&mut self, data: Data<'_>, targets: &mut Targets<'_>) -> io::Result<u64> {
        let (mark, version) = (self.namespace.snapshot_mark(), data.form.version());
        targets.send(Bytes::from(format!("$EOF:{mark}\r\n")))?;
        let mut pending = Vec::with_capacity(2 * PART_LEN);
        let written = data.write(&mut |bytes| {
            pending.extend_from_slice(bytes);
            match pending.len() < PART_LEN {
                true => targets.check(),
                false => targets.send(std::mem::take(&mut pending).into()),
            }
        })?;
        if written.version > version {
            // Too late to say so. The replicas ask again.
            self.sync_version = Some(written.version);
            return Err(io::Error::other("the data needs a later version of the format, which is sent next"));
        }
        pending.extend_from_slice(mark.as_bytes());
        targets.send(pending.into())?;
        targets.end(true);
        Ok(written.len)
    }

    /// Writes a snapshot to a file, and then sends that.
    fn send_file(&mut self, data: Data<'_>, targets: &mut Targets<'_>) -> io::Result<u64> {
        // No other snapshot is written meanwhile: this thread writes all of them.
        let path = unfinished(&self.namespace.settings.current().dir);
        let opened = self.write_and_open(data, &path, targets);
        let _ = self.disk.remove(&path); // if it is there; it can still be read where it is open
        let (mut reader, len) = opened?;
        targets.send_part(|| Part::File(format!("${len}\r\n").into()))?;
        let mut left = len;
        while left > 0 {
            let mut part = vec![0; PART_LEN.min(left as usize)];
            reader.read_exact(&mut part)?;
            left -= part.len() as u64;
            targets.send(part.into())?;
        }
        targets.end(false);
        Ok(len)
    }

    fn write_and_open(
        &self,
        data: Data<'_>,
        path: &std::path::Path,
        targets: &Targets<'_>,
    ) -> io::Result<(Box<dyn Read + Send>, u64)> {
        let (output, version) = (self.disk.create(path)?, data.form.version());
        let written = data.write(&mut |bytes| {
            targets.check()?;
            write_all(&*output, bytes)
        })?;
        if written.version > version {
            let mut header = Vec::new();
            file::header(&mut header, written.version);
            self.disk.update(path)?.write_at(&header, 0)?;
        }
        self.disk.read(path)
    }
}

/// Begins a snapshot, and as many readers of the log behind it.
fn cut(namespace: &Namespace, wanted: Wanted, version: u16, count: usize) -> (Data<'_>, Vec<LogReader>) {
    let (config, begun) = (namespace.settings.current(), namespace.clock.now());
    let form = Form::File(FileOptions { version, compresses: config.rdbcompression }, config.rdbchecksum);
    let options = SnapshotOptions { form, ..snapshot_options(&config) };
    let mut held = namespace.store.exclusive();
    let databases = if wanted.keys { totals(&mut held, begun) } else { Vec::new() };
    let libraries = if wanted.libraries { texts::libraries(namespace) } else { Arc::default() };
    namespace.keep_backlog();
    let readers = (0..count).map(|_| namespace.log.reader(Purpose::Replicate)).collect();
    let place = namespace.place();
    let keys = wanted.keys.then(|| Snapshot::cut(&namespace.store, &mut held, options, begun));
    drop(held);
    namespace.persistence.update(|figures| figures.sent_since_ms = Some(begun.wall_ms()));
    let head = head(namespace, form, (&databases, &libraries), begun, (false, None), place.as_ref());
    (Data { namespace, keys, head, form }, readers)
}

/// Copies all data of a namespace, for a replica in the same process; returns it as a file has it, and a reader of what
/// follows in the log.
///
/// # Errors
/// When the server stops.
pub(crate) fn copy(namespace: &Namespace) -> io::Result<(Vec<u8>, LogReader)> {
    let _alone = namespace.persistence.alone();
    namespace.persistence.begin_job();
    let (data, mut readers) = cut(namespace, Wanted::ALL, rdb::VERSION, 1);
    let reader = readers.pop().ok_or(io::ErrorKind::NotFound)?;
    let mut file = Vec::new();
    let written = data.write(&mut |bytes| {
        file.extend_from_slice(bytes);
        Ok(())
    });
    namespace.persistence.update(|figures| figures.sent_since_ms = None);
    let mut header = Vec::new();
    file::header(&mut header, written?.version);
    file[..header.len()].copy_from_slice(&header);
    Ok((file, reader))
}

/// What is to be sent.
struct Data<'s> {
    namespace: &'s Namespace,
    keys: Option<Snapshot<'s>>,
    head: MarkedBytes,
    form: Form,
}

impl Data<'_> {
    fn write(self, out: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<Written> {
        let namespace = self.namespace;
        match self.keys {
            Some(keys) => keys.write(self.head, &namespace.clock, namespace.persistence.cancelled(), out, &|_| {}),
            None => write_without_keys(self.head, self.form, out),
        }
    }
}

/// The replicas that are sent a snapshot.
struct Targets<'n> {
    parts: Vec<Sender<Part>>,
    is_cancelled: &'n AtomicBool,
}

impl Targets<'_> {
    /// Tells a replica where the log continues behind the snapshot.
    fn begin(&mut self, Waiting { replica, parts, .. }: Waiting, reader: LogReader, id: &str) {
        let line = match replica.is_old.load(Relaxed) {
            true => String::new(),
            false => format!("+FULLRESYNC {id} {}\r\n", reader.position()),
        };
        if parts.blocking_send(Part::Begin(line.into(), reader)).is_ok() {
            self.parts.push(parts);
        }
    }

    /// Sends bytes to all that are still there.
    fn send(&mut self, bytes: Bytes) -> io::Result<()> {
        self.send_part(|| Part::Bytes(bytes.clone()))
    }

    fn send_part(&mut self, part: impl Fn() -> Part) -> io::Result<()> {
        let is_cancelled = self.is_cancelled;
        self.parts.retain(|target| send(target, part(), is_cancelled));
        self.check()
    }

    /// Checks that there are replicas that are not gone.
    fn check(&self) -> io::Result<()> {
        match self.parts.iter().all(Sender::is_closed) {
            true => Err(io::Error::other("no replica is left")),
            false => Ok(()),
        }
    }

    fn end(&self, waits: bool) {
        // A replica that is gone needs no end.
        self.parts.iter().for_each(|target| _ = send(target, Part::End { waits }, self.is_cancelled));
    }
}

/// Sends a part to a replica, as soon as it has read what was sent before; one that reads nothing is disconnected by the
/// housekeeping. Returns whether it is still there.
pub(super) fn send(target: &Sender<Part>, mut part: Part, is_cancelled: &AtomicBool) -> bool {
    while !is_cancelled.load(Relaxed) {
        match target.try_send(part) {
            Ok(()) => return true,
            Err(TrySendError::Closed(_)) => return false,
            Err(TrySendError::Full(back)) => part = back,
        }
        thread::park_timeout(PAUSE);
    }
    false
}
