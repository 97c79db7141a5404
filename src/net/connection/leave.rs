//! What remains of a client when its connection ends, and is removed.

use crate::client::session::Client;
use crate::net::connection::{Connection, IDLE_LEN};
use crate::store::{Cx, Origin};

impl<S> Connection<S> {
    pub(super) fn unsubscribe(&mut self) {
        self.namespace.hub.leave(&self.client.caller.info, &mut self.client.session.subscriptions);
        self.namespace.tracking.leave(&self.client.caller.info, self.namespace.store.events());
    }

    pub(super) fn unwatch(&mut self) {
        let store = &self.namespace.store;
        if self.client.session.is_known_to_shards() {
            let Client { caller, session } = &mut self.client;
            let cx = Cx::new(self.namespace.clock.now(), Origin::Client(caller.info.id));
            session.stop_watching(caller, &mut store.hold(1).view(0, &[], cx), store);
        }
    }
}

impl<S> Connection<S> {
    /// Releases the locks that are bound to the connection.
    pub(super) fn end_session(&mut self) {
        if self.client.caller.info.has_bound_locks() {
            let store = &self.namespace.store;
            let cx = Cx::new(self.namespace.clock.now(), Origin::Client(self.client.caller.info.id));
            self.namespace.end_session(&self.client.caller.info, &mut store.hold(1).view(0, &[], cx));
        }
    }
}

impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        self.unsubscribe();
        self.unwatch();
        // First it is no client any more: no lock is bound to it from then on.
        self.namespace.instance.clients.remove(self.client.caller.info.id);
        self.end_session();
        self.namespace.observed.monitors.remove(self.client.caller.info.id);
        self.client.caller.info.outbox.close();
        self.namespace.store.memory_account().report_outside(IDLE_LEN + self.counted, 0);
        self.namespace.instance.clients.set_throttled(&self.client.caller.info, false);
        self.namespace.instance.clients.report_backlog(self.reported, 0);
    }
}
