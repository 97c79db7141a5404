//! The append-only file while the server runs: its begin and end, rewrites, and changes of settings.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, channel};

use tracing::{info, warn};

use crate::client::outbox::EVICTED;
use crate::durability::log_load::LoadedLog;
use crate::durability::save::SavedSnapshot;
use crate::durability::worker::{FilesWorker, LogFile, annotations};
use crate::namespace::files::SaveFailure;
use crate::persist::aof::{
    Annotations, AofDir, AofError, AofOptions, BlockStamp, FsyncPolicy, Start, Writer, read_clocks, spawn,
};
use crate::persist::{Job, LogReader, Order, ReaderPurpose};
use crate::text::system_text;
use crate::time::clock::Now;

/// Longest time that a client waits for a file that cannot be written, in milliseconds.
const WAITING_MAX_MS: u64 = 5_000;

/// Name of the latency event of a write to the file.
const AOF_WRITE: &str = "aof-write";

impl FilesWorker {
    fn now_ms(&self) -> u64 {
        self.namespace.clock.now().mono_ms()
    }

    /// Returns the settings of the file.
    pub(super) fn log_options(&self, policy: FsyncPolicy) -> AofOptions {
        let config = self.namespace.settings.current();
        AofOptions {
            dir: config.dir.clone(),
            dirname: config.appenddirname.to_string_lossy().into_owned(),
            filename: config.appendfilename.to_string_lossy().into_owned(),
            policy,
            checksums: config.aof_checksum,
            timestamps: config.aof_timestamp_enabled,
        }
    }

    /// Begins to write to a loaded file, behind its tail.
    pub(super) fn continue_log(&mut self, dir: Arc<AofDir>, loaded: LoadedLog) -> Result<(), String> {
        let LoadedLog { tail, cut, has_moved_deadlines, .. } = loaded;
        self.due.is_rewrite = has_moved_deadlines;
        let policy = self.namespace.log_policy();
        let start = tail.map_or(Start::New, Start::Append);
        let reader = self.namespace.read_log(ReaderPurpose::File);
        self.start_writer(dir, reader, start, policy, (cut, has_moved_deadlines)).map_err(|error| error.to_string())
    }

    /// Begins an append-only file with the present data as its base.
    pub(super) fn begin_log(&mut self, dir: Arc<AofDir>) -> Result<(), String> {
        // No reply depends on the file before its base exists.
        let reader = self.namespace.read_log(ReaderPurpose::File);
        let started = self.start_writer(dir, reader, Start::Detached, FsyncPolicy::EverySec, (0, false));
        started.map_err(|error| error.to_string())?;
        let begun = self.write(Job::Rewrite, None);
        if begun.is_err() {
            self.end_log();
        }
        begun
    }

    fn start_writer(
        &mut self,
        dir: Arc<AofDir>,
        reader: LogReader,
        start: Start,
        policy: FsyncPolicy,
        (cut, is_marked): (u64, bool),
    ) -> Result<(), AofError> {
        let options = self.log_options(policy);
        let (namespace, disk) = (self.namespace.clone(), self.disk.clone());
        let stamp = Box::new(move || {
            let (wall_ms, boot_ms) = read_clocks(&*disk, &namespace.clock);
            let (fence, history) = (namespace.lock_holders.last_fence(), namespace.shared_history());
            BlockStamp { wall_ms, boot_ms, fence, history }
        });
        let boot = self.disk.boot_id(&self.namespace.clock).unwrap_or_default();
        let mut writer = Writer::open(dir.clone(), reader, start, &options, &boot, stamp)?;
        if is_marked {
            writer.mark();
        }
        let namespace = self.namespace.clone();
        writer.set_note_latency(Box::new(move |event, took_ms| {
            // As in Redis, a write is an event of its own, and one by its possible cause of delay.
            if event.starts_with(AOF_WRITE) {
                namespace.note_latency(AOF_WRITE, took_ms);
            }
            namespace.note_latency(event, took_ms);
        }));
        let handle = writer.handle();
        let writer = spawn(writer).map_err(AofError::no_thread)?;
        self.namespace.persistence.set_log(Some((handle.clone(), cut)));
        self.namespace.persistence.follow_policy(|| self.namespace.log_policy()); // it may have changed meanwhile
        let annotations = Annotations { checksums: options.checksums, timestamps: options.timestamps };
        self.log = Some(LogFile { dir, root: options.dir, handle, writer, annotations });
        Ok(())
    }

