//! Buffers that a connection needs only while it has work, and the lists of decoder and plan.
//!
//! An idle connection holds no buffers. A connection with input borrows buffers from its worker's pool and returns them
//! when everything is answered, so thousands of idle clients need no buffers, and the active ones of a worker reuse the
//! same few kilobytes, which stay in the processor's cache.
//!
//! Invariant: pooled buffers are blank; no byte of one client is ever visible to another.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::io::AsyncRead;
use tokio_util::io::poll_read_buf;

use crate::client::info::PendingInput;
use crate::command::handlers;
use crate::dispatch::Handlers;
use crate::dispatch::plan::Plan;
use crate::memory::heap::allocation_len;
use crate::net::tenancy::Tenancy;
use crate::resp::{Batch, Codec, Output};

/// Size of one read, in bytes. The first read after a large argument is not longer even if there is more room: if
/// another large argument begins in it, the bytes of that argument have to be copied into its own buffer.
pub(crate) const READ_LEN: usize = 16 * 1024;
/// Size of the largest read buffer, in bytes, that is kept after a large request was taken out of it; also the size of
/// a read after one that has filled its room.
const INPUT_KEEP_MAX: usize = 4 * READ_LEN;
/// Number of blank buffers that a pool keeps: about as many as clients are active at the same time.
const POOLED_MAX: usize = 16;

/// The working memory of one connection.
#[derive(Default)]
pub struct ConnBuffers {
    /// Decoder that finds the requests in the input.
    pub codec: Codec,
    /// Input that was read and not yet executed.
    pub input: BytesMut,
    /// True if the last read has filled the input: there is probably more.
    is_filled: bool,
    /// True if the last read was of a large argument; kept in the pool, since other clients may send large arguments as
    /// well.
    is_after_large: bool,
    /// Output that was not yet written.
    pub output: Output,
    /// The batch being executed.
    pub batch: Batch,
    /// The index of the next request of the batch.
    pub next: usize,
    /// The plan of the rest of the batch.
    pub plan: Plan,
}

impl ConnBuffers {
    /// Returns true if the buffers hold no data of a client.
    pub fn is_blank(&self) -> bool {
        let is_executed = self.next >= self.batch.len();
        let has_no_output = self.output.is_empty() && !self.output.is_over();
        is_executed && self.input.is_empty() && has_no_output && self.codec.requests.is_between_requests()
    }

    /// Reads what the stream has: into the input, or into the buffer of a large argument.
    #[inline(always)] // as Connection::poll_read
    pub fn poll_read<S: AsyncRead>(&mut self, stream: Pin<&mut S>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match self.codec.requests.large_buffer() {
            None if self.is_after_large => {
                let read = poll_read_buf(stream, cx, &mut (&mut self.input).limit(READ_LEN));
                self.is_after_large = read.is_pending();
                read
            }
            None => {
                let read = poll_read_buf(stream, cx, &mut self.input);
                self.is_filled = self.input.len() == self.input.capacity();
                read
            }
            Some(mut large) => {
                (self.is_filled, self.is_after_large) = (false, true);
                poll_read_buf(stream, cx, &mut large)
            }
        }
    }

    /// Returns true if a large argument has arrived in part.
    #[inline]
    pub fn is_receiving_large(&self) -> bool {
        self.codec.requests.is_receiving_large()
    }

    /// Removes the executed requests of the batch.
    #[inline]
    pub fn recycle(&mut self) {
        self.batch.recycle(&mut self.input);
        self.next = 0;
    }

    /// Makes room for the next read; the memory of a large request is released. A small buffer grows by a read, a large
    /// one by a quarter; a large argument has a buffer of its own.
    #[inline]
    pub fn prepare_input(&mut self) {
        let is_room = (READ_LEN..=INPUT_KEEP_MAX).contains(&self.input.capacity());
        if !(is_room && self.input.is_empty()) || self.is_filled {
            self.make_room();
        }
    }

