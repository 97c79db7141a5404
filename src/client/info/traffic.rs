//! Traffic of a client's connection, and the time of its last activity. Only the client's own task writes here.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::spec::CommandSpec;
use crate::time::clock::Now;

/// The bytes that were read from a client and written to it, and the commands executed for it.
pub(crate) struct Traffic {
    /// Time of the client's last input, in monotonic milliseconds.
    active_ms: AtomicU64,
    pub(super) bytes_in: AtomicU64,
    pub(super) bytes_out: AtomicU64,
    pub(super) commands: AtomicU64,
    last_command: Mutex<Option<&'static CommandSpec>>,
}

impl Traffic {
    /// Creates the traffic of a client that has connected now.
    pub(super) fn new(now: Now) -> Self {
        Traffic {
            active_ms: AtomicU64::new(now.mono_ms()),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            commands: AtomicU64::new(0),
            last_command: Mutex::new(None),
        }
    }

    /// Counts bytes that were read from the client.
    #[inline]
    pub(crate) fn count_bytes_in(&self, len: usize) {
        add(&self.bytes_in, len);
    }

    /// Returns how many bytes were read from the client.
    pub(crate) fn bytes_in(&self) -> u64 {
        self.bytes_in.load(Relaxed)
    }

    /// Returns how many bytes were written to the client.
    pub(crate) fn bytes_out(&self) -> u64 {
        self.bytes_out.load(Relaxed)
    }

    /// Counts bytes that were written to the client.
    #[inline]
    pub(crate) fn count_bytes_out(&self, len: usize) {
        add(&self.bytes_out, len);
    }

    /// Records how many commands were executed for the client.
    #[inline]
    pub(crate) fn set_commands(&self, count: u64) {
        self.commands.store(count, Relaxed);
    }

    /// Records the command last called.
    pub(crate) fn set_last_command(&self, command: &'static CommandSpec) {
        *self.last_command.lock() = Some(command);
    }

    /// Returns the command last called.
    pub(super) fn last_command(&self) -> Option<&'static CommandSpec> {
        *self.last_command.lock()
    }

    /// Records that the client was active now.
    pub(super) fn set_active(&self, now: Now) {
        self.active_ms.store(now.mono_ms(), Relaxed);
    }

    /// Returns for how many milliseconds the client has sent nothing.
    pub(crate) fn idle_ms(&self, now: Now) -> u64 {
        now.mono_ms().saturating_sub(self.active_ms.load(Relaxed))
    }
}

/// Adds to a counter that only one task writes, which needs no atomic addition.
#[inline]
fn add(counter: &AtomicU64, len: usize) {
    counter.store(counter.load(Relaxed) + len as u64, Relaxed);
}
