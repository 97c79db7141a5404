//! `keylatch --healthcheck`: checks whether a server is alive.
//!
//! A container image without a shell has no other program for that. The health check is a minimal client without any
//! part of the server.

mod running;

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::config::Config;
use crate::dial::{Address, TlsOptions, connect, is_alert};

/// Time limit for one address, from the connection to the reply.
const PATIENCE: Duration = Duration::from_secs(2);

/// The first byte of a reply that shows that the server is alive: `+PONG`, an error such as NOAUTH or LOADING, or a TLS
/// alert if the port expects TLS.
const ALIVE: &[u8] = &[b'+', b'-', 0x15];

/// The server to check: the one that the settings describe, unless these options say otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HealthCheckTarget {
    /// `--running`: all servers of this executable that run on this machine, wherever they listen.
    pub running: bool,
    /// `-h`: the host.
    pub host: Option<String>,
    /// `-p`: the port.
    pub port: Option<u16>,
    /// `-s`: the Unix socket.
    pub socket: Option<PathBuf>,
    /// `--tls`: true if the port speaks TLS.
    pub tls: bool,
}

/// Connects, sends PING and waits for the reply.
///
/// # Errors
///
/// If there is no connection or reply within two seconds for each address, or the reply is not RESP.
pub(crate) fn check(target: &HealthCheckTarget, config: &Config) -> io::Result<()> {
    if target.running {
        return ask_running();
    }
    let (address, is_tls) = address_of(target, config)?;
    // No secret is sent, so any certificate is accepted.
    let identity = config.tls_cert_file.clone().zip(config.tls_key_file.clone());
    let tls = TlsOptions { insecure: true, identity, ..TlsOptions::default() };
    ping(&address, is_tls.then_some(&tls))
}

/// Returns the address to connect to, and whether to use TLS.
fn address_of(target: &HealthCheckTarget, config: &Config) -> io::Result<(Address, bool)> {
    if let Some(path) = &target.socket {
        return Ok((Address::Unix(path.clone()), false));
    }
    let host = target.host.clone().unwrap_or_else(|| own_ip(config).to_string());
    if let Some(port) = target.port {
        return Ok((Address::Tcp(host, port), target.tls));
    }
    let unix = config.unixsocket.as_ref().filter(|_| config.port == 0 || config.bind.is_empty());
    match (unix, config.port, config.tls_port) {
        (Some(path), ..) if target.host.is_none() && !target.tls => Ok((Address::Unix(path.clone()), false)),
        (_, port @ 1.., _) if !target.tls => Ok((Address::Tcp(host, port), false)),
        (_, _, port @ 1..) | (_, port @ 1.., 0) => Ok((Address::Tcp(host, port), true)),
        _ => Err(io::Error::other("with port 0 the port is unknown: name it with -p, or use --running")),
    }
}

/// Returns the first address of `bind`; loopback if that means all addresses.
fn own_ip(config: &Config) -> IpAddr {
    let named = config.bind.iter().find_map(|address| address.trim_start_matches('-').parse().ok());
    named.filter(|ip: &IpAddr| !ip.is_unspecified()).unwrap_or(Ipv4Addr::LOCALHOST.into())
}

/// Checks every server of this executable; each must reply at one of its addresses.
fn ask_running() -> io::Result<()> {
    let servers = running::servers()?;
    if servers.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "no server of this executable is running"));
    }
    for addresses in servers {
        let mut failure = io::Error::other("it has no listening socket");
        let is_alive = addresses.iter().any(|address| ping(address, None).map_err(|cause| failure = cause).is_ok());
        if !is_alive {
            return Err(failure);
        }
    }
    Ok(())
}

fn ping(address: &Address, tls: Option<&TlsOptions>) -> io::Result<()> {
    let (asks, asked) = mpsc::channel();
    let (target, tls) = (address.clone(), tls.cloned());
    // On a thread of its own, which ends with the process: a peer that answers slowly, byte by byte, passes every other
    // timeout.
    thread::spawn(move || {
        let first = connect(&target, tls.as_ref()).and_then(|mut stream| {
            stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
            stream.flush()?;
            let mut first = [0];
            stream.read_exact(&mut first)?;
            Ok(first[0])
        });
        let _ = asks.send(first); // nobody waits any more if it was late
    });
    let late = |_| Err(io::Error::new(io::ErrorKind::TimedOut, "no reply within two seconds"));
    let asked = asked.recv_timeout(PATIENCE).unwrap_or_else(late);
    let failed = |cause: io::Error| io::Error::new(cause.kind(), format!("no healthy server at {address}: {cause}"));
    match asked {
        Ok(first) if ALIVE.contains(&first) => Ok(()),
        Ok(_) => Err(failed(io::Error::new(io::ErrorKind::InvalidData, "the reply is not RESP"))),
        // The server requires a client certificate: it is alive, like one that requires a password.
        Err(cause) if is_alert(&cause) => Ok(()),
        Err(cause) => Err(failed(cause)),
    }
}
