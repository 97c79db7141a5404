//! State of a server's files, and the orders for the thread that writes them.
//!
//! Commands place orders, and may wait until an order has begun (its snapshot then shows the data of that moment) or
//! ended. INFO, the gate and LASTSAVE read the [`FileFigures`]. Only the thread that writes files changes them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::{oneshot, watch};
use tracing::info;

use crate::persist::aof::{AofHandle, FsyncPolicy};

/// Pause between a failed sync and the next attempt for a waiting client. The first attempt is made at once.
const SYNC_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Time to wait for a job that was given up before it is told again.
const GIVEN_UP_WITHIN: Duration = Duration::from_millis(100);

/// A file to be written from a snapshot of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// The snapshot file (`dbfilename`).
    Save,
    /// The base of the append-only file.
    Rewrite,
}

/// The data that DEBUG RELOAD or LOADAOF loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reload {
    /// True if the append-only file is loaded, otherwise the snapshot file.
    pub(crate) is_of_log: bool,
    /// True if a snapshot is saved first.
    pub(crate) saves: bool,
    /// True if all keys are deleted first.
    pub(crate) flushes: bool,
    /// True if existing keys are replaced.
    pub(crate) merges: bool,
}

/// Reason for which an order is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    /// A snapshot is being written for this job.
    With(Job),
    /// No thread writes files: the namespace is a private one.
    Disabled,
}

/// An order, for whose begin or end its client may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    kind: Kind,
    /// Orders of a kind begin and end in the order of their numbers.
    number: u64,
    /// Set if every client that has placed the order waits for its end.
    is_awaited: bool,
}

impl Order {
    /// Returns true if every client that has placed the order gets its result, so that a failure is no reason to reject
    /// the writes of other clients.
    pub(crate) fn is_awaited(self) -> bool {
        self.is_awaited
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Save,
    Rewrite,
    Reload,
}

const KINDS: usize = 3;

/// A task of the thread that writes files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FileTask {
    /// Write a snapshot for this order.
    Write(Job, Order),
    /// Load data for this order.
    Load(Reload, Order),
    /// Check for work that is due without an order: the timeout has passed, or something has changed.
    Look,
    Stop,
}

/// Results of the finished jobs of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobOutcome {
    /// Reason for which the last job failed, if it did.
    pub(crate) error: Option<String>,
    /// Duration of the last job, in seconds.
    pub(crate) took_s: Option<u64>,
    /// Number of jobs that have succeeded.
    pub(crate) succeeded: u64,
    /// Number of jobs that have failed since the last success.
    pub(crate) failed: u64,
}

/// The job in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileJob {
    pub(crate) job: Job,
    /// Start time, in milliseconds since 1970.
    pub(crate) begun_ms: i64,
    /// Number of keys at the start.
    pub(crate) keys: u64,
    /// Number of keys already written.
    pub(crate) written: u64,
}

/// Progress of a load of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Loading {
    /// Start time, in milliseconds since 1970.
    pub(crate) begun_ms: i64,
    /// Length of the files, in bytes.
    pub(crate) total: u64,
    /// Number of bytes already read.
    pub(crate) read: u64,
    /// True while the present data is served during the load.
    pub(crate) is_beside: bool,
}

/// Figures of the append-only file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogFigures {
    /// Length of all parts, and of the base, in bytes.
    pub(crate) len: u64,
    pub(crate) base_len: u64,
    /// Number of bytes not written yet.
    pub(crate) unwritten: u64,
    /// True while written bytes wait for their fsync.
    pub(crate) is_syncing: bool,
    /// Number of writes that had to wait for a slow disk.
    pub(crate) delayed: u64,
    /// Length of the incomplete end that was cut off at the start, in bytes.
    pub(crate) cut: u64,
    /// Error of the last write, if it failed; or of the last rewrite, while no write is confirmed without its base.
    pub(crate) error: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileFigures {
    pub(crate) loading: Option<Loading>,
    /// Number of keys that the last load has added, and number of those that it has left out because they had expired.
    pub(crate) keys_loaded: u64,
    pub(crate) keys_expired: u64,
    /// Start time of the last successful save, in milliseconds since 1970; the start of the server before the first.
    pub(crate) saved_ms: i64,
    /// Number of changes that the last successful save, or the loaded data, contains.
    pub(crate) saved_changes: u64,
    /// Set when the server has stopped, and the append-only file has all data durably.
    pub(crate) is_log_complete: bool,
    pub(crate) work: Option<FileJob>,
    /// Start time of the snapshot that is being sent to replicas, in milliseconds since 1970, if there is one.
    pub(crate) sent_since_ms: Option<i64>,
    /// Number of jobs begun for which Redis forks.
    pub(crate) begun_in_background: u64,
    pub(crate) is_rewrite_scheduled: bool,
    pub(crate) saves: JobOutcome,
    pub(crate) rewrites: JobOutcome,
    pub(crate) log: Option<LogFigures>,
    /// True while an append-only file is about to be begun, or to begin again with other data.
    pub(crate) is_log_starting: bool,
}

