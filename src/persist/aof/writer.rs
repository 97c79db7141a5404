//! The writer of an append-only file: reads the log, writes blocks, makes them durable, and confirms them.
//!
//! The log keeps all records that are not durable yet, so that the writer can start over after an error: it cuts the
//! file to the part known to be correct, waits, and writes the same records once more. After a failed sync it is
//! unknown which part of the file is durable, and a later sync that works does not tell; so the writer goes back to the
//! part that was durable before. With [`FsyncPolicy::No`] the log does not keep written records, and such a file has to be
//! rewritten.
//!
//! Written data outlives the process, durable data the machine. So replies wait until their records are written, with
//! [`FsyncPolicy::Always`] until they are durable, and with [`FsyncPolicy::EverySec`] also while the disk is too far behind.
//!
//! [`Writer::step`] never waits, except for the disk. [`spawn`] calls it on a thread; simulations call it themselves.
//! Records that need no sync are written by the workers ([`Writer::write_for_worker`]), unless the disk may be slow.

mod block_writer;
mod by_worker;
mod requests;
mod thread;

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;

use crate::persist::LogReader;
use crate::persist::aof::block::{BlockStamp, RunningChecksum, boot_field};
use crate::persist::aof::directory::AofDir;
use crate::persist::aof::error::AofError;
use crate::persist::aof::handle::{
    AofHandle, AofStatus, DELAYED_MS, NeedsRewrite, Requests, Rotation, StopRequest, SyncRequest, WriterShared,
};
use crate::persist::aof::manifest::PartType;
use crate::persist::aof::policy::{AofOptions, FsyncPolicy};
use crate::persist::aof::segment::Tail;
use crate::persist::aof::sync::{InlineSyncer, Syncer};
use crate::persist::disk::{DiskFile, write_again_from};

#[cfg(test)]
pub(crate) use by_worker::RemainingWork;
pub(crate) use thread::spawn;

/// Interval between two syncs with [`FsyncPolicy::EverySec`].
const SYNC_PERIOD_MS: u64 = 1000;
/// Number of bytes that may be written between two syncs with [`FsyncPolicy::EverySec`]: the log has to keep them.
const UNSYNCED_MAX: u64 = 32 << 20;
/// Pause of the writer after an error, at first and at most.
const PAUSE_MIN_MS: u64 = 100;
const PAUSE_MAX_MS: u64 = 1000;
/// Number of last bytes of a file that are written again when it is opened.
const WRITTEN_AGAIN_MAX: u64 = 64 << 20;

/// Clock for headers and for the pace of syncs. Its `boot_ms` has to run with the system's time.
pub(crate) type AofClock = Box<dyn FnMut() -> BlockStamp + Send>;

/// Callback for events of the latency monitor: the event's name, and its duration in milliseconds.
pub(crate) type NoteLatency = Box<dyn Fn(&'static str, u64) + Send>;

pub(crate) enum Start {
    /// Behind the valid part of the last increment, which has to end there.
    Append(Tail),
    /// In a new increment.
    New,
    /// In a new increment that is in no manifest before [`AofDir::install_base`] is called. With [`FsyncPolicy::Always`] no
    /// record counts as durable before; with the other policies no reply waits for the file until then.
    Detached,
}

/// Action of the caller after a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WriterStep {
    /// Make the next step at once.
    Again,
    /// Wait for records, for [`LogReader::wake`], or for a time.
    Wait(Option<Duration>),
    /// Make no more steps: the writer has ended.
    Stopped,
}

/// A place in the file that is written to.
#[derive(Clone, Copy)]
struct Mark {
    /// The length of the file.
    len: u64,
    /// The log position up to which the file has everything.
    position: u64,
    sum: RunningChecksum,
}

struct Syncing {
    /// The place that is durable if the sync works.
    mark: Mark,
    began_ms: u64,
    is_delayed: bool,
}

/// Pause after an error.
struct Pause {
    until_ms: u64,
    length_ms: u64,
}

