//! A large argument while it is received: its buffer becomes the memory of the value.
//!
//! The buffer first has room for a megabyte; once that has arrived, for the whole argument. Pages that were not written
//! to use no memory, so the mere announcement of a long argument costs little. Where the system refuses to reserve
//! memory that may not be needed, the buffer grows by a quarter whenever it is full.

use bytes::buf::Limit;
use bytes::{BufMut, Bytes};

use crate::memory::heap::allocation_len;
use crate::resp::output::SHARED_MIN;
use crate::resp::request::Whole;

/// The length in bytes from which an argument gets a buffer of its own: replies share such values, too.
pub(super) const LARGE_LEN: usize = SHARED_MIN;
/// The most room that a new buffer has, in bytes.
pub(super) const FIRST_ROOM: usize = 1024 * 1024;
/// The length of the line end after an argument.
const LINE_END: usize = 2;

/// An argument of which not all bytes have arrived.
#[derive(Debug)]
pub(super) struct LargeArg {
    bytes: Vec<u8>,
    len: usize,
    /// The number of bytes that the buffer receives: including the line end, unless the allocator needs more memory for
    /// that.
    full_len: usize,
    /// The number of bytes of the line end still to be skipped after that.
    end_left: usize,
}

impl LargeArg {
    /// Creates an argument before any byte has arrived.
    pub(super) fn new(len: usize) -> Self {
        let with_end = len.saturating_add(LINE_END);
        let full_len = if allocation_len(with_end) == allocation_len(len) { with_end } else { len };
        LargeArg { bytes: Vec::with_capacity(full_len.min(FIRST_ROOM)), len, full_len, end_left: with_end - full_len }
    }

    /// Returns the number of bytes that have arrived, including the line end.
    pub(super) fn received_len(&self) -> usize {
        self.bytes.len() + (self.len + LINE_END - self.full_len - self.end_left)
    }

    /// Returns the memory of the buffer: once it has room for the whole argument, only the part written to.
    pub(super) fn memory(&self) -> usize {
        allocation_len(self.bytes.capacity().min(self.bytes.len().max(FIRST_ROOM)))
    }

    /// Returns true if the whole argument has arrived, with the line end.
    pub(super) fn is_received(&self) -> bool {
        self.bytes.len() == self.full_len && self.end_left == 0
    }

    /// Makes room for the next bytes.
    pub(super) fn prepare(&mut self) {
        if self.bytes.len() == self.bytes.capacity() {
            let missing = self.full_len - self.bytes.len();
            if self.bytes.try_reserve_exact(missing).is_err() {
                self.bytes.reserve_exact(missing.min(FIRST_ROOM.max(self.bytes.len() / 4)));
            }
        }
    }

    /// Returns the buffer for the next bytes; `None` once it is full.
    pub(super) fn buffer(&mut self) -> Option<Limit<&mut Vec<u8>>> {
        self.prepare();
        let missing = self.full_len - self.bytes.len();
        let room = self.bytes.capacity() - self.bytes.len();
        (missing > 0).then(|| (&mut self.bytes).limit(missing.min(room)))
    }

    /// Takes the bytes of the argument from the front of `bytes`; returns their number.
    pub(super) fn take_from(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len()
            && let Some(mut buffer) = self.buffer()
        {
            let len = buffer.remaining_mut().min(bytes.len() - taken);
            buffer.put_slice(&bytes[taken..taken + len]);
            taken += len;
        }
        let skipped = self.end_left.min(bytes.len() - taken);
        self.end_left -= skipped;
        taken + skipped
    }

    /// Returns the whole argument, without the line end.
    pub(super) fn into_bytes(mut self) -> Bytes {
        self.bytes.truncate(self.len);
        Bytes::from(self.bytes)
    }
}

/// Large arguments that have arrived as a whole. The sums are kept up to date, because they are asked for at every
/// read, and a request may have tens of thousands of arguments.
#[derive(Debug, Default)]
pub(super) struct WholeArgs {
    args: Vec<Bytes>,
    len: usize,
    memory: usize,
}

impl WholeArgs {
    /// Returns the bytes of all arguments, with their line ends.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no arguments.
    pub(super) fn is_empty(&self) -> bool {
        self.args.is_empty()
    }

    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// Adds an argument; returns its number.
    pub(super) fn push(&mut self, arg: Bytes) -> usize {
        self.len += arg.len() + LINE_END;
        self.memory += allocation_len(arg.len());
        self.args.push(arg);
        self.args.len() - 1
    }

    /// Takes all but the `last` last arguments.
    pub(super) fn take_before(&mut self, last: usize) -> Whole {
        let count = self.args.len() - last;
        if count == 0 {
            return None;
        }
        let mut taken = std::mem::take(self).args;
        for arg in taken.drain(count..) {
            self.push(arg);
        }
        Some(Box::new(taken))
    }
}
