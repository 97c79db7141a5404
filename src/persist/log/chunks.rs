//! The bytes of a log that a reader still needs.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Length of chunks in bytes, unless they are read earlier; a record of this length or more is a chunk of its own.
const CHUNK_LEN: usize = 64 * 1024;

/// Number of bytes of the growing end that are copied for a reader. A longer end becomes a chunk. Without the copy,
/// readers that read often would divide the log into chunks of a few bytes.
const COPY_MAX: usize = 4 * 1024;

/// Consecutive bytes of a log, by position: the number of bytes appended before them since the log began.
///
/// Invariant: the chunks in order, then the growing end, are the bytes from the first position to the last.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    /// The sealed chunks, each with the position of its first byte; none is empty.
    chunks: VecDeque<(u64, Bytes)>,
    /// The growing end. Its buffer is shared with the chunks before it; once it is full and these are freed, it is used
    /// again.
    growing: BytesMut,
    /// The position of the first byte of the growing end.
    growing_start: u64,
}

impl Chunks {
    /// Returns the position of the first byte that is kept.
    pub(super) fn start(&self) -> u64 {
        self.chunks.front().map_or(self.growing_start, |(start, _)| *start)
    }

    /// Returns the position behind the last byte.
    pub(super) fn end(&self) -> u64 {
        self.growing_start + self.growing.len() as u64
    }

    /// Returns the number of bytes that are kept.
    pub(super) fn len(&self) -> usize {
        (self.end() - self.start()) as usize
    }

