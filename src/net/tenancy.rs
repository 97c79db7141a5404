//! Creates private namespaces when a client enters them, and keeps each until its clients have been gone for a while.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use crate::client::info::ClientInfo;
use crate::dispatch::{Destination, Handlers};
use crate::namespace::{Admitted, Namespace};
use crate::runtime::executor::supervise;
use crate::time::clock::Clock;
use crate::upkeep;

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

/// Keeps a private namespace until no client has been in it for the time of `namespace-linger`.
async fn keep(namespace: Arc<Namespace>) {
    loop {
        let served = namespace.clients.served();
        let linger = Duration::from_millis(namespace.instance.settings.current().namespace_linger_ms);
        let is_deserted = namespace.clients.is_empty();
        tokio::select! {
            () = namespace.tenant.stop.cancelled() => return,
            () = namespace.clients.deserted.notified() => {}
            () = tokio::time::sleep(linger), if is_deserted => {
                if namespace.forget_private(served) {
                    break;
                }
            }
        }
    }
    namespace.end();
}