    fn make_room(&mut self) {
        if self.next >= self.batch.len() {
            self.recycle(); // the batch may have the buffer
        }
        let len = self.input.len();
        if self.is_receiving_large() {
            return self.codec.requests.prepare_large(); // before it is counted
        }
        let room = self.input.capacity() - len;
        let wanted = if self.is_filled { INPUT_KEEP_MAX.saturating_sub(len).max(READ_LEN) } else { READ_LEN };
        // With an incomplete request, half the room for the next read is enough: no doubling.
        let is_roomy = len > 0 && room >= wanted / 2;
        if len > INPUT_KEEP_MAX {
            if room < READ_LEN {
                reserve_exact(&mut self.input, READ_LEN.max(len / 4));
            }
        } else if !is_roomy && !self.input.try_reclaim(wanted) {
            // `reserve` would keep the room of what was executed as well, and so make a buffer too large to be kept.
            self.move_input(wanted);
        }
        if len < READ_LEN && self.input.capacity() > INPUT_KEEP_MAX {
            self.move_input(READ_LEN);
        }
    }

    /// Moves the input to a buffer that has room for `room` bytes more.
    fn move_input(&mut self, room: usize) {
        let mut moved = BytesMut::with_capacity(self.input.len() + room);
        moved.extend_from_slice(&self.input);
        self.input = moved;
    }

    /// Releases the spare room of a buffer with a short incomplete request, because thousands of clients may be in that
    /// state.
    #[inline]
    pub fn settle(&mut self) {
        if !self.input.is_empty() && self.input.len() <= 2 * READ_LEN {
            self.keep_pieces_only();
        }
    }

    #[cold]
    fn keep_pieces_only(&mut self) {
        let room = self.input.capacity() - self.input.len();
        if room >= READ_LEN / 2 {
            self.input = BytesMut::from(&self.input[..]);
        }
    }

    /// Returns true if the buffers hold neither requests nor replies.
    #[inline]
    pub fn holds_nothing(&self) -> bool {
        self.input.is_empty() && self.output.is_empty() && self.next >= self.batch.len()
    }

    /// Returns the size of an incomplete request, if there is one.
    pub fn pending(&self) -> PendingInput {
        let queued = if self.next < self.batch.len() { self.batch.buffer_len() } else { 0 };
        if self.input.is_empty() {
            return PendingInput { unparsed: queued, arguments: 0, held: queued };
        }
        let ((arguments, lists), requests) = (self.codec.requests.pending_args(), &self.codec.requests);
        // Room for the next read is the worker's, see `settle`.
        let room = (self.input.capacity() - self.input.len()).min(INPUT_KEEP_MAX);
        let held = allocation_len(self.input.capacity() - room) + lists;
        PendingInput { unparsed: queued + requests.unparsed_len(&self.input), arguments, held: queued + held }
    }
}

/// Pool of buffers of one worker, and other state that its connections share.
pub struct BufferPool {
    /// The handlers that the connections execute commands with.
    pub(super) handlers: &'static Handlers,
    /// Access to private namespaces, in test mode.
    pub(super) tenancy: Option<Arc<Tenancy>>,
    #[allow(clippy::vec_box, reason = "the buffers move to a connection and back as a pointer")]
    blank: Mutex<Vec<Box<ConnBuffers>>>,
}

impl Default for BufferPool {
    /// Creates the pool of connections with the full set of commands.
    fn default() -> Self {
        Self::new(handlers(), None)
    }
}

impl BufferPool {
    /// Creates an empty pool for connections that use `handlers` and may enter the namespaces of `tenancy`.
    pub(crate) fn new(handlers: &'static Handlers, tenancy: Option<Arc<Tenancy>>) -> Self {
        BufferPool { handlers, tenancy, blank: Mutex::default() }
    }

    /// Takes blank buffers out of the pool.
    pub fn take(&self) -> Box<ConnBuffers> {
        self.blank.lock().pop().unwrap_or_default()
    }

    /// Returns buffers to the pool.
    pub fn give(&self, buffers: Box<ConnBuffers>) {
        debug_assert!(buffers.is_blank(), "pooled buffers must be blank");
        let mut blank = self.blank.lock();
        if blank.len() < POOLED_MAX {
            blank.push(buffers);
        }
    }
}

/// Reserves exactly `additional` bytes, where [`BytesMut::reserve`] would double the buffer.
fn reserve_exact(buffer: &mut BytesMut, additional: usize) {
    let mut own = Vec::from(std::mem::take(buffer));
    own.reserve_exact(additional);
    *buffer = BytesMut::from(Bytes::from(own));
}