    /// Makes the logged records durable, and ends writing, because the server stops.
    pub(super) fn end_last_log(&mut self) {
        let is_complete = self.end_log();
        self.namespace.persistence.update(|figures| figures.is_log_complete = is_complete);
    }

    /// Makes the logged records durable, and ends writing; returns true if the file then has all of them.
    pub(super) fn end_log(&mut self) -> bool {
        let Some(log) = self.log.take() else { return false };
        let is_complete = log.end();
        self.namespace.persistence.set_log(None);
        let _alone = self.namespace.store.exclusive();
        self.namespace.follow_log_readers();
        is_complete
    }

    /// Begins or ends the file by the settings.
    pub(super) fn follow_log_settings(&mut self) {
        let config = self.namespace.settings.current();
        let is_put_off = self.due.is_log_put_off(self.now_ms());
        let mut is_given_up = false;
        match (config.appendonly, &self.log) {
            (true, None) if !is_put_off => {
                self.namespace.persistence.begin_job();
                self.namespace.persistence.update(|figures| figures.is_log_starting = true);
                let begun = self.open_log_dir().and_then(|dir| self.begin_log(dir));
                if let Err(reason) = begun {
                    warn!("The append only file cannot be begun: {reason}");
                    is_given_up = self.is_given_up_or_put_off();
                }
            }
            (false, Some(_)) if self.namespace.persistence.begin_log_end(|| self.wants_log()) => _ = self.end_log(),
            // The next begin is tried at once.
            (false, None) => self.due.log_has_worked(),
            _ => {}
        }
        if let Some(log) = self.log.as_mut().filter(|log| log.annotations != annotations(&config)) {
            log.annotations = annotations(&config);
            log.dir.set_checksum(log.annotations.checksums);
            log.handle.set_annotations(log.annotations);
        }
        self.remove_former_files();
        is_given_up |= self.rewrite_if_due();
        // Not before the base exists: clients that wait for it check for a rewrite in progress.
        let is_to_begin = || is_given_up || self.wants_log() != config.appendonly;
        self.namespace.persistence.log_has_begun(is_to_begin);
    }

    /// Returns true if the settings want a file now.
    fn wants_log(&self) -> bool {
        self.namespace.settings.current().appendonly
    }

    /// Returns true if a failed job was given up in favour of another, and so is due again at once; otherwise begins a
    /// pause.
    fn is_given_up_or_put_off(&mut self) -> bool {
        let is_given_up = self.namespace.persistence.cancelled().load(Relaxed);
        if !is_given_up {
            self.due.put_log_off(self.now_ms());
        }
        is_given_up
    }

    /// Removes files that are not needed any more, unless the settings keep them.
    fn remove_former_files(&self) {
        let Some(log) = self.log.as_ref().filter(|_| !self.namespace.settings.current().aof_disable_auto_gc) else {
            return;
        };
        if Arc::strong_count(&self.pin) > 1 {
            return; // replicas are being sent some of these files
        }
        match log.dir.remove_history() {
            Ok(0) => {}
            Ok(count) => info!("{count} history files of the append only file were removed"),
            Err(error) => warn!("Former files of the append only file are left: {error}"),
        }
    }

    /// Rewrites the file if it lacks data, if its deadlines are by another clock, or if it has grown so much that the
    /// settings ask for it. Returns true if the rewrite was given up in favour of another job.
    fn rewrite_if_due(&mut self) -> bool {
        let Some(log) = &self.log else { return false };
        log.handle.count_delay(read_clocks(&*self.disk, &self.namespace.clock).1);
        let (status, config) = (log.handle.status(), self.namespace.settings.current());
        self.namespace.follow_files();
        if matches!(self.namespace.save_failure(), Some(SaveFailure::Log(_))) {
            self.disconnect_waiting();
        }
        if self.due.is_log_put_off(self.now_ms()) {
            return false;
        }
        let grown = status.current_size.saturating_sub(status.base_size).saturating_mul(100) / status.base_size.max(1);
        let percentage = u64::from(config.auto_aof_rewrite_percentage);
        let has_grown = percentage > 0 && status.current_size > config.auto_aof_rewrite_min_size && grown >= percentage;
        if has_grown {
            info!("Starting automatic rewriting of AOF on {grown}% growth");
        }
        // Without its base the file does not count: a new begin was given up, perhaps for data that did not come.
        let lacks_data = log.dir.is_detached() || status.needs_rewrite.is_some();
        let is_due = has_grown || lacks_data || self.due.is_rewrite;
        is_due && self.write(Job::Rewrite, None).is_err() && self.is_given_up_or_put_off()
    }

