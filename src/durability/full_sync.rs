//! Full synchronisation: one snapshot for all waiting replicas that want the same data. It is sent as it is written or,
//! if that is not possible, written to a file first. The thread that writes files waits for no replica.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tracing::{info, warn};

use crate::client::replica::{SyncPart, WaitingReplica, WantedData};
use crate::dispatch::texts;
use crate::durability::consumers::{PART_LEN, SnapshotReceivers, gone};
use crate::durability::save::{head, snapshot_options, totals, unfinished};
use crate::durability::worker::FilesWorker;
use crate::memory::marked::MarkedBytes;
use crate::namespace::Namespace;
use crate::persist::disk::write_all;
use crate::persist::rdb_file::FileOptions;
use crate::persist::snapshot::{Snapshot, SnapshotForm, SnapshotOptions, WrittenSnapshot, write_without_keys};
use crate::persist::{LogReader, ReaderPurpose};
use crate::rdb;
use crate::text::system_text;

impl FilesWorker {
    /// Returns true if there are replicas, or some may reconnect.
    pub(super) fn serves_replicas(&self) -> bool {
        !self.namespace.replicas.is_empty() || self.namespace.log.has_backlog()
    }

    /// Sends a snapshot to the replicas that wait for one, if the first has waited long enough for others.
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
            Ok(len) => info!("Snapshot for {count} replicas succeeded: {len} bytes"),
            Err(cause) => warn!("Snapshot for {count} replicas failed: {}", system_text(&cause)),
        }
    }

    /// Writes a snapshot for replicas; returns its length. Some replicas may not have received all of it on return.
    fn send_snapshot(&mut self, wanted: WantedData, waiting: Vec<WaitingReplica>) -> io::Result<u64> {
        let (namespace, config) = (self.namespace.clone(), self.namespace.settings.current());
        let is_streamed =
            config.repl_diskless_sync && waiting.iter().all(|waiting| waiting.replica.has_eof.load(Relaxed));
        let (data, readers) = cut(&namespace, wanted, waiting.len());
        let (id, disk) = (namespace.tenant.replication_id(), self.disk.clone());
        // No other snapshot is written meanwhile: this thread writes all of them.
        let path = unfinished(&config.dir);
        let mut consumers = SnapshotReceivers::new(&namespace, &disk, path.clone());
        for (waiting, reader) in waiting.into_iter().zip(readers) {
            consumers.begin(waiting, reader, &id);
        }
        if is_streamed {
            return self.stream(data, consumers);
        }
        let written = self.write_for(data, &path, &consumers);
        let sent = written.and_then(|len| consumers.send_file(len).map(|()| len));
        sent.inspect_err(|_| _ = self.disk.remove(&path)) // if the file exists
    }

    /// Sends a snapshot as it is written. Its length is not known in advance, so a mark ends it.
    fn stream(&self, data: Data<'_>, mut consumers: SnapshotReceivers<'_>) -> io::Result<u64> {
        let mark = self.namespace.snapshot_mark();
        consumers.send(&format!("$EOF:{mark}\r\n").into())?;
        let mut pending = Vec::with_capacity(2 * PART_LEN);
        let written = data.write(&mut |bytes| {
            pending.extend_from_slice(bytes);
            if pending.len() < PART_LEN {
                return consumers.check();
            }
            consumers.send(&std::mem::take(&mut pending).into())
        })?;
        pending.extend_from_slice(mark.as_bytes());
        consumers.send(&pending.into())?;
        consumers.end(true)?;
        Ok(written.len)
    }

    /// Writes a snapshot to a file; returns its length.
    fn write_for(&self, data: Data<'_>, path: &Path, consumers: &SnapshotReceivers<'_>) -> io::Result<u64> {
        let output = self.namespace.persistence.begin_file(|| self.disk.create(path))?;
        let written = data.write(&mut |bytes| {
            consumers.check()?;
            write_all(&*output, bytes)
        })?;
        Ok(written.len)
    }
}

