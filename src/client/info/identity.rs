//! Identity of a client: the two ends of its connection, and the names that it has set for itself.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;

use crate::memory::heap::list_len;
use crate::store::MemoryAccount;

/// Names that the client has set for itself.
#[derive(Clone, Debug, Default)]
pub struct ClientNames {
    /// From CLIENT SETNAME or HELLO.
    pub name: Box<str>,
    /// From CLIENT SETINFO LIB-NAME.
    pub lib_name: Box<str>,
    /// From CLIENT SETINFO LIB-VER.
    pub lib_ver: Box<str>,
}

impl ClientNames {
    /// Returns the bytes allocated.
    fn memory(&self) -> usize {
        [&self.name, &self.lib_name, &self.lib_ver].map(|name| list_len::<u8>(name.len())).iter().sum()
    }
}

/// Names that are counted as used memory for as long as they are kept.
pub(super) struct CountedNames {
    names: ClientNames,
    memory_account: Arc<MemoryAccount>,
}

impl CountedNames {
    /// Creates empty names.
    pub(super) fn new(memory_account: Arc<MemoryAccount>) -> Self {
        CountedNames { names: ClientNames::default(), memory_account }
    }

    /// Changes the names; returns by how many bytes they have grown.
    pub(super) fn update(&mut self, change: impl FnOnce(&mut ClientNames)) -> isize {
        let before = self.names.memory();
        change(&mut self.names);
        let after = self.names.memory();
        self.memory_account.report_outside(before, after);
        after as isize - before as isize
    }
}

impl Deref for CountedNames {
    type Target = ClientNames;

    fn deref(&self) -> &ClientNames {
        &self.names
    }
}

impl Drop for CountedNames {
    fn drop(&mut self) {
        self.memory_account.report_outside(self.names.memory(), 0);
    }
}

/// Facts that a listener knows about an accepted connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The peer's address as CLIENT LIST shows it: `ip:port`, or the socket's path and `:0`.
    pub addr: Box<str>,
    /// The server's own address.
    pub laddr: Box<str>,
    /// The file descriptor, or -1.
    pub fd: i64,
    /// True if the connection came through the Unix socket.
    pub is_unix: bool,
}

impl Peer {
    /// Returns true if the peer is on this machine: it came through the Unix socket or the loopback interface,
    /// by any of its addresses.
    pub(crate) fn is_local(&self) -> bool {
        let ip = self.addr.parse::<SocketAddr>().map(|addr| addr.ip().to_canonical());
        self.is_unix || ip.is_ok_and(|ip| ip.is_loopback())
    }

    /// Returns the peer as MONITOR shows it: the address, or the path of the Unix socket.
    pub(crate) fn shown_addr(&self) -> String {
        match self.addr.strip_suffix(":0") {
            Some(path) if self.is_unix => format!("unix:{path}"),
            _ => self.addr.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_is_whatever_comes_through_the_loopback_interface_or_the_unix_socket() {
        let peer = |addr: &str, is_unix| Peer { addr: addr.into(), laddr: "".into(), fd: -1, is_unix };
        for addr in ["127.0.0.1:1", "127.0.0.2:80", "127.255.255.254:1", "[::1]:1", "[::ffff:127.0.0.9]:1"] {
            assert!(peer(addr, false).is_local(), "{addr}");
        }
        for addr in
            ["128.0.0.1:1", "10.0.0.1:1", "[::2]:1", "[::ffff:10.0.0.1]:1", "127.0.0.1.example:1", "", "127.0.0.1"]
        {
            assert!(!peer(addr, false).is_local(), "{addr}");
        }
        assert!(peer("/run/keylatch.sock:0", true).is_local());
    }
}
