//! CLIENT PAUSE: the paused commands, and the end of the pause. Paused clients are served in order of arrival when the
//! pause ends.
//!
//! Nothing here wakes clients: paused connections check again at the end of the pause or when they are nudged.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::time::clock::Now;

/// Commands that a pause affects; `Everything` includes `Writes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PauseScope {
    /// Commands that may change keys or contact other servers.
    Writes,
    /// All commands.
    Everything,
}

/// The pause in force, if any.
#[derive(Default)]
pub struct Pause {
    /// True while `current` is set; checked once per batch of requests.
    is_set: AtomicBool,
    /// Paused commands, and the end of the pause in monotonic milliseconds.
    current: Mutex<Option<(PauseScope, u64)>>,
}

impl Pause {
    /// Returns true if there may be a pause: a cheap check.
    #[inline]
    pub fn may_be_on(&self) -> bool {
        self.is_set.load(Relaxed)
    }

    /// Returns the commands paused now, and the end of the pause in monotonic milliseconds.
    pub fn in_force(&self, now: Now) -> Option<(PauseScope, u64)> {
        let mut current = self.current.lock();
        if current.is_some_and(|(_, until_ms)| until_ms <= now.mono_ms()) {
            *current = None;
            self.is_set.store(false, Relaxed);
        }
        *current
    }

    /// Begins a pause, or makes the present one stricter and longer. Returns its new end.
    pub fn begin(&self, scope: PauseScope, until_ms: u64, now: Now) -> u64 {
        let before = self.in_force(now);
        let mut current = self.current.lock();
        let (scope, until_ms) =
            before.map_or((scope, until_ms), |(more, later_ms)| (scope.max(more), until_ms.max(later_ms)));
        *current = Some((scope, until_ms));
        self.is_set.store(true, Relaxed);
        until_ms
    }

    /// Ends the pause.
    pub fn end(&self) {
        *self.current.lock() = None;
        self.is_set.store(false, Relaxed);
    }
}
