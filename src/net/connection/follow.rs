//! What a connection looks at again for each batch: settings, users, and whether it was told to close.

use crate::net::connection::Connection;

impl<S> Connection<S> {
    /// Looks at what the client's next requests are admitted by. Returns false if the client was told to close.
    #[inline]
    pub(super) fn catch_up(&mut self) -> bool {
        // First: what is published later is noticed by the batch, when it acquires the gate.
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
