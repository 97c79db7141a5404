//! Load of all data of the primary into a second store, while the replica's own data stays until it is replaced as a
//! whole (`repl-diskless-load swapdb`).

use std::io::Read;

use tracing::{info, warn};

use crate::dispatch::texts;
use crate::durability::load::{Duplicates, LoadRules};
use crate::durability::take_over::{ReceivedData, ReplicaLoader};
use crate::namespace::Namespace;
use crate::store::{Cx, Origin, Store};

/// Guard of the time in which data is loaded; clients are served normally again when it is dropped.
struct LoadingTime<'n>(&'n Namespace);

/// A second store of the namespace. Its content is freed in the background when it is dropped.
struct SecondStore<'n> {
    namespace: &'n Namespace,
    store: Store,
}

impl ReplicaLoader {
    /// Replaces all data by a load into a second store, and continues the log where that of the primary was. Returns
    /// the database that is selected there, or `None` if the server's role has changed meanwhile. During the load,
    /// clients are served the present data if it is of the same history, and rejected otherwise.
    ///
    /// # Errors
    /// The fault in the received data. The present data stays then.
    pub(crate) fn swap<R: Read>(&self, received: ReceivedData<R>) -> Result<Option<usize>, String> {
        let namespace = &*self.worker.namespace;
        let _alone = namespace.persistence.alone_at_once();
        namespace.persistence.begin_job();
        if namespace.role.term() != received.term {
            return Ok(None);
        }
        let _loading = LoadingTime::begin(namespace, namespace.tenant.replication_id() == received.id);
        self.worker.begin_loading(received.len.unwrap_or(0));
        self.load_beside(received)
    }

    fn load_beside<R: Read>(
        &self,
        ReceivedData { content, path, id, position, term, time, .. }: ReceivedData<R>,
    ) -> Result<Option<usize>, String> {
        let namespace = &*self.worker.namespace;
        let beside = SecondStore { namespace, store: namespace.store.beside() };
        info!("MASTER <-> REPLICA sync: Loading DB in memory");
        let rules = LoadRules { beside: Some(&beside.store), duplicates: Duplicates::Refuse, keeps_expired: true };
        let swapped = self.worker.load_rdb(&path, content, None, rules).and_then(|loaded| {
            let mut whole = namespace.store.exclusive();
            if namespace.role.term() != term {
                return Ok(None);
            }
            let libraries = texts::set_libraries(namespace, &loaded.libraries);
            libraries
                .map_err(|error| format!("{}: {}", path.display(), String::from_utf8_lossy(&error.wire_text())))?;
            info!("MASTER <-> REPLICA sync: Swapping active DB with loaded DB");
            namespace.tenant.history.begin(); // if a panic ends this half-way, no replica continues with the data
            namespace.begin_time(time);
            let cx = Cx::new(namespace.clock.now(), Origin::HOST);
            whole.view(0, cx).exchange(&mut beside.store.exclusive().view(0, cx));
            self.continue_at(id, position, loaded.stream_db);
            Ok(Some(loaded.stream_db))
        });
        drop(beside);
        match &swapped {
            Ok(Some(_)) => {
                info!("MASTER <-> REPLICA sync: Discarding old DB in background");
                info!("MASTER <-> REPLICA sync: Finished with success");
            }
            Ok(None) => info!("MASTER <-> REPLICA sync: Discarding temporary DB in background"),
            Err(reason) => {
                // Tools look for both lines in the log of Redis.
                warn!(
                    "Failed trying to load the MASTER synchronization DB from socket. Internal error in RDB: {reason}"
                );
                info!("MASTER <-> REPLICA sync: Discarding temporary DB in background");
            }
        }
        swapped
    }
}

impl<'n> LoadingTime<'n> {
    /// Begins the load, and waits until all calls are over that are rejected from now on.
    fn begin(namespace: &'n Namespace, is_data_served: bool) -> Self {
        if is_data_served {
            namespace.set_loading_beside(true);
        } else {
            namespace.set_loading(true);
        }
        namespace.store.pass_barrier();
        LoadingTime(namespace)
    }
}

impl Drop for LoadingTime<'_> {
    fn drop(&mut self) {
        self.0.set_loading(false);
        self.0.set_loading_beside(false);
        self.0.persistence.update(|figures| figures.loading = None);
        self.0.persistence.look();
    }
}

impl Drop for SecondStore<'_> {
    fn drop(&mut self) {
        let cx = Cx::new(self.namespace.clock.now(), Origin::HOST);
        self.store.exclusive().view(0, cx).clear(true);
    }
}