/// Begins a snapshot, and `count` readers of the log behind it.
fn cut(namespace: &Namespace, wanted: WantedData, count: usize) -> (Data<'_>, Vec<LogReader>) {
    let (config, begun) = (namespace.settings.current(), namespace.clock.now());
    let mut held = namespace.store.exclusive();
    let databases = if wanted.keys { totals(&mut held, begun) } else { Vec::new() };
    // The version is at the start, which is sent before the keys are written: deadlines of fields alone need a later
    // version than the lowest.
    let has_field_ttl = databases.iter().any(|(_, totals)| totals.with_field_ttl > 0);
    let version = if has_field_ttl { rdb::VERSION_7_4 } else { rdb::VERSION };
    let form = SnapshotForm::File(FileOptions { version, compresses: config.rdbcompression }, config.rdbchecksum);
    let options = SnapshotOptions { form, ..snapshot_options(&config) };
    let libraries = if wanted.libraries { texts::libraries(namespace) } else { Arc::default() };
    namespace.keep_backlog();
    let readers = (0..count).map(|_| namespace.log.reader(ReaderPurpose::Replicate)).collect();
    let place = namespace.place();
    let keys = wanted.keys.then(|| Snapshot::cut(&namespace.store, &mut held, options, begun));
    drop(held);
    namespace.persistence.update(|figures| figures.sent_since_ms = Some(begun.wall_ms()));
    let head = head(namespace, form, (&databases, &libraries), begun, (false, None), place.as_ref());
    (Data { namespace, keys, head, form }, readers)
}

/// Copies all data of a namespace, for a replica in the same process; returns it in the form of a file, and a reader of
/// the log behind it.
///
/// # Errors
/// Errors of the snapshot, for example when the server stops.
pub(crate) fn copy(namespace: &Namespace) -> io::Result<(Vec<u8>, LogReader)> {
    copy_of(namespace, WantedData::ALL)
}

fn copy_of(namespace: &Namespace, wanted: WantedData) -> io::Result<(Vec<u8>, LogReader)> {
    let _alone = namespace.persistence.alone();
    namespace.persistence.begin_job();
    let (data, mut readers) = cut(namespace, wanted, 1);
    let reader = readers.pop().ok_or(io::ErrorKind::NotFound)?;
    let mut file = Vec::new();
    let written = data.write(&mut |bytes| {
        file.extend_from_slice(bytes);
        Ok(())
    });
    namespace.persistence.update(|figures| figures.sent_since_ms = None);
    written?;
    Ok((file, reader))
}

/// Sends a snapshot to each of the replicas that wait for one of a namespace that writes no files. The caller is on a thread that
/// may wait for replicas.
pub(crate) fn send_copies(namespace: &Namespace) {
    while let Some((wanted, waiting)) = namespace.replicas.take_waiting() {
        for WaitingReplica { replica, parts, .. } in waiting {
            let sent = copy_of(namespace, wanted).and_then(|(file, reader)| {
                let is_old = replica.is_old.load(Relaxed);
                let (id, at) = (namespace.tenant.replication_id(), reader.position());
                let line = if is_old { String::new() } else { format!("+FULLRESYNC {id} {at}\r\n") };
                let head = SyncPart::File(format!("${}\r\n", file.len()).into());
                let all = [SyncPart::Begin(line.into(), reader), head, SyncPart::Bytes(file.into())];
                let mut all = all.into_iter().chain([SyncPart::End { waits: false }]);
                all.try_for_each(|part| parts.blocking_send(part)).map_err(|_| gone())
            });
            if let Err(cause) = sent {
                warn!("Snapshot for a replica failed: {}", system_text(&cause));
            }
        }
    }
}

struct Data<'s> {
    namespace: &'s Namespace,
    keys: Option<Snapshot<'s>>,
    head: MarkedBytes,
    form: SnapshotForm,
}

impl Data<'_> {
    fn write(self, out: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<WrittenSnapshot> {
        let (namespace, version) = (self.namespace, self.form.version());
        let written = match self.keys {
            Some(keys) => keys.write(self.head, &namespace.clock, namespace.persistence.cancelled(), out, &|_| {}),
            None => write_without_keys(self.head, self.form, out),
        }?;
        if written.version > version {
            return Err(io::Error::other("the data needs a later version of the format, which is a bug"));
        }
        Ok(written)
    }
}