impl FileFigures {
    /// Returns true if there is an append-only file, or one is being begun.
    pub(crate) fn has_log(&self) -> bool {
        self.log.is_some() || self.is_log_starting
    }

    /// Returns true if the first base of an append-only file is being written, or is to be written next.
    pub(crate) fn begins_log(&self) -> bool {
        self.is_log_starting && self.work.is_none_or(|work| work.job == Job::Rewrite)
    }

    /// Shifts all times, after the clock that they are measured by was set.
    pub(crate) fn shift_times(&mut self, by_ms: i64) {
        let loading = self.loading.as_mut().map(|loading| &mut loading.begun_ms);
        let work = self.work.as_mut().map(|work| &mut work.begun_ms);
        let times = [Some(&mut self.saved_ms), self.sent_since_ms.as_mut(), loading, work];
        times.into_iter().flatten().for_each(|time_ms| *time_ms = time_ms.saturating_add(by_ms));
    }
}

impl JobOutcome {
    /// Records a finished job, which took `took_s` seconds and has failed if there is an error.
    pub(crate) fn record(&mut self, error: Option<String>, took_s: u64) {
        (self.succeeded, self.failed) = match &error {
            None => (self.succeeded + 1, 0),
            Some(_) => (self.succeeded, self.failed + 1),
        };
        (self.error, self.took_s) = (error, Some(took_s));
    }
}

impl FileFigures {
    pub(crate) fn outcome(&mut self, job: Job) -> &mut JobOutcome {
        match job {
            Job::Save => &mut self.saves,
            Job::Rewrite => &mut self.rewrites,
        }
    }
}

/// The files of a namespace.
pub(crate) struct Persistence {
    state: Mutex<State>,
    /// Wakeup of the thread that writes files.
    wake: Condvar,
    /// Set once the job of that thread is to be given up.
    is_cancelled: AtomicBool,
    progress: watch::Sender<Progress>,
    /// Held while a snapshot is written or data is loaded.
    work: Mutex<()>,
    /// Held while a file is loaded in place of the data, and while changes of a primary are executed.
    data: Mutex<()>,
    /// Set once the process ends without waiting for files that are being written.
    is_abandoned: Mutex<bool>,
}

#[derive(Default)]
struct State {
    figures: FileFigures,
    /// True while a thread takes orders.
    is_enabled: bool,
    must_stop: bool,
    must_look: bool,
    /// Orders that have not begun, at most one of a kind.
    save: Option<Order>,
    rewrite: Option<Order>,
    reload: Option<(Reload, Order)>,
    /// True if the settings want an append-only file, as of the last look at them.
    wants_log: bool,
    log: Option<AofHandle>,
    /// True while the file is being ended, though it is still there.
    is_log_ending: bool,
    /// Number of orders placed so far.
    orders: u64,
}

/// The latest order of each kind that has begun, and the latest that has ended, with the reason for a failure.
#[derive(Default)]
struct Progress {
    begun: [u64; KINDS],
    ended: [(u64, Option<String>); KINDS],
}

impl State {
    /// Updates the figures of the append-only file.
    fn follow_log(&mut self) {
        let FileFigures { log, rewrites, .. } = &mut self.figures;
        if let (Some(handle), Some(figures)) = (&self.log, log) {
            let status = handle.status();
            let base = if handle.waits_for_base() { rewrites.error.clone() } else { None };
            *figures = LogFigures {
                len: status.current_size,
                base_len: status.base_size,
                unwritten: status.pending,
                is_syncing: status.is_syncing,
                delayed: status.delayed_syncs,
                cut: figures.cut,
                error: status.error.map(|error| error.to_string()).or(base),
            };
        }
    }

    fn new_order(&mut self, kind: Kind) -> Order {
        self.orders += 1;
        Order { kind, number: self.orders, is_awaited: false }
    }
}

impl Default for Persistence {
    fn default() -> Self {
        Persistence {
            state: Mutex::default(),
            wake: Condvar::new(),
            is_cancelled: AtomicBool::new(false),
            progress: watch::Sender::default(),
            work: Mutex::default(),
            data: Mutex::default(),
            is_abandoned: Mutex::default(),
        }
    }
}

