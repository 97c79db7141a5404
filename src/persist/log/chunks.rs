//! The bytes of a log that somebody still has to read.

use std::collections::VecDeque;

use bytes::Bytes;

/// From which length on the growing end becomes a chunk, in bytes.
const CHUNK_LEN: usize = 64 * 1024;

/// Consecutive bytes of a log, by position: how many bytes were appended before them since the log began.
///
/// Invariant: the chunks in order, then the growing end, are the bytes from the first position to the last.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    /// Each with the position of its first byte; none is empty.
    chunks: VecDeque<(u64, Bytes)>,
    growing: Vec<u8>,
    /// The position of the first byte of the growing end.
    growing_start: u64,
}

impl Chunks {
    /// Returns the position of the first byte that is there.
    pub(super) fn start(&self) -> u64 {
        self.chunks.front().map_or(self.growing_start, |(start, _)| *start)
    }

    /// Returns the position behind the last byte.
    pub(super) fn end(&self) -> u64 {
        self.growing_start + self.growing.len() as u64
    }

    /// Returns how many bytes are kept.
    pub(super) fn len(&self) -> usize {
        (self.end() - self.start()) as usize
    }

    /// Appends a copy of bytes.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.growing.extend_from_slice(bytes);
        if self.growing.len() >= CHUNK_LEN {
            self.seal();
        }
    }

    /// Appends bytes that are shared, without copying them when they are a chunk of their own.
    pub(super) fn push(&mut self, bytes: Bytes) {
        if bytes.len() < CHUNK_LEN {
            return self.extend(&bytes);
        }
        self.seal();
        self.chunks.push_back((self.growing_start, bytes));
        self.growing_start = self.chunks.back().map_or(0, |(start, chunk)| start + chunk.len() as u64);
    }

    /// Makes the growing end a chunk.
    fn seal(&mut self) {
        if self.growing.is_empty() {
            return;
        }
        let mut sealed = std::mem::take(&mut self.growing);
        sealed.shrink_to_fit();
        let start = self.growing_start;
        self.growing_start += sealed.len() as u64;
        self.chunks.push_back((start, sealed.into()));
    }

    /// Moves on without keeping the next bytes, which nobody will read.
    pub(super) fn skip(&mut self, len: usize) {
        *self = Chunks { growing_start: self.end() + len as u64, ..Chunks::default() };
    }

    /// Returns the bytes from a position on, up to the end of the chunk that they are in; those of the growing end are
    /// copied. There are none at the end, nor before the start.
    pub(super) fn read(&self, position: u64) -> Bytes {
        if let Some(offset) = position.checked_sub(self.growing_start) {
            return Bytes::copy_from_slice(self.growing.get(offset as usize..).unwrap_or_default());
        }
        let after = self.chunks.partition_point(|(start, _)| *start <= position);
        let Some((start, chunk)) = after.checked_sub(1).and_then(|at| self.chunks.get(at)) else { return Bytes::new() };
        chunk.slice((position - start) as usize..)
    }

    /// Frees the chunks that lie before a position altogether.
    pub(super) fn free_before(&mut self, position: u64) {
        while self.chunks.front().is_some_and(|(start, chunk)| start + chunk.len() as u64 <= position) {
            self.chunks.pop_front();
        }
        if position >= self.end() {
            self.skip(0);
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
        chunks.push(Bytes::from(vec![b'x'; CHUNK_LEN]));
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
        chunks.free_before(end - 2);
        assert_eq!(chunks.start(), end - 2);
        chunks.free_before(end);
        assert_eq!((chunks.start(), chunks.end(), chunks.len()), (end, end, 0));
        chunks.extend(b"e");
        assert_eq!(chunks.read(end), "e");
    }

    #[test]
    fn a_long_growing_end_becomes_a_chunk() {
        let mut chunks = Chunks::default();
        (0..CHUNK_LEN / 4 + 1).for_each(|_| chunks.extend(b"1234"));
        assert_eq!((chunks.read(0).len(), &chunks.read(CHUNK_LEN as u64)[..]), (CHUNK_LEN, &b"1234"[..]));
    }
}
