//! What a connection needs only while it has work: buffers, and the lists of decoder and plan.
//!
//! An idle connection holds none of it. Whoever has something to read borrows a scratch from its worker's pool and gives
//! it back when all is answered, so that thousands of idle clients cost no buffers, and the active ones of a worker pass
//! the same few kilobytes on, which therefore stay in the processor's cache.
//!
//! Invariant: a scratch in the pool is blank; no byte of one client is ever seen by another.

use bytes::BytesMut;
use parking_lot::Mutex;

use crate::command::dispatch::Plan;
use crate::resp::{Batch, Codec, Output};

/// How much is read at once, in bytes.
pub const READ_LEN: usize = 16 * 1024;
/// How large a read buffer may be that is kept once a large request has been taken out of it, in bytes.
const INPUT_KEEP_MAX: usize = 4 * READ_LEN;
/// How many blank ones a pool keeps: as many as clients are likely to be in the middle of something at once.
const POOLED_MAX: usize = 16;

/// Holds the working memory of one connection.
#[derive(Default)]
pub struct Scratch {
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

impl Scratch {
    /// Returns whether nothing in it belongs to a client.
    pub fn is_blank(&self) -> bool {
        let is_executed = self.next >= self.batch.len();
        is_executed && self.input.is_empty() && self.output.is_empty() && self.codec.requests.is_between_requests()
    }

    /// Makes room for the next read; what a large request left behind is given back.
    pub fn prepare_input(&mut self) {
        self.input.reserve(READ_LEN);
        if self.input.is_empty() && self.input.capacity() > INPUT_KEEP_MAX {
            self.input = BytesMut::with_capacity(READ_LEN);
        }
    }
}

/// Lends scratches to the connections of one worker.
#[derive(Default)]
pub struct Pool {
    #[allow(clippy::vec_box, reason = "a scratch goes to a connection and back as a pointer")]
    blank: Mutex<Vec<Box<Scratch>>>,
}

impl Pool {
    /// Lends a blank scratch.
    pub fn take(&self) -> Box<Scratch> {
        self.blank.lock().pop().unwrap_or_default()
    }

    /// Takes a scratch back.
    pub fn give(&self, scratch: Box<Scratch>) {
        debug_assert!(scratch.is_blank(), "nothing of a client may be left");
        let mut blank = self.blank.lock();
        if blank.len() < POOLED_MAX {
            blank.push(scratch);
        }
    }
}