    /// Closes the connections of clients that have waited too long for a file that cannot be written, so that none
    /// hangs for ever. These clients do not learn if their writes will last, which the server does not know either.
    fn disconnect_waiting(&self) {
        let overdue = self.namespace.log.overdue(self.now_ms(), WAITING_MAX_MS);
        for client in overdue.into_iter().filter_map(|client| self.namespace.clients.find(client)) {
            warn!(client = client.id, "closing a client that waits for an append only file which cannot be written");
            client.outbox.signal(EVICTED); // the client's replies are not sent
            self.namespace.clients.kill(&client);
        }
    }

    /// Writes the present data as the base of the append-only file.
    pub(super) fn rewrite(&mut self, order: Option<Order>, begun: Now) -> Result<SavedSnapshot, String> {
        let Some(log) = &self.log else { return self.write_base_alone(order, begun) };
        if log.root != self.namespace.settings.current().dir {
            return self.move_log(order, begun);
        }
        let (dir, handle) = (log.dir.clone(), log.handle.clone());
        let is_whole = dir.is_detached() || handle.status().needs_rewrite.is_some();
        let (tell, told) = channel();
        let path = dir.temporary_base();
        let written = self.write_file(&path, (Job::Rewrite, order), begun, || {
            let done = Box::new(move |result| _ = tell.send(result)); // the receiver is gone if this has failed
            _ = if is_whole { handle.restart(done) } else { handle.rotate(done) };
        });
        let installed = written.map_err(|cause| system_text(&cause)).and_then(|saved| {
            let first = next_increment(told)?;
            let size = saved.written.len + handle.status().file_len;
            dir.install_base(&path, saved.is_rdb, first, size).map_err(|error| error.to_string())?;
            Ok(saved)
        });
        if installed.is_err() {
            let _ = self.disk.remove(&path); // if the file exists
            return installed;
        }
        handle.base_installed();
        self.due.log_has_worked();
        self.remove_former_files();
        self.namespace.persistence.follow_policy(|| self.namespace.log_policy());
        installed
    }

    /// Continues in the directory that the settings now name, with the present data as the base there. The former file
    /// is written until that base exists, and stays where it is, as in Redis.
    fn move_log(&mut self, order: Option<Order>, begun: Now) -> Result<SavedSnapshot, String> {
        let dir = self.open_log_dir()?;
        let cut = self.namespace.persistence.read(|figures| figures.log.as_ref().map_or(0, |log| log.cut));
        let reader = self.namespace.read_log(ReaderPurpose::File);
        let former = self.log.take();
        let started = self.start_writer(dir, reader, Start::Detached, FsyncPolicy::EverySec, (cut, false));
        let moved = started.map_err(|error| error.to_string()).and_then(|()| self.rewrite(order, begun));
        let ended = if moved.is_ok() { former } else { std::mem::replace(&mut self.log, former) };
        if let Some(log) = ended {
            _ = log.end();
        }
        if moved.is_err()
            && let Some(log) = &self.log
        {
            self.namespace.persistence.set_log(Some((log.handle.clone(), cut)));
            log.handle.write_by_workers();
        }
        moved
    }

    /// Writes the base of a file without increments, while appendonly is off.
    fn write_base_alone(&mut self, order: Option<Order>, begun: Now) -> Result<SavedSnapshot, String> {
        let dir = self.open_log_dir()?;
        let path = dir.temporary_base();
        let written = self.write_file(&path, (Job::Rewrite, order), begun, || {}).map_err(|cause| system_text(&cause));
        written.and_then(|saved| {
            let installed = dir.install_base(&path, saved.is_rdb, u64::MAX, saved.written.len);
            installed.and_then(|()| dir.remove_history()).map_err(|error| error.to_string())?;
            Ok(saved)
        })
    }
}

/// Waits until the writer has begun the next increment; returns its number.
fn next_increment(told: Receiver<Result<u64, AofError>>) -> Result<u64, String> {
    let begun = told.recv().map_err(|_| "the writer of the append only file has ended".to_owned())?;
    begun.map_err(|error| error.to_string())
}
