//! Reads one file of commands, and finds where it is damaged.
//!
//! A file may have blocks with headers, commands without, as Redis writes them, or both. What is returned has been checked:
//! a block by its checksum, commands without a header by their form. At the first damage reading ends, and the rest of the
//! file decides what that was:
//!
//! - A *torn tail* is what a power cut or a full disk leaves: nothing behind it was written when its place was known to be
//!   durable, as far as the headers behind it say. It may be cut off.
//!   This includes that nothing but a header, or a lost one, comes where a block with a header should end: otherwise Redis
//!   has cut a torn block where a command ends, and appended to it. What it appends within that length is not noticed.
//! - Everything else is *corrupt*: bytes that were durable have changed. Cutting there would lose what was acknowledged.
//!
//! Commands without headers do not say what was durable: a part of a command at the end of the file is a torn tail, as in
//! Redis, and so are zeros in the place of a command, which file systems leave after a power cut.

use std::io::{self, Read};
use std::path::Path;

use bytes::Bytes;
use memchr::memmem;

use crate::persist::aof::block::{
    ANNOTATION_MAX, CHECKSUM_FIELD, HEADER_START, Header, ReadHeader, Running, parse_header,
};
use crate::persist::aof::damage;
use crate::persist::aof::frames::{self, Frame};
use crate::persist::aof::input::Input;
use crate::persist::disk::Disk;

/// About how many bytes of commands without a header are returned at once.
const PIECE_LEN: usize = 64 * 1024;

/// Whole commands that follow each other in a file.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The offset in the file of the first byte.
    pub(crate) offset: u64,
    /// The commands; there may be none in a block.
    pub(crate) bytes: Bytes,
}

/// How a file ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// With a whole command.
    Complete,
    /// With something that was not written whole.
    TornTail {
        /// How many bytes are valid.
        valid_len: u64,
        /// What is wrong behind them.
        reason: String,
    },
    /// It does not only end early: durable bytes are damaged.
    Corrupt {
        /// Where.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
}

/// The valid part of a file, as it has to be known to go on writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Its length.
    pub(crate) len: u64,
    /// The checksum up to there.
    pub(super) sum: Running,
    /// How many bytes its headers say were durable.
    pub(crate) synced: u64,
    /// The last header, if there is any.
    pub(crate) last: Option<Header>,
    /// The position in the log behind the last block; `None` if commands without a header follow it, or there is no block.
    pub(crate) position: Option<u64>,
}

/// Reads a file of commands.
pub(crate) struct SegmentReader<R> {
    input: Input<R>,
    tail: Tail,
    verdict: Option<Verdict>,
}

/// An annotation that was read.
enum Annotation {
    Block(Box<ReadHeader>),
    Other,
    /// It needs at least so many bytes; a text that says what is wrong.
    Damaged(u64, &'static str),
}

/// Returns whether an annotation is the header of a block, even a damaged one.
fn looks_like_header(line: &[u8]) -> bool {
    [&HEADER_START[1..], CHECKSUM_FIELD].iter().any(|part| memmem::find(line, part).is_some())
}

impl Tail {
    /// The tail of an empty file.
    pub(crate) fn empty() -> Self {
        Tail { len: 0, sum: Running::default(), synced: 0, last: None, position: None }
    }

    /// Reads the tail of a file of which the first `len` bytes are valid, and end with a whole command.
    ///
    /// # Errors
    /// When it cannot be read, or is damaged before.
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
    /// Creates a reader of a file of a length.
    pub(crate) fn new(read: R, len: u64) -> Self {
        SegmentReader { input: Input::new(read, 0, len), tail: Tail::empty(), verdict: None }
    }

    /// Returns the next commands; `None` at the end of what is valid.
    ///
    /// # Errors
    /// When the file cannot be read.
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

    /// Returns how the file ends, after [`SegmentReader::next`] has returned `None`.
    pub(crate) fn verdict(&self) -> Verdict {
        self.verdict.clone().unwrap_or(Verdict::Complete)
    }

    /// Returns the valid part of the file, as far as it was read.
    pub(crate) fn tail(&self) -> &Tail {
        &self.tail
    }

    /// Reads a line between commands. That of a header is taken only together with its block.
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
                Some(Frame::Whole(_)) if len >= PIECE_LEN => break None,
                Some(Frame::Whole(more)) => len += more,
                Some(_) if len > 0 => break None, // it comes first the next time
                Some(Frame::Bad(reason)) => break Some((0, reason)),
                Some(Frame::Partial(needed)) => {
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

    /// Takes bytes that are valid and belong to no block.
    fn accept(&mut self, len: usize) -> Bytes {
        let bytes = self.input.take(len);
        self.tail.sum.add(&bytes);
        self.tail.len = self.input.offset();
        bytes
    }

    /// Ends reading at damage. `needed` is how many bytes a command would need that is valid as far as it goes.
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
        self.verdict = Some(match is_torn {
            true => Verdict::TornTail { valid_len: offset, reason: reason.to_owned() },
            false => Verdict::Corrupt { offset, reason: reason.to_owned() },
        });
        Ok(None)
    }
}
