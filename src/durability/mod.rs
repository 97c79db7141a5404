//! Files: loads the data when the server starts, saves it on a schedule or on orders, and writes the append-only file.
//!
//! One thread, `files`, does all of it, so that no call waits for a disk. Commands place orders
//! ([`Persistence`](crate::persist::Persistence)); the thread checks the settings when they change.

mod async_load;
mod consumers;
mod deadlines;
mod full_sync;
mod load;
mod log;
mod log_load;
#[cfg(test)]
pub(crate) mod probe;
mod progress;
mod psync_from_aof;
mod save;
mod save_points;
mod take_over;
mod worker;

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tracing::{info, warn};

use crate::dispatch::{Handlers, texts};
use crate::durability::load::Duplicates;
use crate::durability::save_points::SaveSchedule;
use crate::durability::worker::FilesWorker;
use crate::namespace::Namespace;
use crate::persist::disk::Disk;
use crate::persist::{FileTask, Job, Order, Reload};
use crate::store::{Cx, Origin};

pub(crate) use full_sync::{copy, send_copies};
pub(crate) use save::unfinished;
pub(crate) use take_over::{ReceivedData, ReplicaLoader};

/// Time for which clients wait for the first load before they are answered that it is in progress.
const LOADING_HIDDEN: Duration = Duration::from_millis(100);

/// Interval of checks for due work.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The thread of a server that loads and writes its files.
pub(crate) struct Files {
    namespace: Arc<Namespace>,
    first_load: watch::Receiver<()>,
    ended: Option<oneshot::Receiver<()>>,
}

/// The load at the start, for the tasks that accept connections.
#[derive(Clone)]
pub(crate) struct InitialLoad {
    namespace: Arc<Namespace>,
    /// Closed at the end of the load.
    end: watch::Receiver<()>,
}

impl InitialLoad {
    /// Waits until clients can be served: the data is loaded, or the load takes longer than clients should wait, so
    /// that they get an error. Without data to load, clients never get one.
    pub(crate) async fn wait_shortly(&self) {
        let (mut end, is_loading) =
            (self.end.clone(), || self.namespace.persistence.read(|files| files.loading.is_some()));
        while tokio::time::timeout(LOADING_HIDDEN, end.changed()).await.is_err() {
            if is_loading() {
                return;
            }
        }
    }
}

/// The end of the first load.
pub(crate) struct LoadEnd(oneshot::Receiver<Result<(), String>>);

impl LoadEnd {
    /// Waits until the data is loaded.
    ///
    /// # Errors
    /// The reason for which the data cannot be loaded.
    pub(crate) async fn wait(self) -> io::Result<()> {
        match self.0.await {
            Ok(loaded) => loaded.map_err(io::Error::other),
            Err(_) => Err(io::Error::other("the data was not loaded, because the server was stopped")),
        }
    }
}

/// Starts the thread, which loads the data; until then the server answers `-LOADING`.
///
/// # Errors
/// An error if the thread cannot be started.
pub(crate) fn start(
    namespace: &Arc<Namespace>,
    handlers: &'static Handlers,
    disk: Arc<dyn Disk>,
) -> io::Result<(Files, LoadEnd)> {
    let ((tell_loaded, loaded), (tell_ended, ended)) = (oneshot::channel(), oneshot::channel());
    let worker = FilesWorker {
        namespace: namespace.clone(),
        handlers,
        disk,
        due: SaveSchedule::default(),
        log: None,
        pin: Arc::default(),
    };
    namespace.persistence.set_enabled(true);
    namespace.persistence.update(|figures| figures.saved_ms = namespace.clock.now().wall_ms());
    namespace.set_loading(true);
    let (loading, first_load) = watch::channel(());
    thread::Builder::new().name("files".into()).spawn(move || {
        let _ended = tell_ended;
        worker.run(tell_loaded, loading);
    })?;
    Ok((Files { namespace: namespace.clone(), first_load, ended: Some(ended) }, LoadEnd(loaded)))
}

impl Files {
    pub(crate) fn opening(&self) -> InitialLoad {
        InitialLoad { namespace: self.namespace.clone(), end: self.first_load.clone() }
    }

    /// Ends the thread once all logged records are written, and waits for that.
    pub(crate) async fn end(&mut self) {
        self.namespace.persistence.stop();
        if let Some(ended) = self.ended.take() {
            let _ = ended.await; // closed when the thread has ended
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.namespace.persistence.stop();
    }
}

impl FilesWorker {
    fn run(mut self, loaded: oneshot::Sender<Result<(), String>>, loading: watch::Sender<()>) {
        let namespace = self.namespace.clone();
        let alone = namespace.persistence.alone();
        let result = self.load().and_then(|()| self.namespace.check_databases());
        drop(alone);
        if result.is_ok() {
            self.namespace.end_former_sessions(); // the removals are logged
        }
        self.namespace.set_loading(false);
        drop(loading);
        let is_loaded = result.is_ok();
        let _ = loaded.send(result); // the receiver is gone when the server was stopped
        if is_loaded {
            self.serve();
        }
        self.namespace.persistence.set_enabled(false);
    }

