//! What a connection needs only while it has work: buffers, and the lists of decoder and plan.
//!
//! An idle connection holds none of it. Whoever has something to read borrows a buffers from its worker's pool and gives
//! it back when all is answered, so that thousands of idle clients cost no buffers, and the active ones of a worker pass
//! the same few kilobytes on, which therefore stay in the processor's cache.
//!
//! Invariant: a buffers in the pool is blank; no byte of one client is ever seen by another.

use bytes::BytesMut;
use parking_lot::Mutex;

use crate::client::pending::Pending;
use crate::command::handlers;
use crate::dispatch::Handlers;
use crate::dispatch::plan::Plan;
use crate::memory::heap::allocation_len;
use crate::resp::{Batch, Codec, Output, reserve_exact};

/// How much is read at once, in bytes.
pub(crate) const READ_LEN: usize = 16 * 1024;
/// How large a read buffer may be that is kept once a large request has been taken out of it, in bytes.
const INPUT_KEEP_MAX: usize = 4 * READ_LEN;
/// How many blank ones a pool keeps: as many as clients are likely to be in the middle of something at once.
const POOLED_MAX: usize = 16;

/// Holds the working memory of one connection.
#[derive(Default)]
pub struct ConnBuffers {
    /// Finds the requests in the input.
    pub codec: Codec,
    /// What has been read and not yet executed.
    pub input: BytesMut,
    /// What has been answered and not yet written.
    pub output: Output,
    /// What is being executed.
    pub batch: Batch,
    /// The next request of the batch.
    pub next: usize,
    /// What is known about the rest of the batch.
    pub plan: Plan,
}

impl ConnBuffers {
    /// Returns whether nothing in it belongs to a client.
    pub fn is_blank(&self) -> bool {
        let is_executed = self.next >= self.batch.len();
        is_executed && self.input.is_empty() && self.output.is_empty() && self.codec.requests.is_between_requests()
    }

    /// Makes room for the next read; what a large request left behind is given back. A small buffer doubles, a large one
    /// grows by a quarter, and for a large argument the decoder has made room already.
    #[inline]
    pub fn prepare_input(&mut self) {
        match self.input.is_empty() && self.input.capacity() <= INPUT_KEEP_MAX {
            true => self.input.reserve(READ_LEN),
            false => self.prepare_used_input(),
        }
    }

    fn prepare_used_input(&mut self) {
        let len = self.input.len();
        if self.codec.requests.has_room_for_bulk(&self.input) {
            return;
        }
        let room = self.input.capacity() - len;
        match len <= INPUT_KEEP_MAX {
            // A request that is not complete leaves room for the next read as it is, rather than doubling its buffer.
            true if len > 0 && room >= READ_LEN / 2 => {}
            true => self.input.reserve(READ_LEN),
            false if room < READ_LEN => reserve_exact(&mut self.input, READ_LEN.max(len / 4)),
            false => {}
        }
        if len < READ_LEN && self.input.capacity() > INPUT_KEEP_MAX {
            let mut small = BytesMut::with_capacity(READ_LEN + len);
            small.extend_from_slice(&self.input);
            self.input = small;
        }
    }

    /// Gives the room for the next read back that a short piece of a request keeps while nothing comes: thousands of clients
    /// may have sent such a piece.
    #[inline]
    pub fn settle(&mut self) {
        if !self.input.is_empty() && self.input.len() <= 2 * READ_LEN {
            self.keep_pieces_only();
        }
    }

    #[cold]
    fn keep_pieces_only(&mut self) {
        let room = self.input.capacity() - self.input.len();
        if room >= READ_LEN / 2 && !self.codec.requests.has_room_for_bulk(&self.input) {
            self.input = BytesMut::from(&self.input[..]);
        }
    }

    /// Returns whether neither requests nor replies wait in it.
    #[inline]
    pub fn holds_nothing(&self) -> bool {
        self.input.is_empty() && self.output.is_empty() && self.next >= self.batch.len()
    }

    /// Returns what of the requests that have been read waits, if anything does.
    pub fn pending(&self) -> Pending {
        let queued = if self.next < self.batch.len() { self.batch.buffer_len() } else { 0 };
        if self.input.is_empty() {
            return Pending { unparsed: queued, arguments: 0, held: queued };
        }
        let ((arguments, lists), requests) = (self.codec.requests.pending_args(), &self.codec.requests);
        // Room for the next read is lent by the worker, see `settle`; that for a large argument is the client's own.
        let room = match requests.has_room_for_bulk(&self.input) {
            true => 0,
            false => (self.input.capacity() - self.input.len()).min(2 * READ_LEN),
        };
        let held = allocation_len(self.input.capacity() - room) + lists;
        Pending { unparsed: queued + requests.unparsed_len(&self.input), arguments, held: queued + held }
    }
}

/// Lends scratches to the connections of one worker.
pub struct BufferPool {
    /// What the connections execute commands with.
    pub(super) handlers: &'static Handlers,
    #[allow(clippy::vec_box, reason = "a buffers goes to a connection and back as a pointer")]
    blank: Mutex<Vec<Box<ConnBuffers>>>,
}

impl Default for BufferPool {
    /// Creates the pool of connections that have all commands.
    fn default() -> Self {
        Self::new(handlers())
    }
}

impl BufferPool {
    /// Creates an empty pool of connections that execute commands with `handlers`.
    pub(crate) fn new(handlers: &'static Handlers) -> Self {
        BufferPool { handlers, blank: Mutex::default() }
    }

    /// Lends a blank buffers.
    pub fn take(&self) -> Box<ConnBuffers> {
        self.blank.lock().pop().unwrap_or_default()
    }

    /// Takes a buffers back.
    pub fn give(&self, buffers: Box<ConnBuffers>) {
        debug_assert!(buffers.is_blank(), "nothing of a client may be left");
        let mut blank = self.blank.lock();
        if blank.len() < POOLED_MAX {
            blank.push(buffers);
        }
    }
}
