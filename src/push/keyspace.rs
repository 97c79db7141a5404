//! What happens to keys is told to clients: events are published to channels that are named after the key and the event, and
//! changes to those who track keys.
//!
//! The store tells it while the key's shard is locked (see [`store::event`](crate::store::event)), and it goes to the
//! mailboxes of all concerned right then: so the events of a key come in the order of its changes. Nothing here looks at a
//! key or waits for a client.
//!
//! Lock order: a shard, then the settings kept here, then what publishing and tracking take.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::config::Config;
use crate::push::hub::{Hub, Message};
use crate::push::tracking::Tracking;
use crate::store::{Classes, Witness};
use crate::time::clock::Clock;

/// Tells clients. It keeps the settings by itself, because whoever changes them may take long.
pub struct Notifier {
    hub: Arc<Hub>,
    tracking: Arc<Tracking>,
    clock: Clock,
    config: RwLock<Arc<Config>>,
}

impl Notifier {
    /// Creates one that tells those who listen at this hub, and those who track.
    pub fn new(hub: Arc<Hub>, tracking: Arc<Tracking>, clock: Clock, config: Arc<Config>) -> Self {
        Notifier { hub, tracking, clock, config: RwLock::new(config) }
    }

    /// Takes over settings; returns the classes of events that are published.
    pub fn follow(&self, config: Arc<Config>) -> Classes {
        let classes = config.notify_keyspace_events;
        *self.config.write() = config;
        // Without a kind of channels there is nowhere to publish to.
        match classes.has_any(Classes::KEYSPACE) || classes.has_any(Classes::KEYEVENT) {
            true => classes,
            false => Classes::default(),
        }
    }
}

impl Witness for Arc<Notifier> {
    fn hear(&self, db: usize, key: &[u8], event: &'static str) {
        if !self.hub.has_listeners() {
            return;
        }
        let (config, now) = (self.config.read().clone(), self.clock.now());
        if config.notify_keyspace_events.has_any(Classes::KEYSPACE) {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
            self.hub.publish(Message { channel: &channel, payload: event.as_bytes() }, &config, now);
        }
        if config.notify_keyspace_events.has_any(Classes::KEYEVENT) {
            let channel = format!("__keyevent@{db}__:{event}");
            self.hub.publish(Message { channel: channel.as_bytes(), payload: key }, &config, now);
        }
    }

    fn see_change(&self, key: &[u8], is_doing: bool) {
        let config = self.config.read().clone();
        self.tracking.invalidate(key, is_doing, (&config, self.clock.now()));
    }

    fn see_all_removed(&self) {
        let config = self.config.read().clone();
        self.tracking.invalidate_all((&config, self.clock.now()));
    }
}
