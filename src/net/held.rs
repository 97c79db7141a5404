//! Output that waits until the log is confirmed: with a reader that writes the log to a disk, no client sees the reply of
//! a write that could still be lost.
//!
//! Requests are read and executed meanwhile; only their replies, and what is pushed, stay in the output. Every byte
//! depends on all that was logged before it came into the output, by whatever client: so nobody sees another's write
//! too early either.

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
}

impl HeldOutput {
    /// Returns how many bytes of the output may be written now. The client with this number is woken when there are more.
    #[cold]
    pub(super) fn writable(&mut self, output: &Output, log: &Log, client: u64, waker: &Waker) -> usize {
        let end = output.end();
        let begin = end - output.len() as u64;
        let released = self.released.get_or_insert(begin);
        if self.parts.back().map_or(*released, |(_, end)| *end) != end {
            self.parts.push_back((log.end(), end));
        }
        while let Some((position, end)) = self.parts.front() {
            if log.wake_when_confirmed(*position, client, waker) {
                break;
            }
            *released = *end;
            self.parts.pop_front();
        }
        released.saturating_sub(begin) as usize
    }

    /// Forgets the output, all of which was written or dropped: the next is in another buffer, whose stream begins elsewhere.
    pub(super) fn forget(&mut self) {
        *self = HeldOutput::default();
    }
}