    /// Loads the present files.
    fn load(&mut self) -> Result<(), String> {
        let config = self.namespace.settings.current();
        let dir = config.appendonly.then(|| self.open_log_dir()).transpose()?;
        if let Some(dir) = dir.as_ref().filter(|dir| dir.has_parts()) {
            let mut loaded = self.load_log(dir)?;
            self.set_loaded();
            if let Some(place) = loaded.place.take() {
                self.namespace.continue_from(place);
            }
            return self.continue_log(dir.clone(), loaded);
        }
        let loaded = self.load_snapshot(Duplicates::Refuse);
        let loaded = loaded.map_err(|reason| format!("Fatal error loading the DB: {reason}"))?;
        if loaded.is_none() && config.refuse_empty_start {
            return Err("there is no data to load, and refuse-empty-start is yes".into());
        }
        self.set_loaded();
        if let Some(place) = loaded.flatten() {
            self.namespace.continue_from(place);
        }
        dir.map_or(Ok(()), |dir| self.begin_log(dir))
    }

    /// Sets the figures after a load.
    fn set_loaded(&self) {
        let changes = self.namespace.held_locks().map_or(0, |totals| totals.changes);
        self.namespace.persistence.update(|figures| {
            figures.loading = None;
            figures.saved_changes = changes;
        });
    }

    /// Loads data while the server runs, for DEBUG; other clients are rejected meanwhile.
    fn reload(&mut self, reload: Reload, order: Order) {
        let namespace = self.namespace.clone();
        // A replica executes no command of its primary from before the save until after the load.
        let _data = namespace.persistence.keep_data();
        namespace.persistence.begin_job();
        let catch = |work: &mut dyn FnMut() -> Result<(), String>| {
            let result = namespace.instance.panics.catch("reload", work);
            result.unwrap_or_else(|| Err("the thread has panicked".into()))
        };
        let prepared = catch(&mut || self.prepare_reload(reload));
        let is_begun = prepared.is_ok();
        let result = prepared.and_then(|()| catch(&mut || self.replace_data(reload)));
        let is_other = is_begun && (!reload.saves || result.is_err());
        if is_other {
            namespace.leave_history();
            self.due.is_rewrite |= self.log.is_some() && !reload.is_of_log;
        }
        match (&result, reload.is_of_log) {
            (Ok(()), true) => info!("Append Only File loaded by DEBUG LOADAOF"),
            (Ok(()), false) => info!("DB reloaded by DEBUG RELOAD"),
            (Err(reason), _) => warn!("The data cannot be loaded: {reason}"),
        }
        namespace.end_former_sessions(); // the clients were told that they have lost their locks
        namespace.set_loading(false);
        namespace.persistence.update(|figures| figures.work = None);
        self.set_loaded();
        namespace.persistence.end(order, result.err());
    }

    /// Rejects clients, and saves a snapshot if the reload wants one.
    fn prepare_reload(&mut self, reload: Reload) -> Result<(), String> {
        let namespace = self.namespace.clone();
        namespace.set_loading(true); // writes of clients after the save would be lost
        namespace.store.pass_barrier();
        match (reload.saves, &self.log) {
            (true, _) => self.save(None, namespace.clock.now()).map(drop),
            (false, Some(log)) if reload.is_of_log => log.sync(),
            // Checked before any key is deleted.
            (false, None) if reload.is_of_log && !self.open_log_dir()?.has_parts() => {
                Err("there is no append-only file to load".into())
            }
            (false, _) => Ok(()),
        }
    }

    /// Loads a file in place of the data.
    fn replace_data(&mut self, reload: Reload) -> Result<(), String> {
        let namespace = self.namespace.clone();
        if reload.flushes {
            let cx = Cx::new(namespace.clock.now(), Origin::HOST);
            namespace.store.exclusive().view(0, cx).clear(true);
            // An empty list of libraries cannot fail to load.
            let _ = texts::set_libraries(&namespace, &[]);
        }
        let duplicates = if reload.merges { Duplicates::Replace } else { Duplicates::Refuse };
        if reload.is_of_log {
            return match &self.log {
                Some(log) => self.load_log(&log.dir()).map(drop),
                None => self.load_log(&*self.open_log_dir()?).map(drop),
            };
        }
        match self.load_snapshot(duplicates)? {
            Some(_) => Ok(()),
            None => Err("there is no file to load".into()),
        }
    }

    /// Executes orders and due work, until the thread is to end.
    fn serve(&mut self) {
        let namespace = self.namespace.clone();
        loop {
            let timeout = self.has_to_look().then_some(LOOK_EVERY);
            let task = namespace.persistence.next_task(timeout);
            let _alone = namespace.persistence.alone();
            match task {
                FileTask::Write(job, order) => _ = self.write(job, Some(order)), // the client of the order is told
                FileTask::Load(reload, order) => self.reload(reload, order),
                FileTask::Look => self.look(),
                FileTask::Stop => return self.end_last_log(),
            }
        }
    }

    /// Returns true if work may become due without an order.
    fn has_to_look(&self) -> bool {
        let config = self.namespace.settings.current();
        self.log.is_some() || self.serves_replicas() || config.appendonly || !config.save_points.is_empty()
    }

    /// Performs all due work.
    fn look(&mut self) {
        self.send_missing(); // first: a rewrite of the file removes records that replicas lack
        self.follow_log_settings();
        self.synchronize_if_due();
        self.namespace.free_idle_backlog(self.namespace.clock.now());
        let namespace = self.namespace.clone();
        let Some(totals) = namespace.held_locks() else { return };
        let (config, now) = (namespace.settings.current(), namespace.clock.now());
        let figures = namespace.persistence.figures();
        let changes = totals.changes.saturating_sub(figures.saved_changes);
        if let Some(point) = self.due.save(&config.save_points, &figures, changes, now) {
            info!("{} changes in {} seconds. Saving...", point.changes, point.seconds);
            _ = self.write(Job::Save, None); // INFO shows the reason of a failure
        }
    }
}
