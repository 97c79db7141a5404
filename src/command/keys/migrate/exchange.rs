//! The exchange of MIGRATE with its target: authentication and the database first, then the keys.
//!
//! Invariant: the target is not trusted. It can neither delay the caller for longer than the timeout without progress,
//! nor make this server buffer more than [`LINE_MAX`] and one read of its replies.

use std::io::ErrorKind;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::command::keys::migrate::Migration;
use crate::error::Error;
use crate::resp::{Output, Protocol, Reply};
use crate::text::until_nul;

/// The maximum length of a line of a reply, in bytes; the rest counts as another line, as in Redis.
const LINE_MAX: usize = 1023;
/// The number of bytes written ahead of the target, unless one value is longer.
const PORTION: usize = 64 * 1024;

impl Migration {
    /// Sends the keys to the target and records its replies. If the future is dropped half-way, the replies so far are
    /// recorded.
    pub(crate) async fn exchange(&mut self) {
        self.failure = Some(READING);
        self.failure = self.deliver().await.err();
    }

    async fn deliver(&mut self) -> Result<(), Error> {
        let mut target = Target::connect(&self.host, &self.port, self.timeout).await?;
        target.authenticate_and_select(&self.login, self.target_db).await?;
        let Migration { parcels, accepted, replaces, is_in_topology, clock, .. } = self;
        let has_ended = |index: &usize| parcels[*index].deadline.is_some_and(|deadline| deadline.is_due(clock.now()));
        let sent: Vec<usize> = (0..parcels.len()).filter(|index| !has_ended(index)).collect();
        let (mut to_send, mut to_hear) = (sent.iter(), sent.iter());
        let mut refusal = None;
        let write_next = |out: &mut Output| {
            let Some(parcel) = to_send.next().map(|index| &parcels[*index]) else { return false };
            let ttl_ms = parcel.deadline.map_or(0, |deadline| deadline.remaining_ms(clock.now()).max(1));
            let mut request = Reply::new(out, Protocol::Resp2);
            request.array(if *replaces { 5 } else { 4 });
            request.bulk(if *is_in_topology { b"RESTORE-ASKING" } else { b"RESTORE" });
            request.bulk(&parcel.key);
            request.bulk(itoa::Buffer::new().format(ttl_ms).as_bytes());
            request.bulk_shared(parcel.value.dump());
            if *replaces {
                request.bulk(b"REPLACE");
            }
            true
        };
        let heed = |verdict: Result<(), Error>| match (verdict, to_hear.next()) {
            (Ok(()), index) => accepted.extend(index),
            (Err(error), _) => drop(refusal.get_or_insert(error)),
        };
        target.request(write_next, heed).await?;
        refusal.map_or(Ok(()), Err)
    }
}

/// The names of connection failures in Redis: after the connection was started, all failures but reading count as
/// writing.
const READING: Error = Error::TargetLost("reading");
const WRITING: Error = Error::TargetLost("writing");

/// The connection to a target.
struct Target {
    stream: TcpStream,
    input: BytesMut,
    timeout: Duration,
}

impl Target {
    async fn connect(host: &[u8], port: &[u8], limit: Duration) -> Result<Self, Error> {
        let host = std::str::from_utf8(until_nul(host)).map_err(|_| Error::TargetUnknown)?;
        let port = leading_int(port).ok_or(Error::TargetUnknown)?;
        match timeout(limit, TcpStream::connect((host, port))).await {
            Ok(Ok(stream)) => {
                // Without TCP_NODELAY everything works, a little slower.
                let _ = stream.set_nodelay(true);
                Ok(Target { stream, input: BytesMut::new(), timeout: limit })
            }
            Ok(Err(error)) => Err(match error.kind() {
                ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::HostUnreachable => WRITING,
                _ => Error::TargetUnknown,
            }),
            Err(_) => Err(Error::TargetUnknown),
        }
    }

