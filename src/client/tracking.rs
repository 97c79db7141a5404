//! The tracking mode of one client (CLIENT TRACKING). Written by its own task, read by tasks that invalidate keys.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// A set of the flags below.
pub(crate) type TrackingFlags = u8;

/// Tracking is on.
pub(crate) const ON: TrackingFlags = 1;
/// BCAST: the client is notified of all keys with certain prefixes, whether it has read them or not.
pub(crate) const BROADCAST: TrackingFlags = 1 << 1;
/// OPTIN: only keys read after CLIENT CACHING YES are tracked.
pub(crate) const OPT_IN: TrackingFlags = 1 << 2;
/// OPTOUT: keys read after CLIENT CACHING NO are not tracked.
pub(crate) const OPT_OUT: TrackingFlags = 1 << 3;
/// NOLOOP: the client is not notified of its own changes.
pub(crate) const NO_LOOP: TrackingFlags = 1 << 4;
/// CLIENT CACHING applies to the next request.
pub(crate) const CACHING: TrackingFlags = 1 << 5;
/// The client that messages are redirected to has disconnected.
pub(crate) const BROKEN: TrackingFlags = 1 << 6;

/// The tracking mode of a client.
#[derive(Default)]
pub struct TrackingMode {
    flags: AtomicU8,
    /// The id of the client that gets the messages, or 0 for itself.
    redirect: AtomicU64,
}

impl TrackingMode {
    /// Returns all flags.
    pub fn flags(&self) -> TrackingFlags {
        self.flags.load(Relaxed)
    }

    /// Returns true if any of the flags is set.
    pub fn has(&self, flags: TrackingFlags) -> bool {
        self.flags() & flags != 0
    }

    /// Returns true if tracking is on.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.has(ON)
    }

    /// Returns true if a read by the present request is tracked.
    pub fn remembers(&self) -> bool {
        let flags = self.flags();
        let is_called_for = flags & CACHING != 0;
        flags & ON != 0
            && flags & BROADCAST == 0
            && (flags & OPT_IN == 0 || is_called_for)
            && (flags & OPT_OUT == 0 || !is_called_for)
    }

    /// Returns the id of the client that gets the messages; 0 stands for the client itself.
    pub fn redirect(&self) -> u64 {
        self.redirect.load(Relaxed)
    }

    pub(crate) fn set(&self, flags: TrackingFlags, redirect: u64) {
        self.flags.store(flags, Relaxed);
        self.redirect.store(redirect, Relaxed);
    }

    /// Sets a flag.
    pub fn raise(&self, flag: TrackingFlags) {
        self.flags.fetch_or(flag, Relaxed);
    }

    /// Clears a flag.
    pub fn lower(&self, flag: TrackingFlags) {
        self.flags.fetch_and(!flag, Relaxed);
    }
}
