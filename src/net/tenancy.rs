//! Private namespaces: created when a client enters them, and kept until their clients have been gone for a while.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use crate::client::info::ClientInfo;
use crate::dispatch::{Destination, Handlers};
use crate::error::{Error, Result};
use crate::namespace::{Admitted, Namespace};
use crate::net::listener::ListeningPort;
use crate::persist::disk::Disk;
use crate::replication::replicate_locally;
use crate::runtime::executor::supervise;
use crate::time::clock::Clock;
use crate::upkeep;

/// Error text when no further namespace is created.
pub(super) const TOO_MANY: &str = "too many private instances";

/// A server that accepts connections at further ports.
pub(crate) trait AcceptsFor: Send + Sync {
    /// Accepts connections of a namespace at an open port.
    fn accept_for(self: Arc<Self>, namespace: &Arc<Namespace>, opened: &mut ListeningPort);
}

/// State from which a server in test mode creates namespaces.
pub(crate) struct Tenancy {
    pub(crate) main: Arc<Namespace>,
    /// The handlers of all commands.
    pub(crate) handlers: &'static Handlers,
    /// Function that creates the clock of a namespace.
    pub(crate) new_clock: fn() -> Clock,
    /// Runtime of the tasks of private namespaces.
    pub(crate) runtime: Handle,
    /// The tasks of the server.
    pub(crate) tasks: TaskTracker,
    /// Disk on which files would be.
    pub(crate) disk: Arc<dyn Disk>,
    /// The server, once it accepts connections.
    pub(crate) server: OnceLock<Weak<dyn AcceptsFor>>,
}

impl Tenancy {
    pub(crate) fn new(
        main: &Arc<Namespace>,
        handlers: &'static Handlers,
        (new_clock, disk): (fn() -> Clock, Arc<dyn Disk>),
        (runtime, tasks): (&Handle, &TaskTracker),
    ) -> Arc<Self> {
        let (main, runtime, tasks) = (main.clone(), runtime.clone(), tasks.clone());
        Arc::new(Tenancy { main, handlers, new_clock, runtime, tasks, disk, server: OnceLock::new() })
    }

    /// Adds a client to the namespace that it wants to enter; `None` if there would be one namespace too many.
    pub(crate) fn admit(&self, destination: &Destination, client: &ClientInfo) -> Option<Admitted> {
        let Destination::Private { user, .. } = destination else {
            let info = self.main.clients.adopt(client, self.main.clock.now());
            return Some(Admitted { namespace: self.main.clone(), info, is_new: false });
        };
        let create = || Namespace::new_private(&self.main, user, (self.new_clock)());
        let admitted = self.main.admit_private(user, client, create)?;
        if admitted.is_new {
            self.begin(&admitted.namespace);
        }
        Some(admitted)
    }

    /// Creates a namespace that replicates another one; returns when the replica has all data.
    ///
    /// # Errors
    /// If there is a namespace of this name, or there are too many.
    pub(crate) async fn make_replica(&self, primary: &Arc<Namespace>, name: &[u8]) -> Result<()> {
        let founded = self.main.found_private(name, || Namespace::new_replica(&self.main, name, primary));
        let (replica, is_new) = founded.ok_or(Error::other(TOO_MANY))?;
        if !is_new {
            return Err(Error::other("there is a private instance of this name"));
        }
        let link = replicate_locally(primary, &replica, (self.handlers, self.disk.clone())).await;
        self.tasks.spawn_on(link, &self.runtime);
        self.begin(&replica);
        Ok(())
    }

    /// Creates a namespace that lasts until it is ended, with or without clients.
    ///
    /// # Errors
    /// If there is a namespace of this name, or there are too many.
    pub(crate) fn make_lasting(&self, name: &[u8]) -> Result<Arc<Namespace>> {
        let founded = self.main.found_private(name, || Namespace::new_private(&self.main, name, (self.new_clock)()));
        match founded {
            Some((namespace, true)) => {
                self.begin_sweeping(&namespace);
                Ok(namespace)
            }
            Some(_) => Err(Error::other("there is a private instance of this name")),
            None => Err(Error::other(TOO_MANY)),
        }
    }

    /// Starts the tasks of a namespace.
    fn begin(&self, namespace: &Arc<Namespace>) {
        self.begin_sweeping(namespace);
        self.tasks.spawn_on(keep(namespace.clone()), &self.runtime);
        if namespace.tenant.stop.is_cancelled() {
            namespace.clients.end_all(); // the clients of the others were ended before this one could be found
        }
    }

    /// Starts the sweeper of a namespace.
    pub(super) fn begin_sweeping(&self, namespace: &Arc<Namespace>) {
        let (sweeper, handlers) = (namespace.clone(), self.handlers);
        let panics = self.main.instance.panics.clone();
        let sweep = supervise(panics, "sweep", move || upkeep::sweep(sweeper.clone(), handlers));
        self.tasks.spawn_on(sweep, &self.runtime);
    }
}

/// Ends a private namespace once no client has been in it, nor in one with which it shares its clock, for the time of
/// `namespace-linger`.
async fn keep(namespace: Arc<Namespace>) {
    loop {
        let served = namespace.clients.served();
        let linger = Duration::from_millis(namespace.settings.current().namespace_linger_ms);
        let has_clients = !namespace.clients.is_empty();
        tokio::select! {
            () = namespace.tenant.stop.cancelled() => return,
            () = namespace.clients.deserted.notified() => {}
            () = tokio::time::sleep(linger), if !has_clients => {
                if namespace.forget_private(served) {
                    break;
                }
            }
        }
    }
    namespace.end();
}
