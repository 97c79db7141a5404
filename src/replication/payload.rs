//! The file of all data as the primary sends it: with its length in advance, or up to a mark.

use std::io::{self, ErrorKind, Read};

use bytes::{Buf, BytesMut};

use crate::namespace::history::ID_LEN;
use crate::replication::wire::Wire;

/// Number of bytes that are read at once.
const READ_LEN: usize = 64 << 10;

/// Interval of signs of life to the primary, in milliseconds.
const ALIVE_EVERY_MS: u64 = 1000;

/// End of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PayloadEnd {
    /// The file has this many bytes.
    Len(u64),
    /// The file ends before these bytes, which occur nowhere in it.
    Mark([u8; ID_LEN]),
}

impl PayloadEnd {
    /// Reads the line before the file.
    ///
    /// # Errors
    /// If the primary sends no such line, or reports an error.
    pub(super) fn read(wire: &mut Wire) -> io::Result<Self> {
        let line = loop {
            let line = wire.read_line()?;
            if !line.is_empty() {
                break line;
            }
        };
        PayloadEnd::parse(&line).ok_or_else(|| {
            let reason = match line.strip_prefix('-') {
                Some(error) => format!("MASTER aborted replication with an error: {error}"),
                None => format!("Bad protocol from MASTER, it has sent '{line}' in place of a length"),
            };
            io::Error::new(ErrorKind::InvalidData, reason)
        })
    }

    fn parse(line: &str) -> Option<Self> {
        let told = line.strip_prefix('$')?;
        match told.strip_prefix("EOF:") {
            Some(mark) => mark.as_bytes().try_into().ok().map(PayloadEnd::Mark),
            None => told.parse().ok().map(PayloadEnd::Len),
        }
    }

    /// Returns the length, if it is known.
    pub(super) fn len(&self) -> Option<u64> {
        match self {
            PayloadEnd::Len(len) => Some(*len),
            PayloadEnd::Mark(_) => None,
        }
    }
}

/// Reader of a file up to its end, from a connection or another source.
pub(super) struct PayloadReader<R> {
    source: R,
    end: PayloadEnd,
    /// Bytes read and not passed on: at least as many as may be the mark.
    ahead: BytesMut,
    is_over: bool,
}

impl<R: Read> PayloadReader<R> {
    pub(super) fn new(source: R, end: PayloadEnd) -> Self {
        PayloadReader { source, end, ahead: BytesMut::new(), is_over: false }
    }

    fn read_marked(&mut self, mark: [u8; ID_LEN], into: &mut [u8]) -> io::Result<usize> {
        while !self.is_over && self.ahead.len() <= ID_LEN {
            let len = self.ahead.len();
            self.ahead.resize(len + READ_LEN, 0);
            let read = self.source.read(&mut self.ahead[len..]);
            self.ahead.truncate(len + read.as_ref().copied().unwrap_or(0));
            if read? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            // The primary sends nothing behind the mark before the replica has acknowledged the file.
            if self.ahead.ends_with(&mark) {
                self.is_over = true;
                self.ahead.truncate(self.ahead.len() - ID_LEN);
            }
        }
        let kept = if self.is_over { 0 } else { ID_LEN };
        let len = into.len().min(self.ahead.len() - kept);
        self.ahead.copy_to_slice(&mut into[..len]);
        Ok(len)
    }
}

impl<R: Read> Read for PayloadReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.end {
            PayloadEnd::Len(0) => Ok(0),
            PayloadEnd::Len(left) => {
                let max = into.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                let len = self.source.read(&mut into[..max])?;
                if len == 0 && max > 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                self.end = PayloadEnd::Len(left - len as u64);
                Ok(len)
            }
            PayloadEnd::Mark(mark) => self.read_marked(mark, into),
        }
    }
}

/// Reader of a source that sends signs of life to the primary meanwhile.
pub(super) struct KeepAliveReader<'w, R> {
    source: R,
    wire: &'w mut Wire,
    told_ms: u64,
}

impl<'w, R> KeepAliveReader<'w, R> {
    pub(super) fn new(source: R, wire: &'w mut Wire) -> Self {
        let told_ms = wire.now_ms();
        KeepAliveReader { source, wire, told_ms }
    }
}

impl<R: Read> Read for KeepAliveReader<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let now_ms = self.wire.now_ms();
        if now_ms - self.told_ms >= ALIVE_EVERY_MS {
            self.wire.send_sign_of_life()?;
            self.told_ms = now_ms;
        }
        self.source.read(into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns its bytes in pieces of a given length.
    struct Pieces<'b>(&'b [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let len = self.1.min(self.0.len()).min(into.len());
            into[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }

    #[test]
    fn a_file_ends_at_its_length_or_before_its_mark_however_it_is_split() {
        let mark = *b"0123456789abcdef0123456789abcdef01234567";
        let file = [&mark[..39], b"file", &mark[1..]].concat();
        let marked = [&file[..], &mark].concat();
        let followed = [&file[..], b"*1\r\n$4\r\nPING\r\n"].concat();
        for piece in 1..100 {
            let mut read = Vec::new();
            let mut payload = PayloadReader::new(Pieces(&marked, piece), PayloadEnd::Mark(mark));
            payload.read_to_end(&mut read).expect("a file");
            assert_eq!(read, file, "pieces of {piece}");
            let (mut read, len) = (Vec::new(), file.len() as u64);
            let mut payload = PayloadReader::new(Pieces(&followed, piece), PayloadEnd::Len(len));
            payload.read_to_end(&mut read).expect("a file");
            assert_eq!((read, payload.source.0.len()), (file.clone(), followed.len() - file.len()));
            let cut = PayloadReader::new(Pieces(&marked[..marked.len() - 1], piece), PayloadEnd::Mark(mark))
                .read_to_end(&mut Vec::new());
            assert_eq!(cut.map_err(|cause| cause.kind()), Err(ErrorKind::UnexpectedEof));
        }
    }

    #[test]
    fn the_line_before_a_file_tells_its_end() {
        let mark = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(PayloadEnd::parse("$1234"), Some(PayloadEnd::Len(1234)));
        assert_eq!(PayloadEnd::parse(&format!("$EOF:{mark}")), mark.as_bytes().try_into().ok().map(PayloadEnd::Mark));
        for line in ["", "$", "$-1", "$EOF:", "$EOF:0123", "+OK", "$99999999999999999999"] {
            assert_eq!(PayloadEnd::parse(line), None, "{line}");
        }
    }
}