pub(crate) struct Writer {
    shared: Arc<WriterShared>,
    clock: AofClock,
    note_latency: NoteLatency,
    syncer: Box<dyn Syncer>,
    boot: String,
    policy: FsyncPolicy,
    has_checksums: bool,
    /// True if the next increment has checksums.
    wants_checksums: bool,
    has_timestamps: bool,
    file: Arc<dyn DiskFile>,
    /// The place up to which the file is written.
    written: Mark,
    /// The place up to which the file is durable.
    synced: Mark,
    /// The log position up to which the data would be recovered after a power cut; lower than that of `synced` without
    /// a base.
    durable: u64,
    /// The position up to which clients may see replies; `None` while no client waits for this file.
    confirmed: Option<u64>,
    /// Number of clients that waited for a confirmation at the last one.
    waited: usize,
    /// Time at which the thread makes its next step without a wakeup, in milliseconds since boot, if it does.
    looks_ms: Option<u64>,
    /// End of the time in which workers write nothing, because a write of theirs was slow.
    workers_rest_until_ms: u64,
    syncing: Option<Syncing>,
    last_sync_ms: u64,
    /// Set if the file may be longer than its written part. Cutting it need not be durable before the same records,
    /// which are written there again.
    is_torn: bool,
    /// Set if a sync has failed since the last one that worked.
    must_sync: bool,
    /// Set once no more records can be written to this file.
    lost: Option<NeedsRewrite>,
    /// Set if the last block says that everything before it is durable.
    is_closed: bool,
    /// The log position up to which the log is not needed any more.
    released: u64,
    /// Length of the file up to which the system was told to write it to the disk.
    written_back: u64,
    /// The second of the last timestamp line.
    last_timestamp: i64,
    /// The database of the next records, if they do not select it.
    unselected: Option<usize>,
    pause: Option<Pause>,
    rotation: Option<Rotation>,
    restart: Option<Rotation>,
    syncs: Vec<SyncRequest>,
    stop: Option<StopRequest>,
    /// Set once the writer has ended without completing the file.
    has_ended: bool,
}

impl Writer {
    /// Opens the file to append to. Its present content is durable afterwards.
    ///
    /// # Errors
    /// Errors of the disk; a last increment that does not end where its tail does.
    pub(crate) fn open(
        dir: Arc<AofDir>,
        reader: LogReader,
        start: Start,
        options: &AofOptions,
        boot: &str,
        mut clock: AofClock,
    ) -> Result<Self, AofError> {
        let (begin, unselected) = (reader.position(), reader.copied_db());
        let file_begin = (!matches!(start, Start::Append(_))).then_some(begin);
        let (file, tail) = match start {
            Start::Append(tail) => (open_tail(&dir, &tail)?, tail),
            Start::New => (dir.create_increment(false)?.0, Tail::empty()),
            Start::Detached => (dir.create_increment(true)?.0, Tail::empty()),
        };
        let mark = Mark { len: tail.len, position: begin, sum: tail.sum };
        let status = AofStatus {
            base_size: dir.other_len() + tail.len,
            file_len: tail.len,
            file_begin,
            synced: begin,
            written: begin,
            ..AofStatus::default()
        };
        let (requests, policy) = (Mutex::new(Requests::default()), Mutex::new(options.policy));
        let is_stepping = AtomicBool::new(false);
        let (status, flush) = (Mutex::new(status), OnceLock::new());
        let shared = WriterShared { reader, dir, requests, status, policy, is_stepping, flush };
        let last_sync_ms = clock().boot_ms;
        let mut writer = Writer {
            shared: Arc::new(shared),
            clock,
            note_latency: Box::new(|_, _| {}),
            syncer: Box::new(InlineSyncer::default()),
            boot: boot_field(boot),
            policy: options.policy,
            has_checksums: options.checksums,
            wants_checksums: options.checksums,
            has_timestamps: options.timestamps,
            file,
            written: mark,
            synced: mark,
            durable: begin,
            confirmed: None,
            waited: 0,
            looks_ms: None,
            workers_rest_until_ms: 0,
            syncing: None,
            last_sync_ms,
            is_torn: false,
            must_sync: false,
            lost: None,
            is_closed: tail.last.is_some_and(|last| last.len == 0),
            released: begin,
            written_back: tail.len,
            last_timestamp: 0,
            unselected,
            pause: None,
            rotation: None,
            restart: None,
            syncs: Vec::new(),
            stop: None,
            has_ended: false,
        };
        writer.confirm();
        Ok(writer)
    }

    /// Returns a handle for requests to the writer.
    pub(crate) fn handle(&self) -> AofHandle {
        AofHandle(self.shared.clone())
    }

    /// Sets the callback for events of the latency monitor.
    pub(crate) fn set_note_latency(&mut self, note: NoteLatency) {
        self.note_latency = note;
    }

    pub(crate) fn set_syncer(&mut self, syncer: Box<dyn Syncer>) {
        self.syncer = syncer;
    }

    /// Performs all work that is possible now.
    pub(crate) fn step(&mut self) -> WriterStep {
        let now = (self.clock)();
        self.take_requests();
        let is_asked = self.stop.is_some() || !self.syncs.is_empty();
        if let Some(pause) = self.pause.as_ref().filter(|pause| now.boot_ms < pause.until_ms && !is_asked) {
            return WriterStep::Wait(Some(Duration::from_millis(pause.until_ms - now.boot_ms)));
        }
        let step = match self.work(now) {
            Ok(step) => {
                if !self.must_sync && !self.is_torn {
                    self.pause = None;
                }
                step
            }
            Err(error) => self.pause_after(error, now),
        };
        self.publish();
        if self.has_ended { WriterStep::Stopped } else { step }
    }

