//! Requests to the writer of an append-only file, from any thread.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::persist::aof::directory::AofDir;
use crate::persist::aof::error::AofError;
use crate::persist::aof::policy::{Annotations, FsyncPolicy};
use crate::persist::{Flush, LogReader};

/// Duration of a sync from which on it counts as delayed, in milliseconds.
pub(super) const DELAYED_MS: u64 = 2000;

/// Callback for the result of a request, called on the thread of the writer.
pub(crate) type Completion<T> = Box<dyn FnOnce(Result<T, AofError>) + Send>;

/// Reason for which the file has to be rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NeedsRewrite {
    /// The log did not wait for the writer, so the file lacks a part of it.
    LostPlace,
    /// A sync failed, and the records that may be lost are not in the log any more.
    UnknownContent,
}

/// State of the writer.
#[derive(Clone, Debug, Default)]
pub(crate) struct AofStatus {
    /// Length of all files that would be loaded.
    pub(crate) current_size: u64,
    /// Length of these files after the last rewrite, or when they were opened.
    pub(crate) base_size: u64,
    /// Length of the increment that is appended to.
    pub(crate) file_len: u64,
    /// The log position at which this increment begins, if it is known.
    pub(crate) file_begin: Option<u64>,
    /// Number of bytes of the log not written yet.
    pub(crate) pending: u64,
    /// The log position up to which the file is written.
    pub(crate) written: u64,
    /// The log position up to which the file is durable.
    pub(crate) synced: u64,
    /// Error of the last write, unless one has worked since; or that the file needs a rewrite.
    pub(crate) error: Option<AofError>,
    /// Number of syncs that took more than two seconds.
    pub(crate) delayed_syncs: u64,
    /// Start of the delayed sync that was counted last, in milliseconds since boot.
    pub(super) delayed_ms: Option<u64>,
    /// Start of the sync that has not returned, in milliseconds since boot.
    pub(super) syncing_since_ms: Option<u64>,
    /// True while a sync has not returned.
    pub(crate) is_syncing: bool,
    /// Set if the file has to be rewritten.
    pub(crate) needs_rewrite: Option<NeedsRewrite>,
}

/// Request to continue in the next increment from a log position on.
pub(super) struct Rotation {
    pub(super) position: u64,
    /// The database that is selected there, if the log does not select it again.
    pub(super) db: Option<usize>,
    pub(super) done: Completion<u64>,
}

/// Request to make everything before a log position durable.
pub(super) struct SyncRequest {
    pub(super) position: u64,
    pub(super) done: Completion<()>,
}

/// Request to end the writer.
pub(super) struct StopRequest {
    pub(super) position: u64,
    /// Set if the writer ends even if the file cannot be completed.
    pub(super) is_forced: bool,
    pub(super) done: Completion<()>,
}

/// Requests that the writer has not taken yet.
#[derive(Default)]
pub(super) struct Requests {
    pub(super) policy: Option<FsyncPolicy>,
    pub(super) annotations: Option<Annotations>,
    pub(super) rotation: Option<Rotation>,
    pub(super) restart: Option<Rotation>,
    pub(super) syncs: Vec<SyncRequest>,
    pub(super) stop: Option<StopRequest>,
    /// Set if the file has got its base, so that replies wait for it.
    pub(super) is_attached: bool,
    /// Set once the writer has ended, and takes no more requests.
    pub(super) is_closed: bool,
}

impl Requests {
    /// Returns true if the writer has nothing to take.
    pub(super) fn is_empty(&self) -> bool {
        let has_change = self.policy.is_some() || self.annotations.is_some() || self.is_attached;
        let has_order = self.rotation.is_some() || self.restart.is_some() || self.stop.is_some();
        !has_change && !has_order && self.syncs.is_empty() && !self.is_closed
    }
}

