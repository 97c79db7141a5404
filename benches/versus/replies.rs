//! Counter of complete replies in a stream, RESP or memcached's text, which does not store them.

use crate::server::Protocol;

/// State of a connection in the stream of replies.
pub struct Replies {
    protocol: Protocol,
    /// Beginning of an incomplete line.
    line: Vec<u8>,
    /// Number of bytes of a value that are still to be skipped.
    skip: usize,
    /// Number of elements that the current reply still lacks; 0 between replies.
    missing: usize,
}

impl Replies {
    pub fn new(protocol: Protocol) -> Replies {
        Replies { protocol, line: Vec::new(), skip: 0, missing: 0 }
    }

    /// Returns the number of replies that end within `bytes`, which follow the bytes passed before.
    ///
    /// # Errors
    /// An error when a reply is an error, so that a benchmark never measures errors.
    pub fn count(&mut self, mut bytes: &[u8]) -> Result<usize, String> {
        let mut complete = 0;
        while !bytes.is_empty() {
            if self.skip > 0 {
                let passed = self.skip.min(bytes.len());
                bytes = &bytes[passed..];
                self.skip -= passed;
                if self.skip == 0 && self.protocol == Protocol::Resp {
                    complete += self.element();
                }
                continue;
            }
            let Some(end) = memchr::memchr(b'\n', bytes) else {
                self.line.extend_from_slice(bytes);
                break;
            };
            complete += if self.line.is_empty() {
                self.line(&bytes[..end])?
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&bytes[..end]);
                self.line(&line)?
            };
            bytes = &bytes[end + 1..];
        }
        Ok(complete)
    }

    fn line(&mut self, line: &[u8]) -> Result<usize, String> {
        let text = || String::from_utf8_lossy(line).trim_end().to_owned();
        let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.trim_end().parse::<i64>().ok();
        match (self.protocol, line.first()) {
            (Protocol::Resp, Some(b'+' | b':')) => Ok(self.element()),
            (Protocol::Resp, Some(b'$')) => match number(&line[1..]).ok_or_else(text)? {
                -1 => Ok(self.element()),
                len => {
                    self.skip = len as usize + 2;
                    Ok(0)
                }
            },
            (Protocol::Resp, Some(b'*')) => match number(&line[1..]).ok_or_else(text)? {
                len if len > 0 => {
                    self.missing = self.missing.saturating_sub(1) + len as usize;
                    Ok(0)
                }
                _ => Ok(self.element()),
            },
            (Protocol::Memcached, Some(b'V')) => {
                let len = line.split(|byte| *byte == b' ').nth(3).and_then(number).ok_or_else(text)?;
                self.skip = len as usize + 2;
                Ok(0)
            }
            (Protocol::Memcached, _) if line == b"END\r" || line == b"STORED\r" => Ok(1),
            _ => Err(text()),
        }
    }

    /// Records that an element is complete; returns 1 if its reply is complete, too.
    fn element(&mut self) -> usize {
        self.missing = self.missing.saturating_sub(1);
        usize::from(self.missing == 0)
    }
}
