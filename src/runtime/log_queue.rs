//! Queue of log lines from the logging threads to the writing one: a logging thread never waits for a disk, or for a
//! pipe without a reader.
//!
//! The queue is bounded. A line without room is dropped and counted, and the count is logged as soon as there is room
//! again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Maximum size of the queued lines while other lines are being written, in bytes.
const PENDING_MAX: usize = 1024 * 1024;

/// Maximum time that the end of the process waits for unwritten lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Lines that are not written yet.
#[derive(Debug, Default)]
pub struct LogQueue {
    state: Mutex<State>,
    changed: Condvar,
    /// True if lines name the server a replica.
    is_replica: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    pending: Vec<u8>,
    /// True while lines are being written.
    is_writing: bool,
    /// Number of all dropped lines, and of those since the last report.
    dropped: u64,
    unreported: u64,
    /// True once the queue's owner is gone.
    is_closed: bool,
}

/// Starts the writing thread, which ends with the process. `write` is called with whole lines, and `report` returns the
/// line about a number of dropped ones.
///
/// # Errors
/// An error when the thread cannot be started.
pub(crate) fn start(
    mut write: impl FnMut(&[u8]) + Send + 'static,
    report: impl Fn(&LogQueue, u64) -> String + Send + 'static,
) -> io::Result<Arc<LogQueue>> {
    let queue = Arc::<LogQueue>::default();
    let queued = queue.clone();
    thread::Builder::new().name("log".into()).spawn(move || {
        while let Some(lines) = queued.take(&report) {
            write(&lines);
            queued.finish(lines);
        }
    })?;
    Ok(queue)
}

impl LogQueue {
    /// Sets whether lines name the server a replica or a primary.
    pub(crate) fn set_replica(&self, is_replica: bool) {
        self.is_replica.store(is_replica, Relaxed);
    }

    /// Returns whether lines name the server a replica.
    pub(crate) fn is_replica(&self) -> bool {
        self.is_replica.load(Relaxed)
    }

    /// Adds a line, with its line end, or drops it. Never waits.
    pub fn push(&self, line: &[u8]) {
        let mut state = self.state.lock();
        if state.pending.len() + line.len() > PENDING_MAX {
            state.dropped += 1;
            state.unreported += 1;
            return;
        }
        state.pending.extend_from_slice(line);
        drop(state);
        self.changed.notify_all();
    }

    /// Returns the number of dropped lines.
    pub fn dropped(&self) -> u64 {
        self.state.lock().dropped
    }

    /// Waits until all lines are written, for a limited time: the log may be a pipe without a reader.
    pub fn flush(&self) {
        let is_busy = |state: &mut State| state.is_writing || !state.pending.is_empty();
        self.changed.wait_while_for(&mut self.state.lock(), is_busy, FLUSH_TIMEOUT);
    }

    /// Ends the thread when it has written the queued lines.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits for lines and takes them. Returns `None` once the queue is closed and empty.
    fn take(&self, report: &impl Fn(&LogQueue, u64) -> String) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| state.pending.is_empty() && !state.is_closed);
        if state.pending.is_empty() {
            return None;
        }
        let mut lines = std::mem::take(&mut state.pending);
        if state.unreported > 0 {
            lines.extend_from_slice(report(self, std::mem::take(&mut state.unreported)).as_bytes());
        }
        state.is_writing = true;
        Some(lines)
    }

    /// Records that lines are written. Their buffer is reused unless it is large.
    fn finish(&self, mut lines: Vec<u8>) {
        const KEPT_MAX: usize = 64 * 1024;
        let mut state = self.state.lock();
        state.is_writing = false;
        if state.pending.capacity() == 0 && lines.capacity() <= KEPT_MAX {
            lines.clear();
            state.pending = lines;
        }
        drop(state);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn lines_without_room_are_dropped_and_counted_and_written_about_when_there_is_room() {
        let ((begun, has_begun), (go_on, may_go_on), (written, output)) = (channel(), channel::<()>(), channel());
        let write = move |lines: &[u8]| {
            begun.send(()).expect("the test waits for it");
            may_go_on.recv().expect("the test lets it go on");
            written.send(lines.to_vec()).expect("the test looks at it");
        };
        let queue = start(write, |_, count| format!("{count} dropped\n")).expect("a thread");
        queue.push(b"first\n");
        has_begun.recv().expect("it is taken");
        let line = [b'x'; 1024];
        (0..1030).for_each(|_| queue.push(&line));
        assert_eq!(queue.dropped(), 6);
        (0..2).for_each(|_| go_on.send(()).expect("it waits for that"));
        queue.flush();
        assert_eq!(output.recv().expect("written"), b"first\n");
        let rest = output.recv().expect("written");
        assert_eq!(rest.len(), PENDING_MAX + b"6 dropped\n".len());
        assert!(rest.ends_with(b"x6 dropped\n"));
        queue.close();
    }
}
