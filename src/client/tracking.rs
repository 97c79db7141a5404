//! How one client tracks keys. Its own task changes that; others look at it when they have something to tell.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// A set of the flags below.
pub(crate) type Flags = u8;

/// The client tracks.
pub(crate) const ON: Flags = 1;
/// It is told of all keys with certain prefixes, whether it has read them or not.
pub(crate) const BROADCAST: Flags = 1 << 1;
/// Only what is read after CLIENT CACHING YES is remembered.
pub(crate) const OPT_IN: Flags = 1 << 2;
/// What is read after CLIENT CACHING NO is not remembered.
pub(crate) const OPT_OUT: Flags = 1 << 3;
/// It is not told of what it changes itself.
pub(crate) const NO_LOOP: Flags = 1 << 4;
/// CLIENT CACHING holds for the next request.
pub(crate) const CACHING: Flags = 1 << 5;
/// The client that its messages are redirected to has gone.
pub(crate) const BROKEN: Flags = 1 << 6;

/// Shows how a client tracks.
#[derive(Default)]
pub struct Mode {
    flags: AtomicU8,
    /// The number of the client that gets the messages, or 0.
    redirect: AtomicU64,
}

impl Mode {
    /// Returns all flags.
    pub fn flags(&self) -> Flags {
        self.flags.load(Relaxed)
    }

    /// Returns whether any of the flags is set.
    pub fn has(&self, flags: Flags) -> bool {
        self.flags() & flags != 0
    }

    /// Returns whether the client tracks.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.has(ON)
    }

    /// Returns whether what is read now is to be remembered.
    pub fn remembers(&self) -> bool {
        let flags = self.flags();
        let is_called_for = flags & CACHING != 0;
        flags & ON != 0
            && flags & BROADCAST == 0
            && (flags & OPT_IN == 0 || is_called_for)
            && (flags & OPT_OUT == 0 || !is_called_for)
    }

    /// Returns the number of the client that gets the messages; 0 stands for the client itself.
    pub fn redirect(&self) -> u64 {
        self.redirect.load(Relaxed)
    }

    /// Sets everything.
    pub(crate) fn set(&self, flags: Flags, redirect: u64) {
        self.flags.store(flags, Relaxed);
        self.redirect.store(redirect, Relaxed);
    }

    /// Sets a flag.
    pub fn raise(&self, flag: Flags) {
        self.flags.fetch_or(flag, Relaxed);
    }

    /// Takes a flag back.
    pub fn lower(&self, flag: Flags) {
        self.flags.fetch_and(!flag, Relaxed);
    }
}