    /// Authenticates and selects the database. No key is sent before both succeed, because it could end up in a wrong
    /// database.
    async fn authenticate_and_select(&mut self, login: &[Bytes], db: i64) -> Result<(), Error> {
        let db = itoa::Buffer::new().format(db).to_owned();
        let auth: Vec<&[u8]> = std::iter::once(&b"AUTH"[..]).chain(login.iter().map(|word| &word[..])).collect();
        let select = vec![&b"SELECT"[..], db.as_bytes()];
        let mut requests = [(!login.is_empty()).then_some(auth), Some(select)].into_iter().flatten();
        let mut refusal = None;
        let write_next = |out: &mut Output| {
            let Some(words) = requests.next() else { return false };
            let mut request = Reply::new(out, Protocol::Resp2);
            request.array(words.len());
            words.iter().for_each(|word| request.bulk(word));
            true
        };
        let heed = |verdict: Result<(), Error>| {
            if let Err(error) = verdict {
                refusal.get_or_insert(error);
            }
        };
        self.request(write_next, heed).await?;
        refusal.map_or(Ok(()), Err)
    }

    /// Sends the requests that `write_next` writes until it returns false, and passes each reply to `heed`.
    async fn request(
        &mut self,
        mut write_next: impl FnMut(&mut Output) -> bool,
        mut heed: impl FnMut(Result<(), Error>),
    ) -> Result<(), Error> {
        let (mut out, mut awaited, mut has_more) = (Output::new(), 0usize, true);
        loop {
            while has_more && out.len() < PORTION {
                has_more = write_next(&mut out);
                awaited += usize::from(has_more);
            }
            if out.is_empty() && awaited == 0 {
                return Ok(());
            }
            let (mut reader, mut writer) = self.stream.split();
            // Replies are read while requests are written; otherwise both sides could wait for the other to read.
            tokio::select! {
                written = writer.write_buf(&mut out), if !out.is_empty() => {
                    written.ok().filter(|len| *len > 0).ok_or(WRITING)?;
                }
                read = reader.read_buf(&mut self.input) => {
                    read.ok().filter(|len| *len > 0).ok_or(READING)?;
                }
                () = sleep(self.timeout) => return Err(if out.is_empty() { READING } else { WRITING }),
            }
            while let Some(line) = take_line(&mut self.input) {
                awaited = awaited.checked_sub(1).ok_or(READING)?;
                heed(verdict(&line)?);
            }
        }
    }
}

/// Takes a line, without its end, or the maximum length of a line.
fn take_line(input: &mut BytesMut) -> Option<BytesMut> {
    let seen = input.len().min(LINE_MAX);
    let Some(end) = memchr::memchr(b'\n', &input[..seen]) else {
        return (seen == LINE_MAX).then(|| input.split_to(seen));
    };
    let mut line = input.split_to(end + 1);
    line.truncate(if line[..end].ends_with(b"\r") { end - 1 } else { end });
    Some(line)
}

/// Returns the error if a reply is one. Redis counts every non-error as a success; a reply that is not RESP means that
/// nothing was accepted.
fn verdict(line: &[u8]) -> Result<Result<(), Error>, Error> {
    match line.split_first() {
        Some((b'+', _)) => Ok(Ok(())),
        Some((b'-', text)) => {
            let text = until_nul(text).iter().map(|byte| if *byte == b'\r' { b' ' } else { *byte });
            Ok(Err(Error::TargetRefused(text.collect())))
        }
        _ => Err(READING),
    }
}

/// Parses a port as C's `atoi` does, up to the first non-digit; without digits the port is 0, and a negative port is
/// invalid.
fn leading_int(text: &[u8]) -> Option<u16> {
    let text = text.trim_ascii_start();
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if text.first() == Some(&b'-') {
        return None;
    }
    // The resolver takes five digits and keeps 16 bits.
    Some(digits[..count.min(5)].iter().fold(0u32, |port, digit| port * 10 + u32::from(digit - b'0')) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_at_its_end_or_where_it_is_too_long() {
        let mut input = BytesMut::from(&b"+OK\r\n\n-x"[..]);
        assert_eq!(take_line(&mut input).as_deref(), Some(&b"+OK"[..]));
        assert_eq!(take_line(&mut input).as_deref(), Some(&b""[..]));
        assert_eq!(take_line(&mut input), None);
        input.resize(LINE_MAX + 5, b'x');
        assert_eq!(take_line(&mut input).map(|line| line.len()), Some(LINE_MAX));
        assert_eq!((take_line(&mut input), input.len()), (None, 5));
    }

    #[test]
    fn a_port_is_read_as_c_reads_it() {
        let ports = [&b"6379"[..], b" 12x", b"x", b"", b"-1", b"99999"].map(leading_int);
        assert_eq!(ports, [Some(6379), Some(12), Some(0), Some(0), None, Some(99999u32 as u16)]);
    }
}
