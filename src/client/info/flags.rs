//! Flags of a client that other tasks read: blocked, queued for a lock, throttled, exempt from something.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

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
    /// True for the link to a primary.
    is_primary: AtomicBool,
    /// Set once the client has sent QUIT.
    has_quit: AtomicBool,
}

impl ClientFlags {
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
