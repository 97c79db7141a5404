//! Output that waits until the log is confirmed: with a reader that writes the log to a disk, no client sees the reply
//! of a write that could still be lost.
//!
//! Requests are read and executed meanwhile; only their replies, and pushed frames, stay in the output. A reply depends
//! on the last record about the keys of its call's shards, by whatever client, so nobody sees another client's write
//! too early either; all other output depends on everything that was logged before it came into the output.

use std::collections::VecDeque;
use std::task::Waker;

use crate::persist::Log;
use crate::resp::Output;

/// Parts of a connection's output that depend on the log.
#[derive(Default)]
pub(super) struct HeldOutput {
    /// Parts that wait, each with the position in the log that it depends on, and its end in the stream.
    parts: VecDeque<(u64, u64)>,
    /// Place in the stream up to which nothing has to wait; `None` while there is no output.
    released: Option<u64>,
    /// True if the client is to be woken by a confirmation.
    is_waiting: bool,
}

impl HeldOutput {
    /// Records that the output from `begin` in the stream on, the replies of a batch, depends on a position.
    #[cold]
    pub(super) fn add(&mut self, output: &Output, begin: u64, position: u64, log: &Log) {
        self.cover(output, begin, log);
        self.push(position, output.end());
    }

    /// Records that any other output, up to a place in the stream, depends on the whole log.
    fn cover(&mut self, output: &Output, end: u64, log: &Log) {
        let released = *self.released.get_or_insert(output.end() - output.len() as u64);
        if self.parts.back().map_or(released, |(_, end)| *end) < end {
            self.push(log.end(), end);
        }
    }

    fn push(&mut self, position: u64, end: u64) {
        match self.parts.back_mut() {
            // The new part cannot be written before the part in front of it.
            Some((last, last_end)) if *last >= position => *last_end = end,
            _ => self.parts.push_back((position, end)),
        }
    }

    /// Returns true if the beginning of the output waits for a confirmation.
    #[cold]
    pub(super) fn is_held(&mut self, output: &Output, log: &Log) -> bool {
        self.cover(output, output.end(), log);
        self.parts.front().is_some_and(|(position, _)| *position > log.confirmed())
    }

    /// Returns how many bytes of the output may be written now; the client with this number is woken when there are
    /// more.
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

    /// Forgets the output, all of which was written or dropped: later output is in another buffer, whose stream begins
    /// elsewhere.
    pub(super) fn forget(&mut self) {
        self.parts.clear();
        self.released = None;
    }
}
