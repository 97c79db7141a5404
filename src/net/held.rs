//! Output that waits until the log is confirmed: with a reader that writes the log to a disk, no client sees the reply of
//! a write that could still be lost.
//!
//! Requests are read and executed meanwhile; only their replies, and what is pushed, stay in the output. A reply depends on
//! the last record about the keys of its call's shards, by whatever client, so nobody sees another's write too early
//! either; all else depends on everything that was logged before it came into the output.

use std::collections::VecDeque;
use std::task::Waker;

use crate::persist::Log;
use crate::resp::Output;

/// What a connection's output depends on.
#[derive(Default)]
pub(super) struct HeldOutput {
    /// The parts of the output that wait: the position in the log that each depends on, and where it ends in the stream.
    parts: VecDeque<(u64, u64)>,
    /// Up to where in the stream nothing has to wait; `None` while there is no output.
    released: Option<u64>,
    /// The client is woken by a confirmation.
    is_waiting: bool,
}

impl HeldOutput {
    /// Notes that the output from `begin` in the stream on, the replies of a batch, depends on a position.
    #[cold]
    pub(super) fn add(&mut self, output: &Output, begin: u64, position: u64, log: &Log) {
        self.cover(output, begin, log);
        self.push(position, output.end());
    }

    /// Notes for what came otherwise into the output, up to a place in the stream, that it depends on the whole log.
    fn cover(&mut self, output: &Output, end: u64, log: &Log) {
        let released = *self.released.get_or_insert(output.end() - output.len() as u64);
        if self.parts.back().map_or(released, |(_, end)| *end) < end {
            self.push(log.end(), end);
        }
    }

    fn push(&mut self, position: u64, end: u64) {
        match self.parts.back_mut() {
            // It cannot be written before the part in front of it.
            Some((last, last_end)) if *last >= position => *last_end = end,
            _ => self.parts.push_back((position, end)),
        }
    }

    /// Returns whether the first of the output waits for a confirmation.
    #[cold]
    pub(super) fn is_held(&mut self, output: &Output, log: &Log) -> bool {
        self.cover(output, output.end(), log);
        self.parts.front().is_some_and(|(position, _)| *position > log.confirmed())
    }

    /// Returns how many bytes of the output may be written now. The client with this number is woken when there are more.
    #[cold]
    pub(super) fn writable(&mut self, output: &Output, log: &Log, client: u64, waker: &Waker) -> usize {
        self.cover(output, output.end(), log);
        while let Some((position, end)) = self.parts.front() {
            if *position > log.confirmed() && log.wake_when_confirmed(*position, client, waker) {
                self.is_waiting = true;
                break;
            }
            self.released = Some(*end);
            self.parts.pop_front();
        }
        if self.parts.is_empty() && std::mem::take(&mut self.is_waiting) {
            log.stop_waiting(client);
        }
        let begin = output.end() - output.len() as u64;
        self.released.map_or(0, |released| released.saturating_sub(begin)) as usize
    }

    /// Forgets the output, all of which was written or dropped: the next is in another buffer, whose stream begins elsewhere.
    pub(super) fn forget(&mut self) {
        self.parts.clear();
        self.released = None;
    }
}
