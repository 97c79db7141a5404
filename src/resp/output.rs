//! The pending output of a client, and the version of the protocol in which it is written.
//!
//! Replies are appended to a growing tail. A large shared value is not copied: the tail becomes a chunk and the value
//! is queued after it, so one vectored write sends both.
//!
//! ```text
//! chunks  ["...$65536\r\n"] [64 KiB, shared with the store]      tail  "\r\n+OK\r\n"
//! ```
//!
//! The output has no socket. Its owner may set a limit: an output that would exceed it drops its content and everything
//! that follows, so that one transaction or script cannot fill the memory before the owner looks; the stream is broken
//! then, and the owner has to close the connection.
//!
//! Invariant: the chunks in order, then the tail, are the stream; no chunk is empty.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};

/// A shared value of this size or more, in bytes, is queued without a copy; below, copying is cheaper.
pub const SHARED_MIN: usize = 16 * 1024;

/// The length from which a tail becomes a chunk when the output is shrunk, in bytes.
const SEALED_MIN: usize = 128 * 1024;

/// The capacity that an idle output keeps for the next reply.
const IDLE_CAPACITY_MAX: usize = 16 * 1024;

/// A position in the stream of an [`Output`], to roll back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u64);

/// Replies that are not yet written; reads as a [`Buf`].
#[derive(Clone, Debug, Default)]
pub struct Output {
    chunks: VecDeque<Bytes>,
    chunks_len: usize,
    tail: BytesMut,
    /// Bytes already written, which makes marks independent of writing.
    written: u64,
    /// The reply that is kept as a value instead of being encoded.
    kept: Kept,
    /// The most bytes that may be pending; 0 for no limit.
    limit: usize,
    /// Set once the limit was exceeded.
    is_over: bool,
}

/// A reply that is a single value and is not encoded, for a caller that would decode it at once. The bytes of a string
/// are those of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kept {
    /// No value: replies are encoded.
    #[default]
    Encoded,
    /// No value yet: the next one is kept, unless it is an array or of a type without a variant here.
    Nothing,
    /// An integer.
    Int(i64),
    /// The absent value, in the given protocol.
    Null(Protocol),
    /// A bulk string.
    Bulk,
    /// A simple string.
    Simple,
}

impl Output {
    /// Creates an empty output, which has not allocated yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an output that appends to `tail`.
    pub fn append_to(tail: BytesMut) -> Self {
        Self { tail, ..Self::default() }
    }

    /// Returns everything as one buffer, copying only when shared values are queued.
    pub fn into_bytes(mut self) -> BytesMut {
        if self.chunks.is_empty() {
            return self.tail;
        }
        let mut bytes = BytesMut::with_capacity(self.len());
        while self.has_remaining() {
            let chunk = self.chunk();
            bytes.extend_from_slice(chunk);
            let len = chunk.len();
            self.advance(len);
        }
        bytes
    }

    /// Returns everything as the buffers that the output consists of, in order; those of large values are shared.
    pub fn into_chunks(self) -> impl Iterator<Item = Bytes> {
        let tail = (!self.tail.is_empty()).then(|| self.tail.freeze());
        self.chunks.into_iter().chain(tail)
    }

