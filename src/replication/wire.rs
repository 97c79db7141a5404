//! The connection to a primary, with received bytes that are not used yet.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio_util::codec::Decoder;

use crate::client::info::Peer;
use crate::config::{Config, HostPort};
use crate::dial::{TlsOptions, Transport, secure};
use crate::namespace::role::LinkConnection;
use crate::resp::{Frame, FrameDecoder, FrameLimits, write_command};
use crate::time::clock::Clock;

/// Largest number of bytes that are received at once.
const READ_LEN: usize = 64 << 10;

/// Largest length of a line of the primary.
const LINE_MAX: usize = 1024;

pub(super) struct Wire {
    stream: Box<dyn Transport>,
    /// The socket below the stream.
    socket: TcpStream,
    /// Received bytes that are not used yet.
    input: BytesMut,
    /// Time for which the primary may be silent.
    timeout: Duration,
    /// Time at which the last bytes were received, in milliseconds of the clock.
    heard_ms: u64,
    clock: Clock,
}

impl Wire {
    /// Connects to a primary by the settings.
    pub(super) fn connect(primary: &HostPort, config: &Config) -> io::Result<Self> {
        Self::connect_within(primary, config, Duration::from_secs(config.repl_timeout_s))
    }

    /// Connects to a primary that may be silent for at most `timeout`.
    pub(super) fn connect_within(primary: &HostPort, config: &Config, timeout: Duration) -> io::Result<Self> {
        let mut result = Err(io::Error::new(ErrorKind::NotFound, "the host has no address"));
        for address in (&*primary.host, primary.port).to_socket_addrs()? {
            result = TcpStream::connect_timeout(&address, timeout);
            if result.is_ok() {
                break;
            }
        }
        let socket = result?;
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(timeout))?;
        socket.set_read_timeout(Some(timeout))?;
        let plain = socket.try_clone()?;
        let stream =
            if config.tls_replication { secure(plain, &primary.host, &tls(config)?)? } else { Box::new(plain) };
        let clock = Clock::system(); // runs even while the clock of the data stands still
        Ok(Wire { stream, socket, input: BytesMut::new(), timeout, heard_ms: clock.now().mono_ms(), clock })
    }

    /// Authenticates by the settings.
    pub(super) fn log_in(&mut self, config: &Config) -> io::Result<()> {
        let Some(password) = &config.masterauth else { return Ok(()) };
        match &config.masteruser {
            Some(user) => self.send(&[b"AUTH", user, password])?,
            None => self.send(&[b"AUTH", password])?,
        }
        let reply = self.read_line()?;
        if reply.starts_with('-') {
            let reason = format!("Unable to AUTH to MASTER: {reply}");
            return Err(io::Error::new(ErrorKind::ConnectionRefused, reason));
        }
        Ok(())
    }

    /// Returns the two ends of the connection.
    pub(super) fn peer(&self) -> io::Result<Peer> {
        let [addr, laddr] = [self.socket.peer_addr()?, self.socket.local_addr()?].map(|addr| addr.to_string());
        Ok(Peer { addr: addr.into(), laddr: laddr.into(), fd: self.socket.as_raw_fd().into(), is_unix: false })
    }

    /// Returns the ends of the connection, and a function that ends it from another thread.
    pub(super) fn connection(&self) -> io::Result<LinkConnection> {
        let peer = self.peer()?;
        let stream = self.socket.try_clone()?;
        let hang_up = Box::new(move || _ = stream.shutdown(Shutdown::Both)); // the connection may have ended
        Ok(LinkConnection { peer, hang_up, client: None })
    }

    /// Returns the monotonic time, in milliseconds.
    pub(super) fn now_ms(&self) -> u64 {
        self.clock.now().mono_ms()
    }

    pub(super) fn send(&mut self, args: &[&[u8]]) -> io::Result<()> {
        let mut command = Vec::new();
        write_command(&mut command, args);
        self.stream.write_all(&command)
    }

    /// Sends an empty line as a sign of life.
    pub(super) fn send_sign_of_life(&mut self) -> io::Result<()> {
        self.stream.write_all(b"\n")
    }

    /// Receives a line, without its end.
    ///
    /// # Errors
    /// If the connection has ended, or the primary is silent for too long, or sends a line without an end.
    pub(super) fn read_line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let line = self.input.split_to(end + 1);
                return Ok(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned());
            }
            if self.input.len() > LINE_MAX {
                return Err(io::Error::new(ErrorKind::InvalidData, "the primary has sent a line that is too long"));
            }
            self.receive(self.timeout)?;
        }
    }

    /// Receives a reply within limits, of which `len` applies to the reply's total length in bytes.
    ///
    /// # Errors
    /// Errors of [`Wire::read_line`]; bytes that are no reply, or exceed the limits.
    pub(super) fn read_reply(&mut self, limits: FrameLimits) -> io::Result<Frame> {
        let invalid = |reason: String| io::Error::new(ErrorKind::InvalidData, reason);
        let (mut decoder, mut received) = (FrameDecoder::with_limits(limits), self.input.len());
        loop {
            let decoded = decoder.decode(&mut self.input).map_err(|error| invalid(error.to_string()))?;
            if received - self.input.len() > limits.len || decoded.is_none() && received > limits.len {
                return Err(invalid("the primary has sent a reply that is too long".into()));
            }
            if let Some(frame) = decoded {
                return Ok(frame);
            }
            let left = self.input.len();
            self.receive(self.timeout)?;
            received += self.input.len() - left;
        }
    }

    /// Takes the received bytes, or waits for some for at most `wait`; empty if there are none.
    ///
    /// # Errors
    /// Errors of [`Wire::read_line`].
    pub(super) fn take(&mut self, wait: Duration) -> io::Result<BytesMut> {
        if self.input.is_empty() {
            match self.receive(wait) {
                Err(cause) if is_timeout(&cause) && self.now_ms() - self.heard_ms < self.timeout.as_millis() as u64 => {
                }
                Err(cause) if is_timeout(&cause) => {
                    return Err(io::Error::new(ErrorKind::TimedOut, "no data nor PING received"));
                }
                received => received?,
            }
        }
        Ok(self.input.split())
    }

    fn receive(&mut self, wait: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
        let len = self.input.len();
        self.input.resize(len + READ_LEN, 0);
        let read = loop {
            match self.stream.read(&mut self.input[len..]) {
                // For example after SIGSTOP and SIGCONT: reads with a time limit are not continued by the system.
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.input.truncate(len + read.as_ref().copied().unwrap_or(0));
        match read? {
            0 => Err(io::Error::new(ErrorKind::UnexpectedEof, "the primary has closed the connection")),
            _ => {
                self.heard_ms = self.now_ms();
                Ok(())
            }
        }
    }
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.input.is_empty() {
            self.receive(self.timeout)?;
        }
        let len = into.len().min(self.input.len());
        self.input.copy_to_slice(&mut into[..len]);
        Ok(len)
    }
}

/// Returns the TLS options in the settings.
fn tls(config: &Config) -> io::Result<TlsOptions> {
    let Some(authority) = &config.tls_ca_cert_file else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "tls-replication needs tls-ca-cert-file"));
    };
    Ok(TlsOptions { cacert: Some(authority.clone()), identity: config.link_identity(), ..TlsOptions::default() })
}

/// Returns true if the primary has been silent for too long.
pub(super) fn is_timeout(cause: &io::Error) -> bool {
    matches!(cause.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
