//! Pushes of a namespace to its clients: messages of channels, keyspace notifications, invalidations of tracked keys.

use std::sync::Arc;

use crate::acl::Acl;
use crate::client::registry::Clients;
use crate::config::{Config, Settings};
use crate::observe::LockStats;
use crate::push::hub::Hub;
use crate::push::keyspace::Notifier;
use crate::push::maintenance::Maintenance;
use crate::push::tracking::Tracking;
use crate::store::MemoryAccount;
use crate::time::clock::{Clock, Now};

/// Number of tracked keys that are dropped at a time.
const FORGOTTEN_KEYS: usize = 1000;

/// Receivers and sources of push messages.
pub struct Push {
    /// The clients that use client-side caching.
    pub tracking: Arc<Tracking>,
    /// Notices of maintenance.
    pub maintenance: Maintenance,
    /// The subscribers of every channel.
    pub hub: Arc<Hub>,
    /// Publisher of keyspace notifications.
    pub(super) notifier: Arc<Notifier>,
}

impl Push {
    /// Creates the state without subscribers; it counts as used memory, and `locks` counts lost locks. The permissions
    /// of clients are those of their users in `acl`.
    pub(super) fn new(
        (clients, acl): (&Arc<Clients>, &Arc<Acl>),
        clock: &Clock,
        config: &Arc<Config>,
        locks: &Arc<LockStats>,
        memory_account: &Arc<MemoryAccount>,
    ) -> Self {
        let hub = Arc::new(Hub::new(memory_account));
        let tracking = Arc::new(Tracking::new(clients.clone(), acl.clone(), memory_account));
        let (clock, locks, config) = (clock.clone(), locks.clone(), config.clone());
        let notifier = Arc::new(Notifier::new(hub.clone(), tracking.clone(), clock, locks, config));
        Push { tracking, maintenance: Maintenance::default(), hub, notifier }
    }

    /// Broadcasts the keys that have changed since the last broadcast.
    pub(crate) fn broadcast(&self, settings: &Settings, now: Now) {
        if self.tracking.has_invalidations() {
            self.tracking.broadcast((&settings.current(), now));
        }
    }

    /// Drops tracked keys until there are no more than the settings allow.
    pub(super) fn forget_excess(&self, config: &Config, clock: &Clock) {
        while self.tracking.forget(config.tracking_table_max_keys, FORGOTTEN_KEYS, (config, clock.now())) {}
    }
}
