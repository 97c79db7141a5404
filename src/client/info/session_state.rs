//! Session of a client as other tasks see it: the database, the protocol, MULTI, WATCH, MONITOR and subscriptions. It
//! mirrors the session, which only the client's own task accesses, for CLIENT LIST and others.

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
