//! The two ends of a client's connection.

/// What a listener knows about an accepted connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The peer's address as CLIENT LIST shows it: `ip:port`, or the socket's path and `:0`.
    pub addr: Box<str>,
    /// The server's own address.
    pub laddr: Box<str>,
    /// The file descriptor, or -1.
    pub fd: i64,
    /// Whether it came through the Unix socket.
    pub is_unix: bool,
}

impl Peer {
    /// Returns whether the peer is on this machine: it came through the Unix socket or the loopback interface.
    pub(crate) fn is_local(&self) -> bool {
        self.is_unix || self.addr.starts_with("127.0.0.1:") || self.addr.starts_with("[::1]:")
    }

    /// Returns the peer as MONITOR shows it: the address, or the path of the Unix socket.
    pub(crate) fn shown_addr(&self) -> String {
        match self.addr.strip_suffix(":0") {
            Some(path) if self.is_unix => format!("unix:{path}"),
            _ => self.addr.to_string(),
        }
    }
}
