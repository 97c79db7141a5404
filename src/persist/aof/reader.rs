//! A file that is read from start to end, of which only the bytes looked at are in memory.

use std::io::{self, Read};

use bytes::{Bytes, BytesMut};

/// Number of bytes that are read at a time.
const READ_LEN: usize = 256 * 1024;

/// The unread rest of a file.
pub(super) struct FileInput<R> {
    read: R,
    /// The next bytes.
    buffer: BytesMut,
    /// Offset in the file of the first byte of `buffer`.
    offset: u64,
    len: u64,
}

impl<R: Read> FileInput<R> {
    /// Creates an input that reads up to offset `len` of a file; `read` begins at `offset`.
    pub(super) fn new(read: R, offset: u64, len: u64) -> Self {
        FileInput { read, buffer: BytesMut::new(), offset, len }
    }

    /// Returns the offset in the file of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn left(&self) -> u64 {
        self.len.saturating_sub(self.offset)
    }

    /// Returns the bytes in memory.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Reads until `want` bytes are in memory; returns the bytes, fewer at the end of the file. Memory grows only with
    /// the real content of the file.
    pub(super) fn fill(&mut self, want: usize) -> io::Result<&[u8]> {
        while self.buffer.len() < want && (self.buffer.len() as u64) < self.left() {
            let have = self.buffer.len();
            let count = (self.left() - have as u64).min(READ_LEN.max(have) as u64) as usize;
            self.buffer.resize(have + count, 0);
            let read = self.read.read(&mut self.buffer[have..]);
            self.buffer.truncate(have + read.as_ref().map_or(0, |count| *count));
            match read {
                Ok(0) => self.len = self.offset + have as u64, // the file has become shorter
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(&self.buffer)
    }

    /// Takes bytes that are in memory.
    pub(super) fn take(&mut self, count: usize) -> Bytes {
        let count = count.min(self.buffer.len());
        self.offset += count as u64;
        self.buffer.split_to(count).freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_piece_by_piece_and_may_be_shorter_than_said() {
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|at| at as u8).collect();
        let mut input = FileInput::new(&bytes[..], 5, 2_000_005);
        assert_eq!(input.fill(10).expect("bytes")[..10], bytes[..10]);
        assert_eq!(
            (input.take(10), input.offset(), input.left()),
            (Bytes::copy_from_slice(&bytes[..10]), 15, 1_999_990)
        );
        assert_eq!(input.fill(600_000).expect("bytes")[..600_000], bytes[10..600_010]);
        assert_eq!(input.fill(usize::MAX).expect("bytes").len(), 999_990);
        assert_eq!((input.take(usize::MAX).len(), input.left(), input.bytes()), (999_990, 0, &[][..]));
    }

    #[test]
    fn no_more_is_read_than_the_length_says() {
        let mut input = FileInput::new(&b"0123456789"[..], 0, 4);
        assert_eq!(input.fill(100).expect("bytes"), b"0123");
    }
}