    /// Returns the number of pending bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.chunks_len + self.tail.len()
    }

    /// Returns the stream position of the next byte.
    #[inline]
    pub fn end(&self) -> u64 {
        self.written + self.len() as u64
    }

    /// Returns true if nothing is pending.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets the most bytes that may be pending; 0 for no limit. The limit is checked when the buffer has to grow, so up
    /// to twice as much may be pending for a moment.
    #[inline]
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Returns true if the limit was exceeded: the connection must be closed without another byte.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Reserves room for `additional` bytes.
    #[inline]
    pub fn reserve(&mut self, additional: usize) {
        if additional > self.tail.capacity() - self.tail.len() && self.admits(additional) {
            self.tail.reserve(additional);
        }
    }

    /// Appends a copy of `bytes`.
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) {
        if bytes.len() > self.tail.capacity() - self.tail.len() && !self.admits(bytes.len()) {
            return;
        }
        self.tail.extend_from_slice(bytes);
    }

    /// Returns true if this many more bytes are within the limit; drops everything if they are not.
    #[cold]
    fn admits(&mut self, additional: usize) -> bool {
        if self.limit != 0 && self.len().saturating_add(additional) > self.limit {
            self.is_over = true;
        }
        if self.is_over {
            self.written = self.end(); // marks stay behind the end
            (self.chunks, self.chunks_len, self.tail) = (VecDeque::new(), 0, BytesMut::new());
        }
        !self.is_over
    }

    /// Appends `bytes`, without copying them when they are large.
    pub fn push_shared(&mut self, bytes: Bytes) {
        if bytes.len() < SHARED_MIN {
            return self.extend(&bytes);
        }
        if !self.admits(bytes.len()) {
            return;
        }
        if !self.tail.is_empty() {
            let sealed = self.tail.split().freeze();
            self.push_chunk(sealed);
        }
        self.push_chunk(bytes);
    }

    /// Appends the content of another output, without copying large values.
    pub fn append(&mut self, other: Output) {
        let Output { chunks, tail, .. } = other;
        chunks.into_iter().for_each(|chunk| self.push_shared(chunk));
        self.push_shared(tail.freeze());
    }

    /// Takes everything appended since `mark`; none of it may have been written yet.
    pub fn split_off(&mut self, mark: Mark) -> Output {
        let kept = usize::try_from(mark.0.saturating_sub(self.written)).unwrap_or(usize::MAX);
        let all = std::mem::take(self);
        let (written, limit, is_over, mut tail) = (all.written, all.limit, all.is_over, all.into_bytes());
        let split = tail.split_off(kept.min(tail.len()));
        *self = Output { tail, written, limit, is_over, ..Output::default() };
        Output::append_to(split)
    }

    /// Removes all but the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.rollback(Mark(self.written.saturating_add(len.min(self.len()) as u64)));
    }

    /// Returns the memory of the pending output, including shared values.
    pub fn held(&self) -> usize {
        if self.is_empty() { 0 } else { self.chunks_len + self.tail.capacity() }
    }

    fn push_chunk(&mut self, chunk: Bytes) {
        self.chunks_len += chunk.len();
        self.chunks.push_back(chunk);
    }

    /// Returns the present end of the stream, to roll back to.
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark(self.end())
    }

    /// Returns the number of bytes since `mark`.
    pub fn len_since(&self, mark: Mark) -> u64 {
        self.end().saturating_sub(mark.0)
    }

    /// Inserts bytes at `mark`, before everything appended since; nothing of the latter may have been written yet.
    pub fn insert(&mut self, mark: Mark, bytes: Bytes) {
        let at = usize::try_from(mark.0.saturating_sub(self.written)).unwrap_or(usize::MAX);
        if let Some(in_tail) = at.checked_sub(self.chunks_len) {
            let start = in_tail.min(self.tail.len());
            self.tail.extend_from_slice(&bytes);
            return self.tail[start..].rotate_right(bytes.len());
        }
        let (mut index, mut offset) = (0, at);
        while let Some(chunk) = self.chunks.get(index).filter(|chunk| chunk.len() <= offset) {
            offset -= chunk.len();
            index += 1;
        }
        if offset > 0
            && let Some(chunk) = self.chunks.get_mut(index)
        {
            let rest = chunk.split_off(offset);
            index += 1;
            self.chunks.insert(index, rest);
        }
        self.chunks_len += bytes.len();
        self.chunks.insert(index, bytes);
    }

    /// Drops everything appended after `mark` that has not been written yet.
    pub fn rollback(&mut self, mark: Mark) {
        let keep = mark.0.saturating_sub(self.written);
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        if keep >= self.chunks_len {
            return self.tail.truncate(keep - self.chunks_len);
        }
        self.tail.clear();
        while self.chunks_len > keep {
            let Some(mut last) = self.chunks.pop_back() else {
                break;
            };
            self.chunks_len -= last.len();
            if self.chunks_len < keep {
                last.truncate(keep - self.chunks_len);
                self.push_chunk(last);
            }
        }
    }

    /// Drops everything, and keeps the next reply as a value if it is a single one.
    #[inline]
    pub fn keep_next(&mut self) {
        if !self.is_empty() {
            self.advance(self.len());
        }
        self.kept = Kept::Nothing;
    }

    /// Returns the kept value; replies are encoded from now on.
    #[inline]
    pub fn take_kept(&mut self) -> Kept {
        std::mem::take(&mut self.kept)
    }

    /// Returns true if the next value may be kept.
    #[inline]
    pub(super) fn keeps(&self) -> bool {
        self.kept != Kept::Encoded
    }

    /// Returns true if no value is kept yet.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        self.kept == Kept::Nothing
    }

    /// Stores a value instead of encoding it, with its bytes; returns true if it was stored.
    #[inline]
    pub(super) fn keep(&mut self, value: Kept, bytes: &[u8]) -> bool {
        let is_first = self.kept == Kept::Nothing && self.is_empty();
        if is_first {
            self.extend(bytes);
            self.kept = value;
        }
        is_first
    }

    /// Forgets the kept value, when it is rolled back.
    pub(super) fn keep_nothing(&mut self) {
        self.kept = Kept::Nothing;
    }

    /// Returns everything as one slice, unless shared values are queued.
    #[inline]
    pub fn as_slice(&self) -> Option<&[u8]> {
        self.chunks.is_empty().then_some(&*self.tail)
    }

    /// Releases the memory of a large reply once all of it is written. While much is pending, a long tail becomes a
    /// chunk: further replies would otherwise double its buffer.
    pub fn shrink(&mut self) {
        if self.is_empty() && self.tail.capacity() > IDLE_CAPACITY_MAX {
            self.tail = BytesMut::new();
        }
        if self.tail.len() >= SEALED_MIN {
            let mut sealed = Vec::from(std::mem::take(&mut self.tail));
            sealed.shrink_to_fit();
            self.push_chunk(sealed.into());
        }
        if self.chunks.is_empty() && self.chunks.capacity() > 0 {
            self.chunks = VecDeque::new();
        }
    }
}