impl Persistence {
    pub(crate) fn figures(&self) -> FileFigures {
        self.read(FileFigures::clone)
    }

    /// Calls `read` with the figures, after they were updated.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&FileFigures) -> T) -> T {
        let mut state = self.state.lock();
        state.follow_log();
        read(&state.figures)
    }

    /// Begins a file by `begin`, unless the process ends without waiting for it.
    ///
    /// # Errors
    /// Errors of `begin`; one of its own when the process ends.
    pub(crate) fn begin_file<T>(&self, begin: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let is_abandoned = self.is_abandoned.lock();
        if *is_abandoned { Err(io::Error::other("the process ends")) } else { begin() }
    }

    /// Refuses further files, and removes by `remove` any that may have been begun.
    pub(crate) fn abandon_files(&self, remove: impl FnOnce()) {
        let mut is_abandoned = self.is_abandoned.lock();
        *is_abandoned = true;
        remove();
    }

    /// Resets the counters of jobs and of delayed writes, as CONFIG RESETSTAT does.
    pub(crate) fn reset_statistics(&self) {
        let mut state = self.state.lock();
        let FileFigures { begun_in_background, saves, rewrites, .. } = &mut state.figures;
        (*begun_in_background, saves.succeeded, rewrites.succeeded, rewrites.failed) = (0, 0, 0, 0);
        if let Some(log) = &state.log {
            log.reset_delayed();
        }
    }

    /// Declares that there is an append-only file, with the number of bytes cut off when it was loaded, or that there
    /// is none any more.
    pub(crate) fn set_log(&self, log: Option<(AofHandle, u64)>) {
        let mut state = self.state.lock();
        state.figures.log = log.as_ref().map(|(_, cut)| LogFigures { cut: *cut, ..LogFigures::default() });
        state.log = log.map(|(handle, _)| handle);
        state.is_log_ending = false;
    }

    /// Returns true if there is an append-only file.
    pub(crate) fn has_log(&self) -> bool {
        self.state.lock().log.is_some()
    }

    /// Declares that the append-only file is being ended, unless the settings want it again; returns true if it is to
    /// be ended. The settings are read by `wants_log` while the lock is held, so that [`Persistence::follow_settings`]
    /// comes before or after.
    pub(crate) fn begin_log_end(&self, wants_log: impl FnOnce() -> bool) -> bool {
        let mut state = self.state.lock();
        state.is_log_ending = !wants_log();
        state.is_log_ending
    }

    /// Declares that no append-only file is being begun, unless `is_to_begin` says that one still is. It is called
    /// while the lock is held, as in [`Persistence::begin_log_end`].
    pub(crate) fn log_has_begun(&self, is_to_begin: impl FnOnce() -> bool) {
        let mut state = self.state.lock();
        state.figures.is_log_starting &= is_to_begin();
    }

    /// Declares that the append-only file, if there is one, has to begin again with all data, because it has nothing of
    /// the present data.
    pub(crate) fn begin_log_again(&self) {
        let mut state = self.state.lock();
        state.figures.is_log_starting |= state.log.is_some() && !state.is_log_ending;
    }

    /// Makes writes to the append-only file durable by another policy at once, whatever the thread that writes files is
    /// doing. Has no effect while the base is written: nothing is durable then.
    pub(crate) fn follow_policy(&self, policy: impl FnOnce() -> FsyncPolicy) {
        let state = self.state.lock();
        if let Some(handle) = state.log.as_ref().filter(|handle| !handle.is_detached()) {
            handle.set_policy(policy()); // of the latest settings, as the lock is held
        }
    }

    /// Begins or ends an append-only file after a change of the settings. When the file ends, its rewrites end too, the
    /// running and the scheduled one.
    pub(crate) fn follow_settings(&self, wants_log: bool) {
        let mut state = self.state.lock();
        let is_turned_off = std::mem::replace(&mut state.wants_log, wants_log) && !wants_log;
        if !state.is_enabled {
            return;
        }
        let is_missing = state.log.is_none() || state.is_log_ending;
        let (is_starting, work) = (wants_log && is_missing, state.figures.work);
        if is_starting && !state.figures.is_log_starting {
            info!("AOF was enabled. An AOF background was scheduled to start when possible");
        }
        if !wants_log && state.log.is_some() && work.is_some_and(|work| work.job == Job::Rewrite) {
            info!("Killing running AOF rewrite child, which here is a thread");
            self.give_up(&mut state);
        }
        if is_turned_off && let Some(order) = state.rewrite.take() {
            state.figures.is_rewrite_scheduled = false;
            self.end(order, Some("the append only file was turned off".into()));
        }
        // A file that is being begun has a log already.
        state.figures.is_log_starting = is_starting || wants_log && state.figures.is_log_starting;
        state.must_look = true;
        self.wake.notify_one();
    }

    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut FileFigures) -> T) -> T {
        change(&mut self.state.lock().figures)
    }

    /// Orders a snapshot to be written as soon as no other snapshot is.
    ///
    /// # Errors
    /// If no thread takes orders; if a snapshot is being written, unless the order `waits` for that. A rewrite does
    /// not wait for another one.
    pub(crate) fn order(&self, job: Job, waits: bool) -> Result<Order, Busy> {
        let mut state = self.state.lock();
        if !state.is_enabled {
            return Err(Busy::Disabled);
        }
        if let Some(work) = state.figures.work
            && (!waits || work.job == job && job != Job::Save)
        {
            return Err(Busy::With(work.job));
        }
        Ok(self.place(&mut state, job, false))
    }

    /// Orders a snapshot file to be written as soon as no other file is; the caller waits for its end.
    ///
    /// # Errors
    /// If no thread takes orders.
    pub(crate) fn order_awaited_save(&self) -> Result<Order, Busy> {
        let mut state = self.state.lock();
        if state.is_enabled { Ok(self.place(&mut state, Job::Save, true)) } else { Err(Busy::Disabled) }
    }

    /// Orders data to be loaded.
    ///
    /// # Errors
    /// If no thread takes orders.
    pub(crate) fn order_reload(&self, reload: Reload) -> Result<Order, Busy> {
        let mut state = self.state.lock();
        if !state.is_enabled {
            return Err(Busy::Disabled);
        }
        let order = state.new_order(Kind::Reload);
        state.reload = Some((reload, order));
        self.wake.notify_one();
        Ok(order)
    }

    /// Orders a rewrite of the append-only file, if there is one, even during another rewrite.
    pub(crate) fn rewrite_log(&self) {
        let mut state = self.state.lock();
        if state.is_enabled && state.log.is_some() {
            self.place(&mut state, Job::Rewrite, false);
        }
    }

    fn place(&self, state: &mut State, job: Job, is_awaited: bool) -> Order {
        let mut next = state.new_order(if job == Job::Save { Kind::Save } else { Kind::Rewrite });
        next.is_awaited = is_awaited;
        let placed = match job {
            Job::Save => state.save.get_or_insert(next),
            Job::Rewrite => state.rewrite.get_or_insert(next),
        };
        placed.is_awaited &= is_awaited;
        let order = *placed;
        state.figures.is_rewrite_scheduled = state.rewrite.is_some();
        self.wake.notify_one();
        order
    }

    /// Has the thread that writes files check for due work, after a change of the settings or of the data as a whole.
    pub(crate) fn look(&self) {
        self.state.lock().must_look = true;
        self.wake.notify_one();
    }

    /// Ends the thread that writes files; it gives up the snapshot or load in progress.
    pub(crate) fn stop(&self) {
        self.is_cancelled.store(true, Relaxed);
        self.state.lock().must_stop = true;
        self.wake.notify_one();
    }

    /// Has the job in progress given up, if it is `job`.
    pub(crate) fn cancel(&self, job: Job) {
        let mut state = self.state.lock();
        if state.figures.work.is_some_and(|work| work.job == job) {
            self.give_up(&mut state);
        }
    }

    /// Has the snapshot for replicas given up, if one is being written.
    pub(crate) fn cancel_sending(&self) {
        let mut state = self.state.lock();
        if state.figures.sent_since_ms.is_some() {
            self.give_up(&mut state);
        }
    }

    /// Waits until nothing is written or loaded, and prevents both until the guard is dropped.
    pub(crate) fn alone(&self) -> MutexGuard<'_, ()> {
        self.work.lock()
    }

    /// Waits like [`Persistence::alone`], but has the job in progress given up.
    pub(crate) fn alone_at_once(&self) -> MutexGuard<'_, ()> {
        loop {
            self.give_up(&mut self.state.lock());
            // A job that has just begun has not seen the request.
            if let Some(alone) = self.work.try_lock_for(GIVEN_UP_WITHIN) {
                return alone;
            }
        }
    }

    /// Has the job in progress given up. It counts as ended from now on, so the next can be ordered.
    fn give_up(&self, state: &mut State) {
        self.is_cancelled.store(true, Relaxed);
        state.figures.work = None;
    }

    /// Forgets that the last job was to be given up, unless the thread is to stop.
    pub(crate) fn begin_job(&self) {
        self.is_cancelled.store(self.state.lock().must_stop, Relaxed);
    }

    /// Waits until no file is loaded in place of the data, and prevents such loads until the guard is dropped: for a
    /// replica that executes what its primary sends, and for DEBUG.
    pub(crate) fn keep_data(&self) -> MutexGuard<'_, ()> {
        self.data.lock()
    }

    /// Returns the flag that is set when a snapshot or a load is to be given up.
    pub(crate) fn cancelled(&self) -> &AtomicBool {
        &self.is_cancelled
    }

    /// Declares that the calling thread takes orders from now on, or that no thread does any more.
    pub(crate) fn set_enabled(&self, is_enabled: bool) {
        self.state.lock().is_enabled = is_enabled;
    }

    /// Waits for the next task, for at most `timeout` if there is one.
    pub(crate) fn next_task(&self, timeout: Option<Duration>) -> FileTask {
        let mut state = self.state.lock();
        loop {
            if state.must_stop {
                return FileTask::Stop;
            }
            // A shutdown may wait for this save, and due work may take long.
            if let Some(order) = state.save.take_if(|order| order.is_awaited) {
                return FileTask::Write(Job::Save, order);
            }
            if std::mem::take(&mut state.must_look) {
                return FileTask::Look;
            }
            if let Some(order) = state.save.take() {
                return FileTask::Write(Job::Save, order);
            }
            if let Some(order) = state.rewrite.take() {
                state.figures.is_rewrite_scheduled = false;
                return FileTask::Write(Job::Rewrite, order);
            }
            if let Some((reload, order)) = state.reload.take() {
                return FileTask::Load(reload, order);
            }
            match timeout {
                None => self.wake.wait(&mut state),
                Some(timeout) => {
                    if self.wake.wait_for(&mut state, timeout).timed_out() {
                        return FileTask::Look;
                    }
                }
            }
        }
    }

    /// Tells clients that wait for an order that its snapshot shows the data of this moment.
    pub(crate) fn begin(&self, Order { kind, number, .. }: Order) {
        self.progress.send_modify(|progress| {
            let begun = &mut progress.begun[kind as usize];
            *begun = number.max(*begun);
        });
    }

    /// Tells clients that wait for an order that it has ended, with an error if it has failed.
    pub(crate) fn end(&self, Order { kind, number, .. }: Order, error: Option<String>) {
        self.progress.send_modify(|progress| {
            let (begun, ended) = (&mut progress.begun[kind as usize], &mut progress.ended[kind as usize]);
            *begun = number.max(*begun);
            // An order that is dropped may end before an earlier one that is being given up.
            if number > ended.0 {
                *ended = (number, error);
            }
        });
    }

    /// Returns the log position up to which an append-only file has all data durably, if there is one.
    pub(crate) fn synced_position(&self) -> Option<u64> {
        self.state.lock().log.as_ref()?.synced()
    }

    /// Waits until everything in the append-only file, or in the one that is being begun, is durable, however often the
    /// disk fails; returns false if there is no such file, or no longer.
    pub(crate) async fn synced(&self) -> bool {
        loop {
            let (log, has_log) = {
                let state = self.state.lock();
                (state.log.clone(), state.figures.has_log())
            };
            if !has_log {
                return false;
            }
            if let Some(handle) = log {
                let (tell, told) = oneshot::channel();
                handle.sync(Box::new(move |result| _ = tell.send(result.is_ok()))); // unread if the client is gone
                if told.await == Ok(true) {
                    return true;
                }
            }
            tokio::time::sleep(SYNC_AGAIN_AFTER).await;
        }
    }

    pub(crate) async fn begun(&self, Order { kind, number, .. }: Order) {
        let mut progress = self.progress.subscribe();
        // Never fails, because the sender is a field of this.
        let _ = progress.wait_for(|progress| progress.begun[kind as usize] >= number).await;
    }

    /// Waits until an order has ended; returns the reason for its failure, if it has failed.
    pub(crate) async fn ended(&self, Order { kind, number, .. }: Order) -> Option<String> {
        let mut progress = self.progress.subscribe();
        let ended = progress.wait_for(|progress| progress.ended[kind as usize].0 >= number).await;
        ended.ok().and_then(|progress| progress.ended[kind as usize].1.clone())
    }
}
