//! Creates private namespaces when a client enters them, and keeps each until its clients have been gone for a while.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use crate::client::info::ClientInfo;
use crate::dispatch::{Destination, Handlers};
use crate::error::{Error, Result};
use crate::namespace::{Admitted, Namespace};
use crate::persist::disk::Disk;
use crate::replication::replicate_locally;
use crate::runtime::executor::supervise;
use crate::time::clock::Clock;
use crate::upkeep;

/// Why no namespace is created.
pub(super) const TOO_MANY: &str = "too many private instances";

/// What a server in test mode needs to create namespaces.
pub(crate) struct Tenancy {
    /// The main namespace.
    pub(crate) main: Arc<Namespace>,
    /// The handlers of all commands.
    pub(crate) handlers: &'static Handlers,
    /// Creates the clock of a namespace.
    pub(crate) new_clock: fn() -> Clock,
    /// The runtime of the tasks that keep namespaces in order.
    pub(crate) runtime: Handle,
    /// The tasks of the server.
    pub(crate) tasks: TaskTracker,
    /// Where files would be.
    pub(crate) disk: Arc<dyn Disk>,
}

impl Tenancy {
    /// Adds a client to the namespace that it wants to enter; `None` if that would be one too many.
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

    /// Makes a namespace of a name that replicates another one; returns when it has all data.
    ///
    /// # Errors
    /// When there is one of this name, or there are too many.
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

    /// Starts the tasks of a namespace.
    fn begin(&self, namespace: &Arc<Namespace>) {
        let (sweeper, handlers) = (namespace.clone(), self.handlers);
        let panics = self.main.instance.panics.clone();
        let sweep = supervise(panics, "sweep", move || upkeep::sweep(sweeper.clone(), handlers));
        self.tasks.spawn_on(sweep, &self.runtime);
        self.tasks.spawn_on(keep(namespace.clone()), &self.runtime);
        if namespace.tenant.stop.is_cancelled() {
            namespace.clients.end_all(); // those of the others were ended before this one could be found
        }
    }
}

/// Keeps a private namespace until no client has been in it for the time of `namespace-linger`, nor in one that it shares its
/// clock with.
async fn keep(namespace: Arc<Namespace>) {
    loop {
        let served = namespace.clients.served();
        let linger = Duration::from_millis(namespace.instance.settings.current().namespace_linger_ms);
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