/// State shared by the writer and its handles.
pub(super) struct WriterShared {
    pub(super) reader: LogReader,
    pub(super) dir: Arc<AofDir>,
    pub(super) requests: Mutex<Requests>,
    pub(super) status: Mutex<AofStatus>,
    /// The policy requested last.
    pub(super) policy: Mutex<FsyncPolicy>,
    /// True while the writer's own thread holds the writer, perhaps for long.
    pub(super) is_stepping: AtomicBool,
    /// Function that writes on the thread of a worker; set once the writer has a thread of its own.
    pub(super) flush: OnceLock<Flush>,
}

impl WriterShared {
    /// Has workers write the records that they have logged, or the writer's thread alone.
    pub(super) fn set_written_by_workers(&self, is_written: bool) {
        self.reader.set_flushed(is_written);
        if let Some(flush) = self.flush.get().filter(|_| is_written) {
            self.reader.set_flush(flush.clone());
        }
    }
}

impl AofStatus {
    /// Counts the sync in progress once if it has taken too long by `boot_ms`, the time since boot; returns true if it
    /// has.
    pub(super) fn count_delay(&mut self, boot_ms: u64) -> bool {
        let is_late = |since: &u64| boot_ms.saturating_sub(*since) > DELAYED_MS;
        let late = self.syncing_since_ms.filter(is_late);
        if late.is_some() && late != self.delayed_ms {
            self.delayed_ms = late;
            self.delayed_syncs += 1;
        }
        late.is_some()
    }
}

/// Handle for requests to the writer. Clones belong to the same writer.
#[derive(Clone)]
pub(crate) struct AofHandle(pub(super) Arc<WriterShared>);

impl AofHandle {
    /// Changes the policy for syncs. From [`FsyncPolicy::Always`] on, no reply of a later write is seen before the write is
    /// durable; with the other policies, clients whose writes are written are woken.
    pub(crate) fn set_policy(&self, policy: FsyncPolicy) {
        let mut asked = self.0.policy.lock();
        if *asked == policy {
            return;
        }
        *asked = policy;
        if policy == FsyncPolicy::Always {
            let synced = self.0.status.lock().synced; // the writer's, or lower; set at once, not at its next step
            self.0.reader.set_confirmed(Some(synced));
        }
        self.0.requests.lock().policy = Some(policy);
        self.0.reader.wake();
    }

    /// Changes the annotations in the file: timestamps at once, checksums from the next increment on.
    pub(crate) fn set_annotations(&self, annotations: Annotations) {
        self.0.requests.lock().annotations = Some(annotations);
        self.0.reader.wake();
    }

    /// Begins the next increment at the end of the log, which is returned; `done` gets the number of the increment when
    /// it exists, and all records before it are durable. The increment belongs to a copy of the present data if the
    /// gate is held exclusively.
    pub(crate) fn rotate(&self, done: Completion<u64>) -> u64 {
        let (position, refused) = {
            let mut requests = self.0.requests.lock();
            if requests.rotation.is_some() || requests.is_closed {
                let error = if requests.is_closed { AofError::Stopped } else { AofError::Busy };
                (self.0.reader.end(), Some((done, error)))
            } else {
                let position = self.0.reader.cut();
                let db = self.0.reader.copied_db();
                requests.rotation = Some(Rotation { position, db, done });
                (position, None)
            }
        };
        self.answer(refused);
        position
    }

    /// Continues at the end of the log, which is returned, in an increment that is in no manifest before
    /// [`AofDir::install_base`] is called; `done` gets its number. For a file that lacks a part of the log. The gate
    /// has to be held exclusively.
    pub(crate) fn restart(&self, done: Completion<u64>) -> u64 {
        let (position, db) = (self.0.reader.restart(), self.0.reader.copied_db());
        let refused = {
            let mut requests = self.0.requests.lock();
            if requests.is_closed {
                Some((done, AofError::Stopped))
            } else {
                let former = requests.restart.replace(Rotation { position, db, done });
                former.map(|former| (former.done, AofError::Busy))
            }
        };
        self.answer(refused);
        position
    }

