//! Reader of one file of commands, which finds the damage in it.
//!
//! A file may contain blocks with headers, commands without, as Redis writes them, or both. Everything returned was
//! checked: a block by its checksum, commands without a header by their form. Reading ends at the first damage, and the
//! rest of the file decides on its kind:
//!
//! - A *torn tail* is left by a power cut or a full disk: nothing behind it was written when its place was known to be
//!   durable, as far as the headers behind it say. It may be cut off. This includes a header, or a lost one, in the
//!   place where a block with a header should end: for any other content, Redis has cut a torn block where a command
//!   ends, and appended to it. Commands that it appends within that length are not noticed.
//! - All other damage is *corrupt*: bytes that were durable have changed. Cutting there would lose acknowledged writes.
//!
//! Commands without headers do not say if they were durable: a part of a command at the end of the file is a torn tail,
//! as in Redis, and so are zeros in the place of a command, which file systems leave after a power cut.

use std::io::{self, Read};
use std::path::Path;

use bytes::Bytes;
use memchr::memmem;

use crate::persist::aof::block::{
    ANNOTATION_MAX, CHECKSUM_FIELD, HEADER_START, Header, ReadHeader, RunningChecksum, parse_header,
};
use crate::persist::aof::damage;
use crate::persist::aof::frames::{self, LogFrame};
use crate::persist::aof::reader::FileInput;
use crate::persist::disk::Disk;

/// Approximate number of bytes of commands without a header that are returned at once.
const PIECE_LEN: usize = 64 * 1024;

/// Consecutive whole commands of a file.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Offset of the first byte in the file.
    pub(crate) offset: u64,
    /// The commands; a block may have none.
    pub(crate) bytes: Bytes,
}

/// Result of reading a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The file ends with a whole command.
    Complete,
    /// The file ends with data that was not written completely.
    TornTail {
        valid_len: u64,
        /// Description of the damage behind them.
        reason: String,
    },
    /// Durable bytes are damaged: the file does not only end early.
    Corrupt {
        /// Offset of the damage.
        offset: u64,
        /// Description of the damage.
        reason: String,
    },
}

/// The valid part of a file, with all that is needed to append to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) len: u64,
    /// The checksum up to the end of the valid part.
    pub(super) sum: RunningChecksum,
    /// Number of bytes that were durable by the headers.
    pub(crate) synced: u64,
    pub(crate) last: Option<Header>,
    /// The log position behind the last block; `None` if commands without a header follow it, or there is no block.
    pub(crate) position: Option<u64>,
}

pub(crate) struct SegmentReader<R> {
    input: FileInput<R>,
    tail: Tail,
    verdict: Option<Verdict>,
}

enum Annotation {
    Block(Box<ReadHeader>),
    Other,
    /// Damage, with the least number of bytes that an intact annotation needs, and a description.
    Damaged(u64, &'static str),
}

/// Returns true if an annotation is the header of a block, even a damaged one.
fn looks_like_header(line: &[u8]) -> bool {
    [&HEADER_START[1..], CHECKSUM_FIELD].iter().any(|part| memmem::find(line, part).is_some())
}

impl Tail {
    /// Returns the tail of an empty file.
    pub(crate) fn empty() -> Self {
        Tail { len: 0, sum: RunningChecksum::default(), synced: 0, last: None, position: None }
    }

    /// Reads the tail of a file whose first `len` bytes are valid, and end with a whole command.
    ///
    /// # Errors
    /// A file that cannot be read, or is damaged before `len`.
    pub(crate) fn read(disk: &dyn Disk, path: &Path, len: u64) -> io::Result<Self> {
        let (read, found) = disk.read(path)?;
        let mut reader = SegmentReader::new(read, len.min(found));
        while reader.next()?.is_some() {}
        match reader.verdict() {
            Verdict::Complete if found >= len => Ok(reader.tail),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the file has no whole command up to there")),
        }
    }
}

impl<R: Read> SegmentReader<R> {
    /// Creates a reader of a file of `len` bytes.
    pub(crate) fn new(read: R, len: u64) -> Self {
        SegmentReader { input: FileInput::new(read, 0, len), tail: Tail::empty(), verdict: None }
    }

    /// Returns the next commands; `None` at the end of the valid part.
    ///
    /// # Errors
    /// Errors of reading the file.
    pub(crate) fn next(&mut self) -> io::Result<Option<Piece>> {
        while self.verdict.is_none() {
            let first = self.input.fill(1)?.first().copied();
            let piece = match first {
                None => {
                    self.verdict = Some(Verdict::Complete);
                    None
                }
                Some(b'#') => match self.annotation()? {
                    Annotation::Block(header) => self.block(*header)?,
                    Annotation::Other => None,
                    Annotation::Damaged(needed, reason) => self.end_with_damage(needed, reason)?,
                },
                Some(b'*') => self.commands()?,
                Some(_) => self.end_with_damage(0, "there is neither a command nor an annotation")?,
            };
            if piece.is_some() {
                return Ok(piece);
            }
        }
        Ok(None)
    }

