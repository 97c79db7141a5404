//! Session of a client as other tasks see it: the database, the protocol, MULTI, WATCH, MONITOR and subscriptions. It
//! mirrors the session, which only the client's own task accesses, for CLIENT LIST and others. Its flags: blocked, queued
//! for a lock, throttled, exempt from something.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicUsize};

use crate::resp::Protocol;

/// Classes of clients with an output limit of their own, in the order of `client-output-buffer-limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Clients without subscriptions, also those that run MONITOR.
    Normal = 0,
    /// Replicas.
    Replica = 1,
    /// Clients with a subscription.
    Subscriber = 2,
}

/// Kinds of channels a client may subscribe to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelKind {
    /// Channels, by name.
    Channel,
    /// Channels whose names match a pattern.
    Pattern,
    /// Channels of a cluster's shard.
    ShardChannel,
}

/// A client's session, as other clients see it.
pub(crate) struct SessionState {
    pub(super) db: AtomicUsize,
    pub(super) protocol: AtomicU8,
    /// Commands queued by MULTI, or -1 outside.
    pub(super) queued: AtomicI64,
    watched: AtomicUsize,
    /// True while the client runs MONITOR.
    pub(super) is_monitoring: AtomicBool,
    /// Number of subscriptions of each [`ChannelKind`].
    subscriptions: [AtomicU32; 3],
    /// Class of the client, which is read for each batch of requests.
    class: AtomicU8,
}

impl SessionState {
    /// Creates the state of a new session.
    pub(super) fn new() -> Self {
        SessionState {
            db: AtomicUsize::new(0),
            protocol: AtomicU8::new(2),
            queued: AtomicI64::new(-1),
            watched: AtomicUsize::new(0),
            is_monitoring: AtomicBool::new(false),
            subscriptions: Default::default(),
            class: AtomicU8::new(Class::Normal as u8),
        }
    }

    /// Records the selected database.
    pub(crate) fn set_db(&self, db: usize) {
        self.db.store(db, Relaxed);
    }

    pub(super) fn set_protocol(&self, protocol: Protocol) {
        self.protocol.store(if protocol == Protocol::Resp3 { 3 } else { 2 }, Relaxed);
    }

    pub(crate) fn protocol(&self) -> Protocol {
        if self.protocol.load(Relaxed) == 3 { Protocol::Resp3 } else { Protocol::Resp2 }
    }

    /// Records how many commands MULTI has queued; `None` outside a transaction.
    pub(super) fn set_queued(&self, queued: Option<usize>) {
        self.queued.store(queued.map_or(-1, |queued| queued as i64), Relaxed);
    }

    /// Records whether the client runs MONITOR.
    pub(crate) fn set_monitoring(&self, is_monitoring: bool) {
        self.is_monitoring.store(is_monitoring, Relaxed);
    }

    /// Records that the client is a replica.
    pub(crate) fn set_replica(&self) {
        self.class.store(Class::Replica as u8, Relaxed);
    }

    /// Records how many keys are watched.
    pub(crate) fn set_watched(&self, watched: usize) {
        self.watched.store(watched, Relaxed);
    }

    /// Returns how many keys are watched.
    pub(crate) fn watched(&self) -> usize {
        self.watched.load(Relaxed)
    }

    /// Records how many subscriptions of a kind the client has.
    pub(crate) fn set_subscriptions(&self, channel_kind: ChannelKind, count: usize) {
        self.subscriptions[channel_kind as usize].store(count as u32, Relaxed);
        if self.class() != Class::Replica {
            let is_subscriber = self.subscriptions.iter().any(|count| count.load(Relaxed) > 0);
            let class = if is_subscriber { Class::Subscriber } else { Class::Normal };
            self.class.store(class as u8, Relaxed);
        }
    }

    /// Returns how many subscriptions of a kind the client has.
    pub(crate) fn subscriptions(&self, channel_kind: ChannelKind) -> u32 {
        self.subscriptions[channel_kind as usize].load(Relaxed)
    }

    /// Returns how many subscriptions and watched keys the client has.
    pub(super) fn subscriptions_and_watched(&self) -> usize {
        let subscriptions: u32 = self.subscriptions.iter().map(|count| count.load(Relaxed)).sum();
        subscriptions as usize + self.watched()
    }

