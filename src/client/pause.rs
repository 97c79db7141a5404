//! CLIENT PAUSE: until when which commands are held back. Whoever waits here is served, in order, when it is over.
//!
//! Nothing here wakes anybody: connections that are held back look again when the time has come or they are nudged.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::time::clock::Now;

/// Says which commands a pause holds back; the later holds back what the former does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// Those that may change keys or reach other servers.
    Writes,
    /// All.
    Everything,
}

/// Holds the pause that is in force.
#[derive(Default)]
pub struct Pause {
    /// What is looked at once per batch of requests; true while `current` is there.
    is_set: AtomicBool,
    /// What is held back, and until when in monotonic milliseconds.
    current: Mutex<Option<(Held, u64)>>,
}

impl Pause {
    /// Returns whether there may be a pause: a quick look.
    #[inline]
    pub fn may_be_on(&self) -> bool {
        self.is_set.load(Relaxed)
    }

    /// Returns what is held back now, and until when.
    pub fn in_force(&self, now: Now) -> Option<(Held, u64)> {
        let mut current = self.current.lock();
        if current.is_some_and(|(_, until_ms)| until_ms <= now.mono_ms()) {
            *current = None;
            self.is_set.store(false, Relaxed);
        }
        *current
    }

    /// Begins a pause, or makes the one that is in force stricter and longer. Returns until when it lasts then.
    pub fn begin(&self, held: Held, until_ms: u64, now: Now) -> u64 {
        let before = self.in_force(now);
        let mut current = self.current.lock();
        let (held, until_ms) =
            before.map_or((held, until_ms), |(more, later_ms)| (held.max(more), until_ms.max(later_ms)));
        *current = Some((held, until_ms));
        self.is_set.store(true, Relaxed);
        until_ms
    }

    /// Ends the pause.
    pub fn end(&self) {
        *self.current.lock() = None;
        self.is_set.store(false, Relaxed);
    }
}