    /// Writes a block, and takes all steps that follow from it.
    fn work(&mut self, now: BlockStamp) -> Result<WriterStep, AofError> {
        self.finish_sync()?;
        self.restart_if_asked()?;
        if self.lost.is_some() {
            self.fail_requests(&AofError::NeedsRewrite);
            return Ok(WriterStep::Wait(None));
        }
        let has_written = self.write(now)?;
        self.start_writeback();
        self.sync_if_due(now)?;
        self.confirm();
        self.pass_asides();
        self.rotate_if_due();
        self.answer_syncs();
        if self.stop_if_due(now) {
            return Ok(WriterStep::Stopped);
        }
        Ok(if has_written { WriterStep::Again } else { WriterStep::Wait(self.time_to_sync(now)) })
    }

    /// Returns the time after which there is work without any new record.
    fn time_to_sync(&self, now: BlockStamp) -> Option<Duration> {
        let due_ms = match &self.syncing {
            Some(syncing) if syncing.is_delayed => return None,
            Some(syncing) => syncing.began_ms + DELAYED_MS + 1,
            None if self.policy == FsyncPolicy::EverySec && self.unsynced() > 0 => self.last_sync_ms + SYNC_PERIOD_MS,
            None => return None,
        };
        Some(Duration::from_millis(due_ms.saturating_sub(now.boot_ms)))
    }

    /// Returns the number of bytes of the file that are not durable.
    fn unsynced(&self) -> u64 {
        self.written.len - self.synced.len
    }

    /// Returns true if all changes of the file are durable.
    fn is_durable(&self) -> bool {
        self.unsynced() == 0 && !self.must_sync && !self.is_torn && self.syncing.is_none()
    }

    fn sync_if_due(&mut self, now: BlockStamp) -> Result<(), AofError> {
        if let Some(syncing) = &mut self.syncing {
            syncing.is_delayed = self.shared.status.lock().count_delay(now.boot_ms);
            return Ok(());
        }
        let is_due = match self.policy {
            FsyncPolicy::Always => true,
            FsyncPolicy::EverySec => {
                now.boot_ms.saturating_sub(self.last_sync_ms) >= SYNC_PERIOD_MS || self.unsynced() >= UNSYNCED_MAX
            }
            FsyncPolicy::No => false,
        };
        let is_asked = self.rotation_is_reached() || self.stop.is_some() || !self.syncs.is_empty();
        if !self.must_sync && (self.unsynced() == 0 || !(is_due || is_asked)) {
            return Ok(());
        }
        self.last_sync_ms = now.boot_ms;
        let syncing = Syncing { mark: self.written, began_ms: now.boot_ms, is_delayed: false };
        if self.policy == FsyncPolicy::Always {
            let begun_ms = (self.clock)().boot_ms;
            let synced = self.file.sync_data();
            self.note_since("aof-fsync-always", begun_ms);
            return self.end_sync(&syncing, synced);
        }
        self.syncing = Some(syncing);
        self.shared.status.lock().syncing_since_ms = Some(now.boot_ms);
        self.syncer.start(self.file.clone());
        self.finish_sync()
    }

    /// Notes the duration of an event that began at a time since boot.
    fn note_since(&mut self, event: &'static str, began_ms: u64) {
        let took_ms = (self.clock)().boot_ms.saturating_sub(began_ms);
        if took_ms > 0 {
            (self.note_latency)(event, took_ms);
        }
    }

    /// Takes the result of a sync that was begun, if the sync has ended.
    fn finish_sync(&mut self) -> Result<(), AofError> {
        let result = self.syncing.is_some().then(|| self.syncer.poll()).flatten();
        match result {
            Some(result) => self.syncing.take().map_or(Ok(()), |syncing| self.end_sync(&syncing, result)),
            None => Ok(()),
        }
    }

    /// Applies the result of a sync.
    fn end_sync(&mut self, syncing: &Syncing, result: io::Result<()>) -> Result<(), AofError> {
        if let Err(error) = result {
            self.go_back();
            return Err(self.io("sync")(error));
        }
        (self.synced, self.must_sync) = (syncing.mark, false);
        if self.policy != FsyncPolicy::No {
            self.release(syncing.mark.position);
        }
        self.confirm();
        Ok(())
    }

