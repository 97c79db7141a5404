//! The queue of a snapshot's records, from the threads that produce them to the thread that writes the file.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::memory::marked::MarkedBytes;

/// Number of queued bytes from which on the walk waits.
const ROOM: usize = 8 << 20;

/// Interval of checks for a cancelled snapshot.
const CANCELLED_EVERY: Duration = Duration::from_millis(50);

/// Number of bytes from which on a part is closed.
const PART_LEN: usize = 256 << 10;

/// A queue of records, in parts.
#[derive(Default)]
pub(super) struct RecordQueue {
    state: Mutex<State>,
    /// Wakeup of the thread that takes parts.
    filled: Condvar,
    /// Wakeup of the walk.
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    /// The closed parts, each with its number of keys.
    parts: VecDeque<(MarkedBytes, u64)>,
    open: (MarkedBytes, u64),
    len: usize,
    /// True while the last record of the walk is incomplete. No other record may come between its parts.
    is_in_record: bool,
    /// Records that have to wait for the end of that record.
    deferred: (MarkedBytes, u64),
    /// Set once the walk, and so the snapshot, is complete.
    is_finished: bool,
    /// Set once parts are not taken any more.
    is_closed: bool,
}

impl RecordQueue {
    /// Adds records that begin with the selection of their database; returns the number of queued bytes.
    pub(super) fn push(&self, bytes: MarkedBytes, keys: u64) -> usize {
        let mut state = self.state.lock();
        if !state.is_closed {
            if state.is_in_record {
                state.defer(&bytes, keys);
            } else {
                state.add(bytes, keys);
            }
            self.tell(&state);
        }
        state.total_len()
    }

    /// Returns the number of queued bytes.
    pub(super) fn len(&self) -> usize {
        self.state.lock().total_len()
    }

    /// Adds records of the walk; `is_in_record` if the last record is incomplete.
    pub(super) fn push_walked(&self, bytes: MarkedBytes, keys: u64, is_in_record: bool) {
        let mut state = self.state.lock();
        if !state.is_closed {
            state.add(bytes, keys);
            state.is_in_record = is_in_record;
            if !is_in_record {
                state.add_deferred();
            }
            self.tell(&state);
        }
    }

    fn tell(&self, state: &State) {
        if !state.parts.is_empty() {
            self.filled.notify_one();
        }
    }

    /// Takes records and their number of keys; waits for some. Returns `None` after the last part, and when the
    /// snapshot is given up.
    pub(super) fn take(&self, is_cancelled: &AtomicBool) -> Option<(MarkedBytes, u64)> {
        let mut state = self.state.lock();
        loop {
            if state.is_finished {
                state.close_part();
            }
            if let Some(part) = state.parts.pop_front() {
                state.len -= part.0.len();
                self.emptied.notify_one();
                return Some(part);
            }
            if state.is_finished || is_cancelled.load(Relaxed) {
                return None;
            }
            self.filled.wait_for(&mut state, CANCELLED_EVERY);
        }
    }

    /// Waits until there is room for more; returns false if records are not taken any more.
    pub(super) fn wait_for_room(&self) -> bool {
        let mut state = self.state.lock();
        while state.len >= ROOM && !state.is_closed {
            self.emptied.wait(&mut state);
        }
        !state.is_closed
    }

    /// Waits for a time, or until records are not taken any more.
    pub(super) fn pause(&self, time: Duration) {
        let mut state = self.state.lock();
        self.emptied.wait_while_for(&mut state, |state| !state.is_closed, time);
    }

    /// Declares the walk complete: no more records come.
    pub(super) fn finish(&self) {
        self.state.lock().is_finished = true;
        self.filled.notify_one();
    }

    /// Declares that records are not taken any more, and drops those in the queue.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        *state = State { is_closed: true, is_finished: true, ..State::default() };
        self.emptied.notify_one();
    }
}

impl State {
    fn total_len(&self) -> usize {
        self.len + self.deferred.0.len()
    }

    fn add(&mut self, bytes: MarkedBytes, keys: u64) {
        self.len += bytes.len();
        if bytes.len() >= PART_LEN {
            self.close_part();
            self.parts.push_back((bytes, keys));
        } else {
            self.open.0.append(&bytes);
            self.open.1 += keys;
            if self.open.0.len() >= PART_LEN {
                self.close_part();
            }
        }
    }

    /// Defers records until the record of the walk ends. They do not count for the room, for that record to end.
    fn defer(&mut self, bytes: &MarkedBytes, keys: u64) {
        self.deferred.0.append(bytes);
        self.deferred.1 += keys;
    }

    fn add_deferred(&mut self) {
        let (bytes, keys) = std::mem::take(&mut self.deferred);
        self.add(bytes, keys);
    }

    fn close_part(&mut self) {
        if !self.open.0.is_empty() {
            self.parts.push_back(std::mem::take(&mut self.open));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_out_in_order_and_whole_and_their_end_is_told() {
        let queue = RecordQueue::default();
        let long = vec![b'x'; PART_LEN];
        for (bytes, keys) in [(b"ab".to_vec(), 1), (long.clone(), 2), (b"cd".to_vec(), 1), (Vec::new(), 0)] {
            queue.push(bytes.into(), keys);
        }
        queue.finish();
        let parts: Vec<(MarkedBytes, u64)> = std::iter::from_fn(|| queue.take(&AtomicBool::new(false))).collect();
        assert_eq!(parts, [(b"ab".to_vec().into(), 1), (long.into(), 2), (b"cd".to_vec().into(), 1)]);
    }

    #[test]
    fn a_full_queue_makes_the_walk_wait_until_records_are_taken_or_nobody_takes_any() {
        let queue = RecordQueue::default();
        while queue.state.lock().len < ROOM {
            queue.push(vec![0; PART_LEN].into(), 1);
        }
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.wait_for_room());
            queue.take(&AtomicBool::new(false));
            assert!(waiting.join().expect("no panic"));
            queue.push(vec![0; PART_LEN].into(), 1);
            let waiting = scope.spawn(|| queue.wait_for_room());
            queue.close();
            assert!(!waiting.join().expect("no panic"));
        });
        assert!(queue.take(&AtomicBool::new(false)).is_none());
    }
}
