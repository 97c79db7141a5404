//! Caught panics, counted and logged, and panics injected for tests.
//!
//! A panic is a bug. It ends only the connection, or the one round of a server task, in which it happened; the server
//! keeps running.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::task::Poll;

use tracing::error;

/// Place where `DEBUG INJECT-PANIC` can cause a panic; each is a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Site {
    /// The task that removes expired keys.
    Sweep = 1,
    /// The task that closes idle and slow clients.
    Housekeeping = 1 << 1,
    /// The tasks that accept connections.
    Accept = 1 << 2,
}

/// Payload of a panic.
pub(crate) type PanicPayload = Box<dyn Any + Send>;

/// Runs a future to completion, or up to its first panic, which is returned. The caller pins it: an async function has
/// room both for an argument and for its pinned copy, and a connection lives as long as its future.
///
/// # Errors
/// The panic.
pub(crate) async fn caught<T>(mut work: Pin<&mut impl Future<Output = T>>) -> Result<T, PanicPayload> {
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// Caught and injected panics of one server.
#[derive(Debug, Default)]
pub struct Panics {
    caught: AtomicU64,
    injected: AtomicU8,
}

impl Panics {
    /// Logs and counts a caught panic; `place` names the work that has panicked.
    pub fn report(&self, place: &'static str, panic: &(dyn Any + Send)) {
        self.caught.fetch_add(1, Relaxed);
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        error!(place, cause = text.unwrap_or("unknown"), "caught a panic");
    }

    /// Runs work whose panic must not reach the caller. Reports a panic, and then returns `None`.
    pub fn catch<T>(&self, place: &'static str, work: impl FnOnce() -> T) -> Option<T> {
        catch_unwind(AssertUnwindSafe(work)).map_err(|panic| self.report(place, &*panic)).ok()
    }

    /// Returns the number of caught panics.
    pub fn caught(&self) -> u64 {
        self.caught.load(Relaxed)
    }

    /// Makes the next [`Panics::pass`] at a site panic.
    pub fn inject(&self, site: Site) {
        self.injected.fetch_or(site as u8, Relaxed);
    }

    /// Panics if a panic was injected at this site.
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
