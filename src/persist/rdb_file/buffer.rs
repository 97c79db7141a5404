//! The part of a file that is in memory: filled from its source as records need it, and added to the checksum before it
//! is discarded.

use std::io::{self, Read};

use crate::persist::rdb_file::error::FileDefect;
use crate::rdb::checksum::Checksum;

/// The size of a read, and of the memory that is kept, in bytes.
const CHUNK: usize = 256 << 10;

/// The bytes of a source that were read from it and not yet consumed.
pub(super) struct Buffer<R> {
    source: R,
    /// The memory; its part from `start` to `end` is to be consumed.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// The start of the bytes that are not yet added to the checksum; at most `start`.
    summed: usize,
    /// The number of bytes of the source before `bytes`.
    offset: u64,
    /// The length of the source, if known.
    len: Option<u64>,
    checksum: Option<Checksum>,
}

impl<R: Read> Buffer<R> {
    /// Creates an empty buffer of a source; `len`, if given, limits the bytes read from it. Without `sums`, there is no
    /// checksum.
    pub(super) fn new(source: R, len: Option<u64>, sums: bool) -> Self {
        let checksum = sums.then(Checksum::new);
        Buffer { source, bytes: Vec::new(), start: 0, end: 0, summed: 0, offset: 0, len, checksum }
    }

    /// Returns the bytes that are to be consumed.
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Removes the first bytes of [`Self::unread`].
    pub(super) fn consume(&mut self, len: usize) {
        debug_assert!(len <= self.end - self.start);
        self.start += len;
    }

    /// Returns the number of bytes consumed.
    pub(super) fn offset(&self) -> u64 {
        self.offset + self.start as u64
    }

    /// Returns the number of bytes that the source still has; [`u64::MAX`] if that is not known.
    pub(super) fn left(&self) -> u64 {
        self.len.map_or(u64::MAX, |len| len.saturating_sub(self.offset + self.end as u64))
    }

    /// Reads at least `missing` bytes more. Memory grows no further than the source reaches, and with the bytes
    /// received if the source's length is not known.
    pub(super) fn fill(&mut self, missing: u64) -> Result<(), FileDefect> {
        if missing > self.left() {
            return Err(FileDefect::Truncated { missing: missing - self.left() });
        }
        self.discard_consumed();
        let Some(needed) = usize::try_from(missing).ok().and_then(|missing| self.end.checked_add(missing)) else {
            return Err(FileDefect::Truncated { missing });
        };
        self.give_back(needed);
        while self.end < needed {
            if self.end == self.bytes.len() {
                self.grow(needed);
            }
            let end_max = self.end.saturating_add(usize::try_from(self.left()).unwrap_or(usize::MAX));
            let room = self.end..self.bytes.len().min(end_max);
            match self.source.read(&mut self.bytes[room]) {
                Ok(0) => return Err(FileDefect::Truncated { missing: (needed - self.end) as u64 }),
                Ok(len) => self.end += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(FileDefect::Io(error)),
            }
        }
        Ok(())
    }

    /// Makes room behind the buffered bytes: at once for all that is needed if the source is known to have it,
    /// otherwise by doubling.
    fn grow(&mut self, needed: usize) {
        let doubled = self.end.saturating_mul(2).max(CHUNK);
        let len = if self.len.is_some() { doubled.max(needed) } else { doubled };
        let len_max = self.end.saturating_add(usize::try_from(self.left()).unwrap_or(usize::MAX));
        self.bytes.resize(len.min(len_max), 0);
    }

    /// Releases memory that a long record has needed.
    fn give_back(&mut self, needed: usize) {
        if needed <= CHUNK && self.bytes.len() > CHUNK {
            self.bytes.truncate(CHUNK);
            self.bytes.shrink_to_fit();
        }
    }

    /// Adds the consumed bytes to the checksum, and moves the rest to the beginning.
    fn discard_consumed(&mut self) {
        if self.start > 0 {
            self.sum_consumed();
            self.bytes.copy_within(self.start..self.end, 0);
            self.offset += self.start as u64;
            (self.start, self.end, self.summed) = (0, self.end - self.start, 0);
        }
    }

    fn sum_consumed(&mut self) {
        if let Some(checksum) = &mut self.checksum {
            checksum.update(&self.bytes[self.summed..self.start]);
        }
        self.summed = self.start;
    }

    /// Returns the checksum of the bytes consumed, if there is one.
    pub(super) fn checksum(&mut self) -> Option<u64> {
        self.sum_consumed();
        self.checksum.as_ref().map(Checksum::value)
    }

    /// Returns a reader of everything behind the bytes consumed.
    pub(super) fn into_rest(mut self) -> impl Read {
        self.bytes.truncate(self.end);
        self.bytes.drain(..self.start);
        io::Cursor::new(self.bytes).chain(self.source)
    }
}
