//! Blocking connection of the clients in this binary.

use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;

use bytes::BytesMut;
use tokio_util::codec::Decoder;

use crate::dial::{Address, TlsOptions, Transport, connect};
use crate::resp::{Frame, FrameDecoder, FrameLimits, write_command};
use crate::text::system_text;

/// The size of one read, in bytes.
const READ_LEN: usize = 64 * 1024;

/// The longest string that a server may send, in bytes: a dump can be longer than a value that a client may send.
const REPLY_LEN_MAX: usize = isize::MAX as usize / 2;

/// Blocking connection to a server.
pub(crate) struct RespConnection {
    stream: Box<dyn Transport>,
    received: BytesMut,
    decoder: FrameDecoder,
}

impl RespConnection {
    /// Connects, without a time limit.
    ///
    /// # Errors
    /// If the connection is refused, or TLS fails.
    pub(crate) fn connect(address: &Address, tls: Option<&TlsOptions>) -> io::Result<Self> {
        let decoder = FrameDecoder::with_limits(FrameLimits { len: REPLY_LEN_MAX, ..FrameLimits::default() });
        let decoder = decoder.with_sent_doubles();
        Ok(RespConnection { stream: connect(address, tls)?, received: BytesMut::new(), decoder })
    }

    /// Returns the socket, by which another thread can end the connection.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.stream.socket()
    }

    /// Sends a command.
    ///
    /// # Errors
    /// If the connection fails.
    pub(crate) fn send(&mut self, words: &[&[u8]]) -> io::Result<()> {
        let mut request = Vec::new();
        write_command(&mut request, words);
        self.write(&request)?;
        self.flush()
    }

    /// Writes a part of a command; it has been sent when [`RespConnection::flush`] returns.
    ///
    /// # Errors
    /// If the connection fails.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends the bytes written so far.
    ///
    /// # Errors
    /// If the connection fails.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }

    /// Waits for a reply, or for a push message.
    ///
    /// # Errors
    /// If the connection fails or ends, or what arrives is not RESP.
    pub(crate) fn receive(&mut self) -> io::Result<Frame> {
        loop {
            if let Some(frame) = self.decoder.decode(&mut self.received).map_err(io::Error::other)? {
                return Ok(frame);
            }
            let mut chunk = [0; READ_LEN];
            match self.stream.read(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                len => self.received.extend_from_slice(&chunk[..len]),
            }
        }
    }
}

/// Returns the reason for which a connection has failed.
pub(crate) fn lost(cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::UnexpectedEof => "Server closed the connection".into(),
        _ => system_text(cause),
    }
}
