//! `keylatch --healthcheck`: asks the server that the same settings would start whether it is alive.
//!
//! A container image without a shell has no other program that could ask. This is a client of a few lines, with no
//! part of the server in it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::Config;

/// How long the server may take to accept, and to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Any line that begins so comes from a server that is alive: `+PONG`, or an error that asks for a password or says that
/// data is being loaded.
const ALIVE: &[u8] = b"+-";

/// Connects to the Unix socket or the TCP port of `config` and waits for the answer to a PING.
///
/// # Errors
///
/// When nobody accepts or answers within two seconds, or the answer is none of RESP.
pub fn ask(config: &Config) -> io::Result<()> {
    match &config.unixsocket {
        Some(path) if config.port == 0 => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            ping(stream)
        }
        _ => {
            let stream = TcpStream::connect_timeout(&address(config), PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            ping(stream)
        }
    }
}

/// Returns where the server listens: on the first address of `bind`, which a server on all addresses also has.
fn address(config: &Config) -> SocketAddr {
    let named = config.bind.iter().find_map(|address| address.trim_start_matches('-').parse().ok());
    let ip = named.filter(|ip: &IpAddr| !ip.is_unspecified()).unwrap_or(Ipv4Addr::LOCALHOST.into());
    SocketAddr::new(ip, config.port)
}

fn ping(mut stream: impl Read + Write) -> io::Result<()> {
    stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
    let mut first = [0];
    stream.read_exact(&mut first)?;
    match ALIVE.contains(&first[0]) {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is not that of a RESP server")),
    }
}
