//! State that a connection reads again for each batch: settings, users, and whether it was told to close.

use crate::net::connection::Connection;

impl<S> Connection<S> {
    /// Reads the state that admits the client's next requests. Returns false if the client was told to close.
    #[inline]
    pub(super) fn catch_up(&mut self) -> bool {
        // Read first: later changes are noticed by the batch, when it acquires the gate.
        self.generation = self.namespace.store.generation();
        self.follow_settings();
        self.client.caller.follow_users(&self.namespace.acl);
        !self.client.caller.info.outbox.is_ending()
    }

    /// Applies changed settings.
    #[inline]
    fn follow_settings(&mut self) {
        if self.namespace.settings.version() != self.config_version {
            self.read_settings();
        }
    }
}