    /// Makes everything in the log now durable.
    pub(crate) fn sync(&self, done: Completion<()>) {
        let position = self.0.reader.end();
        let refused = {
            let mut requests = self.0.requests.lock();
            if requests.is_closed {
                Some((done, AofError::Stopped))
            } else {
                requests.syncs.push(SyncRequest { position, done });
                None
            }
        };
        self.answer(refused);
    }

    /// Makes everything in the log now durable, and ends the writer. After an error the writer continues, unless the
    /// request is forced.
    pub(crate) fn stop(&self, is_forced: bool, done: Completion<()>) {
        let position = self.0.reader.end();
        let refused = {
            let mut requests = self.0.requests.lock();
            if requests.stop.is_some() || requests.is_closed {
                Some((done, if requests.is_closed { AofError::Stopped } else { AofError::Busy }))
            } else {
                requests.stop = Some(StopRequest { position, is_forced, done });
                None
            }
        };
        self.answer(refused);
    }

    /// Counts a sync that is delayed at a time since boot, even while the writer cannot because it waits for the disk
    /// itself.
    pub(crate) fn count_delay(&self, boot_ms: u64) {
        self.0.status.lock().count_delay(boot_ms);
    }

    /// Resets the number of delayed syncs.
    pub(crate) fn reset_delayed(&self) {
        self.0.status.lock().delayed_syncs = 0;
    }

    /// Has workers write to this file again, after another one was given up.
    pub(crate) fn write_by_workers(&self) {
        self.0.set_written_by_workers(*self.0.policy.lock() != FsyncPolicy::Always);
    }

    /// Has replies wait for the file from now on, because [`AofDir::install_base`] has attached its increment.
    pub(crate) fn base_installed(&self) {
        let asked = self.0.policy.lock(); // the writer confirms with it held
        if *asked != FsyncPolicy::Always {
            // At once, not at the writer's next step: a reply until then could be seen though the write is not in the file.
            self.0.reader.confirm_from(self.0.status.lock().written);
            self.0.requests.lock().is_attached = true;
        }
        drop(asked);
        self.0.reader.wake();
    }

    /// Returns true while no part of the file counts, because its base is not written.
    pub(crate) fn is_detached(&self) -> bool {
        self.0.dir.is_detached()
    }

    /// Returns the log position up to which the data is durable; `None` while the files lack a part.
    pub(crate) fn synced(&self) -> Option<u64> {
        let status = self.0.status.lock();
        let (position, needs_rewrite) = (status.synced, status.needs_rewrite.is_some());
        drop(status);
        // The lost place is read last: with its place, the writer may have lost the position, too, and not know it.
        let is_whole = !needs_rewrite && !self.is_detached() && !self.0.reader.has_lost_place();
        is_whole.then_some(position)
    }

    /// Returns true if nothing is confirmed before the base of the file is written.
    pub(crate) fn waits_for_base(&self) -> bool {
        self.is_detached() && *self.0.policy.lock() == FsyncPolicy::Always
    }

    /// Returns the state of the writer, with up-to-date figures.
    pub(crate) fn status(&self) -> AofStatus {
        let mut status = self.0.status.lock().clone();
        let dir = &self.0.dir;
        status.current_size = dir.other_len() + status.file_len;
        status.base_size = dir.base_size().unwrap_or(status.base_size);
        status.pending = self.0.reader.end().saturating_sub(status.written);
        if self.0.reader.has_lost_place() {
            status.needs_rewrite = Some(NeedsRewrite::LostPlace); // the writer may not have noticed
        }
        if status.needs_rewrite.is_some() {
            status.error.get_or_insert(AofError::NeedsRewrite);
        }
        status
    }

    /// Refuses a request, or wakes the writer for it.
    fn answer<T>(&self, refused: Option<(Completion<T>, AofError)>) {
        match refused {
            Some((done, error)) => done(Err(error)),
            None => self.0.reader.wake(),
        }
    }
}
