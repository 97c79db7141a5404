//! Client connections for the health check and redis-cli: TCP, TLS, Unix socket. They block, so no runtime is needed.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

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

/// Connects, and waits for that without a limit.
///
/// # Errors
/// When the connection is refused, or TLS fails.
pub(crate) fn connect(address: &Address, tls: Option<&TlsOptions>) -> io::Result<Box<dyn Stream>> {
    match address {
        Address::Unix(path) => Ok(Box::new(UnixStream::connect(path)?)),
        Address::Tcp(host, port) => {
            // Every address of the host is tried.
            let stream = TcpStream::connect((&**host, *port))?;
            stream.set_nodelay(true)?;
            match tls {
                None => Ok(Box::new(stream)),
                Some(options) => secure(stream, host, options),
            }
        }
    }
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
