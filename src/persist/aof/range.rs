//! A part of the log that is not in memory any more, read from an append-only file for a replica.
//!
//! Commands for replicas alone are not in the file. They are replaced by commands of the same length that change
//! nothing, so that all positions stay the same.

use std::io;

use bytes::Bytes;

use crate::persist::aof::block::{Header, HistoryId};
use crate::persist::aof::directory::PartFile;
use crate::persist::aof::manifest::PartType;
use crate::persist::aof::segment::{SegmentReader, Verdict};
use crate::persist::disk::Disk;
use crate::resp::write_command;

/// Largest length of such a filling command.
const FILLING_MAX: u64 = 32 << 10;
/// Length of a command with one argument, without the name, the argument and the digits of their lengths.
const SHORTEST: u64 = "*2\r\n$4\r\n\r\n$\r\n\r\n".len() as u64;

/// The requested part of the log.
pub(crate) struct LogRange<'r> {
    /// The positions of its start and end; both between commands, and the end not inside a range for replicas alone.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Test that everything before a position in the history with an ID belongs to the requested history.
    pub(crate) is_of_history: &'r dyn Fn(&HistoryId, u64) -> bool,
    /// The first command in place of a missing range, if the range has room for it.
    pub(crate) aside: &'r [u8],
}

/// The files that contain everything before some position.
pub(crate) struct WrittenFiles {
    /// The files, with their lengths at that position or later.
    pub(crate) parts: Vec<PartFile>,
    /// The position at which the last of the files begins, if it is known.
    pub(crate) last_begin: Option<u64>,
}

/// Reads a part of the log; `out` takes it in pieces. Everything before its end must have been written.
///
/// # Errors
/// Files that lack a part of it, are damaged, or cannot be read; errors of `out`.
pub(crate) fn read_range(
    disk: &dyn Disk,
    files: &WrittenFiles,
    range: &LogRange<'_>,
    out: &mut dyn FnMut(Bytes) -> io::Result<()>,
) -> io::Result<()> {
    let mut reading = Reading { range, out, read_to: None, at: None };
    let increments = files.parts.iter().enumerate().filter(|(_, file)| file.part.kind == PartType::Increment);
    for (number, file) in increments {
        if number + 1 == files.parts.len() && reading.at.is_none() {
            // Positions may have begun again.
            let former_end = reading.read_to.filter(|end| files.last_begin.is_none_or(|begin| *end <= begin));
            reading.read_to = former_end.or(files.last_begin);
        }
        let (read, len) = disk.read(&file.path)?;
        let mut segment = SegmentReader::new(read, len.min(file.len));
        while let Some(piece) = segment.next()? {
            let tail = segment.tail();
            let header = tail.last.as_ref().filter(|_| tail.position.is_some());
            reading.block(header, &piece.bytes)?;
            if reading.is_over() {
                return Ok(());
            }
        }
        match segment.verdict() {
            Verdict::Complete if segment.tail().len == file.len => {}
            Verdict::Complete => return Err(missing("a file is shorter than it was")),
            Verdict::TornTail { reason, .. } | Verdict::Corrupt { reason, .. } => return Err(missing(&reason)),
        }
    }
    reading.end()
}

/// Progress of reading a part of the log.
struct Reading<'r> {
    range: &'r LogRange<'r>,
    out: &'r mut dyn FnMut(Bytes) -> io::Result<()>,
    /// The log position up to which everything was read before, if it is known.
    read_to: Option<u64>,
    /// The position up to which the part was found.
    at: Option<u64>,
}