impl Output {
    /// Fills slices with the first `limit` bytes; returns the number of filled slices.
    pub fn chunks_up_to<'a>(&'a self, limit: usize, slices: &mut [IoSlice<'a>]) -> usize {
        let tail = (!self.tail.is_empty()).then_some(&*self.tail);
        let (mut filled, mut left) = (0, limit);
        for (slice, bytes) in slices.iter_mut().zip(self.chunks.iter().map(|chunk| &**chunk).chain(tail)) {
            let bytes = &bytes[..bytes.len().min(left)];
            if bytes.is_empty() {
                break;
            }
            *slice = IoSlice::new(bytes);
            left -= bytes.len();
            filled += 1;
        }
        filled
    }
}

impl Buf for Output {
    fn remaining(&self) -> usize {
        self.len()
    }

    fn chunk(&self) -> &[u8] {
        self.chunks.front().map_or(&*self.tail, |chunk| chunk)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.chunks_up_to(usize::MAX, slices)
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.len(), "cannot write more than is waiting");
        self.written += count as u64;
        while let Some(front) = self.chunks.front_mut() {
            if count < front.len() {
                front.advance(count);
                self.chunks_len -= count;
                return;
            }
            count -= front.len();
            self.chunks_len -= front.len();
            self.chunks.pop_front();
        }
        if count == self.tail.len() {
            // Clearing instead of advancing keeps the capacity at the front of the buffer.
            self.tail.clear();
        } else {
            self.tail.advance(count);
        }
    }
}