    #[inline]
    pub(crate) fn class(&self) -> Class {
        match self.class.load(Relaxed) {
            class if class == Class::Replica as u8 => Class::Replica,
            class if class == Class::Subscriber as u8 => Class::Subscriber,
            _ => Class::Normal,
        }
    }
}

/// The flags of a client.
#[derive(Default)]
pub struct ClientFlags {
    /// True while the client is blocked, see [`Clients::block`](crate::client::registry::Clients::block).
    is_blocked: AtomicBool,
    /// True while the client is queued for a lock, or about to be.
    is_queued: AtomicBool,
    /// True while the client is not read from because too many replies are pending.
    is_throttled: AtomicBool,
    is_exempt: AtomicBool,
    is_no_touch: AtomicBool,
    /// [`NoticeMode`] of the client.
    notices: AtomicU8,
    /// True for the link to a primary.
    is_primary: AtomicBool,
    /// Set once the client has sent QUIT.
    has_quit: AtomicBool,
}

/// Notices of maintenance that a client has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticeMode {
    Off = 0,
    /// Notices contain the address to reconnect to.
    WithAddresses = 1,
    /// Notices contain no address.
    WithoutAddresses = 2,
}

impl ClientFlags {
    /// Returns which notices of maintenance the client has asked for.
    pub(crate) fn notices(&self) -> NoticeMode {
        match self.notices.load(Relaxed) {
            0 => NoticeMode::Off,
            1 => NoticeMode::WithAddresses,
            _ => NoticeMode::WithoutAddresses,
        }
    }

    /// Sets which notices of maintenance the client gets.
    pub(crate) fn set_notices(&self, mode: NoticeMode) {
        self.notices.store(mode as u8, Relaxed);
    }

    /// Returns true if the client is blocked.
    pub fn is_blocked(&self) -> bool {
        self.is_blocked.load(Relaxed)
    }

    /// Records whether the client is blocked.
    pub(in crate::client) fn set_blocked(&self, is_blocked: bool) {
        self.is_blocked.store(is_blocked, Relaxed);
    }

    /// Returns true if the client is queued for a lock, or is about to be.
    pub(crate) fn is_queued(&self) -> bool {
        self.is_queued.load(Relaxed)
    }

    /// Records whether the client is queued for a lock.
    pub(in crate::client) fn set_queued(&self, is_queued: bool) {
        self.is_queued.store(is_queued, Relaxed);
    }

    /// Returns true if the client is not read from because too many replies are pending.
    pub(in crate::client) fn is_throttled(&self) -> bool {
        self.is_throttled.load(Relaxed)
    }

    /// Records whether the client is throttled; returns whether that is new.
    pub(in crate::client) fn set_throttled(&self, is_throttled: bool) -> bool {
        self.is_throttled() != is_throttled && self.is_throttled.swap(is_throttled, Relaxed) != is_throttled
    }

    /// Exempts the client from being evicted (CLIENT NO-EVICT).
    pub(crate) fn set_exempt(&self, is_exempt: bool) {
        self.is_exempt.store(is_exempt, Relaxed);
    }

    /// Returns true if the client is exempt from being evicted.
    pub(in crate::client) fn is_exempt(&self) -> bool {
        self.is_exempt.load(Relaxed)
    }

    /// Marks the link to a primary.
    pub(in crate::client) fn set_primary(&self) {
        self.is_primary.store(true, Relaxed);
    }

    /// Returns true for the link to a primary.
    pub(crate) fn is_primary(&self) -> bool {
        self.is_primary.load(Relaxed)
    }

    /// Records that the client has sent QUIT.
    pub(crate) fn set_quit(&self) {
        self.has_quit.store(true, Relaxed);
    }

    /// Returns true if the client has sent QUIT.
    pub(crate) fn has_quit(&self) -> bool {
        self.has_quit.load(Relaxed)
    }

    /// Sets CLIENT NO-TOUCH: the client's commands do not update the usage of keys.
    pub(crate) fn set_no_touch(&self, is_no_touch: bool) {
        self.is_no_touch.store(is_no_touch, Relaxed);
    }

    /// Returns true if CLIENT NO-TOUCH is set.
    #[inline]
    pub(crate) fn is_no_touch(&self) -> bool {
        self.is_no_touch.load(Relaxed)
    }
}
