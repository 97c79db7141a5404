//! Observer of the store: publishes keyspace notifications, invalidates tracked keys that change, announces lost locks.
//!
//! The store emits events while the key's shard is locked (see [`store::event`](crate::store::event)), and the
//! notifications go into the outboxes of the subscribers at once, so those of a key are in the order of its changes.
//! Nothing here reads a key or waits for a client.
//!
//! Lock order: a shard, then the settings of the [`Notifier`], then the locks of [`Hub`] and [`Tracking`].

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::RwLock;

use crate::client::info::{ClientInfo, RemoteClient};
use crate::client::outbox::PushFrame;
use crate::config::Config;
use crate::observe::LockStats;
use crate::push::hub::{Hub, Message};
use crate::push::tracking::Tracking;
use crate::resp::{Protocol, Reply};
use crate::store::{Classes, KeyspaceObserver, LossReason, LostLock, Origin};
use crate::time::clock::Clock;

/// Observer of the store. Has its own copy of the settings, because CONFIG SET may hold their lock for long.
pub struct Notifier {
    hub: Arc<Hub>,
    tracking: Arc<Tracking>,
    clock: Clock,
    locks: Arc<LockStats>,
    config: RwLock<Arc<Config>>,
}

impl Notifier {
    /// Creates the observer for the subscribers of a hub and for tracking clients.
    pub fn new(
        hub: Arc<Hub>,
        tracking: Arc<Tracking>,
        clock: Clock,
        locks: Arc<LockStats>,
        config: Arc<Config>,
    ) -> Self {
        Notifier { hub, tracking, clock, locks, config: RwLock::new(config) }
    }

    /// Announces a lost lock: to its holder, if the holder can be sent push messages, and on the lock's channel,
    /// without the token.
    fn announce(&self, lost: &LostLock<'_>) {
        let (record, reason) = (lost.record, lost.loss.as_str());
        let (config, now) = (self.config.read().clone(), self.clock.now());
        let holder = record.hold.as_ref().and_then(|hold| (hold.holder() as &dyn Any).downcast_ref::<ClientInfo>());
        if let Some(holder) = holder.filter(|holder| holder.session.protocol() == Protocol::Resp3) {
            let write = |reply: &mut Reply<'_>| {
                reply.push(5);
                reply.bulk(b"lock-lost");
                reply.bulk(lost.key);
                reply.bulk(&record.token);
                reply.int(record.fence);
                reply.bulk(reason.as_bytes());
            };
            holder.push(&mut PushFrame::new(&write), &config, now);
        }
        if self.hub.has_channel_subscribers() {
            let (channel, payload) = lost.message();
            self.hub.publish(Message { channel: &channel, payload: payload.as_bytes() }, &config, now);
        }
    }

    /// Applies settings; returns the classes of events that are published.
    pub fn follow(&self, config: Arc<Config>) -> Classes {
        let classes = config.notify_keyspace_events;
        *self.config.write() = config;
        // Without `K` or `E` there is no channel to publish to.
        if classes.has_any(Classes::KEYSPACE) || classes.has_any(Classes::KEYEVENT) {
            classes
        } else {
            Classes::default()
        }
    }
}

impl KeyspaceObserver for Arc<Notifier> {
    fn on_event(&self, db: usize, key: &[u8], event: &'static str, _: Classes) {
        if !self.hub.has_channel_subscribers() {
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

    fn on_change(&self, key: &[u8], origin: Origin, caller: Origin) {
        let config = self.config.read().clone();
        self.tracking.invalidate(key, origin, caller, (&config, self.clock.now()));
    }

    fn on_flush(&self) {
        let config = self.config.read().clone();
        self.tracking.invalidate_all((&config, self.clock.now()));
    }

    fn on_lost_lock(&self, lost: &LostLock<'_>) {
        let holder = lost.record.hold.as_ref().map(|hold| hold.holder() as &dyn Any);
        // The process of a remote client counts its locks.
        if !holder.is_some_and(|holder| holder.is::<RemoteClient>()) {
            self.locks.record_ended(lost.record.held_us(lost.at_us));
            if let Some(lock) = lost.awaited {
                self.locks.handovers.record_end(lock, lost.record, lost.at_us);
            }
            if lost.loss == LossReason::Expired {
                self.locks.expired.fetch_add(1, Relaxed);
            }
        }
        if lost.record.is_announced && !lost.is_repeated {
            self.announce(lost);
        }
    }
}