    /// Returns the result for the file, after [`SegmentReader::next`] has returned `None`.
    pub(crate) fn verdict(&self) -> Verdict {
        self.verdict.clone().unwrap_or(Verdict::Complete)
    }

    /// Returns the valid part of the file, as far as it was read.
    pub(crate) fn tail(&self) -> &Tail {
        &self.tail
    }

    /// Reads a line between commands. A header is taken only together with its block.
    fn annotation(&mut self) -> io::Result<Annotation> {
        let bytes = self.input.fill(ANNOTATION_MAX)?;
        let line = &bytes[..bytes.len().min(ANNOTATION_MAX)];
        let Some(len) = line.iter().position(|byte| *byte == b'\n') else {
            let is_at_end = line.len() < ANNOTATION_MAX;
            return Ok(Annotation::Damaged(if is_at_end { u64::MAX } else { 0 }, "an annotation has no end"));
        };
        let line = &line[..len];
        if line.contains(&0) {
            return Ok(Annotation::Damaged(0, "an annotation has a zero"));
        }
        if !looks_like_header(line) {
            self.accept(len + 1);
            return Ok(Annotation::Other);
        }
        let header = line.strip_suffix(b"\r").and_then(parse_header);
        Ok(match header {
            Some(header) => Annotation::Block(header.into()),
            None => Annotation::Damaged(0, "the header of a block is damaged"),
        })
    }

    /// Reads a block whose header comes next.
    fn block(&mut self, read: ReadHeader) -> io::Result<Option<Piece>> {
        let ReadHeader { header, checksum, covered } = read;
        let line_len = covered + b"0123456789abcdef;\r\n".len();
        let whole_len = line_len as u64 + header.len.min(self.input.left());
        if whole_len > self.input.left() || header.len > self.input.left() {
            return self.end_with_damage(0, "the file ends within a block");
        }
        let bytes = self.input.fill(whole_len as usize)?;
        let mut sum = self.tail.sum;
        sum.add(&bytes[..covered]);
        sum.add(bytes.get(line_len..whole_len as usize).unwrap_or_default());
        if sum.value() != checksum || (bytes.len() as u64) < whole_len {
            return self.end_with_damage(0, "the checksum of a block is wrong");
        }
        self.input.take(line_len);
        let offset = self.input.offset();
        let block = self.input.take(header.len as usize);
        self.tail = Tail {
            len: self.input.offset(),
            sum,
            synced: header.synced.min(self.input.offset()),
            position: Some(header.end),
            last: Some(header.clone()),
        };
        Ok(Some(Piece { offset, bytes: block }))
    }

    /// Reads commands that belong to no block.
    fn commands(&mut self) -> io::Result<Option<Piece>> {
        let mut len = 0;
        let fault = loop {
            let bytes = self.input.fill(PIECE_LEN)?;
            match bytes.get(len..).filter(|rest| rest.first() == Some(&b'*')).map(frames::command) {
                None => break None,
                Some(LogFrame::Whole(_)) if len >= PIECE_LEN => break None,
                Some(LogFrame::Whole(more)) => len += more,
                Some(_) if len > 0 => break None, // the rest comes first the next time
                Some(LogFrame::Bad(reason)) => break Some((0, reason)),
                Some(LogFrame::Partial(needed)) => {
                    if needed as u64 > self.input.left() {
                        break Some((needed as u64, "the file ends within a command"));
                    }
                    let growing = needed.max(self.input.bytes().len().saturating_mul(2));
                    self.input.fill(growing)?;
                }
            }
        };
        if let Some((needed, reason)) = fault {
            return self.end_with_damage(needed, reason);
        }
        let offset = self.input.offset();
        let bytes = self.accept(len);
        self.tail.position = None;
        Ok(Some(Piece { offset, bytes }))
    }

    /// Takes valid bytes that belong to no block.
    fn accept(&mut self, len: usize) -> Bytes {
        let bytes = self.input.take(len);
        self.tail.sum.add(&bytes);
        self.tail.len = self.input.offset();
        bytes
    }

    /// Ends reading at damage. `needed` is the number of bytes that a command needs which is valid up to the end of the
    /// file.
    fn end_with_damage(&mut self, needed: u64, reason: &str) -> io::Result<Option<Piece>> {
        let offset = self.input.offset();
        let is_unwritten = match self.input.bytes().first() {
            // Zeros from the end of a command on were never written: a bad sector begins where sectors do.
            Some(0) => true,
            // Behind a block comes a header, or commands of Redis.
            first => first != Some(&b'*') && self.tail.position.is_some(),
        };
        let is_tail = needed > self.input.left() || is_unwritten;
        let after = damage::examine(&mut self.input, self.tail.sum)?;
        let is_possible = !after.was_durable && !after.has_more;
        let is_torn = is_possible && (is_tail || after.has_headers || after.is_zeros);
        self.verdict = Some(if is_torn {
            Verdict::TornTail { valid_len: offset, reason: reason.to_owned() }
        } else {
            Verdict::Corrupt { offset, reason: reason.to_owned() }
        });
        Ok(None)
    }
}