impl Reading<'_> {
    fn is_over(&self) -> bool {
        self.at.is_some_and(|at| at >= self.range.to)
    }

    /// Reads the next block; commands without a header, as Redis writes them, have no position.
    fn block(&mut self, header: Option<&Header>, bytes: &Bytes) -> io::Result<()> {
        let former_end = std::mem::replace(&mut self.read_to, header.map(|header| header.end));
        let len = header.and_then(|header| header.end.checked_sub(header.position));
        let own = len.and_then(|len| (bytes.len() as u64).checked_sub(len));
        let (Some(header), Some(own)) = (header, own) else { return self.pass("it has commands of another program") };
        let is_of_history = header.at.history.is_some_and(|id| (self.range.is_of_history)(&id, header.end));
        // Between two blocks there are only commands for replicas alone, unless positions have begun again.
        let begin = former_end.filter(|end| *end <= header.position);
        if self.at.is_some() && begin.is_none() || !is_of_history {
            return self.pass("it has another history");
        }
        if self.at.is_none() && (begin.unwrap_or(header.position)..header.end).contains(&self.range.from) {
            self.at = Some(self.range.from);
        }
        let Some(at) = self.at else { return Ok(()) };
        self.fill(at, header.position)?;
        let at = at.max(header.position);
        let end = header.end.min(self.range.to);
        if at < end {
            // The bytes before the commands of the log are in the file alone.
            let offset = |position: u64| (own + position - header.position) as usize;
            (self.out)(bytes.slice(offset(at)..offset(end)))?;
        }
        self.at = Some(at.max(end));
        Ok(())
    }

    /// Skips a block before the part; inside the part, fails with `reason`.
    fn pass(&self, reason: &str) -> io::Result<()> {
        if self.at.is_some() { Err(missing(reason)) } else { Ok(()) }
    }

    /// Ends the part at the end of the files: beyond that, only commands for replicas alone come before the end of the
    /// part.
    fn end(&mut self) -> io::Result<()> {
        let from = self.range.from;
        let at = self.at.or(self.read_to.filter(|end| *end <= from).map(|_| from));
        let at = at.ok_or_else(|| missing("it begins later, or has another history"))?;
        self.fill(at, self.range.to)
    }

    /// Emits commands in place of a range that is not in the file.
    fn fill(&mut self, at: u64, to: u64) -> io::Result<()> {
        let (aside, mut left) = (self.range.aside, to.min(self.range.to).saturating_sub(at));
        if left.checked_sub(aside.len() as u64).is_some_and(is_fillable) {
            left -= aside.len() as u64;
            (self.out)(Bytes::copy_from_slice(aside))?;
        }
        while left > 0 {
            let len = if left > 2 * FILLING_MAX { FILLING_MAX } else { left };
            let command = filling(len).ok_or_else(|| missing(&format!("it has no place for {left} bytes")))?;
            (self.out)(command.into())?;
            left -= len;
        }
        Ok(())
    }
}

/// Returns true if a range of this length can be filled with commands that change nothing.
fn is_fillable(len: u64) -> bool {
    len == 0 || filling(len.min(FILLING_MAX)).is_some()
}

/// Returns a command of a given length that changes nothing, and that every server knows; `None` if there is none.
fn filling(len: u64) -> Option<Vec<u8>> {
    let command = |words: &[&[u8]]| {
        let mut command = Vec::new();
        write_command(&mut command, words);
        Some(command).filter(|command| command.len() as u64 == len)
    };
    // A PING has gaps in its lengths, where its text would need another digit for its own length; an EXISTS fills them.
    let with_text = |name: &&[u8]| {
        let text = |digits: u64| len.checked_sub(SHORTEST + name.len() as u64 + digits);
        (1..=5).filter_map(text).find_map(|text| command(&[name, &vec![b'.'; text as usize]]))
    };
    command(&[b"PING"]).or_else(|| [&b"PING"[..], b"EXISTS"].iter().find_map(with_text))
}

fn missing(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the append only file has not all of it: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gap_is_filled_that_commands_for_replicas_can_leave() {
        for len in (20..3000).chain([14, 10_000, 10_023, 10_024, FILLING_MAX, 2 * FILLING_MAX]) {
            assert_eq!(filling(len).map(|command| command.len() as u64), Some(len));
        }
        for len in (1..14).chain(15..20) {
            assert_eq!(filling(len), None);
        }
        assert_eq!(filling(14).as_deref(), Some(&b"*1\r\n$4\r\nPING\r\n"[..]));
        assert_eq!(filling(30).as_deref(), Some(&b"*2\r\n$6\r\nEXISTS\r\n$8\r\n........\r\n"[..]));
    }
}
