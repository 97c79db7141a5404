//! Client connections for the health check and redis-cli: TCP, TLS, Unix socket. They block, so no runtime is needed.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

#[cfg(feature = "tls")]
mod tls;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A host, by name or address, and a port.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(host, port) => write!(f, "{host}:{port}"),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

/// The TLS options of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsOptions {
    /// Whether to accept any server certificate.
    pub insecure: bool,
    /// A PEM file with trusted authorities; without one, those of the system are used.
    pub cacert: Option<PathBuf>,
    /// PEM files with the client's own certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The SNI name; without one, the host's.
    pub sni: Option<String>,
}

/// A connection of any kind.
pub(crate) trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

/// Connects; `patience` is the timeout of connecting and of every read.
///
/// # Errors
/// When the connection is refused, or TLS fails.
pub(crate) fn connect(
    address: &Address,
    tls: Option<&TlsOptions>,
    patience: Option<Duration>,
) -> io::Result<Box<dyn Stream>> {
    match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(patience)?;
            Ok(Box::new(stream))
        }
        Address::Tcp(host, port) => {
            let stream = connect_tcp(host, *port, patience)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(patience)?;
            match tls {
                None => Ok(Box::new(stream)),
                Some(options) => secure(stream, host, options),
            }
        }
    }
}

/// Tries every address of the host.
fn connect_tcp(host: &str, port: u16, patience: Option<Duration>) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for addr in (host, port).to_socket_addrs()? {
        let connected = match patience {
            Some(patience) => TcpStream::connect_timeout(&addr, patience),
            None => TcpStream::connect(addr),
        };
        match connected {
            Ok(stream) => return Ok(stream),
            Err(cause) => failure = cause,
        }
    }
    Err(failure)
}

#[cfg(feature = "tls")]
fn secure(stream: TcpStream, host: &str, options: &TlsOptions) -> io::Result<Box<dyn Stream>> {
    Ok(Box::new(tls::secure(stream, host, options)?))
}

#[cfg(not(feature = "tls"))]
fn secure(_: TcpStream, _: &str, _: &TlsOptions) -> io::Result<Box<dyn Stream>> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this binary was built without TLS"))
}

/// Returns whether the server has closed TLS with an alert: it is alive, and refuses the connection.
pub(crate) fn is_alert(error: &io::Error) -> bool {
    #[cfg(feature = "tls")]
    return tls::is_alert(error);
    #[cfg(not(feature = "tls"))]
    return error.kind() == io::ErrorKind::Unsupported;
}
