//! Reports and counts panics that were caught, and causes them where a test has asked for one.
//!
//! A panic is a bug, and ends what it happened in: a connection, or one round of a task of the server. The server goes on.

use std::any::Any;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};

use tracing::error;

/// A place where `DEBUG INJECT-PANIC` can cause a panic; each is a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Site {
    /// The task that removes expired keys.
    Sweep = 1,
    /// The task that looks after idle and slow clients.
    Housekeeping = 1 << 1,
    /// The tasks that accept connections.
    Accept = 1 << 2,
}

/// Knows the panics of one server.
#[derive(Debug, Default)]
pub struct Panics {
    caught: AtomicU64,
    injected: AtomicU8,
}

impl Panics {
    /// Logs and counts a panic that was caught; `place` says where.
    pub fn report(&self, place: &'static str, panic: &(dyn Any + Send)) {
        self.caught.fetch_add(1, Relaxed);
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        error!(place, cause = text.unwrap_or("unknown"), "caught a panic");
    }

    /// Returns how many panics were caught.
    pub fn caught(&self) -> u64 {
        self.caught.load(Relaxed)
    }

    /// Causes a panic the next time that a site is passed.
    pub fn inject(&self, site: Site) {
        self.injected.fetch_or(site as u8, Relaxed);
    }

    /// Panics if that was asked for.
    ///
    /// # Panics
    /// Once after each [`Panics::inject`].
    pub fn pass(&self, site: Site) {
        if self.injected.load(Relaxed) & site as u8 != 0 {
            self.injected.fetch_and(!(site as u8), Relaxed);
            panic!("injected by DEBUG INJECT-PANIC");
        }
    }
}
