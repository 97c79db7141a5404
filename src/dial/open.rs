//! Connections that do not block, for a program that waits for several events at once.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

#[cfg(feature = "tls")]
use crate::dial::tls;
use crate::dial::{Address, TlsOptions};

/// Time of silence after which the kernel probes a connection.
const SILENCE: Duration = Duration::from_secs(10);

/// Interval of further probes, and their number before the connection counts as broken.
const REPEAT: Duration = Duration::from_secs(5);
const REPEATS: u32 = 3;

/// A connection of any kind.
pub(crate) trait AsyncStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> AsyncStream for T {}

/// Connects. A vanished peer is noticed after half a minute, even while nothing is sent.
///
/// # Errors
/// A refused connection, or a failure of TLS.
pub(crate) async fn open(address: &Address, tls: Option<&TlsOptions>) -> io::Result<Box<dyn AsyncStream>> {
    match address {
        Address::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        Address::Tcp(host, port) => {
            // Every address of the host is tried.
            let stream = TcpStream::connect((&**host, *port)).await?;
            stream.set_nodelay(true)?;
            let keepalive = TcpKeepalive::new().with_time(SILENCE).with_interval(REPEAT).with_retries(REPEATS);
            SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
            match tls {
                None => Ok(Box::new(stream)),
                Some(options) => secure(stream, host, options).await,
            }
        }
    }
}

#[cfg(feature = "tls")]
async fn secure(stream: TcpStream, host: &str, options: &TlsOptions) -> io::Result<Box<dyn AsyncStream>> {
    Ok(Box::new(tls::secure_async(stream, host, options).await?))
}

#[cfg(not(feature = "tls"))]
async fn secure(_: TcpStream, _: &str, _: &TlsOptions) -> io::Result<Box<dyn AsyncStream>> {
    Err(crate::dial::without_tls())
}
