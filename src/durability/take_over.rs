//! Replacement of all data of a replica by that of its primary.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tracing::{info, warn};

use crate::dispatch::{Handlers, texts};
use crate::durability::load::{Duplicates, LoadRules};
use crate::durability::save_points::SaveSchedule;
use crate::durability::worker::FilesWorker;
use crate::namespace::Namespace;
use crate::persist::disk::Disk;
use crate::store::{Cx, Origin};
use crate::text::system_text;
use crate::time::estimate::TimeSample;

/// Replacement of a replica's data by that of its primary.
pub(crate) struct ReplicaLoader {
    pub(super) worker: FilesWorker,
}

/// The data of a primary, at a position in its log.
pub(crate) struct ReceivedData<R> {
    pub(crate) content: R,
    /// Length of the file; `None` if it is not known before the end.
    pub(crate) len: Option<u64>,
    /// Name of the file, for messages.
    pub(crate) path: PathBuf,
    /// The replication ID of the data, and the position.
    pub(crate) id: String,
    pub(crate) position: u64,
    /// The term of the role in which the data was received.
    pub(crate) term: u64,
    /// The time at the primary, if it sends it: the deadlines are by its clock.
    pub(crate) time: Option<TimeSample>,
}

impl ReplicaLoader {
    pub(crate) fn new(namespace: &Arc<Namespace>, handlers: &'static Handlers, disk: Arc<dyn Disk>) -> Self {
        let (namespace, due) = (namespace.clone(), SaveSchedule::default());
        ReplicaLoader { worker: FilesWorker { namespace, handlers, disk, due, log: None, pin: Arc::default() } }
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.worker.disk
    }

    /// Waits until the server has loaded its own data.
    pub(crate) fn wait_until_loaded(&self) {
        let namespace = &self.worker.namespace;
        while namespace.restrictions.is_loading() {
            // The thread that loads may not have begun.
            drop(namespace.persistence.alone());
            thread::park_timeout(Duration::from_millis(1));
        }
    }

    /// Renames a received file to the snapshot file, if it was loaded and the settings name one; otherwise removes it.
    pub(crate) fn keep(&self, path: &Path, is_loaded: bool) {
        let config = self.worker.namespace.settings.current();
        let target = config.dbfilename.as_ref().filter(|_| is_loaded).map(|name| config.dir.join(name));
        let done = match &target {
            Some(target) => self.disk().rename(path, target).and_then(|()| self.disk().sync_dir(&config.dir)),
            None => self.disk().remove(path),
        };
        if let Err(cause) = done {
            warn!("The received data stays in {}: {}", path.display(), system_text(&cause));
        }
    }

    /// Replaces all data, and continues the log where that of the primary was. Returns the database that is selected
    /// there, or `None` if the server's role has changed meanwhile. Clients are rejected during the load.
    ///
    /// # Errors
    /// The fault in the file. There is no data then.
    pub(crate) fn replace<R: Read>(&self, received: ReceivedData<R>) -> Result<Option<usize>, String> {
        let namespace = &*self.worker.namespace;
        let _alone = namespace.persistence.alone_at_once();
        namespace.persistence.begin_job();
        let is_current = || namespace.role.term() == received.term;
        if !is_current() {
            return Ok(None);
        }
        namespace.set_loading(true);
        namespace.store.pass_barrier();
        self.worker.begin_loading(received.len.unwrap_or(0));
        let result = self.load(received);
        if result.is_err() {
            self.clear();
            namespace.tenant.history.begin(); // the data is not that of the former history
        }
        namespace.set_loading(false);
        self.worker.set_loaded();
        namespace.persistence.look();
        result
    }

    fn load<R: Read>(
        &self,
        ReceivedData { content, path, id, position, term, time, .. }: ReceivedData<R>,
    ) -> Result<Option<usize>, String> {
        let namespace = &*self.worker.namespace;
        info!("MASTER <-> REPLICA sync: Flushing old data");
        self.clear();
        namespace.begin_time(time);
        info!("MASTER <-> REPLICA sync: Loading DB in memory");
        let rules = LoadRules { beside: None, duplicates: Duplicates::Refuse, keeps_expired: true };
        // Nothing is allocated for a length that the primary claims.
        let loaded = self.worker.load_rdb(&path, content, None, rules)?;
        let db = loaded.stream_db;
        let _held = namespace.store.exclusive();
        if namespace.role.term() != term {
            return Ok(None);
        }
        self.continue_at(id, position, db);
        info!("MASTER <-> REPLICA sync: Finished with success");
        Ok(Some(db))
    }

    /// Continues the history of the data that was loaded. The caller holds the whole store.
    pub(super) fn continue_at(&self, id: String, position: u64, db: usize) {
        let namespace = &*self.worker.namespace;
        namespace.log.continue_at(position, db); // first: a reader of the log that asks for the ID has lost its place
        namespace.persistence.begin_log_again();
        namespace.tenant.history.adopt(id);
        namespace.disconnect_replicas(); // they have to learn of the other history
    }

    /// Deletes all keys, and all libraries of functions.
    fn clear(&self) {
        let namespace = &*self.worker.namespace;
        let cx = Cx::new(namespace.clock.now(), Origin::HOST);
        namespace.store.exclusive().view(0, cx).clear(true);
        // An empty list of libraries cannot fail to load.
        let _ = texts::set_libraries(namespace, &[]);
    }
}
