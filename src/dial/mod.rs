//! Client connections for the health check, redis-cli and links to a primary: TCP, TLS, Unix socket. They block, so no
//! runtime is needed; only connections of a program that waits for several events at once do not.

use std::io;
use std::net::TcpStream;
#[cfg(feature = "binary")]
use std::os::unix::net::UnixStream;

mod address;
#[cfg(feature = "binary")]
mod open;
mod stream;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tls")]
pub(crate) mod trust;

#[cfg(feature = "binary")]
pub(crate) use address::Address;
pub(crate) use address::TlsOptions;
#[cfg(feature = "binary")]
pub(crate) use open::{AsyncStream, open};
pub(crate) use stream::Transport;

/// Connects, without a time limit.
///
/// # Errors
/// A refused connection, or a failure of TLS.
#[cfg(feature = "binary")]
pub(crate) fn connect(address: &Address, tls: Option<&TlsOptions>) -> io::Result<Box<dyn Transport>> {
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

/// Performs the TLS handshake with a host.
///
/// # Errors
/// A failed handshake, or a file that cannot be read.
#[cfg(feature = "tls")]
pub(crate) fn secure(stream: TcpStream, host: &str, options: &TlsOptions) -> io::Result<Box<dyn Transport>> {
    Ok(Box::new(tls::secure(stream, host, options)?))
}

/// Fails, as this build has no TLS.
///
/// # Errors
/// Always.
#[cfg(not(feature = "tls"))]
pub(crate) fn secure(_: TcpStream, _: &str, _: &TlsOptions) -> io::Result<Box<dyn Transport>> {
    Err(without_tls())
}

#[cfg(not(feature = "tls"))]
fn without_tls() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "this binary was built without TLS")
}

/// Returns true if the server has closed TLS with an alert: it is alive, and refuses the connection.
#[cfg(feature = "binary")]
pub(crate) fn is_alert(error: &io::Error) -> bool {
    #[cfg(feature = "tls")]
    return tls::is_alert(error);
    #[cfg(not(feature = "tls"))]
    return error.kind() == io::ErrorKind::Unsupported;
}