    /// Appends a copy of bytes.
    pub(super) fn extend(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.growing.len() == self.growing.capacity() {
                self.seal();
                self.growing.reserve(CHUNK_LEN);
            }
            let room = self.growing.capacity() - self.growing.len();
            let (fitting, rest) = bytes.split_at(room.min(bytes.len()));
            self.growing.extend_from_slice(fitting);
            bytes = rest;
        }
    }

    /// Appends bytes; takes them without a copy if they are a chunk of their own.
    pub(super) fn append(&mut self, bytes: &mut Vec<u8>) {
        if bytes.len() < CHUNK_LEN {
            return self.extend(bytes);
        }
        self.seal();
        let mut own = std::mem::take(bytes);
        own.shrink_to_fit();
        self.push(own.into());
    }

    fn seal(&mut self) {
        if !self.growing.is_empty() {
            let sealed = self.growing.split().freeze();
            self.push(sealed);
        }
    }

    /// Adds a chunk before the growing end, which is empty.
    fn push(&mut self, chunk: Bytes) {
        let start = self.growing_start;
        self.growing_start += chunk.len() as u64;
        self.chunks.push_back((start, chunk));
    }

    /// Creates an empty log whose first byte will have `position`.
    pub(super) fn begin_at(position: u64) -> Self {
        Chunks { growing_start: position, ..Chunks::default() }
    }

    /// Advances by `len` bytes without keeping them, as no reader needs them.
    pub(super) fn skip(&mut self, len: usize) {
        *self = Chunks::begin_at(self.end() + len as u64);
    }

    /// Returns the bytes from a position on, up to the end of its chunk. There are none at the end, nor before the
    /// start.
    pub(super) fn read(&mut self, position: u64) -> Bytes {
        if position >= self.growing_start {
            let rest = self.growing.get((position - self.growing_start) as usize..).unwrap_or_default();
            if rest.len() <= COPY_MAX {
                return Bytes::copy_from_slice(rest);
            }
            self.seal();
        }
        let after = self.chunks.partition_point(|(start, _)| *start <= position);
        let Some((start, chunk)) = after.checked_sub(1).and_then(|at| self.chunks.get(at)) else { return Bytes::new() };
        chunk.slice(chunk.len().min((position - start) as usize)..)
    }

    /// Frees the chunks before a position, and copies the rest of the first chunk to free its beginning, unless the
    /// rest is long.
    pub(super) fn trim(&mut self, position: u64) {
        self.free_before(position);
        if self.chunks.is_empty() {
            self.seal();
        }
        let Some((start, chunk)) = self.chunks.front_mut() else { return };
        let rest = chunk.slice(position.saturating_sub(*start) as usize..);
        if position > *start && rest.len() <= CHUNK_LEN {
            (*start, *chunk) = (position, Bytes::copy_from_slice(&rest));
        }
    }

    /// Frees the chunks that lie completely before a position.
    pub(super) fn free_before(&mut self, position: u64) {
        while self.chunks.front().is_some_and(|(start, chunk)| start + chunk.len() as u64 <= position) {
            self.chunks.pop_front();
        }
        if position >= self.end() {
            self.growing_start = self.end();
            self.growing.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_by_position_across_chunks_and_freed_behind_one() {
        let mut chunks = Chunks::default();
        chunks.extend(b"ab");
        chunks.append(&mut vec![b'x'; CHUNK_LEN]);
        chunks.extend(b"cd");
        let end = CHUNK_LEN as u64 + 4;
        assert_eq!((chunks.start(), chunks.end(), chunks.len()), (0, end, CHUNK_LEN + 4));
        assert_eq!(chunks.read(0), "ab");
        assert_eq!(chunks.read(1), "b");
        assert_eq!(chunks.read(3).len(), CHUNK_LEN - 1);
        assert_eq!(chunks.read(end - 2), "cd");
        assert_eq!(chunks.read(end), "");
        chunks.free_before(end - 3);
        assert_eq!((chunks.start(), chunks.read(1)), (2, Bytes::new()));
        chunks.trim(1);
        assert_eq!((chunks.start(), chunks.len()), (2, CHUNK_LEN + 2));
        chunks.trim(end - 5);
        assert_eq!((chunks.start(), chunks.read(end - 6), chunks.read(end - 5)), (end - 5, Bytes::new(), "xxx".into()));
        chunks.free_before(end - 2);
        assert_eq!(chunks.start(), end - 2);
        chunks.free_before(end);
        assert_eq!((chunks.start(), chunks.end(), chunks.len()), (end, end, 0));
        chunks.extend(b"e");
        assert_eq!(chunks.read(end), "e");
    }

    #[test]
    fn a_long_record_is_not_copied_to_free_a_part_of_it() {
        let mut chunks = Chunks::default();
        chunks.append(&mut vec![b'x'; 3 * CHUNK_LEN]);
        chunks.trim(CHUNK_LEN as u64);
        assert_eq!((chunks.start(), chunks.len()), (0, 3 * CHUNK_LEN));
        chunks.trim(2 * CHUNK_LEN as u64);
        assert_eq!((chunks.start(), chunks.len()), (2 * CHUNK_LEN as u64, CHUNK_LEN));
    }

    #[test]
    fn short_reads_of_the_growing_end_do_not_divide_it() {
        let mut chunks = Chunks::default();
        for round in 0..1000_u64 {
            chunks.extend(&round.to_le_bytes());
            assert_eq!(chunks.read(round * 8), &round.to_le_bytes()[..]);
        }
        assert!(chunks.chunks.is_empty());
        chunks.trim(7992);
        assert_eq!((chunks.start(), chunks.read(7992)), (7992, Bytes::copy_from_slice(&999_u64.to_le_bytes())));
    }

    #[test]
    fn a_long_growing_end_becomes_a_chunk() {
        let mut chunks = Chunks::default();
        (0..CHUNK_LEN / 4 + 1).for_each(|_| chunks.extend(b"1234"));
        assert_eq!((chunks.read(0).len(), &chunks.read(CHUNK_LEN as u64)[..]), (CHUNK_LEN, &b"1234"[..]));
    }

    #[test]
    fn what_is_appended_after_a_read_changes_nothing_that_was_read_and_a_freed_buffer_is_used_again() {
        let mut chunks = Chunks::default();
        let mut buffers = std::collections::HashSet::new();
        let len = 2 * COPY_MAX as u64; // none is in two buffers
        for round in 0..1000_u64 {
            let piece = round.to_le_bytes().repeat(len as usize / 8);
            chunks.extend(&piece);
            let read = chunks.read(round * len);
            chunks.extend(b"");
            buffers.insert(read.as_ptr() as usize / CHUNK_LEN);
            assert_eq!((&read[..read.len()], chunks.read(round * len)), (&piece[..read.len()], read.clone()));
            drop(read);
            chunks.free_before(round * len + len);
        }
        assert!(buffers.len() <= 2, "{} buffers", buffers.len());
    }
}
