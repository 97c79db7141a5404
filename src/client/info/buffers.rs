//! Memory of a client: its input, its output, and what is kept for it elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The sizes of a client's buffers, in bytes, and the memory counted for it.
pub(crate) struct Buffers {
    pub(super) query_buffer: AtomicUsize,
    pub(super) query_room: AtomicUsize,
    /// Bytes of the arguments of an incomplete request.
    pub(super) arguments: AtomicUsize,
    output_buffer: AtomicUsize,
    /// Bytes of the log that wait to be sent to a replica; the log keeps them, once for all replicas.
    log_waiting: AtomicUsize,
    queued_bytes: AtomicUsize,
    /// Bytes kept for the client elsewhere: names of channels, watched keys and tracking prefixes, its own names, and
    /// the call in which it is blocked.
    kept_len: AtomicUsize,
    /// Memory counted for the client by [`Clients::account`](crate::client::registry::Clients::account), in bytes.
    counted_memory: AtomicUsize,
    /// The memory counted for all clients, see [`Clients`](crate::client::registry::Clients).
    all_memory: Arc<AtomicUsize>,
}

impl Buffers {
    /// Creates empty buffers; `all_memory` is the memory counted for all clients.
    pub(super) fn new(all_memory: Arc<AtomicUsize>) -> Self {
        Buffers {
            query_buffer: AtomicUsize::new(0),
            query_room: AtomicUsize::new(0),
            arguments: AtomicUsize::new(0),
            output_buffer: AtomicUsize::new(0),
            log_waiting: AtomicUsize::new(0),
            queued_bytes: AtomicUsize::new(0),
            kept_len: AtomicUsize::new(0),
            counted_memory: AtomicUsize::new(0),
            all_memory,
        }
    }

    /// Records the bytes in the query buffer and its spare capacity.
    #[inline]
    pub(crate) fn set_query_buffer(&self, len: usize, room: usize) {
        self.query_buffer.store(len, Relaxed);
        self.query_room.store(room, Relaxed);
    }

    /// Returns the size of the query buffer, including its spare capacity.
    pub(crate) fn query_buffer_capacity(&self) -> usize {
        self.query_buffer.load(Relaxed) + self.query_room.load(Relaxed)
    }

    /// Records the input of an incomplete request.
    pub(crate) fn set_pending(&self, pending: PendingInput) {
        self.set_query_buffer(pending.unparsed, pending.held.saturating_sub(pending.unparsed + pending.arguments));
        self.arguments.store(pending.arguments, Relaxed);
    }

    /// Records the input that remains after a batch.
    pub(super) fn set_remaining_input(&self, len: usize) {
        self.set_query_buffer(len, 0);
        self.arguments.store(0, Relaxed);
    }

    /// Adds to the bytes of arguments that MULTI has queued.
    pub(crate) fn add_queued_bytes(&self, bytes: usize) {
        self.queued_bytes.fetch_add(bytes, Relaxed);
    }

    /// Records that MULTI has no commands queued any more.
    pub(super) fn clear_queued_bytes(&self) {
        self.queued_bytes.store(0, Relaxed);
    }

    /// Returns the bytes of arguments that MULTI has queued.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes.load(Relaxed)
    }

    /// Adds to the bytes kept for the client elsewhere, such as prefixes and channels; negative when they are removed.
    pub(crate) fn add_kept_len(&self, growth: isize) {
        self.kept_len.fetch_add(growth as usize, Relaxed);
    }

    /// Records how many bytes of output are pending.
    pub(crate) fn set_output_buffer(&self, len: usize) {
        self.output_buffer.store(len, Relaxed);
    }

    /// Records how many bytes of the log wait to be sent to a replica.
    pub(crate) fn set_log_waiting(&self, len: usize) {
        self.log_waiting.store(len, Relaxed);
    }

    /// Returns how many bytes of the log wait to be sent to a replica.
    pub(super) fn log_waiting(&self) -> usize {
        self.log_waiting.load(Relaxed)
    }

    /// Returns how many bytes of output are pending, without pushed frames.
    pub(super) fn output_buffer(&self) -> usize {
        self.output_buffer.load(Relaxed)
    }

    /// Returns the bytes of all but the output.
    pub(super) fn len_without_output(&self) -> usize {
        self.query_buffer_capacity()
            + self.arguments.load(Relaxed)
            + self.queued_bytes.load(Relaxed)
            + self.kept_len.load(Relaxed)
    }

    pub(in crate::client) fn counted_memory(&self) -> usize {
        self.counted_memory.load(Relaxed)
    }

    /// Sets the memory counted for the client, without the sum of all clients; returns the previous value.
    pub(in crate::client) fn set_counted_memory(&self, memory: usize) -> usize {
        self.counted_memory.swap(memory, Relaxed)
    }

    /// Updates the memory counted for the client; returns the sum of all clients.
    pub(super) fn count_memory(&self, memory: usize) -> usize {
        let growth = memory.wrapping_sub(self.set_counted_memory(memory));
        self.all_memory.fetch_add(growth, Relaxed).wrapping_add(growth)
    }
}

/// The input of an incomplete request, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingInput {
    /// Input not parsed yet: an incomplete line or argument.
    pub unparsed: usize,
    /// Complete arguments.
    pub arguments: usize,
    /// Memory of all of this input.
    pub held: usize,
}
