//! Client of servers that are restarted, whose connections may end at any time.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};

use crate::harness::{Client, PATIENCE, show};

/// Client that reconnects.
#[derive(Default)]
pub(super) struct Caller {
    connection: Option<(SocketAddr, Client, TcpStream)>,
}

impl Caller {
    /// Sends requests to the server at an address. Returns all replies, or nothing if the connection ends before.
    pub(super) fn ask(&mut self, addr: SocketAddr, requests: &[Vec<u8>]) -> Option<Vec<String>> {
        if self.connection.as_ref().is_none_or(|(known, ..)| *known != addr) {
            self.connection = Self::connect(addr);
        }
        let (_, client, writer) = self.connection.as_mut()?;
        let replies = match writer.write_all(&requests.concat()) {
            Ok(()) => requests.iter().map(|_| client.read_raw().map(|reply| show(&reply))).collect(),
            Err(_) => None,
        };
        if replies.is_none() {
            self.connection = None;
        }
        replies
    }

    fn connect(addr: SocketAddr) -> Option<(SocketAddr, Client, TcpStream)> {
        let stream = TcpStream::connect(addr).ok()?;
        stream.set_nodelay(true).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let writer = stream.try_clone().ok()?;
        Some((addr, Client::over(stream), writer))
    }
}