    /// Counts commands for replicas alone as durable once everything before them is, as they are not in the file.
    fn pass_asides(&mut self) {
        if self.is_durable() && self.synced.position < self.written.position {
            self.synced = self.written;
            self.release(self.written.position);
            self.confirm();
        }
    }

    /// Goes back to the place that was durable before a sync failed.
    fn go_back(&mut self) {
        self.must_sync = true;
        if self.released > self.synced.position {
            self.lost.get_or_insert(NeedsRewrite::UnknownContent);
        } else if self.lost.is_none() {
            (self.written, self.is_torn, self.is_closed) = (self.synced, true, false);
            self.written_back = self.written_back.min(self.written.len);
        }
    }

    /// Allows the log to free records before a position.
    fn release(&mut self, position: u64) {
        if position > self.released {
            self.released = position;
            self.shared.reader.release(position);
        }
    }

    /// Notes the durable position, and confirms replies that are safe by the policy.
    fn confirm(&mut self) {
        let is_whole = self.lost.is_none() && !self.shared.dir.is_detached();
        if is_whole {
            self.durable = self.durable.max(self.synced.position);
        }
        let shared = self.shared.clone();
        // The policy of the latest request, with the lock held so that no other is made: nothing is confirmed by a
        // former policy.
        let policy = shared.policy.lock();
        let safe = match *policy {
            FsyncPolicy::Always => Some(self.durable),
            // A file that is begun again with all data does not contain any of it yet.
            _ if shared.dir.is_detached() || self.lost == Some(NeedsRewrite::LostPlace) => None,
            _ if !is_whole || self.is_late() => self.confirmed.or(Some(self.durable)),
            _ => Some(self.written.position),
        };
        match (self.confirmed, safe) {
            (Some(confirmed), Some(safe)) if safe <= confirmed => return,
            (Some(_), Some(safe)) => self.waited = shared.reader.confirm(safe),
            (None, None) => return,
            _ => shared.reader.set_confirmed(safe),
        }
        self.confirmed = safe;
    }

    /// Returns true if the disk is so far behind that no more writes may be acknowledged.
    fn is_late(&self) -> bool {
        self.policy == FsyncPolicy::EverySec && self.syncing.as_ref().is_some_and(|syncing| syncing.is_delayed)
    }

    /// Begins a pause that doubles with each error; requests that wait for a result get this error.
    fn pause_after(&mut self, error: AofError, now: BlockStamp) -> WriterStep {
        self.fail_requests(&error);
        let length_ms = self.pause.as_ref().map_or(PAUSE_MIN_MS, |pause| (pause.length_ms * 2).min(PAUSE_MAX_MS));
        self.pause = Some(Pause { until_ms: now.boot_ms + length_ms, length_ms });
        self.shared.status.lock().error = Some(error);
        WriterStep::Wait(Some(Duration::from_millis(length_ms)))
    }

    /// Updates the shared status.
    fn publish(&self) {
        let mut status = self.shared.status.lock();
        (status.file_len, status.written, status.synced) = (self.written.len, self.written.position, self.durable);
        (status.is_syncing, status.needs_rewrite) = (self.syncing.is_some(), self.lost);
        status.syncing_since_ms = self.syncing.as_ref().map(|syncing| syncing.began_ms);
        if self.pause.is_none() {
            status.error = None;
        }
    }

    /// Returns a function that wraps an error of the disk with the operation that was tried.
    fn io(&self, action: &'static str) -> impl FnOnce(io::Error) -> AofError + use<> {
        AofError::io(action, &self.shared.dir.increment().unwrap_or_default())
    }
}

/// Opens the last increment behind its tail, and makes it durable.
fn open_tail(dir: &AofDir, tail: &Tail) -> Result<Arc<dyn DiskFile>, AofError> {
    let path = dir.increment().ok_or(AofError::NeedsRewrite)?;
    let len = dir.disk.len(&path).map_err(AofError::io("open", &path))?;
    if len != Some(tail.len) {
        let error = io::Error::new(io::ErrorKind::InvalidData, format!("it does not end at {}", tail.len));
        return Err(AofError::io("append to", &path)(error));
    }
    // Data that a former process wrote and could not sync may look durable without being so. If that process could not
    // begin this file either, though the manifest names it, the data is in the file before.
    let written_to = dir.parts()?.into_iter().rfind(|file| file.len > 0);
    if let Some(file) = written_to.filter(|file| file.part.kind == PartType::Increment) {
        let known = if file.path == path { tail.synced } else { 0 };
        let offset = known.max(file.len.saturating_sub(WRITTEN_AGAIN_MAX));
        write_again_from(&*dir.disk, &file.path, offset).map_err(AofError::io("sync", &file.path))?;
    }
    dir.disk.append(&path).map_err(AofError::io("open", &path))
}
