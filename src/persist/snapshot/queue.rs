//! The records of a snapshot between those who write them and the one who writes the file.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::memory::marked::MarkedBytes;

/// How many bytes there may be before the walk waits.
const ROOM: usize = 8 << 20;

/// How often to look whether the snapshot was given up.
const CANCELLED_EVERY: Duration = Duration::from_millis(50);

/// From how many bytes on a part is closed.
const PART_LEN: usize = 256 << 10;

/// A queue of records, in parts.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Wakes the one who takes parts.
    filled: Condvar,
    /// Wakes the walk.
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    /// Each with the number of keys in it.
    parts: VecDeque<(MarkedBytes, u64)>,
    /// The growing part.
    open: (MarkedBytes, u64),
    len: usize,
    /// Whether the last record of the walk is not whole. No other may come between its parts.
    is_in_record: bool,
    /// What has to wait for the end of that record.
    deferred: (MarkedBytes, u64),
    /// The walk is over, and so is the snapshot.
    is_finished: bool,
    /// Nobody takes parts any more.
    is_closed: bool,
}

impl Queue {
    /// Adds records, which begin with the selection of their database; returns how many bytes there are then.
    pub(super) fn push(&self, bytes: MarkedBytes, keys: u64) -> usize {
        let mut state = self.state.lock();
        if !state.is_closed {
            match state.is_in_record {
                true => state.defer(&bytes, keys),
                false => state.add(bytes, keys),
            }
            self.tell(&state);
        }
        state.total_len()
    }

    /// Returns how many bytes there are.
    pub(super) fn len(&self) -> usize {
        self.state.lock().total_len()
    }

    /// Adds records of the walk; `is_in_record` if the last is not whole.
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

    /// Takes records, and the number of keys in them; waits for some. Returns `None` after the last, and when the snapshot
    /// is given up.
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

    /// Waits until there is room for more; returns false if nobody takes records any more.
    pub(super) fn wait_for_room(&self) -> bool {
        let mut state = self.state.lock();
        while state.len >= ROOM && !state.is_closed {
            self.emptied.wait(&mut state);
        }
        !state.is_closed
    }

    /// Waits for a time, or until nobody takes records any more.
    pub(super) fn pause(&self, time: Duration) {
        let mut state = self.state.lock();
        self.emptied.wait_while_for(&mut state, |state| !state.is_closed, time);
    }

    /// Declares that the walk is over: what is there is all.
    pub(super) fn finish(&self) {
        self.state.lock().is_finished = true;
        self.filled.notify_one();
    }

    /// Declares that nobody takes records any more.
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

    /// Keeps records back. They do not count for the room, without which the walk could not end its record.
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
        let queue = Queue::default();
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
        let queue = Queue::default();
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