/// The version of the protocol in which replies are written; HELLO changes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The protocol that every client speaks.
    #[default]
    Resp2,
    /// The protocol with maps, sets, doubles, booleans and pushes.
    Resp3,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn large(byte: u8) -> Bytes {
        Bytes::from(vec![byte; SHARED_MIN])
    }

    #[test]
    fn large_values_are_queued_without_a_copy() {
        let (mut out, value) = (Output::new(), large(b'v'));
        out.extend(b"head");
        out.push_shared(value.clone());
        out.extend(b"tail");
        assert_eq!(out.as_slice(), None);
        let mut slices = [IoSlice::new(&[]); 4];
        assert_eq!(out.chunks_vectored(&mut slices), 3);
        assert_eq!(slices[1].as_ptr(), value.as_ptr());
        assert_eq!(out.chunks_vectored(&mut slices[..2]), 2);
        assert_eq!(out.len(), 8 + SHARED_MIN);
        out.advance(6);
        assert_eq!(out.chunk().len(), SHARED_MIN - 2);
        out.advance(SHARED_MIN - 2);
        assert_eq!(out.as_slice(), Some(&b"tail"[..]));
        out.advance(4);
        assert!(out.is_empty());
        out.shrink();
    }

    #[test]
    fn small_shared_values_are_copied_into_the_tail() {
        let mut out = Output::new();
        out.push_shared(Bytes::from_static(b"small"));
        assert_eq!(out.as_slice(), Some(&b"small"[..]));
    }

    #[test]
    fn rollback_drops_what_follows_the_mark_across_chunks_and_writes() {
        let stream: Vec<Bytes> = vec![Bytes::from_static(b"ab"), large(b'1'), large(b'2'), Bytes::from_static(b"cd")];
        let all = stream.concat();
        for keep in [0, 1, 2, 3, SHARED_MIN + 2, SHARED_MIN + 3, all.len() - 1, all.len()] {
            for written in [0, 1, 2, 3, SHARED_MIN + 2] {
                let mut out = Output::new();
                stream.iter().for_each(|part| out.push_shared(part.clone()));
                out.advance(written);
                out.rollback(Mark(keep as u64));
                let start = written.min(keep);
                assert_eq!(out.len(), keep - start, "keep {keep}, written {written}");
                let rest = if start == keep { &[][..] } else { &all[written..keep] };
                assert_eq!(out.into_bytes(), rest, "keep {keep}, written {written}");
            }
        }
    }

    #[test]
    fn bytes_are_inserted_at_a_mark_in_the_tail_between_chunks_and_inside_one() {
        let stream: Vec<Bytes> = vec![Bytes::from_static(b"ab"), large(b'1'), large(b'2'), Bytes::from_static(b"cd")];
        let all = stream.concat();
        for at in [0, 1, 2, 3, SHARED_MIN + 2, SHARED_MIN + 3, all.len() - 2, all.len() - 1, all.len()] {
            for written in [0, 1, 2, 3, SHARED_MIN + 2].into_iter().filter(|written| *written <= at) {
                let mut out = Output::new();
                stream.iter().for_each(|part| out.push_shared(part.clone()));
                out.advance(written);
                out.insert(Mark(at as u64), Bytes::from_static(b"*3"));
                assert_eq!(out.len(), all.len() - written + 2);
                let expected = [&all[written..at], b"*3", &all[at..]].concat();
                assert!(out.into_bytes() == expected, "at {at}, written {written}");
            }
        }
    }

    #[test]
    fn an_output_beyond_its_limit_keeps_nothing_of_what_it_has_and_of_what_follows() {
        for (is_large, piece) in [(false, Bytes::from(vec![b'x'; 1000])), (true, large(b'x'))] {
            let mut out = Output::new();
            out.set_limit(10 * piece.len());
            let mark = out.mark();
            for _ in 0..10 {
                out.push_shared(piece.clone());
            }
            assert!(!out.is_over() && out.len() == 10 * piece.len());
            out.advance(piece.len());
            for _ in 0..100 {
                out.push_shared(piece.clone());
                assert!(out.held() <= 2 * 10 * piece.len(), "{} of a limit of {}", out.held(), 10 * piece.len());
            }
            assert!(out.is_over() && out.is_empty() && out.held() == 0, "large values: {is_large}");
            out.extend(b"+OK");
            out.reserve(1 << 40);
            out.insert(mark, Bytes::new());
            out.rollback(mark);
            assert!(out.is_empty() && out.is_over());
        }
    }

    #[test]
    fn a_mark_is_where_the_next_byte_goes() {
        let mut out = Output::new();
        out.extend(b"kept");
        let mark = out.mark();
        out.push_shared(large(b'x'));
        out.extend(b"dropped");
        out.rollback(mark);
        out.extend(b"!");
        assert_eq!(out.into_bytes(), &b"kept!"[..]);
    }
}
